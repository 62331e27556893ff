"""Every error the store raises on purpose; one class per reaction the caller can have.

StoreError
├── NotFound                 the id names nothing in this scope
├── InvalidInput             the caller's value breaks a rule; nothing was written
│   └── InvalidProposal      a model's output breaks a rule; the window stays put
├── Conflict                 someone else moved first; read again and decide
│   ├── SourceConflict       this source id already holds other content or metadata
│   ├── RevisionConflict     the artifact head is past the one you cited
│   ├── EntryInactive        the cited entry is retired
│   └── CursorConflict       the cursor is not where this window starts
├── WindowRefused            the window cannot be run as asked; the reason says why
├── StoreBusy                the database would not take the write in time; safe to retry as is
├── StoreUnavailable         the database cannot be reached, or is not this store's
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


class InvalidInput(StoreError):
    """The caller's value breaks a rule; nothing was written."""

    code = "invalid_request"

    def __init__(self, field: str, reason: str, **details: Any) -> None:
        super().__init__(f"{field}: {reason}", field=field, reason=reason, **details)
        self.field = field
        self.reason = reason


class InvalidProposal(InvalidInput):
    """A model's output breaks a rule; the window stays put."""

    code = "inference_invalid_output"


class Conflict(StoreError):
    """Someone else moved first; read again and decide."""

    code = "conflict"


class SourceConflict(Conflict):
    """This (source type, source id) already holds other content or metadata."""

    code = "source_conflict"


class RevisionConflict(Conflict):
    """The artifact head is past the one you cited."""

    code = "revision_conflict"


class EntryInactive(Conflict):
    """The cited entry is retired."""

    code = "memory_entry_inactive"


class CursorConflict(Conflict):
    """The cursor is not where this window starts: another run committed first."""

    code = "cursor_conflict"


class WindowRefused(StoreError):
    """The window cannot be run as asked: malformed, out of order or already processed."""

    code = "window_refused"


class StoreBusy(StoreError):
    """The database would not take the write in time; safe to retry as is."""

    code = "store_busy"


class StoreUnavailable(StoreError):
    """The database cannot be reached, or holds something that is not this store."""

    code = "store_unavailable"


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
