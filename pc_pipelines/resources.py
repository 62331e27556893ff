"""What assets, sensors and checks are handed: the opened store and the proposer in force."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Self

import dagster as dg

from pc_store.domain.experience_proposal import ExperienceProposer
from pc_store.domain.proposal import Proposer
from pc_store.errors import StoreError
from pc_store.ledger.database import Database, open_database
from pc_store.services.begin import alive
from pc_store.services.incubate import experience_author
from pc_store.settings import Settings

_BEATS_A_LEASE = 4


class StoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it is its own value
    """The store that the PC_* environment names.

    A process keeps the ledger open and the proposer loaded between ticks and ops; both are
    safe to share between threads. While a run has the resource its heartbeat goes on, also when
    it waits for a slot in a pool or for its next try: `dead_runs` ends runs without one.
    """

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Self]:
        """Hand the store out; in a run, with a heartbeat. Sensors have none."""
        try:
            db = self.db if context.run is not None else None
        except StoreError:  # the first op meets it too, and says so where people look
            db = None
        if context.run is None or db is None:
            yield self
            return
        with alive(db, context.run.run_id, every_s=self.settings.lease_s / _BEATS_A_LEASE):
            yield self

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

    @property
    def experience_author(self) -> ExperienceProposer:
        """As `proposer`, for experiences."""
        return experience_author(self.settings)


@lru_cache(maxsize=8)
def _database(url: str, wait_s: float) -> Database:
    return open_database(url, wait_s=wait_s)


@lru_cache(maxsize=8)
def _proposer(settings: Settings) -> Proposer:
    from pc_store.services.provide import proposer

    return proposer(_database(settings.ledger_url, settings.database_wait_s), settings)
