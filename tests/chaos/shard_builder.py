"""A process that builds a shard again and again until it is killed; see test_index_kill.py."""

from multiprocessing.connection import Connection
from pathlib import Path

from pc_store.ledger.database import open_database
from pc_store.services import index_build
from pc_store.settings import Settings


def build_for_ever(url: str, folder: str, ready: Connection) -> None:
    """Say that everything is loaded, then build until the end."""
    settings = Settings(index_dir=Path(folder), index_shards=1, embed_provider="none")
    db = open_database(url)
    ready.send(True)
    while True:
        index_build.build(db, settings, 0, force=True)
