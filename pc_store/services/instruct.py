"""Prompts: the packaged policy, and a scope's own in its place, by exact revision."""

from dataclasses import dataclass

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain import text as rules
from pc_store.domain.refs import PROMPT_FAMILY, ArtifactRef
from pc_store.errors import InvalidInput, RevisionConflict
from pc_store.ledger import artifacts, scopes
from pc_store.ledger.artifacts import Revision
from pc_store.ledger.database import Database
from pc_store.llm.policy import packaged as packaged

MEMORY_EXTRACT = "memory.extract"
EXPERIENCE_INCUBATE = "experience.incubate"
EXPERIENCE_GENERATE = "experience.generate"
PROMPTS = (MEMORY_EXTRACT, EXPERIENCE_INCUBATE, EXPERIENCE_GENERATE)
"""The prompts that a scope may replace."""


@dataclass(frozen=True)
class Prompt:
    """A prompt in force: its text, the label windows record, and the artifact if it is one."""

    key: str
    text: str
    label: str
    ref: ArtifactRef | None


def prompt_in_force(conn: sa.Connection, scope_id: str, key: str) -> Prompt:
    """The scope's own prompt, or else the packaged one.

    Raises:
        NotFound: no prompt has this key.
    """
    default = packaged(key)
    head = artifacts.head(conn, scope_id, PROMPT_FAMILY, key)
    if head:
        content = artifacts.revision(conn, scope_id, PROMPT_FAMILY, key, head).content
        if content["text"] is not None:
            ref = ArtifactRef(PROMPT_FAMILY, key, head)
            return Prompt(key, content["text"], f"scope revision {head}", ref)
    return Prompt(key, default.text, f"packaged version {default.version}", None)


def read_prompt(db: Database, scope_id: str, key: str) -> Prompt:
    """The prompt in force. Raises NotFound: no such scope, or no prompt has this key."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return prompt_in_force(conn, scope_id, key)


def set_prompt(
    db: Database,
    scope_id: str,
    key: str,
    text: str | None,
    *,
    reason: str | None = None,
    expected_revision: int | None = None,
    now_us: int,
) -> Prompt:
    """Give the scope a prompt of its own, or with None the packaged one again.

    Raises:
        NotFound: no such scope, or no prompt has this key.
        InvalidInput: the text is blank, unstorable or over 50,000 characters.
        RevisionConflict: the prompt is not at the expected revision (0: none yet).
    """
    packaged(key)
    if text is not None:
        rules.storable("text", text)
        rules.within("text", text, limits.PROMPT_TEXT_MAX_CHARS)
        if not text.strip():
            raise InvalidInput("text", "is blank")
    told = rules.reason(reason)
    with db.write() as conn:
        scopes.get(conn, scope_id)
        head = artifacts.ensure(conn, scope_id, PROMPT_FAMILY, key, now_us=now_us)
        if expected_revision is not None and expected_revision != head:
            raise RevisionConflict(
                f"the prompt {key} is at revision {head}, {expected_revision} was expected",
                current=head,
            )
        artifacts.commit(
            conn,
            scope_id,
            PROMPT_FAMILY,
            key,
            expected=head,
            content={"schema": "pc.prompt.v1", "key": key, "text": text},
            reason=told,
            origin="explicit",
            window_id=None,
            now_us=now_us,
        )
        return prompt_in_force(conn, scope_id, key)


def prompt_revisions(db: Database, scope_id: str, key: str) -> list[Revision]:
    """The scope's own revisions of a prompt, newest first."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return artifacts.revisions(conn, scope_id, PROMPT_FAMILY, key, limit=limits.PAGE_MAX)
