"""Train the builtin provider's classifier from `benchmarks/seeds/*.tsv` and write its weights.

    python -m benchmarks.train_builtin           # write pc_store/llm/builtin_weights.json
    python -m benchmarks.train_builtin --check   # exit 1 unless the shipped weights judge alike
    python -m benchmarks.train_builtin --cross   # leaving whole styles out, nothing written

The seeds are sentences written for this purpose. No held-out sentence is among them, and this
script does not read the held-out file.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pc_store.domain.proposal import KINDS
from pc_store.llm.classifier import (
    WEIGHTS_FILE,
    Matrix,
    Weights,
    durable_chances,
    features,
    likely_kinds,
    shipped_weights,
)
from pc_store.llm.embeddings import PackagedEncoder, Vectors

VERSION = "2"
THRESHOLD = 0.45
"""Where precision and recall are about equal when whole styles are left out."""

UNITS = 48
NETWORKS = 2
"""Networks from different starts, averaged: written as one of `UNITS * NETWORKS` units."""

EPOCHS = 14
BATCH = 64
RATE = 3e-3
DECAY = 1e-3
DROPPED = 0.4
SMOOTHING = 0.1
"""Labels are taken as this share unsure: seeds are short and clear, logs are neither."""

KIND_SHARE = 0.5
"""How much a wrong kind costs beside a wrong judgement."""

FOLDS = 10
MEAN_TOLERANCE = 0.02
FLIP_TOLERANCE = 0.01
"""A retrain on another CPU differs in the last bits, which the many steps of training amplify: the
mean difference of the seeds' chances, and the share of them judged otherwise, stay below these.
"""

_SEEDS = Path(__file__).parent / "seeds"
_WEIGHTS = Path(__file__).parent.parent / "pc_store" / "llm" / WEIGHTS_FILE


@dataclass(frozen=True)
class Labelled:
    """A sentence and what a person said of it. `group` is a style or an origin."""

    durable: bool
    lang: str
    group: str
    kind: str
    sentence: str


def read_labelled(path: Path) -> list[Labelled]:
    """Read a TSV with a header and the columns label, lang, style or origin, kind, sentence."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [Labelled(row[0] == "durable", row[1], row[2], row[3], row[4]) for row in rows if row]


def read_seeds() -> list[Labelled]:
    """All seeds, in the order of file names and lines."""
    return [seed for path in sorted(_SEEDS.glob("*.tsv")) for seed in read_labelled(path)]


def train(seeds: Sequence[Labelled], vectors: Vectors) -> Weights:
    """Networks with one hidden layer, trained by Adam from fixed starts; deterministic."""
    inputs = features([seed.sentence for seed in seeds], vectors)
    wanted = np.zeros((len(seeds), 1 + len(KINDS)), dtype=np.float32)
    for row, seed in enumerate(seeds):
        wanted[row, 0] = 1 - SMOOTHING / 2 if seed.durable else SMOOTHING / 2
        if seed.kind:
            wanted[row, 1 + KINDS.index(seed.kind)] = 1
    layers = [_fit(inputs, wanted, start) for start in range(NETWORKS)]
    output = np.vstack([layer[2] for layer in layers] + [sum(layer[3] for layer in layers)])
    hidden = np.hstack([np.vstack([layer[0], layer[1]]) for layer in layers])
    return Weights(
        version=VERSION,
        profile=PackagedEncoder.profile,
        threshold=THRESHOLD,
        hidden=_as_stored(hidden.astype(np.float32)),
        output=_as_stored(output.astype(np.float32) / NETWORKS),
    )


def _as_stored(matrix: NDArray[np.floating]) -> Matrix:
    return matrix.astype(np.float16).astype(np.float32)


def _fit(inputs: Matrix, wanted: Matrix, start: int) -> list[Matrix]:
    """Hidden weights and bias, output weights and bias."""
    chance = np.random.RandomState(start)
    rows, dims = inputs.shape
    outputs = wanted.shape[1]
    layers = [
        chance.randn(dims, UNITS) / np.sqrt(dims),
        np.zeros((1, UNITS)),
        chance.randn(UNITS, outputs) / np.sqrt(UNITS),
        np.zeros((1, outputs)),
    ]
    layers = [layer.astype(np.float32) for layer in layers]
    means = [np.zeros_like(layer) for layer in layers]
    squares = [np.zeros_like(layer) for layer in layers]
    steps = EPOCHS * -(-rows // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = chance.permutation(rows)
        for first in range(0, rows, BATCH):
            step += 1
            batch = order[first : first + BATCH]
            kept = chance.rand(len(batch), UNITS) > DROPPED
            slopes = _slopes(layers, inputs[batch], wanted[batch], kept)
            for place, slope in enumerate(slopes):
                means[place] = 0.9 * means[place] + 0.1 * slope
                squares[place] = 0.99 * squares[place] + 0.01 * slope**2
                size = np.sqrt(squares[place] / (1 - 0.99**step)) + 1e-8
                rate = RATE * (1 - step / steps) / (1 - 0.9**step)
                layers[place] = layers[place] - rate * means[place] / size
    return layers


def _slopes(
    layers: Sequence[Matrix], inputs: Matrix, wanted: Matrix, kept: NDArray[np.bool_]
) -> list[Matrix]:
    """The loss's slope in each layer; `kept` are the hidden units not dropped this time."""
    raw = inputs @ layers[0] + layers[1]
    passed = ((raw > 0) * kept / (1 - DROPPED)).astype(np.float32)
    units = raw * passed
    found = units @ layers[2] + layers[3]
    kinds = np.exp(found[:, 1:] - found[:, 1:].max(axis=1, keepdims=True))
    kinds /= kinds.sum(axis=1, keepdims=True)
    error = np.empty_like(found)
    error[:, 0] = 1 / (1 + np.exp(-found[:, 0])) - wanted[:, 0]
    has_kind = wanted[:, 1:].sum(axis=1, keepdims=True)
    error[:, 1:] = KIND_SHARE * has_kind * (kinds - wanted[:, 1:])
    error /= len(inputs)
    back = (error @ layers[2].T) * passed
    return [
        inputs.T @ back + DECAY * layers[0],
        back.sum(axis=0, keepdims=True),
        units.T @ error + DECAY * layers[2],
        error.sum(axis=0, keepdims=True),
    ]


@dataclass(frozen=True)
class Quality:
    """How judgements compare with the labels."""

    sentences: int
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.precision * self.recall / max(self.precision + self.recall, 1e-9)

    def __str__(self) -> str:
        return f"n={self.sentences} P={self.precision:.3f} R={self.recall:.3f} F1={self.f1:.3f}"


def quality(wanted: NDArray[np.bool_], kept: NDArray[np.bool_]) -> Quality:
    """Precision and recall of `kept`; 0 where nothing was kept or nothing wanted."""
    right = float((wanted & kept).sum())
    return Quality(len(wanted), right / max(kept.sum(), 1), right / max(wanted.sum(), 1))


def cross_validate(
    seeds: Sequence[Labelled], vectors: Vectors
) -> tuple[NDArray[np.float64], list[str]]:
    """Each seed's chance and kind under a classifier that saw no seed of its style.

    Styles are dealt to the folds in alphabetical order, so a fold leaves several out at once.
    """
    styles = sorted({seed.group for seed in seeds})
    fold = np.array([styles.index(seed.group) % FOLDS for seed in seeds])
    chances = np.empty(len(seeds))
    kinds = [""] * len(seeds)
    for number in range(FOLDS):
        inside = [seed for seed, at in zip(seeds, fold, strict=True) if at != number]
        places = np.flatnonzero(fold == number).tolist()
        outside = [seeds[place].sentence for place in places]
        weights = train(inside, vectors[fold != number])
        chances[places] = durable_chances(weights, outside, vectors[places])
        for place, kind in zip(
            places, likely_kinds(weights, outside, vectors[places]), strict=True
        ):
            kinds[place] = kind
    return chances, kinds


def _print_cross(seeds: Sequence[Labelled], vectors: Vectors) -> None:
    chances, kinds = cross_validate(seeds, vectors)
    wanted = np.array([seed.durable for seed in seeds])
    for name in ("lang", "group"):
        for value in sorted({getattr(seed, name) for seed in seeds}):
            among = np.array([getattr(seed, name) == value for seed in seeds])
            print(f"{name} {value}: {quality(wanted[among], chances[among] >= THRESHOLD)}")
    for threshold in (0.35, 0.4, 0.45, 0.5, 0.55):
        print(f"threshold {threshold}: {quality(wanted, chances >= threshold)}")
    right = [kind == seed.kind for kind, seed in zip(kinds, seeds, strict=True) if seed.kind]
    print(f"kind as labelled: {sum(right) / max(len(right), 1):.3f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is returned."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--cross", action="store_true", help="cross-validate, write nothing")
    options = parser.parse_args(arguments)

    seeds = read_seeds()
    encoder = PackagedEncoder()
    vectors = encoder.embed([seed.sentence for seed in seeds])
    if options.cross:
        _print_cross(seeds, vectors)
        return 0
    weights = train(seeds, vectors)
    if not options.check:
        _WEIGHTS.write_text(weights.as_json(), "utf-8")
        print(f"trained on {len(seeds)} seeds, wrote {_WEIGHTS}")
        return 0
    shipped = shipped_weights()
    same_labels = (shipped.version, shipped.profile, shipped.threshold) == (
        weights.version,
        weights.profile,
        weights.threshold,
    )
    if not same_labels or shipped.hidden.shape != weights.hidden.shape:
        print("the shipped weights are of another version or shape")
        return 1
    sentences = [seed.sentence for seed in seeds]
    old = durable_chances(shipped, sentences, vectors)
    new = durable_chances(weights, sentences, vectors)
    mean = float(np.abs(old - new).mean())
    flips = float(((old >= THRESHOLD) != (new >= THRESHOLD)).mean())
    print(f"chances differ by {mean:.5f} in the mean, {flips:.4f} of the seeds judged otherwise")
    return 0 if mean <= MEAN_TOLERANCE and flips <= FLIP_TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
