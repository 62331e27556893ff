"""The files of `deploy/`, read as far as Docker, Compose and Helm read them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, (keyword, rest), continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, its FROM first."""
    found: list[list[tuple[str, str]]] = []
    for keyword, rest in instructions():
        if keyword == "FROM":
            found.append([])
        found[-1].append((keyword, rest))
    return found


def copied(stage: list[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """What a stage copies from the checkout: (sources, destination)."""
    return [
        (rest.split()[:-1], rest.split()[-1])
        for keyword, rest in stage
        if keyword == "COPY" and not rest.startswith("--from=")
    ]


def image_environment() -> dict[str, str]:
    """The variables of the image, on top of those of its base."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    (given,) = [rest for keyword, rest in stages()[-1] if keyword == "ENV"]
    for setting in given.split():
        name, _, value = setting.partition("=")
        environment[name] = value.replace("$PATH", environment["PATH"])
    return environment


def last(keyword: str) -> str:
    """The last such instruction of the image's own stage."""
    return [rest for found, rest in stages()[-1] if found == keyword][-1]


def compose(variables: Mapping[str, str]) -> Any:
    """The Compose file with its variables put in.

    Raises:
        ValueError: a variable that it requires is not given.
    """
    return _interpolated(yaml.safe_load((DEPLOY / "compose.yaml").read_text()), variables)


def env_file(path: Path) -> dict[str, str]:
    """The settings of an env file."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def manifests() -> list[Any]:
    """The Kubernetes objects beside the chart."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / "api.yaml").read_text()))


def helm_values() -> Any:
    """The values for Dagster's chart."""
    return yaml.safe_load((DEPLOY / "kubernetes" / "values.yaml").read_text())


def each(node: Any, key: str) -> Iterator[Any]:
    """Every value under a key, at any depth."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from each(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from each(value, key)


def _interpolated(node: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _interpolated(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [_interpolated(value, variables) for value in node]
    if not isinstance(node, str):
        return node

    def value(found: re.Match[str]) -> str:
        given = variables.get(found["name"], "")
        if given or found["kind"] is None:
            return given
        if found["kind"] == "?":
            raise ValueError(f"{found['name']} {found['rest']}")
        return found["rest"]

    return _VARIABLE.sub(value, node)
