"""The next holder of a lease writes a cube here."""

from collections.abc import Iterator
from pathlib import Path

from cubes.small import SPEC, draw_inputs

from sweep_clustering.storage.cube.growth import create
from sweep_clustering.storage.files import Files
from sweep_clustering.storage.runfolder.folder import GenerationFolder, RunFolder
from sweep_clustering.storage.runfolder.journal import Arrays, Header, replay
from sweep_clustering.storage.runfolder.lease import close_older, inherit
from sweep_clustering.sweeps.plan import DatasetPlan


def empty_cube(folder: Path, plan: DatasetPlan) -> Path:
    """Make a cube with nothing done, and its run folder."""
    path = folder / "tiny.zarr"
    create(path, [plan], draw_inputs, SPEC)
    RunFolder(path).make()
    return path


def next_generation(cube: Path) -> GenerationFolder:
    """Begin a generation after all others, and take over what these hold."""
    run = RunFolder(cube)
    run.make()
    number = 1 + max((older.number for older in run.generations()), default=0)
    generation = GenerationFolder(run, number)
    generation.open()
    close_older(run, number)
    inherit(run, generation)
    return generation


def next_files(cube: Path) -> Files:
    """Return the files through which the next holder writes."""
    return next_generation(cube).files


def journal_records(cube: Path) -> Iterator[tuple[Header, Arrays]]:
    """Yield the records of the journals of all generations."""
    for generation in RunFolder(cube).generations():
        yield from replay(generation.journal)
