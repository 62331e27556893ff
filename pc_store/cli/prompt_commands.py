"""`pc prompt`: the instructions shown to the model, packaged or a scope's own."""

from pathlib import Path
from typing import Annotated

import typer

from pc_store.cli import console
from pc_store.client import ArtifactRevision, Client, PromptConfiguration
from pc_store.errors import ArtifactNotFound

app = typer.Typer(no_args_is_help=True, help="Prompts: what a model is told, by exact revision.")

Key = Annotated[str, typer.Option("--key", help="Which prompt.")]
_EXTRACT = "memory.extract"


@app.command("show")
def show(scope_id: console.ScopeId, key: Key = _EXTRACT, as_json: console.Json = False) -> None:
    """Show the prompt in force for a scope."""
    with console.connected() as client:
        prompt = client.get_prompt_configuration(scope_id, key)
    if as_json:
        console.json_line(console.row(prompt))
        return
    console.say(f"{key}, {_label(prompt)}")
    if prompt.effective:
        console.say(f"\n{prompt.effective.instructions}")


@app.command("set")
def set_(
    scope_id: console.ScopeId,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Its new text.")],
    key: Key = _EXTRACT,
    reason: console.Reason = None,
    as_json: console.Json = False,
) -> None:
    """Give a scope a prompt of its own, as a new revision."""
    _put(scope_id, key, file.read_text("utf-8"), reason, as_json)


@app.command("reset")
def reset(
    scope_id: console.ScopeId,
    key: Key = _EXTRACT,
    reason: console.Reason = None,
    as_json: console.Json = False,
) -> None:
    """Return a scope to the packaged prompt."""
    _put(scope_id, key, None, reason, as_json)


@app.command("history")
def history(scope_id: console.ScopeId, key: Key = _EXTRACT, as_json: console.Json = False) -> None:
    """List a scope's own revisions of a prompt, newest first."""
    with console.connected() as client:
        try:
            rows = console.rows_of(
                lambda most, cursor: _revisions(client, scope_id, key, most, cursor), most=100
            )
        except ArtifactNotFound:
            rows = []
    console.show(
        rows,
        as_json=as_json,
        columns=("revision", "text"),
        cells=lambda row: (
            row["revision"],
            console.short(row["content"]["text"] or "(the packaged prompt)"),
        ),
        empty="the scope uses the packaged prompt",
    )


def _put(scope_id: str, key: str, text: str | None, reason: str | None, as_json: bool) -> None:
    with console.connected() as client:
        prompt = client.set_prompt_instructions(scope_id, key, text, reason=reason)
    if as_json:
        console.json_line(console.row(prompt))
    else:
        console.say(f"{key}: {_label(prompt)} is in force")


def _label(prompt: PromptConfiguration) -> str:
    if prompt.artifact is not None:
        return f"scope revision {prompt.artifact.revision}"
    if prompt.builtin is not None:
        return f"packaged version {prompt.builtin.version}"
    return prompt.status


def _revisions(
    client: Client, scope_id: str, key: str, most: int, cursor: str | None
) -> tuple[list[ArtifactRevision], str | None]:
    page = client.list_artifact_revisions(scope_id, "prompt", key, limit=most, cursor=cursor)
    return [
        client.get_artifact_revision(scope_id, "prompt", key, item.revision) for item in page.items
    ], page.next_cursor
