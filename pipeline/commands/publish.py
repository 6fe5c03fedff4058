"""Commands that publish cubes: `bundle`, `cite`, `merge` and `board`."""

from functools import partial
from pathlib import Path

import click

from sweep_clustering.pipeline.commands import arguments
from sweep_clustering.pipeline.commands.arguments import flag, path_option
from sweep_clustering.pipeline.commands.output import next_step, progress_bar, reported
from sweep_clustering.sweeps.errors import collected


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
        path = out or arguments.beside(place, ".zip")
        click.echo(write_bundle(place, path, overwrite=force, progress=progress_bar))
    next_step("verify", path)


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
        page = write_board(places, out or arguments.beside(places[0], ".board"), records, progress_bar)
    click.echo(f"page: {page}")


@click.command()
@arguments.takes_cubes
@path_option("--out", required=True, help="Cube to write, NAME.zarr.")
def merge(cubes: tuple[Path, ...], results: Path, out: Path) -> None:
    """Write the cells of CUBE..., which may be bundles, into one cube, as if one run had computed them.

    They are of one sweep, and have other methods, data sets, p or m. Cells that several have must be equal.
    """
    from sweep_clustering.pipeline.publish.merge import merge as merge_cubes

    with reported():
        places = collected(partial(arguments.find_cube, results=results, bundle=True), cubes)
        click.echo(merge_cubes(places, out, progress_bar))
    next_step("report", out)


@click.command()
@arguments.takes_cube
def cite(cube: Path, results: Path) -> None:
    """Print what to cite for CUBE, in BibTeX: software, paper, each data set and each method."""
    from sweep_clustering.pipeline.publish.citation import bibliography
    from sweep_clustering.storage.cube.manifest import read_manifest

    with reported():
        click.echo(bibliography(read_manifest(arguments.find_place(cube, results))), nl=False)
