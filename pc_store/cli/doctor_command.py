"""`pc doctor`: what is misconfigured, what lags, what is set aside."""

from typing import Any

import typer

from pc_store.cli import console
from pc_store.client import Client
from pc_store.errors import StoreError
from pc_store.ledger.database import open_database
from pc_store.services import diagnose, probe
from pc_store.services.administer import find_scopes
from pc_store.services.clock import now_us
from pc_store.services.diagnose import Fact
from pc_store.settings import Settings

_SHOWN = 20


def doctor(as_json: console.Json = False) -> None:
    """Say what is misconfigured, what lags and what is set aside: exit code 1 on an error."""
    url = console.server()
    facts = _local() if url is None else _remote()
    console.show(
        [vars(fact) for fact in facts],
        as_json=as_json,
        columns=("", "", ""),
        cells=lambda row: (_MARKS[row["level"]], row["name"], row["says"]),
        empty="nothing was looked at",
    )
    if any(fact.level == "error" for fact in facts):
        raise typer.Exit(1)


_MARKS = {"ok": "ok", "warning": "warning", "error": "ERROR"}


def _local() -> list[Fact]:
    try:
        settings = Settings.load()
    except StoreError as error:
        return [Fact("settings", "error", error.message)]
    facts = [_settings(settings)]
    now = now_us()
    try:
        db = open_database(settings.ledger_url, wait_s=settings.database_wait_s)
    except StoreError as error:
        return [*facts, Fact("ledger", "error", error.message), probe.model_fact(settings)]
    try:
        scope_ids = [scope.scope_id for scope in find_scopes(db).scopes]
        better = {
            "ledger": Fact("ledger", "ok", f"{db.label}, its schema is up to date"),
            "model": probe.model_fact(settings),
            "schedule": probe.schedule_fact(db, settings, scope_ids, now_us=now),
        }
        facts += [
            better.get(fact.name, fact) for fact in diagnose.doctor_facts(db, settings, now_us=now)
        ]
    except StoreError as error:
        facts.append(Fact("ledger", "error", error.message))
    finally:
        db.close()
    return [*facts, probe.embedder_fact(settings), probe.disk_fact(settings)]


def _settings(settings: Settings) -> Fact:
    """Whether what the server would read at its start is in order too."""
    from pc_store.client.in_process import check_access

    try:
        tokens = check_access(settings)
    except StoreError as error:
        return Fact("settings", "error", error.message)
    return Fact("settings", "ok", f"valid; {tokens}")


def _remote() -> list[Fact]:
    facts: list[Fact] = []
    try:
        with console.connected() as client:
            ready = client.get_readiness()
            level = {"ready": "ok", "degraded": "warning"}.get(ready.status, "error")
            told = ", ".join(f"{name} {found}" for name, found in sorted(ready.checks.items()))
            facts.append(Fact("server", level, f"{client.url} is {ready.status}: {told}"))
            facts += _of_scopes(client)
    except StoreError as error:
        facts.append(Fact("token" if facts else "server", "error", error.message))
    return facts


def _of_scopes(client: Client) -> list[Fact]:
    """Backlog, failing windows and quarantine of every scope that the token shows."""
    scope_ids = [scope.scope_id for scope in client.list_scopes().items]
    waiting: list[str] = []
    failing: list[Fact] = []
    aside: list[Fact] = []
    for scope_id in scope_ids:
        at: dict[str, Any] = console.row(client.get_processing_status(scope_id))
        if at["pending"]:
            waiting.append(f"{scope_id} {at['pending']}")
        if at["window_status"] == "failed":
            says = f"{scope_id}, attempt {at['attempt']}: {(at['last_error'] or {}).get('code')}"
            failing.append(Fact("failing windows", "error", says))
        if at["quarantined"]:
            aside += [
                Fact("quarantine", "error", f"{scope_id} position {item.position}: {item.reason}")
                for item in client.list_quarantined_sources(scope_id, limit=_SHOWN).items
            ]
    says = f"positions wait: {', '.join(waiting[:_SHOWN])}" if waiting else "nothing waits"
    return [
        Fact("backlog", "ok", says),
        *(failing[:_SHOWN] or [Fact("failing windows", "ok", "none")]),
        *(aside[:_SHOWN] or [Fact("quarantine", "ok", "none")]),
    ]
