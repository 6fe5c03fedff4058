"""Commands on cubes: `report`, `open`, `export` and `compare` show their results, `verify` and `repair` check
them, and `bundle`, `cite`, `merge` and `board` publish them.
"""

import shlex
import sys
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweep_clustering.pipeline.commands import arguments
from sweep_clustering.pipeline.commands.arguments import flag, path_option
from sweep_clustering.pipeline.commands.output import next_step, progress_bar, reported, show, tell
from sweep_clustering.pipeline.common import COMPLETE, INTERNAL
from sweep_clustering.sweeps.errors import Problem, collected, collecting, not_one_of, raise_all

if TYPE_CHECKING:
    from sweep_clustering.storage.files import Place


class ScoreName(arguments.Word):
    """A score; the catalogue, which needs arrays, is loaded only for help, completion and comparing."""

    case_sensitive = True

    def __init__(self) -> None:
        """Leave the names to `choices`."""

    @cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return all names."""
        from sweep_clustering.pipeline.scoring.scores import LABELS

        return tuple(LABELS)


# Each of them draws every figure once more.
png_option = flag("--png", help="Write figures as PNG, too.")
pdf_option = flag("--pdf", help="Write figures as PDF, too.")


def formats_of(png: bool, pdf: bool) -> tuple[str, ...]:
    """Return the formats of figures."""
    return ("svg", *["png"] * png, *["pdf"] * pdf)


@click.command()
@arguments.takes_cubes
@path_option("--out", help="Folder of the page, tables and figures.  [default: beside the cube]")
@path_option(
    "--against",
    help="CSV of published means (p, n_clusters, m, model, metric, value) to compare with, or of scores of"
    " published labels (battery, dataset, method, ari) to rank among the models.",
)
@click.option(
    "--cell",
    shell_complete=arguments.complete_cells,
    help="Cell of the scatter plots, such as iris/p=0.9/m=75/replicate=0/posterior.",
)
@png_option
@pdf_option
@flag("--paper", help="Write the tables as LaTeX and the figures as PDF for a paper, too.")
@flag("--full", help="Show the whole summary, not only its first screen.")
@arguments.json_option
def report(
    cubes: tuple[Path, ...],
    results: Path,
    out: Path | None,
    against: Path | None,
    cell: str | None,
    png: bool,
    pdf: bool,
    paper: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Write a page of CUBE, its tables (CSV) and figures (SVG), and show a summary.

    CUBE may be an address (https://, s3://); only the cube is read from there. Several cubes, parts of
    one sweep, are read as one.
    """
    import dask.threaded

    from sweep_clustering.pipeline.report.write import write_report

    # no name: dask would load distributed to see if there is a client
    with reported(), dask.config.set(scheduler=dask.threaded.get):
        parts = arguments.find_places(cubes, results)
        path = arguments.whole_of(parts)
        page = write_report(
            parts if len(parts) > 1 else path,
            out or arguments.path_beside(path, ".report"),
            published=against,
            cell=cell,
            formats=formats_of(png, pdf),
            for_paper=paper,
            progress=progress_bar,
        )
    if as_json:
        show(page.to_dict())
        return
    click.echo(page.text if full else page.screen)
    click.echo(f"page: {page.page}")
    if paper:
        click.echo(f"paper: {page.page.with_name('paper') / 'paper.tex'}")
    has_run = len(parts) == 1 and isinstance(path, Path) and path.is_dir()
    next_step(*(("open", path) if has_run else ("export", *parts)))


@click.command("open")
@arguments.takes_run
@click.option("--port", type=click.IntRange(1, 65_535), help="Port of the page.  [default: a free one]")
@flag("--no-browser", help="Print the address, and open no browser.")
def open_page(cube_or_spec: Path, results: Path, port: int | None, no_browser: bool) -> None:
    """Show the page of a run of CUBE in a browser, from files alone, until Ctrl-C; changes nothing."""
    from sweep_clustering.pipeline.live.site import address_of, serving

    with reported(), serving(arguments.find_run(cube_or_spec, results), port or 0) as server:
        address, from_elsewhere = address_of(server)
        click.echo(f"page: {address} ({from_elsewhere})")
        click.echo("Ctrl-C ends it", err=True)
        if not no_browser:
            import webbrowser

            # without a browser, the line is enough; a text browser would take the terminal
            with suppress(webbrowser.Error):
                browser = webbrowser.get()
                if not isinstance(browser, webbrowser.GenericBrowser):
                    browser.open(address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


@click.command()
@arguments.takes_cubes
@click.option(
    "--format",
    "form",
    type=arguments.Word(("csv", "parquet", "netcdf", "raw")),
    default="csv",
    help="Tables in CSV or parquet, or grids in netCDF; or raw scores in one CSV, which `sweep verify` checks"
    " without CUBE.",
)
@path_option("--out", help="Folder of the files.  [default: beside the cube]")
@flag("--force", help="Overwrite existing files.")
@flag(
    "--scores",
    "only_scores",
    help="Store the scores beside CUBE instead, as <name>.scores.zarr, which xarray opens; computed again"
    " only if CUBE has changed.",
)
def export(
    cubes: tuple[Path, ...], results: Path, form: str, out: Path | None, force: bool, only_scores: bool
) -> None:
    """Write labels, scores and summaries of CUBE for other programs.

    Several cubes, parts of one sweep, are read as one.
    """
    with reported():
        problems: list[Problem] = []
        if only_scores:
            conflicts = {"--out": out is not None, "--force": force, "--format": form != "csv"}
            hint = "scores have their place beside the cube"
            problems += [
                Problem(option, "--scores as well", "one of them", hint)
                for option, is_set in conflicts.items()
                if is_set
            ]
        local: Path | None = None
        parts: tuple[Place, ...] = ()
        with collecting(problems):
            parts = arguments.find_places(cubes, results)
            if only_scores and len(parts) > 1:
                expected = "one cube with --scores, which stores the scores beside it"
                problems.append(Problem("CUBE...", f"{len(parts)} cubes", expected))
            elif only_scores:
                local = arguments.find_cube(cubes[0], results)
        raise_all(problems)
        path = arguments.whole_of(parts)
        if local is not None:
            from sweep_clustering.pipeline.scoring.raw import scored_tree
            from sweep_clustering.pipeline.scoring.scores import store_scores
            from sweep_clustering.storage.cube.growth import open_cube
            from sweep_clustering.storage.cube.manifest import read_manifest

            tree = scored_tree(open_cube(local), read_manifest(local).plans, [local])
            path_of_scores, is_new = store_scores(local, tree)
            click.echo(f"scores: {path_of_scores}{'' if is_new else ', as they were'}")
            next_step("report", path)
            return
        from sweep_clustering.pipeline.report.write import write_export

        cube = parts if len(parts) > 1 else path
        for file in write_export(cube, out or arguments.path_beside(path, ".export"), form, overwrite=force):
            click.echo(file)
    next_step("report", *parts)


@click.command()
@click.argument("cube_a", type=arguments.PATH)
@click.argument("cube_b", type=arguments.PATH)
@arguments.results_option
@arguments.repeatable(
    "--score",
    "scores",
    type=ScoreName(),
    help="Score to compare; may be repeated.  [default: nmi and adjusted_rand]",
)
@path_option("--out", help="Folder of the tables and figures.  [default: beside CUBE_B]")
@png_option
@pdf_option
@arguments.json_option
def compare(
    cube_a: Path,
    cube_b: Path,
    results: Path,
    scores: tuple[str, ...],
    out: Path | None,
    png: bool,
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
        with collecting(problems):
            first, second = collected(partial(arguments.find_place, results=results), (cube_a, cube_b))
        raise_all(problems)
        folder = out or arguments.path_beside(second, ".compare").with_name(
            f"{Path(second).stem}-against-{Path(first).stem}.compare"
        )
        comparison = write_comparison(first, second, folder, scores or RANKED, formats_of(png, pdf))
    tell(comparison, as_json, "report", second)


@click.command()
@click.argument("cube", metavar="CUBE|BUNDLE|SCORES.csv", type=arguments.PATH)
@arguments.results_option
@path_option("--sweep", help="With SCORES.csv: the sweep file whose cells it has.")
@arguments.repeatable(
    "--method",
    "methods",
    shell_complete=arguments.complete_methods,
    metavar="METHOD",
    help="With SCORES.csv: a method in place of the models and methods of --sweep, as `sweep methods sweep`"
    " takes it; runs its code. May be repeated.",
)
@arguments.data_dir_option
@click.option("--sample", type=click.IntRange(min=1), default=10, help="Number of cells, drawn at random.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Number that changes which cells are drawn. By default the file alone decides, so that its author"
    " cannot know them before it is final; whoever doubts that takes a number of his own.",
)
@path_option("--record", help="New file (JSON) for what was computed again, which a board of results shows.")
@click.option("--by", metavar="NAME", help="With --record: who verifies.")
@flag("--checksums", help="Read every file of CUBE and check its checksum; compute nothing.")
@flag(
    "--run-methods",
    help="Also verify cells of methods from packages and files. This runs the code that CUBE names, if it is"
    " unchanged.",
)
@arguments.json_option
def verify(
    cube: Path,
    results: Path,
    sweep: Path | None,
    methods: tuple[str, ...],
    data_dir: Path | None,
    sample: int,
    seed: int | None,
    record: Path | None,
    by: str | None,
    checksums: bool,
    run_methods: bool,
    as_json: bool,
) -> None:
    """Compute random cells of CUBE, or of BUNDLE, again and compare bits; exit with 1 if any differs.

    With SCORES.csv, which `sweep export --format raw` makes of a cube, this computes cells of --sweep again
    and compares their scores.
    """
    is_table = cube.suffix == ".csv"
    conflicts = {"--sweep": sweep is not None, "--method": bool(methods)}
    if is_table:
        conflicts = {"--checksums": checksums, "--run-methods": run_methods}
    with reported():
        expected = f"{'a cube' if is_table else 'SCORES.csv'} with this option"
        problems = [
            Problem(option, f"with {cube}", expected) for option, is_set in conflicts.items() if is_set
        ]
        if (record is None) != (by is None):
            option, partner = ("--by", "--record") if record is None else ("--record", "--by")
            problems.append(Problem(partner, "nothing", f"a value, with {option}"))
        if record is not None and (checksums or record.exists()):
            description = "--checksums as well" if checksums else "a file"
            problems.append(Problem(f"--record {record}", description, "a new file for cells computed again"))
        if is_table and sweep is None:
            problems.append(Problem("--sweep", "nothing", "the sweep file whose cells these are"))
        raise_all(problems)
        outcome: Any
        next_words: tuple[object, ...] = ()
        if sweep is not None:
            from sweep_clustering.pipeline.check import verify_scores
            from sweep_clustering.pipeline.scoring.raw import read_raw

            with collecting(problems):
                spec = arguments.sweep_of(sweep, methods)
            with collecting(problems):
                table = read_raw(cube)
            raise_all(problems)
            outcome = verify_scores(
                table, spec, sweep.name, sample=sample, seed=seed, data_dir=data_dir, progress=progress_bar
            )
        else:
            if checksums:
                from sweep_clustering.storage.damage import scan

                path = arguments.find_cube(cube, results)
                outcome, next_words = scan(path, progress_bar), ("repair", path)
            else:
                from sweep_clustering.pipeline.check import verify as verify_cube

                path = arguments.find_cube(cube, results, bundle=True)
                outcome = verify_cube(
                    path,
                    sample=sample,
                    seed=seed,
                    run_methods=run_methods,
                    data_dir=data_dir,
                    progress=progress_bar,
                )
                next_words = () if path.is_file() else ("verify", path, "--checksums")
            if outcome.good:
                next_words = ("report", path)
        tell(outcome, as_json, *next_words)
        if record is not None and by is not None:
            from sweep_clustering.pipeline.check import write_record

            write_record(record, outcome, by)
    sys.exit(COMPLETE if outcome.good else INTERNAL)


def _verifying(path: Path) -> tuple[object, ...]:
    """Return the words of the command that computes cells again."""
    from sweep_clustering.pipeline.check import Drawable

    return ("verify", path, *["--run-methods"] * Drawable.of(path, run_methods=False).needs_code)


@click.command()
@arguments.takes_cube
@flag("--dry-run", help="Show what would be done; change nothing.")
@arguments.data_dir_option
def repair(cube: Path, results: Path, dry_run: bool, data_dir: Path | None) -> None:
    """Find damaged files of CUBE, and have what they held computed again by the next submit."""
    from sweep_clustering.pipeline.monitor.status import submit_words
    from sweep_clustering.storage.damage import repair_cube, repair_lines
    from sweep_clustering.storage.runfolder.lease import LeaseHeld

    with reported(LeaseHeld):
        path = arguments.find_cube(cube, results)
        outcome = repair_cube(path, data_dir=data_dir, dry_run=dry_run, progress=progress_bar)
    command = shlex.join(submit_words(path))
    show(repair_lines(path, outcome, command, dry_run=dry_run))
    if outcome.damaged and dry_run:
        next_step("repair", path)
    elif outcome.blocks:
        click.echo(f"next: {command}", err=True)
    else:
        next_step(*(("verify", path, "--checksums") if outcome.damaged else _verifying(path)))
    sys.exit(INTERNAL if outcome.lost else COMPLETE)


@click.command()
@arguments.takes_cube
@path_option("--out", help="File to write, NAME.zip.  [default: beside the cube]")
@flag("--force", help="Overwrite an existing file.")
def bundle(cube: Path, results: Path, out: Path | None, force: bool) -> None:
    """Write CUBE, and what others need to read, cite and check it, into one file, NAME.zip.

    The same CUBE gives the same bytes. Data without a known licence are left out.
    """
    from sweep_clustering.pipeline.publish.bundle import write_bundle

    with reported():
        place = arguments.find_place(cube, results)
        path = out or arguments.path_beside(place, ".zip")
        click.echo(write_bundle(place, path, overwrite=force, progress=progress_bar))
        next_words = _verifying(path)
    next_step(*next_words)


@click.command()
@arguments.paths_argument("bundles", metavar="BUNDLE...")
@arguments.results_option
@path_option("--out", help="Folder of the site.  [default: beside the first bundle]")
@arguments.repeatable(
    "--record",
    "records",
    type=arguments.PATH,
    help="Record of `sweep verify`; may be repeated. Those at NAME.verified*.json beside a bundle are found.",
)
def board(bundles: tuple[Path, ...], results: Path, out: Path | None, records: tuple[Path, ...]) -> None:
    """Write a static site of the lines of BUNDLE..., which may be cubes: ranks, scores, costs, data sets.

    The first one sets the places at which all lines are compared. The site needs no server; a board in the
    same folder is replaced.
    """
    from sweep_clustering.pipeline.publish.board import write_board

    with reported():
        find = partial(arguments.find_cube, results=results, bundle=True)
        places = collected(find, dict.fromkeys(bundles))
        page = write_board(places, out or arguments.path_beside(places[0], ".board"), records, progress_bar)
    click.echo(f"page: {page}")


@click.command()
@arguments.takes_cubes
@path_option("--out", required=True, help="Cube to write, NAME.zarr.")
@arguments.data_dir_option
def merge(cubes: tuple[Path, ...], results: Path, out: Path, data_dir: Path | None) -> None:
    """Write the cells of CUBE..., which may be bundles, into one cube, as if one run had computed them.

    They are of one sweep, and have other methods, data sets, p or m. Cells that several have must be equal.
    """
    from sweep_clustering.pipeline.publish.merge import merge as merge_cubes

    with reported():
        places = collected(partial(arguments.find_cube, results=results, bundle=True), cubes)
        click.echo(merge_cubes(places, out, data_dir=data_dir, progress=progress_bar))
    next_step("report", out)


@click.command()
@arguments.takes_cube
def cite(cube: Path, results: Path) -> None:
    """Print what to cite for CUBE, in BibTeX: software, paper, each data set and each method."""
    from sweep_clustering.pipeline.publish.description import bibliography
    from sweep_clustering.storage.cube.manifest import read_manifest

    with reported():
        click.echo(bibliography(read_manifest(arguments.find_place(cube, results))), nl=False)
