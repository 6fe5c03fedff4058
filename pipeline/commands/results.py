"""Commands on what cubes hold: `report`, `open`, `export`, `compare` show it, `verify`, `repair` check it."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweep_clustering.pipeline.commands import options
from sweep_clustering.pipeline.commands.options import find_cube, flag, next_step, place, reported, tell
from sweep_clustering.pipeline.common import COMPLETE, INTERNAL
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, not_one_of

if TYPE_CHECKING:
    from sweep_clustering.storage.remote import Place


class ScoreName(options.Word):
    """A score; the catalogue, which needs arrays, is loaded only for help, completion and comparing."""

    case_sensitive = True

    def __init__(self) -> None:
        """Names come later."""

    @cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """All names."""
        from sweep_clustering.pipeline.scoring.scores import LABELS

        return tuple(LABELS)


# A figure as PDF takes as long as its other files together.
pdf_option = flag("--pdf", help="Write figures as PDF, too.")


def formats_of(pdf: bool) -> tuple[str, ...]:
    """Formats of the figures."""
    from sweep_clustering.pipeline.report.figures import SUFFIXES, USUAL

    return SUFFIXES if pdf else USUAL


@click.command()
@options.takes_cubes
@place("--out", help="Folder of the page, tables and figures.  [default: beside the cube]")
@place(
    "--against",
    help="CSV of published means (p, n_clusters, m, model, metric, value) to compare with, or of scores of"
    " published labels (battery, dataset, method, ari) to rank among the models.",
)
@click.option(
    "--cell",
    shell_complete=options.complete_cells,
    help="Cell of the scatter plots, such as iris/p=0.9/m=75/replicate=0/posterior.",
)
@pdf_option
@flag("--full", help="Show the whole summary, not only its first screen.")
@options.json_option
def report(
    cubes: tuple[Path, ...],
    results: Path,
    out: Path | None,
    against: Path | None,
    cell: str | None,
    pdf: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Write a page of CUBE, its tables (CSV) and figures (SVG, PNG), and show a summary.

    CUBE may be an address (https://, s3://); only the cube is read from there. Several cubes, parts of
    one sweep, are read as one.
    """
    from sweep_clustering.pipeline.report.write import write_report

    with reported():
        places = options.find_places(cubes, results)
        path = options.whole_of(places)
        written = write_report(
            places if len(places) > 1 else path,
            out or options.beside(path, ".report"),
            published=against,
            cell=cell,
            formats=formats_of(pdf),
            progress=options.progress_bar,
        )
    if as_json:
        options.show(written.to_dict())
        return
    click.echo(written.text if full else written.screen)
    click.echo(f"page: {written.page}")
    next_step(*(("export", *places) if isinstance(path, str) or len(places) > 1 else ("open", path)))


@click.command("open")
@options.takes_run
@click.option("--port", type=click.IntRange(1, 65_535), help="Port of the page.  [default: a free one]")
@flag("--no-browser", help="Print the address, and open no browser.")
def open_page(cube_or_spec: Path, results: Path, port: int | None, no_browser: bool) -> None:
    """Show the page of a run of CUBE in a browser, from files alone, until Ctrl-C; changes nothing."""
    from sweep_clustering.pipeline.live.site import address_of, serving

    with reported(), serving(options.find_run(cube_or_spec, results), port or 0) as server:
        address, from_elsewhere = address_of(server)
        click.echo(f"page: {address} ({from_elsewhere})")
        click.echo("Ctrl-C ends it", err=True)
        if not no_browser:
            import webbrowser

            # where there is none, the line must do
            with suppress(webbrowser.Error):
                browser = webbrowser.get()
                if not isinstance(browser, webbrowser.GenericBrowser):  # one of text would take the terminal
                    browser.open(address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


@click.command()
@options.takes_cubes
@click.option(
    "--format",
    "how",
    type=options.Word(("csv", "parquet", "netcdf", "raw")),
    default="csv",
    help="Tables in CSV or parquet, or grids in netCDF; or raw scores in one CSV, which `sweep verify` checks"
    " without CUBE.",
)
@place("--out", help="Folder of the files.  [default: beside the cube]")
@flag("--force", help="Overwrite existing files.")
@flag(
    "--scores",
    "only_scores",
    help="Store the scores beside CUBE instead, as <name>.scores.zarr, which xarray opens; computed again"
    " only if CUBE has changed.",
)
def export(
    cubes: tuple[Path, ...], results: Path, how: str, out: Path | None, force: bool, only_scores: bool
) -> None:
    """Write labels, scores and summaries of CUBE for other programs.

    Several cubes, parts of one sweep, are read as one.
    """
    with reported():
        given = {"--out": out is not None, "--force": force, "--format": how != "csv"}
        problems = [
            Problem(option, "--scores as well", "one of them", "scores have their place beside the cube")
            for option, is_given in given.items()
            if only_scores and is_given
        ]
        local: Path | None = None
        places: tuple[Place, ...] = ()
        with collecting(problems):
            places = options.find_places(cubes, results)
            if only_scores and len(places) > 1:
                expected = "one cube with --scores, which stores the scores beside it"
                problems.append(Problem("CUBE...", f"{len(places)} cubes", expected))
            elif only_scores:
                local = find_cube(cubes[0], results)
        if problems:
            raise InputError(problems)
        path = options.whole_of(places)
        if local is not None:
            from sweep_clustering.pipeline.scoring.scores import store_scores
            from sweep_clustering.storage.cube.growth import open_cube

            stored, is_new = store_scores(local, open_cube(local))
            click.echo(f"scores: {stored}{'' if is_new else ', as they were'}")
            next_step("report", path)
            return
        from sweep_clustering.pipeline.report.export import write_export

        read = places if len(places) > 1 else path
        for file in write_export(read, out or options.beside(path, ".export"), how, overwrite=force):
            click.echo(file)
    next_step("report", *places)


@click.command()
@click.argument("cube_a", type=options.PLACE)
@click.argument("cube_b", type=options.PLACE)
@options.results_option
@options.several(
    "--score",
    "scores",
    type=ScoreName(),
    help="Score to compare; may be repeated.  [default: nmi and adjusted_rand]",
)
@place("--out", help="Folder of the tables and figures.  [default: beside CUBE_B]")
@pdf_option
@options.json_option
def compare(
    cube_a: Path,
    cube_b: Path,
    results: Path,
    scores: tuple[str, ...],
    out: Path | None,
    pdf: bool,
    as_json: bool,
) -> None:
    """Compare the cells of CUBE_B with the same cells of CUBE_A: paired differences, B minus A.

    Either may be an address (https://, s3://).
    """
    from sweep_clustering.pipeline.report.compare import write_comparison
    from sweep_clustering.pipeline.scoring.ranking import RANKED
    from sweep_clustering.pipeline.scoring.scores import LABELS

    with reported():
        problems = [not_one_of("--score", score, LABELS) for score in scores if score not in LABELS]
        cubes = []
        for path in (cube_a, cube_b):
            with collecting(problems):
                cubes.append(options.find_place(path, results))
        if problems:
            raise InputError(problems)
        first, second = cubes
        folder = out or options.beside(second, ".compare").with_name(
            f"{Path(second).stem}-against-{Path(first).stem}.compare"
        )
        comparison = write_comparison(first, second, folder, scores or RANKED, formats_of(pdf))
    tell(comparison, as_json, "report", second)


@click.command()
@click.argument("cube", metavar="CUBE|SCORES.csv", type=options.PLACE)
@options.results_option
@place("--sweep", help="With SCORES.csv: the sweep file whose cells it has.")
@options.several(
    "--method",
    "methods",
    shell_complete=options.complete_methods,
    metavar="METHOD",
    help="With SCORES.csv: a method in place of the models and methods of --sweep, as `sweep methods sweep`"
    " takes it; runs its code. May be repeated.",
)
@options.data_dir_option
@click.option("--sample", type=click.IntRange(min=1), default=10, help="Number of cells, drawn at random.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the random choice.")
@flag("--checksums", help="Read every file of CUBE and check its checksum; compute nothing.")
@flag(
    "--run-methods",
    help="Also verify cells of methods from packages and files. This runs the code that CUBE names, if it is"
    " unchanged.",
)
@options.json_option
def verify(
    cube: Path,
    results: Path,
    sweep: Path | None,
    methods: tuple[str, ...],
    data_dir: Path | None,
    sample: int,
    seed: int,
    checksums: bool,
    run_methods: bool,
    as_json: bool,
) -> None:
    """Compute random cells of CUBE again and compare bits; exit with 1 if any differs.

    With SCORES.csv, which `sweep export --format raw` makes of a cube, this computes cells of --sweep again
    and compares their scores.
    """
    found: Any
    is_table = cube.suffix == ".csv"
    given = {"--sweep": sweep is not None, "--method": bool(methods)}
    given = {"--checksums": checksums, "--run-methods": run_methods} if is_table else given
    with reported():
        problems = [
            Problem(option, f"with {cube}", f"{'a cube' if is_table else 'SCORES.csv'} with this option")
            for option, is_given in given.items()
            if is_given
        ]
        if is_table and sweep is None:
            problems.append(Problem("--sweep", "nothing", "the sweep file whose cells these are"))
        if problems:
            raise InputError(problems)
        if sweep is not None:
            from sweep_clustering.pipeline.check.verify import verify_scores
            from sweep_clustering.pipeline.scoring.raw import read_raw

            with collecting(problems):
                spec = options.sweep_of(sweep, methods)
            with collecting(problems):
                table = read_raw(cube)
            if problems:
                raise InputError(problems)
            found = verify_scores(table, spec, sweep.name, sample=sample, seed=seed, data_dir=data_dir)
            tell(found, as_json)
            sys.exit(COMPLETE if found.good else INTERNAL)
        path = find_cube(cube, results)
        if checksums:
            from sweep_clustering.storage.damage import scan

            found = scan(path, options.progress_bar)
        else:
            from sweep_clustering.pipeline.check.verify import verify as check

            found = check(path, sample=sample, seed=seed, run_methods=run_methods)
    wrong = ("repair", path) if checksums else ("verify", path, "--checksums")
    tell(found, as_json, *(("report", path) if found.good else wrong))
    sys.exit(COMPLETE if found.good else INTERNAL)


@click.command()
@options.takes_cube
@flag("--dry-run", help="Show what would be done; change nothing.")
@options.data_dir_option
def repair(cube: Path, results: Path, dry_run: bool, data_dir: Path | None) -> None:
    """Find damaged files of CUBE, and have what they held computed again by the next submit."""
    from sweep_clustering.pipeline.check.repair import repair_cube, repair_lines
    from sweep_clustering.pipeline.monitor.status import submit_words
    from sweep_clustering.storage.runfolder.lease import LeaseHeld

    with reported(LeaseHeld):
        path = find_cube(cube, results)
        done = repair_cube(path, data_dir=data_dir, dry_run=dry_run, progress=options.progress_bar)
    command = shlex.join(submit_words(path))
    options.show(repair_lines(path, done, command, dry_run=dry_run))
    if done.damaged and dry_run:
        next_step("repair", path)
    elif done.blocks:
        click.echo(f"next: {command}", err=True)
    else:
        next_step("verify", path, *(["--checksums"] if done.damaged else []))
    sys.exit(INTERNAL if done.lost else COMPLETE)
