"""Candidates before a person: shown with their evidence, and decided one by one."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from pc_store.cli import console
from pc_store.cli.evidence_text import evidence
from pc_store.cli.experience_commands import named
from pc_store.client import (
    ArtifactCandidate,
    CandidateExtra,
    Client,
    SourceRef,
)
from pc_store.domain import strict_json
from pc_store.errors import (
    ArtifactConflict,
    CandidateConflict,
    CandidateTerminal,
    Conflict,
    InvalidInput,
    StoreError,
)

EXTRAS: Sequence[CandidateExtra] = (
    *("created_at", "origin", "intent", "author", "warnings", "stale_target"),
    "window_id",
)
_EVIDENCE_CHARS = 1_500
"""This much of each piece of evidence is shown; `e` shows all of it."""
_WIDTH_MAX = 100
_LABELS = {
    "failure.signature.recall_cue": "cue",
    "failure.signature.symptom": "symptom",
    "failure.repair_surface": "repair",
    "failure.verification.condition": "avoided if",
    "failure.verification.check_subject": "and passes",
}
"""Fields of a failure as `pc experience show` names them."""
_CHOICES = "[a]pprove  [r]evise in $EDITOR  re[j]ect  [e]vidence in full  [s]kip  [q]uit"
_WORDS = {
    word: letter
    for letter, word in (
        *(("a", "approve"), ("r", "revise"), ("j", "reject")),
        *(("e", "evidence"), ("s", "skip"), ("q", "quit")),
    )
}


def candidates(client: Client, scope_id: str, status: Any, *, most: int) -> list[dict[str, Any]]:
    """Candidates of a scope by creation, with what else is known of them."""

    def page(limit: int, cursor: str | None) -> tuple[Any, str | None]:
        answer = client.list_artifact_candidates(
            scope_id, status=status, limit=limit, cursor=cursor, include=EXTRAS
        )
        return answer.candidates, answer.next_cursor

    return console.rows_of(page, most=most)


def go_through(client: Client, scope_id: str, *, limit: int) -> str:
    """Show each pending candidate and do what the input says; return what was done, in words."""
    waiting = candidates(client, scope_id, "pending", most=limit)
    if not waiting:
        return "nothing waits for review"
    done: Counter[str] = Counter()
    for number, row in enumerate(waiting, start=1):
        became = _one(client, scope_id, row["candidate_id"], f"{number} of {len(waiting)}")
        if became == "quit":
            break
        done[became] += 1
    left = len(waiting) - sum(done.values())
    told = [f"{count} {what}" for what, count in done.items()] + ([f"{left} left"] if left else [])
    return ", ".join(told)


def _one(client: Client, scope_id: str, candidate_id: str, place: str) -> str:
    """Decide on one candidate; `quit` when the input ends or says so."""
    whole = False
    found: ArtifactCandidate | None = None
    while True:
        if found is None:
            found = client.get_artifact_candidate(scope_id, candidate_id, include=EXTRAS)
            if found.status != "pending":
                console.say(f"{candidate_id} is {found.status} already")
                return "decided elsewhere"
            console.out.print(Rule(place, style="dim"), width=_WIDTH_MAX)
            present(client, scope_id, found, whole=whole)
        choice, _, rest = (_answer(f"{_CHOICES}: ") or "quit").strip().partition(" ")
        letter = _WORDS.get(choice.lower(), choice.lower())
        if letter == "q":
            return "quit"
        if letter == "s":
            return "skipped"
        if letter == "e":
            whole, found = True, None
            continue
        try:
            if letter == "a":
                console.say(
                    approved(
                        client.approve_artifact_candidate(
                            scope_id, candidate_id, expected_version=found.version
                        )
                    )
                )
                return "approved"
            if letter == "j" and (why := rest.strip() or _answer("reason: ")):
                client.reject_artifact_candidate(
                    scope_id, candidate_id, expected_version=found.version, reason=why
                )
                console.say(f"{candidate_id} is rejected")
                return "rejected"
            if letter == "r" and (proposal := edited(console.row(found)["proposal"])):
                revised(client, scope_id, found, proposal)
                found = None
                continue
        except CandidateConflict:
            _warn("somebody revised it in the meantime; here is what it says now")
            found = None
            continue
        except CandidateTerminal as error:
            _warn(error.message)
            return "decided elsewhere"
        except Conflict as error:
            _warn(f"{error.message}. {_way_out(error)}")
            continue
        except StoreError as error:
            _warn(error.message)
            if not isinstance(error, InvalidInput) and error.code != "forbidden":
                raise
            continue
        console.say(
            "nothing was done" if letter in ("j", "r") else f"{choice!r} is none of the choices"
        )


def _way_out(error: StoreError) -> str:
    """What a person can do about a candidate that cannot be approved any more."""
    if isinstance(error, ArtifactConflict):
        current = error.details.get("current") or {}
        head = named(current) if current else "the newest revision"
        return (
            f"It can be neither approved nor revised: read {head}, reject this one, and propose "
            "again with that revision as target if it still holds"
        )
    return "Reject it, or skip it until that is settled"


def present(client: Client, scope_id: str, candidate: ArtifactCandidate, *, whole: bool) -> None:
    """Print a candidate: what it says, beside its target if it has one, and its evidence."""
    row = console.row(candidate)
    head = Text()
    purpose = f"would replace {named(row['target'])}" if row["target"] else "a new experience"
    by = f", {row['author']}" if row["author"] not in ("", row["origin"]) else ""
    intent = f" to {row['intent']}" if row["intent"] else ""
    head.append(f"{purpose}\n", style="bold")
    made = f"{console.moment(row['created_at'])} UTC by {row['origin']}{intent}{by}"
    head.append(f"version {row['version']}, {row['status']}, made {made}", style="dim")
    if row["reason"]:
        head.append(f"\nbecause {console.visible(row['reason'])}")
    if row["stale_target"]:
        head.append(
            "\nits target is no longer the active head: it can only be rejected", style="bold red"
        )
    for warning in row["warnings"]:
        head.append(f"\n{console.visible(warning['message'])}", style="yellow")
    if row["result_artifact"]:
        head.append(f"\napproved as {named(row['result_artifact'])}", style="green")
    if row["decision_reason"]:
        head.append(f"\nrejected: {console.visible(row['decision_reason'])}", style="red")
    compared = client.compare_artifact_candidate(scope_id, candidate.candidate_id)
    changes = console.row(compared)["changes"]
    width = min(console.out.width, _WIDTH_MAX)
    panel = Panel(
        Group(head, Text(), _fields(changes, beside=row["target"] is not None)),
        title=candidate.candidate_id,
        title_align="left",
        box=box.ROUNDED,
        width=width,
    )
    console.out.print(panel)
    for title, text in evidence(client, scope_id, candidate):
        console.out.print(Text(title, style="cyan"), soft_wrap=True)
        console.out.print(Text(_indented(text, whole=whole)), soft_wrap=True)


def show_changes(changes: Sequence[Mapping[str, Any]]) -> None:
    """Print the fields of a proposal beside those of its target."""
    console.out.print(_fields(changes, beside=True))


def _fields(changes: Sequence[Mapping[str, Any]], *, beside: bool) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for change in changes:
        name = _LABELS.get(change["field"], change["field"])
        if change["before"] is None and change["after"] is None:
            continue
        before, after = (console.visible(change[side] or "") for side in ("before", "after"))
        if not beside or not change["changed"]:
            table.add_row(name, Text(after, style="dim" if beside else ""))
            continue
        told = Text()
        if change["before"] is not None:
            told.append(f"- {before}", style="red")
        if change["after"] is not None:
            told.append("\n" if told else "").append(f"+ {after}", style="green")
        table.add_row(name, told)
    return table


def _indented(text: str, *, whole: bool) -> str:
    shown = console.visible(text).strip()
    more = len(shown) - _EVIDENCE_CHARS
    if not whole and more > 0:
        shown = f"{shown[:_EVIDENCE_CHARS]}… ({more:,} characters more)"
    return "\n".join(f"  {line}" for line in shown.splitlines())


def edited(proposal: Mapping[str, Any]) -> dict[str, Any] | None:
    """The proposal as a person leaves it in `$VISUAL` or `$EDITOR`; None when it is unchanged.

    Raises:
        InvalidInput: the editor fails, or what it leaves is no JSON object.
    """
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    before = json.dumps(proposal, ensure_ascii=False, indent=2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "proposal.json"
        file.write_text(before + "\n", "utf-8")
        try:
            subprocess.run([*editor, str(file)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise InvalidInput("$EDITOR", f"{editor[0]!r} failed: {error}") from None
        after = file.read_text("utf-8")
    value = strict_json.loads(after, field="proposal")
    if not isinstance(value, dict):
        raise InvalidInput("proposal", "must be an object")
    return None if value == proposal else value


def revised(
    client: Client,
    scope_id: str,
    candidate: ArtifactCandidate,
    proposal: Mapping[str, Any],
    *,
    more: Sequence[SourceRef] = (),
    reason: str | None = None,
    version: int | None = None,
) -> ArtifactCandidate:
    """Let a candidate say something else and keep the rest of it.

    Args:
        more: sources to cite besides.
        reason: None keeps the one it has.
        version: that was looked at; the candidate's unless given.
    """
    return client.revise_artifact_candidate(
        scope_id,
        candidate.candidate_id,
        proposal,
        expected_version=version or candidate.version,
        source_refs=[*candidate.source_refs, *more],
        artifact_refs=candidate.artifact_refs,
        target=candidate.target,
        reason=reason or candidate.reason,
    )


def approved(candidate: ArtifactCandidate) -> str:
    """What an approval made, in words."""
    made = candidate.result_artifact
    said = f" as {named(made.model_dump())}" if made else ""
    return f"{candidate.candidate_id} is approved{said}"


def _answer(prompt: str) -> str | None:
    """The next line of the input; None at its end."""
    if sys.stdin.isatty():
        try:
            return input(prompt)
        except (EOFError, KeyboardInterrupt):
            console.say("")
            return None
    line = sys.stdin.readline()
    console.say(f"{prompt}{line.rstrip()}")
    return line.rstrip("\n") if line else None


def _warn(text: str) -> None:
    console.out.print(Text(console.visible(text), style="bold yellow"), soft_wrap=True)
