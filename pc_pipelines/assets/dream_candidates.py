"""`dream_candidates`: queued dreams, worked on; what they propose waits for review."""

from collections import Counter

import dagster as dg

from pc_pipelines.failures import failure
from pc_pipelines.resources import StoreResource
from pc_store.domain.dream_run import DreamRun
from pc_store.errors import StoreError
from pc_store.services.dream_worker import run_pending

POOL = "dreams"
"""Not the windows' pool `llm`: a drain holds a slot of that for minutes."""
LINGER_S = 15.0
ROWS_SHOWN = 100
"""Most dreams that a materialisation lists."""


class DreamConfig(dg.Config):
    """How long one run works on dreams.

    Attributes:
        budget_s: no dream is begun after so many seconds; `PC_DRAIN_BUDGET_S` unless given.
        linger_s: how long it looks for further dreams after the last. A run costs seconds to
            start, so one that is at hand serves what comes next at once.
    """

    budget_s: float | None = None
    linger_s: float = LINGER_S


@dg.asset(
    deps=[dg.AssetDep("memory", partition_mapping=dg.AllPartitionMapping())],
    group_name="experience",
    kinds={"candidate"},
    pool=POOL,
    description=(
        "Queued dreams of all scopes, some at a time, in one run: chosen memory and experience, "
        "refined by the model into candidates that people decide on. A dream that fails says so "
        "itself and fails nothing else."
    ),
)
def dream_candidates(
    context: dg.AssetExecutionContext, config: DreamConfig, store: StoreResource
) -> dg.MaterializeResult[None]:
    """Work on dreams until none is left, or the budget is spent."""

    def told(run: DreamRun) -> None:
        if run.status == "failed" and run.error != "cancelled":
            context.log.warning(f"{run.scope_id!r} {run.run_id}: {run.error}: {run.message}")
        else:
            context.log.info(f"{run.scope_id!r} {run.run_id}: {run.outcome or run.error}")

    settings = store.settings
    budget_s = settings.drain_budget_s if config.budget_s is None else config.budget_s
    try:
        ended = run_pending(
            store.db,
            settings,
            budget_s=budget_s,
            linger_s=config.linger_s,
            dagster_run_id=context.run.run_id,
            told=told,
        )
    except StoreError as error:
        raise failure(error) from None
    return dg.MaterializeResult(metadata=_metadata(ended))


def _metadata(ended: list[DreamRun]) -> dict[str, dg.MetadataValue]:
    became = Counter(run.outcome or "failed" for run in ended)
    waited = [run.started_at - run.accepted_at for run in ended if run.started_at is not None]
    spent = [run.usage for run in ended if run.usage is not None]
    found: dict[str, dg.MetadataValue] = {
        "dreams": dg.MetadataValue.int(len(ended)),
        **{
            name.replace("_", " "): dg.MetadataValue.int(became[name])
            for name in ("proposed", "no_change", "needs_evidence", "failed")
        },
        "model calls": dg.MetadataValue.int(sum(one.model_calls for one in spent)),
        "tokens in": dg.MetadataValue.int(sum(one.input_tokens or 0 for one in spent)),
        "tokens out": dg.MetadataValue.int(sum(one.output_tokens or 0 for one in spent)),
        "longest wait, seconds": dg.MetadataValue.float(max(waited, default=0) / 1_000_000),
    }
    if ended:
        found["ended"] = dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {
                        "scope": run.scope_id,
                        "dream": run.run_id,
                        "came of it": run.outcome or run.error or "",
                        "attempts": run.attempts,
                        "candidate": run.candidate_id or "",
                        "why": (run.reason or run.message or "")[:200],
                    }
                )
                for run in ended[-ROWS_SHOWN:]
            ]
        )
    return found
