"""Every scenario of the contract, sent by plain HTTP to `pc serve`, on both databases."""

from importlib import import_module

import pytest
from caller import PlainCaller
from scenario_names import MODULES, PLAIN_ONLY, names

SCENARIOS = [(module, name) for module in (*MODULES, PLAIN_ONLY) for name in names(module)]


@pytest.mark.parametrize(("module", "name"), SCENARIOS, ids=[f"{m}-{n}" for m, n in SCENARIOS])
def test_scenario(served, module, name):
    with served.client() as http:
        getattr(import_module(module), name)(PlainCaller(http, f"plain-{module}-{name}"))
