"""What in a task outcome counts as a failure that was seen, and how failures are told apart.

Matching is by equality of normalised text, and nothing else: no part of it is fuzzy, so the same
log gives the same verdicts whenever and wherever it is read.
"""

import unicodedata
from dataclasses import dataclass
from typing import Literal

from pc_store.domain import strict_json
from pc_store.domain.outcome import Check, Evidence, Observation, TaskOutcome

ItemKind = Literal["check", "observation"]

FAILED_CHECKS = ("failed", "timed_out", "unavailable")
"""Check statuses that show a failure. Skipped, cancelled and unknown ones show nothing."""
FAILED_OUTCOMES = ("failed", "blocked")
"""Outcome statuses under which a verified observation shows a failure."""


@dataclass(frozen=True)
class FailureItem:
    """A verified item of a task outcome that shows a failure.

    Attributes:
        index: from 0, among the outcome's checks or observations.
        cue_key: the normalised text; empty when nothing is left of it, which matches nothing.
        digest: SHA-256 of the item's canonical JSON.
    """

    kind: ItemKind
    index: int
    text: str
    cue_key: str
    digest: str
    evidence: tuple[Evidence, ...]


def cue_key(text: str) -> str:
    """Normalise a text for matching; empty when nothing is left.

    NFKC, case folded, white space collapsed; then characters of the Unicode categories C, P and
    Z are taken off both ends. Symbols such as `$` stay.
    """
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    start, end = 0, len(folded)
    while start < end and unicodedata.category(folded[start])[0] in "CPZ":
        start += 1
    while end > start and unicodedata.category(folded[end - 1])[0] in "CPZ":
        end -= 1
    return folded[start:end]


def failure_items(outcome: TaskOutcome) -> list[FailureItem]:
    """The items that show a failure: checks in their order, then observations in theirs."""
    items = [
        _item("check", index, check.name, check)
        for index, check in enumerate(outcome.checks)
        if check.basis == "verified" and check.status in FAILED_CHECKS
    ]
    if outcome.status in FAILED_OUTCOMES:
        items += [
            _item("observation", index, seen.text, seen)
            for index, seen in enumerate(outcome.observations)
            if seen.basis == "verified"
        ]
    return items


def _item(kind: ItemKind, index: int, text: str, item: Check | Observation) -> FailureItem:
    canonical = strict_json.digest(item.model_dump(mode="json"))
    return FailureItem(kind, index, text, cue_key(text), canonical, item.evidence)
