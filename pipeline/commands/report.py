"""The commands that show what cubes hold."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.commands.options import json_option, reported, results_option, show
from pipeline.scoring.catalogue import LABELS


@click.command()
@click.argument("cube", type=click.Path(path_type=Path))
@results_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the page, tables and figures.  [default: beside the cube]",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="CSV of published means (p, n_clusters, m, model, metric, value) to compare with.",
)
@click.option("--cell", help="Cell of the scatter plots, such as iris/p=0.9/m=75/replicate=0/posterior.")
def report(cube: Path, results: Path, out: Path | None, against: Path | None, cell: str | None) -> None:
    """Write a page of CUBE, its tables (CSV) and figures (SVG, PNG), and show a summary."""
    from pipeline.commands.paths import find_cube
    from pipeline.report.write import write_report

    with reported():
        path = find_cube(cube, results)
        written = write_report(path, out or path.with_suffix(".report"), published=against, cell=cell)
    click.echo(written.text)
    click.echo(f"page: {written.page}")


@click.command()
@click.argument("cube_a", type=click.Path(path_type=Path))
@click.argument("cube_b", type=click.Path(path_type=Path))
@results_option
@click.option(
    "--score",
    "scores",
    multiple=True,
    type=click.Choice(list(LABELS)),
    help="Score to compare; may be repeated.  [default: nmi]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the tables and figures.  [default: beside CUBE_B]",
)
@json_option
def compare(
    cube_a: Path, cube_b: Path, results: Path, scores: tuple[str, ...], out: Path | None, as_json: bool
) -> None:
    """Compare the cells of CUBE_B with the same cells of CUBE_A: paired differences, B minus A."""
    from pipeline.commands.paths import find_cube
    from pipeline.report.compare import write_comparison

    with reported():
        first, second = find_cube(cube_a, results), find_cube(cube_b, results)
        folder = out or second.with_name(f"{second.stem}-against-{first.stem}.compare")
        comparison = write_comparison(first, second, folder, scores or ("nmi",))
    show(comparison.to_dict() if as_json else comparison.lines())
