"""The ledger and Dagster's own storage in one Postgres database, whichever comes first."""

import dagster as dg
import pytest
import sqlalchemy as sa

from pc_store.ledger.database import open_database
from pc_store.ledger.migrations import head_revision, stored_revision


@pytest.fixture
def url(postgres_databases):
    made = postgres_databases.create()
    yield made
    postgres_databases.drop(made)


def use_ledger(url: str) -> None:
    db = open_database(url)
    with db.read() as conn:
        assert stored_revision(conn) == head_revision()
    db.close()


def use_dagster(url: str) -> None:
    storage = {"storage": {"postgres": {"postgres_url": url}}}
    with dg.instance_for_test(overrides=storage) as instance:
        instance.add_dynamic_partitions("scopes", ["shop"])
        assert instance.get_dynamic_partitions("scopes") == ["shop"]


@pytest.mark.parametrize("order", [(use_ledger, use_dagster), (use_dagster, use_ledger)])
def test_either_may_come_first_and_both_come_back(url, order):
    for _ in range(2):
        for use in order:
            use(url)
    engine = sa.create_engine(url)
    names = set(sa.inspect(engine).get_table_names())
    engine.dispose()
    assert {"pc_alembic_version", "alembic_version", "sources", "event_logs"} <= names
