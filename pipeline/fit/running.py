"""Fits of a table on several threads, and the share of them that is done, with the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from sweep_clustering.kernels.choice import LEAST_PAIRS
from sweep_clustering.kernels.fits import Floats, Runner
from sweep_clustering.kernels.interrupt import new_flag, shared_flag
from sweep_clustering.kernels.problem.data import Layer
from sweep_clustering.kernels.settings import Settings
from sweep_clustering.kernels.structure import ANY, GROUPS, MANY_CLASSES, MOST_ROWS, part_size
from sweep_clustering.pipeline.common import core_count, estimate
from sweep_clustering.pipeline.fit.counts import (
    TRIED,
    ClusterChoice,
    OpenCounts,
    choose_clusters,
    open_counts,
    share_allowed,
    words_of_cut,
)
from sweep_clustering.pipeline.fit.solve import FitResult, fit

if TYPE_CHECKING:
    from rich.console import Console

# Costs of the rounds of calls of one fit for classes of any shape, as measured on tables of 150 to 20,000
# rows: the race between structures, merged groups, and the final fits. They add up to 1.
RACE: tuple[float, ...] = (0.035, 0.12, 0.03, 0.012, 0.015, 0.01, 0.0, 0.0, 0.005, 0.01, 0.025, 0.03)
RACE += (0.0, 0.055, 0.05, 0.0, 0.045, 0.05, 0.005, 0.03, 0.0)
MERGES = (0.18, 0.085, 0.055, 0.035, 0.02, 0.025)
FITS = (0.073,)
# Cost of trees of single rows on top, if there are as many rows as there may be.
TREES = 0.77
# The same for so many classes that no race takes place, and for so few answers that the features choose.
MANY = (0.02, 0.06, 0.26, 0.24, 0.075, 0.12, 0.01, 0.015, 0.2)
BY_FEATURES = (0.04, 0.5, 0.46)

# Cost of a fit that does not depend on the number of classes, and that of cuts of a tree, in classes.
CLASSES = 8.0
CUTS = 6.0

# Least time between two lines where no bar can be drawn, in seconds, and the least share of such a line.
PAUSE = 1.0
STEP = 0.1


def costs_of(
    n_clusters: int, *, n_samples: int, layers: Sequence[Layer], covariance: str | None
) -> tuple[float, ...]:
    """Return the expected costs of the rounds of calls of one fit."""
    cost = CLASSES + n_clusters
    if covariance not in (ANY, GROUPS):
        return (cost,)
    if sum(len(layer.pairs) for layer in layers) < LEAST_PAIRS:
        return tuple(cost * share for share in BY_FEATURES)
    if n_clusters > MANY_CLASSES:
        return tuple(cost * share for share in MANY)
    # the race takes place on a part of a large table
    part = part_size(n_clusters)
    n_rows = part if n_samples >= 2 * part else n_samples
    trees = TREES * (n_rows / MOST_ROWS) ** 2 if n_rows <= MOST_ROWS else 0.0
    return tuple(cost * share for share in (*RACE, MERGES[0] + trees, *MERGES[1:], *FITS))


class FitProgress:
    """Share of some fits that is done, which never falls, and the time left.

    A fit is some rounds of calls whose costs are expected. The share ends at 1 whatever comes: what was
    expected in vain counts as done when the next fit begins, and rounds that nobody expected count nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock, self.lock = clock, Lock()
        self.start_time: float | None = None
        self.fits: list[Sequence[float]] = []
        self.rounds: list[float] = []
        self.unit = self.share = self.at_end = 0.0
        self.watch: Callable[[], None] = lambda: None

    def expect(self, fits: Iterable[Sequence[float]]) -> None:
        """Divide all that is left among fits to come."""
        self.fits, self.rounds = list(fits), []
        self.share = self.at_end = max(self.share, self.at_end)
        self.unit = (1.0 - self.share) / sum(map(sum, self.fits))

    def begin_fit(self) -> None:
        """Go on to the next fit."""
        self.at_end += self.unit * sum(self.rounds)
        self.share = max(self.share, self.at_end)
        self.rounds = list(self.fits.pop(0)) if self.fits else []

    def begin_round(self, n_calls: int) -> Callable[[], None]:
        """Go on to the next round of calls, and return what each of them does at its end."""
        self.start_time = self.clock() if self.start_time is None else self.start_time
        cost = self.unit * self.rounds.pop(0) if self.rounds else 0.0
        self.at_end += cost
        if not n_calls:
            self.share = self.at_end

        def advance() -> None:
            with self.lock:
                self.share = min(self.share + cost / n_calls, self.at_end)
            self.watch()

        return advance

    @property
    def elapsed(self) -> float:
        """Seconds since the first call."""
        return 0.0 if self.start_time is None else self.clock() - self.start_time

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the end, None before anything is done."""
        return self.elapsed * (1.0 - self.share) / self.share if self.share > 0.0 else None


@contextmanager
def progress(is_shown: bool = True, *, has_lines: bool = False) -> Iterator[FitProgress]:
    """Show a bar on a terminal, and where there is none, as in a notebook or a pipe, lines if wanted."""
    from rich.console import Console

    state, console = FitProgress(), Console(stderr=True)
    if is_shown and console.is_terminal and not console.is_jupyter:
        with _bar(state, console):
            yield state
    elif is_shown and has_lines:
        state.watch = _lines(state)
        yield state
        sys.stderr.write(f"fit: done, {_seconds(state.elapsed)}\n")
    else:
        yield state


def _seconds(seconds: float) -> str:
    return estimate(seconds, seconds)


@contextmanager
def _bar(state: FitProgress, console: Console) -> Iterator[None]:
    """Show a bar that ends at 100 %, with the time left."""
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{_seconds(state.seconds_left)} left" if state.seconds_left is not None else "")

    columns = (*Progress.get_default_columns()[:1], BarColumn(), TaskProgressColumn(), TimeLeft())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("fit", total=1.0)
        state.watch = lambda: bar.update(task, completed=state.share)
        yield


def _lines(state: FitProgress) -> Callable[[], None]:
    """Return a function that writes how far the fits are, now and then."""
    next_share, next_time = STEP, PAUSE

    def write() -> None:
        nonlocal next_share, next_time
        with state.lock:
            if state.share < next_share or state.elapsed < next_time or state.seconds_left is None:
                return
            next_share, next_time = state.share + STEP, state.elapsed + PAUSE
        sys.stderr.write(f"fit: {state.share:.0%} done, {_seconds(state.seconds_left)} left\n")
        sys.stderr.flush()

    return write


def runner(n_jobs: int | None, state: FitProgress | None = None) -> Runner:
    """Return a function like `map` that makes several calls at a time, and tells the progress.

    It uses threads, as the search holds no lock and shares the table without a copy. `n_jobs` is that of
    `joblib.Parallel`, with all cores by `core_count`; None is 1 unless a `joblib.parallel_config` says more.
    """
    n_threads = n_jobs if n_jobs is None or n_jobs > 0 else max(1, core_count() + 1 + n_jobs)
    state = state or FitProgress()
    # nobody has configured a library that is not loaded, and to load it takes a fifth of a small fit
    joblib = sys.modules.get("joblib") if n_threads is None else None

    def run(function: Callable[[int], Any], numbers: Iterable[int]) -> list[Any]:
        flag = new_flag()  # that of the thread that waits for all calls
        arguments = list(numbers)
        advance = state.begin_round(len(arguments))

        def call(number: int) -> Any:
            with shared_flag(flag):
                result = function(number)
            advance()
            return result

        if joblib is not None:
            # not scikit-learn's `Parallel`, whose threads set the filters of warnings of the whole process
            return list(joblib.Parallel(require="sharedmem")(map(joblib.delayed(call), arguments)))
        if n_threads in (None, 1):
            return list(map(call, arguments))
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(call, arguments))

    return run


class TableFit(NamedTuple):
    """The fit of a table, its number of clusters, and how this number was chosen, if it was."""

    result: FitResult
    n_clusters: int
    choice: ClusterChoice | None = None


def fit_table(
    X: Floats,
    layers: Sequence[Layer],
    counts: Sequence[int] | OpenCounts,
    state: FitProgress,
    *,
    n_jobs: int | None,
    covariance: str,
    seed: int,
    confidence: bool,
    n_names: int,
    check: Callable[[int], None],
    salvage: bool = False,
    **options: Any,
) -> TableFit:
    """Fit a table with the number of clusters that is best among some.

    Parameters
    ----------
    X, layers, covariance, seed, options
        Arguments of `pipeline.fit.solve.fit`.
    counts : sequence of int, or OpenCounts
        Ascending numbers of clusters; none if they are to follow from the table.
    state : FitProgress
        Progress of all fits.
    n_jobs : int or None
        Number of threads, as for `runner`.
    confidence : bool
        Whether the chosen fit has the confidence in its labels.
    n_names : int
        Number of names that labels of rows have.
    check : callable
        Function that raises an exception for a number of clusters that hard links rule out.
    salvage : bool
        Whether Ctrl-C gives what is done so far.
    """
    run = runner(n_jobs, state)  # it runs fits to folds and restarts
    costs = partial(costs_of, n_samples=len(X), layers=layers, covariance=covariance)
    one_fit = partial(fit, X, layers, covariance=covariance, seed=seed, run=run, salvage=salvage, **options)

    def fit_clusters(n_clusters: int, confidence: bool = False) -> FitResult:
        state.begin_fit()
        return one_fit(n_clusters=n_clusters, confidence=confidence)

    if not counts:
        counts = _open(X, layers, state, run, covariance=covariance, seed=seed, n_names=n_names, check=check)
    counts, cut, bounds = counts if isinstance(counts, OpenCounts) else OpenCounts(counts)
    is_chosen = len(counts) > 1 or cut is not None or bool(bounds)
    # for the confidence the chosen one is fitted once more
    state.expect(map(costs, (*counts, *(counts[-1:] if is_chosen and confidence else ()))))
    if not is_chosen:
        return TableFit(fit_clusters(counts[-1], confidence), counts[-1])
    max_share = share_allowed(X, layers, seed)
    choice = choose_clusters(counts, fit_clusters, cut, bounds, max_share=max_share, salvage=salvage)
    result, n_clusters = choice.chosen.result, choice.chosen.n_clusters
    if confidence and not (salvage and choice.interrupted):
        result = fit_clusters(n_clusters, confidence)
    return TableFit(result, n_clusters, choice)


def _open(
    X: Floats,
    layers: Sequence[Layer],
    state: FitProgress,
    run: Runner,
    *,
    covariance: str,
    seed: int,
    n_names: int,
    check: Callable[[int], None],
) -> OpenCounts:
    """Return the numbers of clusters to fit, none of which hard links rule out, as part of the progress."""
    costs = partial(costs_of, n_samples=len(X), layers=layers, covariance=covariance)
    state.expect([(CUTS,), *map(costs, TRIED)])
    state.begin_fit()
    counts = open_counts(X, layers, covariance=covariance, seed=seed, run=run, n_names=n_names)
    check(counts.numbers[-1])
    return counts


def choose_count(
    X: Floats,
    layers: Sequence[Layer],
    state: FitProgress,
    *,
    n_jobs: int,
    model: str,
    covariance: str,
    restarts: int,
    settings: Settings,
    seed: int,
    n_names: int,
    check: Callable[[int], None],
) -> tuple[int, str]:
    """Return the number of clusters that `fit_table` chooses if none is named, and why, in words.

    The parameters are those of `fit_table`. Nothing is fitted if a cut of a tree leaves no doubt.
    """
    run = runner(n_jobs, state)
    counts = _open(X, layers, state, run, covariance=covariance, seed=seed, n_names=n_names, check=check)
    if counts.sure_cut is not None:
        return counts.sure_cut.n_clusters, words_of_cut(counts.sure_cut)
    _, n_clusters, choice = fit_table(
        X,
        layers,
        counts,
        state,
        n_jobs=n_jobs,
        model=model,
        covariance=covariance,
        restarts=restarts,
        settings=settings,
        seed=seed,
        confidence=False,
        n_names=n_names,
        check=check,
        predict_annotations=True,
    )
    return n_clusters, f"{n_clusters}, as the table allows no other" if choice is None else choice.reason
