"""Fill in the vectors that texts lack: in batches, as far as an embedder can be had."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pc_store.errors import ModelError
from pc_store.ledger import embedding_costs, unembedded, vectors
from pc_store.ledger.database import Database
from pc_store.ledger.unembedded import Unembedded
from pc_store.llm.embeddings import Embedded
from pc_store.services.clock import now_us
from pc_store.services.embed import LedgerEmbedder, begin_anew, embedder, settle
from pc_store.settings import Settings

BARREN_BATCHES_MAX = 2
"""Batches in a row without a single vector, after which a back-fill leaves the rest."""


@dataclass(frozen=True)
class Backfilled:
    """What a back-fill did.

    Attributes:
        profile: the space the vectors are of; None when no embedder is in force.
        embedded: texts that got a vector.
        failed: texts that the embedder cannot embed.
        left: entries and experiences whose text has no vector yet, the failed ones included.
        error: why it stopped before it was through; None when it did not, or time was up.
    """

    profile: str | None
    embedded: int = 0
    failed: int = 0
    left: int = 0
    error: ModelError | None = None


def backfill(
    db: Database,
    settings: Settings,
    scope_ids: Sequence[str] | None = None,
    *,
    budget_s: float | None = None,
    limit: int | None = None,
) -> Backfilled:
    """Embed the texts of active entries and experiences that have no vector yet.

    In batches of `PC_EMBED_BATCH`, each stored as soon as it is there, so that a run that is
    broken off loses one batch. No transaction is open while the embedder works. Text that is
    erased meanwhile leaves no vector. An endpoint that fails stops the work and raises nothing.

    Args:
        scope_ids: whose; all scopes unless given.
        budget_s: begin no batch after this many seconds.
        limit: embed at most this many texts.
    """
    try:
        using = settle(db, settings)
    except ModelError as error:
        return Backfilled(None, error=error)
    if using is None:
        return Backfilled(None)
    given = scope_ids is not None
    if scope_ids is None:
        with db.read() as conn:
            scope_ids = unembedded.scopes_with(conn, using.profile)
    done = _fill(db, settings, using, scope_ids, budget_s=budget_s, limit=limit)
    if done.error is not None and "dims" in done.error.details:
        begin_anew(db, settings, done.error.details["dims"])
        anew = embedder(db, settings)
        if anew is None or anew.profile == using.profile:
            return done
        with db.read() as conn:
            scope_ids = scope_ids if given else unembedded.scopes_with(conn, anew.profile)
        done = _fill(db, settings, anew, scope_ids, budget_s=budget_s, limit=limit)
    return done


def _fill(
    db: Database,
    settings: Settings,
    using: LedgerEmbedder,
    scope_ids: Sequence[str],
    *,
    budget_s: float | None,
    limit: int | None,
) -> Backfilled:
    ends = None if budget_s is None else time.monotonic() + budget_s
    embedded = failed = barren = 0
    error: ModelError | None = None
    for texts in _batches(db, using.profile, scope_ids, settings.embed_batch):
        if ends is not None and time.monotonic() >= ends:
            break
        some = texts if limit is None else texts[: limit - embedded]
        if not some:
            break
        done = using.compute([one.text for one in some])
        embedded += _store(db, using.profile, some, done)
        failed += len(done.failed)
        barren = 0 if done.made else barren + 1
        error = done.stopped
        if error is not None and (not error.counts or "status" not in error.details):
            break
        if barren >= BARREN_BATCHES_MAX:
            break
        error = None
    with db.read() as conn:
        left = unembedded.count(conn, scope_ids, using.profile)
    return Backfilled(using.profile, embedded, failed, left, error)


def _batches(
    db: Database, profile: str, scope_ids: Sequence[str], size: int
) -> Iterator[list[Unembedded]]:
    """The scopes' texts without a vector, in full batches, each read when it is asked for."""
    batch: list[Unembedded] = []
    for scope_id in scope_ids:
        after = ("", "")
        while True:
            wanted = size - len(batch)
            with db.read() as conn:
                page = unembedded.missing(conn, scope_id, profile, limit=wanted, after=after)
            batch += page
            if len(batch) == size:
                yield batch
                batch = []
            if len(page) < wanted:
                break
            after = page[-1].place
    if batch:
        yield batch


def _store(db: Database, profile: str, texts: Sequence[Unembedded], done: Embedded) -> int:
    """Store what was made, and what it cost; how many vectors there are."""
    made = {texts[place].text_digest: vector for place, vector in done.made.items()}
    with db.write() as conn:
        held = unembedded.still_held(conn, [texts[place] for place in done.made])
        kept = {name: vector for name, vector in made.items() if name in held}
        vectors.put(conn, profile, kept)
        if done.usage.calls:
            embedding_costs.add(conn, "memory_indexing", _shares(texts, done), now_us=now_us())
    return len(kept)


def _shares(texts: Sequence[Unembedded], done: Embedded) -> dict[str, tuple[int, int]]:
    """(requests, tokens) by scope: tokens by length, the requests to whose texts are longest."""
    sizes: dict[str, int] = {}
    for one in texts:
        sizes[one.scope_id] = sizes.get(one.scope_id, 0) + len(one.text)
    total = sum(sizes.values())
    shares = {name: done.usage.tokens_in * size // total for name, size in sizes.items()}
    most = max(sizes, key=lambda name: (sizes[name], name))
    shares[most] += done.usage.tokens_in - sum(shares.values())
    return {
        name: (done.usage.calls if name == most else 0, tokens) for name, tokens in shares.items()
    }
