"""What the method "strong" gains on every shape: `python -m benchmarks strong`, ten minutes.

Mixtures of two, four and six clusters and the small real data sets (../shared/data/raw beside the checkout),
each shape of covariances with the annotation terms. Every setting runs the same restarts, in turns. The draws
are held out: the settings were chosen on others.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from quality import COMPONENTS, HIT, PUBLISHED, RAW, REAL, STRONG, real_data
from speed import SHARED, mixture, vertebral
from tables import Table

from sweep_clustering.kernels.problem.problem import Problem, build_problem, layers_from_annotations
from sweep_clustering.kernels.search.genetic import SearchSettings, run_restart, warm_up
from sweep_clustering.kernels.structure import COVARIANCES
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

TERMS = ("posterior", "likelihood", "conditional")
HELD_OUT = (4, 5)
"""Draws of the instances; 1, 2 and 3 chose the settings."""

BEFORE = COMPONENTS
"""The method "strong" as it was before shapes of covariances were among what it was tuned on."""
SETTINGS = {
    "published": PUBLISHED,
    "published, other streams": PUBLISHED,
    "strong before": BEFORE,
    "strong": STRONG,
    "strong, patience 5": replace(STRONG, patience=5),
    "strong, mutation 0.1": replace(STRONG, mutation=0.1),
    "strong, population and offspring 10": replace(STRONG, population=10, offspring=10),
}

ALL = Table(
    "strong/settings",
    (
        "settings",
        "hits",
        "never",
        "CPU ms",
        "CPU, ratio",
        "seconds to the best, ratio",
        "worse",
        "worst, nats",
    ),
)
PARTS = Table(
    "strong/parts",
    ("strong on", "instances", "hits", "of published", "CPU, ratio", "seconds to the best, ratio", "worse"),
)
EARLIER = {"K = 2": 109, "K = 4": 86, "K = 6": 86, "Vertebral": 138}
"""How many times as much CPU the published code took for a whole restart as "strong" did before."""
FOLD = Table(
    "strong/fold",
    ("", "measured before", "CPU ms before", "CPU ms now", "CPU, ratio", "so now", "best before", "best now"),
)
TABLES = (ALL, PARTS, FOLD)


class Trial(NamedTuple):
    """Restarts of one setting on one instance."""

    objectives: NDArray[np.float64]
    seconds: float  # CPU of one restart, the mean

    def hits(self, best: float) -> float:
        """Share of restarts at the best known."""
        return float((self.objectives >= best - HIT).mean())

    def seconds_to_best(self, best: float) -> float:
        """Expected CPU seconds until a hit; half a hit is added, so that none is not forever."""
        restarts = len(self.objectives)
        return self.seconds * (restarts + 0.5) / (restarts * self.hits(best) + 0.5)


Trials = Mapping[str, Sequence[Trial]]


def instances(draw: int, real: bool = True) -> Iterator[tuple[dict[str, str], Problem]]:
    """Every shape with every term on mixtures of each K, and with the terms in turn on real data."""
    for n_clusters, (s, shape), (t, term) in product((2, 4, 6), enumerate(COVARIANCES), enumerate(TERMS)):
        m = (100, 400, 800)[(t + s + n_clusters // 2) % 3]
        p = (0.8, 0.9, 1.0)[(t + 2 * s + n_clusters) % 3]
        rng = np.random.default_rng([31, draw, n_clusters, len(TERMS) * s + t])
        X, truth = draw_mixture(rng, n_clusters=n_clusters)
        layers = layers_from_annotations(draw_annotations(rng, truth, p=p, m=m), p)
        problem = build_problem(X, layers, n_clusters=n_clusters, model=term, covariance=shape)
        yield {"data": f"mixtures, K = {n_clusters}", "shape": shape, "term": term}, problem
    for (place, name), (s, shape) in product(
        enumerate(REAL if real and RAW.is_dir() else ()), enumerate(COVARIANCES)
    ):
        X, truth = real_data(name)
        term = TERMS[(place + s) % len(TERMS)]
        p, m = (0.8, len(X) // 2) if term == "likelihood" else (0.9, len(X))
        rng = np.random.default_rng([32, draw, place, s])
        layers = layers_from_annotations(draw_annotations(rng, truth, p=p, m=m), p)
        n_clusters = int(truth.max()) + 1
        problem = build_problem(X, layers, n_clusters=n_clusters, model=term, covariance=shape)
        yield {"data": "real data", "shape": shape, "term": term}, problem


def in_turns(problem: Problem, settings: Mapping[str, SearchSettings], restarts: int) -> dict[str, Trial]:
    """So many restarts of each; the streams go by the restart, those of "other streams" are their own."""
    seconds = dict.fromkeys(settings, 0.0)
    found: dict[str, list[float]] = {name: [] for name in settings}
    for restart, (name, chosen) in product(range(restarts), settings.items()):
        rng = np.random.default_rng([int(name.endswith("other streams")), restart])
        began = time.process_time()
        found[name].append(run_restart(problem, chosen, rng).objective)
        seconds[name] += time.process_time() - began
    return {name: Trial(np.array(found[name]), seconds[name] / restarts) for name in settings}


def ratio(of: Sequence[Trial], to: Sequence[Trial], best: Sequence[float]) -> str:
    """Geometric mean over instances of the time to the best known, with its standard error as a factor."""
    pairs = zip(of, to, best, strict=True)
    logs = np.log([a.seconds_to_best(top) / b.seconds_to_best(top) for a, b, top in pairs])
    return f"{np.exp(logs.mean()):.3f} ×/÷ {np.exp(logs.std(ddof=1) / np.sqrt(len(logs))):.2f}"


def cpu_ratio(of: Sequence[Trial], to: Sequence[Trial]) -> str:
    """Geometric mean over instances of the CPU time of a restart."""
    return f"{np.exp(np.mean([np.log(a.seconds / b.seconds) for a, b in zip(of, to, strict=True)])):.2f}"


def falls_short(of: Sequence[Trial], to: Sequence[Trial]) -> NDArray[np.float64]:
    """By how many nats the best of all restarts falls short of that of others, where it does."""
    gaps = np.array([b.objectives.max() - a.objectives.max() for a, b in zip(of, to, strict=True)])
    return np.asarray(gaps[gaps > HIT])


def rows(trials: Trials, best: Sequence[float]) -> Iterator[tuple[object, ...]]:
    """A row for each setting."""
    published = trials["published"]
    for name, of in trials.items():
        hits = np.array([each.hits(top) for each, top in zip(of, best, strict=True)])
        worse = falls_short(of, published)
        yield (
            name,
            f"{hits.mean():.2f}",
            (hits == 0).sum(),
            f"{1e3 * np.mean([each.seconds for each in of]):.1f}",
            cpu_ratio(of, trials["strong before"]),
            ratio(of, published, best),
            f"{len(worse)} of {len(of)}",
            f"{worse.max():.2f}" if len(worse) else "",
        )


def parts(
    trials: Trials, best: Sequence[float], marks: Sequence[Mapping[str, str]]
) -> Iterator[tuple[object, ...]]:
    """A row for each kind of data, shape and term."""
    for key in ("data", "shape", "term"):
        for value in dict.fromkeys(mark[key] for mark in marks):
            chosen = [place for place, mark in enumerate(marks) if mark[key] == value]
            tops = [best[place] for place in chosen]
            of, before, paper = (
                [trials[name][place] for place in chosen] for name in ("strong", "strong before", "published")
            )
            hits, others = (
                np.mean([each.hits(top) for each, top in zip(every, tops, strict=True)])
                for every in (of, paper)
            )
            worse = len(falls_short(of, paper))
            shares = f"{hits:.2f}", f"{others:.2f}"
            yield value, len(chosen), *shares, cpu_ratio(of, before), ratio(of, paper, tops), worse


def folds(mixtures: int, restarts: int, real: bool) -> Iterator[tuple[object, ...]]:
    """How many times as much CPU the published code takes: as measured before, by what "strong" saves."""
    cases = {
        f"K = {k}": [mixture(k, 400, "posterior", draw)[0] for draw in range(mixtures)] for k in (2, 4, 6)
    }
    if real and (SHARED / "reference-vertebral").is_dir():
        cases["Vertebral"] = [vertebral(SHARED / "reference-vertebral")] * mixtures
    for name, problems in cases.items():
        taken = [in_turns(problem, {"before": BEFORE, "now": STRONG}, restarts) for problem in problems]
        before, now = (1e3 * np.mean([each[key].seconds for each in taken]) for key in ("before", "now"))
        tops = [np.mean([each[key].objectives.max() for each in taken]) for key in ("before", "now")]
        saved = now / before
        # rounded down: what is said is reached
        fold = f"{np.floor(EARLIER[name] / saved):.0f}"
        objectives = [f"{top:.2f}" for top in tops]
        yield name, EARLIER[name], f"{before:.1f}", f"{now:.1f}", f"{saved:.2f}", fold, *objectives


def measure(
    draws: Sequence[int] = HELD_OUT, restarts: int = 10, mixtures: int = 10, every: int = 1, real: bool = True
) -> dict[str, str]:
    """Run all settings, so many restarts of each.

    Parameters
    ----------
    draws : sequence of int
        Of the instances.
    restarts : int
        Of each setting on each instance.
    mixtures : int
        Of each number of clusters, for the ratios to the published code.
    every : int
        Takes one instance in so many.
    real : bool
        Whether the real data that are there are searched, too.
    """
    warm_up()
    marks, trials = [], {name: list[Trial]() for name in SETTINGS}
    for draw in draws:
        for mark, problem in list(instances(draw, real))[::every]:
            marks.append(mark)
            for name, found in in_turns(problem, SETTINGS, restarts).items():
                trials[name].append(found)
    best = [max(each.objectives.max() for each in of) for of in zip(*trials.values(), strict=True)]
    return {
        ALL.name: ALL.markdown(rows(trials, best)),
        PARTS.name: PARTS.markdown(parts(trials, best, marks)),
        FOLD.name: FOLD.markdown(folds(mixtures, restarts, real)),
    }
