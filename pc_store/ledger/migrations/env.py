"""Alembic's entry: runs the migrations on the connection it is handed, in its transaction."""

from alembic import context

from pc_store.ledger.migrations import VERSION_TABLE
from pc_store.ledger.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=True,
    version_table=VERSION_TABLE,
)
context.run_migrations()
