"""How well the builtin provider tells what is worth remembering, on sentences it never saw.

    python -m benchmarks.builtin_quality [FILE.tsv …]   # default: both held-out sets

Reports precision, recall and F1 at the shipped threshold, overall, by language and by origin, and
how often a kept durable sentence got the labelled kind; and, to tell an easy set from a good
classifier, the same figures for the plainest recipe: logistic regression on the embedding alone,
trained on 120 seeds (median of five draws). Sentences are never printed: the files stay held out
for whoever works on the classifier.
"""

import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.train_builtin import Labelled, Quality, quality, read_labelled, read_seeds
from pc_store.llm.classifier import durable_chances, likely_kinds, shipped_weights
from pc_store.llm.embeddings import PackagedEncoder, Vectors

HELD_OUT = [Path(__file__).parent / name for name in ("heldout.tsv", "heldout2.tsv")]
PLAIN_SEEDS = 120


def measure(labelled: Sequence[Labelled]) -> dict[str, Quality]:
    """Quality at the shipped threshold, by `all`, `lang …` and `origin …`."""
    weights = shipped_weights()
    sentences = [one.sentence for one in labelled]
    chances = durable_chances(weights, sentences, PackagedEncoder().embed(sentences))
    kept = chances >= weights.threshold
    wanted = np.array([one.durable for one in labelled])
    groups = {"all": np.ones(len(labelled), dtype=bool)}
    for lang in sorted({one.lang for one in labelled}):
        groups[f"lang {lang}"] = np.array([one.lang == lang for one in labelled])
    for origin in sorted({one.group for one in labelled}):
        groups[f"origin {origin}"] = np.array([one.group == origin for one in labelled])
    return {name: quality(wanted[among], kept[among]) for name, among in groups.items()}


def kinds_right(labelled: Sequence[Labelled]) -> float:
    """Of the sentences with a labelled kind, the share that gets that kind."""
    durable = [one for one in labelled if one.kind]
    sentences = [one.sentence for one in durable]
    kinds = likely_kinds(shipped_weights(), sentences, PackagedEncoder().embed(sentences))
    right = [kind == one.kind for kind, one in zip(kinds, durable, strict=True)]
    return sum(right) / max(len(right), 1)


def plain_recipe(labelled: Sequence[Labelled]) -> str:
    """Median precision, recall and F1 of the plainest recipe, as text."""
    encoder = PackagedEncoder()
    vectors = encoder.embed([one.sentence for one in labelled])
    wanted = np.array([one.durable for one in labelled])
    drawn: list[Quality] = []
    for seed in range(5):
        few = _balanced(read_seeds(), random.Random(seed))
        weights = _logistic(
            encoder.embed([one.sentence for one in few]), np.array([one.durable for one in few])
        )
        drawn.append(quality(wanted, vectors @ weights[:-1] + weights[-1] > 0))
    middle = [
        statistics.median(getattr(one, name) for one in drawn)
        for name in ("precision", "recall", "f1")
    ]
    return "       P={:.3f} R={:.3f} F1={:.3f}".format(*middle)


def _balanced(seeds: Sequence[Labelled], draw: random.Random) -> list[Labelled]:
    few: list[Labelled] = []
    for lang in ("en", "zh"):
        for durable in (True, False):
            among = [one for one in seeds if (one.lang, one.durable) == (lang, durable)]
            few += draw.sample(among, PLAIN_SEEDS // 4)
    return few


def _logistic(vectors: Vectors, durable: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Weights and, last, the bias; gradient descent with a little L2."""
    inputs = np.hstack([vectors, np.ones((len(vectors), 1))])
    weights = np.zeros(inputs.shape[1])
    for _ in range(3_000):
        chances = 1 / (1 + np.exp(-inputs @ weights))
        weights -= 2 * (inputs.T @ (chances - durable) / len(inputs) + 0.001 * weights)
    return weights


def main(arguments: Sequence[str]) -> int:
    """Print the report; exit 1 when there is no file to read."""
    for path in [Path(name) for name in arguments] or HELD_OUT:
        if not path.is_file():
            print(f"{path} does not exist")
            return 1
        labelled = read_labelled(path)
        print(f"== {path.name}")
        for name, figures in measure(labelled).items():
            print(f"{name:28} {figures}")
        print(f"{'kind as labelled':28} {kinds_right(labelled):.3f}")
        print(f"{'plain recipe, 120 seeds':28} {plain_recipe(labelled)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
