"""Shadow replays by a scripted author, and what they and their promotion lead to."""

from dataclasses import replace

import pytest
from extraction_rig import SCOPE

from pc_store.domain.proposal import Answered, Proposal
from pc_store.domain.window import parse_key
from pc_store.ledger import artifacts
from pc_store.services import extract, promote
from pc_store.services.clock import now_us

NAME = "prompt-2"


class Author:
    """Proposes what a test says: revisions by the entry's present text, and additions."""

    provider = "script"

    def __init__(self, *, model="one"):
        self.model = model
        self.answers = []
        self.before = lambda: None

    def says(self, *adds, **revisions):
        """The next answer: adds are (text, evidence id), revisions text=(new text, evidence id)."""
        self.answers.append((adds, revisions.get("revise", ())))

    def propose(self, evidence, entries, *, policy):
        del policy
        self.before()
        known = {item.evidence_id for item in evidence}
        by_text = {entry.text: entry.entry_id for entry in entries}
        adds, revisions = self.answers.pop(0)
        proposals = [
            Proposal("revise", "fact", new, cites, by_text[old]) for old, new, *cites in revisions
        ] + [Proposal("add", "fact", new, cites) for new, *cites in adds]
        proposals = [replace(one, evidence_ids=tuple(one.evidence_ids)) for one in proposals]
        assert all(known >= set(one.evidence_ids) for one in proposals)
        return Answered(tuple(proposals))


@pytest.fixture
def author():
    """An author that a test tells what to say next."""
    return Author()


@pytest.fixture
def filled(rig, author):
    """Six sources, each of them an entry, in two processed windows; then the author proposes."""
    fill(rig, author)
    return rig


def fill(rig, author):
    rig.put_facts(6)
    rig.flush_until_idle()
    rig.author = author


def shadow(rig, first, last, *, name=NAME, mode="shadow"):
    key = parse_key(f"{SCOPE}@{first:08d}-{last:08d}")
    return extract.replay(rig.db, rig.settings, rig.author, key, mode=mode, generation=name)


def memory(rig):
    """All that a memory is: head, changes, entries, cursor, and the rows of its revisions."""
    with rig.db.read() as conn:
        made = artifacts.revisions(conn, SCOPE, "memory", "memory", limit=100)
    return rig.head(), rig.changes(), rig.entries(), rig.cursor(), made


def diffed(rig, name=NAME):
    """(what, text, text before, source ids, why) of each item."""
    return [
        (
            item.what,
            item.text,
            item.before.text if item.before else None,
            tuple(ref.source_id for ref in item.sources),
            item.why,
        )
        for item in promote.diff(rig.db, SCOPE, name).items
    ]


def promoted(rig, name=NAME, **more):
    return promote.promote(rig.db, rig.settings, SCOPE, name, now_us=now_us(), **more)
