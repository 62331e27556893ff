"""The builtin proposer: keeps what the evidence says, word for word, and writes nothing of its own.

Belongs here: choosing sentences of the evidence and turning them into proposals. Splitting,
judging and embedding have modules of their own; what becomes of a proposal is the program's.
"""

import re
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pc_store import limits
from pc_store.domain.proposal import Answer, Evidence, Proposal, ShownEntry, Usage
from pc_store.domain.secret import find_secret
from pc_store.domain.text import normalise
from pc_store.llm.classifier import Weights, durable_chances, likely_kinds, shipped_weights
from pc_store.llm.cues import changes_something, cue_of, label_of, may_be_durable
from pc_store.llm.embeddings import Embedder, Vectors
from pc_store.llm.sentences import split_sentences

SENTENCES_PER_SOURCE_MAX = 400
SENTENCES_MAX = 3_000
"""Most different sentences embedded for one answer: 3 to 6 CPU seconds."""

PROPOSALS_PER_SOURCE_MAX = 24
PROPOSALS_MAX = 200
"""A source or window with more durable sentences gives those the classifier is surest of."""

SAME_RULE_COSINE = 0.72
CHANGED_RULE_COSINE = 0.48
"""A sentence this close to an entry is about what the entry says; the lower figure needs words of
change ("now", "instead", "改用"). By the pairs of `tests/llm/test_builtin.py`: of 24 pairs of
different rules on one subject none reached 0.61 or had such words, of 20 revisions 16 pass.
"""

RUNNER_UP_MARGIN = 0.05
"""How much closer the revised entry must be than any other shown one."""


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass
class _Found:
    """A sentence, each text once, and where it was said."""

    text: str
    evidence_ids: list[str] = field(default_factory=list)
    chance: float = 0.0
    kind: str = "fact"

    def seen_in(self, evidence_id: str) -> None:
        if evidence_id not in self.evidence_ids and len(self.evidence_ids) < limits.EVIDENCE_MAX:
            self.evidence_ids.append(evidence_id)


class BuiltinProposer:
    """Proposes sentences of the evidence that a small classifier finds worth remembering.

    Every proposed text is a substring of the content of the first evidence it cites; the others
    say the same with at most other case, width, spacing or end punctuation. The same evidence and
    entries give the same proposals. Needs no key and no network.
    """

    provider = "builtin"

    def __init__(self, embedder: Embedder, *, weights: Weights | None = None) -> None:
        """Use the shipped weights unless others are given.

        Raises:
            ValueError: the weights were trained for vectors of another profile.
        """
        self._weights = weights or shipped_weights()
        if self._weights.profile != embedder.profile:
            raise ValueError(
                f"the embedder gives {embedder.profile!r} vectors, the classifier was trained for "
                f"{self._weights.profile!r}"
            )
        self._embedder = embedder
        self.model = f"extract-{self._weights.version}"

    def propose(
        self, evidence: Sequence[Evidence], entries: Sequence[ShownEntry], *, policy: str = ""
    ) -> Answer:
        """Propose at most `PROPOSALS_MAX` additions and revisions, in the order of the evidence.

        A sentence equal to a shown entry is proposed as an addition of that very text and kind, so
        that the program can note that it was seen again. An entry is revised at most once, by the
        latest sentence about it. `policy` is ignored: there is no prompt.
        """
        del policy
        started_s = time.perf_counter()
        kept = self._durable(_gather(evidence, entries))
        proposals = self._relate(kept, entries) if kept else ()
        return Answer(tuple(proposals), Usage(seconds=time.perf_counter() - started_s))

    def _durable(self, found: Sequence[_Found]) -> list[_Found]:
        """Those judged durable, at most so many a source and in all, in the given order."""
        if not found:
            return []
        texts = [one.text for one in found]
        chances = durable_chances(self._weights, texts, self._embedder.embed(texts))
        for one, chance in zip(found, chances.tolist(), strict=True):
            one.chance = chance
        surest = sorted(found, key=lambda one: -one.chance)
        kept: set[int] = set()
        per_source: dict[str, int] = {}
        for one in surest:
            if one.chance < self._weights.threshold or len(kept) >= PROPOSALS_MAX:
                break
            source = one.evidence_ids[0]
            if per_source.get(source, 0) < PROPOSALS_PER_SOURCE_MAX:
                per_source[source] = per_source.get(source, 0) + 1
                kept.add(id(one))
        return [one for one in found if id(one) in kept]

    def _relate(self, kept: Sequence[_Found], entries: Sequence[ShownEntry]) -> Iterable[Proposal]:
        """Say of each kept sentence whether it adds, or revises which entry."""
        vectors = self._embedder.embed([one.text for one in kept])
        kinds = likely_kinds(self._weights, [one.text for one in kept], vectors)
        for one, kind in zip(kept, kinds, strict=True):
            one.kind = kind
        by_text = {normalise(entry.text): entry for entry in entries}
        shown = self._embedder.embed([entry.text for entry in entries])
        targets = _targets(kept, vectors, entries, shown, by_text)
        latest = {target: place for place, target in targets.items()}
        for place, one in enumerate(kept):
            same = by_text.get(normalise(one.text))
            if same is not None:
                yield _proposal(one, kind=same.kind)
                continue
            target = targets.get(place)
            if target is None:
                yield _proposal(one)
            elif latest[target] == place:
                yield _proposal(one, revises=entries[target])
            elif float(vectors[place] @ vectors[latest[target]]) < SAME_RULE_COSINE:
                yield _proposal(one)
            # else: said again, later and otherwise, in this very window; the later word stands.


def _gather(evidence: Sequence[Evidence], entries: Sequence[ShownEntry]) -> list[_Found]:
    """The evidence's different sentences in order of first appearance, within the limits."""
    shown = {_same(entry.text): normalise(entry.text) for entry in entries}
    found: dict[str, _Found] = {}
    for piece in evidence:
        for text in _sentences(piece.content):
            key = _same(text)
            entry_text = shown.get(key)
            if entry_text is not None and entry_text != normalise(text):
                # The entry in other punctuation or case. Its own spelling, if that is in the
                # source too, can be noted as seen again; otherwise there is nothing to say.
                if entry_text not in piece.content:
                    continue
                text = entry_text
            found.setdefault(key, _Found(text)).seen_in(piece.evidence_id)
    if len(found) <= SENTENCES_MAX:
        return list(found.values())
    allowed = set(_most_promising([one.text for one in found.values()], SENTENCES_MAX))
    return [one for one in found.values() if one.text in allowed]


def _sentences(content: str) -> list[str]:
    """A source's different sentences that can be entries, within the limit."""
    texts = dict.fromkeys(sentence.text for sentence in split_sentences(content))
    return [
        text
        for text in _most_promising(list(texts), SENTENCES_PER_SOURCE_MAX)
        if not _UNSTORABLE.search(text) and find_secret(text) is None
    ]


def _most_promising(texts: Sequence[str], most: int) -> Sequence[str]:
    """At most `most` of the texts, in order: those with cue words first, then the earliest."""
    if len(texts) <= most:
        return texts
    places = sorted(range(len(texts)), key=lambda place: not may_be_durable(texts[place]))
    return [texts[place] for place in sorted(places[:most])]


def _same(text: str) -> str:
    """Equal for texts that differ only in case, width, spacing or the punctuation at the end."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(".。!！;；,，… ") or text


def _targets(
    kept: Sequence[_Found],
    vectors: Vectors,
    entries: Sequence[ShownEntry],
    shown: Vectors,
    by_text: Mapping[str, ShownEntry],
) -> dict[int, int]:
    """By place of a sentence, the place of the entry it is a newer version of."""
    if not entries:
        return {}
    cosines = vectors @ shown.T
    targets = {}
    for place, one in enumerate(kept):
        row: NDArray[np.float32] = cosines[place]
        best = int(row.argmax())
        others = np.delete(row, best)
        clear = not len(others) or float(row[best] - others.max()) >= RUNNER_UP_MARGIN
        needed = CHANGED_RULE_COSINE if changes_something(one.text) else SAME_RULE_COSINE
        if clear and float(row[best]) >= needed and normalise(one.text) not in by_text:
            targets[place] = best
    return targets


def _proposal(
    one: _Found, *, kind: str | None = None, revises: ShownEntry | None = None
) -> Proposal:
    label = label_of(one.text)
    cue = label[1] if label else cue_of(one.kind, one.text)
    why = f"{one.kind} cue {cue!r}" if cue else f"{one.kind} by its meaning"
    reason = f"extracted by builtin: {why}, chance {one.chance:.2f}"
    return Proposal(
        intent="revise" if revises else "add",
        kind=kind or one.kind,
        text=one.text,
        evidence_ids=tuple(one.evidence_ids),
        entry_id=revises.entry_id if revises else None,
        reason=reason[: limits.REASON_MAX_CHARS],
    )
