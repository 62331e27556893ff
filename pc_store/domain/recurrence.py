"""Whether a failure came back or was avoided: rules on one task outcome and one experience.

Everything here is a function of the outcome, the experience's exact revision and positions in
the log. No model, clock or similarity decides; the same log gives the same verdicts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pc_store.domain import strict_json
from pc_store.domain.experience import Experience, RepairSurface
from pc_store.domain.failure import (
    FAILED_CHECKS,
    FAILED_OUTCOMES,
    FailureItem,
    cue_key,
    failure_items,
)
from pc_store.domain.outcome import Check, Observation, TaskOutcome
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.domain.text import shortened

Mode = Literal["scope_heads", "receipt"]
Result = Literal["matched", "unmatched", "ambiguous", "pending"]
Verdict = Literal["recurred", "avoided"]

REVIEWED_SURFACE: RepairSurface = "experience_content"
"""The repair surface whose recurrences ask for a review of the experience."""
CUE_SHOWN_CHARS = 200
REVIEW_AUTHOR = "recurrence"
"""The author of what a review says until somebody changes it."""
_DRAFT_AUTHOR = "model draft"
_DRAFTED_BY = "Drafted by the model "
_MODEL_SHOWN_CHARS = 100
_SHOWN_RECORDS = 5
_RECORD_SHOWN_CHARS = 60
_CHANGE_IT = "Change what it says; an unchanged copy is not approved."
ALIKE_RATIO = 0.8
"""Cues at least this much alike are pointed out to people; they never count as equal."""


@dataclass(frozen=True)
class Tracked:
    """An exact revision of an experience that tracks a failure.

    Attributes:
        approved_at: where the log ended when the revision was approved.
        lineage: the sources that the revision was made from.
    """

    ref: ArtifactRef
    cue_key: str
    surface: RepairSurface
    condition_key: str
    check_key: str
    approved_at: int
    lineage: frozenset[SourceRef]

    def founding(self, outcome: SourceRef, position: int) -> str | None:
        """Why an outcome belongs to what the revision was made from; None if it came later."""
        if outcome in self.lineage:
            return "the outcome is among what the revision was made from"
        if position <= self.approved_at:
            return (
                f"the outcome was in the log when the revision was approved at {self.approved_at}"
            )
        return None


@dataclass(frozen=True)
class Match:
    """What a failing item was matched to. Once it is not `pending` it never changes."""

    result: Result
    matched: Tracked | None = None
    eligible: tuple[ArtifactRef, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class Avoidance:
    """The observation and the check, by index, that show an avoidance."""

    condition: int
    check: int


def tracked(
    ref: ArtifactRef, content: Experience, *, approved_at: int, lineage: Iterable[SourceRef]
) -> Tracked | None:
    """What a revision tracks; None when it names no failure."""
    if content.failure is None or not content.cue_key:
        return None
    verification = content.failure.verification
    return Tracked(
        ref=ref,
        cue_key=content.cue_key,
        surface=content.failure.repair_surface,
        condition_key=cue_key(verification.condition),
        check_key=cue_key(verification.check_subject),
        approved_at=approved_at,
        lineage=frozenset(lineage),
    )


def match(
    item: FailureItem, alike: Sequence[Tracked], *, outcome: SourceRef, position: int
) -> Match:
    """Decide which of some revisions a failing item counts for.

    Args:
        alike: the revisions in question whose cue equals the item's text.
        outcome: the task outcome that the item is of, and `position` its place in the log.
    """
    if not item.cue_key:
        return Match("unmatched", note="nothing is left of the item's text that could be equal")
    notes = [
        f"not {one.ref.artifact_id} revision {one.ref.revision}: {why}"
        for one in alike
        if (why := one.founding(outcome, position))
    ]
    counting = [one for one in alike if one.founding(outcome, position) is None]
    eligible = tuple(sorted(one.ref for one in counting))
    note = "; ".join(notes) or None
    if len(counting) == 1:
        return Match("matched", counting[0], eligible, note)
    return Match("ambiguous" if counting else "unmatched", None, eligible, note)


def avoidance(outcome: TaskOutcome, one: Tracked) -> Avoidance | str:
    """Where an outcome shows that the failure was avoided, or why it shows no such thing.

    Exactly one verified observation must say that the situation came up, and exactly one
    verified check of the subject must have passed. What the whole task came to does not matter.
    """
    seen = [i for i, item in enumerate(outcome.observations) if _says(item, one.condition_key)]
    if len(seen) != 1:
        return f"{_count(len(seen))} verified observation equals the condition, one is expected"
    checks = [i for i, item in enumerate(outcome.checks) if _says(item, one.check_key)]
    if len(checks) != 1:
        return f"{_count(len(checks))} verified check equals the check subject, one is expected"
    status = outcome.checks[checks[0]].status
    if status != "passed":
        return f"the check has the status {status}, passed is expected"
    return Avoidance(seen[0], checks[0])


def remarks(outcome: TaskOutcome, one: Tracked) -> list[str]:
    """Why items of an outcome that speak of a tracked failure do not show that it came back.

    An item that does show it gives no remark; nor does one that speaks of something else.
    """
    told = []
    for index, check in enumerate(outcome.checks):
        if cue_key(check.name) == one.cue_key:
            why = _not_failing(check.basis, check.status, FAILED_CHECKS)
            told += [f"check {index} equals the cue, but {why}"] if why else []
    for index, seen in enumerate(outcome.observations):
        if cue_key(seen.text) == one.cue_key:
            why = _not_failing(seen.basis, outcome.status, FAILED_OUTCOMES)
            told += [f"observation {index} equals the cue, but {why}"] if why else []
    return told


def failing(outcome: TaskOutcome, one: Tracked) -> bool:
    """Whether a verified failing item of an outcome equals the cue."""
    return any(item.cue_key == one.cue_key for item in failure_items(outcome))


def speaks_of_avoiding(outcome: TaskOutcome, one: Tracked) -> bool:
    """Whether an item of an outcome, verified or not, equals the condition or the check subject."""
    texts = {cue_key(item.text) for item in outcome.observations}
    names = {cue_key(item.name) for item in outcome.checks}
    return bool((texts & {one.condition_key} | names & {one.check_key}) - {""})


def _not_failing(basis: str, status: str, failing: Sequence[str]) -> str | None:
    if basis != "verified":
        return "it is declared, not verified"
    return None if status in failing else f"the status is {status}"


def verdict_key(scope_id: str, ref: ArtifactRef, cue: str, position: int) -> str:
    """Names the one verdict that an outcome may give on a tracked failure."""
    return strict_json.digest_prefixed(
        "pc:verdict:v1", [scope_id, ref.artifact_id, ref.revision, cue, position]
    )


def alike(left: str, right: str) -> float:
    """How much two normalised cues are alike, 0 to 1: Dice's coefficient of their bigrams."""
    first, second = (
        Counter(text[i : i + 2] for i in range(max(1, len(text) - 1))) for text in (left, right)
    )
    return 2 * (first & second).total() / (first.total() + second.total())


def review_reason(
    ref: ArtifactRef, cue: str, *, streak: int, recurred: int, before: str | None = None
) -> str:
    """Say why an experience goes back to review; a long cue is cut.

    Args:
        before: the reason so far of a review that says something else than the experience by
            now; what it tells of a draft is kept. None for a copy, which has to be changed.
    """
    shown = shortened(cue, CUE_SHOWN_CHARS)
    facts = (
        f"This failure keeps coming back: {streak} in a row, {recurred} since the approval of "
        f"experience/{ref.artifact_id} revision {ref.revision} (cue: {shown})."
    )
    if before is None:
        return f"{facts} {_CHANGE_IT}"
    _, drafted, told = before.partition(_DRAFTED_BY)
    return f"{facts} {drafted}{told}".rstrip()


def drafted_reason(reason: str, *, model: str, records: Sequence[str], told: str) -> str:
    """A review's reason once a model has drafted its change: the facts stay, long names are cut.

    Args:
        records: ids of the outcomes that the change rests on.
        told: what the model says of it, at most 1,000 characters.
    """
    facts = reason.partition(_DRAFTED_BY)[0].removesuffix(_CHANGE_IT).rstrip()
    shown = [shortened(one, _RECORD_SHOWN_CHARS) for one in records[:_SHOWN_RECORDS]]
    if len(records) > len(shown):
        shown.append(f"{len(records) - len(shown)} more")
    of = f"{shortened(model, _MODEL_SHOWN_CHARS)} from {', '.join(shown)}"
    return f"{facts} {_DRAFTED_BY}{of}: {told}".lstrip()


def draft_author(model: str) -> str:
    """The author of a version that a model drafted. No name of a token holds a space."""
    return f"{_DRAFT_AUTHOR}, {shortened(model, _MODEL_SHOWN_CHARS)}"


def is_draft(author: str) -> bool:
    """Whether a model drafted the version of this author."""
    return author.startswith(f"{_DRAFT_AUTHOR}, ")


def untouched(authors: Iterable[str]) -> bool:
    """Whether no person has written any of a review's versions."""
    return all(one == REVIEW_AUTHOR or is_draft(one) for one in authors)


def _says(item: Observation | Check, key: str) -> bool:
    text = item.text if isinstance(item, Observation) else item.name
    return bool(key) and item.basis == "verified" and cue_key(text) == key


def _count(number: int) -> str:
    return "no" if number == 0 else f"more than one ({number})"
