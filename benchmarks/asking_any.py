"""Chosen pairs and classes of any shape: `python -m benchmarks asking_any`, half an hour on one core.

Paths of questions as in `asking`, by the strategy "overall". Sets of the clustering suite, standardised,
p = 0.9, three paths each, beside COBRAS; the first seven are those that the strategy was made on, the others
were not looked at before. Then the budget on the data sets of `asking`, with one Gaussian a class and with
classes of any shape, three paths each. Without the suite beside the checkout it cannot run.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from asking import (
    LONG_UNIFORM,
    SETS,
    SUITE_SETS,
    UNIFORM,
    Found,
    Task,
    budget_rows,
    fitted,
    instance,
    pairs_of,
    run_all,
)
from sklearn.neighbors import NearestNeighbors
from tables import Table, mean_error

from sweep_clustering.kernels.scores import nmi

STRATEGY = "overall"
PATHS = 3
ACCURACIES = (0.8, 0.9)
SHARES = (0.5, 0.75, 1.0)
SHAPES = {"auto": "one Gaussian", "any": "any shape"}
NEIGHBOURS = 10
SEVEN, OTHERS = SUITE_SETS[:7], SUITE_SETS[7:]

# ARI after N / 2 and N questions at p = 0.9, from the code of its authors.
COBRAS = {
    "uci/wine": (0.54, 0.64),
    "uci/ecoli": (0.35, 0.22),
    "sipu/spiral": (0.65, 0.35),
    "uci/glass": (0.37, 0.44),
    "uci/ionosphere": (0.38, 0.46),
    "uci/sonar": (0.36, 0.45),
    "sipu/pathbased": (0.49, 0.66),
    "sipu/compound": (0.35, 0.28),
}

BESIDE = Table("asking_any/cobras", ("data", "ARI at N / 2", "N", "COBRAS at N / 2", "N"))
BUDGET = Table(
    "asking_any/budget",
    (
        "classes",
        "p",
        "questions chosen",
        "NMI",
        "uniform pairs of that NMI",
        "ratio",
        "ARI",
        "uniform pairs of that ARI",
        "ratio",
    ),
)
VERTEBRAL = Table(
    "asking_any/vertebral",
    (
        "pairs",
        "samples in them",
        "neighbours of another class",
        "NMI, shape chosen",
        "NMI, full",
        "NMI, classes of any shape",
        "shapes chosen",
    ),
)
SHARE = Table("asking_any/share", ("questions", "expected share right", "share right", "interval held it"))
TABLES = (BESIDE, BUDGET, VERTEBRAL, SHARE)


def beside_rows(found: dict[Task, Found]) -> Iterator[tuple[object, ...]]:
    """Means over paths for each set, and over the seven sets and the others."""
    by_set = {
        name: np.array(
            [
                [each.scores[share][1] for share in (0.5, 1.0)]
                for task, each in found.items()
                if task.name == name
            ]
        )
        for name in SUITE_SETS
    }
    for name, values in by_set.items():
        theirs = COBRAS.get(name)
        yield name, *map(mean_error, values.T), *([f"{each:.2f}" for each in theirs] if theirs else ("", ""))
    for words, names in (("mean of the first seven", SEVEN), ("mean of the others", OTHERS)):
        means_of = np.mean([by_set[name].mean(axis=0) for name in names], axis=0)
        variances = [by_set[name].var(axis=0, ddof=1) / len(by_set[name]) for name in names]
        errors = np.sqrt(np.sum(variances, axis=0)) / len(names)
        theirs = np.mean([COBRAS[name] for name in names], axis=0) if set(names) <= set(COBRAS) else ()
        ours = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means_of, errors, strict=True)]
        yield words, *ours, *([f"{each:.3f}" for each in theirs] or ("", ""))


def share_rows(found: Sequence[Found]) -> Iterator[tuple[object, ...]]:
    """What is claimed of the share of right labels, by number of questions."""
    every = np.array([belief for each in found for belief in each.beliefs])
    for low, high, words in ((0, 0.0, "none"), (0.01, 0.5, "up to N / 2"), (0.51, 1.0, "N / 2 to N")):
        _, mean, least, most, right = every[(every[:, 0] >= low) & (every[:, 0] <= high)].T
        held = ((least <= right) & (right <= most)).mean()
        yield words, f"{mean.mean():.3f}", f"{right.mean():.3f}", f"{held:.0%}"


def vertebral_rows() -> Iterator[tuple[object, ...]]:
    """Which pairs are asked of vertebral at p = 0.9, m = N, and what shapes make of them."""
    X, truth = instance("vertebral")
    near = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(X).kneighbors(X, return_distance=False)[:, 1:]
    mixed = (truth[near] != truth[:, None]).mean(axis=1)
    for strategy in (UNIFORM, "information", STRATEGY):
        rows, shapes = [], Counter[str]()
        for path in range(PATHS):
            task = Task("vertebral", 0.9, path, strategy)
            pairs, _ = pairs_of(task, X, truth, len(X))
            fits = [
                fitted(X, truth, pairs, task._replace(covariance=each)) for each in ("auto", "full", "any")
            ]
            shapes[fits[0].covariance] += 1
            nmis = [nmi(truth, each.best.labels) for each in fits]
            rows.append((len(np.unique(pairs[:, :2])) / len(X), mixed[pairs[:, :2]].mean(), *nmis))
        touched, *others = np.mean(rows, axis=0)
        chosen = ", ".join(f"{shape} {count}" for shape, count in shapes.most_common())
        yield strategy, f"{touched:.0%}", *(f"{each:.2f}" for each in others), chosen


def measure(workers: int = 1) -> dict[str, str]:
    """All tables."""
    suite = [
        Task(name, 0.9, path, STRATEGY, (0.5, 1.0), covariance="any")
        for path, name in product(range(PATHS), SUITE_SETS)
    ]
    beside = run_all(suite, workers)
    budget = list[tuple[object, ...]]()
    for shape, words in SHAPES.items():
        tasks = [
            Task(name, p, path, strategy, LONG_UNIFORM if strategy == UNIFORM else SHARES, covariance=shape)
            for path, p, name, strategy in product(range(PATHS), ACCURACIES, SETS, (UNIFORM, STRATEGY))
        ]
        found = run_all(tasks, workers)
        rows = budget_rows(found, SETS, ACCURACIES, SHARES, STRATEGY)
        budget += [(words, *row) for row in rows]
    return {
        BESIDE.name: BESIDE.markdown(beside_rows(beside)),
        BUDGET.name: BUDGET.markdown(budget),
        VERTEBRAL.name: VERTEBRAL.markdown(vertebral_rows()),
        SHARE.name: SHARE.markdown(
            share_rows([each for task, each in beside.items() if task.name in OTHERS])
        ),
    }
