"""Every error the store raises on purpose; one class per reaction the caller can have.

StoreError
├── NotFound                 the id names nothing in this scope
│   ├── ScopeNotFound        there is no such scope
│   ├── SourceNotFound       the log holds no such source
│   ├── ArtifactNotFound     no such artifact, or it has no such revision
│   ├── CandidateNotFound    the scope has no such candidate
│   ├── EntryNotFound        that revision of the memory does not hold this entry version
│   └── EntryPurged          it did, and the text was erased since; gone for good
├── InvalidInput             the caller's value breaks a rule; nothing was written
│   ├── InvalidScopeRelationship  a scope would be its own ancestor or reference itself
│   ├── SecretDetected       the text holds a credential
│   ├── InvalidEvidence      what a candidate stands on cannot be used; one class each:
│   │   ├── SourceNotEligible     the store's own record of provenance
│   │   ├── InvalidCitation       it names no entry version of that revision
│   │   ├── CitedEntryInactive    the entry is retired, then or now
│   │   ├── EvidenceUnavailable   it cannot be read any more
│   │   └── EvidenceLimitExceeded with its root sources it is too much
│   ├── UnchangedProposal    approving it would change nothing
│   └── InvalidProposal      a model's output breaks a rule; the window stays put
├── NotSupported             this installation cannot do what was asked
├── Conflict                 someone else moved first; read again and decide
│   ├── ScopeVersionConflict      the scope was updated since you read it
│   ├── ScopeIdempotencyConflict  the creation key made a scope of other values
│   ├── SourceConflict       this source id already holds other content or metadata
│   ├── RevisionConflict     the artifact head is past the one you cited
│   ├── EntryInactive        the cited entry is retired
│   ├── CandidateConflict    the candidate was revised since you read it
│   ├── CandidateTerminal    the candidate is decided, which is final
│   ├── ArtifactConflict     the target is no longer the head
│   ├── ArtifactInactive     the experience is deprecated or retired
│   ├── IdempotencyConflict  the idempotency key belongs to another request, or one at work
│   ├── GenerationEnded      the generation was promoted or discarded, which is final
│   └── CursorConflict       the cursor is not where this window starts
├── CapacityExceeded         the memory would outgrow its budget; retire or raise it
├── InvalidCursor            the page cursor is not one of ours, or of another list
├── CursorExpired            the page cursor is too old; start again at the first page
├── WindowRefused            the window cannot be run as asked; the reason says why
├── GenerationUnavailable    no model is configured that could write this
├── StoreBusy                the database would not take the write in time; safe to retry as is
├── StoreUnavailable         the database cannot be reached, or is not this store's
├── SearchExtensionUnavailable  DuckDB lacks an extension that an index file is built with
├── IndexUnwritable          the folder of index files does not take one
└── ModelError               the model gave nothing usable; the cursor stays
    ├── ModelUnavailable     network, rate limit or server fault: says nothing of the input
    ├── ModelSilent          it did not answer this input in time, or failed while reading it
    ├── ModelMisconfigured   the endpoint refuses us: key, model name or address are wrong
    └── ModelAnsweredBadly   it answered, and the answer breaks a rule
"""

from collections.abc import Mapping
from typing import Any


class StoreError(Exception):
    """The root. `code` is stable and machine-readable, `details` is safe to show to the caller."""

    code = "internal_error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details


class NotFound(StoreError):
    """The id names nothing in this scope."""

    code = "not_found"


class ScopeNotFound(NotFound):
    """There is no such scope."""

    code = "scope_not_found"


class SourceNotFound(NotFound):
    """The scope's log holds no such source."""

    code = "source_not_found"


class ArtifactNotFound(NotFound):
    """There is no such artifact, or it has no such revision."""

    code = "artifact_not_found"


class CandidateNotFound(NotFound):
    """The scope has no such candidate."""

    code = "candidate_not_found"


class EntryNotFound(NotFound):
    """That revision of the memory does not hold this entry version."""

    code = "memory_not_found"


class EntryPurged(NotFound):
    """Its text was erased, for good (410). Details: entry_id, entry_version_id, purged_at (us)."""

    code = "entry_purged"


class InvalidInput(StoreError):
    """The caller's value breaks a rule; nothing was written."""

    code = "invalid_request"

    def __init__(self, field: str, reason: str, **details: Any) -> None:
        super().__init__(f"{field}: {reason}", field=field, reason=reason, **details)
        self.field = field
        self.reason = reason


class InvalidScopeRelationship(InvalidInput):
    """A scope would be its own ancestor, or reference itself. Details: relationship, issue."""

    code = "invalid_scope_relationship"

    def __init__(self, relationship: str, issue: str) -> None:
        StoreError.__init__(
            self, f"{relationship}: {issue}", relationship=relationship, issue=issue
        )
        self.field = relationship
        self.reason = issue


class SecretDetected(InvalidInput):
    """The text holds a credential; it is named by its kind and never repeated."""

    code = "secret_detected"


class InvalidEvidence(InvalidInput):
    """What a candidate stands on, directly or through lineage, cannot be used."""


class SourceNotEligible(InvalidEvidence):
    """A cited source is the store's own record of provenance. Details: source_ref."""

    code = "source_not_eligible"


class InvalidCitation(InvalidEvidence):
    """A citation names no entry version of that revision. Details: memory_citation."""

    code = "invalid_memory_citation"


class CitedEntryInactive(InvalidEvidence):
    """A cited entry is retired, at the cited revision or now. Details: memory_citation."""

    code = "memory_entry_inactive"


class EvidenceUnavailable(InvalidEvidence):
    """What is cited cannot be read any more: it was erased, or lineage leads nowhere."""

    code = "evidence_unavailable"


class EvidenceLimitExceeded(InvalidEvidence):
    """With its root sources a candidate has too much evidence. Details: limit, observed."""

    code = "evidence_limit_exceeded"


class UnchangedProposal(InvalidInput):
    """The proposal is what its target says already; approving it would change nothing."""

    code = "unchanged_proposal"


class InvalidProposal(InvalidInput):
    """A model's output breaks a rule; the window stays put."""

    code = "inference_invalid_output"


class NotSupported(StoreError):
    """This installation cannot do what was asked. Details: capability."""

    code = "capability_not_supported"

    def __init__(self, capability: str, message: str) -> None:
        super().__init__(message, capability=capability)


class Conflict(StoreError):
    """Someone else moved first; read again and decide."""

    code = "conflict"


class ScopeVersionConflict(Conflict):
    """The scope was updated since it was read. Details: expected_version, current_version."""

    code = "scope_version_conflict"


class ScopeIdempotencyConflict(Conflict):
    """The creation key made a scope of other values."""

    code = "scope_idempotency_conflict"


class SourceConflict(Conflict):
    """This (source type, source id) already holds other content or metadata."""

    code = "source_conflict"


class RevisionConflict(Conflict):
    """The artifact head is past the one you cited."""

    code = "revision_conflict"


class EntryInactive(Conflict):
    """The cited entry is retired."""

    code = "memory_entry_inactive"


class CandidateConflict(Conflict):
    """The candidate was revised since. Details: expected_version, current_version."""

    code = "candidate_conflict"


class CandidateTerminal(Conflict):
    """The candidate is approved or rejected, which is final. Details: status."""

    code = "candidate_terminal"


class ArtifactConflict(Conflict):
    """The target is no longer the head. Details: current, as a reference."""

    code = "artifact_conflict"


class ArtifactInactive(Conflict):
    """The experience is deprecated or retired. Details: artifact, lifecycle."""

    code = "artifact_inactive"


class IdempotencyConflict(Conflict):
    """The idempotency key belongs to another request, or to one that is still at work.

    Details: `reason`, either `other request` or `in progress`; the latter may be tried again.
    """

    code = "idempotency_conflict"


class GenerationEnded(Conflict):
    """The generation was promoted or discarded, which is final. Details: generation, status."""

    code = "generation_ended"


class CursorConflict(Conflict):
    """The cursor is not where this window starts: another run committed first."""

    code = "cursor_conflict"


class CapacityExceeded(StoreError):
    """The memory would outgrow its budget. Details: dimension, limit, observed."""

    code = "memory_capacity_exceeded"


class InvalidCursor(StoreError):
    """The page cursor is not one of ours, was altered, or belongs to another list."""

    code = "invalid_cursor"

    def __init__(self, reason: str = "is invalid") -> None:
        super().__init__(f"cursor: {reason}", field="cursor", reason=reason)


class CursorExpired(StoreError):
    """The page cursor is older than an hour; start again at the first page."""

    code = "cursor_expired"

    def __init__(self) -> None:
        super().__init__("cursor: has expired", field="cursor", reason="has expired")


class WindowRefused(StoreError):
    """The window cannot be run as asked: malformed, out of order or already processed."""

    code = "window_refused"


class GenerationUnavailable(StoreError):
    """No model is configured that could write this. Details: family."""

    code = "generation_unavailable"


class StoreBusy(StoreError):
    """The database would not take the write in time; safe to retry as is."""

    code = "store_busy"


class StoreUnavailable(StoreError):
    """The database cannot be reached, or holds something that is not this store."""

    code = "store_unavailable"


class SearchExtensionUnavailable(StoreError):
    """DuckDB lacks an extension that an index file is built with. Details: extension."""

    code = "search_extension_unavailable"

    def __init__(self, extension: str, why: str) -> None:
        super().__init__(
            f"DuckDB's extension {extension!r} cannot be loaded: {why}", extension=extension
        )


class IndexUnwritable(StoreError):
    """The folder of index files does not take one; searches stay right, and slower."""

    code = "index_unwritable"


class ModelError(StoreError):
    """The model gave nothing usable; the cursor stays where it was.

    Attributes:
        counts: whether the failure says something about the input, so that repeating it
            may lead to halving the window and to quarantine.
        usage: what the failed attempt cost, a `domain.proposal.Usage`, or None.
    """

    code = "inference_failed"
    counts = False

    def __init__(self, message: str, *, usage: Any = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.usage = usage


class ModelUnavailable(ModelError):
    """Network, rate limit or server fault: it says nothing of the input; safe to retry as is."""

    code = "inference_unavailable"


class ModelSilent(ModelError):
    """The model did not answer this input in time, or its server failed while reading it."""

    code = "inference_timeout"
    counts = True


class ModelMisconfigured(ModelError):
    """The endpoint refuses us: key, model name or address are wrong; a person must act."""

    code = "inference_misconfigured"


class ModelAnsweredBadly(ModelError):
    """The model answered, and the answer breaks a rule.

    Attributes:
        salvage: the proposals of the last answer that break no rule, and
        rejected: those that do, with the reason; both empty when no list could be read.
    """

    code = "inference_invalid_output"
    counts = True

    def __init__(
        self,
        message: str,
        *,
        usage: Any = None,
        salvage: tuple[Any, ...] = (),
        rejected: tuple[Any, ...] = (),
        readable: bool = False,
        **details: Any,
    ) -> None:
        super().__init__(message, usage=usage, **details)
        self.salvage = salvage
        self.rejected = rejected
        self.readable = readable
