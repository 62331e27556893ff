"""Is a sentence worth remembering: logistic regression on its embedding and its cue words.

Belongs here: the features, the weights' format and the judgement. Training does not; see
`benchmarks/train_builtin.py`, which writes the weights and calls `features` for it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from pc_store.llm.cues import CUES, count_cues
from pc_store.llm.embeddings import Vectors

WEIGHTS_FILE = "builtin_weights.json"
CUE_SCALE = 0.5
"""A cue's value when present; more trusts the wording more and the embedding less."""


@dataclass(frozen=True)
class Weights:
    """A trained classifier, for vectors of one embedding profile."""

    version: str
    profile: str
    threshold: float
    embedding: tuple[float, ...]
    cues: tuple[float, ...]
    bias: float

    def as_json(self) -> str:
        """The text of a weights file: one member a line, so that a retrain can be compared."""
        members = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in vars(self).items()]
        return "{\n" + ",\n".join(members) + "\n}\n"


@cache
def shipped_weights() -> Weights:
    """The weights that come with the package."""
    members = json.loads((files("pc_store.llm") / WEIGHTS_FILE).read_text("utf-8"))
    members["embedding"] = tuple(members["embedding"])
    members["cues"] = tuple(members["cues"])
    return Weights(**members)


def features(sentences: Sequence[str], vectors: Vectors) -> NDArray[np.float64]:
    """The embedding, then one figure a cue: float64 (n, dims + cues)."""
    wording = np.zeros((len(sentences), len(CUES)))
    for row, sentence in enumerate(sentences):
        wording[row] = list(count_cues(sentence).values())
    return np.hstack([vectors.astype(np.float64), wording * CUE_SCALE])


def durable_chances(
    weights: Weights, sentences: Sequence[str], vectors: Vectors
) -> NDArray[np.float64]:
    """For each sentence the estimated chance, 0 to 1, that it is worth remembering."""
    score = features(sentences, vectors) @ np.array([*weights.embedding, *weights.cues])
    chances: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-(score + weights.bias)))
    return chances
