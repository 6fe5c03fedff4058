"""Chosen pairs beside drawn ones: `python -m benchmarks asking`, an hour on two cores.

The data are six real data sets, standardised, and a mixture of each of K = 3 and 5. Each data set and
accuracy has five paths of questions, in batches of N / 8. The conditional model is fitted to the answers of a
path so far, and to as many uniform pairs. Annotations choose its shape, it has the effective weight of the
features and free proportions, and the fit is the best of five restarts. Standard errors are those of the
means of the eight data sets. The benchmark draws asking.png of the documents.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from checkout import ROOT
from matplotlib.figure import Figure
from numpy.typing import NDArray
from quality import REAL, match_classes, real_data
from suite import SUITE, read
from tables import Table, mean_error

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.scores import adjusted_rand, nmi
from sweep_clustering.pipeline.asking.belief import ASKING, MODEL, believe, share_at
from sweep_clustering.pipeline.asking.strategies import STRATEGIES
from sweep_clustering.pipeline.common import core_count
from sweep_clustering.pipeline.fit.solve import FitResult, fit
from sweep_clustering.pipeline.looks import BLUE, GREY, VERMILLION
from sweep_clustering.pipeline.report.figures import house_style
from sweep_clustering.sweeps.annotations.draw import answer_pairs, draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

ACCURACIES = (0.8, 0.9, 1.0)
PATHS = 5
MIXTURES = {f"mixture, K = {k}": k for k in (3, 5)}
SETS = (*REAL, *MIXTURES)
# Sets of the clustering suite, for `asking_any`.
SUITE_SETS = (
    "uci/wine",
    "uci/ecoli",
    "sipu/spiral",
    "uci/glass",
    "uci/ionosphere",
    "uci/sonar",
    "sipu/pathbased",
    "sipu/compound",
    "wut/x2",
    "uci/wdbc",
    "fcps/target",
)
BATCHES = 8
RESTARTS = 5

SHARES = (0.25, 0.5, 0.75, 1.0, 1.5)
UNIFORM = "drawn uniformly"
ACTIVE = "information"
LONG_UNIFORM = (*SHARES, 2.0, 3.0)
BASELINES = ("farthest-first", "committee")

GAIN = Table("asking/gain", ("pairs", "p", "NMI at N / 2", "N", "3 N / 2", "ARI at N / 2", "N", "3 N / 2"))
BY_SET = Table("asking/sets", ("data", *(f"p = {p:g}" for p in ACCURACIES)))
BUDGET = Table(
    "asking/budget",
    (
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
ECOLI = Table("asking/ecoli", ("p", "questions", "ARI, chosen", "ARI, drawn uniformly"))
FAILS = Table("asking/fails", ("what", "chosen - uniform, NMI", "chosen - uniform, ARI", "NMI, chosen"))
SHARE = Table(
    "asking/share",
    ("questions", "beliefs", "expected share right", "share right", "interval held it", "width of interval"),
)
TABLES = (GAIN, BY_SET, BUDGET, ECOLI, FAILS, SHARE)

Instance = tuple[NDArray[np.float64], NDArray[np.int16]]


class Task(NamedTuple):
    """One path of questions, or uniform pairs.

    `k_off` is added to the true number of clusters, `accuracy` is given to the model in place of `p`,
    `batches` are the batches for every N questions, and `covariance` is the shape, or "any".
    """

    name: str
    p: float
    path: int
    strategy: str
    shares: tuple[float, ...] = SHARES
    k_off: int = 0
    accuracy: float | None = None
    batches: int = BATCHES
    covariance: str = "auto"


class Result(NamedTuple):
    """Scores by share of N, and the beliefs on the way: questions, mean, low, high, share right."""

    scores: dict[float, tuple[float, float]]
    beliefs: list[tuple[float, float, float, float, float]]


def instance(name: str) -> Instance:
    """Return features and classes."""
    if name in SUITE_SETS:
        return read(SUITE, name)
    if name in MIXTURES:
        return draw_mixture(np.random.default_rng([2027, MIXTURES[name]]), n_clusters=MIXTURES[name])
    return real_data(name)


def scores_of(
    X: NDArray[np.float64], truth: NDArray[np.int16], pairs: NDArray[np.int32], task: Task
) -> tuple[float, float]:
    """Return NMI and ARI of a fit to annotations."""
    labels = fit_task(X, truth, pairs, task).best.labels
    return nmi(truth, labels), adjusted_rand(truth, labels)


def fit_task(
    X: NDArray[np.float64], truth: NDArray[np.int16], pairs: NDArray[np.int32], task: Task
) -> FitResult:
    """Fit the annotations of a task."""
    return fit(
        X,
        layers_from_annotations(pairs, task.accuracy or task.p),
        n_clusters=int(truth.max()) + 1 + task.k_off,
        model=MODEL,
        covariance=task.covariance,
        restarts=RESTARTS,
        settings=ASKING,
        seed=0,
    )


def share_right(labels: NDArray[np.int16], truth: NDArray[np.int16]) -> float:
    """Return the share of the labels that are right, if clusters are matched to classes."""
    return float((match_classes(labels, truth)[labels] == truth).mean())


def pairs_of(
    task: Task, X: NDArray[np.float64], truth: NDArray[np.int16], m: int
) -> tuple[NDArray[np.int32], list[tuple[float, float, float, float, float]]]:
    """Return the first `m` pairs of a task, and the beliefs on the way."""
    n_samples, n_clusters = len(X), int(truth.max()) + 1 + task.k_off
    key = [(*SETS, *SUITE_SETS).index(task.name), int(100 * task.p), task.path]
    if task.strategy == UNIFORM:
        return draw_annotations(np.random.default_rng([1, *key, m]), truth, p=task.p, m=m), []
    path = np.empty((0, 3), dtype=np.int32)
    accuracy, beliefs = task.accuracy or task.p, []
    while len(path) < m:
        seed = np.random.SeedSequence([2, *key, len(path)])
        layers = layers_from_annotations(path, accuracy) if len(path) else []
        options: Any = {"n_clusters": n_clusters, "accuracy": accuracy, "covariance": task.covariance}
        belief = believe(X, layers, seed=seed, **options)
        share = share_at(belief.claimed_wrong, n_samples, belief.lines)
        beliefs.append((len(path) / n_samples, *share, share_right(belief.labels, truth)))
        rng = np.random.default_rng([3, *key, len(path)])
        count = max(1, n_samples // task.batches)
        questions = STRATEGIES[task.strategy](belief, path, count, rng)
        path = np.concatenate([path, answer_pairs(rng, truth, questions.pairs, p=task.p)])
    return path[:m], beliefs


def run(task: Task) -> Result:
    """Return the scores of a task."""
    X, truth = instance(task.name)
    counts = {share: int(share * len(X)) for share in task.shares}
    if task.strategy == UNIFORM:
        pairs_by_share = {share: pairs_of(task, X, truth, m)[0] for share, m in counts.items()}
        return Result(
            {share: scores_of(X, truth, pairs, task) for share, pairs in pairs_by_share.items()}, []
        )
    path, beliefs = pairs_of(task, X, truth, max(counts.values()))
    return Result({share: scores_of(X, truth, path[:m], task) for share, m in counts.items()}, beliefs)


def run_all(tasks: Sequence[Task], workers: int) -> dict[Task, Result]:
    """Run all tasks, on several processes if there is more than one worker."""
    if workers == 1:
        return {task: run(task) for task in tasks}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return dict(zip(tasks, pool.map(run, tasks), strict=True))


def means(
    results: dict[Task, Result],
    strategy: str,
    share: float,
    score: int,
    accuracies: Iterable[float],
    names: Sequence[str],
) -> NDArray[np.float64]:
    """Return means over paths, with a row for each data set and a column for each accuracy."""
    values: dict[tuple[str, float], list[float]] = {}
    for task, result in results.items():
        if task.strategy == strategy and share in result.scores:
            values.setdefault((task.name, task.p), []).append(result.scores[share][score])
    return np.array([[np.mean(values[name, p]) for p in accuracies] for name in names])


def gain_rows(results: dict[Task, Result], names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """Yield the differences to uniform pairs."""
    for strategy in (ACTIVE, *BASELINES):
        for p in ACCURACIES:
            cells = [
                with_sign(
                    (
                        means(results, strategy, share, score, [p], names)
                        - means(results, UNIFORM, share, score, [p], names)
                    )[:, 0]
                )
                for score, share in product((0, 1), (0.5, 1.0, 1.5))
            ]
            yield strategy, f"{p:g}", *cells


def set_rows(results: dict[Task, Result], names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """Yield NMI and ARI of uniform pairs and of chosen ones, at m = N."""
    for row, name in enumerate(names):
        cells = []
        for column in range(len(ACCURACIES)):
            nmis, aris = (
                [
                    means(results, strategy, 1.0, score, ACCURACIES, names)[row, column]
                    for strategy in (UNIFORM, ACTIVE)
                ]
                for score in (0, 1)
            )
            cells.append(f"{nmis[0]:.3f} → {nmis[1]:.3f}; {aris[0]:.3f} → {aris[1]:.3f}")
        yield name, *cells


def budget_rows(
    results: dict[Task, Result],
    names: Sequence[str],
    accuracies: Sequence[float] = ACCURACIES,
    shares: Sequence[float] = (0.5, 0.75, 1.0),
    strategy: str = ACTIVE,
) -> Iterator[tuple[object, ...]]:
    """Yield the number of uniform pairs that reach the mean score of chosen ones."""
    for p in accuracies:
        for share in shares:
            cells: list[str] = []
            for score in (0, 1):
                goal = means(results, strategy, share, score, [p], names).mean()
                curve = [
                    means(results, UNIFORM, uniform_share, score, [p], names).mean()
                    for uniform_share in LONG_UNIFORM
                ]
                cells += [f"{goal:.3f}", *ratio(share, goal, curve)]
            yield f"{p:g}", f"{share:g} N", *cells


def ratio(share: float, goal: float, curve: Sequence[float]) -> tuple[str, str]:
    """Return the share of N at which a curve, its best so far, reaches a goal; and `share` over it."""
    best = np.maximum.accumulate(curve)
    if goal > best[-1]:
        return f"over {LONG_UNIFORM[-1]:g} N", f"under {share / LONG_UNIFORM[-1]:.2f}"
    place = int(np.searchsorted(best, goal))
    budget = LONG_UNIFORM[0]
    if place > 0:
        budget = float(np.interp(goal, best[place - 1 : place + 1], LONG_UNIFORM[place - 1 : place + 1]))
    return f"{budget:.2f} N", f"{share / budget:.2f}"


def with_sign(values: NDArray[np.float64]) -> str:
    """Return the mean and standard error of differences, with a sign."""
    text = mean_error(values)
    return text if text.startswith("-") else f"+{text}"


def ecoli_rows(results: dict[Task, Result]) -> Iterator[tuple[object, ...]]:
    """Yield ARI at 3 N questions."""
    for p in ACCURACIES[1::-1]:
        cells = [
            np.array(
                [
                    result.scores[3.0][1]
                    for task, result in results.items()
                    if (task.strategy, task.p) == (strategy, p)
                ]
            )
            for strategy in (ACTIVE, UNIFORM)
        ]
        yield f"{p:g}", "3 N", *map(mean_error, cells)


# Fields of a task at p = 0.9: conditions under which it may fail, and other strategies.
FAILURES: dict[str, dict[str, Any]] = {
    "as it should be": {},
    "K one too small": {"k_off": -1},
    "K one too large": {"k_off": 1},
    "K too large by three": {"k_off": 3},
    "p = 0.6": {"p": 0.6},
    "told 0.95, is 0.8": {"p": 0.8, "accuracy": 0.95},
    "told 0.7, is 0.9": {"accuracy": 0.7},
    "one batch of N": {"batches": 1},
    "batches of N / 2": {"batches": 2},
    "batches of N / 32": {"batches": 32},
    "uncertain": {"strategy": "uncertain"},
    "anchors": {"strategy": "anchors"},
    "again": {"strategy": "again"},
}
FAILING = ("iris", "wine", "thyroid", "mixture, K = 3")


def failure_tasks(paths: int, names: Sequence[str]) -> dict[str, tuple[list[Task], list[Task]]]:
    """Return tasks with chosen pairs and with uniform ones, by case."""
    return {
        case: (
            [_at_n(name, path, changes) for name, path in product(names, range(paths))],
            [
                _at_n(name, path, {**changes, "strategy": UNIFORM, "batches": BATCHES})
                for name, path in product(names, range(paths))
            ],
        )
        for case, changes in FAILURES.items()
    }


def _at_n(name: str, path: int, changes: dict[str, Any]) -> Task:
    return Task(**{"name": name, "p": 0.9, "path": path, "strategy": ACTIVE, "shares": (1.0,), **changes})


def failure_rows(
    tasks: dict[str, tuple[list[Task], list[Task]]], results: dict[Task, Result]
) -> Iterator[tuple[object, ...]]:
    """Yield the differences at m = N over data sets and paths."""
    for case, groups in tasks.items():
        scores = [np.array([results[task].scores[1.0] for task in group]) for group in groups]
        difference = scores[0] - scores[1]
        yield case, with_sign(difference[:, 0]), with_sign(difference[:, 1]), f"{scores[0][:, 0].mean():.3f}"


def share_rows(results: Iterable[Result]) -> Iterator[tuple[object, ...]]:
    """Yield the expected share of right labels beside the true one, by number of questions."""
    beliefs = np.array([belief for result in results for belief in result.beliefs])
    for low, high, words in (
        (0, 0, "none"),
        (0.01, 0.5, "up to N / 2"),
        (0.51, 1, "N / 2 to N"),
        (1.01, 9, "more"),
    ):
        part = beliefs[(beliefs[:, 0] >= low) & (beliefs[:, 0] <= high)]
        if len(part):
            _, expected, low_ends, high_ends, right_shares = part.T
            coverage = ((low_ends <= right_shares) & (right_shares <= high_ends)).mean()
            yield (
                words,
                len(part),
                f"{expected.mean():.3f}",
                f"{right_shares.mean():.3f}",
                f"{coverage:.0%}",
                f"{(high_ends - low_ends).mean():.3f}",
            )


def draw(results: dict[Task, Result], names: Sequence[str]) -> Figure:
    """Draw NMI and ARI against m, by accuracy."""
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    axes = figure.subplots(2, len(ACCURACIES), sharex=True, sharey="row")
    styles = {
        ACTIVE: (BLUE, "o"),
        UNIFORM: (VERMILLION, "s"),
        "farthest-first": (GREY, "^"),
        "committee": (GREY, "v"),
    }
    for (row, score), (column, p) in product(enumerate(("NMI", "ARI")), enumerate(ACCURACIES)):
        panel = axes[row, column]
        for strategy, (color, marker) in styles.items():
            values = np.array([means(results, strategy, share, row, [p], names)[:, 0] for share in SHARES])
            middle, error = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(len(names))
            panel.plot(SHARES, middle, color=color, marker=marker, ms=4, lw=1.4, label=strategy)
            if strategy in (ACTIVE, UNIFORM):
                panel.fill_between(SHARES, middle - error, middle + error, color=color, alpha=0.15, lw=0)
        if row == 0:
            panel.set_title(f"p = {p:g}")
        else:
            panel.set_xlabel("annotations / N")
        if column == 0:
            panel.set_ylabel(score)
    axes[0, -1].legend(loc="lower right", fontsize=7)
    return figure


def measure(
    paths: int = PATHS,
    names: Sequence[str] = SETS,
    failing: Sequence[str] = FAILING,
    long_set: str = "ecoli",
    workers: int | None = None,
    picture: Callable[[Figure], None] | None = None,
) -> dict[str, str]:
    """Return all tables, and draw the figure."""
    workers = workers or core_count()
    main = [
        Task(name, p, path, strategy, LONG_UNIFORM if strategy == UNIFORM else SHARES)
        for path, p, name, strategy in product(range(paths), ACCURACIES, names, (UNIFORM, ACTIVE, *BASELINES))
    ]
    long = [
        Task(long_set, p, path, strategy, (3.0,))
        for p, path, strategy in product(ACCURACIES[:2], range(paths), (ACTIVE, UNIFORM))
    ]
    failures = failure_tasks(max(2, paths - 2), failing)
    results = run_all(main, workers)
    far_results = run_all(long, workers)
    failure_results = run_all(
        list({task: 0 for groups in failures.values() for group in groups for task in group}), workers
    )
    with house_style():
        figure = draw(results, names)
        (picture or _save)(figure)
    return {
        GAIN.name: GAIN.markdown(gain_rows(results, names)),
        BY_SET.name: BY_SET.markdown(set_rows(results, names)),
        BUDGET.name: BUDGET.markdown(budget_rows(results, names)),
        ECOLI.name: ECOLI.markdown(ecoli_rows(far_results)),
        FAILS.name: FAILS.markdown(failure_rows(failures, failure_results)),
        SHARE.name: SHARE.markdown(
            share_rows(result for task, result in results.items() if task.strategy == ACTIVE)
        ),
    }


def _save(figure: Figure) -> None:
    figure.savefig(ROOT / "docs" / "pictures" / "asking.png", dpi=110)
