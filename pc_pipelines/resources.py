"""What assets, sensors and checks are handed: the opened store and the proposer in force."""

from functools import lru_cache

import dagster as dg

from pc_store.domain.proposal import Proposer
from pc_store.ledger.database import Database, open_database
from pc_store.settings import Settings


class StoreResource(dg.ConfigurableResource):
    """The store that the PC_* environment names.

    A process keeps the ledger open and the proposer loaded between ticks and ops; both are
    safe to share between threads.
    """

    @property
    def settings(self) -> Settings:
        """The configuration, as the environment has it now."""
        return Settings.load()

    @property
    def db(self) -> Database:
        """The ledger, its schema up to date."""
        return _database(self.settings.ledger_url, self.settings.database_wait_s)

    @property
    def proposer(self) -> Proposer:
        """The configured model, or the builtin provider; made at first use, since it is slow."""
        return _proposer(self.settings)


@lru_cache(maxsize=8)
def _database(url: str, wait_s: float) -> Database:
    return open_database(url, wait_s=wait_s)


@lru_cache(maxsize=8)
def _proposer(settings: Settings) -> Proposer:
    from pc_store.services.provide import proposer

    return proposer(_database(settings.ledger_url, settings.database_wait_s), settings)


def close() -> None:
    """Let go of every ledger this process has open."""
    for cached in (_proposer, _database):
        cached.cache_clear()
