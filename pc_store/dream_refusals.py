"""Refusals that only dreams know. They stand on the floor of `errors`.

StoreError
├── NotFound
│   ├── DreamNotFound          the scope has no such dream
│   └── ReferenceNotFound      a dream selects something that does not exist
├── Conflict
│   └── DreamEnded             the dream has ended and cannot be cancelled
├── InvalidInput
│   └── InvalidDreamCursor     the cursor of a list of dreams is malformed
├── CapacityExceeded
│   └── DreamQueueFull         as many dreams of the scope wait as may
├── CapabilityUnavailable      this installation does not do that, or not now
├── AccessRevoked              who submitted a dream may not contribute any more
└── AccessUnavailable          who may contribute cannot be read
"""

from pc_store.errors import CapacityExceeded, Conflict, InvalidInput, NotFound, StoreError


class DreamNotFound(NotFound):
    """The scope has no such dream."""

    code = "dream_not_found"


class ReferenceNotFound(NotFound):
    """Something that was selected does not exist. Details: the reference."""

    code = "reference_not_found"


class DreamEnded(Conflict):
    """The dream has ended; there is nothing to cancel. Details: status, outcome, error."""

    code = "dream_ended"


class InvalidDreamCursor(InvalidInput):
    """The cursor of a list of dreams is malformed."""

    code = "invalid_cursor"


class DreamQueueFull(CapacityExceeded):
    """As many dreams of the scope wait or run as may; safe to retry. Details: limit, observed."""

    code = "capacity_exceeded"


class CapabilityUnavailable(StoreError):
    """This installation does not do what was asked, or not as it is configured.

    Details: capability.
    """

    code = "capability_unavailable"

    def __init__(self, capability: str, message: str) -> None:
        super().__init__(message, capability=capability)


class AccessRevoked(StoreError):
    """Who submitted a dream may not contribute to its scope any more."""

    code = "access_revoked"


class AccessUnavailable(StoreError):
    """What tokens allow cannot be read."""

    code = "access_unavailable"
