"""Which scenarios there are: the public functions of these modules, in their order."""

import ast
from pathlib import Path

MODULES = (
    "memory_scenarios",
    "dedup_scenarios",
    "citation_scenarios",
    "search_scenarios",
    "window_scenarios",
    "source_scenarios",
    "work_scenarios",
    "scope_scenarios",
    "artifact_scenarios",
    "experience_scenarios",
    "candidate_scenarios",
    "dream_scenarios",
    "context_scenarios",
    "service_scenarios",
)
PLAIN_ONLY = "plain_scenarios"
"""What the published client cannot do: our additions, and what its own models refuse."""
PUBLISHED_ONLY = "published_scenarios"


def names(module: str) -> list[str]:
    """The scenarios of a module, read without importing it."""
    tree = ast.parse((Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
