"""Chosen pairs and classes of any shape: `python -m benchmarks asking_any`, half an hour on one core.

Paths of questions are those of `asking`, by the strategy "overall". Sets of the clustering suite are
standardised, with p = 0.9 and three paths each, and stand beside COBRAS. The strategy was made on the first
seven, and the others were not looked at before. The budget is measured on the data sets of `asking`, with one
Gaussian a class and with classes of any shape, three paths each. The clustering suite must be beside the
checkout.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product

import asking
import numpy as np
from asking import (
    LONG_UNIFORM,
    SETS,
    SUITE_SETS,
    UNIFORM,
    Result,
    Task,
    budget_rows,
    fit_task,
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
SEVEN = SUITE_SETS[:7]
NEW_SETS = SUITE_SETS[7:]

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

COBRAS_TABLE = Table("asking_any/cobras", ("data", "ARI at N / 2", "N", "COBRAS at N / 2", "N"))
BUDGET = Table("asking_any/budget", ("classes", *asking.BUDGET.columns))
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
TABLES = (COBRAS_TABLE, BUDGET, VERTEBRAL, SHARE)


def beside_rows(results: dict[Task, Result]) -> Iterator[tuple[object, ...]]:
    """Yield means over paths for each set, and over the seven sets and the others."""
    by_set = {
        name: np.array(
            [
                [result.scores[share][1] for share in (0.5, 1.0)]
                for task, result in results.items()
                if task.name == name
            ]
        )
        for name in SUITE_SETS
    }
    for name, values in by_set.items():
        cobras = [f"{ari:.2f}" for ari in COBRAS.get(name, ())]
        yield name, *map(mean_error, values.T), *(cobras or ("", ""))
    for words, names in (("mean of the first seven", SEVEN), ("mean of the others", NEW_SETS)):
        means_of = np.mean([by_set[name].mean(axis=0) for name in names], axis=0)
        variances = [by_set[name].var(axis=0, ddof=1) / len(by_set[name]) for name in names]
        errors = np.sqrt(np.sum(variances, axis=0)) / len(names)
        cobras_means = np.mean([COBRAS[name] for name in names], axis=0) if set(names) <= set(COBRAS) else ()
        texts = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means_of, errors, strict=True)]
        yield words, *texts, *([f"{mean:.3f}" for mean in cobras_means] or ("", ""))


def vertebral_rows() -> Iterator[tuple[object, ...]]:
    """Yield which pairs are asked about vertebral at p = 0.9 and m = N, and how shapes fit them."""
    X, truth = instance("vertebral")
    nearest = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(X).kneighbors(X, return_distance=False)[:, 1:]
    impurity = (truth[nearest] != truth[:, None]).mean(axis=1)
    for strategy in (UNIFORM, "information", STRATEGY):
        rows, shapes = [], Counter[str]()
        for path in range(PATHS):
            task = Task("vertebral", 0.9, path, strategy)
            pairs, _ = pairs_of(task, X, truth, len(X))
            fits = [
                fit_task(X, truth, pairs, task._replace(covariance=shape))
                for shape in ("auto", "full", "any")
            ]
            shapes[fits[0].covariance] += 1
            nmis = [nmi(truth, result.best.labels) for result in fits]
            rows.append((len(np.unique(pairs[:, :2])) / len(X), impurity[pairs[:, :2]].mean(), *nmis))
        row_share, *means = np.mean(rows, axis=0)
        choices = ", ".join(f"{shape} {count}" for shape, count in shapes.most_common())
        yield strategy, f"{row_share:.0%}", *(f"{mean:.2f}" for mean in means), choices


def measure(workers: int = 1) -> dict[str, str]:
    """Return all tables."""
    suite = [
        Task(name, 0.9, path, STRATEGY, (0.5, 1.0), covariance="any")
        for path, name in product(range(PATHS), SUITE_SETS)
    ]
    by_task = run_all(suite, workers)
    new_results = [result for task, result in by_task.items() if task.name in NEW_SETS]
    budget = list[tuple[object, ...]]()
    for shape, words in SHAPES.items():
        tasks = [
            Task(name, p, path, strategy, LONG_UNIFORM if strategy == UNIFORM else SHARES, covariance=shape)
            for path, p, name, strategy in product(range(PATHS), ACCURACIES, SETS, (UNIFORM, STRATEGY))
        ]
        results = run_all(tasks, workers)
        rows = budget_rows(results, SETS, ACCURACIES, SHARES, STRATEGY)
        budget += [(words, *row) for row in rows]
    return {
        COBRAS_TABLE.name: COBRAS_TABLE.markdown(beside_rows(by_task)),
        BUDGET.name: BUDGET.markdown(budget),
        VERTEBRAL.name: VERTEBRAL.markdown(vertebral_rows()),
        SHARE.name: SHARE.markdown(
            (words, *cells[:3]) for words, _, *cells in asking.share_rows(new_results)
        ),
    }
