"""The form of a prepared context that callers arrange: Markdown, a section for each family."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from pc_store import limits
from pc_store.domain import envelope, fence
from pc_store.domain.prepared import Family, Item, Layout
from pc_store.errors import InvalidInput

SectionFamily = Literal["memory", "experience", "profile", "topic-memory"]
Shown = Literal["confidence", "recall_rank"]

_HEADINGS: dict[Family, str] = {"memory": "Memory", "experience": "Experience"}
_TITLE = "# PowerContext historical context"
_INDENT = "    "
_QUOTE = ">     "


@dataclass(frozen=True)
class Section:
    """Most items of one family. Profiles and topic memories are never found by this store."""

    family: SectionFamily
    limit: int


@dataclass(frozen=True)
class Assembly:
    """What a caller wants: sections in order, and what to say of each item beside its name."""

    sections: tuple[Section, ...] = (
        Section("memory", limits.CONTEXT_ITEMS_MAX - limits.CONTEXT_EXPERIENCES_MAX),
        Section("experience", limits.CONTEXT_EXPERIENCES_MAX),
    )
    show: frozenset[Shown] = frozenset()

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """From the fullest to the tersest."""
        return (Sections(self.show), Sections(self.show, terse=True))


def checked(sections: Iterable[Section], show: Sequence[Shown]) -> Assembly:
    """An assembly that keeps the rules.

    Raises:
        InvalidInput: a family comes twice, a limit is not 1 to 8 (experience: 2), the limits
            together exceed 8, or something is to be shown twice.
    """
    found = tuple(sections)
    for place, section in enumerate(found):
        most = (
            limits.CONTEXT_EXPERIENCES_MAX
            if section.family == "experience"
            else limits.CONTEXT_ITEMS_MAX
        )
        if not 1 <= section.limit <= most:
            raise InvalidInput(
                f"assembly.sections.{place}.limit",
                f"is {section.limit}, expected 1 to {most} for {section.family}",
            )
    if len({section.family for section in found}) != len(found):
        raise InvalidInput("assembly.sections", "name a family twice")
    together = sum(section.limit for section in found)
    if together > limits.CONTEXT_ITEMS_MAX:
        raise InvalidInput(
            "assembly.sections",
            f"have limits of {together} together, the most is {limits.CONTEXT_ITEMS_MAX}",
        )
    if len(set(show)) != len(show):
        raise InvalidInput("assembly.show", "names something twice")
    return Assembly(found, frozenset(show))


@dataclass(frozen=True)
class Sections:
    """The layout: headings, what is known of an item, and its lines as an indented quotation."""

    show: frozenset[Shown] = frozenset()
    terse: bool = False

    def piece(self, item: Item, ordinal: int) -> str:
        """An item under its heading."""
        heading = f"### {_HEADINGS[item.found.family]} {ordinal}"
        about = "\n".join(f"{_INDENT}{line}" for line in self._about(item))
        text = "\n".join(f"{_QUOTE}{line}" for line in fence.visible_lines(item.content))
        return "\n\n".join((heading, about, text))

    def document(self, pieces: Sequence[tuple[Family, str]]) -> str:
        """The whole; pieces of one family stand together."""
        head = [fence.SHORT_TRUST] if self.terse else [_TITLE, fence.TRUST]
        blocks = [*head, fence.begin(fence.TEXT)]
        for family, some in groupby(pieces, key=lambda piece: piece[0]):
            blocks += [f"## {_HEADINGS[family]}", *(text for _, text in some)]
        return "\n\n".join([*blocks, fence.end(fence.TEXT)])

    def _about(self, item: Item) -> list[str]:
        found = item.found
        if self.terse:
            lines = [f"Citation: {fence.quoted(envelope.handle(found))}"]
        else:
            ref = found.ref
            lines = [
                f"Scope: {fence.quoted(found.scope_id)}",
                f"Artifact: family={fence.quoted(ref.family)}, "
                f"id={fence.quoted(ref.artifact_id)}, revision={ref.revision}",
            ]
            if found.family == "memory":
                lines.append(
                    f"Entry: id={fence.quoted(found.entry_id)}, "
                    f"version={fence.quoted(found.entry_version_id)}"
                )
        if "confidence" in self.show:
            lines.append("Confidence: unknown (not assessed)")
        if "recall_rank" in self.show:
            lines.append(f"Recall rank: {item.rank}")
        return [*lines, f"Truncated: {'yes' if item.truncated else 'no'}"]
