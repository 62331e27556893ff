"""Defaults, bindings and selections: which scope is meant."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pc_store.domain.scope import binding_key
from pc_store.errors import InvalidInput, ScopeNotFound
from pc_store.services import administer, bind
from pc_store.services.bind import (
    DEFAULT_SCOPE_KEY,
    clear_binding,
    default_scope,
    resolve_binding,
    resolve_selection,
    set_binding,
    set_default_scope,
)

NOW = 1_700_000_000_000_000
KEY = binding_key("git", "repo", "orders")
OTHER = binding_key("git", "repo", "Orders")


def test_the_default_scope_is_made_once_and_can_be_changed(shop_db):
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: default_scope(shop_db, now_us=NOW).scope_id, range(8)))
    assert len(made) == 1
    assert len(administer.list_scopes(shop_db, limit=10)) == 2
    assert set_default_scope(shop_db, "shop").scope_id == "shop"
    assert default_scope(shop_db, now_us=NOW).scope_id == "shop"
    with pytest.raises(ScopeNotFound):
        set_default_scope(shop_db, "none")


def test_a_default_set_before_it_was_needed_is_the_default(shop_db):
    set_default_scope(shop_db, "shop")
    assert default_scope(shop_db, now_us=NOW).scope_id == "shop"
    assert len(administer.list_scopes(shop_db, limit=10)) == 1


def test_a_scope_that_somebody_made_under_the_reserved_key_is_the_default(shop_db):
    made = administer.create_scope(
        shop_db, title="Mine", idempotency_key=DEFAULT_SCOPE_KEY, now_us=NOW
    )
    assert default_scope(shop_db, now_us=NOW) == made


def test_a_binding_is_set_replaced_and_cleared(shop_db):
    administer.create_scope(shop_db, "b", now_us=NOW)
    assert set_binding(shop_db, KEY, "shop", now_us=NOW) == bind.Binding(KEY, "shop")
    assert resolve_binding(shop_db, binding_keys=[OTHER, KEY], now_us=NOW).scope_id == "shop"
    set_binding(shop_db, KEY, "b", now_us=NOW)
    assert resolve_binding(shop_db, binding_keys=[KEY], now_us=NOW).scope_id == "b"
    with pytest.raises(ScopeNotFound):
        set_binding(shop_db, KEY, "none", now_us=NOW)
    assert [clear_binding(shop_db, KEY), clear_binding(shop_db, KEY)] == [True, False]


def test_a_named_scope_comes_first_and_the_default_last(shop_db):
    set_binding(shop_db, KEY, "shop", now_us=NOW)
    administer.create_scope(shop_db, "named", now_us=NOW)
    found = resolve_binding(shop_db, explicit_scope_id="named", binding_keys=[KEY], now_us=NOW)
    assert found.scope_id == "named"
    default = default_scope(shop_db, now_us=NOW)
    assert resolve_binding(shop_db, binding_keys=[OTHER], now_us=NOW) == default
    for asked in ({"allow_default": False}, {"explicit_scope_id": "none"}):
        with pytest.raises(ScopeNotFound):
            resolve_binding(shop_db, **asked, now_us=NOW)


@pytest.mark.parametrize("parts", [("", "k", "e"), (" i", "k", "e"), ("i", "k" * 65, "e")])
def test_a_key_that_breaks_a_rule_is_refused(parts):
    with pytest.raises(InvalidInput):
        binding_key(*parts)


def test_many_that_bind_one_key_at_once_all_succeed(shop_db):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: set_binding(shop_db, KEY, "shop", now_us=NOW), range(16)))
    assert resolve_binding(shop_db, binding_keys=[KEY], now_us=NOW).scope_id == "shop"


def test_selections_name_all_some_or_a_subtree(shop_db):
    for scope_id, parent in (("a", "shop"), ("z", "shop"), ("a1", "z"), ("alone", None)):
        administer.create_scope(shop_db, scope_id, parent_scope_id=parent, now_us=NOW)

    def ids(selection):
        return [scope.scope_id for scope in resolve_selection(shop_db, selection)]

    assert ids({"mode": "all"}) == ["a", "a1", "alone", "shop", "z"]
    assert ids({"mode": "exact", "scope_ids": ["z", "a"]}) == ["z", "a"]
    assert ids({"mode": "subtree", "root_scope_id": "shop"}) == ["shop", "a", "z", "a1"]
    for missing in (
        {"mode": "exact", "scope_ids": ["z", "none"]},
        {"mode": "subtree", "root_scope_id": "none"},
    ):
        with pytest.raises(ScopeNotFound):
            ids(missing)
    for wrong in (
        {},
        {"mode": "some"},
        {"mode": "all", "scope_ids": ["a"]},
        {"mode": "exact", "scope_ids": []},
        {"mode": "exact", "scope_ids": ["a", "a"]},
        {"mode": "exact", "scope_ids": [1]},
        {"mode": "subtree"},
    ):
        with pytest.raises(InvalidInput):
            ids(wrong)
