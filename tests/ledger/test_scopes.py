"""Scopes of any name live side by side, and everything a scope needs is there from the start."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pc_store.domain.scope import Scope, partition_key
from pc_store.domain.source import new_source
from pc_store.errors import Conflict, InvalidInput, NotFound
from pc_store.services import administer, capture, remember
from pc_store.services.administer import ScopeStatus

NOW = 1_700_000_000_000_000
ODD = (
    *("a/b", "a|b", "a,b", "a@b", "a%2Fb", "a~b", "a\nb", "...", ".", "..", " a", "a ", "%", "*"),
    *("Alpha", "alpha", "ALPHA", "\u00e1lpha", "a\u0301lpha"),
    *("汉字", "汉" * 256, "汉" * 255 + "字", "😀" * 256),
)


def test_scopes_with_odd_names_never_meet(db):
    made = {scope_id: administer.create_scope(db, scope_id, now_us=NOW) for scope_id in ODD}
    for scope_id in ODD:
        capture.capture(db, scope_id, new_source("s1", f"of {scope_id!a}"), now_us=NOW)
        remember.remember(db, scope_id, kind="fact", text=f"of {scope_id!a}", now_us=NOW)
    for scope_id, scope in made.items():
        assert scope.key == partition_key(scope_id)
        assert administer.get_scope(db, scope_id) == scope
        assert administer.get_scope_by_key(db, scope.key) == scope
        [source] = capture.list_sources(db, scope_id, limit=9)
        assert source.content == f"of {scope_id!a}"
        _, [entry] = remember.list_entries(db, scope_id, limit=9)
        assert entry.entry.text == f"of {scope_id!a}"
    assert administer.scope_keys(db, ODD) == {scope.scope_id: scope.key for scope in made.values()}


def test_scopes_are_listed_in_the_order_of_their_bytes_page_by_page(db):
    for scope_id in ODD:
        administer.create_scope(db, scope_id, now_us=NOW)
    listed, after = [], ""
    while page := administer.list_scopes(db, after=after, limit=7):
        listed += [scope.scope_id for scope in page]
        after = listed[-1]
    assert listed == sorted(ODD, key=str.encode)


def test_a_new_scope_is_all_there_and_empty(db):
    scope = administer.create_scope(db, "orders", title="Orders", summary="of 2026", now_us=NOW)
    assert scope == Scope("orders", "orders", "Orders", "of 2026", 1, NOW)
    assert administer.scope_status(db, "orders") == ScopeStatus(
        scope=scope,
        high_watermark=0,
        cursors={"memory": 0, "experience": 0, "recurrence": 0},
        memory_revision=0,
        active_entries=0,
        inactive_entries=0,
        quarantined=0,
        open_window=None,
    )


def test_a_scope_is_named_after_its_id_unless_told_otherwise(db):
    assert administer.create_scope(db, "汉" * 256, now_us=NOW).title == "汉" * 256
    scope = administer.create_scope(db, "orders", title="Orders", now_us=NOW)
    assert (scope.title, scope.summary) == ("Orders", "Orders")


def test_an_id_is_taken_once_and_the_first_scope_stays_as_it_was(db):
    scope = administer.create_scope(db, "orders", title="first", now_us=NOW)
    with pytest.raises(Conflict) as caught:
        administer.create_scope(db, "orders", title="second", now_us=NOW + 1)
    assert caught.value.details == {"scope_id": "orders"}
    assert administer.ensure_scope(db, "orders", now_us=NOW + 2) == scope


def test_of_many_who_create_a_scope_at_once_one_does_and_all_get_it(db):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda at: administer.ensure_scope(db, "orders", now_us=at), range(8)))
    assert made == [administer.get_scope(db, "orders")] * 8


def test_a_scope_that_breaks_a_rule_leaves_no_trace(db):
    for call in (
        lambda: administer.create_scope(db, "", now_us=NOW),
        lambda: administer.create_scope(db, "orders", title=" ", now_us=NOW),
        lambda: administer.create_scope(db, "orders", summary="x" * 2_001, now_us=NOW),
        lambda: administer.create_scope(db, "or\x00ders", now_us=NOW),
    ):
        with pytest.raises(InvalidInput):
            call()
    assert administer.list_scopes(db, limit=9) == []


def test_a_scope_that_is_not_there_is_not_found(db):
    administer.create_scope(db, "orders", now_us=NOW)
    for call in (administer.get_scope, administer.get_scope_by_key, administer.scope_status):
        with pytest.raises(NotFound):
            call(db, "Orders")
