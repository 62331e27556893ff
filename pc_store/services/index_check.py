"""Checks on the search index: its files against the ledger, its answers against exact ones.

An exact answer is what the same search gives when it has no file: everything is then computed
from the ledger, in memory.
"""

import random
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from pc_store import limits
from pc_store.domain.refs import EXPERIENCE_FAMILY, MEMORY_FAMILY
from pc_store.errors import NotSupported
from pc_store.ledger import terms
from pc_store.ledger.database import Database
from pc_store.search import hnsw_recall, shards
from pc_store.search.lexical import outgrown
from pc_store.search.shards import Covered, Shard
from pc_store.services import find
from pc_store.services.audit import ROWS_SHOWN, Finding
from pc_store.services.blend import Mode
from pc_store.services.index import ShardStatus, chosen, shard_count
from pc_store.services.index_names import shard_name
from pc_store.services.index_rules import AGREES, COVERS, READABLE, RECALLS, RULES, IndexRule
from pc_store.settings import Settings

QUERIES = 4
"""Queries a shard that are sampled, unless more are asked for."""
RECALL_MIN = 0.95
RECALL_QUERIES = 20
GRACE_S = 900.0
"""How long a build may take to be asked for, queued and done, before the shard counts as late."""

_EXACT_MAX_DOCUMENTS = 20_000
"""Larger scopes are not sampled: their exact answer would take minutes and a gigabyte."""
_QUERY_CHARS = 80
_EQUAL = 1e-5


def verify(
    db: Database,
    settings: Settings,
    *,
    only: Collection[int] | None = None,
    names: Collection[str] = (),
    queries: int = QUERIES,
    now_us: int,
) -> list[Finding]:
    """Check the index, all of it or some shards, by all rules or the named.

    A shard that was never built is one that lacks everything. The sample depends on the files
    alone: the same files are asked the same.

    Args:
        queries: documents sampled of each shard, as far as it has any.

    Raises:
        InvalidInput: there is no such shard.
    """
    count = shard_count(db, settings)
    some = chosen(db, settings, only)
    opened = [
        shard
        for one in some
        if (shard := shards.open_current(settings.index_path, one.shard, count)) is not None
    ]
    offenders: dict[IndexRule, Callable[[], Iterator[dict[str, Any]]]] = {
        READABLE: lambda: _unreadable(settings, some, count),
        COVERS: lambda: _uncovered(db, settings, some, opened, now_us),
        AGREES: lambda: _differing(db, settings, opened, queries),
        RECALLS: lambda: _forgetful(opened),
    }
    findings = []
    for rule in RULES:
        if not names or rule.name in names:
            rows = list(offenders[rule]())
            findings.append(Finding(rule.name, rule.asserts, len(rows), rows[:ROWS_SHOWN]))
    return findings


def _unreadable(
    settings: Settings, some: list[ShardStatus], count: int
) -> Iterator[dict[str, Any]]:
    for one in some:
        path = shards.current_path(settings.index_path, one.shard)
        if path is None:
            continue
        shard = shards.open_current(settings.index_path, one.shard, count)
        try:
            if shard is not None:
                _read_all(shard)
                continue
            why = "it cannot be opened, or is of another version or division"
        except shards.Torn as error:
            shards.refuse(shard.path if shard else path, error)
            why = str(error).splitlines()[0]
        yield {"shard": one.name, "file": path.name, "why": why}


def _read_all(shard: Shard) -> None:
    """Read what a search reads of every part. Raises `shards.Torn`."""
    for scope_id, family in shard.covered:
        part = shard.part(scope_id, family)
        assert part is not None
        if (
            len(part.docs.refs) != part.covered.docs
            or len(part.digests(range(part.covered.docs))[-1]) != 64
        ):
            raise shards.Torn(f"a part of {part.covered.docs} documents holds another number")
        part.postings(["the"])


def _uncovered(
    db: Database, settings: Settings, some: list[ShardStatus], opened: list[Shard], now_us: int
) -> Iterator[dict[str, Any]]:
    for one in some:
        tail = one.tail
        waits_s = 0.0 if tail.since is None else (now_us - tail.since) / 1_000_000
        why = tail.wrong
        if why is None and outgrown(one.documents, tail.rows // 2):
            why = f"{tail.rows} changes are not in it"
        if why is None and tail.rows and waits_s > settings.index_max_age_s + GRACE_S:
            why = f"{tail.rows} changes are not in it, the oldest for {waits_s:.0f} s"
        if why is not None:
            yield {"shard": one.name, "scope_id": "all", "why": why}
    for shard in opened:
        with db.read() as conn:
            for part in _parts(shard, MEMORY_FAMILY):
                state = terms.state(conn, part.scope_id, revision=part.revision)
                if (state.head or 0) >= part.revision and state.anchor != part.anchor:
                    yield {
                        "shard": shard_name(shard.shard),
                        "scope_id": part.scope_id,
                        "why": "it was built from another ledger",
                    }


def _differing(
    db: Database, settings: Settings, opened: list[Shard], queries: int
) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="pc-no-index-") as empty:
        exact = settings.model_copy(update={"index_dir": Path(empty)})
        for shard in opened:
            for part, ref, text in _sample(db, shard, queries):
                modes: list[tuple[Mode, str]] = [("fts", text[:_QUERY_CHARS])]
                if part.vectors and not part.hnsw:
                    # an entry's own text, whose vector the ledger has: no endpoint is asked
                    modes.append(("vector", text[: limits.QUERY_MAX_CHARS]))
                for mode, query in modes:
                    why = _difference(db, settings, exact, part, mode, query)
                    if why is not None:
                        yield {
                            "shard": shard_name(shard.shard),
                            "scope_id": part.scope_id,
                            "query": f"the text of {ref}",
                            "mode": mode,
                            "why": why,
                        }


def _sample(db: Database, shard: Shard, queries: int) -> Iterator[tuple[Covered, str, str]]:
    """Documents of a shard, each with its part and its text; erased ones are passed over."""
    dice = random.Random(shard.path.name)  # noqa: S311 - which are sampled is no secret
    parts = [part for part in shard.covered.values() if 0 < part.docs <= _EXACT_MAX_DOCUMENTS]
    for _ in range(queries if parts else 0):
        covered = dice.choice(sorted(parts, key=lambda one: one.number))
        part = shard.part(covered.scope_id, covered.family)
        assert part is not None
        named = part.docs.id_of(dice.randrange(covered.docs))
        with db.read() as conn:
            texts = terms.texts(conn, covered.scope_id, covered.family, [named])
        text = next(iter(texts.values()), "")
        if text.strip():
            yield covered, named[0], text


def _difference(
    db: Database, settings: Settings, exact: Settings, part: Covered, mode: Mode, query: str
) -> str | None:
    """How the index's answer differs from the exact one; None when it does not.

    Writes that happen between the two searches show in the memory's head: then it is asked anew.
    """
    for _ in range(5):
        try:
            before = _answer(db, settings, part, mode, query)
            expected = _answer(db, exact, part, mode, query)
            again = _answer(db, settings, part, mode, query)
        except NotSupported:  # there is no embedder to ask by vectors
            return None
        if before == again:
            break
    else:
        return None
    return _compared(before, expected)


def _compared(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> str | None:
    """How two answers differ; None when each has the other's hits, with the same scores.

    Hits that tie with the last one may be others.
    """
    if len(found) != len(expected):
        return f"{len(found)} hits, {len(expected)} without the index"
    right = dict(expected)
    for place, (name, score) in enumerate(found, start=1):
        wanted = right.get(name, expected[-1][1])
        if abs(score - wanted) > _EQUAL * max(1.0, abs(wanted)):
            return (
                f"hit {place}, {name}, scores {score:.6f}, {wanted:.6f} without the index"
                if name in right
                else f"hit {place}, {name}, is none without the index"
            )
    return None


def _answer(
    db: Database, settings: Settings, part: Covered, mode: Mode, query: str
) -> list[tuple[str, float]]:
    """(id, score of its one channel) of each hit."""
    if part.family == EXPERIENCE_FAMILY:
        experiences = find.search_experiences(db, settings, part.scope_id, query, mode=mode)
        return [
            (f"{hit.ref.artifact_id}@{hit.ref.revision}", next(iter(hit.channels.values())))
            for hit in experiences.hits
        ]
    found = find.search(db, settings, part.scope_id, query, mode=mode)
    return [
        (hit.citation.entry_version_id, next(iter(hit.channels.values()))) for hit in found.hits
    ]


def _forgetful(opened: list[Shard]) -> Iterator[dict[str, Any]]:
    for shard in opened:
        for covered in shard.covered.values():
            if not covered.hnsw or covered.vectors < 2:
                continue
            part = shard.part(covered.scope_id, covered.family)
            assert part is not None
            recall = hnsw_recall.recall(part, queries=RECALL_QUERIES)
            if recall < RECALL_MIN:
                yield {
                    "shard": shard_name(shard.shard),
                    "scope_id": covered.scope_id,
                    "recall": round(recall, 4),
                }


def _parts(shard: Shard, family: str) -> list[Covered]:
    return sorted(
        (part for part in shard.covered.values() if part.family == family),
        key=lambda part: part.number,
    )
