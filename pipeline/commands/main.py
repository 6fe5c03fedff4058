"""The `sweep` command."""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from pipeline.commands.ask import ask
from pipeline.commands.cubes import repair, verify
from pipeline.commands.datasets import datasets
from pipeline.commands.fit import fit_command
from pipeline.commands.methods import methods
from pipeline.commands.options import (
    STDOUT,
    data_dir_option,
    json_option,
    next_step,
    reported,
    results_option,
    show,
    spec_argument,
)
from pipeline.commands.report import compare, export, open_page, report
from pipeline.commands.runs import cancel, logs, status, why
from pipeline.commands.schema import schema
from pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL, PlainFormatter

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
        os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "info")
        _set_levels(logging.DEBUG)


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=set_verbose,
    help="Log more on stderr.",
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


@click.group(cls=Sweep, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sweep-clustering", prog_name="sweep")
@verbose_option
@click.pass_context
def main(ctx: click.Context) -> None:
    """Benchmark sweeps of semi-supervised clustering with inaccurate pairwise annotations."""
    root = logging.getLogger()
    if not any(isinstance(handler, Echo) for handler in root.handlers):
        root.addHandler(Echo())
    if not ctx.obj:
        # distributed sets its own level when it is imported, at which it logs every connection.
        os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")
        _set_levels(logging.INFO)


def _set_levels(level: int) -> None:
    for package in ("pipeline", "storage", "sweeps", "kernels"):
        logging.getLogger(package).setLevel(level)


@main.command()
@spec_argument
@results_option
@click.option(
    "--profile", default="local", show_default=True, help="Compute cluster to use, named in cluster.yaml."
)
@click.option(
    "--cluster",
    "cluster_file",
    type=click.Path(path_type=Path),
    help="cluster.yaml to take instead of searching.",
)
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

    from pipeline.commands.paths import cube_of, find_spec
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
        show(_state(cube) | {"exit_code": code})
    elif code == COMPLETE:
        next_step(*(("status", cube) if options.detach else ("report", cube)))
    elif code == FAILED_CELLS:
        next_step("why", cube)
    elif code > INTERRUPTS:
        next_step("submit", spec)
    sys.exit(code)


def _state(cube: Path) -> dict[str, Any]:
    """The status of a cube; of one that was not created its place alone."""
    from pipeline.monitor.status import read_status
    from sweeps.errors import InputError

    try:
        return read_status(cube).to_dict()
    except InputError:
        return {"cube": str(cube)}


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
    from pipeline.commands.paths import find_spec

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
    show(overview.to_dict() if as_json else overview.lines())
    if not as_json:
        next_step("submit", spec)


main.add_command(datasets)
main.add_command(methods)
main.add_command(fit_command, "fit")
for command in (ask, cancel, compare, export, logs, open_page, repair, report, schema, status, verify, why):
    main.add_command(command)
for command in (*main.commands.values(), *datasets.commands.values(), *methods.commands.values()):
    if not isinstance(command, click.Group):
        verbose_option(command)
