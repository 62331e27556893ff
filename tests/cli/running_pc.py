"""The command, run in the test's process.

`pc("memory", "list", "s")` runs it and returns the result; `ok` the output of a success; `rows`
what `--json` prints; `refused` what it complains of.
"""

import functools
import json
from typing import Any

import typer.testing
from typer.testing import CliRunner, Result

from pc_store.cli import console
from pc_store.cli.app import app

# Typer makes the tree of verbs anew for every call, which takes longer than most of them.
typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]

WIDE = {"COLUMNS": "300"}
console.out.width = int(WIDE["COLUMNS"])  # it was made before, and half of the runs have 80 then


class Command:
    """The command with its environment."""

    def __init__(self, *before: str, **env: str) -> None:
        self.before = before
        self.env = {**WIDE, **env}

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, [*self.before, *arguments], input=stdin, env=self.env)
        if not isinstance(result.exception, SystemExit | None):
            raise result.exception
        return result

    def ok(self, *arguments: str, stdin: str | None = None) -> str:
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def rows(self, *arguments: str, stdin: str | None = None) -> list[Any]:
        lines = self.ok(*arguments, "--json", stdin=stdin).splitlines()
        return [json.loads(line) for line in lines]

    def refused(self, code: int, *arguments: str, stdin: str | None = None) -> str:
        """The one line on the error stream of a refusal."""
        result = self(*arguments, stdin=stdin)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        (line,) = result.stderr.splitlines()
        return line
