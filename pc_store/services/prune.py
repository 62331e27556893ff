"""Prune vectors that no search needs: of texts that nobody holds any more, and of other embedders.

A vector that is deleted too much is made again, by the next build or for an answer; it costs an
embedding, never a hit by words.
"""

from dataclasses import dataclass

from pc_store.errors import InvalidInput
from pc_store.ledger import vectors
from pc_store.ledger.database import Database
from pc_store.services import embed
from pc_store.services.index import shard_count
from pc_store.services.index_tail import open_file
from pc_store.settings import Settings

AT_ONCE = 1_000
"""Vectors deleted in one transaction, so that no writer waits long."""


@dataclass(frozen=True)
class Profile:
    """The vectors of one embedding profile in the ledger.

    Attributes:
        in_use: whether the embedder in force has this profile, or an index file does.
        bytes: of the numbers alone.
        surplus: those that a pruning deletes.
    """

    profile: str
    in_use: bool
    vectors: int
    bytes: int
    surplus: int


def survey(db: Database, settings: Settings, *, other_profiles: bool = False) -> list[Profile]:
    """Every profile that has vectors, by name, and how many `prune` would delete.

    Raises:
        InvalidInput: as `prune`.
    """
    used = _in_use(db, settings, needed=other_profiles)
    with db.read() as conn:
        strays = vectors.strays(conn)
        held = vectors.sizes(conn)
    return [
        Profile(
            one.profile,
            one.profile in used,
            one.vectors,
            one.bytes,
            one.vectors
            if other_profiles and one.profile not in used
            else len(strays.get(one.profile, ())),
        )
        for one in held
    ]


def prune(db: Database, settings: Settings, *, other_profiles: bool = False) -> int:
    """Delete the vectors of texts that nobody holds any more; how many went.

    A text is held by every version of an entry, superseded and retired ones too, until it is
    purged, and by the active head of an experience. Whether that is still so is looked at again
    in the transaction that deletes.

    Args:
        other_profiles: delete also all vectors of profiles that are not in use: neither of the
            embedder in force nor of an index file.

    Raises:
        InvalidInput: `other_profiles`, and it is not known which embedder is in force.
    """
    used = _in_use(db, settings, needed=other_profiles)
    with db.read() as conn:
        doomed = vectors.strays(conn)
        others = {one.profile for one in vectors.sizes(conn)} - used if other_profiles else set()
        doomed |= {name: vectors.digests(conn, name) for name in others}
    deleted = 0
    for name, digests in sorted(doomed.items()):
        for start in range(0, len(digests), AT_ONCE):
            some = set(digests[start : start + AT_ONCE])
            with db.write() as conn:
                if name not in others:
                    some -= vectors.held(conn, some)
                deleted += vectors.drop(conn, some, profile=name)
    return deleted


def _in_use(db: Database, settings: Settings, *, needed: bool) -> set[str | None]:
    """The profiles that searches compare with, as these settings and the index files say."""
    known = embed.known_profile(db, settings)
    if known is None and needed:
        raise InvalidInput(
            "other_profiles", "it is not known which embedder is in force, so none is another one"
        )
    count = shard_count(db, settings)
    files = [open_file(settings, number, count) for number in range(count)]
    return {known, *(one.shard.profile for one in files if one.shard is not None)}
