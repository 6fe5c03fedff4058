"""Make a cube with damaged files ready for the next submit."""

from pathlib import Path

from sweep_clustering.pipeline.common import plural
from sweep_clustering.storage.cube.growth import InputArrays
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.damage import Progress, Repair, changed_root, repair
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.errors import InputError, Problem
from sweep_clustering.sweeps.inputs import load_inputs
from sweep_clustering.sweeps.plan import DatasetPlan

# Fields of a plan that determine the inputs of a cube.
SAME = (
    *("checksum", "annotations_checksum", "n_samples", "n_features"),
    *("scale", "has_labels", "mixtures", "first_mixture", "mixture_step"),
)


def repair_cube(cube: Path, *, data_dir: Path | None, dry_run: bool, progress: Progress = iter) -> Repair:
    """Find the damaged files of a cube and set them right, as its only writer.

    Raw data in `data_dir` replace damaged inputs. A dry run only reports. `progress` is called with the names
    of all files, and passes them on. An `InputError` says that this is not a cube, and a `LeaseHeld` that a
    run is writing to it.
    """
    if changed_root(cube) is None:
        read_manifest(cube)  # what is no cube gets no lease

    def inputs(manifest: Manifest, plan: DatasetPlan) -> InputArrays:
        """Return the inputs of one data set from their source, if they are the same data."""
        spec = manifest.spec
        entries = tuple(entry for entry in spec.grid.datasets if entry.name == plan.name)
        alone = spec.model_copy(update={"grid": spec.grid.model_copy(update={"datasets": entries})})
        loaded = load_inputs(alone, str(cube), data_dir=data_dir)
        (new,) = loaded.plans
        problems = [
            Problem(f"data set {plan.name}, {field}", repr(getattr(new, field)), repr(getattr(plan, field)))
            for field in SAME
            if getattr(new, field) != getattr(plan, field)
        ]
        if problems:
            raise InputError(problems)
        return loaded.stored(plan)

    if dry_run:
        return repair(cube, inputs, dry_run=True, progress=progress)
    with Lease.acquire(cube) as lease:
        return repair(cube, inputs, lease.files, progress=progress)


def repair_lines(cube: Path, done: Repair, command: str, *, dry_run: bool) -> list[str]:
    """Return the damaged files and their repair as lines; `command` computes again the cells that were set
    back.
    """
    if not done.damaged:
        return [f"{cube}: every file is as it was written, nothing to repair"]
    would = "would be " if dry_run else ""
    lines = [f"{cube}: damaged files: {len(done.damaged):,}"]
    lines += [f"  {damage}" for damage in done.damaged]
    lines += [f"{would}made again: {key}" for key in done.remade]
    lines += [f"{would}removed from an unfinished block: {key}" for key in done.removed]
    lines += [f"cannot be made again: {key}: {why}" for key, why in done.lost.items()]
    if done.blocks:
        n_cells = sum(block.n_cells for block in done.blocks)
        be = would or ("is " if n_cells == 1 else "are ")
        lines.append(f"{plural(n_cells, 'cell')} {be}set back, in these blocks:")
        lines += [f"  {block}" for block in done.blocks]
        lines += ["to compute them again:", f"  {command}"]
    return lines
