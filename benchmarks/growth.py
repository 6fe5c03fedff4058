"""The growth of the cost of a local search: `python -m benchmarks growth`, a few minutes.

The benchmark varies one of N, m, K, D at a time. It measures CPU time per local search and per candidate with
their slopes, draws growth.png of the documents, and measures the memory of a large problem (on Linux).
"""

import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import numba
import numpy as np
from candidates import sweep_candidates
from checkout import ROOT
from numpy.typing import NDArray
from solving.entries import collect, local_search
from tables import Table

from sweep_clustering.kernels.partition.statistics import EVALUATIONS, RELOCATIONS, State, new_state
from sweep_clustering.kernels.problem.data import Data, layers_from_annotations
from sweep_clustering.kernels.problem.problem import build_problem
from sweep_clustering.kernels.search.genetic import (
    assign_closest,
    new_population,
    repair,
    seed_centroids,
    warm_up,
)
from sweep_clustering.kernels.structure import COVARIANCES
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture


def from_python(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a way into a kernel that only other kernels call."""

    @numba.njit(error_model="numpy", _nrt=False)
    def call(*arguments: Any) -> Any:
        return kernel(*arguments)

    return cast("Callable[..., Any]", call)


assign_closest = from_python(assign_closest)
seed_centroids = from_python(seed_centroids)
repair = from_python(repair)

TABLE = Table("growth", ("CPU ns per candidate", "from", "to", "slope, all", "slope, at the end"))
COLUMNS = "D = 4", "D = 10", "D = 32", "D = 64", "to spherical at D = 10", "slope, D = 10 … 64"
SHAPES = Table("growth/shapes", ("CPU ns per candidate", *COLUMNS))
TABLES = (TABLE, SHAPES)

MODELS = ("likelihood", "posterior")


@dataclass(frozen=True)
class Size:
    """Size of a problem."""

    N: int = 2000
    m: int = 2000
    K: int = 8
    D: int = 16


BASE = Size()
AXES = {
    "N": [replace(BASE, N=n, m=n) for n in (200, 1000, 5000, 20_000, 100_000)],
    "m": [replace(BASE, m=m) for m in (200, 1000, 4000, 16_000, 64_000)],
    "K": [replace(BASE, K=k) for k in (2, 4, 8, 16, 32, 64)],
    "D": [replace(BASE, D=d) for d in (2, 4, 16, 64, 256)],
}
DIMENSIONS = (4, 10, 32, 64)
ROUNDS = 5
LARGE = Size(N=100_000, m=100_000, K=16, D=16)


@dataclass(frozen=True)
class Cost:
    """CPU milliseconds a local search, nanoseconds a candidate in it and alone, and share relocated."""

    search: float
    tried: float
    candidate: float
    relocations: float


def problem(size: Size, model: str, covariance: str = "spherical") -> Data:
    """Return a mixture with annotations of accuracy 0.9."""
    rng = np.random.default_rng([size.N, size.m, size.K, size.D])
    X, labels = draw_mixture(rng, n_clusters=size.K, n_samples=size.N, n_features=size.D)
    annotations = draw_annotations(rng, labels, p=0.9, m=size.m)
    layers = layers_from_annotations(annotations, 0.9)
    return build_problem(X, layers, n_clusters=size.K, model=model, covariance=covariance).data


def start(data: Data, state: State, rng: np.random.Generator) -> None:
    """Put a partition into `state` as for an offspring: every sample at the closest of K centroids."""
    centroids = np.zeros((data.X.shape[1], data.n_clusters))
    seed_centroids(data, state, rng, centroids, 1)
    assign_closest(data, state, centroids)
    repair(data, state, centroids)


def cost(size: Size, model: str) -> Cost:
    """Return the CPU time of one to five local searches, and of the candidates of their last solution."""
    data = problem(size, model)
    state = new_state(data)
    rng = np.random.default_rng(0)
    seconds: list[float] = []
    while len(seconds) < 5 and sum(seconds) < 2.0:
        start(data, state, rng)
        start_time = time.process_time()
        local_search(data, state, rng)
        seconds.append(time.process_time() - start_time)
    n_evaluated = int(state.counters[EVALUATIONS])
    collect(data, state)
    sweep_candidates(data, state, 1)
    n_candidates = len(data.annotated) * (data.n_clusters - 1)
    repeats = max(1, 2_000_000 // n_candidates)
    start_time = time.process_time()
    sweep_candidates(data, state, repeats)
    candidate = (time.process_time() - start_time) / (repeats * n_candidates)
    return Cost(
        1e3 * sum(seconds) / len(seconds),
        1e9 * sum(seconds) / n_evaluated,
        1e9 * candidate,
        state.counters[RELOCATIONS] / n_evaluated,
    )


def shape_costs(model: str) -> NDArray[np.float64]:
    """Return CPU nanoseconds of a candidate by shape and dimension: the least of several rounds."""
    states = {}
    for covariance, d in product(COVARIANCES, DIMENSIONS):
        data = problem(replace(BASE, D=d), model, covariance)
        state = new_state(data)
        start(data, state, np.random.default_rng(0))
        collect(data, state)
        sweep_candidates(data, state, 1)
        states[covariance, d] = data, state
    nanoseconds = np.full((len(states), ROUNDS), np.inf)
    for turn, (place, (data, state)) in product(range(ROUNDS), enumerate(states.values())):
        n_candidates = len(data.annotated) * (data.n_clusters - 1)
        repeats = max(1, 300_000 // n_candidates)
        start_time = time.process_time()
        sweep_candidates(data, state, repeats)
        nanoseconds[place, turn] = 1e9 * (time.process_time() - start_time) / (repeats * n_candidates)
    minimum: NDArray[np.float64] = nanoseconds.min(axis=1)
    return minimum.reshape(len(COVARIANCES), len(DIMENSIONS))


def shape_rows(costs: dict[str, NDArray[np.float64]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each shape and model."""
    x = np.array(DIMENSIONS[1:], dtype=np.float64)
    for model, table in costs.items():
        for covariance, cells in zip(COVARIANCES, table, strict=True):
            times = (f"{cell:.0f}" for cell in cells)
            ratio = cells[1] / table[0, 1]
            yield f"{covariance}, {model}", *times, f"{ratio:.2f}", f"{slope(x, cells[1:]):.2f}"


def slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return the exponent of the power law through the points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def rows(costs: dict[tuple[str, str], list[Cost]]) -> Iterator[tuple[str, ...]]:
    """Yield CPU time of a candidate along each axis, with slopes over all and the upper two points."""
    for axis, model in costs:
        x = np.array([getattr(size, axis) for size in AXES[axis]], dtype=np.float64)
        y = np.array([cost.candidate for cost in costs[axis, model]])
        title = f"{'N = m' if axis == 'N' else axis} = {x[0]:.0f} … {x[-1]:,.0f}"
        yield (
            f"{title if model == MODELS[0] else 'the same'}, {model}",
            f"{y[0]:.0f}",
            f"{y[-1]:.0f}",
            f"{slope(x, y):.2f}",
            f"{slope(x[-2:], y[-2:]):.2f}",
        )


def searches(axis: str, model: str, costs: list[Cost]) -> Iterator[str]:
    """Yield lines on whole local searches along one axis, which the text beside the table quotes."""
    x = np.array([getattr(size, axis) for size in AXES[axis]], dtype=np.float64)
    for value, cost in zip(x, costs, strict=True):
        yield (
            f"{model}, {axis} = {value:.0f}: {cost.search:.3f} ms a search, {cost.tried:.1f} ns tried,"
            f" {100 * cost.relocations:.2f} % relocated"
        )
    for name in ("search", "tried"):
        y = np.array([getattr(cost, name) for cost in costs])
        yield f"{model}, {axis}: slope of {name} {slope(x, y):.2f}, at the end {slope(x[-2:], y[-2:]):.2f}"


def draw(costs: dict[tuple[str, str], list[Cost]], shapes: dict[str, NDArray[np.float64]]) -> None:
    """Draw time per local search above and per candidate below, a column per axis; shapes in the last one."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    size = 2, len(AXES) + 1
    figure, panels = plt.subplots(*size, figsize=(13, 5.2), sharey="row", layout="constrained")
    for column, (axis, sizes) in enumerate(AXES.items()):
        x = np.array([getattr(size, axis) for size in sizes], dtype=np.float64)
        for row, name in enumerate(("search", "candidate")):
            panel = panels[row, column]
            for model, mark in zip(MODELS, "os", strict=True):
                y = np.array([getattr(cost, name) for cost in costs[axis, model]])
                label = f"{model}, slope {slope(x, y):.2f}"
                panel.loglog(x, y, marker=mark, markersize=4, linewidth=1.2, label=label)
            panel.legend(fontsize=7, frameon=False, loc="upper left" if row == 0 else "upper right")
            panel.grid(alpha=0.3)
            panel.set_xticks(x, [f"{value:,.0f}" for value in x], fontsize=7, rotation=30)
            panel.minorticks_off()
        panels[1, column].set_xlabel(axis)
    for place, (model, table) in enumerate(shapes.items()):
        panel = panels[1, -1] if place == 0 else panels[0, -1].inset_axes((0, 0, 1, 1))
        panel.set_title(f"ns per candidate, shapes, {model}", fontsize=8)
        for covariance, cells, mark in zip(COVARIANCES, table, "osD^v", strict=True):
            label = f"{covariance}, slope {slope(np.array(DIMENSIONS[1:], dtype=float), cells[1:]):.2f}"
            panel.loglog(DIMENSIONS, cells, marker=mark, markersize=4, linewidth=1.2, label=label)
        panel.legend(fontsize=6, frameon=False, loc="upper left")
        panel.grid(alpha=0.3)
        panel.set_xticks(DIMENSIONS, [str(d) for d in DIMENSIONS], fontsize=7)
        panel.minorticks_off()
        panel.set_ylim(5, 3000)
        panel.set_yticks([10, 100, 1000], ["10", "100", "1000"], fontsize=7)
    panels[0, -1].set_axis_off()
    panels[1, -1].set_xlabel("D")
    panels[1, 0].set_ylim(2, 3000)
    panels[1, 0].set_yticks([3, 10, 30, 100, 300, 1000], ["3", "10", "30", "100", "300", "1000"])
    panels[0, 0].set_ylabel("CPU ms per local search")
    panels[1, 0].set_ylabel("CPU ns per candidate")
    base = f"N = {BASE.N}, m = {BASE.m}, K = {BASE.K}, D = {BASE.D} but for the axis (m = N along N)"
    figure.suptitle(f"Mixtures, {base}", fontsize=10)
    (path,) = (ROOT / "docs").rglob("growth.png")
    figure.savefig(path, dpi=110)


def resident_memory(key: str) -> float:
    """Return the resident memory of this process in MiB: `VmRSS` now, `VmHWM` at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def memory() -> str:
    """Return how far a search of the large problem goes beyond a process that only holds its data."""
    warm_up()
    rng = np.random.default_rng(0)
    X, labels = draw_mixture(rng, n_clusters=LARGE.K, n_samples=LARGE.N, n_features=LARGE.D)
    annotations = draw_annotations(rng, labels, p=0.9, m=LARGE.m)
    gc.collect()
    old_memory = resident_memory("VmRSS")
    layers = layers_from_annotations(annotations, 0.9)
    data = build_problem(X, layers, n_clusters=LARGE.K, model="posterior").data
    for array in new_population(data, 20):
        array.fill(1)  # memory that was never written is not resident
    state = new_state(data)
    start(data, state, rng)
    start_time = time.process_time()
    local_search(data, state, rng)
    seconds = time.process_time() - start_time
    extra = resident_memory("VmHWM") - old_memory
    return (
        f"N = {LARGE.N}, m = {LARGE.m}, K = {LARGE.K}, D = {LARGE.D}, posterior: "
        f"at most {extra:.0f} MiB above the process that holds the data ({X.nbytes / 2**20:.0f} MiB); "
        f"{seconds:.1f} s a local search"
    )


def measure() -> dict[str, str]:
    """Measure along all axes, draw, and measure the memory."""
    warm_up()
    cost(Size(N=200, m=200, K=3, D=2), "posterior")
    costs = {
        (axis, model): [cost(size, model) for size in sizes]
        for axis, sizes in AXES.items()
        for model in MODELS
    }
    shapes = {model: shape_costs(model) for model in ("posterior", "conditional")}
    draw(costs, shapes)
    lines = [line for (axis, model), group in costs.items() for line in searches(axis, model, group)]
    # A process of its own, because memory that was once used here would hide the need of the large problem.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        lines.append(pool.submit(memory).result())
    return {
        TABLE.name: TABLE.markdown(rows(costs)),
        SHAPES.name: SHAPES.markdown(shape_rows(shapes)),
        "beside the table": "\n".join(lines),
    }
