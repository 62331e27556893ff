"""The memory of a scope as a whole: remember, flush, drain, search, changes, capacity."""

from pc_store.api.bodies.entry_bodies import MemoryEntry
from pc_store.api.bodies.memory_bodies import (
    BatchMutation,
    Changes,
    Drain,
    Drained,
    Flush,
    Flushed,
    GetCapacity,
    ListChanges,
    MemoryCapacity,
    MemoryRevisionChanges,
    Mutation,
    Processing,
    Remember,
    RememberBatch,
    Search,
    SearchAnswer,
    SearchHit,
)
from pc_store.api.bodies.wire import ArtifactRef, Citation, SourceRef
from pc_store.api.paths import SCOPE, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, extracts, reads, router, writes
from pc_store.errors import NotSupported
from pc_store.services import diagnose, extract, find, read_memory, recalls
from pc_store.services import remember as write
from pc_store.services.blend import Coverage
from pc_store.services.clock import now_us
from pc_store.services.find import ExperienceHit, Hit
from pc_store.services.remember import NewEntry, Written

routes = router()


def mutation(written: Written) -> Mutation:
    """What a write did."""
    return Mutation(
        memory=ArtifactRef.of_any(written.memory), entry=MemoryEntry.of_any(written.entry)
    )


@routes.post(
    "/v1/memory/remember",
    operation_id="remember_memory",
    tags=["memory"],
    summary="Add an entry by hand",
    response_model=Mutation,
    responses=declared(404, 408, 409, 413, 422),
)
@writes()
def remember_memory(call: Writer, body: Remember) -> Mutation:
    """A text and kind that are active already add nothing, and `entry` is null."""
    return mutation(
        write.remember(
            call.db,
            body.scope_id,
            kind=body.kind,
            text=body.text,
            reason=body.reason,
            expected_revision=body.expected_revision,
            refuse_secrets=call.settings.secret_detection,
            budget=call.settings.memory_budget,
            now_us=now_us(),
        )
    )


@routes.post(
    "/v1/memory/remember-batch",
    operation_id="remember_memory_batch",
    tags=["memory"],
    summary="Add up to 100 entries in one revision",
    response_model=BatchMutation,
    responses=declared(404, 408, 409, 413, 422),
)
@writes()
def remember_memory_batch(call: Writer, body: RememberBatch) -> BatchMutation:
    """All or nothing: a value that breaks a rule refuses the whole batch."""
    done = write.remember_batch(
        call.db,
        body.scope_id,
        [NewEntry(entry.kind, entry.text, entry.reason) for entry in body.entries],
        expected_revision=body.expected_revision,
        refuse_secrets=call.settings.secret_detection,
        budget=call.settings.memory_budget,
        now_us=now_us(),
    )
    return BatchMutation(
        memory=ArtifactRef.of_any(done.memory),
        entries=[MemoryEntry.of_any(entry) for entry in done.entries],
    )


@routes.post(
    "/v1/memory/flush",
    operation_id="flush_memory",
    tags=["memory"],
    summary="Process the next window of the log",
    response_model=Flushed,
    responses=declared(404, 408, 409, 413, 422, 502),
)
@extracts()
def flush_memory(call: Writer, body: Flush) -> Flushed:
    """One window, whose end is fixed when it is read. Nothing is locked while the model works."""
    return Flushed.of(extract.flush(call.db, call.settings, call.edge.proposer(), body.scope_id))


@routes.post(
    "/v1/memory/drain",
    operation_id="drain_memory",
    tags=["memory"],
    summary="Process windows up to the log's present end",
    response_model=Drained,
    responses=declared(404, 408, 409, 413, 422, 502),
)
@extracts()
def drain_memory(call: Writer, body: Drain) -> Drained:
    """Windows committed before a failure stay committed."""
    before = diagnose.processing_status(call.db, body.scope_id, now_us=now_us())
    done = extract.drain(
        call.db, call.settings, call.edge.proposer(), body.scope_id, budget_s=body.budget_s
    )
    cursor = done[-1].current_cursor if done else before.cursor
    memory = next((result.memory for result in reversed(done) if result.memory), None)
    return Drained(
        status="processed" if done else "idle",
        previous_cursor=done[0].previous_cursor if done else before.cursor,
        current_cursor=cursor,
        high_watermark=before.high_watermark,
        processed_source_count=sum(result.processed_source_count for result in done),
        windows=len(done),
        remaining=max(before.high_watermark - cursor, 0),
        memory=ArtifactRef.of_any(memory),
    )


@routes.get(
    f"/v1/scopes/{SCOPE}/processing",
    operation_id="get_processing_status",
    tags=["memory"],
    summary="Say how far the extraction is, and what keeps it",
    response_model=Processing,
    responses=declared(404, 422),
)
@reads()
def get_processing_status(call: Reader, scope_id: ScopePath) -> Processing:
    """Cursor, backlog, last error, next attempt, sources set aside."""
    return Processing.of(diagnose.processing_status(call.db, scope_id, now_us=now_us()))


@routes.post(
    "/v1/memory/search",
    operation_id="search_memory",
    tags=["memory"],
    summary="Find active entries",
    response_model=SearchAnswer,
    responses=declared(404, 408, 409, 413, 422),
)
@reads()
def search_memory(call: Reader, body: Search) -> SearchAnswer:
    """Sees every write committed before. `mode` in the answer says what `auto` used."""
    started_us = now_us()
    result = find.search(
        call.db, call.settings, body.scope_id, body.query, mode=body.mode, limit=body.limit
    )
    if result.memory is not None and body.tag_filter is not None:
        raise NotSupported("tags", "this server has no tags")
    note = recalls.searched(body.scope_id, body.query, result, started_us=started_us)
    call.edge.recalls.note(note)
    return SearchAnswer.model_validate(
        {
            "memory": ArtifactRef.of_any(result.memory),
            "mode": result.mode,
            "hits": [_hit(hit, body) for hit in result.hits],
        }
        | _coverage(result.coverage, body)
    )


def _hit(hit: Hit, body: Search) -> SearchHit:
    extras: dict[str, object] = {}
    if "kind" in body.include:
        extras["kind"] = hit.kind
    if "version" in body.include:
        extras["version"] = hit.version
    if "sources" in body.include:
        extras["source_refs"] = [SourceRef.of(ref) for ref in hit.sources]
    if "matched_terms" in body.include:
        extras["matched_terms"] = list(hit.matched_terms)
    if "channels" in body.include:
        extras["channels"] = channel_scores(hit)
    return SearchHit.model_validate(
        {
            "citation": Citation.of(hit.citation),
            "text": hit.text,
            "score": hit.score,
            "matched_by": list(hit.matched_by),
        }
        | extras
    )


def channel_scores(hit: Hit | ExperienceHit) -> list[dict[str, object]]:
    """How each channel that found a hit ranked it."""
    units = {"fts": "bm25", "vector": "cosine"}
    return [
        {"channel": name, "rank": hit.ranks[name], "score": hit.channels[units[name]]}
        for name in hit.matched_by
    ]


def _coverage(coverage: Coverage, body: Search) -> dict[str, object]:
    if "coverage" not in body.include:
        return {}
    told = {"active_entries": coverage.entries, "fts": coverage.entries}
    return {"coverage": told | {"vector": coverage.vectors}}


@routes.post(
    "/v1/memory/changes",
    operation_id="list_memory_changes",
    tags=["memory"],
    summary="List what revisions changed",
    response_model=Changes,
    responses=declared(404, 408, 413, 422),
)
@reads()
def list_memory_changes(call: Reader, body: ListChanges) -> Changes:
    """Of the newest revision alone, unless `since_revision` is given."""
    memory, revisions = read_memory.changes_since(
        call.db, body.scope_id, since_revision=body.since_revision
    )
    return Changes(
        memory=ArtifactRef.of_any(memory),
        revisions=[MemoryRevisionChanges.of(revision) for revision in revisions],
    )


@routes.post(
    "/v1/memory/capacity",
    operation_id="get_memory_capacity",
    tags=["memory"],
    summary="Say how large the memory is",
    response_model=MemoryCapacity,
    responses=declared(404, 408, 413, 422),
)
@reads()
def get_memory_capacity(call: Reader, body: GetCapacity) -> MemoryCapacity:
    """Against its budget."""
    return MemoryCapacity.of(
        read_memory.read_capacity(call.db, body.scope_id, budget=call.settings.memory_budget)
    )
