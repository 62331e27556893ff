"""`search_index`: one immutable DuckDB file a shard, built anew by each materialisation."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.failures import failure
from pc_pipelines.resources import StoreResource
from pc_store.errors import StoreError
from pc_store.services.index_names import shard_number

if TYPE_CHECKING:
    from pc_store.services.index import Rebuilt

EMBED = dg.Field(
    bool,
    default_value=True,
    description="First embed the texts that have no vector yet; off: only words are filed anew.",
)


@dg.asset(
    partitions_def=partitions.shards,
    deps=[
        dg.AssetDep(name, partition_mapping=partitions.NONE_IN_PARTICULAR)
        for name in ("memory", "experience")
    ],
    group_name="search",
    kinds={"duckdb"},
    config_schema={"embed": EMBED},
    output_required=False,
    pool="index",
    description=(
        "What searches read: the words and vectors of entries and experiences, one immutable "
        "DuckDB file a shard of scopes. Materialising a partition builds its file anew; what "
        "changes after that is found all the same, from the ledger, only slower."
    ),
)
def search_index(
    context: dg.AssetExecutionContext, store: StoreResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Build one shard's file."""
    from pc_store.services.index import build

    embed = bool(context.op_execution_context.op_config["embed"])
    settings = store.settings
    try:
        done = build(
            store.db,
            settings,
            shard_number(context.partition_key),
            with_vectors=embed,
            budget_s=settings.drain_budget_s,
        )
    except StoreError as error:
        raise failure(error) from None
    if done.vectors is not None and done.vectors.error is not None:
        context.log.warning(f"not all texts were embedded: {done.vectors.error.message}")
    if done.built is None:
        why = "another builder is at work on the shard: nothing was done"
        context.log.info(why)
        context.log_event(
            dg.AssetObservation(context.asset_key, partition=context.partition_key, description=why)
        )
        return
    yield dg.MaterializeResult(metadata=_metadata(done))


def _metadata(done: "Rebuilt") -> dict[str, Any]:
    built, after, vectors = done.built, done.after, done.vectors
    assert built is not None
    return {
        "generation": built.generation,
        "scopes": after.scopes,
        "documents": built.docs,
        "vectors": built.vectors,
        "scopes with HNSW": after.hnsw_scopes,
        "embedding profile": after.profile or "none",
        "bytes": built.bytes,
        "seconds": round(built.took_s, 3),
        "tail before": done.tail_before,
        "texts embedded": vectors.embedded if vectors else 0,
        "texts not embedded": vectors.left if vectors else 0,
        "file": str(built.path),
    }
