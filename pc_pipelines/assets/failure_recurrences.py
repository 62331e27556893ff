"""`failure_recurrences`: which tracked failures came back, judged from task outcomes."""

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.failures import failure
from pc_pipelines.resources import StoreResource
from pc_store.errors import StoreError
from pc_store.services.administer import get_scope_by_key
from pc_store.services.clock import now_us
from pc_store.services.explain_recurrence import standing
from pc_store.services.recur import run


@dg.asset(
    partitions_def=partitions.scopes,
    deps=["source_log"],
    group_name="experience",
    kinds={"ledger"},
    description=(
        "Each scope's ledger of failures that experiences track: every task outcome is judged "
        "once, by equality and without a model. Materialising a partition judges what waits; so "
        "does the incubation of a window."
    ),
)
def failure_recurrences(
    context: dg.AssetExecutionContext, store: StoreResource
) -> dg.MaterializeResult[None]:
    """Judge the outcomes of one scope up to the end of its log."""
    try:
        scope = get_scope_by_key(store.db, context.partition_key)
        done = run(store.db, store.settings, scope.scope_id, now_us=now_us())
        longest = standing(store.db, scope.scope_id)
    except StoreError as error:
        raise failure(error) from None
    table = [
        dg.TableRecord(
            {
                "experience": row.ref.artifact_id,
                "revision": row.ref.revision,
                "cue": row.cue_key[:200],
                "streak": row.streak,
                "recurred": row.recurred,
                "avoided": row.avoided,
                "review": row.blocked or row.review_id or ("due" if row.due_position else ""),
            }
        )
        for row in longest
    ]
    return dg.MaterializeResult(
        metadata={
            "scope": scope.scope_id,
            "outcomes": done.outcomes,
            "malformed": done.malformed,
            "recurred": done.recurred,
            "avoided": done.avoided,
            "unmatched": done.unmatched,
            "ambiguous": done.ambiguous,
            "pending": done.pending,
            "cursor": done.cursor,
            **({"longest streaks": dg.MetadataValue.table(table)} if table else {}),
        },
        data_version=dg.DataVersion(str(done.cursor)),
    )
