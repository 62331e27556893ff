"""Writes the documents that are made from code, or says which of them are stale.

    python docs/generate.py            write cli.md, data-model.md and settings.md
    python docs/generate.py --check    write nothing; fail when one of them would change

What a document says is edited where it is declared: help texts in `pc_store.cli`, comments of
tables and columns in `pc_store.ledger.schema`, docstrings of fields in `pc_store.settings`.
"""

import ast
import inspect
import itertools
import sys
from pathlib import Path

import typer
from pydantic import BaseModel
from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    MetaData,
    Table,
    UniqueConstraint,
)
from typer.cli import get_docs_for_click

from pc_store.cli.app import app
from pc_store.ledger.schema import metadata
from pc_store.settings import Settings

DOCS = Path(__file__).parent
NOTICE = "<!-- Written by docs/generate.py; run `make docs` instead of editing this file. -->\n\n"


def main(arguments: list[str]) -> int:
    """Write the documents, or with `--check` compare them; returns the exit code."""
    stale = []
    documents = {
        "cli.md": cli(app),
        "data-model.md": data_model(metadata),
        "settings.md": settings(),
    }
    for name, text in documents.items():
        path = DOCS / name
        wanted = NOTICE + text
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        stale.append(f"docs/{name}")
        if "--check" not in arguments:
            path.write_text(wanted, encoding="utf-8")
    if stale and "--check" in arguments:
        sys.stderr.write(f"stale, run `make docs`: {', '.join(stale)}\n")
        return 1
    return 0


def cli(application: typer.Typer) -> str:
    """Return the reference of every command, as Typer itself lays it out."""
    command = typer.main.get_command(application)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="pc")
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def settings() -> str:
    """Return a row for each environment variable."""
    lines = ["# Settings", "", "| variable | default | |", "|---|---|---|"]
    told = below_fields(Settings)
    for name, field in Settings.model_fields.items():
        default = "unset" if field.default is None else f"`{field.default}`"
        what = " ".join(told.get(name, "").split()).replace("|", "\\|")
        lines.append(f"| `PC_{name.upper()}` | {default} | {what} |")
    lines += [
        "| `PC_API_URL` | unset | The server that `pc` and `pc_store.client` work on; unset: `pc` "
        "works on the store of this machine. |",
        "| `PC_API_TOKEN` | unset | The bearer token they send to it. |",
        "| `PC_DAGSTER_POSTGRES_URL` | unset | Dagster's own storage; unset: SQLite files under "
        "`DAGSTER_HOME`. |",
    ]
    return "\n".join(lines) + "\n"


def below_fields(model: type[BaseModel]) -> dict[str, str]:
    """The docstring below each field, by the field's name.

    Pydantic finds them too, whenever the class is made: a tenth of a second of every process.
    """
    (declared,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(declared, ast.ClassDef)
    return {
        field.target.id: told.value.value
        for field, told in itertools.pairwise(declared.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(told, ast.Expr)
        and isinstance(told.value, ast.Constant)
        and isinstance(told.value.value, str)
    }


def data_model(model: MetaData) -> str:
    """Return a section for each table, in the order in which they can be created."""
    tables = model.sorted_tables
    lines = ["# Data model", ""]
    lines += [f"- [{table.name}](#{table.name}): {table.comment or ''}" for table in tables]
    for table in tables:
        lines += ["", f"## {table.name}", ""]
        if table.comment:
            lines += [table.comment, ""]
        lines += ["| column | type | |", "|---|---|---|"]
        lines += [_column(column) for column in table.columns]
        if rules := sorted(_rules(table)):
            lines += ["", *rules]
    return "\n".join(lines) + "\n"


def _column(column: "Column[object]") -> str:
    kind = f"{column.type}{' or null' if column.nullable else ''}"
    key = "**key.** " if column.primary_key else ""
    comment = (column.comment or "").replace("|", "\\|")
    return f"| `{column.name}` | {kind} | {(key + comment).strip()} |"


def _rules(table: Table) -> list[str]:
    """Return a line for each constraint and index that says more than the columns do."""
    rules = []
    for constraint in table.constraints.union(*(column.constraints for column in table.columns)):
        names = ", ".join(column.name for column in getattr(constraint, "columns", ()))
        if isinstance(constraint, UniqueConstraint):
            rules.append(f"- unique ({names})")
        elif isinstance(constraint, ForeignKeyConstraint):
            target = constraint.elements[0].column.table.name
            keys = ", ".join(element.column.name for element in constraint.elements)
            rules.append(f"- ({names}) refers to [{target}](#{target}) ({keys})")
        elif isinstance(constraint, CheckConstraint):
            rules.append(f"- check `{constraint.sqltext}`")
    for index in table.indexes:
        names = ", ".join(getattr(part, "name", str(part)) for part in index.expressions)
        where = index.dialect_options["sqlite"].get("where")
        only = "" if where is None else f" where `{where}`"
        rules.append(f"- {'unique index' if index.unique else 'index'} ({names}){only}")
    return rules


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
