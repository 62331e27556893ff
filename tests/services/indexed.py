"""A store whose search index has four shards, seen through the shard of the scope `shop`."""

import pytest
import sqlalchemy as sa

from pc_store.domain.text import digest
from pc_store.ledger.schema import artifact_revisions, experience_documents
from pc_store.search import shards
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import remember
from pc_store.services.index import build, shard_count
from pc_store.services.index import status as statuses
from pc_store.services.index_check import verify
from pc_store.services.index_rules import RULES
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
MINUTE = 60_000_000


@pytest.fixture
def settings(tmp_path):
    """Settings of a home of its own, whose index has four shards."""
    return Settings(home=tmp_path, index_shards=4)


def add(db, *texts, scope="shop", now=NOW):
    entries = [remember.NewEntry("fact", text) for text in texts]
    return remember.remember_batch(db, scope, entries, now_us=now).entries


def cited(db, text):
    """The citation, as of now, of the entry with a text."""
    _, entries = remember.list_entries(db, "shop", limit=100)
    return next(one.citation for one in entries if one.entry.text == text)


def add_experience(db, name, text, *, revision=1, now=NOW):
    table = experience_documents
    content = {
        "situation": text,
        "action": "Looked.",
        "outcome": "Found.",
        "lesson": "Look.",
        "failure": None,
    }
    with db.write() as conn:
        conn.execute(
            sa.insert(artifact_revisions).values(
                scope_id="shop",
                family="experience",
                artifact_id=name,
                revision=revision,
                content=content,
                origin="explicit",
                created_at=now,
            )
        )
        conn.execute(sa.delete(table).where(table.c.artifact_id == name))
        conn.execute(
            sa.insert(table).values(
                scope_id="shop",
                artifact_id=name,
                revision=revision,
                text=text,
                text_digest=digest(text),
                terms=terms_of(text),
                terms_version=TOKENISER,
                updated_at=now,
            )
        )


def shop(db, settings):
    """The status of the shard that `shop` belongs to."""
    count = shard_count(db, settings)
    return statuses(db, settings)[shards.shard_of("shop", count)]


def built(db, settings, **options):
    """Build the shard that `shop` belongs to."""
    return build(db, settings, shop(db, settings).shard, **options)


def findings(db, settings, *, now=None):
    """What each check complains of."""
    found = verify(db, settings, now_us=now or NOW)
    assert [one.check for one in found] == [rule.name for rule in RULES]
    return {one.check: one.rows for one in found if not one.passed}
