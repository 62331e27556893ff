"""What is checked on the search index; `index_check` does it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IndexRule:
    """A check: what it asserts, and whether a failure means that searches are wrong, not slow."""

    name: str
    asserts: str
    serious: bool


READABLE = IndexRule(
    "index_files_can_be_read", "every index file in use can be opened and is of this version", False
)
COVERS = IndexRule(
    "index_covers_ledger",
    "no shard lacks more changes, or lacks one for longer, than it may, or is of another ledger",
    False,
)
AGREES = IndexRule(
    "index_agrees_with_exact_search",
    "sampled queries find with the index exactly what they find without it",
    True,
)
RECALLS = IndexRule(
    "hnsw_recall_at_least_095",
    "each HNSW index finds at least 95 % of the ten nearest vectors of sampled queries",
    True,
)
RULES = (READABLE, COVERS, AGREES, RECALLS)
