"""Train the builtin provider's classifier from `benchmarks/seeds/*.tsv` and write its weights.

    python -m benchmarks.train_builtin           # write pc_store/llm/builtin_weights.json
    python -m benchmarks.train_builtin --check   # exit 1 unless the shipped weights equal a retrain
    python -m benchmarks.train_builtin --cross   # cross-validation over the seeds, nothing written

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
    Weights,
    durable_chances,
    features,
    shipped_weights,
)
from pc_store.llm.embeddings import PackagedEncoder, Vectors

VERSION = "1"
THRESHOLD = 0.5
RIDGE = 0.5
"""Penalty on the squared weights, by ten-fold cross-validation over the seeds (0.15 to 1 tried)."""

FOLDS = 10
WEIGHT_TOLERANCE = 2e-3
"""A retrain on another CPU differs in the last bits of float32 embeddings, not by more."""

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
    """Ridge-penalised logistic regression by Newton's method; deterministic."""
    design = features([seed.sentence for seed in seeds], vectors)
    fitted = _fit(design, np.array([seed.durable for seed in seeds], dtype=float))
    durable = np.array([bool(seed.kind) for seed in seeds])
    of_kind = np.array([[seed.kind == kind for seed in seeds] for kind in KINDS], dtype=float)
    kinds = [_fit(design[durable], wanted[durable]) for wanted in of_kind]
    dims = vectors.shape[1]
    return Weights(
        version=VERSION,
        profile=PackagedEncoder.profile,
        threshold=THRESHOLD,
        embedding=tuple(fitted[:dims].tolist()),
        cues=tuple(fitted[dims:-1].tolist()),
        bias=float(fitted[-1]),
        kinds=tuple(tuple(one.tolist()) for one in kinds),
    )


def _fit(design: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    inputs = np.hstack([design, np.ones((len(design), 1))])
    penalty = np.full(inputs.shape[1], RIDGE)
    penalty[-1] = 1e-6
    weights = np.zeros(inputs.shape[1])
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-inputs @ weights))
        slope = inputs.T @ (chance - wanted) + penalty * weights
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(np.round(weights, 4), dtype=np.float64)


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


def cross_validate(seeds: Sequence[Labelled], vectors: Vectors) -> NDArray[np.float64]:
    """Each seed's chance under a classifier trained on the other nine tenths of the seeds."""
    fold = np.empty(len(seeds), dtype=int)
    fold[np.random.RandomState(0).permutation(len(seeds))] = np.arange(len(seeds)) % FOLDS
    chances = np.empty(len(seeds))
    for number in range(FOLDS):
        inside = [seed for seed, at in zip(seeds, fold, strict=True) if at != number]
        outside = [seed.sentence for seed, at in zip(seeds, fold, strict=True) if at == number]
        weights = train(inside, vectors[fold != number])
        chances[fold == number] = durable_chances(weights, outside, vectors[fold == number])
    return chances


def _print_cross(seeds: Sequence[Labelled], vectors: Vectors) -> None:
    chances = cross_validate(seeds, vectors)
    wanted = np.array([seed.durable for seed in seeds])
    for name in ("lang", "group"):
        for value in sorted({getattr(seed, name) for seed in seeds}):
            among = np.array([getattr(seed, name) == value for seed in seeds])
            right = (wanted == (chances >= THRESHOLD))[among].mean()
            print(f"{name} {value}: {among.sum()} seeds, {right:.3f} judged as labelled")
    for threshold in (0.3, 0.4, 0.5, 0.6, 0.7):
        print(f"threshold {threshold}: {quality(wanted, chances >= threshold)}")


def _flat(weights: Weights) -> NDArray[np.float64]:
    kinds = [value for kind in weights.kinds for value in kind]
    return np.array([*weights.embedding, *weights.cues, weights.bias, *kinds])


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
    old, new = _flat(shipped), _flat(weights)
    worst = float(np.abs(old - new).max()) if old.shape == new.shape else float("inf")
    print(f"largest difference of a weight: {worst:.5f}")
    return 0 if same_labels and worst <= WEIGHT_TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
