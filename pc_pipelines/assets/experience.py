"""`experience`: each scope's experiences, as people's decisions leave them."""

import dagster as dg

from pc_pipelines import partitions
from pc_store.services.watch_experience import ExperienceStanding

experience = dg.AssetSpec(
    "experience",
    partitions_def=partitions.scopes,
    deps=["review_inbox"],
    group_name="experience",
    description=(
        "Each scope's approved experiences: how many are active, deprecated and retired, their "
        "revisions, and what still waits for review. Reported after every approval and every "
        "change of a lifecycle."
    ),
)


def materialization(standing: ExperienceStanding) -> dg.AssetMaterialization:
    """The event that reports where a scope's experiences stand."""
    return dg.AssetMaterialization(
        asset_key="experience",
        partition=standing.scope_key,
        metadata={
            "scope": standing.scope_id,
            "active": standing.active,
            "deprecated": standing.deprecated,
            "retired": standing.retired,
            "revisions": standing.revisions,
            "pending candidates": standing.pending,
        },
        tags={"dagster/data_version": standing.version},
    )
