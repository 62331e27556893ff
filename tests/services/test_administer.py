"""Scopes: what they may say of themselves, creation keys, versions, and how they are found."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from pc_store.domain.scope import binding_key
from pc_store.errors import (
    Conflict,
    InvalidInput,
    InvalidScopeRelationship,
    ScopeIdempotencyConflict,
    ScopeNotFound,
    ScopeVersionConflict,
)
from pc_store.services import administer, bind
from pc_store.services.administer import create_scope, find_scopes, get_scope, update_scope

NOW = 1_700_000_000_000_000


def make(db, scope_id=None, **more):
    more.setdefault("title", "A title")
    return create_scope(db, scope_id, **more, now_us=NOW)


def ids(page):
    return [scope.scope_id for scope in page.scopes]


def test_a_scope_is_made_under_an_id_of_its_own_unless_one_is_given(shop_db):
    made = make(shop_db, title="Orders", summary="All orders")
    assert re.fullmatch(r"scp_[0-9a-hjkmnp-tv-z]{26}", made.scope_id)
    assert (made.title, made.summary, made.version) == ("Orders", "All orders", 1)
    assert make(shop_db, "Ünï/kode").scope_id == "Ünï/kode"
    with pytest.raises(Conflict):
        make(shop_db, "Ünï/kode")
    with pytest.raises(InvalidInput) as caught:
        create_scope(shop_db, now_us=NOW)
    assert caught.value.field == "title"


def test_relations_are_kept_sorted_and_must_exist(shop_db):
    parent = make(shop_db, "p")
    made = make(
        shop_db,
        "c",
        parent_scope_id="p",
        context_references=["shop", "p"],
        external_references=[{"kind": "z", "value": "1"}, {"kind": "a", "value": "1"}],
    )
    assert made.parent_scope_id == parent.scope_id
    assert made.context_references == ("p", "shop")
    assert made.external_references == (
        {"kind": "z", "value": "1"},
        {"kind": "a", "value": "1"},
    )
    assert get_scope(shop_db, "c") == made
    for wrong in ({"parent_scope_id": "none"}, {"context_references": ["none"]}):
        with pytest.raises(ScopeNotFound) as caught:
            make(shop_db, **wrong)
        assert caught.value.details == {"scope_id": "none"}


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("context_references", ["shop", "shop"]),
        ("external_references", [{"kind": "a", "value": "1"}, {"value": "1", "kind": "a"}]),
        ("external_references", [{"kind": "a"}]),
        ("external_references.value", [{"kind": "a", "value": " "}]),
        ("external_references.kind", [{"kind": "k" * 129, "value": "1"}]),
    ],
)
def test_relations_that_break_a_rule_are_refused_by_name(shop_db, field, values):
    with pytest.raises(InvalidInput) as caught:
        make(shop_db, **{field.split(".")[0]: values})
    assert caught.value.field == field


def test_a_creation_key_makes_one_scope(shop_db):
    made = make(shop_db, idempotency_key="k", summary="s")
    assert make(shop_db, idempotency_key="k", summary="s") == made
    with pytest.raises(ScopeIdempotencyConflict):
        make(shop_db, idempotency_key="k", summary="other")
    with pytest.raises(InvalidInput):
        make(shop_db, idempotency_key=" k")
    update_scope(shop_db, made.scope_id, expected_version=1, title="New", summary="s")
    assert make(shop_db, idempotency_key="k", summary="s").title == "New"


def test_a_creation_that_fails_leaves_its_key_free(shop_db):
    with pytest.raises(ScopeNotFound):
        make(shop_db, idempotency_key="k", parent_scope_id="none")
    assert make(shop_db, idempotency_key="k").version == 1


def test_of_creations_at_once_under_one_key_all_get_the_same_scope(shop_db):
    with ThreadPoolExecutor(8) as pool:
        made = {
            scope.scope_id
            for scope in pool.map(lambda _: make(shop_db, idempotency_key="k"), range(8))
        }
    assert len(made) == 1
    assert len(administer.list_scopes(shop_db, limit=10)) == 2


def test_an_update_replaces_everything_and_needs_the_version(shop_db):
    make(shop_db, "p")
    changed = update_scope(
        shop_db, "shop", expected_version=1, title="T", summary="S", parent_scope_id="p"
    )
    assert (changed.title, changed.version, changed.parent_scope_id) == ("T", 2, "p")
    assert update_scope(shop_db, "shop", expected_version=2, title="T", summary="S").version == 3
    with pytest.raises(ScopeVersionConflict) as caught:
        update_scope(shop_db, "shop", expected_version=1, title="T", summary="S")
    assert caught.value.details == {"expected_version": 1, "current_version": 3}
    with pytest.raises(ScopeNotFound):
        update_scope(shop_db, "none", expected_version=1, title="T", summary="S")
    assert get_scope(shop_db, "shop").parent_scope_id is None


def test_a_scope_cannot_be_among_its_own_ancestors_or_references(shop_db):
    make(shop_db, "a")
    make(shop_db, "b", parent_scope_id="a")
    make(shop_db, "c", parent_scope_id="b")

    def refused(**wrong):
        with pytest.raises(InvalidScopeRelationship) as caught:
            update_scope(shop_db, "a", expected_version=1, title="T", summary="S", **wrong)
        return caught.value

    assert refused(parent_scope_id="c").details == {
        "relationship": "Parent",
        "issue": "relationships must be acyclic",
    }
    assert refused(parent_scope_id="a").code == "invalid_scope_relationship"
    assert refused(context_references=["a"]).details["relationship"] == "Context Reference"


def test_two_updates_at_once_cannot_close_a_circle(shop_db):
    for number in range(5):
        make(shop_db, f"x{number}")
        make(shop_db, f"y{number}")

        def adopt(pair):
            try:
                update_scope(
                    shop_db,
                    pair[0],
                    expected_version=1,
                    title="T",
                    summary="S",
                    parent_scope_id=pair[1],
                )
            except InvalidScopeRelationship:
                return "refused"
            return "done"

        pairs = [(f"x{number}", f"y{number}"), (f"y{number}", f"x{number}")]
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(adopt, pairs)) == ["done", "refused"]


def test_scopes_are_found_by_what_they_say(shop_db):
    references = [{"kind": "repo", "value": "git.example/orders"}, {"kind": "doc", "value": "x"}]
    make(shop_db, "a", title="Orders", external_references=references)
    make(shop_db, "b", title="orders", parent_scope_id="a")
    bind.set_binding(shop_db, binding_key("git", "repo", "orders.git"), "b", now_us=NOW)
    bind.set_binding(shop_db, binding_key("git", "branch", "main"), "a", now_us=NOW)
    for asked, expected in [
        ({}, ["a", "b", "shop"]),
        ({"query": "rders", "query_field": "title"}, ["a", "b"]),
        ({"query": "Ord", "query_field": "title"}, ["a"]),
        ({"query": "%", "query_field": "title"}, []),
        ({"query": "o", "query_field": "scope_id"}, ["shop"]),
        ({"parent_scope_id": "a"}, ["b"]),
        ({"parent_scope_id": "none"}, []),
        ({"external_reference_kind": "doc"}, ["a"]),
        ({"query": "orders", "query_field": "external_reference_value"}, ["a"]),
        (
            {
                "query": "orders",
                "query_field": "external_reference_value",
                "external_reference_kind": "doc",
            },
            [],
        ),
        ({"binding_integration": "git"}, ["a", "b"]),
        ({"binding_integration": "git", "binding_kind": "repo"}, ["b"]),
        ({"query": "main", "query_field": "binding_external_id"}, ["a"]),
        (
            {
                "query": "main",
                "query_field": "binding_external_id",
                "binding_kind": "repo",
            },
            [],
        ),
    ]:
        assert ids(find_scopes(shop_db, **asked)) == expected, asked


def test_pages_cover_every_scope_once(shop_db):
    for number in range(6):
        make(shop_db, f"s{number}", title="even" if number % 2 == 0 else "odd")
    seen, after = [], None
    while True:
        page = find_scopes(shop_db, query="even", query_field="title", after=after, limit=2)
        seen += ids(page)
        after = page.next_after
        if after is None:
            break
    assert seen == ["s0", "s2", "s4"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"query": "a"}, "query"),
        ({"query_field": "title"}, "query"),
        ({"query": "a", "query_field": "version"}, "query_field"),
        ({"query": "a" * 257, "query_field": "title"}, "query"),
        ({"query": "a\0", "query_field": "title"}, "query"),
        ({"parent_scope_id": "\0"}, "query"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
    ],
)
def test_a_search_that_breaks_a_rule_is_refused_by_name(shop_db, asked, field):
    with pytest.raises(InvalidInput) as caught:
        find_scopes(shop_db, **asked)
    assert caught.value.field == field
