"""Chunk files that have changed or are missing: `scan` finds them, `repair` puts them right.

Blocks are set back to be computed again; inputs and coordinates are made again. The root file, which
describes all others, is put back from the copy in the run folder. `repair_cube` does so as the only writer,
with inputs from their sources.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.chunks import ROOT_FILE, variable_of
from sweep_clustering.storage.cube.growth import InputArrays, render, stored_inputs
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.cube.schema import Role
from sweep_clustering.storage.files import (
    PLAIN,
    DamagedChunk,
    Files,
    digest_of,
    read_regular,
    storage_errors,
    sync_directory,
)
from sweep_clustering.storage.runfolder.folder import RunFolder, merged_lines
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.data.builtin import data_folder
from sweep_clustering.sweeps.errors import InputError, Problem, plural, raise_all
from sweep_clustering.sweeps.file.spec import UserTable
from sweep_clustering.sweeps.files import NO_FILE
from sweep_clustering.sweeps.inputs import Inputs as SweepInputs
from sweep_clustering.sweeps.inputs import load_inputs
from sweep_clustering.sweeps.plan import Block, DatasetPlan

# Passes keys on, and may show the progress.
Progress = Callable[[list[str]], Iterable[str]]

Inputs = Callable[[Manifest, DatasetPlan], InputArrays]

CHANGE_FAULT = "has changed since it was written"
MOVE_FAULT = "is whole, and not what was written there: the file of another chunk, or of another cube"


@dataclass(frozen=True)
class Damage:
    """A file that is not as it was written."""

    key: str  # path below the cube
    content: str  # array and cells
    problem: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}; it holds {self.content}"


@dataclass(frozen=True)
class Scan:
    """Result of reading the files of a cube."""

    cube: Path
    files: int  # good chunk files
    size: int  # bytes of the good files
    seconds: float
    damaged: tuple[Damage, ...]  # in the order of the arrays
    unknown: int = 0  # good files without a digest in the run folder: they may be in the wrong place

    @property
    def good(self) -> bool:
        return not self.damaged

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        damaged = [{"key": file.key, "holds": file.content, "found": file.problem} for file in self.damaged]
        return {**asdict(self), "cube": str(self.cube), "damaged": damaged, "good": self.good}

    def lines(self) -> list[str]:
        """Return a summary for people."""
        rate = self.size / 1e6 / max(self.seconds, 1e-9)
        read = f"{self.size / 1e6:,.1f} MB in {self.seconds:.1f} s ({rate:,.0f} MB/s)"
        lines = [f"{self.cube}: {self.files:,} files are as they were written, {read}"]
        if self.unknown:
            files = f"{self.unknown:,} file{'s' if self.unknown > 1 else ''}"
            lines.append(f"{files} not checked for being in the right place: no digest in the run folder")
        if self.damaged:
            lines.append(f"damaged files: {len(self.damaged):,}")
            lines += [f"  {damage}" for damage in self.damaged]
            lines.append(f"to have them made again: sweep repair {self.cube}")
        return lines


class NotedDigests:
    """Digests of a cube's files, as the holders of the lease noted them in the run folder."""

    def __init__(self, cube: Path) -> None:
        self._run = RunFolder(cube)
        self._run.check()
        self.digests: dict[str, set[str]] = {}
        self._read()

    def is_as_noted(self, key: str, content: bytes) -> bool:
        """Whether a file is as a holder wrote it once, or has no digest.

        Files are noted before they exist, so a file that was written meanwhile is found at a second look.
        """
        digest = digest_of(content)
        if digest not in self.digests.get(key, {digest}):
            self._read()
        return digest in self.digests.get(key, {digest})

    def root(self) -> bytes | None:
        """Return the root file that was written last, None if the run folder has none."""
        copies = [generation.root for generation in self._run.generations() if generation.root.exists()]
        return read_regular(copies[-1]) if copies else None

    def _read(self) -> None:
        for line in merged_lines(generation.digests for generation in self._run.generations()).splitlines():
            digest, _, key = line.decode(errors="replace").partition(" ")
            self.digests.setdefault(key, set()).add(digest)


def changed_root(path: Path) -> Damage | None:
    """Return the damage of the root file, None if it is as a run wrote it; it describes all other files."""
    content = b""
    with storage_errors(path):
        with suppress(FileNotFoundError, NotADirectoryError):
            content = read_regular(path / ROOT_FILE)
        is_unchanged = NotedDigests(path).is_as_noted(ROOT_FILE, content)
    description = "the sweep, the grid and the metadata of all arrays"
    return None if is_unchanged else Damage(ROOT_FILE, description, CHANGE_FAULT if content else "is missing")


def scan(path: Path, progress: Progress = iter) -> Scan:
    """Read every chunk file of a cube and compare it with its checksum; a sweep may be writing to it.

    If the root file has changed, it alone is damaged, because without it the others have no description.
    `progress` is called with the keys of all files, and passes them on.

    Raises
    ------
    InputError
        If this is not a cube.
    StorageError
        If the file system refuses.
    """
    start = time.perf_counter()
    if (root := changed_root(path)) is not None:
        return Scan(path, 0, 0, 0.0, (root,))
    manifest, noted_digests = read_manifest(path), NotedDigests(path)
    files, size, n_unknown, damaged = 0, 0, 0, []
    with storage_errors(path):
        keys = manifest.chunks.keys()
        file_keys = [key for key in keys if os.path.lexists(path / key) or manifest.chunks.is_expected(key)]
        for key in progress(file_keys):
            try:
                chunk = manifest.chunks.load(key)
            except DamagedChunk as damage:
                damaged.append(Damage(key, damage.holds, damage.reason))
                continue
            if chunk is not None and not noted_digests.is_as_noted(key, chunk[0]):
                damaged.append(Damage(key, manifest.chunks.name(key), MOVE_FAULT))
            elif chunk is not None:
                files += 1
                size += len(chunk[0])
                n_unknown += key not in noted_digests.digests
    return Scan(path, files, size, time.perf_counter() - start, tuple(damaged), n_unknown)


@dataclass(frozen=True)
class Repair:
    """Measures against damaged files."""

    damaged: tuple[Damage, ...]
    # These are pending now; their intact files are compared with what is computed again.
    blocks: tuple[Block, ...] = ()
    remade: tuple[str, ...] = ()  # keys of the root file, coordinates and inputs
    removed: tuple[str, ...] = ()  # keys of chunks of blocks that were not finished
    lost: dict[str, str] = field(default_factory=dict)  # reasons, by key


def repair(
    path: Path, inputs: Inputs, files: Files = PLAIN, *, dry_run: bool = False, progress: Progress = iter
) -> Repair:
    """Put damaged files right; only the holder of the lease may.

    It may be stopped at any moment and called again: a block is pending before anything in it is replaced.

    Parameters
    ----------
    path : Path
        path of the cube
    inputs : callable
        From a cube and one of its plans to inputs, as for `storage.cube.growth.create`. It raises
        `InputError` if they are missing, or belong to other data.
    files : Files
        writer of the holder of the lease
    dry_run : bool
        Whether nothing is written.
    progress : callable, optional
        as for `scan`

    Raises
    ------
    InputError
        If this is not a cube.
    StorageError
        If the file system refuses.
    """
    damaged = scan(path, progress).damaged
    if [damage.key for damage in damaged] == [ROOT_FILE]:
        content = NotedDigests(path).root()
        if content is None:
            return Repair(damaged, lost={ROOT_FILE: "the run folder has no copy of it"})
        if dry_run:
            return Repair(damaged, remade=(ROOT_FILE,))
        with storage_errors(path, len(content)):
            files.put(path / ROOT_FILE, content)
            sync_directory(path)
        outcome = repair(path, inputs, files, progress=progress)
        return replace(outcome, damaged=damaged + outcome.damaged, remade=(ROOT_FILE, *outcome.remade))
    manifest, store = read_manifest(path), BlockStore(path, read_only=dry_run, files=files)
    keys = [file.key for file in damaged]
    results = [key for key in keys if variable_of(key).role in (Role.RESULT, Role.ANNOTATION)]
    blocks_of_key = {key: [*filter(store.has_status, manifest.chunks.blocks(key))] for key in results}
    remade, losses = _remake(manifest, [key for key in keys if key not in blocks_of_key], inputs)
    blocks = tuple(dict.fromkeys(chain.from_iterable(blocks_of_key.values())))
    removed_keys = tuple(key for key, finished_blocks in blocks_of_key.items() if not finished_blocks)
    if not dry_run:
        with storage_errors(path):
            for block in blocks:
                store.clear(block, "status")
            for key, finished_blocks in blocks_of_key.items():
                if finished_blocks and variable_of(key).name != "status":
                    store.clear(finished_blocks[0], variable_of(key).name)
            for key in removed_keys:
                files.remove(path / key)
                sync_directory((path / key).parent)
            files.put_all(path, remade.items())
    return Repair(damaged, blocks, tuple(remade), removed_keys, losses)


def _remake(manifest: Manifest, keys: list[str], inputs: Inputs) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the content of chunks of coordinates and inputs, and for the others the reason of the loss."""
    files: dict[str, bytes] = {}
    losses: dict[str, str] = {}
    for plan in manifest.plans.values():
        keys_of_plan = [key for key in keys if key.startswith(f"{plan.name}/")]
        lost_inputs = [key for key in keys_of_plan if variable_of(key).role is Role.INPUT]
        data, reason = None, ""
        try:
            data = inputs(manifest, plan) if lost_inputs else None
        except InputError as error:
            reason = "; ".join(map(str, error.problems))
        _, contents = render([plan] if keys_of_plan else [], manifest.metadata, {plan: data}.get)
        for key in stored_inputs(manifest, contents.keys() - lost_inputs):
            if not manifest.chunks.has_values(key, contents[key]):
                reason = f"{key.rpartition('/')[0]} has other values now than in the cube"
        losses |= dict.fromkeys(lost_inputs if reason else (), reason)
        files |= {key: contents[key] for key in keys_of_plan if key not in losses}
    return files, losses


# Fields of a plan that determine the inputs of a cube.
SAME = (
    *("checksum", "annotations_checksum", "n_samples", "n_features"),
    *("scale", "has_labels", "mixtures", "first_mixture", "mixture_step"),
)


def loaded_again(manifest: Manifest, plan: DatasetPlan, data_dir: Path | None) -> SweepInputs:
    """Return the inputs of one data set of a cube from their source; InputError if they are other data.

    Files of a table are searched in `data_dir` by their names first.
    """
    (entry,) = (entry for entry in manifest.spec.grid.datasets if entry.name == plan.name)
    if isinstance(entry, UserTable):
        paths = {key: Path(path) for key in ("path", "annotations") if (path := getattr(entry, key))}
        if (folder := data_folder(data_dir)) is not None:
            paths_in_folder = {key: folder / path.name for key, path in paths.items()}
            paths |= {key: path for key, path in paths_in_folder.items() if path.exists()}
        expected = f"a file of data set {plan.name}, which the cube lacks"
        hint = "--data-dir names the folder of such files"
        raise_all(Problem(str(path), NO_FILE, expected, hint) for path in paths.values() if not path.exists())
        entry = entry.model_copy(update={key: str(path) for key, path in paths.items()})
    grid = manifest.spec.grid.model_copy(update={"datasets": (entry,)})
    data = manifest.spec.data.model_copy(update={"unavailable": "error"})
    spec_of_entry = manifest.spec.model_copy(update={"grid": grid, "data": data})
    new_inputs = load_inputs(spec_of_entry, str(manifest.path), data_dir=data_dir)
    (new,) = new_inputs.plans
    raise_all(
        Problem(f"data set {plan.name}, {field}", repr(getattr(new, field)), repr(getattr(plan, field)))
        for field in SAME
        if getattr(new, field) != getattr(plan, field)
    )
    return new_inputs


def repair_cube(cube: Path, *, data_dir: Path | None, dry_run: bool, progress: Progress = iter) -> Repair:
    """Find the damaged files of a cube and set them right, as its only writer.

    Raw data in `data_dir` replace damaged inputs. A dry run only reports. `progress` is called with the names
    of all files, and passes them on. An `InputError` says that this is not a cube, and a `LeaseHeld` that a
    run is writing to it.
    """
    if changed_root(cube) is None:
        read_manifest(cube)  # what is no cube gets no lease

    def inputs(manifest: Manifest, plan: DatasetPlan) -> InputArrays:
        return loaded_again(manifest, plan, data_dir).stored(plan)

    if dry_run:
        return repair(cube, inputs, dry_run=True, progress=progress)
    with Lease.acquire(cube) as lease:
        return repair(cube, inputs, lease.files, progress=progress)


def repair_lines(cube: Path, outcome: Repair, command: str, *, dry_run: bool) -> list[str]:
    """Return the damaged files and their repair as lines; `command` computes again the cells that were set
    back.
    """
    if not outcome.damaged:
        return [f"{cube}: every file is as it was written, nothing to repair"]
    would = "would be " if dry_run else ""
    lines = [f"{cube}: damaged files: {len(outcome.damaged):,}"]
    lines += [f"  {damage}" for damage in outcome.damaged]
    lines += [f"{would}made again: {key}" for key in outcome.remade]
    lines += [f"{would}removed from an unfinished block: {key}" for key in outcome.removed]
    lines += [f"cannot be made again: {key}: {reason}" for key, reason in outcome.lost.items()]
    if outcome.blocks:
        n_cells = sum(block.n_cells for block in outcome.blocks)
        be = would or ("is " if n_cells == 1 else "are ")
        lines.append(f"{plural(n_cells, 'cell')} {be}set back, in these blocks:")
        lines += [f"  {block}" for block in outcome.blocks]
        lines += ["to compute them again:", f"  {command}"]
    return lines
