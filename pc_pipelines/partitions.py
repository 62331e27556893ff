"""Partition sets: scopes, the windows of each consumer, the search index's shards.

The names of dynamic ones carry the store's.
"""

import dagster as dg

from pc_store.domain.window import WindowKey, parse_key
from pc_store.errors import WindowRefused
from pc_store.services.index_names import shard_names
from pc_store.settings import Settings

_STORE = Settings.load().store_name

scopes = dg.DynamicPartitionsDefinition(name=f"pc_{_STORE}_scopes")
memory_windows = dg.DynamicPartitionsDefinition(name=f"pc_{_STORE}_memory_windows")
experience_windows = dg.DynamicPartitionsDefinition(name=f"pc_{_STORE}_experience_windows")

shards = dg.StaticPartitionsDefinition(shard_names(Settings.load()))

NONE_IN_PARTICULAR = dg.SpecificPartitionsPartitionMapping([])
"""How windows depend on logs. A log only grows at its end, which changes no window that was cut;
with any other mapping every window would be "unsynced" as soon as its log has grown."""


def set_name(definition: dg.DynamicPartitionsDefinition) -> str:
    """The name under which the instance keeps a set's keys."""
    assert definition.name is not None
    return definition.name


def window_key(partition_key: str) -> WindowKey:
    """Read a window's partition key.

    Raises:
        Failure: it is none; anybody can add a partition in the UI. It is not retried.
    """
    try:
        return parse_key(partition_key)
    except WindowRefused as error:
        raise dg.Failure(error.message, allow_retries=False) from None
