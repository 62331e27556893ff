"""Use cases: one function for each thing that the API, the CLI and Dagster can do."""
