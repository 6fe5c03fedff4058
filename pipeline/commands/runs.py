"""Commands for runs in progress, waiting or ended: `sweep status`, `logs`, `cancel`, `why`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipeline.commands.options import (
    cube_argument,
    json_option,
    next_step,
    nobody_reads,
    reported,
    results_option,
    show,
)
from pipeline.common import INTERNAL


@click.command()
@cube_argument
@results_option
@json_option
def status(cube_or_spec: Path, results: Path, as_json: bool) -> None:
    """Show the progress of a cube, or of the cube of a sweep file; reads files only."""
    from pipeline.commands.paths import find_run
    from pipeline.monitor.status import read_status

    with reported():
        state = read_status(find_run(cube_or_spec, results))
    show(state.to_dict() if as_json else state.lines())
    if not as_json and state.next_step is not None:
        next_step(*state.next_step)


@click.command()
@cube_argument
@results_option
@click.option("-n", "--lines", type=click.IntRange(min=0), default=20, show_default=True)
@click.option("-f", "--follow", is_flag=True, help="Keep showing what is added, until the run ends.")
@click.option("--head", is_flag=True, help="What a detached head printed, in place of the driver's log.")
@click.option("--job", metavar="ID", help="Logs of a worker job, by number or name.")
def logs(cube_or_spec: Path, results: Path, lines: int, follow: bool, head: bool, job: str | None) -> None:
    """Show the end of the driver's log, or of another log of a run."""
    from pipeline.commands.paths import find_run
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
@cube_argument
@results_option
def cancel(cube_or_spec: Path, results: Path) -> None:
    """End the run of a cube, head and workers; what was finished is kept."""
    from pipeline.commands.paths import find_run
    from pipeline.monitor.cancel import CannotCancel
    from pipeline.monitor.cancel import cancel as end
    from storage.errors import StorageError

    try:
        # Also of what is ended: records of another format version are bad input.
        with reported():
            cube = find_run(cube_or_spec, results)
            end(cube, click.echo)
    except (CannotCancel, StorageError) as error:
        click.echo(str(error), err=True)
        sys.exit(INTERNAL)
    next_step("status", cube)


@click.command()
@cube_argument
@click.argument("cell", required=False)
@results_option
@json_option
def why(cube_or_spec: Path, cell: str | None, results: Path, as_json: bool) -> None:
    """Show the state of CELL, why it failed, and how to run it alone; without CELL, list the failed cells."""
    from pipeline.commands.paths import find_cube
    from pipeline.monitor.why import explain, failed_causes

    with reported():
        cube = find_cube(cube_or_spec, results)
        if cell is not None:
            found = explain(cube, cell, cube_or_spec if cube_or_spec.suffix == ".toml" else None)
            show(found.to_dict() if as_json else found.lines())
            return
        causes = failed_causes(cube)
    if as_json:
        show(causes)
        return
    show([f"{name}: {cause}" for name, cause in causes.items()] or ["no cell is marked failed"])
    if causes:
        next_step("why", cube, next(iter(causes)))
    else:
        next_step("report", cube)
