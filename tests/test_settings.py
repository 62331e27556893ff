"""The settings, as the environment has them now."""

import pytest

from pc_store.errors import InvalidInput
from pc_store.settings import Settings


@pytest.mark.parametrize("name", ["PC_LEASE_S", "pc_lease_s"])
def test_settings_are_read_anew_once_the_environment_changed(monkeypatch, name):
    assert Settings.load().lease_s == 60
    monkeypatch.setenv(name, "90")
    assert Settings.load().lease_s == 90
    monkeypatch.setenv(name, "soon")
    for _ in range(2):
        with pytest.raises(InvalidInput, match="PC_LEASE_S"):
            Settings.load()
    monkeypatch.delenv(name)
    assert Settings.load().lease_s == 60


def test_settings_are_made_once_while_the_environment_stays(monkeypatch):
    monkeypatch.setenv("PC_LEASE_S", "90")
    first = Settings.load()
    monkeypatch.setenv("OTHER", "1")
    assert Settings.load() is first
