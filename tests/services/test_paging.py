"""Page cursors are alike in every replica of a store."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pc_store.errors import InvalidCursor, InvalidInput
from pc_store.services.paging import page_cursors


def test_replicas_of_a_store_read_each_others_cursors(shop_db):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: page_cursors(shop_db), range(8)))
    cursor = made[0].seal(["e1", 7], bound_to="list")
    assert {str(one.unseal(cursor, bound_to="list")) for one in made} == {"['e1', 7]"}
    assert made[0].seal(None, bound_to="list") is None
    assert made[0].unseal(None, bound_to="list") is None


def test_a_secret_of_ones_own_takes_the_place_of_the_stores(shop_db):
    own = page_cursors(shop_db, secret="x" * 32)
    with pytest.raises(InvalidCursor):
        page_cursors(shop_db).unseal(own.seal(1, bound_to="list"), bound_to="list")
    with pytest.raises(InvalidInput) as caught:
        page_cursors(shop_db, secret="short")
    assert caught.value.field == "PC_CURSOR_SECRET"
    assert "x" * 32 not in repr(own)
