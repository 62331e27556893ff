"""Results of tau-bench: one JSON array, an element per trial of a task with a reward of 0 or 1.

Each trial is one source, ordered by trial, then task: `tau-<env>-<task>-t<trial>`, a task outcome
(`powercontext.task-outcome.v1`). Its one check is the goal check, which compared the end state or
the answers with what the task demands. Its basis is declared, since a results file is somebody's
word and holds no evidence that a log could cite.

The environment is taken from the file's name (airline, retail, telecom), else it is the name.
Ids say nothing of the agent's model: results of two models belong in two scopes.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pc_store.domain import outcome
from pc_store.domain.text import shortened
from pc_store.errors import InvalidInput
from pc_store.readers.reading import (
    Read,
    Reject,
    Tally,
    as_raw,
    document,
    file_key,
    name_of,
    offer,
    parsed,
)
from pc_store.readers.terminal import plain

_ENVIRONMENT = re.compile(r"(?<![a-z])(airline|retail|telecom)(?![a-z])")
_STOP = "###STOP###"
_SUMMARY_WORDS_MAX_CHARS = 1_000


def read(path: Path, *, root: Path, tally: Tally | None = None) -> Iterator[Read | Reject]:
    """Yield the outcome of every trial, ordered by trial, then task."""
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
        trials = parsed(content)
        if not isinstance(trials, list):
            raise InvalidInput("document", f"is a {type(trials).__name__}, a list is expected")
    except InvalidInput as error:
        yield Reject(file, None, error.message, content[:65_536])
        return
    del content  # as big as the trials
    environment = environment_of(file)
    good: list[tuple[int, int, dict[str, Any]]] = []
    for trial in trials:
        if reason := _malformed(trial):
            yield Reject(file, None, reason, as_raw(trial))
        else:
            good.append((trial["trial"], trial["task_id"], trial))
    for _, _, trial in sorted(good, key=lambda item: item[:2]):
        yield from _sources(trial, environment, file)


def environment_of(file: str) -> str:
    """The simulated environment that a results file is about."""
    key = file_key(file).rsplit("/", 1)[-1].removesuffix(".json").lower()
    found = _ENVIRONMENT.search(key)
    return found[0] if found else key


def _malformed(trial: Any) -> str | None:
    if not isinstance(trial, dict):
        return f"trial: is a {type(trial).__name__}, an object is expected"
    for name in ("trial", "task_id"):
        if not isinstance(trial.get(name), int) or isinstance(trial[name], bool):
            return f"{name}: is missing or not an integer"
    reward = trial.get("reward")
    if not isinstance(reward, int | float) or isinstance(reward, bool):
        return "reward: is missing or not a number"
    if not isinstance(trial.get("traj"), list):
        return "traj: is missing or not a list"
    if not isinstance(_at(trial, "info", "task", "instruction"), str):
        return "info.task.instruction: is missing or not a text"
    return None


def _sources(trial: dict[str, Any], environment: str, file: str) -> Iterator[Read | Reject]:
    source_id = f"tau-{environment}-{trial['task_id']}-t{trial['trial']}"
    passed = trial["reward"] >= 1
    graded = _at(trial, "info", "reward_info")
    metadata = {
        "task": f"{environment} task {trial['task_id']}",
        "trial": trial["trial"],
        "reward": trial["reward"],
    }
    value = {
        "objective": _trimmed(_at(trial, "info", "task", "instruction")),
        "status": "succeeded" if passed else "failed",
        "summary": _summary(trial, passed),
        "observations": [
            {"text": text}
            for text in (
                f"{metadata['task']} was attempted",
                *_last_words(trial["traj"]),
                *_expected(trial),
            )
        ],
        "checks": [
            {
                "name": f"{metadata['task']}: goal check",
                "status": "passed" if passed else "failed",
                "details": _details(trial, graded),
            }
        ],
    }
    try:
        content = outcome.parse(value).dumps()
    except InvalidInput as error:
        yield Reject(file, None, error.message, as_raw(trial))
        return
    yield from offer(
        source_id,
        content,
        {"kind": outcome.KIND, "schema": outcome.SCHEMA, **metadata},
        file=file,
        line=None,
        raw=trial,
    )


def _details(trial: dict[str, Any], graded: Any) -> str:
    if not isinstance(graded, dict):
        return f"reward {trial['reward']:g}; the dialogue did not end, so nothing was compared"
    outputs = _at(graded, "info", "outputs")
    if isinstance(outputs, dict) and outputs:
        missing = [str(name) for name, said in outputs.items() if not said]
        told = f"answers not given: {', '.join(missing)}" if missing else "all answers given"
    else:
        told = "end state compared with the expected one"
    return _trimmed(plain(f"reward {trial['reward']:g}; {told}"))


def _expected(trial: dict[str, Any]) -> Iterator[str]:
    actions = _at(trial, "info", "task", "actions")
    if isinstance(actions, list) and actions:
        yield _trimmed("Expected actions: " + "; ".join(map(_call, actions)))


def _call(action: Any) -> str:
    if not isinstance(action, dict):
        return as_raw(action)
    return f"{action.get('name')} {as_raw(action.get('kwargs') or {})}"


def _summary(trial: dict[str, Any], passed: bool) -> str:
    verdict = "passed" if passed else "failed"
    spoken = [message for message in trial["traj"] if isinstance(message, dict)]
    last = next(
        (words for message in reversed(spoken) if (words := _words(message, "assistant"))), ""
    )
    summary = f"The goal check {verdict} after {len(spoken)} messages."
    return (
        f"{summary} The agent's last words: {last[:_SUMMARY_WORDS_MAX_CHARS]}" if last else summary
    )


def _last_words(messages: list[Any]) -> list[str]:
    """What the user and the agent said last and what the last tool call answered."""
    found: dict[str, str] = {}
    labels = {
        "assistant": "The agent's last message",
        "user": "The user's last message",
        "tool": "The last tool result",
    }
    for message in reversed(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role in labels and role not in found and (words := _words(message, role)):
            found[role] = _trimmed(f"{labels[role]}: {words}")
    return [found[role] for role in labels if role in found]


def _words(message: dict[str, Any], role: str) -> str:
    content = message.get("content")
    if message.get("role") != role or not isinstance(content, str):
        return ""
    return plain(content.replace(_STOP, "")).strip()


def _trimmed(text: str) -> str:
    return shortened(plain(text).strip(), outcome.TEXT_MAX_CHARS)


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
