"""Embeddings by text digest and profile."""

from collections.abc import Mapping, Sequence

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import IntegrityError

from pc_store.ledger.schema import vectors


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


def dims_of(profile: str) -> int | None:
    """The dimensions in a profile's name, provider:model:dims:normalisation, if they are there."""
    _, _, rest = profile.rpartition(":")[0].rpartition(":")
    return int(rest) if rest.isdecimal() else None


def _stored(
    conn: sa.Connection, profile: str, digests: Sequence[str]
) -> dict[str, NDArray[np.float32]]:
    """What is stored, sound or not; bytes that are no numbers are an empty vector."""
    found: dict[str, NDArray[np.float32]] = {}
    for start in range(0, len(digests), 500):
        query = sa.select(vectors.c.text_digest, vectors.c.vector).where(
            vectors.c.profile == profile,
            vectors.c.text_digest.in_(list(digests[start : start + 500])),
        )
        for row in conn.execute(query):
            whole = row.vector if len(row.vector) % 4 == 0 else b""
            found[row.text_digest] = np.frombuffer(whole, dtype="<f4")
    return found
