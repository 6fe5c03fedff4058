"""Commands that check what cubes hold, and set it right: `sweep verify`, `repair`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from pipeline.commands.options import (
    data_dir_option,
    json_option,
    next_step,
    reported,
    results_option,
    show,
)
from pipeline.common import COMPLETE, INTERNAL


@click.command()
@click.argument("cube", type=click.Path(path_type=Path))
@results_option
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of cells, drawn at random.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the choice.")
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
    from pipeline.commands.paths import find_cube

    with reported():
        path = find_cube(cube, results)
        if checksums:
            from pipeline.check.verify import check_files

            found = check_files(path, progress_bar)
            show(found.to_dict() if as_json else found.lines())
            if not as_json:
                next_step("report" if found.good else "repair", path)
            sys.exit(COMPLETE if found.good else INTERNAL)
        from pipeline.check.verify import verify as check

        verification = check(path, sample=sample, seed=seed, run_methods=run_methods)
    show(verification.to_dict() if as_json else verification.lines())
    if not as_json:
        next_step(*(("report", path) if verification.good else ("verify", path, "--checksums")))
    sys.exit(COMPLETE if verification.good else INTERNAL)


@click.command()
@click.argument("cube", type=click.Path(path_type=Path))
@results_option
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@data_dir_option
def repair(cube: Path, results: Path, dry_run: bool, data_dir: Path | None) -> None:
    """Find damaged files of CUBE, and have what they held computed again by the next submit."""
    from pipeline.check.repair import repair_cube
    from pipeline.commands.paths import find_cube
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


def progress_bar(keys: list[str]) -> Iterable[str]:
    """Files that are read, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(keys, "files", console=console, transient=True, disable=not console.is_terminal)
