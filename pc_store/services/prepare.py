"""Prepare a context: recall what scopes know about a question and fit it into a budget of bytes."""

from collections.abc import Callable
from dataclasses import dataclass

from pc_store import limits
from pc_store.domain import envelope
from pc_store.domain.assembly import Assembly
from pc_store.domain.prepared import (
    Dropped,
    Family,
    Item,
    Layout,
    Recalled,
    distinct,
    fit,
    round_robin,
)
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.text import storable, within
from pc_store.errors import InvalidInput
from pc_store.ledger import scopes
from pc_store.ledger.database import Database
from pc_store.services import find
from pc_store.services.find import Question
from pc_store.settings import Settings

SCHEMA = "powercontext.prepared-context.v1"
_CANDIDATES: dict[Family, int] = {
    "memory": limits.CONTEXT_MEMORY_CANDIDATES,
    "experience": limits.CONTEXT_EXPERIENCE_CANDIDATES,
}


@dataclass(frozen=True)
class Prepared:
    """A context, None when nothing was found or nothing fits; and what it was made from.

    Attributes:
        mode: how the first scope that holds anything was searched; None when none does.
        items: what is delivered, in order.
        dropped: what was found and is not delivered.
    """

    content: str | None
    mode: str | None
    items: tuple[Item, ...]
    dropped: tuple[Dropped, ...]

    @property
    def content_bytes(self) -> int:
        """UTF-8 bytes of the content."""
        return len((self.content or "").encode())

    @property
    def experiences(self) -> tuple[ArtifactRef, ...]:
        """The experiences delivered that are of the scope itself: its receipts can cite them."""
        found = (item.found for item in self.items)
        return tuple(one.ref for one in found if one.own and one.family == "experience")

    @property
    def truncated(self) -> int:
        """How many items were cut."""
        return sum(item.truncated for item in self.items)


def prepare_context(
    db: Database,
    settings: Settings,
    scope_id: str,
    query: str,
    *,
    max_bytes: int = limits.CONTEXT_BYTES_DEFAULT,
    assembly: Assembly | None = None,
    admit: Callable[[str], None] = lambda _scope_id: None,
) -> Prepared:
    """Recall memory and experiences of a scope, and of those it references directly.

    At most 16 entries, dealt from the scopes in turn, the asking one first, and 8 experiences are
    candidates. Without an assembly, memory and experiences are taken in turn, best first, at most
    8 and of them 2 experiences; with one, section after section. Stored texts stay as they are.

    Args:
        query: not blank, at most 8,192 characters.
        max_bytes: 512 to 32,768, of the content in UTF-8; never exceeded.
        admit: called with each referenced scope before anything is recalled; may raise.

    Raises:
        ScopeNotFound: no such scope.
        InvalidInput: a limit is broken.
    """
    _check(query, max_bytes)
    with db.read() as conn:
        references = scopes.get(conn, scope_id).context_references
    for other in references:
        admit(other)
    searched = (scope_id, *references)
    sections = _sections(assembly)
    question = find.understand(db, settings, query, "auto")
    modes: list[str] = []
    found: dict[Family, list[Recalled]] = {}
    dropped: list[Dropped] = []
    for family in sections:
        recall = _memory if family == "memory" else _experiences
        each = [recall(db, settings, scope_id, one, question, modes) for one in searched]
        found[family], rest = round_robin(each, most=_CANDIDATES[family])
        dropped += [Dropped(one, "cap") for one in rest]
    if assembly is None:
        ordered, _ = round_robin(list(found.values()), most=sum(_CANDIDATES.values()))
    else:
        ordered = [one for family in sections for one in found[family]]
    candidates, left_out = distinct(ordered)
    return _fitted(candidates, [*dropped, *left_out], modes, sections, assembly, max_bytes)


def _check(query: str, max_bytes: int) -> None:
    within("query", storable("query", query), limits.QUERY_MAX_CHARS)
    if not query.strip():
        raise InvalidInput("query", "is blank", code="string-empty")
    if not limits.CONTEXT_BYTES_MIN <= max_bytes <= limits.CONTEXT_BYTES_MAX:
        raise InvalidInput(
            "max_bytes",
            f"is {max_bytes}, expected {limits.CONTEXT_BYTES_MIN} to {limits.CONTEXT_BYTES_MAX}",
        )


def _sections(assembly: Assembly | None) -> dict[Family, int]:
    """Most items by family, in the order in which families are asked for."""
    if assembly is None:
        return {
            "memory": limits.CONTEXT_ITEMS_MAX,
            "experience": limits.CONTEXT_EXPERIENCES_MAX,
        }
    caps: dict[Family, int] = {}
    for section in assembly.sections:
        if section.family == "memory" or section.family == "experience":
            caps[section.family] = section.limit
    return caps


def _memory(
    db: Database, settings: Settings, asking: str, scope_id: str, asked: Question, modes: list[str]
) -> list[Recalled]:
    result = find.search(db, settings, scope_id, asked, limit=limits.CONTEXT_MEMORY_CANDIDATES)
    if result.mode is not None:
        modes.append(result.mode)
    return [
        Recalled(
            "memory",
            scope_id,
            scope_id == asking,
            hit.citation.memory,
            hit.text,
            hit.citation.entry_id,
            hit.citation.entry_version_id,
            hit.sources,
        )
        for hit in result.hits
    ]


def _experiences(
    db: Database, settings: Settings, asking: str, scope_id: str, asked: Question, modes: list[str]
) -> list[Recalled]:
    most = limits.CONTEXT_EXPERIENCE_CANDIDATES
    result = find.search_experiences(db, settings, scope_id, asked, limit=most)
    if result.mode is not None:
        modes.append(result.mode)
    return [
        Recalled(
            "experience", scope_id, scope_id == asking, hit.ref, "\n".join(hit.content.lines())
        )
        for hit in result.hits
    ]


def _fitted(
    candidates: list[Item],
    dropped: list[Dropped],
    modes: list[str],
    caps: dict[Family, int],
    assembly: Assembly | None,
    max_bytes: int,
) -> Prepared:
    layouts: tuple[Layout, ...] = envelope.LAYOUTS if assembly is None else assembly.layouts
    fitted = fit(candidates, layouts, caps=caps, max_bytes=max_bytes)
    return Prepared(
        fitted.content,
        modes[0] if modes else None,
        fitted.items,
        (*dropped, *fitted.dropped),
    )
