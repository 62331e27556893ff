"""`pc doctor`: what is misconfigured, what lags, what is set aside."""

import typer

from pc_store.cli import console
from pc_store.client import Client
from pc_store.errors import StoreError
from pc_store.ledger.database import open_database
from pc_store.services import diagnose, probe
from pc_store.services.clock import now_us
from pc_store.services.diagnose import Fact
from pc_store.settings import Settings

_SHOWN = diagnose.SHOWN
_COUNTED = {"memory": "positions", "experience": "outcomes", "recurrence": "outcomes"}


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
    facts = [_settings(settings), probe.model_fact(settings), probe.embedder_fact(settings)]
    facts.append(probe.disk_fact(settings))
    now = now_us()
    try:
        db = open_database(settings.ledger_url, wait_s=settings.database_wait_s)
    except StoreError as error:
        return [*facts, Fact("ledger", "error", error.message)]
    try:
        facts.append(Fact("ledger", "ok", f"{db.label}, its schema is up to date"))
        facts.append(probe.index_fact(db, settings, now_us=now))
        facts += diagnose.doctor_facts(db, settings, now_us=now)
    except StoreError as error:
        facts.append(Fact("ledger", "error", error.message))
    finally:
        db.close()
    return facts


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
            facts += [*_waiting(client), *_of_scopes(client)]
    except StoreError as error:
        facts.append(Fact("token" if facts else "server", "error", error.message))
    return facts


def _waiting(client: Client) -> list[Fact]:
    """What waits, from the server's metrics; its targets are not known here."""
    lines = (line.partition(" ") for line in client.get_metrics().splitlines())
    told = {name: float(value) for name, _, value in lines if name in diagnose.GAUGES}
    if told.keys() != diagnose.GAUGES.keys():
        return [Fact("backlog", "warning", "the server is another version and does not say")]
    count = {name: f"{value:.0f}" for name, value in told.items()}
    hours = told["pc_candidates_oldest_seconds"] / 3_600
    inbox = f"{count['pc_candidates_pending']} candidates wait for review"
    return [
        *(
            Fact(
                f"{name} backlog",
                "ok",
                f"{count[f'pc_{name}_waiting_{counted}']} {counted} of "
                f"{count[f'pc_{name}_waiting_scopes']} scopes wait",
            )
            for name, counted in _COUNTED.items()
        ),
        diagnose.dreams_fact(int(told["pc_dreams_pending"]), told["pc_dreams_unattended_seconds"]),
        Fact(
            "review inbox", "ok", inbox + (f", the oldest for {hours:.1f} hours" if hours else "")
        ),
    ]


def _of_scopes(client: Client) -> list[Fact]:
    """Failing windows and quarantine of every scope that the token shows."""
    failing: list[str] = []
    aside: list[str] = []
    for scope in client.list_scopes().items:
        failing += [
            f"{row.scope_id} {row.consumer} ({row.after}, {row.through}], attempt {row.attempt}: "
            f"{(row.error or {}).get('code')}"
            for row in client.list_windows(scope.scope_id, status=["failed"], limit=_SHOWN).items
        ]
        aside += [
            f"{scope.scope_id} {item.consumer} position {item.position}: {item.reason}"
            for item in client.list_quarantined_sources(scope.scope_id, limit=_SHOWN).items
        ]
    return [
        *diagnose.each_or_none("failing windows", failing[:_SHOWN]),
        *diagnose.each_or_none("quarantine", aside[:_SHOWN]),
    ]
