"""Embeddings by text digest and profile."""

from collections.abc import Mapping, Sequence

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from pc_store.ledger.schema import vectors


def get(
    conn: sa.Connection, profile: str, digests: Sequence[str]
) -> dict[str, NDArray[np.float32]]:
    """The stored vectors (float32[dims], unit length) of some texts, by text digest."""
    found: dict[str, NDArray[np.float32]] = {}
    for start in range(0, len(digests), 500):
        query = sa.select(vectors.c.text_digest, vectors.c.vector).where(
            vectors.c.profile == profile,
            vectors.c.text_digest.in_(list(digests[start : start + 500])),
        )
        for row in conn.execute(query):
            found[row.text_digest] = np.frombuffer(row.vector, dtype="<f4")
    return found


def put(conn: sa.Connection, profile: str, by_digest: Mapping[str, NDArray[np.float32]]) -> None:
    """Store vectors of texts that have none yet under this profile."""
    missing = sorted(set(by_digest) - set(get(conn, profile, list(by_digest))))
    if missing:
        conn.execute(
            sa.insert(vectors),
            [
                {
                    "text_digest": digest,
                    "profile": profile,
                    "vector": by_digest[digest].astype("<f4").tobytes(),
                }
                for digest in missing
            ],
        )
