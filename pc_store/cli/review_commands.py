"""`pc review`: look at what is proposed, and decide."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from pc_store.cli import console, review_desk
from pc_store.cli.experience_commands import cited_lines, lines, named
from pc_store.cli.review_desk import EXTRAS
from pc_store.client import SourceRef
from pc_store.domain import strict_json
from pc_store.errors import InvalidInput


class _OrStart(TyperGroup):
    """The verbs; what is no verb is a scope whose candidates are to be reviewed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            args = ["start", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_OrStart,
    no_args_is_help=True,
    help="Review: candidates wait for people. `pc review SCOPE` goes through them one by one.",
)

CandidateId = Annotated[str, typer.Argument(metavar="CANDIDATE", help="cand_…")]
Seen = Annotated[
    int | None,
    typer.Option(
        "--version", min=1, help="The version you saw; a newer one is refused. The newest if none."
    ),
]


@app.command("start")
def start(
    scope_id: console.ScopeId,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1_000, help="Most candidates to go through.")
    ] = 1_000,
) -> None:
    """Go through the scope's candidates: approve, revise, reject or skip each.

    Choices are read from standard input, one a line, also when it is no terminal. Nothing is
    approved without one; at the end of the input the rest stays as it is.
    """
    with console.connected() as client:
        done = review_desk.go_through(client, scope_id, limit=limit)
    console.say(done)


@app.command("list")
def list_(
    scope_id: console.ScopeId,
    status: Annotated[
        Literal["pending", "approved", "rejected"], typer.Option(help="Of this status.")
    ] = "pending",
    limit: console.Limit = 100,
    as_json: console.Json = False,
) -> None:
    """List candidates by creation: when each applies, its lesson, where it comes from."""
    with console.connected() as client:
        rows = review_desk.candidates(client, scope_id, status, most=limit)
    console.show_texts(
        rows,
        as_json=as_json,
        title=lambda row: row["candidate_id"],
        text=lambda row: console.line(
            row["proposal"]["situation"], beside=len(row["candidate_id"]) + 2
        ),
        notes=lambda row: "\n    ".join(
            (console.line(row["proposal"]["lesson"], beside=4), ", ".join(_standing(row)))
        ),
        empty=f"no {status} candidates",
    )


@app.command("show")
def show(
    scope_id: console.ScopeId, candidate_id: CandidateId, as_json: console.Json = False
) -> None:
    """Show a candidate with the texts of its evidence, beside what it would replace."""
    with console.connected() as client:
        found = client.get_artifact_candidate(scope_id, candidate_id, include=EXTRAS)
        if as_json:
            console.json_line(console.row(found))
        else:
            review_desk.present(client, scope_id, found, whole=True)


@app.command("diff")
def diff(
    scope_id: console.ScopeId, candidate_id: CandidateId, as_json: console.Json = False
) -> None:
    """Compare a candidate with the experience it would replace."""
    with console.connected() as client:
        found = console.row(client.compare_artifact_candidate(scope_id, candidate_id))
    if as_json:
        console.json_line(found)
        return
    console.say(f"{candidate_id} v{found['version']} beside {_beside(found)}")
    review_desk.show_changes(found["changes"])


@app.command("history")
def history(
    scope_id: console.ScopeId, candidate_id: CandidateId, as_json: console.Json = False
) -> None:
    """List every version of a candidate, oldest first, and the decision."""
    with console.connected() as client:
        found = console.row(client.list_artifact_candidate_history(scope_id, candidate_id))
    if as_json:
        console.json_line(found)
        return
    for one in found["versions"]:
        by = f" by {one['author']}" if one["author"] else ""
        console.say(f"version {one['version']}, {console.moment(one['created_at'])} UTC{by}")
        for line in [*lines(one["proposal"]), *cited_lines(one)]:
            console.say(f"  {line}")
        if one["reason"]:
            console.say(f"  because {one['reason']}")
    if decision := found["decision"]:
        console.say(_decided(decision))


@app.command("approve")
def approve(
    scope_id: console.ScopeId,
    candidate_id: CandidateId,
    version: Seen = None,
    as_json: console.Json = False,
) -> None:
    """Make a candidate the experience it proposes."""
    with console.connected() as client:
        seen = version or client.get_artifact_candidate(scope_id, candidate_id).version
        done = client.approve_artifact_candidate(scope_id, candidate_id, expected_version=seen)
    console.tell(done, review_desk.approved(done), as_json=as_json)


@app.command("reject")
def reject(
    scope_id: console.ScopeId,
    candidate_id: CandidateId,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the candidate.")],
    version: Seen = None,
    as_json: console.Json = False,
) -> None:
    """Decide against a candidate, for good."""
    with console.connected() as client:
        seen = version or client.get_artifact_candidate(scope_id, candidate_id).version
        done = client.reject_artifact_candidate(
            scope_id, candidate_id, expected_version=seen, reason=reason
        )
    console.tell(done, f"{candidate_id} is rejected", as_json=as_json)


@app.command("revise")
def revise(
    scope_id: console.ScopeId,
    candidate_id: CandidateId,
    file: Annotated[
        typer.FileText | None,
        typer.Argument(help="JSON of what it is to say; - reads stdin. $EDITOR unless given."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--add-source", help="Cite this source besides, by id."),
    ] = None,
    source_type: Annotated[
        str, typer.Option("--source-type", help="The type of those sources.")
    ] = "content",
    reason: console.Reason = None,
    version: Seen = None,
    as_json: console.Json = False,
) -> None:
    """Change what a pending candidate says; its evidence stays, and it still waits for review."""
    with console.connected() as client:
        found = client.get_artifact_candidate(scope_id, candidate_id)
        proposal = console.row(found)["proposal"]
        if file is None:
            edited = review_desk.edited(proposal)
            if edited is None:
                console.say("nothing was changed")
                return
            proposal = edited
        else:
            proposal = strict_json.loads(file.read(), field="proposal")
            if not isinstance(proposal, dict):
                raise InvalidInput("proposal", "must be an object")
        more = [SourceRef(name=source_type, source_id=one) for one in source or ()]
        done = review_desk.revised(
            client, scope_id, found, proposal, more=more, reason=reason, version=version
        )
    console.tell(done, f"{candidate_id} is at version {done.version}", as_json=as_json)


def _standing(row: Mapping[str, Any]) -> list[str]:
    """Where a candidate comes from, what it is for, and what stands behind it."""
    return [
        f"{row['origin']} {console.ago(row['created_at'])}",
        *([f"version {row['version']}"] if row["version"] > 1 else []),
        f"for {named(row['target'])}" if row["target"] else "new",
        _counted(row),
        *_marks(row),
    ]


def _counted(row: Mapping[str, Any]) -> str:
    """How much evidence a candidate cites; its target is none."""
    counts = {
        "source": len(row["source_refs"]),
        "artifact": sum(ref != row["target"] for ref in row["artifact_refs"]),
        "entry": len(row["memory_citations"]),
    }
    plural = {"entry": "entries"}
    told = [
        f"{number} {name if number == 1 else plural.get(name, f'{name}s')}"
        for name, number in counts.items()
        if number
    ]
    return ", ".join(told) or "no evidence beside it"


def _marks(row: Mapping[str, Any]) -> list[str]:
    """What a reviewer should know before opening it, or what became of it."""
    if row["status"] == "approved":
        return [f"made {named(row['result_artifact'])}"]
    if row["status"] == "rejected":
        return [f"because {row['decision_reason']}"]
    return [code.replace("_", " ") for code in dict.fromkeys(w["code"] for w in row["warnings"])]


def _beside(found: Mapping[str, Any]) -> str:
    """What a candidate is compared with, in words."""
    if found["target"] is None:
        return "nothing: it is a new experience"
    stale = ", which is no longer the active head" if found["stale_target"] else ""
    return f"{named(found['target'])}{stale}"


def _decided(decision: Mapping[str, Any]) -> str:
    by = f" by {decision['decided_by']}" if decision["decided_by"] else ""
    made = f" as {named(decision['result_artifact'])}" if decision["result_artifact"] else ""
    why = f": {decision['reason']}" if decision["reason"] else ""
    return f"{decision['status']} {console.moment(decision['decided_at'])} UTC{by}{made}{why}"
