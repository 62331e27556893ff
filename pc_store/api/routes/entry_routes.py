"""Entries: list, read, revise, retire, reactivate, history, comparison, purge."""

from pc_store.api.bodies.entry_bodies import (
    ChangeState,
    CompareRevisions,
    Comparison,
    Difference,
    EntryList,
    GetEntry,
    GetHistory,
    History,
    HistoryChange,
    ListEntries,
    MemoryEntry,
    Purged,
    PurgeEntry,
    ReviseEntry,
)
from pc_store.api.bodies.memory_bodies import Mutation
from pc_store.api.bodies.wire import ArtifactRef
from pc_store.api.responses import declared
from pc_store.api.routes.memory_routes import mutation
from pc_store.api.routing import Reader, Writer, reads, router, writes
from pc_store.errors import NotSupported
from pc_store.services import purge, read_memory
from pc_store.services import remember as write
from pc_store.services.clock import now_us

routes = router()


@routes.post(
    "/v1/memory/entries/list",
    operation_id="list_memory_entries",
    tags=["entries"],
    summary="List entries by creation",
    response_model=EntryList,
    responses=declared(400, 404, 408, 410, 413, 422),
)
@reads()
def list_memory_entries(call: Reader, body: ListEntries) -> EntryList:
    """All of them; or a page, when `limit` or `cursor` is given."""
    if body.tag_filter is not None:
        raise NotSupported("tags", "this server has no tags")
    cursors = call.edge.cursors
    paged = body.limit is not None or body.cursor is not None
    bound_to = [
        "entries",
        body.scope_id,
        body.include_inactive,
        body.kind,
        body.limit,
        call.principal.name,
    ]
    page = read_memory.page_entries(
        call.db,
        body.scope_id,
        include_inactive=body.include_inactive,
        kind=body.kind,
        after=cursors.unseal(body.cursor, bound_to=bound_to),
        limit=body.limit or (100 if paged else None),
        extras=bool({"reason", "times"} & set(body.include)),
    )
    fields: dict[str, object] = {
        "memory": ArtifactRef.of_any(page.memory),
        "entries": [MemoryEntry.of(cited, body.include) for cited in page.entries],
    }
    if paged:
        fields["next_cursor"] = cursors.seal(page.next_after, bound_to=bound_to)
    return EntryList.model_validate(fields)


@routes.post(
    "/v1/memory/entries/get",
    operation_id="get_memory_entry",
    tags=["entries"],
    summary="Read exactly what a citation names",
    response_model=MemoryEntry,
    responses=declared(404, 408, 410, 413, 422),
)
@reads()
def get_memory_entry(call: Reader, body: GetEntry) -> MemoryEntry:
    """In the state it had in the cited revision."""
    cited = read_memory.read_entry(
        call.db,
        body.scope_id,
        body.citation.citation(),
        extras=bool({"reason", "times"} & set(body.include)),
    )
    return MemoryEntry.of(cited, body.include)


@routes.post(
    "/v1/memory/entries/revise",
    operation_id="revise_memory_entry",
    tags=["entries"],
    summary="Give an entry a new text or kind",
    response_model=Mutation,
    responses=declared(404, 408, 409, 410, 413, 422),
)
@writes()
def revise_memory_entry(call: Writer, body: ReviseEntry) -> Mutation:
    """Refused with 409 when the memory moved since the citation; `details` has a fresh one."""
    return mutation(
        write.revise(
            call.db,
            body.scope_id,
            body.citation.citation(),
            kind=body.kind,
            text=body.text,
            reason=body.reason,
            refuse_secrets=call.settings.secret_detection,
            budget=call.settings.memory_budget,
            now_us=now_us(),
        )
    )


@routes.post(
    "/v1/memory/entries/retire",
    operation_id="retire_memory_entry",
    tags=["entries"],
    summary="Take an entry out of recall",
    response_model=Mutation,
    responses=declared(404, 408, 409, 410, 413, 422),
)
@writes()
def retire_memory_entry(call: Writer, body: ChangeState) -> Mutation:
    """It stays readable. Retiring a retired entry by a current citation changes nothing."""
    return mutation(
        write.retire(
            call.db,
            body.scope_id,
            body.citation.citation(),
            reason=body.reason,
            refuse_secrets=call.settings.secret_detection,
            now_us=now_us(),
        )
    )


@routes.post(
    "/v1/memory/entries/reactivate",
    operation_id="reactivate_memory_entry",
    tags=["entries"],
    summary="Bring a retired entry back",
    response_model=Mutation,
    responses=declared(404, 408, 409, 410, 413, 422),
)
@writes()
def reactivate_memory_entry(call: Writer, body: ChangeState) -> Mutation:
    """As it was; an active one stays as it is."""
    return mutation(
        write.reactivate(
            call.db,
            body.scope_id,
            body.citation.citation(),
            reason=body.reason,
            refuse_secrets=call.settings.secret_detection,
            budget=call.settings.memory_budget,
            now_us=now_us(),
        )
    )


@routes.post(
    "/v1/memory/entries/history",
    operation_id="list_memory_entry_history",
    tags=["entries"],
    summary="List every change of one entry",
    response_model=History,
    responses=declared(404, 408, 413, 422),
)
@reads()
def list_memory_entry_history(call: Reader, body: GetHistory) -> History:
    """Oldest first; also of an entry that is retired or purged."""
    items = read_memory.trace_entry(call.db, body.scope_id, body.entry_id)
    return History(entry_id=body.entry_id, changes=[HistoryChange.of(item) for item in items])


@routes.post(
    "/v1/memory/revisions/diff",
    operation_id="compare_memory_revisions",
    tags=["entries"],
    summary="Compare two revisions of the memory",
    response_model=Comparison,
    responses=declared(404, 408, 413, 422),
)
@reads()
def compare_memory_revisions(call: Reader, body: CompareRevisions) -> Comparison:
    """The entries whose version or state differs."""
    found = read_memory.compare_revisions(
        call.db, body.scope_id, before=body.before, after=body.after
    )
    return Comparison(
        before=body.before, after=body.after, entries=[Difference.of(item) for item in found]
    )


@routes.post(
    "/v1/memory/entries/purge",
    operation_id="purge_memory_entry",
    tags=["entries"],
    summary="Erase an entry's text for good",
    response_model=Purged,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("admin")
def purge_memory_entry(call: Writer, body: PurgeEntry) -> Purged:
    """From the ledger, vectors, index and stored answers; ids and hashes stay."""
    return Purged.of(
        purge.purge(
            call.db,
            body.scope_id,
            body.entry_id,
            reason=body.reason,
            now_us=now_us(),
        )
    )
