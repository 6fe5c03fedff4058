"""Commands on sweeps and their runs: `submit` and `plan`; `status`, `logs` and `why` show a run, `cancel`
ends it. `doctor` tries a compute cluster without a sweep.
"""

import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sweep_clustering.pipeline.commands import arguments, output
from sweep_clustering.pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, raise_all


@click.command()
@arguments.takes_spec
@arguments.takes_profile
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    help="Worker processes, or jobs of a queue; 0 runs all in this process.  [default: the profile's]",
)
@arguments.flag(
    "--detach",
    help="Check everything, start the run as a separate job (slurm) or in the background, and return.",
)
@click.option(
    "--time-limit",
    type=arguments.SECONDS,
    metavar="SECONDS",
    help="End a worker whose batch runs for longer.  [default: half an hour and 30 times its prediction]",
)
@arguments.flag("--dry-run", help="Check everything and show the plan; start nothing.")
@arguments.flag("--retry-failed", help="Try cells that are marked failed again.")
@arguments.repeatable(
    "--only",
    metavar="CELL",
    shell_complete=arguments.complete_cells,
    help="Run this cell alone, marked failed or not, as sweep why names it; may be repeated.",
)
@arguments.part_option
@arguments.flag("--strict", help="Exit with 3 when data sets were skipped.")
@arguments.data_dir_option
@arguments.json_option
def submit(spec: Path, as_json: bool, **choices: Any) -> None:
    """Run the sweep file SPEC, or resume it where it stopped."""
    from rich.console import Console

    from sweep_clustering.pipeline.monitor.status import doctor_words, read_status
    from sweep_clustering.pipeline.run.request import Options
    from sweep_clustering.pipeline.submit.submission import submit as run
    from sweep_clustering.pipeline.work.merge import Mismatch
    from sweep_clustering.storage.runfolder.journal import JournalDamaged

    with output.reported(JournalDamaged, Mismatch):
        path, is_installed = arguments.find_spec(spec)
        if is_installed:
            click.echo(f"using the {spec.name} that is installed with sweep: {path}", err=True)
        options = Options(**choices)
        code = run(path, options, Console(stderr=True), show_plan=output.show if as_json else None)
    if options.dry_run:
        if not as_json:
            output.next_step(*output.as_typed(submit, dry_run=False))
        sys.exit(code)
    with output.reported():
        cube = arguments.cube_of(path, options.results, options.part)
    if as_json:
        state: dict[str, Any] = {"cube": str(cube)}  # nothing else is known if no cube was created
        with suppress(InputError):
            state = read_status(cube).to_dict()
        output.show(state | {"exit_code": code})
    elif code == COMPLETE:
        output.next_step("status" if options.detach else "report", cube)
    elif code == FAILED_CELLS:
        output.next_step("why", cube)
    elif code == INTERNAL and (words := doctor_words(cube)):
        output.next_step(*words)
    elif code > output.INTERRUPTS:
        output.next_step(*output.as_typed(submit))
    sys.exit(code)


@click.command()
@arguments.takes_spec
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of workers to plan for.  [default: the profile's]"
)
@arguments.takes_profile
@arguments.flag("--pilot", help="Time a few restarts and predict core-hours.")
@arguments.flag("--resolved", help="Print SPEC as it is understood, defaults filled in; load no data.")
@arguments.json_option
@arguments.data_dir_option
@arguments.part_option
def plan(
    spec: Path,
    workers: int | None,
    profile: str,
    cluster_file: Path | None,
    pilot: bool,
    resolved: bool,
    as_json: bool,
    **paths: Any,
) -> None:
    """Show how much work SPEC is: cells, restarts, batches, files, bytes and the memory of a worker."""
    if resolved:
        from sweep_clustering.sweeps.file.reading import as_file, as_toml, load_sweep

        with output.reported():
            problems = [Problem("--part", "--resolved as well", "one of them")] if paths["part"] else []
            with collecting(problems):
                sweep = load_sweep(arguments.find_spec(spec)[0])
            raise_all(problems)
        output.show(as_file(sweep) if as_json else as_toml(sweep).splitlines())
        return
    from sweep_clustering.pipeline.cluster.profiles import load_profile
    from sweep_clustering.pipeline.run.request import prepare
    from sweep_clustering.pipeline.submit.overview import memory_warnings, plan_lines, plan_overview
    from sweep_clustering.pipeline.work.merge import Mismatch
    from sweep_clustering.storage.runfolder.journal import JournalDamaged

    with output.reported(JournalDamaged, Mismatch):
        problems = []
        with collecting(problems):
            prepared = prepare(arguments.find_spec(spec)[0], **paths)
        with collecting(problems):
            site = load_profile(profile, cluster_file)
        raise_all(problems)
        for warning in memory_warnings(prepared, site, workers):
            click.echo(warning, err=True)
        overview = plan_overview(prepared, workers=workers or site.process_count(), pilot=pilot)
    output.show(overview if as_json else plan_lines(prepared, overview))
    if not as_json:
        output.next_step(*output.as_typed(submit))


@click.command()
@click.argument("tables", nargs=-1, required=True, type=arguments.PATH)
@arguments.path_option("--out", help="File to write.  [default: the name of the first table, with .toml]")
@click.option("--label-column", metavar="COLUMN", help="True classes in TABLES.  [default: if one is clear]")
@click.option("-k", "--n-clusters", type=int, help="Number of clusters.  [default: that of the classes]")
def init(
    tables: tuple[Path, ...], out: Path | None, label_column: str | None, n_clusters: int | None
) -> None:
    """Write a commented sweep file for TABLES of your own, to begin with.

    The cells show which columns hold classes, names of rows, numbers of rows and texts; the file says what
    was made of each. If they do not show the classes, nothing is written, and --label-column names them.
    """
    from sweep_clustering.pipeline.fit.inputs import place_problems
    from sweep_clustering.sweeps.file.begin import sweep_file_of

    path = Path(tables[0].name.partition(".")[0] + ".toml") if out is None else out
    with output.reported():
        problems = [*place_problems("--out", path, False, hint="")]
        with collecting(problems):
            text = sweep_file_of(tables, path, label_column=label_column, n_clusters=n_clusters)
        raise_all(problems)
        output.put_file(path, text)
    click.echo(text, nl=False)
    click.echo(f"\nwritten to {path}")
    output.next_step("plan", path)


@click.command()
@arguments.takes_profile
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of workers of a run.  [default: the profile's]"
)
@arguments.results_option
@click.option(
    "--wait",
    type=arguments.SECONDS,
    default=60.0,
    metavar="SECONDS",
    help="Give a job up that has no worker after this time.",
)
@arguments.json_option
def doctor(
    profile: str, cluster_file: Path | None, workers: int | None, results: Path, wait: float, as_json: bool
) -> None:
    """Try a compute cluster with one worker: queue, versions, clock, network, limits and shared folder."""
    from sweep_clustering.pipeline.cluster.profiles import load_profile
    from sweep_clustering.pipeline.run.signals import StopSignal
    from sweep_clustering.pipeline.submit import doctor as room

    checks: list[room.Check] = []

    def note(check: room.Check) -> None:
        checks.append(check)
        if not as_json:
            output.show(check.lines())

    try:
        with output.reported():
            site = load_profile(profile, cluster_file)
            room.examine(site, results, note, workers=workers, wait=wait)
    except StopSignal as stop:
        click.echo(f"stopped by {stop}", err=True)
        sys.exit(output.INTERRUPTS + stop.number)
    if as_json:
        about = {"profile": site.name, "kind": site.options.kind, "results": str(results)}
        output.show(about | {"checks": list(map(asdict, checks))})
    sys.exit(INTERNAL if any(check.level == room.FAILURE for check in checks) else COMPLETE)


@click.command()
@arguments.takes_runs
@arguments.json_option
def status(cubes_or_spec: tuple[Path, ...], results: Path, as_json: bool) -> None:
    """Show the progress of a cube, or of the cube of a sweep file; reads files only.

    Several cubes, parts of one sweep, are shown as one.
    """
    # numpy starts the threads of its linear algebra when it is loaded: a tenth of the time of this command
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from sweep_clustering.pipeline.monitor.status import read_parts_status, read_status

    with output.reported():
        cubes = arguments.find_places(cubes_or_spec, results, arguments.find_run)
        state = read_parts_status(cubes) if len(cubes) > 1 else read_status(cubes[0])
    output.tell(state, as_json, *state.outlook[1])


@click.command()
@arguments.takes_run
@click.option("-n", "--lines", type=click.IntRange(min=0), default=20)
@arguments.flag("-f", "--follow", help="Keep showing what is added, until the run ends.")
@arguments.flag("--head", help="Show the output of a detached head, in place of the driver's log.")
@click.option(
    "--job",
    metavar="[ID]",
    is_flag=False,
    flag_value="",
    help="Logs of a worker job, by number or name; without ID, the list of the jobs.",
)
def logs(cube_or_spec: Path, results: Path, lines: int, follow: bool, head: bool, job: str | None) -> None:
    """Show the end of the driver's log, or of another log of a run."""
    from sweep_clustering.pipeline.monitor import status as runs

    if head and job is not None:
        raise click.UsageError("--head and --job exclude each other")
    with output.reported():
        cube = arguments.find_run(cube_or_spec, results)
        if job == "":
            output.show(runs.job_lines(cube))
            return
        paths = runs.find_logs(cube, head=head, job=job)
    for path in paths[: 1 if follow else None]:
        click.echo(f"==> {path} <==", err=True)
        for text in runs.follow(path, cube, lines=lines) if follow else runs.end_of(path, lines):
            click.echo(text, nl=False)
            if output.has_no_reader():
                return
    output.next_step("status", cube)


@click.command()
@arguments.takes_run
def cancel(cube_or_spec: Path, results: Path) -> None:
    """End the run of a cube, head and workers; what was finished is kept."""
    from sweep_clustering.pipeline.monitor import cancel as ending

    # an unreadable version of a record is bad input
    with output.reported(ending.CannotCancel):
        cube = arguments.find_run(cube_or_spec, results)
        ending.cancel(cube, click.echo)
    output.next_step("status", cube)


@click.command()
@arguments.takes_run
@click.argument("cell", required=False, shell_complete=arguments.complete_cells)
@arguments.json_option
def why(cube_or_spec: Path, cell: str | None, results: Path, as_json: bool) -> None:
    """Show the state of CELL, why it failed, and how to run it alone.

    Without CELL, list the failed cells, and say what became of worker jobs.
    """
    from sweep_clustering.pipeline.monitor.status import explain, failed_causes, job_remarks

    with output.reported():
        find = arguments.find_run if cell is None else arguments.find_cube
        cube = find(cube_or_spec, results)
        if cell is not None:
            spec = cube_or_spec if cube_or_spec.suffix == ".toml" else None
            output.tell(explain(cube, cell, spec), as_json)
            return
        causes = failed_causes(cube) if cube.is_dir() else {}
        remarks = job_remarks(cube)
    if as_json:
        output.show(causes)
        return
    lines = [f"{name}: {cause}" for name, cause in causes.items()] or ["no cell is marked failed"]
    output.show([*lines, *remarks])
    if causes:
        output.next_step("why", cube, next(iter(causes)))
    else:
        output.next_step(*(("logs", cube, "--job") if remarks else ("report", cube)))
