"""The library: ledger, search, models and use cases. It knows nothing of Dagster."""

__version__ = "0.1.0"
