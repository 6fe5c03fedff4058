"""How much the settings of the search gain: `python -m benchmarks quality`, five to ten minutes.

Every setting runs the same restarts on the same instances: mixtures of two, four and six clusters, and the
small real data sets if they are below ../shared/data/raw beside the checkout. The best known solution of an
instance is the best of all of them. A restart hits if it comes within 1e-6 nats of it. A second table
compares the best of three restarts of 50 generations.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from checkout import SHARED
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from tables import Table

from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.problem.problem import Problem, build_problem
from sweep_clustering.kernels.search.genetic import SearchSettings, run_restart, warm_up
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.data.builtin import find
from sweep_clustering.sweeps.data.reading import scale
from sweep_clustering.sweeps.inputs import draw_mixture

RAW = SHARED / "data" / "raw"
REAL = ("diabetes", "iris", "wine", "thyroid", "vertebral", "ecoli")
HIT = 1e-6  # nats below the best known objective
HARD = 0.8  # share of hits of the published search below which an instance is hard
SHORT = 1e-3  # nats

PUBLISHED = settings_of({"method": "published"})
STRONG = settings_of({"method": "strong"})
LABELS = replace(PUBLISHED, crossover="labels", mutation=0.2)
COMPONENTS = replace(LABELS, relocation="components")
SETTINGS = {
    "published": PUBLISHED,
    "patience 5": replace(PUBLISHED, patience=5),
    "mutation 0.2": replace(PUBLISHED, mutation=0.2),
    "relocation all": replace(PUBLISHED, relocation="all"),
    "labels, mutation 0.2": LABELS,
    "labels, mutation 0.2, all": replace(LABELS, relocation="all"),
    "labels, mutation 0.2, components": COMPONENTS,
    "all, patience 5": replace(LABELS, relocation="all", patience=5),
    "all, 30 generations, patience 5": replace(LABELS, relocation="all", patience=5, generations=30),
    "components, 30 generations, patience 5": replace(COMPONENTS, patience=5, generations=30),
    "published, 30 generations": replace(PUBLISHED, generations=30),
}

RATIO = Table(
    "quality/settings",
    ("settings", "hits", "hard", "never", "CPU ms", "CPU s a hit", "seconds to the best, ratio", "gap, nats"),
)
BEST = Table(
    "quality/best_of_three",
    ("best of three, 50 generations", "1e-3 below", "1e-3 above", "mean difference, nats", "CPU s"),
)
TABLES = (RATIO, BEST)

RIVALS = ("published", "labels, mutation 0.2, all", "labels, mutation 0.2, components")


class Trial(NamedTuple):
    """Restarts of one setting on one instance: objectives, and mean CPU seconds of a restart."""

    objectives: NDArray[np.float64]
    seconds: float

    def hits(self, best: float) -> float:
        """Return the share of restarts that reach the best known objective."""
        return float((self.objectives >= best - HIT).mean())

    def seconds_to_best(self, best: float) -> float:
        """Return the expected CPU seconds until a hit. Half a hit is added, so that it is finite."""
        restarts = len(self.objectives)
        return self.seconds * (restarts + 0.5) / (restarts * self.hits(best) + 0.5)


def instances(draw: int) -> Iterator[tuple[str, Problem]]:
    """Yield mixtures by K, m and p, then real data, standardised; likelihood and posterior take turns."""
    models = ("posterior", "likelihood")
    for n_clusters in (2, 4, 6):
        for number, (m, p) in enumerate((m, p) for m in (100, 400, 800) for p in (0.8, 0.9, 1.0)):
            rng = np.random.default_rng([draw, n_clusters, number])
            X, labels = draw_mixture(rng, n_clusters=n_clusters)
            layers = layers_from_annotations(draw_annotations(rng, labels, p=p, m=m), p)
            model = models[(number + n_clusters // 2) % 2]
            problem = build_problem(X, layers, n_clusters=n_clusters, model=model)
            yield f"K = {n_clusters}, m = {m}, p = {p}, {model}", problem
        X, _ = draw_mixture(np.random.default_rng([draw, n_clusters, 9]), n_clusters=n_clusters)
        yield f"K = {n_clusters}", build_problem(X, n_clusters=n_clusters, model="unsupervised")
    for place, name in enumerate(REAL if RAW.is_dir() else ()):
        X, truth = real_data(name)
        for model, p, m in (("posterior", 0.9, len(X)), ("likelihood", 0.8, len(X) // 2)):
            rng = np.random.default_rng([draw, 100 + place, m])
            layers = layers_from_annotations(draw_annotations(rng, truth, p=p, m=m), p)
            n_clusters = int(truth.max()) + 1
            yield f"{name}, {model}", build_problem(X, layers, n_clusters=n_clusters, model=model)


def real_data(name: str) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Return standardised features and classes of a real data set."""
    table = find(name, data_dir=RAW, download=False)
    assert table.labels_true is not None
    return scale(table.X, "standard"), table.labels_true


def match_classes(labels: NDArray[np.integer], truth: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the class of each cluster, one to one, that shares most samples in all."""
    size = int(max(labels.max(), truth.max())) + 1
    counts = np.zeros((size, size))
    np.add.at(counts, (labels, truth), 1)
    return np.asarray(linear_sum_assignment(counts, maximize=True)[1])


def mixtures(count: int) -> list[tuple[NDArray[np.float64], NDArray[np.int16]]]:
    """Draw mixtures of two, four and six clusters in turn."""
    return [
        draw_mixture(np.random.default_rng([7, number]), n_clusters=(2, 4, 6)[number % 3])
        for number in range(count)
    ]


def best_run(problem: Problem, settings: SearchSettings, restarts: int) -> Fit:
    """Return the best of some restarts."""
    runs = [run_restart(problem, settings, np.random.default_rng(restart)) for restart in range(restarts)]
    return max(runs, key=lambda run: run.objective)


def run_trial(problem: Problem, settings: SearchSettings, restarts: int) -> Trial:
    """Run the restarts of one setting."""
    start_time = time.process_time()
    objectives = [run_restart(problem, settings, np.random.default_rng(r)).objective for r in range(restarts)]
    return Trial(np.array(objectives), (time.process_time() - start_time) / restarts)


def rows(trials: dict[str, list[Trial]]) -> Iterator[tuple[object, ...]]:
    """Yield a row per setting: hits, time, their quotient, mean distance to the best known."""
    best = best_objectives(trials)
    hits = {
        name: np.array([trial.hits(top) for trial, top in zip(row, best, strict=True)])
        for name, row in trials.items()
    }
    first = next(iter(trials))
    paper = log_seconds(trials[first], best)
    hard = hits[first] < HARD
    for name, row in trials.items():
        seconds = np.array([trial.seconds for trial in row])
        logs = log_seconds(row, best) - paper
        ratio, error = np.exp(logs.mean()), np.exp(logs.std(ddof=1) / np.sqrt(len(logs)))
        gap = np.mean([top - trial.objectives.mean() for trial, top in zip(row, best, strict=True)])
        yield (
            name,
            f"{hits[name].mean():.2f}",
            f"{hits[name][hard].mean():.2f}",
            (hits[name] == 0).sum(),
            f"{1e3 * seconds.mean():.1f}",
            f"{seconds.sum() / hits[name].sum():.3f}",
            f"{ratio:.2f} ×/÷ {error:.2f}",
            f"{gap:.2f}",
        )


def best_objectives(trials: Mapping[str, Sequence[Trial]]) -> list[float]:
    """Return the best known objective of each instance."""
    return [max(trial.objectives.max() for trial in row) for row in zip(*trials.values(), strict=True)]


def log_seconds(trials: Sequence[Trial], best: Sequence[float]) -> NDArray[np.float64]:
    """Return the logarithm of the seconds to the best known objective for each instance."""
    return np.log([trial.seconds_to_best(top) for trial, top in zip(trials, best, strict=True)])


def best_of_three(problem: Problem, settings: SearchSettings, stream: int) -> Trial:
    """Return three restarts of 50 generations as one trial."""
    longer = replace(settings, generations=50)
    start_time = time.process_time()
    objectives = [
        run_restart(problem, longer, np.random.default_rng([stream, r])).objective for r in range(3)
    ]
    return Trial(np.array([max(objectives)]), time.process_time() - start_time)


def comparison(draw: int) -> Iterator[tuple[object, ...]]:
    """Yield how often the best of three falls short of the published best of three, or exceeds it."""
    problems = [problem for _, problem in instances(draw)]
    published = [best_of_three(problem, PUBLISHED, 0) for problem in problems]
    for stream, name in enumerate(RIVALS, start=1):
        trials = [best_of_three(problem, SETTINGS[name], stream) for problem in problems]
        gains = np.array([a.objectives[0] - b.objectives[0] for a, b in zip(trials, published, strict=True)])
        yield (
            name,
            f"{(gains < -SHORT).sum()} of {len(gains)}",
            (gains > SHORT).sum(),
            f"{gains.mean():+.2f}",
            f"{sum(trial.seconds for trial in trials):.1f}",
        )


def measure(restarts: int = 8, draw: int = 0) -> dict[str, str]:
    """Run all settings on one draw of the instances."""
    warm_up()
    trials: dict[str, list[Trial]] = {name: [] for name in SETTINGS}
    for _, problem in instances(draw):
        for name, settings in SETTINGS.items():
            trials[name].append(run_trial(problem, settings, restarts))
    return {RATIO.name: RATIO.markdown(rows(trials)), BEST.name: BEST.markdown(comparison(draw))}
