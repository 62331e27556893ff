"""`review_inbox`: what waits for people, in all scopes; they decide outside Dagster."""

import dagster as dg

from pc_store.services.read_candidates import InboxSummary

SCOPES_SHOWN = 100
"""Most scopes that an observation lists."""
_HOUR_US = 3_600_000_000

review_inbox = dg.AssetSpec(
    "review_inbox",
    deps=[
        dg.AssetDep("experience_windows", partition_mapping=dg.AllPartitionMapping()),
        dg.AssetDep("recurrence_reviews", partition_mapping=dg.AllPartitionMapping()),
        "dream_candidates",
    ],
    group_name="experience",
    kinds={"candidate"},
    description=(
        "Candidates that wait for review, whoever made them. Nothing becomes an experience before "
        "a person approves it. Observed: how many, the oldest's age, how many are stale."
    ),
)


def observation(inbox: InboxSummary, *, version: str, now_us: int) -> dg.AssetObservation:
    """The event that says what waits.

    Args:
        version: the data version, another one for another content of the inbox.
    """
    fullest = sorted(inbox.scopes, key=lambda one: (-one.pending, one.scope_id))[:SCOPES_SHOWN]
    metadata: dict[str, dg.MetadataValue] = {
        "pending": dg.MetadataValue.int(inbox.pending),
        "oldest, hours": dg.MetadataValue.float(_hours(inbox.oldest_at, now_us)),
        "stale targets": dg.MetadataValue.int(inbox.stale),
        "scopes": dg.MetadataValue.int(len(inbox.scopes)),
    }
    if fullest:
        metadata["by scope"] = dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {
                        "scope": one.scope_id,
                        "pending": one.pending,
                        "oldest, hours": _hours(one.oldest_at, now_us),
                        "stale targets": one.stale,
                    }
                )
                for one in fullest
            ]
        )
    return dg.AssetObservation(
        asset_key="review_inbox", metadata=metadata, tags={"dagster/data_version": version}
    )


def _hours(since_us: int | None, now_us: int) -> float:
    return 0.0 if since_us is None else round(max(now_us - since_us, 0) / _HOUR_US, 2)
