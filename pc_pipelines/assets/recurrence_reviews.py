"""`recurrence_reviews`: experiences whose failures keep coming back, sent to people."""

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.failures import failure
from pc_pipelines.resources import StoreResource
from pc_store.errors import StoreError
from pc_store.services.administer import get_scope_by_key
from pc_store.services.clock import now_us
from pc_store.services.recurrence_review import review


@dg.asset(
    partitions_def=partitions.scopes,
    deps=["failure_recurrences"],
    group_name="experience",
    kinds={"candidate"},
    description=(
        "One open update candidate for each failure that came back PC_RECURRENCE_THRESHOLD times "
        "in a row on a current experience; an open one grows. People decide it."
    ),
)
def recurrence_reviews(
    context: dg.AssetExecutionContext, store: StoreResource
) -> dg.MaterializeResult[None]:
    """Open or grow the reviews that are due in one scope."""
    try:
        scope = get_scope_by_key(store.db, context.partition_key)
        reviews = review(store.db, store.settings, scope.scope_id, now_us=now_us())
    except StoreError as error:
        raise failure(error) from None
    for one in reviews:
        if one.done == "blocked":
            context.log.warning(f"no review of {one.artifact_id}@{one.revision}: {one.why}")
    table = [
        dg.TableRecord(
            {
                "experience": one.artifact_id,
                "revision": one.revision,
                "done": one.done,
                "candidate": one.candidate_id or "",
                "why": one.why or "",
            }
        )
        for one in reviews
    ]
    return dg.MaterializeResult(
        metadata={
            "scope": scope.scope_id,
            **{
                name: sum(one.done == name for one in reviews)
                for name in ("opened", "grown", "blocked")
            },
            **({"reviews": dg.MetadataValue.table(table)} if table else {}),
        }
    )
