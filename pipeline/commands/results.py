"""Commands on what cubes hold: `report`, `open`, `export`, `compare` show it, `verify`, `repair` check it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.commands.options import (
    PLACE,
    Word,
    beside,
    cube_argument,
    cube_or_spec_argument,
    data_dir_option,
    find_cube,
    find_place,
    find_run,
    json_option,
    next_step,
    progress_bar,
    reported,
    results_option,
    show,
    tell,
)
from pipeline.common import COMPLETE, INTERNAL
from sweeps.errors import InputError, Problem, collecting, not_one_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class ScoreName(Word):
    """A score; the catalogue, which needs arrays, is loaded only for help, completion and comparing."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """All names."""
        self._load()
        return super().get_metavar(param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so."""
        self._load()
        return super().shell_complete(ctx, param, incomplete)

    def _load(self) -> None:
        from pipeline.scoring.scores import LABELS

        self.choices = tuple(LABELS)


@click.command()
@cube_argument
@results_option
@click.option(
    "--out",
    type=PLACE,
    help="Folder of the page, tables and figures.  [default: beside the cube]",
)
@click.option(
    "--against",
    type=PLACE,
    help="CSV of published means (p, n_clusters, m, model, metric, value) to compare with.",
)
@click.option("--cell", help="Cell of the scatter plots, such as iris/p=0.9/m=75/replicate=0/posterior.")
@json_option
def report(
    cube: Path, results: Path, out: Path | None, against: Path | None, cell: str | None, as_json: bool
) -> None:
    """Write a page of CUBE, its tables (CSV) and figures (SVG, PNG), and show a summary.

    CUBE may be an address (https://, s3://), of which nothing but the cube is read.
    """
    from pipeline.report.write import write_report

    with reported():
        path = find_place(cube, results)
        written = write_report(path, out or beside(path, ".report"), published=against, cell=cell)
    if as_json:
        show(written.to_dict())
        return
    click.echo(written.text)
    click.echo(f"page: {written.page}")
    next_step("export" if isinstance(path, str) else "open", path)


@click.command("open")
@cube_or_spec_argument
@results_option
@click.option("--port", type=click.IntRange(1, 65_535), help="Of the page.  [default: a free one]")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
def open_page(cube_or_spec: Path, results: Path, port: int | None, no_browser: bool) -> None:
    """Show the page of a run of CUBE in a browser, from files alone, until Ctrl-C; changes nothing."""
    from pipeline.live.site import address_of, serving

    with reported(), serving(find_run(cube_or_spec, results), port or 0) as server:
        address, from_elsewhere = address_of(server)
        click.echo(f"page: {address} ({from_elsewhere})")
        click.echo("Ctrl-C ends it", err=True)
        if not no_browser:
            show_in_browser(address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def show_in_browser(address: str) -> None:
    """Open an address in a browser with a window of its own; where there is none, the line must do."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if not isinstance(browser, webbrowser.GenericBrowser):  # one of text would take the terminal
        browser.open(address)


@click.command()
@cube_argument
@results_option
@click.option(
    "--format",
    "how",
    type=Word(("csv", "parquet", "netcdf")),
    default="csv",
    help="Tables in CSV or parquet, or grids in netCDF.",
)
@click.option("--out", type=PLACE, help="Folder of the files.  [default: beside the cube]")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.option(
    "--scores",
    "only_scores",
    is_flag=True,
    help="Store the scores beside CUBE instead, as <name>.scores.zarr, which xarray opens; computed again"
    " only if CUBE has changed.",
)
def export(cube: Path, results: Path, how: str, out: Path | None, force: bool, only_scores: bool) -> None:
    """Write labels, scores and summaries of CUBE for other programs."""
    with reported():
        given = {"--out": out is not None, "--force": force, "--format": how != "csv"}
        problems = [
            Problem(option, "--scores as well", "one of them", "scores have their place beside the cube")
            for option, is_given in given.items()
            if only_scores and is_given
        ]
        with collecting(problems):
            local = find_cube(cube, results) if only_scores else None
            path = local or find_place(cube, results)
        if problems:
            raise InputError(problems)
        if local is not None:
            from pipeline.scoring.scores import store_scores
            from storage.cube.growth import open_cube

            stored, is_new = store_scores(local, open_cube(local))
            click.echo(f"scores: {stored}{'' if is_new else ', as they were'}")
            next_step("report", path)
            return
        from pipeline.report.export import write_export

        for file in write_export(path, out or beside(path, ".export"), how, overwrite=force):
            click.echo(file)
    next_step("report", path)


@click.command()
@click.argument("cube_a", type=PLACE)
@click.argument("cube_b", type=PLACE)
@results_option
@click.option(
    "--score",
    "scores",
    multiple=True,
    type=ScoreName(()),
    help="Score to compare; may be repeated.  [default: nmi and adjusted_rand]",
)
@click.option(
    "--out",
    type=PLACE,
    help="Folder of the tables and figures.  [default: beside CUBE_B]",
)
@json_option
def compare(
    cube_a: Path, cube_b: Path, results: Path, scores: tuple[str, ...], out: Path | None, as_json: bool
) -> None:
    """Compare the cells of CUBE_B with the same cells of CUBE_A: paired differences, B minus A.

    Either may be an address (https://, s3://).
    """
    from pipeline.report.compare import write_comparison
    from pipeline.scoring.ranking import RANKED
    from pipeline.scoring.scores import LABELS

    with reported():
        problems = [not_one_of("--score", score, LABELS) for score in scores if score not in LABELS]
        cubes = []
        for path in (cube_a, cube_b):
            with collecting(problems):
                cubes.append(find_place(path, results))
        if problems:
            raise InputError(problems)
        first, second = cubes
        folder = out or beside(second, ".compare").with_name(
            f"{Path(second).stem}-against-{Path(first).stem}.compare"
        )
        comparison = write_comparison(first, second, folder, scores or RANKED)
    tell(comparison, as_json, "report", second)


@click.command()
@cube_argument
@results_option
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=10,
    help="Number of cells, drawn at random.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the choice.")
@click.option(
    "--checksums", is_flag=True, help="Read every file of CUBE and check its checksum; compute nothing."
)
@click.option(
    "--run-methods",
    is_flag=True,
    help="Also cells of methods of packages and files: runs the code that CUBE names, if it is as it was.",
)
@json_option
def verify(
    cube: Path, results: Path, sample: int, seed: int, checksums: bool, run_methods: bool, as_json: bool
) -> None:
    """Compute random cells of CUBE again and compare bits; exit with 1 if any differs."""
    with reported():
        path = find_cube(cube, results)
        if checksums:
            from pipeline.check.verify import check_files

            found = check_files(path, progress_bar)
            tell(found, as_json, "report" if found.good else "repair", path)
            sys.exit(COMPLETE if found.good else INTERNAL)
        from pipeline.check.verify import verify as check

        verification = check(path, sample=sample, seed=seed, run_methods=run_methods)
    tell(verification, as_json, *(("report", path) if verification.good else ("verify", path, "--checksums")))
    sys.exit(COMPLETE if verification.good else INTERNAL)


@click.command()
@cube_argument
@results_option
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@data_dir_option
def repair(cube: Path, results: Path, dry_run: bool, data_dir: Path | None) -> None:
    """Find damaged files of CUBE, and have what they held computed again by the next submit."""
    from pipeline.check.repair import repair_cube
    from storage.runfolder.lease import LeaseHeld

    with reported():
        path = find_cube(cube, results)
        try:
            done = repair_cube(path, data_dir=data_dir, dry_run=dry_run, progress=progress_bar)
        except LeaseHeld as held:
            click.echo(str(held), err=True)
            sys.exit(INTERNAL)
    show(done.lines())
    if done.damaged and dry_run:
        next_step("repair", path)
    elif done.repair.blocks:
        click.echo(f"next: {done.command}", err=True)
    else:
        next_step("verify", path, *(["--checksums"] if done.damaged else []))
    sys.exit(INTERNAL if done.lost else COMPLETE)
