"""The packaged prompts: versioned Markdown files, each beginning with its key and version.

A scope may replace a policy (what is worth keeping) with text of its own. It cannot replace
the description of the reply, which has to agree with the program that reads it.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pc_store.domain import text as texts
from pc_store.errors import NotFound

KEYS = ("memory.extract", "experience.incubate", "experience.generate")
"""The prompts that exist and that a scope may replace."""

MEMORY_REPLY = "memory.reply"
_FENCED = re.compile(r"^```json\n(.*?)\n```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Policy:
    """A prompt as packaged. `version` changes whenever `text` does."""

    key: str
    version: str
    text: str


def packaged(key: str) -> Policy:
    """The packaged prompt of this key.

    Raises:
        NotFound: the key is none of `KEYS`.
    """
    if key not in KEYS:
        raise NotFound(f"there is no prompt {key!r}; known are {', '.join(KEYS)}", key=key)
    return _read(key)


def reply_format(key: str = MEMORY_REPLY) -> Policy:
    """How a reply has to look, with examples; sent after every policy, packaged or not."""
    return _read(key)


def examples(prompt: str) -> frozenset[str]:
    """The texts of the example replies in a prompt, folded as `folded` does.

    Small models copy an example instead of reading the evidence; what is in this set is such
    a copy. Examples are recognised by their form: a JSON block that holds `candidates`, or one
    `proposal`.
    """
    found: set[str] = set()
    for block in _FENCED.findall(prompt):
        found.update(_candidate_texts(block))
    return frozenset(found)


def folded(text: str) -> str:
    """A text as compared with examples: case, white space and Unicode form do not count."""
    return " ".join(texts.normalise(text).casefold().split())


def _candidate_texts(block: str) -> list[str]:
    try:
        reply: Any = json.loads(block)
    except ValueError:
        return []  # a scope's own prompt may hold any block
    if not isinstance(reply, dict):
        return []
    parts = reply.get("candidates", [reply] if "proposal" in reply else None)
    if not isinstance(parts, list):
        return []
    found: list[Any] = []
    for part in parts:
        if isinstance(part, dict):
            content = part.get("proposal")
            found += content.values() if isinstance(content, dict) else [part.get("text")]
    return [folded(text) for text in found if isinstance(text, str) and text.strip()]


@cache
def _read(key: str) -> Policy:
    raw = files("pc_store.llm").joinpath("prompts", f"{key}.md").read_text(encoding="utf-8")
    head, _, body = raw.partition("\n---\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    return Policy(fields["key"], fields["version"], body.strip())
