"""The number of the first row, as annotation files have it: `python -m benchmarks numbering [--write]`, three
minutes of CPU.

Every file names neither row 0 nor row N, so that its answers alone can decide. Half of the files count from 0
and half from 1. A file is read rightly, refused, or read wrongly.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tables import Table

from sweep_clustering.sweeps.annotations.numbering import verdict

ACCURACIES = (1.0, 0.9, 0.8, 0.7)
TABLE = Table(
    "numbering", ("rows", "answers", "table", *(f"accuracy {accuracy:g}" for accuracy in ACCURACIES))
)
TABLES = (TABLE,)

# Rows, answers, and files of each kind and accuracy.
SIZES = ((500, 300, 50), (30_000, 6_000, 4))

# Number of rows with which annotators compare all others, if pairs are anchored.
ANCHORS = 4

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Kind:
    """A kind of table, and of the pairs of its questions.

    Parameters
    ----------
    n_clusters, n_features : int
        Sizes of the mixture.
    distance : float
        Deviation of the centres, in units of that of a cluster; 0 if no feature shows the classes.
    order : str
        "random", "sorted" by classes, or "walk" if a row is near the one before it.
    is_anchored : bool
        True if pairs are with a few rows only.
    is_must : bool
        True if files have must-links alone.
    """

    n_clusters: int = 3
    n_features: int = 10
    distance: float = 2.0
    order: str = "random"
    is_anchored: bool = False
    is_must: bool = False

    def draw(self, rng: np.random.Generator, n_rows: int) -> tuple[Floats, Labels]:
        """Draw features and classes."""
        centers = rng.normal(size=(self.n_clusters, self.n_features)) * self.distance
        labels = rng.integers(self.n_clusters, size=n_rows)
        if self.order == "sorted":
            labels = np.sort(labels)
        X = centers[labels] + rng.normal(size=(n_rows, self.n_features))
        if self.order == "walk":
            X = np.cumsum(rng.normal(size=(n_rows, self.n_features)), axis=0)
            labels = (((X[:, None, :] - rng.choice(X, self.n_clusters)) ** 2).sum(axis=2)).argmin(axis=1)
        return X, labels

    def pairs(self, rng: np.random.Generator, n_rows: int, count: int) -> NDArray[np.int64]:
        """Draw pairs of different rows, without the first and the last one."""
        first, second = rng.integers(1, n_rows - 1, size=(2, count))
        if self.is_anchored:
            second = second[rng.integers(ANCHORS, size=count)]
        is_pair: NDArray[np.bool_] = first != second
        return np.column_stack([first, second])[is_pair]


KINDS = {
    "clusters that are apart": Kind(),
    "clusters that touch": Kind(distance=1.0),
    "clusters that overlap": Kind(distance=0.5),
    "ten clusters": Kind(n_clusters=10, distance=1.0),
    "two features": Kind(n_features=2),
    "40 features": Kind(n_features=40, distance=0.5),
    "must-links alone": Kind(is_must=True),
    "pairs with four rows": Kind(is_anchored=True),
    "sorted by classes": Kind(order="sorted"),
    "sorted, pairs with four rows": Kind(order="sorted", is_anchored=True),
    "each row near the one before": Kind(order="walk"),
    "no clusters": Kind(distance=0.0),
}


def outcome(kind: Kind, n_rows: int, count: int, accuracy: float, seed: int) -> int:
    """Return 0 if a file is read rightly, 1 if it is refused, and 2 if it is read wrongly."""
    rng = np.random.default_rng([seed, n_rows, count])
    X, labels = kind.draw(rng, n_rows)
    rows, first = kind.pairs(rng, n_rows, count), seed % 2
    is_right = rng.random(len(rows)) < accuracy
    is_must = (labels[rows[:, 0]] == labels[rows[:, 1]]) == is_right
    if kind.is_must:
        rows, is_must = rows[is_must], is_must[is_must]
    numbers = rows + first
    decided = verdict(X, numbers % n_rows, numbers - 1, is_must).first_row
    return 1 if decided is None else 0 if decided == first else 2


def rows() -> Iterator[tuple[object, ...]]:
    """Yield a row for each size and kind."""
    for n_rows, count, files in SIZES:
        for name, kind in KINDS.items():
            cells = []
            for accuracy in ACCURACIES:
                results = [outcome(kind, n_rows, count, accuracy, seed) for seed in range(files)]
                shares = 100 * np.bincount(results, minlength=3) / files
                cells.append(" / ".join(f"{share:.0f}" for share in shares))
            yield f"{n_rows:,}", f"{count:,}", name, *cells


def measure() -> dict[str, str]:
    """Measure the shares of files that are read rightly, refused, and read wrongly, in percent."""
    return {TABLE.name: TABLE.markdown(rows())}
