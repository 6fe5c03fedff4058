"""Commands that publish cubes: `bundle`."""

from pathlib import Path

import click

from sweep_clustering.pipeline.commands import arguments
from sweep_clustering.pipeline.commands.arguments import flag, path_option
from sweep_clustering.pipeline.commands.output import next_step, progress_bar, reported


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
