"""The default form of a prepared context: one line of JSON in a fence, in three sizes.

The fullest is the published contract's. Where too little of an item would fit into it the
paragraph before the fence becomes one line; where even then too little fits, each citation
becomes a handle, `memory/memory@3/mem_ent_…/mem_ver_…`, whose parts are percent-encoded and which
starts with `//SCOPE/` for another scope's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pc_store.domain import fence
from pc_store.domain.prepared import Family, Item, Recalled
from pc_store.domain.refs import ArtifactRef


def citation(found: Recalled) -> dict[str, Any]:
    """A finding's citation as the contract has it; another scope's names the scope."""
    entry = {"entry_id": found.entry_id, "entry_version_id": found.entry_version_id}
    elsewhere = {"scope_id": found.scope_id, "artifact": _artifact(found.ref)}
    if found.family == "memory":
        memory = {"memory_ref": _artifact(found.ref)} if found.own else {"memory": elsewhere}
        return memory | entry
    return {"artifact_ref": _artifact(found.ref)} if found.own else {"artifact": elsewhere}


def handle(found: Recalled) -> str:
    """A finding's citation in one string: family/artifact@revision, and an entry's two ids."""
    parts = [found.ref.family, f"{_part(found.ref.artifact_id)}@{found.ref.revision}"]
    if found.family == "memory":
        parts += [_part(found.entry_id), _part(found.entry_version_id)]
    scope = "" if found.own else f"//{_part(found.scope_id)}/"
    return scope + "/".join(parts)


@dataclass(frozen=True)
class Envelope:
    """A layout: what stands before the fence, and how items are cited."""

    head: str
    cite: Callable[[Recalled], object]

    def piece(self, item: Item, ordinal: int) -> str:  # noqa: ARG002 - items are not numbered here
        """An item, as JSON."""
        kind = {} if item.found.family == "memory" else {"kind": item.found.family}
        return fence.json_line(
            {"citation": self.cite(item.found), "content": item.content}
            | {"truncated": item.truncated}
            | kind
        )

    def document(self, pieces: Sequence[tuple[Family, str]]) -> str:
        """The whole."""
        items = ",".join(piece for _, piece in pieces)
        return "\n".join(
            [
                self.head,
                fence.begin(fence.CONTEXT),
                f'{{"trust":"untrusted_history","items":[{items}]}}',
                fence.end(fence.CONTEXT),
            ]
        )


LAYOUTS = (
    Envelope(f"{fence.TRUST}\n", citation),
    Envelope(fence.SHORT_TRUST, citation),
    Envelope(fence.SHORT_TRUST, handle),
)


def _artifact(ref: ArtifactRef) -> dict[str, Any]:
    return {"family": ref.family, "artifact_id": ref.artifact_id, "revision": ref.revision}


def _part(text: str) -> str:
    return quote(text, safe="")
