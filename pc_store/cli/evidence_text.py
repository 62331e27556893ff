"""The evidence of a candidate as people read it; a task outcome in lines, not as JSON."""

import json

from pc_store.cli.experience_commands import labelled, lines, named
from pc_store.client import ArtifactCandidate, ArtifactRef, Citation, Client, SourceRef
from pc_store.domain import outcome
from pc_store.domain.outcome import Check, Evidence, Observation, TaskOutcome
from pc_store.errors import InvalidInput, StoreError


def evidence(client: Client, scope_id: str, candidate: ArtifactCandidate) -> list[tuple[str, str]]:
    """A title and the text of each piece of evidence; what cannot be read says why."""
    shown = []
    for source in candidate.source_refs:
        shown.append((f"{source.name} {source.source_id}", _source(client, scope_id, source)))
    for artifact in candidate.artifact_refs:
        if artifact != candidate.target:  # it stands beside the proposal already
            shown.append((named(artifact.model_dump()), _artifact(client, scope_id, artifact)))
    for one in candidate.memory_citations:
        memory = named(one.memory_ref.model_dump())
        shown.append((f"entry {one.entry_id} in {memory}", _entry(client, scope_id, one)))
    return shown


def _source(client: Client, scope_id: str, ref: SourceRef) -> str:
    try:
        content = client.get_source(scope_id, ref.source_id, source_type=ref.name).content
    except StoreError as error:
        return f"({error.message})"
    try:
        told = outcome.loads(content) if isinstance(content, str) else outcome.parse(content)
    except InvalidInput:
        return content if isinstance(content, str) else _pretty(content)
    return "\n".join(_outcome_lines(told))


def _outcome_lines(told: TaskOutcome) -> list[str]:
    """All that a task outcome says, one labelled line an item."""
    found = [
        f"task outcome, {told.status}",
        *labelled("objective", told.objective),
        *labelled("summary", told.summary),
    ]
    for seen in told.observations:
        found += labelled("observed", f"{seen.text} ({_basis(seen)})")
    for check in told.checks:
        details = f": {check.details}" if (check.details or "").strip() else ""
        found += labelled("check", f"{check.name}, {check.status} ({_basis(check)}){details}")
    for ref in told.produced_artifacts:
        found += labelled("produced", named(ref.model_dump()))
    for left in told.remaining_work:
        found += labelled("still open", left)
    if told.handoff_receipt_ref:
        found += labelled("receipt", told.handoff_receipt_ref.source_id)
    return found


def _basis(item: Observation | Check) -> str:
    """Whether something is verified, and by what."""
    if item.basis == "declared":
        return "declared, not verified"
    return f"verified by {', '.join(map(_named_evidence, item.evidence))}"


def _named_evidence(one: Evidence) -> str:
    if one.kind == "source":
        return one.source_ref.source_id
    if one.kind == "artifact":
        return named(one.artifact_ref.model_dump())
    cited = one.memory_citation
    return f"entry {cited.entry_id} in {named(cited.memory_ref.model_dump())}"


def _artifact(client: Client, scope_id: str, ref: ArtifactRef) -> str:
    try:
        found = client.get_artifact_revision(
            scope_id,
            ref.family,  # type: ignore[arg-type]  # a family of another server is refused there
            ref.artifact_id,
            ref.revision,
        )
    except StoreError as error:
        return f"({error.message})"
    if ref.family == "experience":
        return "\n".join(lines(found.content))
    return _pretty(found.content)


def _entry(client: Client, scope_id: str, citation: Citation) -> str:
    try:
        found = client.get_memory_entry(scope_id, citation)
    except StoreError as error:
        return f"({error.message})"
    return f"{found.kind}: {found.text}"


def _pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
