"""Files of many links: `python -m benchmarks links [--write]`, ten minutes.

A table of 60,000 rows has up to 5,000,000 links as text, CSV, parquet and npz, and nine of ten links are
right. Every run is a process of its own. One reads the file, and another is `sweep fit` of the table with it.
The table of passes has local searches of one problem with more and more pairs.
"""

import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from growth import Size, problem, start
from large import Size as Mixture
from large import problem_of
from numpy.typing import NDArray
from solving.entries import local_search
from tables import Table

from sweep_clustering.kernels.partition.statistics import new_state
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.search.genetic import warm_up
from sweep_clustering.pipeline.commands.main import main as sweep
from sweep_clustering.sweeps.annotations.files import PairFile
from sweep_clustering.sweeps.annotations.rows import Samples

READ = Table("links", ("file", "links", "size, MB", "to read, s of CPU", "GiB"))
FITS = Table("links/fit", ("links", "sweep fit, s", "s of CPU", "GiB", "ARI"))
PASSES = Table("links/passes", ("pairs", "local search, s of CPU", "times", "times as many pairs"))
TABLES = (READ, FITS, PASSES)

MIXTURE = Mixture(60_000, 10, 20, 1.6)
RIGHT = 0.9
COUNTS = (500_000, 5_000_000)
WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    "txt": lambda links, path: links.to_csv(path, index=False, header=False, sep=" "),
    "csv": lambda links, path: links.to_csv(path, index=False),
    "parquet": lambda links, path: links.to_parquet(path),
    "npz": lambda links, path: np.savez(
        path, i=links["i"], j=links["j"], kind=(links["kind"] == "must").astype(np.int8)
    ),
}
FORMAT = "parquet"
# A local search of ten features and clusters, where pairs are most of the work.
SEARCHES = tuple(Size(60_000, m, 10, 10) for m in (500_000, 1_000_000, 2_000_000, 4_000_000))


def links_of(labels: NDArray[np.int64], count: int) -> pd.DataFrame:
    """Draw random pairs of different rows with answers."""
    rng = np.random.default_rng(count)
    n = len(labels)
    i = rng.integers(0, n, count)
    j = (i + rng.integers(1, n, count)) % n
    is_must = (labels[i] == labels[j]) == (rng.random(count) < RIGHT)
    return pd.DataFrame({"i": i, "j": j, "kind": np.where(is_must, "must", "cannot")})


def run_alone(run: Callable[..., None], *arguments: Any) -> tuple[float, float, float]:
    """Return seconds, seconds of CPU and GiB of a run in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_run, run, *arguments).result()


def _run(run: Callable[..., None], *arguments: Any) -> tuple[float, float, float]:
    start_time, cpu_start = time.perf_counter(), time.process_time()
    run(*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return time.perf_counter() - start_time, time.process_time() - cpu_start, peak


def read(path: Path, n_samples: int) -> None:
    """Read a file of annotations as a fit does."""
    file = PairFile.of(path)
    file.mentions  # noqa: B018  # the fit asks first whether rows are counted from 0
    file.table(Samples.of(n_samples).counted_from(0))


def fit(folder: Path, path: Path) -> None:
    """Run the command, with everything chosen."""
    output = ("--out", str(folder / "labels.csv"), "--force")
    settings = ("-k", str(MIXTURE.n_classes), "--first-row", "0", "--seed", "0")
    sweep(
        ["fit", str(folder / "x.npy"), "--annotations", str(path), *settings, *output], standalone_mode=False
    )


def passes() -> list[tuple[str, ...]]:
    """Return the cost of two local searches for each number of pairs."""
    cpu_seconds = []
    for size in SEARCHES:
        data = problem(size, "posterior")
        state, seconds = new_state(data), 0.0
        for seed in range(2):
            rng = np.random.default_rng(seed)
            start(data, state, rng)
            start_time = time.process_time()
            local_search(data, state, rng)
            seconds += time.process_time() - start_time
        cpu_seconds.append(seconds / 2)
    fewest = SEARCHES[0].m
    return [
        (f"{size.m:,}", f"{cpu:.1f}", f"{cpu / cpu_seconds[0]:.1f}", f"{size.m / fewest:.0f}")
        for size, cpu in zip(SEARCHES, cpu_seconds, strict=True)
    ]


def measure() -> dict[str, str]:
    """Return the tables of the documents."""
    reads: list[tuple[str, ...]] = []
    fits: list[tuple[str, ...]] = []
    mixture = problem_of(MIXTURE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "x.npy", mixture.X)
        for count in COUNTS:
            links = links_of(mixture.labels, count)
            for ending, write in WRITERS.items():
                path = folder / f"links.{ending}"
                write(links, path)
                _, cpu, size = run_alone(read, path, len(mixture.X))
                megabytes = path.stat().st_size / 1e6
                reads.append((ending, f"{count:,}", f"{megabytes:.0f}", f"{cpu:.1f}", f"{size:.2f}"))
            cost = run_alone(fit, folder, folder / f"links.{FORMAT}")
            labels = pd.read_csv(folder / "labels.csv")["label"].to_numpy()
            score = f"{adjusted_rand(mixture.labels, labels):.3f}"
            fits.append((f"{count:,}", f"{cost[0]:.0f}", f"{cost[1]:.0f}", f"{cost[2]:.2f}", score))
    warm_up()
    tables = ((READ, reads), (FITS, fits), (PASSES, passes()))
    return {table.name: table.markdown(rows) for table, rows in tables}
