"""Checking the search index: each rule finds what breaks it, and a sound index passes."""

import json

from indexed import NOW, add, add_experience, built, findings, shop

from pc_store.ledger.database import open_database
from pc_store.search import shards
from pc_store.services import administer, find
from pc_store.services.index_check import verify


def test_a_sound_index_passes_every_check(shop_db, settings):
    add(shop_db, "Amounts are cents.", "金额以整数分存储。", "Prices include VAT, always.")
    add_experience(shop_db, "exp_1", "When imports fail, read the row number.")
    assert findings(shop_db, settings) == {}  # nothing has waited long yet
    built(shop_db, settings)
    add(shop_db, "Late.")
    assert findings(shop_db, settings) == {}


def test_what_waited_too_long_is_told(shop_db, settings):
    add(shop_db, "One.")
    late = findings(shop_db, settings, now=NOW + 1_201_000_000)
    name = shop(shop_db, settings).name
    assert late == {
        "index_covers_ledger": [
            {
                "shard": name,
                "scope_id": "all",
                "why": "1 changes are not in it, the oldest for 1201 s",
            }
        ]
    }


def test_a_part_of_another_ledger_is_told_though_the_revisions_fit(shop_db, settings, tmp_path):
    add(shop_db, "One.")
    built(shop_db, settings)
    other = open_database(f"sqlite:///{tmp_path}/other.db")
    administer.create_scope(other, "shop", now_us=NOW)
    add(other, "Another.")
    add(other, "More.")
    rows = findings(other, settings)["index_covers_ledger"]
    assert [(row["scope_id"], row["why"]) for row in rows] == [
        ("shop", "it was built from another ledger")
    ]
    other.close()


def test_an_index_that_answers_wrongly_is_told(shop_db, settings):
    texts = [f"Rule {number} forbids raw retries of imports." for number in range(8)]
    add(shop_db, *texts)
    path = built(shop_db, settings).built.path
    spoil(path)
    rows = findings(shop_db, settings)["index_agrees_with_exact_search"]
    assert {row["mode"] for row in rows} <= {"fts", "vector"}
    assert all(row["scope_id"] == "shop" and "without the index" in row["why"] for row in rows)
    assert "forbids" not in json.dumps(rows)


def spoil(path):
    """Move every posting of a file by one document, as a bug might."""
    import duckdb

    shards.close_all()
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "UPDATE postings SET docs = list_transform(docs, lambda one: (one + 1) % 8)"
        )
        connection.execute("CHECKPOINT")


def test_an_hnsw_index_is_measured(shop_db, settings):
    settings = settings.model_copy(update={"hnsw_min_rows": 50})
    add(shop_db, *(f"Rule {number} of chapter {number % 7} forbids it." for number in range(90)))
    done = built(shop_db, settings)
    assert done.after.hnsw_scopes == 1
    assert findings(shop_db, settings) == {}
    found = find.search(shop_db, settings, "shop", "Which rule forbids it?", mode="vector")
    assert found.hits


def test_only_the_shards_and_rules_asked_for_are_checked(shop_db, settings):
    add(shop_db, "One.")
    number = shop(shop_db, settings).shard
    late = NOW + 10**12
    others = [one for one in range(4) if one != number]
    assert all(one.passed for one in verify(shop_db, settings, only=others, now_us=late))
    [found] = verify(shop_db, settings, only=[number], names=["index_covers_ledger"], now_us=late)
    assert found.count == 1
