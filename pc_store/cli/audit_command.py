"""`pc audit`: the checks on what the ledger holds."""

from typing import Annotated

import typer

from pc_store.cli import console
from pc_store.services import audit as service


def audit(
    scope_id: Annotated[
        str | None, typer.Argument(metavar="[SCOPE]", help="One scope; all unless given.")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Check the ledger: exit code 1 if anything offends."""
    with console.opened("audit") as store:
        findings = service.audit(store.db, store.settings, scope_id=scope_id)
    console.show(
        [{"passed": finding.passed, **vars(finding)} for finding in findings],
        as_json=as_json,
        columns=("", "check", "asserts", "offenders"),
        cells=lambda row: (
            "ok" if row["passed"] else "FAILED",
            row["check"],
            row["asserts"],
            row["count"] or "",
        ),
        empty="no checks",
    )
    if not as_json:
        for finding in findings:
            for row in finding.rows[:10]:
                console.say(f"  {finding.check}: {', '.join(f'{k}={v}' for k, v in row.items())}")
    if not all(finding.passed for finding in findings):
        raise typer.Exit(1)
