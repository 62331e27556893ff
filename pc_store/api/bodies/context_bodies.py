"""Prepared contexts, and the log of what was recalled."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field

from pc_store import limits
from pc_store.api.bodies.wire import ScopeBody, Wire, example, moment
from pc_store.api.bodies.work_bodies import RecordReceipt
from pc_store.domain.assembly import Assembly, Section, SectionFamily, Shown, checked
from pc_store.domain.prepared import Reason
from pc_store.ledger.recall_log import Recall, Surface

ContextExtra = Literal["omitted", "truncated", "recall_id", "mode", "receipt"]
Mode = Literal["fts", "vector", "hybrid"]


class ContextSection(Wire):
    """Most items of one family; an experience section has at most two."""

    family: SectionFamily
    limit: int = Field(ge=1, le=limits.CONTEXT_ITEMS_MAX)


class ContextAssembly(Wire):
    """Markdown, a section for each family in the order given; at most eight items in all."""

    format: Literal["markdown"] = "markdown"
    sections: list[ContextSection] = Field(
        default=[ContextSection.model_validate(vars(section)) for section in Assembly().sections],
        max_length=4,
        description="Profiles and topic memories are never found here.",
    )
    show: list[Shown] = Field(default=[], max_length=2, description="What to say of each item.")

    def arranged(self) -> Assembly:
        """As the domain has it. Raises InvalidInput: a rule is broken."""
        return checked([Section(one.family, one.limit) for one in self.sections], self.show)


class PrepareContext(ScopeBody):
    """Recall what is known about a question, and fit it into a budget."""

    model_config = example(
        {
            "scope_id": "orders",
            "query": "amount 字段应该怎么处理？",
            "max_bytes": 2_000,
            "include": ["omitted"],
        }
    )

    query: str = Field(min_length=1, max_length=limits.QUERY_MAX_CHARS)
    max_bytes: int = Field(
        default=limits.CONTEXT_BYTES_DEFAULT,
        ge=limits.CONTEXT_BYTES_MIN,
        le=limits.CONTEXT_BYTES_MAX,
        description="Most UTF-8 bytes of the content.",
    )
    include_code: bool = Field(
        default=False, description="This server indexes no code, so nothing is added."
    )
    assembly: ContextAssembly = Field(
        default_factory=lambda: None,  # type: ignore[assignment]  # null is refused when sent
        description="Arrange the content as Markdown. One line of JSON unless given.",
    )
    include: list[ContextExtra] = Field(
        default=[], max_length=5, description="What to add to the answer."
    )

    def arranged(self) -> Assembly | None:
        """The assembly asked for, if one is. Raises InvalidInput: it breaks a rule."""
        return self.assembly.arranged() if "assembly" in self.model_fields_set else None


class PreparedContext(Wire):
    """Untrusted history in a fence, to be put before an agent as it is; or nothing."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_: Literal["powercontext.prepared-context.v1"] = Field(alias="schema")
    status: Literal["ready", "empty"]
    content: str | None
    content_bytes: int = Field(ge=0)
    omitted: dict[Reason, int] | None = Field(
        default=None,
        description="How much of what was found is not in it, by reason; "
        "only with `include: [omitted]`.",
    )
    truncated: int | None = Field(
        default=None, description="How many items were cut; only with `include: [truncated]`."
    )
    recall_id: str | None = Field(
        default=None,
        description="Of the row in the log of recalls; null when none is kept; "
        "only with `include: [recall_id]`.",
    )
    mode: Mode | None = Field(
        default=None,
        description="How the first scope that holds anything was searched; "
        "only with `include: [mode]`.",
    )
    receipt: RecordReceipt | None = Field(
        default=None,
        description="The body of `POST /v1/work/receipts` for the scope's experiences in the "
        "content; null when it has none; only with `include: [receipt]`.",
    )


class RecallTarget(Wire):
    """What was found: a memory's entry version, or an experience; its scope if another's."""

    scope_id: str | None = None
    family: str
    artifact_id: str
    revision: int
    entry_id: str | None = None
    entry_version_id: str | None = None


class RecallHit(RecallTarget):
    """Something delivered. `rank` is its place among what was found of its family."""

    rank: int = Field(ge=1)
    bytes: int = Field(ge=0)
    truncated: bool | None = None


class RecallDrop(RecallTarget):
    """Something found and not delivered."""

    reason: Reason


class RecallRecord(Wire):
    """One recall: what was delivered to whom asked, and what was not. It holds no text."""

    recall_id: str
    scope_id: str
    surface: Surface
    query_digest: str = Field(description="SHA-256 of the query, in hex.")
    mode: Mode | None
    hits: list[RecallHit]
    dropped: list[RecallDrop] = Field(description="At most 64; `omitted` counts all.")
    omitted: dict[Reason, int]
    max_bytes: int | None
    content_bytes: int | None
    tokens: int | None = Field(description="Of the content, estimated.")
    baseline_tokens: int | None = Field(
        description="Of the sources of all that was delivered, estimated; null unless all has some."
    )
    took_us: int = Field(ge=0)
    recalled_at: datetime

    @classmethod
    def of(cls, recall: Recall) -> Self:
        """From the service's."""
        known: dict[str, Any] = vars(recall) | {
            "dropped": recall.dropped["items"],
            "omitted": recall.dropped["counts"],
            "recalled_at": moment(recall.recalled_at),
        }
        return cls.model_validate(known)


class RecallPage(Wire):
    """Recalls, newest first."""

    items: list[RecallRecord]
    next_cursor: str | None
