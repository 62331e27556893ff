"""Is a sentence worth remembering, and as what: logistic regression on embedding and cue words.

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

from pc_store.domain.proposal import KINDS
from pc_store.llm.cues import CUES, count_cues, label_of
from pc_store.llm.embeddings import Vectors

WEIGHTS_FILE = "builtin_weights.json"
CUE_SCALE = 0.7
"""A cue's value when present; more trusts the wording more and the embedding less."""


@dataclass(frozen=True)
class Weights:
    """Trained weights, for vectors of one embedding profile.

    `kinds` holds, for each of `KINDS` in that order, the weights of the embedding, of the cues,
    and a bias, of "this durable sentence is of this kind".
    """

    version: str
    profile: str
    threshold: float
    embedding: tuple[float, ...]
    cues: tuple[float, ...]
    bias: float
    kinds: tuple[tuple[float, ...], ...]

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
    members["kinds"] = tuple(tuple(one) for one in members["kinds"])
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


def likely_kinds(weights: Weights, sentences: Sequence[str], vectors: Vectors) -> list[str]:
    """For each sentence the kind its label declares, or else the likeliest of `KINDS`."""
    trained = np.array(weights.kinds)
    scores = features(sentences, vectors) @ trained[:, :-1].T + trained[:, -1]
    likeliest = [KINDS[place] for place in scores.argmax(axis=1).tolist()] if sentences else []
    labels = [label_of(sentence) for sentence in sentences]
    return [label[0] if label else kind for label, kind in zip(labels, likeliest, strict=True)]
