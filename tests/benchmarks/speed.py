"""The solver's speed: `python -m tests.benchmarks speed`, half a minute.

CPU time per local search of whole restarts, everything included, and per candidate relocation. Real data are
looked for below ../shared/data beside the checkout.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path

import numpy as np
from checkout import SHARED as BESIDE
from solving.candidates import sweep_candidates
from solving.entries import collect
from tables import Sentence, Table

from kernels.partition.state import new_state
from kernels.problem.data import Data
from kernels.problem.problem import CANNOT, MUST, Layer, Problem, build_problem, layers_from_annotations
from kernels.search.hgs import SearchSettings, run_restart, warm_up
from sweeps.annotations.draw import draw_annotations
from sweeps.data.datasets import load_builtin
from sweeps.inputs.mixtures import draw_mixture

SEARCH = Table("speed/search", ("", "CPU ms per local search", "published code", "ratio", "candidates tried"))
CANDIDATE = Table("speed/candidate", ("candidate, K = 6, D = 10", "m", "ns", "cycles"))
SENTENCE = Sentence(
    "speed/sentence",
    "A local search takes {}, {} and {} ms of CPU at K = 2, 4 and 6 (N = 200, D = 10, m = 400, posterior).",
)
TABLES = (SEARCH, CANDIDATE, SENTENCE)

SHARED = BESIDE / "data"
MODELS, COUNTS = ("likelihood", "posterior"), (400, 800)
"""Of the instances whose candidates are timed."""
MIXTURES = 5
REFERENCE = {"K = 2": 26.0, "K = 4": 28.0, "K = 6": 39.0, "Vertebral": 36.0, "Pendigits-389": 550.0}
"""CPU milliseconds per local search of the published Julia code on a machine of this kind, ± 40 %."""


def mixture(n_clusters: int, m: int, model: str, draw: int = 0) -> tuple[Problem, np.ndarray]:
    """N = 200, D = 10, annotations of accuracy 0.9; and its classes."""
    rng = np.random.default_rng([n_clusters, m, draw])
    X, labels = draw_mixture(rng, n_clusters=n_clusters)
    layers = layers_from_annotations(draw_annotations(rng, labels, p=0.9, m=m), 0.9)
    return build_problem(X, layers, n_clusters=n_clusters, model=model), labels


def vertebral(folder: Path) -> Problem:
    """The published instance, unscaled."""
    layers = []
    for kind, name in ((MUST, "must"), (CANNOT, "cannot")):
        table = np.loadtxt(folder / f"vertebral-{name}.link", ndmin=2)
        pairs = table[:, :2].astype(np.int64) - 1
        weights = np.where(pairs[:, 0] == pairs[:, 1], 0.5, 1.0) * table[:, 2]
        layers.append(Layer(kind, pairs, weights, 0.9))
    X = np.loadtxt(folder / "vertebral.data")
    return build_problem(X, layers, n_clusters=3, model="posterior")


def pendigits(folder: Path) -> Problem:
    """Unscaled, m = N annotations of accuracy 0.9."""
    table = load_builtin("pendigits-389", data_dir=folder, download=False)
    assert table.labels_true is not None
    rng = np.random.default_rng(0)
    annotations = draw_annotations(rng, table.labels_true, p=0.9, m=len(table.X))
    layers = layers_from_annotations(annotations, 0.9)
    return build_problem(table.X, layers, n_clusters=3, model="posterior")


def search_time(problems: list[Problem], restarts: int) -> tuple[float, float]:
    """CPU milliseconds per local search over whole restarts of ten generations, and candidates in each."""
    searches = tried = 0
    began = time.process_time()
    for problem in problems:
        for restart in range(restarts):
            found = run_restart(problem, SearchSettings(), np.random.default_rng(restart))
            searches += found.local_searches
            tried += found.evaluations
    return 1e3 * (time.process_time() - began) / searches, tried / searches


def candidate_time(problem: Problem) -> float:
    """CPU nanoseconds per candidate at a good solution: the least of several sweeps."""
    data: Data = problem.data
    state = new_state(data)
    state.labels[:] = run_restart(problem, SearchSettings(3, 3, 1), np.random.default_rng(0)).labels
    collect(data, state)
    sweep_candidates(data, state, 1)
    seconds = []
    for _ in range(20):
        began = time.process_time()
        sweep_candidates(data, state, 100)
        seconds.append(time.process_time() - began)
    return 1e9 * min(seconds) / (100 * len(data.annotated) * (data.n_clusters - 1))


def clock() -> float:
    """GHz, as the kernel reports it; NaN where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return float("nan")
    speeds = [float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz")]
    return max(speeds, default=float("nan")) / 1e3


def measure() -> dict[str, str]:
    """Tables of whole restarts and of single candidates."""
    warm_up()
    cases = {
        f"K = {k}": [mixture(k, 400, "posterior", draw)[0] for draw in range(MIXTURES)] for k in (2, 4, 6)
    }
    if (SHARED / "reference-vertebral").is_dir():
        cases["Vertebral"] = [vertebral(SHARED / "reference-vertebral")]
    if (SHARED / "raw").is_dir():
        cases["Pendigits-389"] = [pendigits(SHARED / "raw")]
    searches, all_milliseconds = [], []
    for name, problems in cases.items():
        milliseconds, tried = search_time(problems, 2)
        all_milliseconds.append(f"{milliseconds:.1f}")
        ratio = REFERENCE[name] / milliseconds
        searches.append(
            (name, f"{milliseconds:.2f}", f"{REFERENCE[name]:.0f}", f"{ratio:.0f}", f"{tried:,.0f}")
        )
    candidates = []
    for model, m in product(MODELS, COUNTS):
        nanoseconds = candidate_time(mixture(6, m, model)[0])
        candidates.append((model, m, f"{nanoseconds:.0f}", f"{nanoseconds * clock():.0f}"))
    return {
        SEARCH.name: SEARCH.markdown(searches),
        CANDIDATE.name: CANDIDATE.markdown(candidates),
        SENTENCE.name: SENTENCE.form.format(*all_milliseconds[:3]),
    }
