"""Fits with and without the accuracy of answers: `python -m benchmarks unknown_accuracy [--write]`.

Answers are about all pairs of 5, 10 and 20 % of the rows in number, drawn from all pairs, and all of them are
right. Six tables have the pairs of the benchmark of PCCC, and the candidates of the choice were set on these.
The pairs of the other tables are drawn here. The run takes three minutes on one quiet core.
"""

from collections.abc import Iterator

import click
import numpy as np
from checkout import SHARED
from numpy.typing import NDArray
from suite import SUITE, fit_any, read
from tables import Table, fail, show

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.scores import adjusted_rand

PAIRS = SHARED / "data" / "pairs"
TUNED = ("bupa", "hayes-roth", "movement_libras", "saheart", "tae", "zoo")
NEW_NAMES = ("uci/glass", "uci/sonar", "uci/wine", "fcps/wingnut", "sipu/spiral")
SHARES = (5, 10, 20)
SEED = 7

RIGHT = Table("unknown_accuracy", ("table", "N", "K", *(f"{share} %" for share in SHARES)))
TABLES = (RIGHT,)

Values = NDArray[np.float64]
Numbers = NDArray[np.int64]


def rows_of(name: str, share: int) -> tuple[Values, Numbers, Numbers]:
    """Return features and classes, and pairs with a column that says if they are together."""
    if name in TUNED:
        with np.load(PAIRS / f"{name}.npz") as data:
            X, classes, pairs = data["X"].astype(float), data["y"], data[f"pairs_{share:02d}"]
        deviations = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)
        return X, np.unique(classes, return_inverse=True)[1], pairs.astype(np.int64)
    X, truth = read(SUITE, name)
    n_annotated, first, second = -(-len(X) * share // 100), *np.triu_indices(len(X), 1)
    places = np.random.default_rng(SEED + share).choice(
        len(first), n_annotated * (n_annotated - 1) // 2, replace=False
    )
    i, j = first[places], second[places]
    return X, truth.astype(np.int64), np.column_stack([i, j, truth[i] == truth[j]])


def score(X: Values, labels: Numbers, layers: list[Layer]) -> float:
    """Return the ARI of a fit without options but K."""
    result = fit_any(X, layers, int(labels.max()) + 1)
    return adjusted_rand(labels, result.best.labels)


def score_both(name: str, share: int) -> tuple[float, float]:
    """Return the ARI of the fit with the accuracy, and of the fit without it."""
    X, labels, table = rows_of(name, share)
    must, cannot = (table[table[:, 2] == kind, :2] for kind in (1, 0))
    with_accuracy, without_accuracy = (
        score(X, labels, [Layer(MUST, must, accuracy=p), Layer(CANNOT, cannot, accuracy=p)])
        for p in (1.0, None)
    )
    return with_accuracy, without_accuracy


def rows() -> Iterator[tuple[object, ...]]:
    """Measure each table, and the means of both halves."""
    for words, names in (("set on these", TUNED), ("not looked at", NEW_NAMES)):
        scores = np.empty((len(names), len(SHARES), 2))
        for place, name in enumerate(names):
            X, labels, _ = rows_of(name, SHARES[0])
            scores[place] = [score_both(name, share) for share in SHARES]
            yield name, len(X), int(labels.max()) + 1, *map(cell, scores[place])
        yield f"mean, {words}", "", "", *map(cell, scores.mean(axis=0))


def cell(scores: Values) -> str:
    """Return both scores as text."""
    return f"{scores[0]:.3f}, {scores[1]:.3f}"


@click.command()
@click.option("--write", is_flag=True, help="Put the table into the documents.")
def main(write: bool) -> None:
    """Measure on the tables of two folders."""
    if missing_folders := [path for path in (PAIRS, SUITE) if not path.is_dir()]:
        fail(f"{missing_folders[0]}: found no folder, expected tables with pairs")
    show({RIGHT.name: RIGHT.markdown(rows())}, write=write)
