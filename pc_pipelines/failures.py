"""The store's errors as Dagster shows them."""

import dagster as dg

from pc_store.errors import ModelUnavailable, StoreBusy, StoreError


def failure(error: StoreError) -> dg.Failure:
    """A failure that says what happened, and is retried by its op only where that can help.

    Raise it `from None`: the message is written for people, who would have to look for it under
    a stack of ours otherwise.
    """
    return dg.Failure(
        error.message,
        metadata={"code": error.code, **{name: str(v) for name, v in error.details.items()}},
        allow_retries=isinstance(error, ModelUnavailable | StoreBusy),
    )
