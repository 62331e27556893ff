"""The builtin author of experiences: rewrites task outcomes, and adds no judgment of its own.

Each well-formed outcome becomes one draft. Its situation is the objective, its action the summary
and what was produced, its outcome every observation and check with its true status and basis. Its
lesson is as strong as the verified checks and no stronger: first what they say of that task, then
what was only declared, and what stayed open. Other texts give nothing: no model reads them.

A failure is added only where every part of it is said by the record: the cue is the name of the
one verified check that failed, which is also the check that passes once the failure is avoided,
and the condition is the one verified observation, the only words under which the situation can be
recognised again. With two such checks or observations, or none, choosing would be inventing, and
the draft has no failure. The repair surface is the experience itself, the one that people review.

The words between the parts are English, or Chinese where the outcome is.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pc_store import limits
from pc_store.domain import experience, outcome
from pc_store.domain.experience import Experience, Failure, Signature, Verification
from pc_store.domain.experience_proposal import (
    Draft,
    Exhibit,
    ExperienceAnswer,
    ExperienceProposal,
)
from pc_store.domain.failure import FAILED_CHECKS, cue_key
from pc_store.domain.outcome import Check, Observation, TaskOutcome
from pc_store.domain.proposal import Answered, Evidence, ShownEntry, Usage
from pc_store.domain.text import shortened
from pc_store.errors import GenerationUnavailable, InvalidInput

_CJK = re.compile(r"[\u3400-\u9fff]")
_KANA_OR_HANGUL = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_SIGNED_ITEMS_MAX = 12
"""Most checks or open points that a lesson names; the outcome has them all."""


@dataclass(frozen=True)
class _Words:
    """What stands between the parts, in one language."""

    separator: str
    produced: str
    ended: str
    observed: str
    checked: str
    verified: str
    declared: str
    passed: str
    failed: str
    told: str
    unproven: str
    open: str
    nothing: str
    bounds: str
    more: str


_ENGLISH = _Words(
    separator="; ",
    produced="Produced: {items}.",
    ended="The task ended as {status}.",
    observed="Observed ({basis}): {text}",
    checked="Check ({basis}), {status}: {name}{details}",
    verified="verified",
    declared="declared, not verified",
    passed="Verified for this task: {items}.",
    failed="Not prevented here, as verified: {items}.",
    told="Declared, not verified: {items}.",
    unproven="Not shown: {items}.",
    open="Still open: {items}.",
    nothing="No conclusion yet: nothing was verified.",
    bounds="Other inputs and conditions still have to be checked.",
    more="and {count} more",
)
_CHINESE = _Words(
    separator="；",
    produced="产出：{items}。",
    ended="任务结束状态：{status}。",
    observed="观察（{basis}）：{text}",
    checked="检查（{basis}），{status}：{name}{details}",
    verified="已验证",
    declared="仅声明，未验证",
    passed="本次任务中已验证：{items}。",
    failed="已验证，本次没有避免：{items}。",
    told="仅声明，未验证：{items}。",
    unproven="尚未得到证明：{items}。",
    open="尚未完成：{items}。",
    nothing="没有任何已验证的内容，还不能下结论。",
    bounds="其他输入和条件仍需检查。",
    more="以及另外 {count} 项",
)


class BuiltinExperienceAuthor:
    """Drafts experiences from task outcomes; needs no key and no network.

    The same outcomes give the same drafts.
    """

    provider = "builtin"
    model = "outcome-2"
    reads_whole = True

    def propose(
        self, evidence: Sequence[Evidence], entries: Sequence[ShownEntry] = (), *, policy: str = ""
    ) -> ExperienceAnswer:
        """One draft for each well-formed task outcome; `policy` is ignored, there is no prompt.

        Outcomes whose drafts read the same become one that cites the first 32 of them.
        """
        del entries, policy
        started_s = time.perf_counter()
        cited: dict[Experience, list[str]] = {}
        for one in evidence:
            if (record := _read(one.content)) is not None:
                cited.setdefault(draft(record), []).append(one.evidence_id)
        made = [
            ExperienceProposal(content, tuple(ids[: limits.EVIDENCE_MAX]))
            for content, ids in cited.items()
        ]
        return Answered(tuple(made), Usage(seconds=time.perf_counter() - started_s))

    def generate(
        self,
        exhibits: Sequence[Exhibit],
        *,
        target_evidence_id: str | None = None,
        policy: str = "",
    ) -> Draft:
        """The draft of the one task outcome among the exhibits.

        Raises:
            GenerationUnavailable: there is none, or several, or a target: bringing texts
                together takes a model.
        """
        del policy
        records = [record for one in exhibits if (record := _read(one.text)) is not None]
        if target_evidence_id is not None or len(records) != 1:
            raise GenerationUnavailable(
                "no model is configured: the builtin provider only drafts a new experience from "
                "exactly one task outcome",
                family="experience",
            )
        return Draft(draft(records[0]))


def draft(record: TaskOutcome) -> Experience:
    """The experience that a task outcome supports by itself."""
    words = _words_for(record)
    action = [record.summary]
    if record.produced_artifacts:
        refs = [f"{r.family}/{r.artifact_id}@{r.revision}" for r in record.produced_artifacts]
        action.append(words.produced.format(items=words.separator.join(refs)))
    seen = [words.ended.format(status=record.status)]
    seen += [
        words.observed.format(basis=_basis(words, item), text=item.text)
        for item in record.observations
    ]
    seen += [
        words.checked.format(
            basis=_basis(words, check),
            status=check.status,
            name=check.name,
            details=f" ({check.details})" if (check.details or "").strip() else "",
        )
        for check in record.checks
    ]
    return Experience(
        situation=_cut(record.objective),
        action=_cut("\n".join(action)),
        outcome=_cut("\n".join(seen)),
        lesson=_cut("\n".join(_lesson(words, record))),
        failure=_failure(record),
    )


def _lesson(words: _Words, record: TaskOutcome) -> list[str]:
    """What the verified part of a record says, and all that it does not show."""
    verified = [c for c in record.checks if c.basis == "verified"]
    passed = [c for c in verified if c.status == "passed"]
    failed = [c for c in verified if c.status in FAILED_CHECKS]
    parts = (
        (words.passed, passed),
        (words.failed, failed),
        (words.told, [c for c in record.checks if c.basis == "declared"]),
        (words.unproven, [c for c in verified if c not in passed and c not in failed]),
    )
    told = [
        frame.format(items=_listed(words, [f"{c.name} ({c.status})" for c in checks]))
        for frame, checks in parts
        if checks
    ]
    if record.remaining_work:
        told.append(words.open.format(items=_listed(words, record.remaining_work)))
    if passed:
        told.append(words.bounds)
    elif not (failed or any(o.basis == "verified" for o in record.observations)):
        told.append(words.nothing)
    return told or [words.bounds]


def _failure(record: TaskOutcome) -> Failure | None:
    """The failure to track, if the record leaves no choice of what it is."""
    checks = [c for c in record.checks if c.basis == "verified" and c.status in FAILED_CHECKS]
    seen = [o for o in record.observations if o.basis == "verified"]
    if len(checks) != 1 or len(seen) != 1:
        return None
    (check,), (condition,) = checks, seen
    named_once = sum(cue_key(c.name) == cue_key(check.name) for c in record.checks) == 1
    fits = (
        len(check.name) <= experience.CUE_MAX_CHARS
        and len(condition.text) <= experience.TEXT_MAX_CHARS
    )
    if not (named_once and fits and cue_key(check.name) and cue_key(condition.text)):
        return None
    details = (check.details or "").strip()
    return Failure(
        signature=Signature(recall_cue=check.name, symptom=_cut(details) if details else None),
        repair_surface="experience_content",
        verification=Verification(condition=condition.text, check_subject=check.name),
    )


def _read(content: str) -> TaskOutcome | None:
    try:
        return outcome.loads(content)
    except InvalidInput:
        return None


def _words_for(record: TaskOutcome) -> _Words:
    said = record.objective + record.summary
    chinese = len(_CJK.findall(said)) * 4 >= len(said) and not _KANA_OR_HANGUL.search(said)
    return _CHINESE if chinese else _ENGLISH


def _basis(words: _Words, item: Check | Observation) -> str:
    return words.verified if item.basis == "verified" else words.declared


def _listed(words: _Words, items: Sequence[str]) -> str:
    shown = list(items[:_SIGNED_ITEMS_MAX])
    if len(items) > len(shown):
        shown.append(words.more.format(count=len(items) - len(shown)))
    return words.separator.join(shown).rstrip(".。")


def _cut(text: str) -> str:
    return shortened(text, experience.TEXT_MAX_CHARS)
