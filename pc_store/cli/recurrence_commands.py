"""`pc recurrence`, `pc outcome`, `pc receipt`: what came of tasks, and failures that come back."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pc_store.cli import console
from pc_store.client import ArtifactRef, Client
from pc_store.domain import strict_json
from pc_store.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Failures that come back: judge, review, explain.")
outcomes = typer.Typer(no_args_is_help=True, help="What came of tasks.")
receipts = typer.Typer(no_args_is_help=True, help="Which experiences a task was given.")

MaybeScope = Annotated[
    str | None, typer.Argument(metavar="[SCOPE]", help="One scope; all unless given.")
]
ExperienceId = Annotated[str, typer.Argument(metavar="EXPERIENCE", help="The experience's id.")]


@app.command("run")
def run(scope_id: MaybeScope = None, as_json: console.Json = False) -> None:
    """Judge the task outcomes that wait, and open the reviews that are due. No model is asked."""
    with console.connected() as client:
        for one in _scopes(client, scope_id):
            done = client.run_recurrence(one)
            row = {"scope_id": one, **console.row(done)}
            if as_json:
                console.json_line(row)
            elif done.outcomes or done.retried or done.reviews or scope_id is not None:
                console.say(
                    f"{one}: {done.outcomes} outcomes judged ({done.malformed} malformed), "
                    f"{done.recurred} recurred, {done.avoided} avoided, "
                    f"{done.unmatched} unmatched, {done.ambiguous} ambiguous, "
                    f"{done.pending} pending"
                )
                _tell_reviews(row["reviews"])


@app.command("review")
def review(scope_id: MaybeScope = None, as_json: console.Json = False) -> None:
    """Open the reviews that are due, also those that were blocked before, and have them drafted.

    The change is drafted where a model is configured and `PC_RECURRENCE_DRAFT` is on.
    """
    with console.connected() as client:
        told = 0
        for one in _scopes(client, scope_id):
            done = console.row(client.review_recurrence(one))
            told += len(done["reviews"]) + len(done["drafts"])
            if as_json:
                for row in (*done["reviews"], *done["drafts"]):
                    console.json_line({"scope_id": one, **row})
            else:
                _tell_reviews(done["reviews"], prefix=f"{one}: ")
                _tell_drafts(done["drafts"], prefix=f"{one}: ")
    if not told and not as_json:
        console.say("no review is due")


@app.command("explain")
def explain(
    scope_id: console.ScopeId,
    experience_id: ExperienceId,
    revision: Annotated[
        int | None, typer.Option(min=1, help="A revision; the head unless given.")
    ] = None,
    limit: console.Limit = 50,
    as_json: console.Json = False,
) -> None:
    """Say why task outcomes did or did not count for an experience."""
    with console.connected() as client:
        first = client.explain_recurrence(scope_id, experience_id, revision=revision)
        items = [console.row(item) for item in first.items]
        cursor = first.next_cursor
        while cursor is not None and len(items) < limit:
            page = client.explain_recurrence(
                scope_id, experience_id, revision=revision, cursor=cursor
            )
            items += [console.row(item) for item in page.items]
            cursor = page.next_cursor
    told = console.row(first) | {"items": items[:limit], "next_cursor": cursor}
    if as_json:
        console.json_line(told)
        return
    _tell_standing(told)
    for item in told["items"]:
        verdict = f"{item['verdict']}, streak {item['streak']}" if item["verdict"] else "no verdict"
        if item["voided"]:
            verdict = f"voided: {item['voided']}"
        console.say(f"{item['position']:>6}  {item['source']['source_id']}  {verdict}")
        for why in item["why"]:
            console.say(f"        {why}")
        if item["event_id"] and not item["voided"]:
            console.say(f"        event {item['event_id']}")
    if not told["items"]:
        console.say("no task outcome speaks of it")


@app.command("void")
def void(
    scope_id: console.ScopeId,
    event_id: Annotated[str, typer.Argument(metavar="EVENT", help="As `explain` shows it.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the ledger.")],
    as_json: console.Json = False,
) -> None:
    """Take a verdict back; it stays in the ledger, marked, and no longer counts."""
    with console.connected() as client:
        done = client.void_recurrence_verdict(scope_id, event_id, reason=reason)
    console.tell(
        done,
        f"{done.event} at position {done.position} is void; the streak is {done.streak}",
        as_json=as_json,
    )


@outcomes.command("record")
def record_outcome(
    scope_id: console.ScopeId,
    source_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the source it becomes.")
    ],
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="The outcome as JSON; - for standard input.")
    ],
    as_json: console.Json = False,
) -> None:
    """Record what came of a task, a `powercontext.task-outcome.v1`."""
    text = typer.get_text_stream("stdin").read() if str(path) == "-" else _text(path)
    outcome = strict_json.loads(text, field="FILE")
    if not isinstance(outcome, dict):
        raise InvalidInput("FILE", "holds no JSON object")
    with console.connected() as client:
        taken = client.record_task_outcome(scope_id, source_id, outcome)
    console.tell(taken, f"outcome {source_id} at position {taken.position}", as_json=as_json)


@receipts.command("record")
def record_receipt(
    scope_id: console.ScopeId,
    receipt_id: Annotated[str, typer.Argument(metavar="ID", help="What outcomes will name.")],
    experiences: Annotated[
        list[str], typer.Argument(metavar="EXPERIENCE@REVISION…", help="What the task was given.")
    ],
    note: Annotated[str | None, typer.Option(help="Kept with it.")] = None,
    as_json: console.Json = False,
) -> None:
    """Record which exact experience revisions a task was given."""
    refs = [_ref(named) for named in experiences]
    with console.connected() as client:
        taken = client.record_task_receipt(scope_id, receipt_id, refs, note=note)
    console.tell(taken, f"receipt {receipt_id} at position {taken.position}", as_json=as_json)


def _scopes(client: Client, scope_id: str | None) -> list[str]:
    if scope_id is not None:
        return [scope_id]
    return [scope.scope_id for scope in client.list_scopes().items]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("FILE", f"cannot be read: {type(error).__name__}") from None


def _ref(named: str) -> ArtifactRef:
    artifact_id, _, revision = named.rpartition("@")
    if not artifact_id or not (revision.isascii() and revision.isdigit()) or int(revision) < 1:
        raise InvalidInput("EXPERIENCE@REVISION", f"is {named!r}, such as exp_…@1 is expected")
    return ArtifactRef(family="experience", artifact_id=artifact_id, revision=int(revision))


def _tell_reviews(rows: list[dict[str, Any]], *, prefix: str = "  ") -> None:
    for row in rows:
        ref = row["artifact"]
        end = f": {row['why']}" if row["why"] else f" as {row['candidate_id']}"
        console.say(f"{prefix}review of {ref['artifact_id']}@{ref['revision']} {row['done']}{end}")


def _tell_drafts(rows: list[dict[str, Any]], *, prefix: str) -> None:
    for row in rows:
        end = f" as version {row['version']}" if row["version"] else f": {row['why']}"
        console.say(f"{prefix}draft of {row['candidate_id']} {row['done']}{end}")


def _tell_standing(told: dict[str, Any]) -> None:
    ref, failure, counts = told["artifact"], told["failure"], told["counts"]
    current = "the head" if ref == told["head"] else f"the head is {told['head']['revision']}"
    console.say(f"{ref['artifact_id']}@{ref['revision']} ({current}, {told['lifecycle']})")
    if failure is None:
        console.say("  it tracks no failure")
        return
    console.say(f"  cue {failure['cue_key']}")
    console.say(f"  repair {failure['repair_surface']}, condition {failure['condition_key']}")
    if counts is None:
        console.say("  no verdict yet")
    else:
        console.say(
            f"  streak {counts['streak']} of {told['threshold']}, recurred {counts['recurred']}, "
            f"avoided {counts['avoided']}"
        )
        if counts["review_id"]:
            console.say(f"  review {counts['review_id']} {counts['review_status']}")
        draft = counts["review_draft"]
        if counts["review_status"] == "pending" and draft and draft["why"]:
            attempts = f", attempt {draft['attempts']}" if draft["status"] == "failed" else ""
            console.say(f"  its draft {draft['status']}{attempts}: {draft['why']}")
        if counts["review_blocked"]:
            console.say(f"  review blocked: {counts['review_blocked']}")
    for other in told["same_cue"]:
        console.say(f"  the same cue has {other['artifact_id']}@{other['revision']}: ambiguous")
    for other in told["similar_cues"]:
        console.say(f"  a similar cue has {other['artifact']['artifact_id']}: {other['cue_key']}")
    for wait in told["waiting"]:
        console.say(f"  position {wait['position']} waits for {wait['waits_for']}")
