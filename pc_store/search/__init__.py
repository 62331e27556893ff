"""Finding entries: tokens and the DuckDB index. The ledger is the truth, this can be rebuilt."""
