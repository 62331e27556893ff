"""A memory entry, its immutable versions, and the rules by which proposals become changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pc_store import limits
from pc_store.domain import strict_json, text
from pc_store.domain.refs import ArtifactRef, SourceRef

State = Literal["active", "inactive"]
Op = Literal["add", "revise", "deactivate", "reactivate"]
Origin = Literal["explicit", "extraction", "replay"]


@dataclass(frozen=True)
class EntryVersion:
    """An entry as one revision's manifest holds it: an immutable version and a state."""

    entry_id: str
    entry_version_id: str
    version: int
    kind: str
    text: str
    state: State = "active"
    source_refs: tuple[SourceRef, ...] = ()
    artifact_refs: tuple[ArtifactRef, ...] = ()
    created_in_revision: int = 0
    origin: Origin = "explicit"
    created_at: int = 0

    @property
    def purged(self) -> bool:
        """Whether the text was erased; no other entry has an empty one."""
        return not self.text

    @property
    def content_hash(self) -> str:
        """The entry content hash; see `content_hash`."""
        return content_hash(self.kind, self.text, self.source_refs, self.artifact_refs)


def content_hash(
    kind: str, body: str, sources: Iterable[SourceRef], artifacts: Iterable[ArtifactRef]
) -> str:
    """SHA-256, hex, of `powercontext:entry-content:v1`, NUL, and the entry's canonical JSON."""
    value = {
        "kind": kind,
        "text": body,
        "source_refs": [{"name": s.source_type, "source_id": s.source_id} for s in sources],
        "artifact_refs": [
            {"family": a.family, "artifact_id": a.artifact_id, "revision": a.revision}
            for a in artifacts
        ],
    }
    return strict_json.digest_prefixed("powercontext:entry-content:v1", value)


@dataclass(frozen=True)
class Draft:
    """A proposal whose evidence is resolved and whose text is normalised."""

    intent: Literal["add", "revise"]
    kind: str
    text: str
    sources: tuple[SourceRef, ...] = ()
    entry_id: str | None = None
    reason: str | None = None

    @property
    def same(self) -> tuple[str, str]:
        """What makes two active entries the same for deduplication."""
        return self.kind, text.digest(self.text)


@dataclass(frozen=True)
class Change:
    """One entry's change in a new revision; `after` is None when only the state changes."""

    op: Op
    before: EntryVersion | None
    kind: str
    text: str
    sources: tuple[SourceRef, ...]
    reason: str | None = None


@dataclass(frozen=True)
class Dropped:
    """A draft that led to no change, and why."""

    draft: Draft
    why: Literal["already known", "equal to a retired entry", "unchanged", "revised since"]


@dataclass
class ChangePlan:
    """What a batch of drafts does to a memory. Empty changes mean no new revision."""

    changes: list[Change] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)


def plan_changes(
    drafts: Sequence[Draft],
    *,
    targets: Mapping[str, EntryVersion],
    alike: Mapping[str, Sequence[EntryVersion]],
    extracted: bool,
) -> ChangePlan:
    """Deduplicate drafts against each other and the memory, and say what changes.

    Args:
        drafts: in order; revise drafts name an entry of `targets`, each at most once.
        targets: the current active versions of the entries to be revised.
        alike: by text digest, every current entry, active or not, that has one of the texts.
        extracted: whether a program proposed them. Then evidence is added to an entry whose
            text is seen again, and a text equal to a retired one stays retired; an explicit
            write does neither.

    Returns:
        At most one change per entry: revisions first, then additions, each in the order of the
        drafts. No entry cites more than 32 sources: a new text keeps those it was drawn from
        and as many of its predecessor's as fit, an unchanged text keeps those it had.
    """
    plan = ChangePlan()
    order: list[str | tuple[str, str]] = []
    pending: dict[str | tuple[str, str], Change] = {}

    def put(key: str | tuple[str, str], change: Change) -> None:
        if key not in pending:
            order.append(key)
        pending[key] = change

    resulting: dict[tuple[str, str], str | tuple[str, str]] = {}
    for draft in sorted(drafts, key=lambda item: item.intent != "revise"):
        body_digest = text.digest(draft.text)
        if draft.intent == "revise":
            assert draft.entry_id is not None
            target = targets[draft.entry_id]
            changed = (target.kind, target.text) != (draft.kind, draft.text)
            if extracted and changed and _retired(alike.get(body_digest, ()), draft.kind):
                plan.dropped.append(Dropped(draft, "equal to a retired entry"))
                continue
            if changed:
                sources = _union(draft.sources, target.source_refs)
            else:
                sources = _union(target.source_refs, draft.sources)
            if not changed and sources == target.source_refs:
                plan.dropped.append(Dropped(draft, "unchanged"))
                continue
            put(
                target.entry_id,
                Change("revise", target, draft.kind, draft.text, sources, draft.reason),
            )
            resulting[draft.same] = target.entry_id
            continue

        known = resulting.get(draft.same)
        if known is not None:
            earlier = pending[known]
            merged = _union(earlier.sources, draft.sources) if extracted else earlier.sources
            pending[known] = replace(earlier, sources=merged)
            plan.dropped.append(Dropped(draft, "already known"))
            continue
        standing = _standing(draft.text, alike.get(body_digest, ()), pending.values())
        equal = [e for e in standing if e.state == "active" and e.kind == draft.kind]
        if equal:
            active = equal[0]
            sources = _union(active.source_refs, draft.sources)
            if extracted and not any(_cites(e, draft.sources) for e in equal):
                put(
                    active.entry_id,
                    Change("revise", active, active.kind, active.text, sources, "seen again"),
                )
                resulting[draft.same] = active.entry_id
            else:
                plan.dropped.append(Dropped(draft, "already known"))
            continue
        if extracted and _retired(standing, draft.kind):
            plan.dropped.append(Dropped(draft, "equal to a retired entry"))
            continue
        sources = _union((), draft.sources)
        put(draft.same, Change("add", None, draft.kind, draft.text, sources, draft.reason))
        resulting[draft.same] = draft.same

    plan.changes = [pending[key] for key in order]
    return plan


def _standing(
    body: str, alike: Iterable[EntryVersion], planned: Iterable[Change]
) -> list[EntryVersion]:
    """The entries that have a text once the planned revisions are made."""
    revised = {change.before.entry_id: change for change in planned if change.before}
    entries = {entry.entry_id: entry for entry in alike}
    for entry_id, change in revised.items():
        entries.pop(entry_id, None)
        if change.text == body and change.before:
            entries[entry_id] = replace(change.before, kind=change.kind, text=change.text)
    return list(entries.values())


def _cites(entry: EntryVersion, sources: Iterable[SourceRef]) -> bool:
    """Whether an entry has all of the evidence, or no room for more."""
    return _union(entry.source_refs, sources) == entry.source_refs


def _retired(alike: Sequence[EntryVersion], kind: str) -> bool:
    """Whether a text of this kind, or where there is none, of any, is only known as retired."""
    known = [entry for entry in alike if entry.kind == kind] or alike
    return bool(known) and all(entry.state == "inactive" for entry in known)


def _union(first: Iterable[SourceRef], then: Iterable[SourceRef]) -> tuple[SourceRef, ...]:
    """The first 32 of both, each once, sorted by their canonical JSON bytes."""
    return tuple(
        sorted(
            list(dict.fromkeys((*first, *then)))[: limits.EVIDENCE_MAX],
            key=lambda ref: strict_json.canonical(
                {"name": ref.source_type, "source_id": ref.source_id}
            ),
        )
    )
