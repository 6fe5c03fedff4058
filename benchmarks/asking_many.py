"""Questions about many classes: `python -m benchmarks asking_many [--write] [TABLE ...]`.

There are five batches of N / 10 questions each. Nine of ten answers are right, and this accuracy is given.
`query` without options asks each path of questions, which is compared with random near pairs. "tweet" are
texts. "drawn" has 77 classes of 40 drawn short texts, whose words come partly from a class and partly from
all. Each table takes four minutes on one thread.
"""

import time
import warnings
from collections.abc import Iterator

import click
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils.extmath import randomized_svd
from tables import Table, fail, show
from texts import TEXTS, Data, read

from sweep_clustering import AnnotatedClustering
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.sweeps.annotations.draw import MUST, answer_pairs, draw_near

ACCURACY = 0.9
BATCHES = 5
SEED = 0

# Sizes of the drawn texts.
WORDS = 1500
WORDS_OF_TOPIC = 60
WORDS_OF_CLASS = 20
TOPICS = 25
LENGTH = 10  # mean number of words of a text
SHARE = 0.29  # share of them that are words of its class
CLASSES = 77
ROWS = 40  # texts of a class
DIMS = 100  # singular vectors

COLUMNS = ("0", "N / 10", "N / 5", "3 N / 10", "2 N / 5", "N / 2", "seconds of a batch")
RESULTS = {
    name: Table(f"asking_many/{name}", (f"{name}, ARI after", *COLUMNS)) for name in ("tweet", "drawn")
}
TABLES = tuple(RESULTS.values())


def draw_texts(seed: int = 2) -> Data:
    """Draw short texts of classes that share words, as rows of length one along leading singular vectors."""
    rng = np.random.default_rng(seed)
    common = 1.0 / np.arange(1, WORDS + 1)
    special = 1.0 / np.arange(1, WORDS_OF_CLASS + 1)
    pools = [rng.choice(WORDS, WORDS_OF_TOPIC, replace=False) for _ in range(TOPICS)]
    labels = np.repeat(np.arange(CLASSES), ROWS)
    words = []
    for _ in range(CLASSES):
        pool = np.concatenate([pools[topic] for topic in rng.choice(TOPICS, 2, replace=False)])
        words.append(rng.choice(pool, WORDS_OF_CLASS, replace=False))
    counts = np.zeros((len(labels), WORDS))
    for row, label in enumerate(labels):
        length = max(4, rng.poisson(LENGTH))
        of_class = rng.choice(words[label], length, p=special / special.sum())
        any_word = rng.choice(WORDS, length, p=common / common.sum())
        np.add.at(counts[row], np.where(rng.random(length) < SHARE, of_class, any_word), 1.0)
    weights = TfidfTransformer(sublinear_tf=True).fit_transform(csr_matrix(counts))
    rows, values, _ = randomized_svd(weights, DIMS, random_state=0)
    X = rows * values
    order = rng.permutation(len(labels))
    return (X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))[order], labels[order]


def path(X: NDArray[np.float64], labels: NDArray[np.int64], pairs: str) -> Iterator[object]:
    """Score the fit before and after each batch; last, the longest time of a batch of questions."""
    rng, count, seconds = np.random.default_rng(SEED), len(X) // 2 // BATCHES, [0.0]
    estimator = AnnotatedClustering(int(labels.max()) + 1, accuracy=ACCURACY, random_state=SEED, n_jobs=1)
    estimator.fit(X)
    yield f"{adjusted_rand(labels, estimator.labels_.astype(np.int64)):.3f}"
    for _ in range(BATCHES):
        start_time = time.process_time()
        if pairs == "near":
            answers = draw_near(rng, labels, X, p=ACCURACY, m=count)
        else:
            answers = answer_pairs(rng, labels, estimator.query(count).positions, p=ACCURACY)
            seconds.append(time.process_time() - start_time)
        must = answers[:, 2] == MUST
        estimator.partial_fit(X, must_link=answers[must, :2], cannot_link=answers[~must, :2])
        yield f"{adjusted_rand(labels, estimator.labels_.astype(np.int64)):.3f}"
    yield f"{max(seconds):.0f}" if pairs == "asked" else ""


def rows(name: str) -> Iterator[tuple[object, ...]]:
    """Score the paths on a table."""
    X, labels = draw_texts() if name == "drawn" else read(name)
    for pairs in ("asked", "near"):
        row = (pairs, *path(X, labels, pairs))
        click.echo(f"{name}: {row}", err=True)
        yield row


@click.command()
@click.option("--write", is_flag=True, help="Put the tables into the documents.")
@click.argument("names", nargs=-1, type=click.Choice(list(RESULTS)))
def main(write: bool, names: tuple[str, ...]) -> None:
    """Measure on some tables, or on all."""
    if not TEXTS.is_dir():
        fail(f"{TEXTS}: found no folder, expected tables of texts")
    warnings.simplefilter("ignore")
    show({RESULTS[name].name: RESULTS[name].markdown(rows(name)) for name in names or RESULTS}, write=write)
