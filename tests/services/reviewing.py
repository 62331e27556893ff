"""What tests of proposals and reviews share beyond the desk, mostly ways to read things back."""

from desk import NOW, SCOPE, rows

from pc_store.domain.entry import Draft
from pc_store.ledger.schema import experience_documents
from pc_store.services import experiences, review
from pc_store.services.commit import commit_drafts
from pc_store.services.remember import cite

LATER = NOW + 1_000_000
KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


def listed(desk, **more):
    return list(review.list_candidates(desk.db, SCOPE, **more).items)


def read(desk, ref):
    return experiences.read_experience(desk.db, SCOPE, ref)


def documents(db):
    return rows(db, experience_documents)["experience_documents"]


def extracted(db, text, *refs):
    """An entry that stands on sources."""
    with db.write() as conn:
        done = commit_drafts(
            conn,
            SCOPE,
            [Draft("add", "fact", text, tuple(refs))],
            origin="extraction",
            now_us=NOW,
            lineage_sources=refs,
        )
    return cite(db, SCOPE, done.changed[0].entry_id).citation
