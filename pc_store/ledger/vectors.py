"""Embeddings by text digest and profile."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import IntegrityError

from pc_store.ledger.schema import entry_versions, experience_documents, vectors

_SOME = 500


def get(
    conn: sa.Connection, profile: str, digests: Sequence[str]
) -> dict[str, NDArray[np.float32]]:
    """The stored vectors (float32[dims], unit length) of some texts, by text digest.

    One that is not a sound vector of the profile is as if it were not there.
    """
    dims = dims_of(profile)
    return {
        name: vector
        for name, vector in _stored(conn, profile, digests).items()
        if dims in (None, len(vector)) and np.isfinite(vector).all()
    }


def put(conn: sa.Connection, profile: str, by_digest: Mapping[str, NDArray[np.float32]]) -> None:
    """Store vectors of texts that have no sound one yet under this profile."""
    for attempt in range(3):
        missing = sorted(set(by_digest) - set(get(conn, profile, list(by_digest))))
        if not missing:
            return
        rows = [
            {
                "text_digest": digest,
                "profile": profile,
                "vector": by_digest[digest].astype("<f4").tobytes(),
            }
            for digest in missing
        ]
        try:
            with conn.begin_nested():
                unsound = list(_stored(conn, profile, missing))
                if unsound:
                    conn.execute(
                        sa.delete(vectors).where(
                            vectors.c.profile == profile, vectors.c.text_digest.in_(unsound)
                        )
                    )
                conn.execute(sa.insert(vectors), rows)
            return
        except IntegrityError:  # another writer stored one of them in the meantime
            if attempt == 2:
                raise


@dataclass(frozen=True)
class Size:
    """How many vectors a profile has, and their bytes."""

    profile: str
    vectors: int
    bytes: int


def sizes(conn: sa.Connection) -> list[Size]:
    """The profiles that have vectors, by name."""
    count, size = sa.func.count(), sa.func.sum(sa.func.length(vectors.c.vector))
    query = sa.select(vectors.c.profile, count, size).group_by(vectors.c.profile)
    return [
        Size(name, many, int(total))
        for name, many, total in conn.execute(query.order_by(vectors.c.profile))
    ]


def digests(conn: sa.Connection, profile: str) -> list[str]:
    """The texts that have a vector of a profile, sorted."""
    query = sa.select(vectors.c.text_digest).where(vectors.c.profile == profile)
    return list(conn.execute(query.order_by(vectors.c.text_digest)).scalars())


def strays(conn: sa.Connection) -> dict[str, list[str]]:
    """The texts, sorted, that have a vector and that nobody holds, by profile; see `held`."""
    loose = sa.except_(
        sa.select(vectors.c.text_digest),
        sa.select(entry_versions.c.text_digest).where(entry_versions.c.text != ""),
        sa.select(experience_documents.c.text_digest),
    )
    names = sorted(conn.execute(loose).scalars())
    found: dict[str, list[str]] = {}
    for start in range(0, len(names), _SOME):
        some = vectors.c.text_digest.in_(names[start : start + _SOME])
        query = sa.select(vectors.c.profile, vectors.c.text_digest).where(some)
        for profile, name in conn.execute(query.order_by(*vectors.primary_key.columns)):
            found.setdefault(profile, []).append(name)
    return found


def held(conn: sa.Connection, digests: Collection[str]) -> set[str]:
    """Those texts that a version of an entry has, unless it is erased, or an active experience."""
    found: set[str] = set()
    names = sorted(digests)
    for start in range(0, len(names), _SOME):
        some = names[start : start + _SOME]
        for table in (entry_versions, experience_documents):
            query = sa.select(table.c.text_digest).where(
                table.c.text_digest.in_(some), table.c.text != ""
            )
            found |= set(conn.execute(query).scalars())
    return found


def drop(conn: sa.Connection, digests: Collection[str], *, profile: str | None = None) -> int:
    """Delete texts' vectors, of one profile or of all; how many there were."""
    names = sorted(digests)
    dropped = 0
    for start in range(0, len(names), _SOME):
        query = sa.delete(vectors).where(vectors.c.text_digest.in_(names[start : start + _SOME]))
        if profile is not None:
            query = query.where(vectors.c.profile == profile)
        dropped += conn.execute(query).rowcount
    return dropped


def dims_of(profile: str) -> int | None:
    """The dimensions in a profile's name, provider:model:dims:normalisation, if they are there."""
    _, _, rest = profile.rpartition(":")[0].rpartition(":")
    return int(rest) if rest.isdecimal() else None


def _stored(
    conn: sa.Connection, profile: str, digests: Sequence[str]
) -> dict[str, NDArray[np.float32]]:
    """What is stored, sound or not; bytes that are no numbers are an empty vector."""
    found: dict[str, NDArray[np.float32]] = {}
    for start in range(0, len(digests), _SOME):
        query = sa.select(vectors.c.text_digest, vectors.c.vector).where(
            vectors.c.profile == profile,
            vectors.c.text_digest.in_(list(digests[start : start + _SOME])),
        )
        for row in conn.execute(query):
            whole = row.vector if len(row.vector) % 4 == 0 else b""
            found[row.text_digest] = np.frombuffer(whole, dtype="<f4")
    return found
