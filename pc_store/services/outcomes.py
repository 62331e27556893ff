"""Take in what came of tasks, and receipts of the experiences that a task was given."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain import outcome, text
from pc_store.domain.outcome import ArtifactEvidence, Evidence, SourceEvidence, TaskOutcome
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef, SourceRef
from pc_store.domain.source import CONTENT_TYPE, NewSource, new_value
from pc_store.errors import InvalidInput, SourceConflict, SourceNotFound
from pc_store.ledger import artifacts, scopes, sources
from pc_store.ledger.database import Database
from pc_store.services import capture
from pc_store.services.trace_evidence import why_unavailable

RECEIPT_SCHEMA = "pc-pipelines.receipt.v1"
RECEIPT_KIND = "experience-receipt"


@dataclass(frozen=True)
class Taken:
    """A source that was written, or was there already."""

    ref: SourceRef
    position: int
    content_digest: str


@dataclass(frozen=True)
class Receipt:
    """Which exact experience revisions a task was given, and where that is in the log."""

    position: int
    experiences: tuple[ArtifactRef, ...]


def record_outcome(
    db: Database, scope_id: str, source_id: str, value: Any, *, now_us: int
) -> Taken:
    """Append a task outcome, checked, to the scope's log; the same one again changes nothing.

    Args:
        value: JSON as `domain.outcome.parse` takes it.

    Raises:
        InvalidInput: its shape breaks a rule, a piece of evidence is not there, or the receipt
            it names is none of this server's.
        ScopeNotFound: no such scope.
        SourceConflict: the id is taken by something else.
    """
    told = _parsed(value)
    source = NewSource(
        text.identifier("source_id", source_id, limits.SOURCE_ID_MAX_CHARS),
        told.dumps(),
        {"kind": outcome.KIND, "schema": outcome.SCHEMA},
    )
    text.within("outcome", source.content, limits.SOURCE_CONTENT_MAX_CHARS)
    with db.read() as conn:
        scopes.get(conn, scope_id)
        held = sources.some(conn, scope_id, [SourceRef(CONTENT_TYPE, source_id)]).values()
        if not any(one.digest == source.digest for one in held):  # a repetition asks for nothing
            _refuse_missing(conn, scope_id, told)
    capture.capture(db, scope_id, source, now_us=now_us)
    return _taken(db, scope_id, source_id)


def record_receipt(
    db: Database,
    scope_id: str,
    receipt_id: str,
    experiences: Sequence[ArtifactRef],
    *,
    note: str | None = None,
    now_us: int,
) -> Taken:
    """Append a receipt of exact experience revisions; the same one again changes nothing.

    An outcome that names it, and comes after it in the log, is judged by these revisions.

    Args:
        experiences: 1 to 32, duplicates are dropped.

    Raises:
        InvalidInput: a value breaks a rule, or a revision does not exist.
        ScopeNotFound: no such scope.
        SourceConflict: the id is taken by something else.
    """
    refs = list(dict.fromkeys(experiences))
    if not 1 <= len(refs) <= limits.EVIDENCE_MAX:
        raise InvalidInput(
            "experiences", f"has {len(refs)} revisions, 1 to {limits.EVIDENCE_MAX} are expected"
        )
    text.identifier("receipt_id", receipt_id, limits.SOURCE_ID_MAX_CHARS)
    if note is not None:
        text.within("note", text.storable("note", note), limits.RECEIPT_NOTE_MAX_CHARS)
    source = new_value(
        receipt_id,
        {
            "schema": RECEIPT_SCHEMA,
            "experiences": [
                {"artifact_id": ref.artifact_id, "revision": ref.revision} for ref in refs
            ],
            "note": note,
        },
        {"kind": RECEIPT_KIND, "schema": RECEIPT_SCHEMA},
    )
    with db.write() as conn:
        head = sources.lock_head(conn, scope_id)
        absent = _absent(conn, scope_id, refs)
        if absent is not None:
            raise InvalidInput(f"experiences[{absent[0]}]", absent[1])
        try:
            held = sources.get(conn, scope_id, CONTENT_TYPE, receipt_id)
        except SourceNotFound:
            sources.append(conn, scope_id, [source], after=head, now_us=now_us, role="receipt")
        else:
            if held.role != "receipt" or held.digest != source.digest:
                raise SourceConflict(
                    f"source {receipt_id!r} is at position {held.position} with other content",
                    source_type=CONTENT_TYPE,
                    source_id=receipt_id,
                    position=held.position,
                )
    return _taken(db, scope_id, receipt_id)


def receipt_body(
    scope_id: str, receipt_id: str, experiences: Iterable[ArtifactRef], *, note: str | None = None
) -> dict[str, Any]:
    """The body of `POST /v1/work/receipts` for revisions that were shown to somebody."""
    return {
        "scope_id": scope_id,
        "receipt_id": receipt_id,
        "experiences": [
            {"family": ref.family, "artifact_id": ref.artifact_id, "revision": ref.revision}
            for ref in dict.fromkeys(experiences)
            if ref.family == EXPERIENCE_FAMILY
        ],
        "note": note,
    }


def cited_by_receipt(
    conn: sa.Connection, scope_id: str, ref: SourceRef, *, before: int | None = None
) -> Receipt | str:
    """What a receipt cites, or why it does not count.

    Args:
        before: the position of the outcome that names it; None for one that is yet to come.
    """
    try:
        held = sources.get(conn, scope_id, ref.source_type, ref.source_id)
    except SourceNotFound:
        held = None
    if held is None or (before is not None and held.position >= before):
        return f"the receipt {ref.source_id!r} was not in the log before the outcome"
    if held.role != "receipt":
        return f"the source {ref.source_id!r} is no receipt that this server wrote"
    return Receipt(
        held.position,
        tuple(ArtifactRef(EXPERIENCE_FAMILY, **named) for named in held.value["experiences"]),
    )


def missing_evidence(
    conn: sa.Connection, scope_id: str, evidence: Sequence[Evidence]
) -> str | None:
    """The first piece of evidence that is not there, by kind and name; None when all are.

    A source is there if the log holds it and it is not the store's own; an artifact if it has
    the revision; a memory entry if the cited revision shows it active and it still is.
    """
    if why_unavailable(conn, scope_id, evidence) is None:
        return None
    return next((shown(one) for one in evidence if why_unavailable(conn, scope_id, [one])), None)


def shown(evidence: Evidence) -> str:
    """A piece of evidence by kind and name, as `recurrence_waits` keeps it."""
    if isinstance(evidence, SourceEvidence):
        return f"source {evidence.source_ref.source_type}/{evidence.source_ref.source_id}"
    if isinstance(evidence, ArtifactEvidence):
        ref = evidence.artifact_ref
        return f"artifact {ref.family}/{ref.artifact_id}@{ref.revision}"
    return f"memory {evidence.memory_citation.entry_version_id}"


def _parsed(value: Any) -> TaskOutcome:
    try:
        return outcome.parse(value)
    except InvalidInput as error:
        inner = error.field.removeprefix("outcome").removeprefix(".")
        field = f"outcome.{inner}" if inner else "outcome"
        raise InvalidInput(field, error.reason) from None


def _refuse_missing(conn: sa.Connection, scope_id: str, told: TaskOutcome) -> None:
    named = [(f"observations[{i}]", item.evidence) for i, item in enumerate(told.observations)]
    named += [(f"checks[{i}]", item.evidence) for i, item in enumerate(told.checks)]
    every = [one for _, evidence in named for one in evidence]
    unusable = why_unavailable(conn, scope_id, dict.fromkeys(every)) is not None
    for name, evidence in named if unusable else ():
        for index, one in enumerate(evidence):
            problem = why_unavailable(conn, scope_id, [one])
            if problem is not None:
                raise InvalidInput(f"outcome.{name}.evidence[{index}]", problem.reason)
    absent = _absent(conn, scope_id, [one.ref for one in told.produced_artifacts])
    if absent is not None:
        raise InvalidInput(f"outcome.produced_artifacts[{absent[0]}]", absent[1])
    if told.handoff_receipt_ref is not None:
        found = cited_by_receipt(conn, scope_id, told.handoff_receipt_ref.ref)
        if isinstance(found, str):
            raise InvalidInput("outcome.handoff_receipt_ref", found)


def _absent(
    conn: sa.Connection, scope_id: str, refs: Sequence[ArtifactRef]
) -> tuple[int, str] | None:
    """The index of the first revision that does not exist, and words for it."""
    held = artifacts.existing(conn, scope_id, refs)
    return next(
        (
            (index, f"there is no {ref.family}/{ref.artifact_id} revision {ref.revision}")
            for index, ref in enumerate(refs)
            if ref not in held
        ),
        None,
    )


def _taken(db: Database, scope_id: str, source_id: str) -> Taken:
    held = capture.read_source(db, scope_id, CONTENT_TYPE, source_id)
    return Taken(held.ref, held.position, held.content_digest)
