"""`recurrence_reviews`: experiences whose failures keep coming back, sent to people.

Three ops: reviews are opened without a model, and only where one wants a draft does the run wait
for a place in the pool `llm` and ask for it. A model that fails fails no run.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.failures import failure
from pc_pipelines.resources import StoreResource
from pc_store.domain.proposal import Usage
from pc_store.errors import StoreError
from pc_store.services.administer import get_scope_by_key
from pc_store.services.clock import now_us
from pc_store.services.draft_review import draft_reviews, due_drafts
from pc_store.services.recurrence_review import review

_Told = dict[str, Any]
_SPENT = ("model calls", "tokens in", "tokens out")


@dg.op(
    name="recurrence_open_reviews",
    ins={"failure_recurrences": dg.In(dg.Nothing)},
    out={"opened": dg.Out(dict), "waiting": dg.Out(str, is_required=False)},
    tags={"pc/step": "open"},
)
def _open_reviews(context: dg.OpExecutionContext, store: StoreResource) -> Iterator[dg.Output[Any]]:
    """Open or grow the reviews that are due in one scope; no model is asked."""
    try:
        scope = get_scope_by_key(store.db, context.partition_key)
        reviews = review(store.db, store.settings, scope.scope_id, now_us=now_us())
        waiting = due_drafts(
            store.db, store.settings, scope_id=scope.scope_id, now_us=now_us(), limit=1
        )
    except StoreError as error:
        raise failure(error) from None
    for one in reviews:
        if one.done == "blocked":
            context.log.warning(f"no review of {one.artifact_id}@{one.revision}: {one.why}")
    rows = [
        {
            "experience": one.artifact_id,
            "revision": one.revision,
            "done": one.done,
            "candidate": one.candidate_id or "",
            "why": one.why or "",
        }
        for one in reviews
    ]
    yield dg.Output({"scope": scope.scope_id, "reviews": rows}, "opened")
    if waiting:
        yield dg.Output(scope.scope_id, "waiting")


@dg.op(name="recurrence_draft_changes", pool="llm", out=dg.Out(dict), tags={"pc/step": "ask"})
def _draft_changes(
    context: dg.OpExecutionContext, waiting: str, store: StoreResource
) -> dg.Output[_Told]:
    """Ask the model for the drafts that the scope's open reviews want."""
    settings = store.settings
    try:
        made = draft_reviews(store.db, settings, waiting, budget_s=settings.drain_budget_s)
    except StoreError as error:
        raise failure(error) from None
    for one in made:
        if one.done != "drafted":
            context.log.warning(f"no draft of {one.candidate_id}: {one.done}: {one.why}")
    rows = [
        {
            "candidate": one.candidate_id,
            "done": one.done,
            "version": one.version or 0,
            "attempt": one.attempts,
            "why": one.why or "",
        }
        for one in made
    ]
    total = sum((one.usage for one in made), Usage())
    spent = dict(zip(_SPENT, (total.calls, total.tokens_in, total.tokens_out), strict=True))
    return dg.Output({"drafts": rows, "spent": spent}, metadata=spent)


@dg.op(name="recurrence_report_reviews", out=dg.Out(dg.Nothing), tags={"pc/step": "report"})
def _report(told: list[dict]) -> dg.Output[None]:  # type: ignore[type-arg]  # Dagster's type
    """Say what was opened, and what was drafted where something was."""
    every: _Told = {"drafts": [], "spent": dict.fromkeys(_SPENT, 0)}
    for one in told:
        every |= one
    opened = Counter(row["done"] for row in every["reviews"])
    drafts = Counter(row["done"] for row in every["drafts"])
    drafted = drafts.pop("drafted", 0)
    metadata: dict[str, Any] = {
        "scope": every["scope"],
        **{name: opened[name] for name in ("opened", "grown", "blocked")},
        "drafted": drafted,
        "refused": drafts.total(),
        **every["spent"],
        **_table("reviews", every["reviews"]),
        **_table("drafts", every["drafts"]),
    }
    return dg.Output(None, metadata=metadata)


def _table(name: str, rows: Sequence[_Told]) -> dict[str, dg.MetadataValue[Any]]:
    if not rows:
        return {}
    return {name: dg.MetadataValue.table([dg.TableRecord(row) for row in rows])}


@dg.graph_asset(
    partitions_def=partitions.scopes,
    ins={"failure_recurrences": dg.AssetIn(dagster_type=dg.Nothing)},
    group_name="experience",
    kinds={"candidate"},
    description=(
        "One open update candidate for each failure that came back PC_RECURRENCE_THRESHOLD times "
        "in a row on a current experience; an open one grows. Where a model is configured it "
        "drafts the change. People decide it."
    ),
)
def recurrence_reviews(failure_recurrences):  # type: ignore[no-untyped-def]
    """Open, draft, report."""
    opened, waiting = _open_reviews.alias("open_reviews")(failure_recurrences)
    drafted = _draft_changes.alias("draft_changes")(waiting)
    return _report.alias("report")([opened, drafted])
