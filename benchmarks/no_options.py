"""A fit without options on the clustering suite, and its alarms: `python -m benchmarks no_options [--write]`.

The sets of `suite` keep their units. K is given and the accuracy is not, and there are as many pairs as
samples. Good fits should raise no alarm. Fits to answers without information should raise one. Such answers
are random, or they are right but count rows from 1 where the fit counts from 0. The run takes ten minutes.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from suite import SUITE, best_published, draw_layers
from tables import Table, show

from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import choose_model, settings_of
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.sweeps.data.reading import scale

# Probability that an answer is right. Answers "of the next row" are right, but one row off.
ANSWERS: dict[str, float] = {"0.8": 0.8, "0.9": 0.9, "1": 1.0, "at random": 0.5, "of the next row": 1.0}
NEXT = "of the next row"
GOOD = 0.9
SETTINGS = settings_of({})

TABLE = Table(
    "no_options",
    ("answers right", "sets", "ARI", "good fits", "of them with an alarm", "others", "of them with one"),
)
TABLES = (TABLE,)


@dataclass(frozen=True)
class Row:
    """ARI and alarms of the fit to one set."""

    name: str
    answers: str
    ari: float
    alarms: tuple[str, ...]
    choice: str


def read(folder: Path, name: str) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Return features and classes in random order, without noise points."""
    X = np.loadtxt(folder / f"{name}.data.gz", ndmin=2)
    labels = np.loadtxt(folder / f"{name}.labels0.gz", dtype=int)
    order = np.random.default_rng(len(X)).permutation(np.flatnonzero(labels > 0))
    return X[order], (labels[order] - 1).astype(np.int16)


def measure_set(task: tuple[Path, str, str]) -> Row:
    """Fit one set, and score the fit."""
    folder, name, answers = task
    X, truth = read(folder, name)
    layers = [replace(layer, accuracy=None) for layer in draw_layers(truth, len(X), ANSWERS[answers])]
    if answers == NEXT:
        layers = [replace(layer, pairs=(layer.pairs + 1) % len(X)) for layer in layers]
    model, covariance, scaling = choose_model(None, None, None, SETTINGS, has_links=True)
    result = fit(
        scale(X, scaling),
        [Layer(layer.kind, layer.pairs, None, None, None, 0) for layer in layers],
        n_clusters=int(truth.max()) + 1,
        model=model,
        covariance=covariance,
        restarts=10,
        settings=SETTINGS,
        seed=0,
    )
    return Row(name, answers, adjusted_rand(truth, result.best.labels), result.alarms, result.choice)


def rows(results: list[Row]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each kind of answers."""
    for answers in ANSWERS:
        part = [row for row in results if row.answers == answers]
        good, poor = [[row for row in part if (row.ari >= GOOD) == is_good] for is_good in (True, False)]
        counts = [(len(group), sum(bool(row.alarms) for row in group)) for group in (good, poor)]
        yield answers, len(part), f"{np.mean([row.ari for row in part]):.3f}", *counts[0], *counts[1]


@click.command()
@click.option("--suite", type=click.Path(path_type=Path), default=SUITE, help="Folder of the sets.")
@click.option("--write", is_flag=True, help="Put the table into the documents.")
def main(suite: Path, write: bool) -> None:
    """Measure on the sets of a folder."""
    results = []
    with ProcessPoolExecutor(2) as pool:
        for row in pool.map(measure_set, product([suite], best_published(suite), ANSWERS)):
            results.append(row)
            alarms = "; ".join(text.partition(":")[0][:60] for text in row.alarms)
            click.echo(
                f"{row.name:20} {row.answers:15} {row.ari:6.3f}  {row.choice[:60]}  {alarms}", err=True
            )
    show({TABLE.name: TABLE.markdown(rows(results))}, write=write)
