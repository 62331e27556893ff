"""`pc dream`: refine chosen memory and experience in the background, and work on what waits."""

import time
from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

import typer

from pc_store.cli import console
from pc_store.cli.experience_commands import citations_of, exact, named, source_refs
from pc_store.client import Client, DreamOperation, DreamRun, DreamStatus
from pc_store.domain.dream_run import DreamRun as Worked
from pc_store.errors import InvalidInput, StoreError

app = typer.Typer(
    no_args_is_help=True,
    help="Dreams: a model refines chosen entries and experiences into a candidate.",
)

_LOOK_EVERY_S = 0.5
_UNBEGUN_S = 10.0
"""Of waiting for a dream that nobody begins, until that is said; Dagster takes some seconds."""
RunId = Annotated[str, typer.Argument(metavar="RUN", help="dr_…, as `submit` prints it.")]


class DreamFailed(StoreError):
    """The dream that was waited for failed."""

    code = "dream_failed"


@app.command("submit")
def submit(
    scope_id: console.ScopeId,
    entry: Annotated[
        list[str] | None,
        typer.Option("--entry", help="Refine this memory entry, as it is now; may be repeated."),
    ] = None,
    experience: Annotated[
        list[str] | None,
        typer.Option("--experience", metavar="EXP[@REVISION]", help="Refine this experience."),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", help="Show this source as well, by id.")
    ] = None,
    source_type: Annotated[
        str, typer.Option("--source-type", help="The type of those sources.")
    ] = "content",
    target: Annotated[
        str | None,
        typer.Option(metavar="EXP[@REVISION]", help="Replace this experience."),
    ] = None,
    operation: Annotated[
        DreamOperation, typer.Option(help="What to make of it.")
    ] = "refine_experience",
    key: Annotated[
        str | None,
        typer.Option("--key", help="The same key is the same dream; a new one unless given."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has ended.")] = False,
    as_json: console.Json = False,
) -> None:
    """Have entries and experiences refined; exit code 1 if `--wait` sees it fail."""
    if not (entry or experience or target):
        raise InvalidInput("--entry", "is missing: name an entry or an experience to refine")
    with console.connected() as client:
        replaced = exact(client, scope_id, target) if target else None
        artifacts = [exact(client, scope_id, one) for one in experience or ()]
        run = client.create_dream_run(
            scope_id,
            idempotency_key=key or uuid4().hex,
            memory_citations=citations_of(client, scope_id, entry),
            artifacts=[*artifacts, *([replaced] if replaced else [])],
            sources=source_refs(source, source_type),
            target=replaced,
            operation=operation,
            include=["current_candidate", "message"],
        )
        if wait:
            run = _waited_for(client, run)
    console.tell(run, f"{run.run_id} {_became(run)}", as_json=as_json)
    if wait and run.status == "failed":
        raise DreamFailed(f"{run.error}: {run.message}")


@app.command("list")
def list_(
    scope_id: console.ScopeId,
    status: Annotated[DreamStatus | None, typer.Option(help="Only those.")] = None,
    limit: console.Limit = 20,
    as_json: console.Json = False,
) -> None:
    """List a scope's dreams, newest first."""
    with console.connected() as client:

        def ask(most: int, cursor: str | None) -> tuple[list[DreamRun], str | None]:
            page = client.list_dream_runs(
                scope_id,
                status=status,
                limit=most,
                cursor=cursor,
                summary=True,
                include=["message"],
            )
            return page.runs, page.next_cursor

        rows = console.rows_of(ask, most=limit)
    console.show_texts(
        rows,
        as_json=as_json,
        title=lambda row: row["run_id"],
        text=lambda row: (
            f"{row['status']}: {came}"
            if (came := row["error"] or row["outcome"])
            else row["status"]
        ),
        notes=lambda row: ", ".join(
            part
            for part in (console.moment(row["accepted_at"]), row["reason"] or row["message"])
            if part
        ),
        empty=f"no {status} dreams" if status else "the scope has no dreams",
    )


@app.command("show")
def show(scope_id: console.ScopeId, run_id: RunId, as_json: console.Json = False) -> None:
    """Show a dream: what it refines, how far it is, and what came of it."""
    with console.connected() as client:
        run = _whole(client, scope_id, run_id)
    row = console.row(run)
    if as_json:
        console.json_line(row)
        return
    console.say(f"{run.run_id}  {_became(run)}")
    for name in ("accepted_at", "started_at", "completed_at"):
        if row[name]:
            console.say(f"{name.removesuffix('_at'):<10} {console.moment(row[name])}")
    console.say(f"attempts   {run.attempt_count} with {run.model_config_id or 'no model yet'}")
    if run.usage and run.usage.model_calls:
        calls = run.usage.model_calls
        told = (run.usage.input_tokens, run.usage.output_tokens)
        tokens = " in, ".join("?" if one is None else str(one) for one in told)
        times = f"{calls} request{'' if calls == 1 else 's'}"
        console.say(f"cost       {times} to the model, tokens: {tokens} out")
    if run.reason:
        console.say(f"reason     {run.reason}")
    if run.message:
        console.say(f"message    {run.message}")
    if run.target:
        console.say(f"target     {named(row['target'])}")
    if row["current_candidate"]:
        console.say(f"candidate  {_candidate(row['current_candidate'])}")
    for line in _evidence(row["input_manifest"] or {"nodes": ()}):
        console.say(line)


@app.command("cancel")
def cancel(
    scope_id: console.ScopeId,
    run_id: RunId,
    reason: console.Reason = None,
    as_json: console.Json = False,
) -> None:
    """End a dream that waits or runs; nothing is proposed."""
    with console.connected() as client:
        run = client.cancel_dream_run(scope_id, run_id, reason=reason)
    console.tell(run, f"{run.run_id} is cancelled", as_json=as_json)


@app.command("run-pending")
def run_pending(
    budget_s: Annotated[
        float, typer.Option(min=0.001, max=86_400, help="Begin none after this many seconds.")
    ] = 300.0,
    as_json: console.Json = False,
) -> None:
    """Work on the dreams of all scopes that wait, on this machine, until none is left.

    What Dagster does with its sensor `dreams_queued`; both may be at work at the same time.
    """
    from pc_store.services import dream_worker

    def told(run: Worked) -> None:
        if as_json:
            console.json_line(
                {
                    "scope_id": run.scope_id,
                    "run_id": run.run_id,
                    "status": run.status,
                    "outcome": run.outcome,
                    "error": run.error,
                    "candidate_id": run.candidate_id,
                    "attempts": run.attempts,
                }
            )
        else:
            became = run.outcome or f"{run.error}: {run.message}"
            console.say(f"{run.scope_id}  {run.run_id}  {became}")

    with console.opened("dream run-pending") as store:
        ended = dream_worker.run_pending(store.db, store.settings, budget_s=budget_s, told=told)
    if not ended and not as_json:
        on = store.settings.dream_enabled
        console.say("no dream waits" if on else "dreams are switched off: PC_DREAM_ENABLED")


def _whole(client: Client, scope_id: str, run_id: str) -> DreamRun:
    return client.get_dream_run(
        scope_id, run_id, include=["current_candidate", "message", "intent", "principal"]
    )


def _waited_for(client: Client, run: DreamRun) -> DreamRun:
    """A dream once it has ended. Its id is told first, for who would rather not wait."""
    if run.completed_at is None:
        console.note(f"{run.run_id} {_became(run)}")
    unbegun_at = time.monotonic() + _UNBEGUN_S
    told = False
    while run.completed_at is None:
        time.sleep(_LOOK_EVERY_S)
        run = _whole(client, run.scope_id, run.run_id)
        if not told and run.started_at is None and time.monotonic() > unbegun_at:
            told = True
            console.note(
                "nobody has begun it yet: is dagster-daemon running? Else run `pc dream "
                "run-pending`, or set PC_DREAM_WORKER for `pc serve`"
            )
    return run


def _became(run: DreamRun) -> str:
    if run.candidate is not None:
        now = run.current_candidate.status if run.current_candidate else "pending"
        stands = "waits for review" if now == "pending" else f"is {now}"
        return f"{run.status}: {run.candidate.candidate_id} {stands}"
    if run.status == "queued" and run.attempt_count:
        return "queued for a second attempt"
    came = run.error or run.outcome
    return f"{run.status}: {came}" if came else run.status


def _candidate(now: Mapping[str, Any]) -> str:
    result = now["result_artifact"]
    became = f", {named(result)}" if result else ""
    return f"{now['candidate_id']}, version {now['version']}, {now['status']}{became}"


def _evidence(manifest: Mapping[str, Any]) -> list[str]:
    told = []
    for node in manifest["nodes"]:
        if node["source"]:
            what = f"{node['source']['source_type']} {node['source']['source_id']}"
        elif node["artifact"]:
            what = named(node["artifact"])
        else:
            what = f"entry {node['memory_citations'][0]['entry_id']}"
        marks = [node["role"]] if node["role"] != "derived" else []
        marks += ["historical"] if node["historical"] else []
        noted = f" ({', '.join(marks)})" if marks else ""
        told.append(f"from       {what}{noted}")
    return told
