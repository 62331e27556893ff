"""Plain text and Markdown: one source per file.

The id is `<file>@<12 hex of the text's digest>`, so a file that was changed is another source
and not a conflict. Line ends are read as `\\n`; nothing else of the text changes.
"""

from collections.abc import Iterator
from pathlib import Path

from pc_store.domain import text
from pc_store.readers.reading import Read, Reject, Tally, document, file_key, name_of, offer


def read(path: Path, *, root: Path, tally: Tally | None = None) -> Iterator[Read | Reject]:
    """Yield the file's text, in parts at paragraph borders when it is over 200,000 characters."""
    tally = tally if tally is not None else Tally()
    file = name_of(path, root)
    content = document(path, file=file, tally=tally)
    if isinstance(content, Reject):
        yield content
    elif not content.strip():
        tally.dropped["blank file"] += 1
    else:
        key = file_key(file)
        metadata = {"kind": "document", "file": key}
        # Lone surrogates cannot come out of UTF-8, so the digest always exists.
        source_id = f"{key}@{text.digest(content)[:12]}"
        yield from offer(source_id, content, metadata, file=file, line=None, raw=content[:65_536])
