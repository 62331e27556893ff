"""What the tests of extraction share: a ledger of either kind, a model endpoint, and ways to look.

Loaded by `conftest.py`. Knows no rule of the product: it writes sources, runs windows and reads
rows back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from model_stub import MODEL, ModelStub

from pc_store.domain.proposal import Usage
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.source import new_source
from pc_store.domain.window import parse_key
from pc_store.errors import StoreError
from pc_store.ledger import artifacts, cursors, windows
from pc_store.ledger.database import Database, open_database
from pc_store.ledger.schema import memory_changes, window_drafts
from pc_store.ledger.windows import WindowRow
from pc_store.llm.client import OpenAIProposer
from pc_store.services import administer, capture, extract
from pc_store.services import remember as writing
from pc_store.services.audit import audit
from pc_store.services.clock import now_us
from pc_store.services.remember import Cited
from pc_store.settings import Settings

SCOPE = "shop"


def migrated(url: str) -> None:
    open_database(url).close()


@dataclass
class Rig:
    """One ledger with the scope `shop`, settings, and a proposer that asks the stub."""

    db: Database
    url: str
    settings: Settings
    stub: ModelStub
    model: OpenAIProposer

    def put(self, *contents: str, first: int = 1, scope: str = SCOPE, **more: Any) -> None:
        """Append sources s1, s2 …, numbered from `first`."""
        offered = [
            new_source(f"s{number}", content, **more)
            for number, content in enumerate(contents, start=first)
        ]
        for one in capture.capture_many(self.db, scope, offered, now_us=now_us()):
            assert one.status == "new"

    def put_facts(self, count: int, *, first: int = 1, scope: str = SCOPE) -> None:
        """Append sources that the unscripted stub turns into one entry each, `fact(n)`."""
        numbers = range(first, first + count)
        self.put(*(f"{fact(number)} Lunch." for number in numbers), first=first, scope=scope)

    def flush(self, scope: str = SCOPE, **settings: Any) -> extract.Processed:
        chosen = self.settings.model_copy(update=settings)
        return extract.flush(self.db, chosen, self.model, scope)

    def fails(self, scope: str = SCOPE, **settings: Any) -> StoreError:
        """Flush, and return the error that it must raise."""
        with pytest.raises(StoreError) as caught:
            self.flush(scope, **settings)
        return caught.value

    def flush_until_idle(self, scope: str = SCOPE, *, most: int = 400) -> list[StoreError | None]:
        """Flush as a scheduler would, on and on; return how each attempt went, None for well."""
        went: list[StoreError | None] = []
        for _ in range(most):
            try:
                if self.flush(scope).status == "idle":
                    return went
                went.append(None)
            except StoreError as error:
                went.append(error)
        raise AssertionError(f"not idle after {most} flushes")

    def replay(self, first: int, last: int, *, mode: Any = "replay") -> extract.Processed:
        key = parse_key(f"{SCOPE}@{first:08d}-{last:08d}")
        return extract.replay(self.db, self.settings, self.model, key, mode=mode)

    def cursor(self, scope: str = SCOPE) -> int:
        with self.db.read() as conn:
            return cursors.get(conn, scope, "memory").position

    def windows(self, scope: str = SCOPE) -> list[WindowRow]:
        """Every window of the scope, oldest first."""
        with self.db.read() as conn:
            return windows.page(conn, scope_id=scope, limit=10_000)[::-1]

    def last(self, scope: str = SCOPE) -> WindowRow:
        return self.windows(scope)[-1]

    def ranges(self, *statuses: str, scope: str = SCOPE) -> list[tuple[int, int]]:
        return [(row.after, row.through) for row in self.windows(scope) if row.status in statuses]

    def head(self, scope: str = SCOPE) -> int:
        memory, _ = writing.list_entries(self.db, scope, limit=1)
        return memory.revision if memory else 0

    def entries(self, scope: str = SCOPE) -> list[tuple[str, str, tuple[str, ...]]]:
        """(kind, text, source ids) of the active entries, by creation."""
        _, found = writing.list_entries(self.db, scope, limit=10_000)
        return [
            (one.entry.kind, one.entry.text, tuple(ref.source_id for ref in one.entry.source_refs))
            for one in found
        ]

    def texts(self, scope: str = SCOPE) -> list[str]:
        return [text for _, text, _ in self.entries(scope)]

    def cited(self, text: str, *, scope: str = SCOPE, inactive: bool = False) -> Cited:
        """The entry with this text."""
        _, found = writing.list_entries(self.db, scope, include_inactive=inactive, limit=10_000)
        [one] = [one for one in found if one.entry.text == text]
        return one

    def remember(self, text: str, kind: str = "fact") -> Cited:
        cited = writing.remember(self.db, SCOPE, kind=kind, text=text, now_us=now_us()).entry
        assert cited is not None
        return cited

    def revise(self, cited: Cited, text: str) -> None:
        citation = cited.citation
        writing.revise(self.db, SCOPE, citation, kind=cited.entry.kind, text=text, now_us=now_us())

    def retire(self, text: str) -> None:
        writing.retire(self.db, SCOPE, self.cited(text).citation, now_us=now_us())

    def lineage(self, revision: int) -> list[tuple[str, str, int | None]]:
        """(kind, id, revision if an artifact) of what a memory revision was made from."""
        with self.db.read() as conn:
            found = artifacts.lineage_of(conn, SCOPE, ArtifactRef("memory", "memory", revision))
        return [
            (kind, ref.get("source_id") or ref["artifact_id"], ref.get("revision"))
            for kind, ref in found
        ]

    def drafts(self) -> int:
        """How many answers are kept between asking and committing."""
        with self.db.read() as conn:
            count = sa.select(sa.func.count()).select_from(window_drafts)
            return int(conn.execute(count).scalar_one())

    def changes(self) -> int:
        """How many changes all memories ever had."""
        with self.db.read() as conn:
            count = sa.select(sa.func.count()).select_from(memory_changes)
            return int(conn.execute(count).scalar_one())

    def offending(self) -> dict[str, int]:
        """Every audit finding that does not pass, by name."""
        return {one.check: one.count for one in audit(self.db, self.settings) if not one.passed}


def fact(number: int) -> str:
    """What the unscripted stub makes of the n-th source that `put_facts` writes."""
    return f"Fact {number} holds."


def usage(row: WindowRow) -> Usage:
    """What a window cost, without the seconds, which are not the same twice."""
    kept = Usage(**(row.usage or {}))
    return Usage(kept.calls, kept.tokens_in, kept.tokens_out, 0.0, kept.reasks)


@pytest.fixture
def new_rig(
    new_database: Callable[..., str], model_stub: ModelStub, tmp_path: Path
) -> Iterator[Callable[..., Rig]]:
    """Make rigs, each on a ledger of its own; settings are given by name."""
    made: list[Rig] = []

    def create(*, timeout_s: float = 10.0, **settings: Any) -> Rig:
        url = new_database(migrated)
        home = tmp_path / f"home{len(made)}"
        values = {"source_window_limit": 3, "retry_base_s": 0.0, **settings}
        rig = Rig(
            db=Database(url),
            url=url,
            settings=Settings(home=home, **values),
            stub=model_stub,
            model=OpenAIProposer(
                model=MODEL,
                base_url=model_stub.base_url,
                timeout_s=timeout_s,
                transport_retries=0,
            ),
        )
        administer.create_scope(rig.db, SCOPE, now_us=now_us())
        made.append(rig)
        return rig

    yield create
    for rig in made:
        rig.model.close()
        rig.db.close()


@pytest.fixture
def rig(new_rig: Callable[..., Rig]) -> Rig:
    """A rig with windows of at most three sources."""
    return new_rig()
