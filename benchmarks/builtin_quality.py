"""How well the builtin provider tells what is worth remembering, on sentences it never saw.

    python -m benchmarks.builtin_quality [FILE.tsv]     # default: benchmarks/heldout.tsv

Reports precision, recall and F1 at the shipped threshold, overall, by language and by origin, and
how often a kept durable sentence got the labelled kind. Sentences are never printed: the file
stays held out for whoever works on the classifier.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.train_builtin import Labelled, Quality, quality, read_labelled
from pc_store.llm.classifier import durable_chances, likely_kinds, shipped_weights
from pc_store.llm.embeddings import PackagedEncoder

HELD_OUT = Path(__file__).parent / "heldout.tsv"


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


def main(arguments: Sequence[str]) -> int:
    """Print the report; exit 1 when there is no file to read."""
    path = Path(arguments[0]) if arguments else HELD_OUT
    if not path.is_file():
        print(f"{path} does not exist")
        return 1
    labelled = read_labelled(path)
    for name, figures in measure(labelled).items():
        print(f"{name:28} {figures}")
    print(f"{'kind as labelled':28} {kinds_right(labelled):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
