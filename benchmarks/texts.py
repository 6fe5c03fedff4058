"""Merged groups on embeddings of texts: `python -m benchmarks texts [--write]`.

Tables have 100 leading singular vectors, and rows of length one. There are N or 4 N pairs, nine of ten
answers are right, and this accuracy is given. Pairs are uniform, or near: a row and one of its 20 nearest
neighbours. Two tables are made of the standard library. The run takes a quarter of an hour on one quiet core.
"""

import time
from collections.abc import Iterator
from functools import partial
from itertools import product

import click
import numpy as np
import sources
from checkout import SHARED
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from suite import fit_any
from tables import Table, fail, show

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.structure import MANY_CLASSES
from sweep_clustering.pipeline.fit.counts import Fit, choose_clusters, open_counts, share_allowed

TEXTS = SHARED / "data" / "texts"
NAMES = ("tweet", "bbc")
CODE_TABLES = {"docstrings": sources.docstrings, "functions": sources.functions}
ACCURACY = 0.9
NEIGHBOURS = 20
SEED = 7

COLUMNS = ("table", "N", "K", "pairs", "k-means", "K told", "seconds", "K not told", "its K", "seconds")
RESULTS = Table("texts", COLUMNS)
TABLES = (RESULTS,)

Row = tuple[object, ...]
Data = tuple[NDArray[np.float64], NDArray[np.int64]]


def read(name: str) -> Data:
    """Return rows and classes of a table."""
    if name in CODE_TABLES:
        return CODE_TABLES[name]()
    with np.load(TEXTS / f"{name}.npz") as data:
        return data["X"].astype(np.float64), data["y"].astype(np.int64)


def draw_layers(X: NDArray[np.float64], labels: NDArray[np.int64], design: str, m: int) -> list[Layer]:
    """Return answers about pairs of a design."""
    rng = np.random.default_rng(SEED)
    first = rng.integers(len(X), size=m)
    if design == "near":
        neighbours = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(X).kneighbors(X, return_distance=False)
        second = neighbours[first, 1 + rng.integers(NEIGHBOURS, size=m)]
    else:
        second = (first + 1 + rng.integers(len(X) - 1, size=m)) % len(X)
    must = (labels[first] == labels[second]) == (rng.random(m) < ACCURACY)
    pairs = np.stack([first, second], axis=1)
    return [Layer(MUST, pairs[must], accuracy=ACCURACY), Layer(CANNOT, pairs[~must], accuracy=ACCURACY)]


def rows() -> Iterator[Row]:
    """Fit each table with each set of pairs, with K and without."""
    for name in (*NAMES, *CODE_TABLES):
        X, labels = read(name)
        plain = score_k_means(X, labels)
        for design, factor in product(("uniform", "near"), (1, 4)):
            layers = draw_layers(X, labels, design, factor * len(X))
            pairs = f"{'' if factor == 1 else f'{factor} '}N {design}"
            n_classes = int(labels.max()) + 1
            scores = score_fits(X, labels, layers, has_open_k=n_classes > MANY_CLASSES)
            yield (name, len(X), n_classes, pairs, plain, *scores)


def score_k_means(X: NDArray[np.float64], labels: NDArray[np.int64]) -> str:
    """Return the score of k-means with K."""
    plain = KMeans(int(labels.max()) + 1, n_init=10, random_state=0).fit(X).labels_
    return f"{adjusted_rand(labels, plain.astype(np.int64)):.3f}"


def score_fits(
    X: NDArray[np.float64], labels: NDArray[np.int64], layers: list[Layer], *, has_open_k: bool
) -> Row:
    """Return the score of a fit with K and its seconds, and of one without K, if that is to be measured."""
    fit_with = partial(fit_any, X, layers)
    start_time = time.process_time()
    result = fit_with(int(labels.max()) + 1)
    seconds = time.process_time() - start_time
    open_scores = score_without_k(X, labels, layers, fit_with) if has_open_k else ("", "", "")
    return (f"{adjusted_rand(labels, result.best.labels):.3f}", f"{seconds:.0f}", *open_scores)


def score_without_k(
    X: NDArray[np.float64], labels: NDArray[np.int64], layers: list[Layer], fit_with: Fit
) -> Row:
    """Score a fit without K, with its K and its seconds. If there are few classes, it takes minutes."""
    start_time = time.process_time()
    counts, cut, _ = open_counts(X, layers, covariance="any", seed=0, run=map)
    max_share = share_allowed(X, layers, seed=0)
    candidate = choose_clusters(counts, fit_with, cut, max_share=max_share).chosen
    seconds = time.process_time() - start_time
    return (
        f"{adjusted_rand(labels, candidate.result.best.labels):.3f}",
        candidate.n_clusters,
        f"{seconds:.0f}",
    )


@click.command()
@click.option("--write", is_flag=True, help="Put the table into the documents.")
def main(write: bool) -> None:
    """Measure on the tables of a folder."""
    if not TEXTS.is_dir():
        fail(f"{TEXTS}: found no folder, expected tables of texts")
    show({RESULTS.name: RESULTS.markdown(rows())}, write=write)
