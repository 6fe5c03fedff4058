"""The `sweep` command: its group, and the commands on runs, plans, schemas and data sets.

Those on tables are in `fit`, those on cubes in `results`, those on methods in `methods`. A command loads what
it needs when it runs: help, and what is wrong with the words of a command line, come at once.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pipeline.commands.fit import ask, fit_command
from pipeline.commands.methods import methods
from pipeline.commands.options import (
    PLACE,
    STDOUT,
    cube_of,
    cube_or_spec_argument,
    data_dir_option,
    find_cube,
    find_run,
    find_spec,
    json_option,
    next_step,
    nobody_reads,
    reported,
    results_option,
    show,
    spec_argument,
    tell,
)
from pipeline.commands.results import compare, export, open_page, repair, report, verify
from pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL, PlainFormatter
from sweeps.errors import InputError, not_one_of

# Commands for runs in progress, waiting or ended: `sweep status`, `logs`, `cancel`, `why`.


@click.command()
@cube_or_spec_argument
@results_option
@json_option
def status(cube_or_spec: Path, results: Path, as_json: bool) -> None:
    """Show the progress of a cube, or of the cube of a sweep file; reads files only."""
    from pipeline.monitor.status import read_status

    with reported():
        state = read_status(find_run(cube_or_spec, results))
    tell(state, as_json, *(state.next_step or ()))


@click.command()
@cube_or_spec_argument
@results_option
@click.option("-n", "--lines", type=click.IntRange(min=0), default=20)
@click.option("-f", "--follow", is_flag=True, help="Keep showing what is added, until the run ends.")
@click.option("--head", is_flag=True, help="What a detached head printed, in place of the driver's log.")
@click.option("--job", metavar="ID", help="Logs of a worker job, by number or name.")
def logs(cube_or_spec: Path, results: Path, lines: int, follow: bool, head: bool, job: str | None) -> None:
    """Show the end of the driver's log, or of another log of a run."""
    from pipeline.monitor import runs as logs

    if head and job is not None:
        raise click.UsageError("--head and --job exclude each other")
    with reported():
        cube = find_run(cube_or_spec, results)
        paths = logs.find_logs(cube, head=head, job=job)
    for path in paths[: 1 if follow else None]:
        click.echo(f"==> {path} <==", err=True)
        for text in logs.follow(path, cube, lines=lines) if follow else logs.end_of(path, lines):
            click.echo(text, nl=False)
            if nobody_reads():
                return
    next_step("status", cube)


@click.command()
@cube_or_spec_argument
@results_option
def cancel(cube_or_spec: Path, results: Path) -> None:
    """End the run of a cube, head and workers; what was finished is kept."""
    from pipeline.monitor.cancel import CannotCancel
    from pipeline.monitor.cancel import cancel as end

    # records of another format version are bad input
    with reported():
        cube = find_run(cube_or_spec, results)
        try:
            end(cube, click.echo)
        except CannotCancel as error:
            click.echo(str(error), err=True)
            sys.exit(INTERNAL)
    next_step("status", cube)


@click.command()
@cube_or_spec_argument
@click.argument("cell", required=False)
@results_option
@json_option
def why(cube_or_spec: Path, cell: str | None, results: Path, as_json: bool) -> None:
    """Show the state of CELL, why it failed, and how to run it alone; without CELL, list the failed cells."""
    from pipeline.monitor.why import explain, failed_causes

    with reported():
        cube = find_cube(cube_or_spec, results)
        if cell is not None:
            tell(explain(cube, cell, cube_or_spec if cube_or_spec.suffix == ".toml" else None), as_json)
            return
        causes = failed_causes(cube)
    if as_json:
        show(causes)
        return
    show([f"{name}: {cause}" for name, cause in causes.items()] or ["no cell is marked failed"])
    next_step(*(("why", cube, next(iter(causes))) if causes else ("report", cube)))


# `sweep schema`: what an editor needs to complete and check the files people write.


@click.command()
@click.option("--cluster", is_flag=True, help="Of cluster.yaml, in place of the sweep file.")
def schema(cluster: bool) -> None:
    """Print the JSON Schema of the sweep file."""
    if cluster:
        from pipeline.cluster.profiles import cluster_schema as printed
    else:
        from sweeps.file.reading import sweep_schema as printed
    click.echo(printed(), nl=False)


# The `sweep datasets` commands.

names_argument = click.argument("names", nargs=-1, metavar="[NAME]...")


@click.group()
def datasets() -> None:
    """List, fetch and check the data sets known by name."""


@datasets.command("list")
@data_dir_option
@json_option
def list_datasets(data_dir: Path | None, as_json: bool) -> None:
    """Show sizes, licence, and where each data set would come from on this machine."""
    from sweeps.data.builtin import catalogue

    with reported():
        records = catalogue(data_dir)
    if as_json:
        click.echo(json.dumps([asdict(record) for record in records], indent=2))
        return
    click.echo(f"{'name':<16}{'N':>6}{'D':>4}{'K':>4}  source")
    for record in records:
        source = record.source or "not on this machine: sweep datasets fetch"
        click.echo(
            f"{record.name:<16}{record.n_samples:>6}{record.n_features:>4}{record.n_clusters:>4}  {source}"
        )
        click.echo(f"{'':<32}{record.licence}; {record.landing_page}")
        for reason in () if record.source else record.reasons:
            click.echo(f"{'':<32}{reason}")
    missing = not all(record.source for record in records)
    next_step(*(("datasets", "fetch") if missing else ("submit", "sweeps/uci.toml")))


@datasets.command("fetch")
@names_argument
@data_dir_option
def fetch_datasets(names: tuple[str, ...], data_dir: Path | None) -> None:
    """Download what is not on this machine yet (all by default), for nodes without a network."""
    from sweeps.data.builtin import Unavailable, find

    failed = False
    with reported():
        for name in _known(names):
            try:
                click.echo(f"{name}: {find(name, data_dir=data_dir).path}")
            except Unavailable as unavailable:
                failed = True
                click.echo(f"{name}: not available: {'; '.join(unavailable.reasons)}", err=True)
    if not failed:
        next_step("submit", "sweeps/uci.toml")
    sys.exit(INTERNAL if failed else COMPLETE)


@datasets.command("check")
@names_argument
@data_dir_option
@json_option
def check_datasets(names: tuple[str, ...], data_dir: Path | None, as_json: bool) -> None:
    """Verify the checksums of what is on this machine; exit with 1 if something is missing or damaged."""
    from sweeps.data.builtin import catalogue

    with reported():
        wanted = set(_known(names))
        records = [record for record in catalogue(data_dir) if record.name in wanted]
    if as_json:
        click.echo(json.dumps([asdict(record) for record in records], indent=2))
    else:
        for record in records:
            found = f"good, {record.source}" if record.source else f"MISSING: {'; '.join(record.reasons)}"
            click.echo(f"{record.name}: {found}")
        missing = [record.name for record in records if not record.source]
        next_step(*(("datasets", "fetch", *missing) if missing else ("submit", "sweeps/uci.toml")))
    sys.exit(COMPLETE if all(record.source for record in records) else INTERNAL)


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    from sweeps.data.registry import BUILTIN

    unknown = [name for name in names if name not in BUILTIN]
    if unknown:
        raise InputError(not_one_of("NAME", name, BUILTIN) for name in unknown)
    return names or tuple(BUILTIN)


INTERRUPTS = 128
"""A run that a signal ended has this and the number of the signal."""


class Echo(logging.Handler):
    """Log messages on stderr, wherever it points at the time of the message."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(PlainFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Show one message; a terminal that has been closed is no reason to fail."""
        with suppress(OSError):
            click.echo(self.format(record), err=True)


def set_verbose(ctx: click.Context, param: click.Parameter, verbose: bool) -> None:
    """Log more, where it is asked for: before the command, or behind it."""
    if verbose:
        ctx.find_root().obj = True
        _log(logging.DEBUG, "info")


def _log(level: int, of_distributed: str) -> None:
    # distributed sets its own level when it is imported, at which it logs every connection
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", of_distributed)
    for package in ("pipeline", "storage", "sweeps", "kernels"):
        logging.getLogger(package).setLevel(level)


verbose_option = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, callback=set_verbose, help="Log more on stderr."
)


class Sweep(click.Group):
    """Commands that Ctrl-C ends with the code of a run that a signal ended, a full disk with a message."""

    def main(self, *arguments: Any, **keywords: Any) -> Any:
        """Run a command line."""
        try:
            return super().main(*arguments, **keywords)
        except OSError as error:
            if error.filename != STDOUT:
                raise
            click.echo(f"{STDOUT}: {error.strerror}; what was shown is not all there is", err=True)
            sys.exit(INTERNAL)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from kernels.interrupt import leave

            click.echo("\ninterrupted", err=True)
            leave(INTERRUPTS + signal.SIGINT)


@click.group(cls=Sweep, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="sweep-clustering", prog_name="sweep")
@verbose_option
@click.pass_context
def main(ctx: click.Context) -> None:
    """Benchmark sweeps of semi-supervised clustering with inaccurate pairwise annotations."""
    root = logging.getLogger()
    if not any(isinstance(handler, Echo) for handler in root.handlers):
        root.addHandler(Echo())
    if not ctx.obj:
        _log(logging.INFO, "warning")


@main.command()
@spec_argument
@results_option
@click.option("--profile", default="local", help="Compute cluster to use, named in cluster.yaml.")
@click.option("--cluster", "cluster_file", type=PLACE, help="cluster.yaml to take instead of searching.")
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    help="Worker processes, or jobs of a queue; 0 runs all in this process.  [default: the profile's]",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Check everything, start the run as a separate job (slurm) or in the background, and return.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End a worker whose batch runs for longer.  [default: half an hour and 30 times its prediction]",
)
@click.option("--dry-run", is_flag=True, help="Check everything and show the plan; start nothing.")
@click.option("--retry-failed", is_flag=True, help="Try cells that are marked failed again.")
@click.option(
    "--only",
    metavar="CELL",
    multiple=True,
    help="Run this cell alone, marked failed or not, as sweep why names it; may be repeated.",
)
@click.option("--strict", is_flag=True, help="Exit with 3 when data sets were skipped.")
@data_dir_option
@json_option
def submit(spec: Path, as_json: bool, **choices: Any) -> None:
    """Run the sweep file SPEC, or resume it where it stopped."""
    from rich.console import Console

    from pipeline.monitor.status import read_status
    from pipeline.run.request import Options
    from pipeline.submit.submission import submit as run

    with reported():
        path, shipped = find_spec(spec)
        if shipped:
            click.echo(f"using the {spec.name} that is installed with sweep: {path}", err=True)
        options = Options(**choices)
        code = run(path, options, Console(stderr=True), show_plan=show if as_json else None)
    if options.dry_run:
        if not as_json:
            next_step("submit", spec)
        sys.exit(code)
    with reported():
        cube = cube_of(path, options.results)
    if as_json:
        state: dict[str, Any] = {"cube": str(cube)}  # all there is where no cube was created
        with suppress(InputError):
            state = read_status(cube).to_dict()
        show(state | {"exit_code": code})
    elif code == COMPLETE:
        next_step(*(("status", cube) if options.detach else ("report", cube)))
    elif code == FAILED_CELLS:
        next_step("why", cube)
    elif code > INTERRUPTS:
        next_step("submit", spec)
    sys.exit(code)


@main.command()
@spec_argument
@results_option
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of workers to plan for.  [default: cores]"
)
@click.option("--pilot", is_flag=True, help="Time a few restarts and predict core-hours.")
@click.option(
    "--resolved", is_flag=True, help="Print SPEC as it is understood, defaults filled in; load no data."
)
@json_option
@data_dir_option
def plan(
    spec: Path,
    results: Path,
    workers: int | None,
    pilot: bool,
    resolved: bool,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Show how much work SPEC is: cells, restarts, batches, files and bytes."""
    if resolved:
        from sweeps.file.reading import as_file, as_toml, load_sweep

        with reported():
            sweep = load_sweep(find_spec(spec)[0])
        show(as_file(sweep) if as_json else as_toml(sweep).splitlines())
        return
    from pipeline.run.request import prepare
    from pipeline.submit.overview import plan_overview

    with reported():
        path, _ = find_spec(spec)
        overview = plan_overview(
            prepare(path, results=results, data_dir=data_dir), workers=workers, pilot=pilot
        )
    tell(overview, as_json, "submit", spec)


COMMANDS = (
    ask, cancel, compare, datasets, export, fit_command, logs, methods, open_page, repair, report, schema,
    status, verify, why,
)  # fmt: skip
for command in COMMANDS:
    main.add_command(command)
for command in (*main.commands.values(), *datasets.commands.values(), *methods.commands.values()):
    if not isinstance(command, click.Group):
        verbose_option(command)
