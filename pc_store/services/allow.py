"""What tokens allow: read where `PC_API_TOKENS` says, and asked again before a dream acts."""

from pathlib import Path

from pc_store.domain.principal import RUNTIME, Grant, grants
from pc_store.dream_refusals import AccessRevoked, AccessUnavailable
from pc_store.errors import InvalidInput
from pc_store.settings import Settings


def token_file(given: str) -> Path | None:
    """The file that the setting names; None when it is a list of tokens itself."""
    return None if given.lstrip().startswith("[") else Path(given)


def read_tokens(given: str) -> tuple[tuple[bytes, Grant], ...]:
    """What tokens allow, each beside the SHA-256 of its token.

    Args:
        given: a JSON list, or the path of a file that holds one.

    Raises:
        InvalidInput: it is neither, or a token breaks a rule; the message names the place and
            never a token.
    """
    file = token_file(given)
    try:
        text = file.read_text("utf-8") if file else given
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("PC_API_TOKENS", "is neither a JSON list nor a readable file") from None
    return grants(text)


def refuse_revoked(settings: Settings, scope_id: str, principal: str) -> None:
    """Let only those act on a scope who may contribute to it now.

    Without `PC_API_TOKENS` nothing is known of anybody, and everybody may. Who submitted
    something without a token, on this machine, always may.

    Raises:
        AccessRevoked: no token has the name any more, or it may not contribute there.
        AccessUnavailable: the tokens cannot be read.
    """
    if settings.api_tokens is None or principal == RUNTIME:
        return
    try:
        known = read_tokens(settings.api_tokens.get_secret_value())
    except InvalidInput as error:
        raise AccessUnavailable(error.message) from None
    for _, grant in known:
        if grant.name == principal and grant.may("contribute") and grant.sees(scope_id):
            return
    raise AccessRevoked(f"the token {principal!r} does not allow contribute in this scope now")
