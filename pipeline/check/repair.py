"""A cube with damaged files, made ready for the next submit."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.monitor.runs import submit_words
from storage.cube.growth import InputArrays
from storage.cube.manifest import Manifest, read_manifest
from storage.damage import Damage, Progress, Repair, changed_root, repair, repair_root, scan
from storage.files import PLAIN
from storage.runfolder.lease import Lease
from sweeps.errors import InputError, Problem
from sweeps.inputs import load_inputs
from sweeps.plan import DatasetPlan

SAME = ("checksum", "annotations_checksum", "n_samples", "n_features", "scale", "has_labels", "mixtures")
"""Fields of a plan that the inputs of a cube are a function of."""


@dataclass(frozen=True)
class Repaired:
    """What was found in a cube, and done about it.

    Parameters
    ----------
    cube : Path
        The cube.
    damaged : tuple of Damage
        Files that had changed, or were gone.
    repair : Repair
        What was done, or with `dry_run` would be.
    command : str
        Computes what was set back.
    dry_run : bool
        Whether nothing was changed.
    """

    cube: Path
    damaged: tuple[Damage, ...]
    repair: Repair
    command: str
    dry_run: bool

    @property
    def lost(self) -> bool:
        """Whether something cannot be made again."""
        return bool(self.repair.lost)

    def lines(self) -> list[str]:
        """Text for people."""
        if not self.damaged:
            return [f"{self.cube}: every file is as it was written, nothing to repair"]
        done, would = self.repair, "would be " if self.dry_run else ""
        lines = [f"{self.cube}: damaged files: {len(self.damaged):,}"]
        lines += [f"  {damage}" for damage in self.damaged]
        lines += [f"{would}made again: {key}" for key in done.remade]
        lines += [f"{would}removed, of a block that was not finished: {key}" for key in done.removed]
        lines += [f"cannot be made again: {key}: {why}" for key, why in done.lost]
        if done.blocks:
            n_cells = sum(block.n_cells for block in done.blocks)
            lines.append(f"{n_cells:,} cells {would or 'are '}set back, in these blocks:")
            lines += [f"  {block}" for block in done.blocks]
            lines += ["to compute them again:", f"  {self.command}"]
        return lines


def repair_cube(cube: Path, *, data_dir: Path | None, dry_run: bool, progress: Progress = iter) -> Repaired:
    """Find the damaged files of a cube and set them right, as its only writer.

    Parameters
    ----------
    cube : Path
        The cube.
    data_dir : Path or None
        Folder with raw data files, for inputs that are damaged.
    dry_run : bool
        Only say what would be done.
    progress : callable, optional
        Called with the names of all files, and passes them on.

    Raises
    ------
    sweeps.errors.InputError
        If this is not a cube.
    storage.runfolder.lease.LeaseHeld
        If a run is writing to it.
    storage.errors.StorageError
        If the file system refuses.
    """
    if changed_root(cube) is None:
        read_manifest(cube)  # what is no cube gets no lease
    command = shlex.join(submit_words(cube))
    with nullcontext() if dry_run else Lease.acquire(cube) as lease:
        files = PLAIN if lease is None else lease.files
        root = changed_root(cube)
        if root is not None:
            remade = repair_root(cube, files, dry_run=dry_run)
            if dry_run or remade.lost:
                return Repaired(cube, (root,), remade, command, dry_run)
        manifest = read_manifest(cube)
        damaged = scan(cube, progress).damaged

        def inputs(plan: DatasetPlan) -> InputArrays:
            return _inputs(manifest, plan, data_dir)

        done = repair(cube, damaged, inputs, files, dry_run=dry_run)
        if root is not None:
            damaged, done = (root, *damaged), replace(done, remade=(root.key, *done.remade))
    return Repaired(cube, damaged, done, command, dry_run)


def _inputs(manifest: Manifest, plan: DatasetPlan, data_dir: Path | None) -> InputArrays:
    """Inputs of one data set from where they came from, if they are the same data."""
    spec = manifest.spec
    entries = tuple(entry for entry in spec.grid.datasets if entry.name == plan.name)
    alone = spec.model_copy(update={"grid": spec.grid.model_copy(update={"datasets": entries})})
    found = load_inputs(alone, str(manifest.path), data_dir=data_dir)
    (new,) = found.plans
    problems = [
        Problem(f"data set {plan.name}, {field}", repr(getattr(new, field)), repr(getattr(plan, field)))
        for field in SAME
        if getattr(new, field) != getattr(plan, field)
    ]
    if problems:
        raise InputError(problems)
    return found.stored(plan)
