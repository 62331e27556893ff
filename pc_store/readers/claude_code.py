"""Session logs of Claude Code: one JSON record a line, most of them bookkeeping.

What becomes a source, and what does not:

* A record of a person, the model or a tool is one source with the id `<session>:<uuid>`; its
  parts are joined. Records are not merged with each other, so a log that is still growing
  gives the same sources when it is read again.
* A tool call is no source of its own. It stands, shortened, above the result it led to, which
  so can be understood alone; a call whose result never came is dropped.
* A slash command is kept when the person wrote something behind it, without its wrapper.
  What the person ran with `!` is kept, and so is its output, as a tool result.
* The summary that a compaction leaves is the model's text, marked `compact_summary`.
* Dropped and counted: thinking, progress, snapshots, system records, injected instructions
  (`isMeta`), output of slash commands, interruptions, API errors, blank turns.
* Terminal escapes and overwritten progress lines are taken out of every text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pc_store.errors import InvalidInput
from pc_store.readers.reading import (
    Line,
    Read,
    Reject,
    Tally,
    as_raw,
    file_key,
    lines,
    name_of,
    offer,
    parsed,
)
from pc_store.readers.terminal import plain

BOOKKEEPING = frozenset({"progress", "file-history-snapshot", "system", "summary"} | {
    "queue-operation", "last-prompt", "custom-title", "agent-name", "pr-link", "attachment",
})  # fmt: skip
_CALL_MAX_CHARS = 1_000
_ARGUMENT_MAX_CHARS = 300
_CALLS_MAX = 1_000

_COMMAND = re.compile(r"<command-(name|message|args)>(.*?)</command-\1>", re.DOTALL)
_NOISE_TAGS = ("system-reminder", "local-command-caveat", "ide_opened_file")
_OUTPUT_TAGS = ("local-command-stdout", "local-command-stderr")
_SHELL = re.compile(r"<bash-(input|stdout|stderr)>(.*?)</bash-\1>", re.DOTALL)


def read(path: Path, *, root: Path, tally: Tally | None = None) -> Iterator[Read | Reject]:
    """Yield a source for each turn of the session, in the order of the log."""
    tally = tally if tally is not None else Tally()
    file = name_of(path, root)
    session = _Session(file_key(file).rsplit("/", 1)[-1].removesuffix(".jsonl"), tally)
    for line in lines(path, file=file, tally=tally):
        if isinstance(line, Reject):
            yield line
            continue
        try:
            turn = session.turn(line)
        except InvalidInput as error:
            yield line.rejected(file, error)
            continue
        if turn is not None:
            yield from offer(
                turn.source_id,
                turn.text,
                turn.metadata,
                file=file,
                line=line.number,
                raw=line.text,
            )
    for _ in session.unanswered:
        tally.dropped["tool call without result"] += 1


@dataclass(frozen=True)
class _Turn:
    source_id: str
    text: str
    metadata: dict[str, Any]


@dataclass
class _Content:
    """What the parts of one record hold, noise taken out."""

    texts: list[str] = field(default_factory=list)
    kind: str | None = None
    tools: list[str] = field(default_factory=list)
    is_error: bool | None = None


class _Session:
    """Reads records in order; remembers the calls, for the results that are still to come.

    Answered calls are remembered too: a resumed session repeats records, and a repeated result
    must read as it did the first time.
    """

    def __init__(self, fallback_id: str, tally: Tally) -> None:
        self._fallback_id = fallback_id
        self._tally = tally
        self._calls: dict[str, tuple[str, str]] = {}
        self.unanswered: set[str] = set()

    def turn(self, line: Line) -> _Turn | None:
        """The source that a record makes, or None if it is dropped, and counted.

        Raises:
            InvalidInput: the line is no record of a session.
        """
        record = parsed(line.text)
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            raise InvalidInput("record", "has no type, so it is no record of a session")
        role = record["type"]
        if role not in ("user", "assistant"):
            self._drop(role if role in BOOKKEEPING else "other record")
            return None
        message = record.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
            raise InvalidInput("message", "has no content, neither text nor a list of parts")
        if record.get("isMeta"):
            self._drop("injected instruction")
            return None
        if record.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            self._drop("api error")
            return None
        content = self._content(role, message["content"])
        text = "\n\n".join(content.texts)
        if not text:
            return None
        return _Turn(self._source_id(record, line), text, _metadata(record, role, content))

    def _source_id(self, record: dict[str, Any], line: Line) -> str:
        session = record.get("sessionId") or self._fallback_id
        return f"{session}:{record.get('uuid') or f'line-{line.number}'}"

    def _drop(self, why: str) -> None:
        self._tally.dropped[why] += 1

    def _content(self, role: str, parts: str | list[Any]) -> _Content:
        content = _Content()
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "text":
                self._add_text(content, role, str(part.get("text") or ""))
            elif kind == "tool_result":
                self._add_result(content, part)
            elif kind == "tool_use":
                self._remember(part)
            elif kind in ("thinking", "redacted_thinking"):
                self._drop("thinking")
            else:
                self._drop(kind if kind in ("image", "document") else "other part")
        return content

    def _add_text(self, content: _Content, role: str, text: str) -> None:
        text = plain(text)
        if role == "user":
            kept = _said(text)
            if kept is None:
                self._drop("command or interruption")
                return
            text, is_output = kept
            if is_output:
                content.kind, content.tools = "tool-result", [*content.tools, "shell"]
        text = text.strip("\n").rstrip()
        if text:
            content.texts.append(text)
        else:
            self._drop("blank turn")

    def _add_result(self, content: _Content, part: dict[str, Any]) -> None:
        call_id = str(part.get("tool_use_id"))
        tool, call = self._calls.get(call_id, (None, None))
        self.unanswered.discard(call_id)
        text = _without(plain(_flat(part.get("content"))), _NOISE_TAGS).strip("\n").rstrip()
        if not text:
            self._drop("blank turn")
            return
        content.kind = "tool-result"
        if tool is not None:
            content.tools.append(tool)
        if isinstance(part.get("is_error"), bool):
            content.is_error = bool(content.is_error) or part["is_error"]
        heading = "Error" if part.get("is_error") else "Result"
        content.texts.append(f"Call: {call}\n{heading}:\n{text}" if call else text)

    def _remember(self, part: dict[str, Any]) -> None:
        tool = plain(str(part.get("name") or "tool"))[:128]
        arguments = part.get("input")
        shown = " ".join(
            f"{name}={_shortened(value)}"
            for name, value in (arguments.items() if isinstance(arguments, dict) else ())
        )
        call = plain(f"{tool} {shown}".strip())
        if len(call) > _CALL_MAX_CHARS:
            call = call[:_CALL_MAX_CHARS] + "…"
        call_id = str(part.get("id"))
        self._calls[call_id] = (tool, call)
        self.unanswered.add(call_id)
        if len(self._calls) > _CALLS_MAX:
            # Results follow their calls closely; the oldest call needs no remembering.
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            if oldest in self.unanswered:
                self.unanswered.remove(oldest)
                self._drop("tool call without result")


def _said(text: str) -> tuple[str, bool] | None:
    """A user record's text without wrappers, and whether it is output; None if it is noise."""
    shell = dict(_SHELL.findall(text)) if "<bash-" in text else {}
    if "input" in shell:
        return f"! {shell['input'].strip()}", False
    if shell:
        return "\n".join(filter(None, (shell.get("stdout"), shell.get("stderr")))), True
    if text.startswith("[Request interrupted by user"):
        return None
    without = _without(text, (*_NOISE_TAGS, *_OUTPUT_TAGS))
    command = dict(_COMMAND.findall(without)) if "<command-name>" in without else {}
    if "name" in command:
        rest = _COMMAND.sub("", without).strip()
        words = " ".join(filter(None, (command.get("args", "").strip(), rest)))
        return (f"{command['name'].strip()} {words}", False) if words else None
    return None if without != text and not without.strip() else (without, False)


def _without(text: str, tags: tuple[str, ...]) -> str:
    """The text without elements of these tags; an element that is not closed stays."""
    for tag in tags:
        opening, closing = f"<{tag}>", f"</{tag}>"
        kept: list[str] = []
        at = 0
        while (start := text.find(opening, at)) >= 0:
            end = text.find(closing, start)
            if end < 0:
                break
            kept.append(text[at:start])
            at = end + len(closing)
        text = "".join((*kept, text[at:]))
    return text


def _flat(content: Any) -> str:
    """The text of a tool result, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "text":
            texts.append(str(part.get("text") or ""))
        elif isinstance(part, dict) and part.get("type") == "image":
            texts.append("[image]")
    return "\n".join(texts)


def _shortened(value: Any) -> str:
    text = as_raw(value)
    return text if len(text) <= _ARGUMENT_MAX_CHARS else text[:_ARGUMENT_MAX_CHARS] + "…"


def _metadata(record: dict[str, Any], role: str, content: _Content) -> dict[str, Any]:
    summary = bool(record.get("isCompactSummary"))
    role = "assistant" if summary else role
    metadata: dict[str, Any] = {
        "kind": content.kind or ("prompt" if role == "user" else "assistant"),
        "role": role,
    }
    for name, key in (
        ("timestamp", "timestamp"),
        ("session", "sessionId"),
        ("cwd", "cwd"),
        ("git_branch", "gitBranch"),
        ("agent", "agentId"),
    ):
        if isinstance(record.get(key), str) and record[key]:
            metadata[name] = plain(record[key])
    if record.get("isSidechain"):
        metadata["sidechain"] = True
    if summary:
        metadata["compact_summary"] = True
    if content.tools:
        metadata["tool"] = ", ".join(dict.fromkeys(content.tools))
    if content.is_error is not None:
        metadata["is_error"] = content.is_error
    return metadata
