"""Is a sentence worth remembering, and as what: a small network on embedding and cue words.

Belongs here: the features, the weights' format and the judgement. Training does not; see
`benchmarks/train_builtin.py`, which writes the weights and calls `features` for it.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from pc_store.domain.proposal import KINDS
from pc_store.llm.cues import CUES, count_cues, label_of
from pc_store.llm.embeddings import Vectors

Matrix = NDArray[np.float32]

WEIGHTS_FILE = "builtin_weights.json"
EMBEDDING_SCALE = 12.0
"""Unit vectors of 512 figures are tiny beside cues of 0 or 1; this makes them equals."""

CUE_SCALE = 1.5
"""A cue's value when present; more trusts the wording more and the embedding less."""


@dataclass(frozen=True)
class Weights:
    """Trained weights, for vectors of one embedding profile.

    `hidden` has a row for each feature and, last, the bias; `output` a row for each hidden unit
    and, last, the bias. Its columns: worth remembering, then each of `KINDS` in that order.
    """

    version: str
    profile: str
    threshold: float
    hidden: Matrix
    output: Matrix

    def as_json(self) -> str:
        """The text of a weights file: one member a line, matrices as base64 of float16 rows."""
        members = [
            f"  {json.dumps(k)}: {json.dumps(_packed(v) if isinstance(v, np.ndarray) else v)}"
            for k, v in vars(self).items()
        ]
        return "{\n" + ",\n".join(members) + "\n}\n"


def _packed(matrix: Matrix) -> dict[str, object]:
    rows = matrix.astype("<f2").tobytes()
    return {"shape": list(matrix.shape), "rows": base64.b64encode(rows).decode("ascii")}


@cache
def shipped_weights() -> Weights:
    """The weights that come with the package."""
    members = json.loads((files("pc_store.llm") / WEIGHTS_FILE).read_text("utf-8"))
    for name in ("hidden", "output"):
        rows = np.frombuffer(base64.b64decode(members[name]["rows"]), dtype="<f2")
        members[name] = rows.reshape(members[name]["shape"]).astype(np.float32)
    return Weights(**members)


@lru_cache(maxsize=4_096)
def _wording(sentence: str) -> tuple[bool, ...]:
    """The cues' figures; remembered, for a kept sentence is asked about twice, for its kind too."""
    return tuple(count_cues(sentence).values())


def features(sentences: Sequence[str], vectors: Vectors) -> Matrix:
    """The embedding, then one figure a cue: float32 (n, dims + cues)."""
    wording = np.zeros((len(sentences), len(CUES)), dtype=np.float32)
    for row, sentence in enumerate(sentences):
        wording[row] = _wording(sentence)
    return np.hstack([vectors * np.float32(EMBEDDING_SCALE), wording * np.float32(CUE_SCALE)])


def scores(weights: Weights, inputs: Matrix) -> Matrix:
    """The network's figures for inputs of `features`: float32 (n, 1 + kinds), log odds first."""
    units = np.maximum(inputs @ weights.hidden[:-1] + weights.hidden[-1], 0)
    found: Matrix = units @ weights.output[:-1] + weights.output[-1]
    return found


def durable_chances(
    weights: Weights, sentences: Sequence[str], vectors: Vectors
) -> NDArray[np.float64]:
    """For each sentence the estimated chance, 0 to 1, that it is worth remembering."""
    odds = scores(weights, features(sentences, vectors))[:, 0].astype(np.float64)
    chances: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-odds))
    return chances


def likely_kinds(weights: Weights, sentences: Sequence[str], vectors: Vectors) -> list[str]:
    """For each sentence the kind its label declares, or else the likeliest of `KINDS`."""
    if not sentences:
        return []
    places = scores(weights, features(sentences, vectors))[:, 1:].argmax(axis=1).tolist()
    labels = [label_of(sentence) for sentence in sentences]
    return [
        label[0] if label else KINDS[place] for label, place in zip(labels, places, strict=True)
    ]
