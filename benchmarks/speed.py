"""The speed of the solver: `python -m benchmarks speed`, half a minute.

The benchmark measures CPU time per local search of whole restarts, with everything, and per candidate
relocation. Its ratios compare times of one run. Another program can be compared if both run in turns. Real
data are read from ../shared/data beside the checkout.
"""

import time
from itertools import product
from pathlib import Path

import numba
import numpy as np
from candidates import sweep_candidates
from checkout import SHARED
from quality import PUBLISHED, STRONG
from solving.entries import collect
from tables import Sentence, Table

from sweep_clustering.kernels.partition.statistics import new_state
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Data, layers_from_annotations
from sweep_clustering.kernels.problem.problem import Layer, Problem, build_problem
from sweep_clustering.kernels.search.genetic import SearchSettings, run_restart, warm_up
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.data.builtin import find
from sweep_clustering.sweeps.inputs import draw_mixture

SEARCH = Table(
    "speed/search",
    ("", "CPU ms per local search", "candidates tried", "ns per candidate", "a strong restart, ratio"),
)
CANDIDATE = Table("speed/candidate", ("candidate, K = 6, D = 10", "m", "ns", "cycles"))
SENTENCE = Sentence(
    "speed/sentence",
    "A local search takes {}, {} and {} ms of CPU at K = 2, 4 and 6 (N = 200, D = 10, m = 400, posterior).",
)
CLOCK = Sentence(
    "speed/clock", "The core ran at {} GHz, measured by additions of which each needs the one before it."
)
TABLES = (SEARCH, CANDIDATE, SENTENCE, CLOCK)

DATA = SHARED / "data"
# Models and numbers of annotations of the instances whose candidates are timed.
MODELS = ("likelihood", "posterior")
COUNTS = (400, 800)
MIXTURES = 5


def mixture(n_clusters: int, m: int, model: str, draw: int = 0) -> tuple[Problem, np.ndarray]:
    """Return an instance with N = 200, D = 10 and annotations of accuracy 0.9, and its classes."""
    rng = np.random.default_rng([n_clusters, m, draw])
    X, labels = draw_mixture(rng, n_clusters=n_clusters)
    layers = layers_from_annotations(draw_annotations(rng, labels, p=0.9, m=m), 0.9)
    return build_problem(X, layers, n_clusters=n_clusters, model=model), labels


def vertebral(folder: Path) -> Problem:
    """Return the published instance, unscaled."""
    layers = []
    for kind, name in ((MUST, "must"), (CANNOT, "cannot")):
        table = np.loadtxt(folder / f"vertebral-{name}.link", ndmin=2)
        pairs = table[:, :2].astype(np.int64) - 1
        weights = np.where(pairs[:, 0] == pairs[:, 1], 0.5, 1.0) * table[:, 2]
        layers.append(Layer(kind, pairs, weights, 0.9))
    X = np.loadtxt(folder / "vertebral.data")
    return build_problem(X, layers, n_clusters=3, model="posterior")


def pendigits(folder: Path) -> Problem:
    """Return the data, unscaled, with m = N annotations of accuracy 0.9."""
    table = find("pendigits-389", data_dir=folder, download=False)
    assert table.labels_true is not None
    rng = np.random.default_rng(0)
    annotations = draw_annotations(rng, table.labels_true, p=0.9, m=len(table.X))
    layers = layers_from_annotations(annotations, 0.9)
    return build_problem(table.X, layers, n_clusters=3, model="posterior")


def search_row(name: str, problems: list[Problem], restarts: int) -> tuple[str, ...]:
    """Return the row of some instances for whole restarts of ten generations.

    The published search and the strong one take turns, so that both meet the same machine.
    """
    seconds = dict.fromkeys((PUBLISHED, STRONG), 0.0)
    searches = candidates = 0
    for problem, restart, settings in product(problems, range(restarts), seconds):
        start_time = time.process_time()
        solution = run_restart(problem, settings, np.random.default_rng(restart))
        seconds[settings] += time.process_time() - start_time
        if settings is PUBLISHED:
            searches += solution.local_searches
            candidates += solution.evaluations
    published = seconds[PUBLISHED]
    ratio = seconds[STRONG] / published
    return (
        name,
        f"{1e3 * published / searches:.2f}",
        f"{candidates / searches:,.0f}",
        f"{1e9 * published / candidates:.0f}",
        f"{ratio:.2f}",
    )


def candidate_time(problem: Problem) -> float:
    """Return CPU nanoseconds per candidate at a good solution: the least of several sweeps."""
    data: Data = problem.data
    state = new_state(data)
    state.labels[:] = run_restart(problem, SearchSettings(3, 3, 1), np.random.default_rng(0)).labels
    collect(data, state)
    sweep_candidates(data, state, 1)
    seconds = []
    for _ in range(20):
        start_time = time.process_time()
        sweep_candidates(data, state, 100)
        seconds.append(time.process_time() - start_time)
    return 1e9 * min(seconds) / (100 * len(data.annotated) * (data.n_clusters - 1))


@numba.njit
def dependent_steps(count: int, addend: int, mask: int) -> int:
    """Take steps of an addition and an exclusive or, of which each needs the one before it."""
    x = 0
    for _ in range(count):
        x = (x + addend) ^ mask
    return x


def clock() -> float:
    """Return the speed of the core in GHz: each of the dependent operations takes one cycle."""
    count, seconds = 20_000_000, []
    dependent_steps(1, 3, 5)
    for _ in range(10):
        start_time = time.process_time()
        dependent_steps(count, 3, 5)
        seconds.append(time.process_time() - start_time)
    return 2e-9 * count / min(seconds)


def published_cases(mixtures: int, real: bool) -> dict[str, list[Problem]]:
    """Return mixtures for each K, and the published instance if it is at hand."""
    cases = {
        f"K = {k}": [mixture(k, 400, "posterior", draw)[0] for draw in range(mixtures)] for k in (2, 4, 6)
    }
    if real and (DATA / "reference-vertebral").is_dir():
        cases["Vertebral"] = [vertebral(DATA / "reference-vertebral")]
    return cases


def measure(mixtures: int = MIXTURES, restarts: int = 2, real: bool = True) -> dict[str, str]:
    """Measure whole restarts and single candidates.

    Parameters
    ----------
    mixtures : int
        Number of mixtures for each number of clusters.
    restarts : int
        Number of restarts of each instance.
    real : bool
        True if the real data at hand are searched, too.
    """
    warm_up()
    cases = published_cases(mixtures, real)
    if real and (DATA / "raw").is_dir():
        cases["Pendigits-389"] = [pendigits(DATA / "raw")]
    searches = [search_row(name, problems, restarts) for name, problems in cases.items()]
    candidates, speeds = [], []
    for model, m in product(MODELS, COUNTS):
        nanoseconds = candidate_time(mixture(6, m, model)[0])
        speeds.append(clock())
        candidates.append((model, m, f"{nanoseconds:.0f}", f"{nanoseconds * speeds[-1]:.0f}"))
    return {
        SEARCH.name: SEARCH.markdown(searches),
        CANDIDATE.name: CANDIDATE.markdown(candidates),
        CLOCK.name: CLOCK.form.format(f"{max(speeds):.2f}"),
        SENTENCE.name: SENTENCE.form.format(*(f"{float(row[1]):.1f}" for row in searches[:3])),
    }
