"""The cost of a sweep beside the solver: `python -m benchmarks scale COMMAND`.

    plan     a sweep of a million cells: every command that looks at it, and the making of its cube
    empty    restarts of no work, or of a sleep, through the real path: overhead, memory, blocks
    many     cost of the head if it has many workers that sleep or have no work
    heads    cost of several heads at once, each with a part of one sweep; --write puts it into the page
    tls      batches of no work with TLS and in plain tcp, in turn
    busy     share of the workers' wall time that is spent in the solver, on a part of the real sweep

docs/explanation/scale.md has the figures and what follows from them.
"""

import logging
import os
import tempfile
import time
import timeit
import tomllib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import numpy as np
import psutil
from checkout import ROOT
from distributed import LocalCluster
from light_workers import light_cluster
from processes.sweeping import batches_of
from rich.console import Console
from tables import Sentence, Table, show
from watching import CPU_SOURCES, NoWork, Watch, cpu_seconds, watch_executors

from sweep_clustering.pipeline.cluster import connect
from sweep_clustering.pipeline.cluster.executor import DaskExecutor
from sweep_clustering.pipeline.cluster.profiles import Local, Profile
from sweep_clustering.pipeline.common import core_count
from sweep_clustering.pipeline.jobs.cluster import new_credentials
from sweep_clustering.pipeline.monitor.status import read_status
from sweep_clustering.pipeline.run.request import Options, Selection, is_settled, prepare
from sweep_clustering.pipeline.submit.overview import plan_overview
from sweep_clustering.pipeline.submit.submission import submit
from sweep_clustering.pipeline.work.records import Science, Span, Task
from sweep_clustering.pipeline.work.timing import Timing, make_batches
from sweep_clustering.storage.cube.blocks import failed_cells
from sweep_clustering.storage.cube.growth import create, open_cube
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.spec import part_of

NO_WORK = (
    "run",
    "blocks",
    "driver, a batch",
    "scheduler and I/O, a batch",
    "workers, a batch",
    "memory at first, half way, at last",
    "journal",
)
IN_FEW = ("`empty --restarts 10`, quiet: 100,000 restarts", "µs a restart", "blocks/s", *NO_WORK[2:4])
TLS = Sentence(
    "scale/tls",
    "With TLS {} batches/s of no work, {} in plain tcp: a turn of {} batches takes {} times as long (median "
    "of {} turns), and a batch {} ms of CPU in all processes in place of {}. Credentials are made in {} ms "
    "at best.",
)
LIGHT = (
    *("light workers, batches", "batches/s", "driver, a batch", "scheduler and I/O, a batch"),
    *("head's share of a core", "memory", "open files"),
)
HEADS = (
    *(
        "heads, light workers in all",
        "batches",
        "batches/s in all",
        "driver, a batch",
        "scheduler and I/O, a batch",
    ),
    *("a head's share of a core", "memory of a head", "open files of a head"),
)
# The second table joins runs of `empty` on a quiet machine and on a busy one by hand.
TABLES = (
    *(Table("scale/no_work", NO_WORK), Table("scale/workers", IN_FEW), TLS, Table("scale/many", LIGHT)),
    Table("scale/heads", HEADS),
)
SWEEP = """name = "scale"
seed = 1
[grid]
datasets = {datasets}
p = {p}
m = {m}
replicates = {replicates}
models = ["likelihood", "posterior"]
restarts = {restarts}
[search]
method = "published"
"""


def open_cluster(**options: Any) -> LocalCluster:
    """Return a cluster without TLS, in place of a local cluster; anybody on this machine can use it."""
    return LocalCluster(**{**options, "security": None})


def run(
    spec: Path, restarts: int, seconds: float | None, *, batch: int | None = None, **choices: Any
) -> Watch:
    """Submit a sweep file into its own folder, watched, with so many restarts in each batch."""
    part = choices.get("part")
    name = load_sweep(spec).name if part is None else part_of(load_sweep(spec), part).name
    watch = Watch(restarts, spec.parent / f"{name}.run")
    batches = make_batches if batch is None else batches_of(batch)
    with watch_executors(watch, seconds), patch("sweep_clustering.pipeline.run.head.make_batches", batches):
        code = submit(spec, Options(results=spec.parent, **choices), Console(stderr=True))
    if code != 0 or watch.n_done != restarts:
        raise RuntimeError(f"exit code {code}, {watch.n_done} of {restarts} restarts")
    return watch


def write_sweep(folder: Path, datasets: str, sides: tuple[int, int, int], restarts: int) -> Path:
    """Put a sweep file of so many accuracies, annotation counts and replicates into a folder."""
    p = [round(0.5 + 0.5 * (k + 1) / sides[0], 6) for k in range(sides[0])]
    counts = list(range(1, sides[1] + 1))
    path = folder / "scale.toml"
    path.write_text(SWEEP.format(datasets=datasets, p=p, m=counts, replicates=sides[2], restarts=restarts))
    return path


def print_row(*fields: object) -> None:
    """Print a line of a table."""
    click.echo("".join(f"{field!s:>12}" for field in fields))


@click.group(help=__doc__)
def main() -> None:
    """See above."""
    logging.basicConfig(level=logging.WARNING)


@main.command()
@click.option("--datasets", default='["iris"]', show_default=True, help="Data sets, as in a sweep file.")
@click.option("--sides", type=(int, int, int), default=(100, 100, 50), show_default=True)
def plan(datasets: str, sides: tuple[int, int, int]) -> None:
    """Time every command that looks at a sweep: accuracies, counts and replicates of SIDES, two models."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_sweep(Path(folder), datasets, sides, 50)
        load = partial(prepare, path, results=Path(folder), data_dir=None)
        prepared = load()
        cells = sum(plan.n_cells for plan in prepared.inputs.plans)
        blocks = sum(1 for plan in prepared.inputs.plans for _ in plan.blocks())
        click.echo(f"{cells:,} cells in {blocks:,} blocks")
        cube, inputs = prepared.cube, prepared.inputs
        steps: dict[str, Callable[[], object]] = {
            "prepare": load,
            "plan": lambda: plan_overview(prepared),
            "create": lambda: create(cube, inputs.plans, inputs.stacked, prepared.spec),
            "is settled": lambda: is_settled(prepared, Selection()),
            "failed cells": lambda: failed_cells(cube, inputs.plans),
            "status": lambda: read_status(cube).lines(),
            "open_cube": lambda: open_cube(cube),
        }
        for name, step in steps.items():
            start_time = time.perf_counter()
            step()
            memory = psutil.Process().memory_info().rss / 1e6
            click.echo(f"{name:<14}{time.perf_counter() - start_time:8.2f} s   memory now {memory:6.0f} MB")
        files = sum(len(names) for _, _, names in os.walk(cube))
        root = (cube / "zarr.json").stat().st_size
        click.echo(f"{files} files in the empty cube, its root file {root:,} bytes")


@main.command()
@click.option("--sides", type=(int, int, int), default=(10, 10, 50), show_default=True)
@click.option("--restarts", default=50, show_default=True, help="Restarts of each cell.")
@click.option("--workers", multiple=True, type=int, default=(0, 1, 2, 8), show_default=True)
@click.option("--sleep", "seconds", default=0.0, help="Seconds that a restart sleeps.")
@click.option("--batch", default=100, show_default=True, help="Restarts of a batch.")
def empty(
    sides: tuple[int, int, int], restarts: int, workers: tuple[int, ...], seconds: float, batch: int
) -> None:
    """Time restarts of no work: accuracies, counts and replicates of SIDES, two models."""
    total = 2 * int(np.prod(sides)) * restarts
    blocks = sides[0] * sides[1]
    click.echo(f"{total:,} restarts of {total // restarts:,} cells in {blocks:,} blocks, {batch} a batch")
    print_row("workers", "wall s", "us/restart", "ideal %", "blocks/s", "ms/batch", *CPU_SOURCES)
    for count in workers:
        with tempfile.TemporaryDirectory() as folder:
            spec = write_sweep(Path(folder), '["iris"]', sides, restarts)
            watch = run(spec, total, seconds, workers=count, batch=batch)
        print_row(
            count,
            f"{watch.wall:.1f}",
            f"{1e6 * watch.wall / total:.0f}",
            f"{100 * seconds * total / max(count, 1) / watch.wall:.1f}",
            f"{blocks / watch.wall:.1f}",
            *(f"{1e3 * cost / watch.batches:.2f}" for cost in (watch.wall, *map(watch.cpu_of, CPU_SOURCES))),
        )
        sizes = [size / 1e6 for _, size in watch.samples]
        click.echo(
            f"    driver and scheduler hold {sizes[0]:.0f} MB at first, "
            f"{sizes[len(sizes) // 2]:.0f} half way, {sizes[-1]:.0f} at last, "
            f"{watch.slope():+.1f} B/restart in the second half; journal at most "
            f"{watch.journal_bytes / 1e6:.1f} MB; {watch.taking:.1f} s of the wall for merging and writing"
        )


@main.command()
@click.option("--workers", multiple=True, type=int, default=(2, 64, 256), show_default=True)
@click.option("--processes", default=4, show_default=True, help="Processes that share the workers.")
@click.option("--sleep", "seconds", default=0.0, help="Seconds that a restart sleeps.")
@click.option("--batch", default=100, show_default=True, help="Restarts of a batch.")
@click.option(
    "--rounds", default=20.0, show_default=True, help="Batches of each worker; 1,000 in all at least."
)
def many(workers: tuple[int, ...], processes: int, seconds: float, batch: int, rounds: float) -> None:
    """Measure the cost of the head for workers that are threads of a few processes of this machine."""
    print_row("workers", "batches", "wall s", "batches/s", "ms/batch", *CPU_SOURCES, "head %", "MB", "files")
    for count in workers:
        n_batches = max(1000, int(rounds * count))
        replicates = max(1, round(n_batches * batch / (2 * 50 * 25)))
        total = 2 * 25 * replicates * 50
        with tempfile.TemporaryDirectory() as folder, light_cluster(processes):
            spec = write_sweep(Path(folder), '["iris"]', (5, 5, replicates), 50)
            watch = run(spec, total, seconds, workers=count, batch=batch)
        head = watch.cpu_of("driver") + watch.cpu_of("scheduler")
        print_row(
            count,
            watch.batches,
            f"{watch.wall:.1f}",
            f"{watch.batches / watch.wall:.1f}",
            *(f"{1e3 * cost / watch.batches:.2f}" for cost in (watch.wall, *map(watch.cpu_of, CPU_SOURCES))),
            f"{100 * head / watch.wall:.0f}",
            f"{max(size for _, size in watch.samples) / 1e6:.0f}",
            watch.open_files,
        )


# Figures of a head for all of its batches, from the first to the last one.
Figures = dict[str, float]


@main.command()
@click.option(
    "--cases",
    type=(int, int),
    multiple=True,
    default=((1, 500), (1, 1000), (1, 2000), (2, 2000), (4, 2000)),
    show_default=True,
    help="Heads, and workers of all of them together.",
)
@click.option(
    "--processes", default=8, show_default=True, help="Processes that share the workers of all heads."
)
@click.option("--sleep", "seconds", default=2.0, show_default=True, help="Seconds that a restart sleeps.")
@click.option("--batch", default=10, show_default=True, help="Restarts of a batch.")
@click.option("--rounds", default=1.5, show_default=True, help="Batches of each worker.")
@click.option("--write", is_flag=True, help="Put the table into the page.")
def heads(
    cases: tuple[tuple[int, int], ...], processes: int, seconds: float, batch: int, rounds: float, write: bool
) -> None:
    """Measure several heads at once, each with a part of one sweep and its share of the light workers.

    The parts are then opened as one, and all of their cells must be done.
    """
    rows = []
    for count, workers in cases:
        replicates = max(1, round(rounds * workers / count * batch / (2 * 25 * 50)))
        with tempfile.TemporaryDirectory() as folder:
            mixture = f"mixture = {{count = {count}, n_samples = 150, n_features = 4, n_clusters = [3]}}"
            spec = write_sweep(Path(folder), f'[{{name = "light", {mixture}}}]', (5, 5, replicates), 50)
            total = 2 * 25 * 50 * replicates
            context = get_context("spawn")
            queue = context.Queue()
            shares = (spec, total, seconds, workers // count, max(1, processes // count), batch)
            parts = [f"{number}/{count}" if count > 1 else None for number in range(1, count + 1)]
            head_processes = [context.Process(target=head, args=(queue, part, *shares)) for part in parts]
            for process in head_processes:
                process.start()
            # A head that fails ends without figures, and the others continue to their end.
            for process in head_processes:
                while process.is_alive() and queue.qsize() < count:
                    time.sleep(0.5)
            if queue.qsize() < count:
                raise RuntimeError("a head has failed")
            figures: list[Figures] = [queue.get() for _ in head_processes]
            for process in head_processes:
                process.join()
            tree = open_cube(sorted(Path(folder).glob("*.zarr")))
            if not bool((tree["light_k3"]["status"] == 1).all()):
                raise RuntimeError("cells are not done")
        batches, wall = (sum(figure[key] for figure in figures) for key in ("batches", "wall"))
        costs = [1e3 * sum(figure[source] for figure in figures) / batches for source in CPU_SOURCES[:2]]
        rate = sum(figure["batches"] / figure["wall"] for figure in figures)
        share = 100 * sum(figure[source] for figure in figures for source in CPU_SOURCES[:2]) / wall
        memory, files = (max(figure[key] for figure in figures) for key in ("memory", "files"))
        rows.append(
            (
                f"{count}, {workers:,}",
                f"{batches:,.0f} of {batch * seconds:g} s",
                f"{rate:.1f}",
                *(f"{milliseconds:.2f}" for milliseconds in costs),
                f"{share:.0f} %",
                f"{memory / 1e6:.0f} MB",
                f"{files:,.0f}",
            )
        )
        # The table is written after each case because later cases take long.
        show({"scale/heads": Table("scale/heads", HEADS).markdown(rows)}, write=write)


def head(
    queue: Any,
    part: str | None,
    spec: Path,
    total: int,
    seconds: float,
    workers: int,
    processes: int,
    batch: int,
) -> None:
    """Run a head of light workers in this process, and put its figures into a queue."""
    logging.basicConfig(level=logging.WARNING)
    with light_cluster(processes):
        watch = run(spec, total, seconds, batch=batch, workers=workers, part=part)
    figures: Figures = {"batches": watch.batches, "wall": watch.wall, "files": watch.open_files}
    figures |= {source: watch.cpu_of(source) for source in CPU_SOURCES}
    queue.put(figures | {"memory": max(size for _, size in watch.samples)})


@main.command()
@click.option("--workers", default=2, show_default=True)
@click.option("--batches", default=100, show_default=True, help="Batches of a turn.")
@click.option("--turns", default=20, show_default=True, help="Turns of each cluster; one more warms up.")
def tls(workers: int, batches: int, turns: int) -> None:
    """Time batches of 20 restarts of no work on two local clusters, with TLS and in plain tcp, in turn."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        prepared = prepare(
            write_sweep(folder, '["iris"]', (1, 1, batches), 10), results=folder, data_dir=None
        )
        (plan,) = prepared.inputs.plans
        science = Science(prepared.spec.seed, prepared.spec.search, plan.n_clusters, prepared.spec.stop)
        work = [Span(cell, 0, plan.restarts) for block in plan.blocks() for cell in block.cells()]
        turn = list(make_batches(science, work, Timing(), seconds=20))
        executors = {}
        for name, cluster in (("tls", LocalCluster), ("tcp", open_cluster)):
            profile = Profile("local", Local(workers=workers, dashboard_port=0), None)
            with patch.object(connect, "LocalCluster", cluster):
                lease = stack.enter_context(Lease.acquire(folder / f"{name}.zarr"))
                client = stack.enter_context(connect.connect(profile, lease=lease))
            client.register_plugin(NoWork(0.0))
            executors[name] = DaskExecutor(client, prepared.inputs.sources)
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in executors}
        for number in range(turns + 1):
            for name in sorted(executors, reverse=number % 2 == 0):  # so that neither always comes first
                costs[name].append(time_batches(executors[name], turn))
    secure, insecure = (np.median(costs[name][1:], axis=0) for name in ("tls", "tcp"))
    rates = [f"{len(turn) / wall:.0f}" for wall, _ in (secure, insecure)]
    milliseconds = [f"{1e3 * cpu / len(turn):.1f}" for _, cpu in (secure, insecure)]
    ratio = np.median(np.array(costs["tls"][1:])[:, 0] / np.array(costs["tcp"][1:])[:, 0])
    credential_seconds = min(timeit.repeat(new_credentials, number=1, repeat=turns))
    click.echo(
        TLS.form.format(
            *rates, len(turn), f"{ratio:.2f}", turns, *milliseconds, f"{1e3 * credential_seconds:.1f}"
        )
    )


def time_batches(executor: DaskExecutor, turn: Iterable[Task]) -> tuple[float, float]:
    """Return the seconds of wall and of CPU in all processes that the batches take."""
    tasks, cpu_start, start_time = iter(turn), sum(cpu_seconds().values()), time.perf_counter()
    for outcomes in executor.results(lambda: next(tasks, None)):
        for _, outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
    return time.perf_counter() - start_time, sum(cpu_seconds().values()) - cpu_start


@main.command()
@click.option("--spec", type=click.Path(path_type=Path), default=ROOT / "sweeps" / "uci.toml")
@click.option(
    "--restarts", default=1, show_default=True, help="Restarts of each cell, in place of those of the file."
)
@click.option("--workers", default=core_count(), show_default=True)
@click.option("--data-dir", type=click.Path(path_type=Path), envvar="SWEEP_DATA_DIR")
def busy(spec: Path, restarts: int, workers: int, data_dir: Path | None) -> None:
    """Measure the share of workers x wall time, from the first batch to the last, that the solver takes."""
    text = spec.read_text()
    n_restarts = tomllib.loads(text)["grid"]["restarts"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / spec.name
        path.write_text(text.replace(f"restarts = {n_restarts}", f"restarts = {restarts}"))
        plans = prepare(path, results=Path(folder), data_dir=data_dir).inputs.plans
        total = restarts * sum(plan.n_cells for plan in plans)
        watch = run(path, total, None, workers=workers, data_dir=data_dir)
    cpu = {source: watch.cpu_of(source) for source in CPU_SOURCES}
    click.echo(f"{total:,} restarts in {watch.batches} batches, {watch.wall:.1f} s on {workers} workers")
    click.echo(f"in the solver: {100 * watch.kernel / (workers * watch.wall):.1f} % of workers x wall")
    words = ", ".join(f"{source} {seconds:.1f}" for source, seconds in cpu.items())
    share = 100 * cpu["workers"] / sum(cpu.values())
    click.echo(f"CPU seconds: {words}; of them the workers' {share:.1f} %")
