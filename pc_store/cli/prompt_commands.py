"""`pc prompt`: the instructions shown to the model, packaged or a scope's own."""

from pathlib import Path
from typing import Annotated

import typer

from pc_store.cli import console
from pc_store.services import instruct
from pc_store.services.clock import now_us
from pc_store.services.instruct import MEMORY_EXTRACT

app = typer.Typer(no_args_is_help=True, help="Prompts: what a model is told, by exact revision.")

Key = Annotated[str, typer.Option("--key", help="Which prompt.")]


@app.command("show")
def show(
    scope_id: console.ScopeId, key: Key = MEMORY_EXTRACT, as_json: console.Json = False
) -> None:
    """Show the prompt in force for a scope."""
    with console.opened() as store:
        prompt = instruct.read_prompt(store.db, scope_id, key)
    if as_json:
        console.json_line({"key": prompt.key, "revision": prompt.label, "text": prompt.text})
    else:
        console.say(f"{prompt.key}, {prompt.label}\n\n{prompt.text}")


@app.command("set")
def set_(
    scope_id: console.ScopeId,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Its new text.")],
    key: Key = MEMORY_EXTRACT,
    reason: console.Reason = None,
) -> None:
    """Give a scope a prompt of its own, as a new revision."""
    with console.opened() as store:
        prompt = instruct.set_prompt(
            store.db, scope_id, key, file.read_text("utf-8"), reason=reason, now_us=now_us()
        )
    console.say(f"{key}: {prompt.label} is in force")


@app.command("reset")
def reset(
    scope_id: console.ScopeId, key: Key = MEMORY_EXTRACT, reason: console.Reason = None
) -> None:
    """Return a scope to the packaged prompt."""
    with console.opened() as store:
        prompt = instruct.set_prompt(store.db, scope_id, key, None, reason=reason, now_us=now_us())
    console.say(f"{key}: {prompt.label} is in force")


@app.command("history")
def history(
    scope_id: console.ScopeId, key: Key = MEMORY_EXTRACT, as_json: console.Json = False
) -> None:
    """List a scope's own revisions of a prompt, newest first."""
    with console.opened() as store:
        revisions = instruct.prompt_revisions(store.db, scope_id, key)
    console.show(
        [
            {
                "revision": item.ref.revision,
                "created_at": console.moment(item.created_at),
                "reason": item.reason,
                "text": item.content["text"],
            }
            for item in revisions
        ],
        as_json=as_json,
        columns=("revision", "created", "reason", "text"),
        cells=lambda row: (
            row["revision"],
            row["created_at"],
            row["reason"],
            console.short(row["text"] or "(the packaged prompt)"),
        ),
        empty="the scope uses the packaged prompt",
    )
