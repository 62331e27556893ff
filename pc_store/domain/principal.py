"""Who may call: what each token is limited to, read from a list of tokens.

Only the SHA-256 of a token is kept in memory, and nothing here repeats one.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pc_store.domain import strict_json
from pc_store.errors import InvalidInput

Verb = Literal["read", "contribute", "review", "admin"]
ANY_SCOPE = "*"
RUNTIME = "runtime"
"""Who does something where nobody has to say who they are; no token has the name."""
_SETTING = "PC_API_TOKENS"


@dataclass(frozen=True)
class Grant:
    """What somebody may do, and in which scopes. `admin` includes every other verb."""

    name: str
    scopes: frozenset[str] = frozenset({ANY_SCOPE})
    verbs: frozenset[str] = frozenset({"admin"})

    def may(self, verb: Verb) -> bool:
        """Whether the verb is allowed."""
        return bool(self.verbs & {verb, "admin"})

    @property
    def limited(self) -> bool:
        """Whether only some scopes are allowed."""
        return ANY_SCOPE not in self.scopes

    def sees(self, scope_id: str) -> bool:
        """Whether the scope is allowed."""
        return not self.limited or scope_id in self.scopes


class _Token(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=128, pattern=r"^[\x21-\x7E]+$")
    token: str | None = Field(default=None, min_length=8, pattern=r"^[\x21-\x7E]+$")
    token_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    scopes: list[str] = Field(min_length=1)
    verbs: list[Verb] = Field(min_length=1)

    @field_validator("name")
    @classmethod
    def _somebodys(cls, value: str) -> str:
        if value == RUNTIME:
            raise ValueError(f"{RUNTIME} is who calls without a token")
        return value

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.token is None) == (self.token_sha256 is None):
            raise ValueError("exactly one of token and token_sha256 is needed")
        return self

    @property
    def digest(self) -> bytes:
        if self.token_sha256 is not None:
            return self.token_sha256.encode()
        assert self.token is not None
        return digest(self.token.encode())


class _Tokens(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, hide_input_in_errors=True)

    tokens: list[_Token] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for what in ("name", "digest"):
            if len({getattr(token, what) for token in self.tokens}) != len(self.tokens):
                raise ValueError("two tokens have the same name or the same value")
        return self


def digest(token: bytes) -> bytes:
    """SHA-256 of a token, lower-case hex."""
    return hashlib.sha256(token).hexdigest().encode()


def grants(text: str) -> tuple[tuple[bytes, Grant], ...]:
    """What the tokens of a JSON list allow, each beside the SHA-256 of its token.

    Raises:
        InvalidInput: it is no such list, or a token breaks a rule; the message names the place
            and never a token.
    """
    try:
        tokens = _Tokens.model_validate({"tokens": strict_json.loads(text, field=_SETTING)}).tokens
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        raise InvalidInput(_SETTING, f"{where}: {first['msg'].lower()}".lstrip(": ")) from None
    return tuple(
        (token.digest, Grant(token.name, frozenset(token.scopes), frozenset(token.verbs)))
        for token in tokens
    )
