"""How large a memory may grow, and when a write would take it too far."""

from dataclasses import dataclass

from pc_store import limits
from pc_store.domain.revision import Size
from pc_store.errors import CapacityExceeded


@dataclass(frozen=True)
class Budget:
    """The most a memory may hold; bytes are those of a revision's canonical JSON."""

    max_active_entries: int = limits.MEMORY_ACTIVE_ENTRIES_MAX
    max_manifest_entries: int = limits.MEMORY_MANIFEST_ENTRIES_MAX
    max_manifest_bytes: int = limits.MEMORY_MANIFEST_BYTES_MAX


DEFAULT_BUDGET = Budget()


def exceeded(budget: Budget, size: Size, size_bytes: int) -> tuple[str, ...]:
    """The dimensions in which a memory is over its budget."""
    return tuple(
        dimension
        for dimension, limit, observed in _dimensions(budget, size, size_bytes)
        if observed > limit
    )


def refuse_growth(
    budget: Budget, *, before: Size, after: Size, bytes_before: int, bytes_after: int
) -> None:
    """Allow a write that keeps within the budget, or makes what is over it no larger.

    Raises:
        CapacityExceeded: names the dimension, its limit and what the write would make of it.
    """
    was = {name: observed for name, _, observed in _dimensions(budget, before, bytes_before)}
    for dimension, limit, becomes in _dimensions(budget, after, bytes_after):
        if becomes > limit and becomes > was[dimension]:
            raise CapacityExceeded(
                f"the memory would have {becomes} {dimension.replace('_', ' ')}, "
                f"the budget is {limit}",
                dimension=dimension,
                limit=limit,
                observed=becomes,
            )


def _dimensions(budget: Budget, size: Size, size_bytes: int) -> tuple[tuple[str, int, int], ...]:
    return (
        ("active_entries", budget.max_active_entries, size.active),
        ("manifest_entries", budget.max_manifest_entries, size.entries),
        ("manifest_bytes", budget.max_manifest_bytes, size_bytes),
    )
