"""Errors that only the HTTP edge knows: who is asking, and how the request itself was sent."""

from pc_store.errors import StoreError


class Unauthorized(StoreError):
    """No token, or none that is known."""

    code = "unauthorized"


class Forbidden(StoreError):
    """The token is known and does not allow this."""

    code = "forbidden"


class NoSuchRoute(StoreError):
    """Nothing is served at this path."""

    code = "route_not_found"


class WrongMethod(StoreError):
    """The path is served, by other methods."""

    code = "method_not_allowed"


class BodyTooLarge(StoreError):
    """The body is longer than the server reads."""

    code = "request_too_large"


class BodyTooSlow(StoreError):
    """The body did not arrive in time."""

    code = "request_timeout"


class Overloaded(StoreError):
    """More requests are being answered than the server takes on; safe to retry as is."""

    code = "server_busy"


class InternalError(StoreError):
    """A fault of the server's own; the log has it under the request id."""

    code = "internal_error"
