"""`memory`: each scope's current memory, as the commits of its windows report it."""

import dagster as dg

from pc_pipelines import partitions
from pc_store.services.administer import ScopeStatus

memory = dg.AssetSpec(
    "memory",
    partitions_def=partitions.scopes,
    deps=[dg.AssetDep("memory_windows", partition_mapping=dg.AllPartitionMapping())],
    group_name="memory",
    description=(
        "Each scope's memory: its head revision, active entries, cursor and lag. Reported by "
        "every commit of a window; explicit writes change it too."
    ),
)


def materialization(status: ScopeStatus) -> dg.AssetMaterialization:
    """The event that reports where a scope's memory stands."""
    return dg.AssetMaterialization(
        asset_key="memory",
        partition=status.scope.key,
        metadata={
            "scope": status.scope.scope_id,
            "revision": status.memory_revision,
            "active entries": status.active_entries,
            "retired entries": status.inactive_entries,
            "cursor": status.cursors["memory"],
            "lag": status.memory_lag,
        },
    )
