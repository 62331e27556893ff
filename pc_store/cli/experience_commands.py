"""`pc experience`: what was learnt and may be reused, and how it is proposed."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from pc_store import limits
from pc_store.cli import console
from pc_store.client import ArtifactRef, Citation, Client, SourceRef
from pc_store.client.citing import cite
from pc_store.domain import strict_json
from pc_store.errors import ArtifactNotFound, InvalidInput

app = typer.Typer(
    no_args_is_help=True, help="Experience: lessons that were reviewed; see also `pc review`."
)

_REF = re.compile(r"(?:(?P<family>[^/@]+)/)?(?P<id>[^/@]+)(?:@(?P<revision>[0-9]{1,9}))?")
_FIELDS = ("situation", "action", "outcome", "lesson")

Ref = Annotated[str, typer.Argument(help="exp_…, or exp_…@3 for one exact revision.")]
SourceIds = Annotated[
    list[str] | None, typer.Option("--source", help="Cite this source, by id; may be repeated.")
]
SourceType = Annotated[str, typer.Option("--source-type", help="The type of those sources.")]
Artifacts = Annotated[
    list[str] | None,
    typer.Option("--artifact", metavar="FAMILY/ID@REVISION", help="Cite this revision."),
]
Entries = Annotated[
    list[str] | None, typer.Option("--entry", help="Cite this memory entry, as it is now.")
]
Target = Annotated[
    str | None,
    typer.Option("--target", help="The experience it is to replace, exp_…; it is cited as well."),
]


@app.command("propose")
def propose(
    scope_id: console.ScopeId,
    file: Annotated[
        typer.FileText,
        typer.Argument(
            help="JSON of situation, action, outcome, lesson and failure; - reads stdin."
        ),
    ],
    source: SourceIds = None,
    source_type: SourceType = "content",
    artifact: Artifacts = None,
    entry: Entries = None,
    target: Target = None,
    reason: console.Reason = None,
    as_json: console.Json = False,
) -> None:
    """Propose an experience; it waits for review, see `pc review`."""
    proposal = strict_json.loads(file.read(), field="proposal")
    if not isinstance(proposal, dict):
        raise InvalidInput("proposal", "must be an object of situation, action, outcome, lesson")
    with console.connected() as client:
        replaced = exact(client, scope_id, target) if target else None
        made = client.propose_experience(
            scope_id,
            proposal,
            source_refs=source_refs(source, source_type),
            artifact_refs=_artifacts(artifact, replaced),
            memory_citations=citations_of(client, scope_id, entry),
            target=replaced,
            reason=reason,
        )
    console.tell(made, f"{made.candidate_id} waits for review", as_json=as_json)


@app.command("generate")
def generate(
    scope_id: console.ScopeId,
    source: SourceIds = None,
    source_type: SourceType = "content",
    artifact: Artifacts = None,
    target: Target = None,
    reason: console.Reason = None,
    as_json: console.Json = False,
) -> None:
    """Let the model propose an experience from evidence; it waits for review."""
    with console.connected() as client:
        replaced = exact(client, scope_id, target) if target else None
        made = client.generate_experience(
            scope_id,
            source_refs=source_refs(source, source_type),
            artifact_refs=_artifacts(artifact, replaced),
            target=replaced,
            reason=reason,
        )
    candidate = made.candidate
    told = f"{candidate.candidate_id} waits for review" if candidate else "nothing to learn in it"
    console.tell(made, told, as_json=as_json)


@app.command("incubate")
def incubate(
    scope_id: console.ScopeId,
    drain: Annotated[
        bool, typer.Option("--drain", help="Windows up to the log's present end, not one.")
    ] = False,
    budget_s: Annotated[
        float, typer.Option(min=0.001, max=600, help="Begin no window after this many seconds.")
    ] = 300.0,
    as_json: console.Json = False,
) -> None:
    """Look for experiences in the scope's next window now, without Dagster."""
    with console.connected() as client:
        done = client.incubate_experience(scope_id, budget_s=budget_s if drain else None)
    told = f"{done.status}: cursor {done.current_cursor} of {done.high_watermark}"
    if done.windows:
        told = (
            f"{done.status} ({done.previous_cursor}, {done.current_cursor}] of "
            f"{done.high_watermark}: {done.processed_source_count} sources, "
            f"{len(done.candidate_ids)} candidates, {done.remaining} positions left"
        )
    console.tell(done, told, as_json=as_json)


@app.command("list")
def list_(
    scope_id: console.ScopeId,
    include_inactive: Annotated[
        bool, typer.Option("--include-inactive", help="Deprecated and retired ones too.")
    ] = False,
    limit: console.Limit = 100,
    as_json: console.Json = False,
) -> None:
    """List experiences by creation."""

    def page(client: Client, most: int, cursor: str | None) -> tuple[Any, str | None]:
        answer = client.list_experiences(
            scope_id, include_inactive=include_inactive, limit=most, cursor=cursor
        )
        return answer.items, answer.next_cursor

    with console.connected() as client:
        rows = console.rows_of(lambda most, cursor: page(client, most, cursor), most=limit)
    console.show_texts(
        rows,
        as_json=as_json,
        title=lambda row: named(row["artifact"]),
        text=lambda row: console.line(
            row["content"]["situation"], beside=len(named(row["artifact"])) + 2
        ),
        notes=lambda row: "\n    ".join(
            (
                console.line(row["content"]["lesson"], beside=4),
                ", ".join([row["state"], console.cited(row), *_tracks(row["content"])]),
            )
        ),
        empty="no experiences",
    )


@app.command("show")
def show(scope_id: console.ScopeId, ref: Ref, as_json: console.Json = False) -> None:
    """Show an experience, as it is now or in one exact revision."""
    with console.connected() as client:
        found = client.get_experience(
            scope_id,
            exact(client, scope_id, ref),
            include=["state", "created_at", "head", "lifecycle"],
        )
    row = console.row(found)
    if as_json:
        console.json_line(row)
        return
    newest = "" if row["head"] == row["artifact"] else f", now at {row['head']['revision']}"
    console.say(f"{named(row['artifact'])}, {row['state']}{newest}")
    for line in lines(row["content"]):
        console.say(line)
    for line in cited_lines(row):
        console.say(f"  {line}")
    console.say(f"approved {console.moment(row['created_at'])} UTC")
    for step in row["lifecycle"]:
        by = f" by {step['author']}" if step["author"] else ""
        console.say(
            f"{step['state']} {console.moment(step['changed_at'])} UTC{by}: {step['reason']}"
        )


@app.command("search")
def search(
    scope_id: console.ScopeId,
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=limits.SEARCH_LIMIT_MAX)
    ] = limits.SEARCH_LIMIT_DEFAULT,
    mode: Annotated[
        Literal["auto", "fts", "vector", "hybrid"],
        typer.Option("--mode", help="By words, by meaning, or by both; auto: what suits."),
    ] = "auto",
    as_json: console.Json = False,
) -> None:
    """Find active experiences that fit a query, best first."""
    with console.connected() as client:
        answer = client.search_experiences(
            scope_id, query, limit=limit, mode=mode, include=["matched_terms", "channels"]
        )
    console.show_texts(
        [console.row(hit) for hit in answer.hits],
        as_json=as_json,
        title=lambda row: f"{console.scores(row)} {named(row['artifact'])}",
        text=lambda row: console.short(row["content"]["lesson"]),
        notes=lambda row: f"when: {console.short(row['content']['situation'])}",
        empty="nothing found",
    )


@app.command("lifecycle")
def lifecycle(
    scope_id: console.ScopeId,
    ref: Ref,
    state: Annotated[
        Literal["active", "deprecated", "retired"], typer.Argument(help="Its new state.")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the change.")],
    as_json: console.Json = False,
) -> None:
    """Take an experience out of recall, or bring a deprecated one back; retired is final."""
    with console.connected() as client:
        done = client.set_experience_lifecycle(
            scope_id, exact(client, scope_id, ref), state, reason=reason
        )
    console.tell(done, f"{named(console.row(done.artifact))} is {done.state}", as_json=as_json)


def _tracks(content: Mapping[str, Any]) -> list[str]:
    """The failure that is looked out for, if there is one."""
    failure = content["failure"]
    return [f"tracks {console.short(failure['signature']['recall_cue'], 60)}"] if failure else []


def named(ref: Mapping[str, Any]) -> str:
    """An artifact revision as people write it; an experience's without its family."""
    family = "" if ref["family"] == "experience" else f"{ref['family']}/"
    return f"{family}{ref['artifact_id']}@{ref['revision']}"


def lines(content: Mapping[str, Any]) -> list[str]:
    """What an experience says, each field after its label."""
    told = [line for name in _FIELDS for line in labelled(name, content[name])]
    if failure := content["failure"]:
        signature, proof = failure["signature"], failure["verification"]
        told += labelled("cue", signature["recall_cue"])
        if signature["symptom"]:
            told += labelled("symptom", signature["symptom"])
        told += labelled("repair", failure["repair_surface"])
        proven = f"{proof['condition']}; check {proof['check_subject']} passes"
        told += labelled("avoided if", proven)
    return told


def labelled(name: str, text: str) -> list[str]:
    """A text after its label, and its further lines below the first."""
    first, *more = text.splitlines() or [""]
    return [f"{name:<10} {first}", *(f"{'':<10} {line}" for line in more)]


def cited_lines(row: Mapping[str, Any]) -> list[str]:
    """What something stands on, one line a reference."""
    return [
        *(f"from {ref['name']} {ref['source_id']}" for ref in row["source_refs"]),
        *(f"from {named(ref)}" for ref in row["artifact_refs"]),
        *(
            f"from entry {one['entry_id']} in {named(one['memory_ref'])}"
            for one in row["memory_citations"]
        ),
    ]


def _parsed(text: str, field: str) -> tuple[str | None, str, int | None]:
    found = _REF.fullmatch(text)
    if found is None:
        raise InvalidInput(field, f"is {text!r}, ID or ID@REVISION is expected")
    return found["family"], found["id"], int(found["revision"]) if found["revision"] else None


def exact(client: Client, scope_id: str, text: str) -> ArtifactRef:
    """The exact revision that is named; the newest when none is."""
    family, artifact_id, revision = _parsed(text, "the experience")
    if family not in (None, "experience"):
        raise InvalidInput("the experience", f"is of the family {family!r}")
    if revision is None:
        head = client.get_artifact(scope_id, "experience", artifact_id)
        if head is None:
            raise ArtifactNotFound(f"there is no experience {artifact_id!r}")
        revision = head.revision
    return ArtifactRef(family="experience", artifact_id=artifact_id, revision=revision)


def source_refs(ids: Sequence[str] | None, source_type: str) -> list[SourceRef]:
    """Sources of one type."""
    return [SourceRef(name=source_type, source_id=one) for one in ids or ()]


def _artifacts(named_: Sequence[str] | None, target: ArtifactRef | None) -> list[ArtifactRef]:
    refs = [target] if target else []
    for text in named_ or ():
        family, artifact_id, revision = _parsed(text, "--artifact")
        if family is None or revision is None:
            raise InvalidInput("--artifact", f"is {text!r}, FAMILY/ID@REVISION is expected")
        refs.append(ArtifactRef(family=family, artifact_id=artifact_id, revision=revision))
    return refs


def citations_of(client: Client, scope_id: str, ids: Sequence[str] | None) -> list[Citation]:
    """Citations of entries as they are now."""
    return [cite(client, scope_id, one).citation for one in ids or ()]
