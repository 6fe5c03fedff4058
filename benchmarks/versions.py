"""This version beside an earlier commit: `python -m benchmarks versions --before COMMIT [--write]`.

The benchmark measures fits without options, and `sweep fit` and `sweep report` as whole commands. Each is a
process of its own, and both versions take turns with the libraries of this environment. Three turns take half
an hour.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from checkout import ROOT
from tables import Sentence, Table, show

from sweep_clustering import open_cube

ONE_FIT = Path(__file__).with_name("one_fit.py")
COSTS = Table("versions", ("what", "CPU s before", "now", "ratio", "ARI before", "now"))
MEMORY = Table("versions/memory", ("fit of 20,000 × 768, K = 20", "before", "now"))
MEAN = Sentence(
    "versions/mean", "The geometric mean of the ratios of the five fits is {}, the median of {} turns each."
)
TABLES = (COSTS, MEMORY, MEAN)
LARGE = (20_000, 768, 20, 0.2)
FITS = (
    (200, 10, 4, 1.0),
    (600, 6, 5, 1.0),
    (1_000, 50, 20, 0.5),
    (5_000, 64, 20, 0.4),
    (20_000, 64, 20, 0.4),
)


CELLS = """name = "cells"
seed = 1
[grid]
datasets = ["iris", "wine", "wdbc", "digits-389"]
p = [0.9]
m = ["1N"]
replicates = 2
models = ["conditional-any"]
restarts = 10
[data]
scale = "standard"
"""


class Cost(NamedTuple):
    """CPU seconds; for a fit also its memory in copies of the table, and its ARI."""

    seconds: float
    tables: float = np.nan
    ari: float = np.nan


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which a checkout is imported, on one thread of linear algebra.

    The first call of a command writes bytecode, as an installation does, so that later calls compile nothing.
    """
    variables = {"PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, **variables}


def fit_cost(checkout: Path, size: tuple[float, ...], threads: int) -> Cost:
    """Measure one fit by the package of a checkout."""
    arguments = [sys.executable, str(ONE_FIT), *map(str, size), str(threads)]
    # The folder of this file is not in the path: its modules may have names of the other version.
    ran = subprocess.run(arguments, env=environment(checkout), check=True, capture_output=True, text=True)
    return Cost(**json.loads(ran.stdout))


def command_cost(checkout: Path, *arguments: str) -> Cost:
    """Measure the CPU seconds of a whole command of a checkout, on one thread."""
    start = os.times()
    command = [sys.executable, "-m", "sweep_clustering", *arguments]
    subprocess.run(command, env=environment(checkout), check=True, capture_output=True, cwd=checkout)
    end = os.times()
    seconds = end.children_user + end.children_system - start.children_user - start.children_system
    return Cost(seconds)


def small_files(folder: Path) -> tuple[str, ...]:
    """Write a table of 200 × 10 with annotations, and return the command that fits it."""
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=200)
    X = rng.standard_normal((200, 10)) + rng.standard_normal((4, 10))[labels]
    np.savetxt(folder / "table.csv", X, delimiter=",")
    pairs = rng.integers(200, size=(200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    must = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) ^ (rng.random(len(pairs)) > 0.9)
    kinds = np.where(must, "must", "cannot").tolist()
    lines = [f"{i},{j},{kind}" for (i, j), kind in zip(pairs.tolist(), kinds, strict=True)]
    (folder / "answers.csv").write_text("\n".join(["i,j,kind", *lines, ""]), encoding="ascii")
    files = (str(folder / "table.csv"), "--annotations", str(folder / "answers.csv"))
    return ("fit", *files, "-k", "4", "--first-row", "0", "--jobs", "1")


def measurements(folder: Path) -> Iterator[tuple[str, Callable[[Path], Cost]]]:
    """Yield each measurement by its name, as a function of a checkout."""
    for size in FITS:
        n, d, k, _ = size
        yield f"fit of {n:,} × {d}, K = {k}", lambda checkout, size=size: fit_cost(checkout, size, 1)  # type: ignore[misc]
    fit = small_files(folder)
    yield "`sweep fit`, 200 × 10, the whole command", lambda checkout: command_cost(checkout, *fit)

    (folder / "cells.toml").write_text(CELLS, encoding="ascii")

    def cells_cost(checkout: Path) -> Cost:
        """Measure the CPU seconds in kernels for all cells of a sweep, without the starts of processes."""
        results = tempfile.mkdtemp(dir=folder)
        command_cost(checkout, "submit", str(folder / "cells.toml"), "--results", results)
        nodes = open_cube(Path(results) / "cells.zarr").subtree
        return Cost(sum(float(node["cpu_seconds"].sum()) for node in nodes if "cpu_seconds" in node))

    yield "eight cells of `conditional-any` in a sweep", cells_cost

    def report_cost(checkout: Path) -> Cost:
        """Measure the report of a cube that this version computed."""
        results = folder / f"results-{checkout.name}"
        if not results.exists():
            command_cost(checkout, "submit", "sweeps/quick.toml", "--results", str(results))
        return command_cost(
            checkout, "report", str(results / "quick.zarr"), "--out", tempfile.mkdtemp(dir=folder)
        )

    yield "`sweep report` of `quick.toml`", report_cost


@click.command()
@click.option("--before", required=True, help="Commit to compare with.")
@click.option("--turns", default=3, show_default=True, help="Turns of each measurement.")
@click.option("--write", is_flag=True, help="Put the tables into the documents.")
def main(before: str, turns: int, write: bool) -> None:
    """Measure both versions in turn."""
    is_commit = ["git", "cat-file", "-e", f"{before}^{{commit}}"]
    if subprocess.run(is_commit, cwd=ROOT, check=False, capture_output=True).returncode:
        raise click.BadParameter(f"found {before}, expected a commit of this repository")
    with tempfile.TemporaryDirectory() as name:
        folder, old = Path(name), Path(name) / "before"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(old), before], cwd=ROOT, check=True)
        try:
            _measure(folder, old, turns, write)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(old)], cwd=ROOT, check=True)


def _measure(folder: Path, old: Path, turns: int, write: bool) -> None:
    rows, ratios = [], []
    for name, cost in measurements(folder):
        for checkout in (old, ROOT):
            cost(checkout)  # The first call compiles, and fills caches.
        costs = np.array([[cost(checkout) for checkout in (old, ROOT)] for _ in range(turns)])
        seconds, aris = np.median(costs[:, :, 0], axis=0), costs[0, :, 2]
        ratios.append(float(np.median(costs[:, 1, 0] / costs[:, 0, 0])))
        ari_texts = ["" if np.isnan(ari) else f"{ari:.3f}" for ari in aris]
        rows.append((name, f"{seconds[0]:.2f}", f"{seconds[1]:.2f}", f"{ratios[-1]:.2f}", *ari_texts))
        click.echo("  ".join(rows[-1]), err=True)
    tables = np.median([[fit_cost(path, LARGE, 2).tables for path in (old, ROOT)] for _ in range(turns)], 0)
    peak = "most memory above the start, in tables of 8 N D bytes"
    mean = np.exp(np.log(ratios[: len(FITS)]).mean())
    texts = {COSTS.name: COSTS.markdown(rows), MEAN.name: MEAN.form.format(f"{mean:.2f}", turns)}
    texts[MEMORY.name] = MEMORY.markdown([(peak, *(f"{value:.1f}" for value in tables))])
    show(texts, write=write)
