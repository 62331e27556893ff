"""What columns of the ledger are made of, and the metadata that all tables belong to."""

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Identity text: compared byte by byte."""
Json = sa.JSON(none_as_null=True)
Time = sa.BigInteger
Count = sa.BigInteger


def key(name: str, kind: Any = Id, comment: str = "") -> sa.Column[Any]:
    """A column of the primary key."""
    return sa.Column(name, kind, primary_key=True, autoincrement=False, comment=comment or None)


def col(name: str, kind: Any, comment: str = "", *, null: bool = False) -> sa.Column[Any]:
    """Any other column."""
    return sa.Column(name, kind, nullable=null, comment=comment or None)
