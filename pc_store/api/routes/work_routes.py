"""Work: what came of tasks, and receipts of the experiences they were given."""

from pc_store.api.bodies.wire import ArtifactRef, SourceRef
from pc_store.api.bodies.work_bodies import (
    RecordedOutcome,
    RecordedReceipt,
    RecordOutcome,
    RecordReceipt,
)
from pc_store.api.responses import declared
from pc_store.api.routing import Writer, router, writes
from pc_store.domain import refs
from pc_store.services import outcomes
from pc_store.services.clock import now_us

routes = router()


@routes.post(
    "/v1/work/outcomes/record",
    operation_id="record_task_outcome",
    tags=["work"],
    summary="Record what came of a task",
    status_code=202,
    response_model=RecordedOutcome,
    responses=declared(404, 408, 409, 413, 422),
)
@writes(status=202)
def record_task_outcome(call: Writer, body: RecordOutcome) -> RecordedOutcome:
    """It becomes a source of the scope's log. Evidence and receipt have to be there already."""
    taken = outcomes.record_outcome(
        call.db, body.scope_id, body.source_id, body.outcome, now_us=now_us()
    )
    return RecordedOutcome.of(taken)


@routes.post(
    "/v1/work/receipts",
    operation_id="record_task_receipt",
    tags=["work"],
    summary="Record which experiences a task was given",
    status_code=202,
    response_model=RecordedReceipt,
    responses=declared(404, 408, 409, 413, 422),
)
@writes(status=202)
def record_task_receipt(call: Writer, body: RecordReceipt) -> RecordedReceipt:
    """Outcomes that come after it and name it are judged by these revisions, and by no others."""
    cited = [
        refs.ArtifactRef(one.family, one.artifact_id, one.revision) for one in body.experiences
    ]
    taken = outcomes.record_receipt(
        call.db, body.scope_id, body.receipt_id, cited, note=body.note, now_us=now_us()
    )
    return RecordedReceipt(
        kind="receipt",
        source=SourceRef.of(taken.ref),
        position=taken.position,
        content_digest=taken.content_digest,
        experiences=[ArtifactRef.of(ref) for ref in dict.fromkeys(cited)],
    )
