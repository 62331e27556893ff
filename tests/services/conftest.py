"""A ledger of either kind with the scope `shop`, and a rig for dreams."""

import pytest
from dreaming import Sleeper

from pc_store.ledger.database import open_database
from pc_store.services import administer

NOW = 1_700_000_000_000_000


def _with_shop(url):
    database = open_database(url)
    administer.create_scope(database, "shop", now_us=NOW)
    database.close()


@pytest.fixture
def shop_db(new_database):
    database = open_database(new_database(_with_shop))
    yield database
    database.close()


@pytest.fixture
def sleeper(rig):
    return Sleeper(rig)
