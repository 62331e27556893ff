"""Trajectories of SWE-agent: one JSON document with `trajectory` or `history`, and `info`.

Sources, in this order: the task as it was put to the agent (`kind` prompt), one per step with
its thought, action and observation (`kind` step), and, if the run ended, one with the exit
status and the submission (`kind` result). A document without a trajectory gets its steps from
the history. System prompts and demonstrations are dropped and counted.

Ids are `swe:<file>:<what>:<12 hex of the digest>`: a run that was repeated under the same file
name makes other sources where it took other steps, and no conflicts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pc_store.domain import text as texts
from pc_store.errors import InvalidInput
from pc_store.readers.reading import (
    Read,
    Reject,
    Tally,
    document,
    file_key,
    name_of,
    offer,
    parsed,
)
from pc_store.readers.terminal import plain


@dataclass(frozen=True)
class _Part:
    what: str
    kind: str
    text: str
    extra: dict[str, Any]
    raw: Any


def read(path: Path, *, root: Path, tally: Tally | None = None) -> Iterator[Read | Reject]:
    """Yield the task, the steps and the result of one trajectory."""
    tally = tally if tally is not None else Tally()
    file = name_of(path, root)
    content = document(path, file=file, tally=tally)
    if isinstance(content, Reject):
        yield content
        return
    if not content.strip():
        tally.dropped["blank file"] += 1
        return
    try:
        run = parsed(content)
        history, trajectory, info = _shape(run)
    except InvalidInput as error:
        yield Reject(file, None, error.message, content[:65_536])
        return
    key = file_key(file)
    name = key.removesuffix(".traj")
    steps = _from_trajectory(trajectory) if trajectory else _from_history(history)
    for part in (*_task(history, tally), *steps, *_result(info)):
        if not part.text:
            tally.dropped["blank turn"] += 1
            continue
        source_id = f"swe:{name}:{part.what}:{texts.digest(part.text)[:12]}"
        metadata = {"kind": part.kind, "trajectory": name, **part.extra}
        yield from offer(source_id, part.text, metadata, file=file, line=None, raw=part.raw)


def _shape(run: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
    if not isinstance(run, dict):
        raise InvalidInput("document", f"is a {type(run).__name__}, an object is expected")
    history, trajectory = run.get("history") or [], run.get("trajectory") or []
    for name, value in (("history", history), ("trajectory", trajectory)):
        if not isinstance(value, list):
            raise InvalidInput(name, f"is a {type(value).__name__}, a list is expected")
    if "history" not in run and "trajectory" not in run:
        raise InvalidInput("document", "has neither a trajectory nor a history")
    info = run.get("info")
    return history, trajectory, info if isinstance(info, dict) else {}


def _task(history: list[Any], tally: Tally) -> Iterator[_Part]:
    """The user's messages ahead of the agent's first; counts what is dropped there."""
    for message in _messages(history):
        if message.get("is_demo"):
            tally.dropped["demonstration"] += 1
        elif message.get("role") == "system":
            tally.dropped["system prompt"] += 1
        elif message.get("role") == "user":
            text = plain(_flat(message.get("content"))).strip()
            yield _Part("task", "prompt", text, {"role": "user"}, message)
        else:
            return


def _from_trajectory(trajectory: list[Any]) -> Iterator[_Part]:
    for number, step in enumerate(_messages(trajectory), start=1):
        thought = step.get("thought") or step.get("response")
        yield _step(number, thought, step.get("action"), step.get("observation"), step)


def _from_history(history: list[Any]) -> Iterator[_Part]:
    """Steps of a history: what the agent said, and the messages up to what it said next."""
    number = 0
    said: dict[str, Any] | None = None
    seen: list[str] = []
    for message in [*_messages(history), None]:
        if message is not None and (message.get("is_demo") or message.get("role") == "system"):
            continue
        if message is not None and message.get("role") != "assistant":
            seen.append(_flat(message.get("content")))
            continue
        if said is not None:
            number += 1
            thought = said.get("thought") or said.get("content")
            yield _step(number, thought, said.get("action"), "\n".join(seen), said)
        said, seen = message, []


def _step(number: int, thought: Any, action: Any, observation: Any, raw: Any) -> _Part:
    sections = (("Thought", thought), ("Action", action), ("Observation", observation))
    shown = [(name, plain(_flat(value)).strip("\n").rstrip()) for name, value in sections]
    text = "\n\n".join(f"{name}:\n{body}" for name, body in shown if body)
    return _Part(f"step-{number:03}", "step", text, {"role": "assistant", "step": number}, raw)


def _result(info: dict[str, Any]) -> Iterator[_Part]:
    status = plain(_flat(info.get("exit_status"))).strip()
    submission = plain(_flat(info.get("submission"))).strip("\n")
    if status or submission:
        shown = [f"Exit status: {status or 'unknown'}"]
        if submission:
            shown.append(f"Submission:\n{submission}")
        extra = {"exit_status": status[:256] or "unknown", "submitted": bool(submission)}
        yield _Part("result", "result", "\n\n".join(shown), extra, info)


def _messages(items: list[Any]) -> Iterator[dict[str, Any]]:
    return (item for item in items if isinstance(item, dict))


def _flat(content: Any) -> str:
    """A message's text, which newer versions write as a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
