"""A ledger of either kind with the scope `shop`, and the fixtures that several files share."""

import pytest
from compass import compass, compass_store
from desk import Desk, put
from dreaming import Sleeper
from indexed import settings
from shadowing import author, filled

from pc_store.ledger.database import open_database
from pc_store.services import administer

__all__ = ["author", "compass", "compass_store", "filled", "settings"]
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
def desk(shop_db):
    """The review of `shop`, whose log holds the sources s1, s2 and log."""
    put(shop_db, "s1", "s2", "log")
    return Desk(shop_db)


@pytest.fixture
def sleeper(rig):
    return Sleeper(rig)
