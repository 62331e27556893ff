"""What assets, sensors and checks are handed: the opened store and the proposer in force."""

import dagster as dg

from pc_store.domain.proposal import Proposer
from pc_store.ledger.database import Database, open_database
from pc_store.settings import Settings


class StoreResource(dg.ConfigurableResource):
    """One store, opened once per process from the PC_* environment."""

    _settings: Settings | None = None
    _db: Database | None = None
    _proposer: Proposer | None = None

    @property
    def settings(self) -> Settings:
        """The configuration, read at first use."""
        if self._settings is None:
            self._settings = Settings.load()
        return self._settings

    @property
    def db(self) -> Database:
        """The ledger, its schema up to date."""
        if self._db is None:
            self._db = open_database(self.settings.ledger_url, wait_s=self.settings.database_wait_s)
        return self._db

    @property
    def proposer(self) -> Proposer:
        """The configured model, or the builtin provider; made at first use, since it is slow."""
        if self._proposer is None:
            from pc_store.services.provide import proposer

            self._proposer = proposer(self.db, self.settings)
        return self._proposer

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002
        """Close the ledger's idle connections."""
        if self._db is not None:
            self._db.close()
            self._db = None
            self._proposer = None
