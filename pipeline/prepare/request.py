"""A submit of which everything is known to be right: what the head is handed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from pipeline.cluster.profiles import Profile
from pipeline.prepare.sweep import Prepared
from pipeline.prepare.wanted import Wanted, is_settled


@dataclass(frozen=True)
class Request:
    """A submit of which everything is known to be right.

    Parameters
    ----------
    spec : Path
        Sweep file.
    prepared : Prepared
        What it says, with data and cube.
    wanted : Wanted
        Which cells of it.
    profile : Profile or None
        Where to compute; None for this process.
    options : Options
        Runtime choices.
    """

    spec: Path
    prepared: Prepared
    wanted: Wanted
    profile: Profile | None
    options: Options

    @property
    def settled(self) -> bool:
        """Whether there is nothing to do."""
        return is_settled(self.prepared, self.wanted)

    @property
    def queued(self) -> bool:
        """Whether jobs of SLURM are to be its workers."""
        return self.profile is not None and self.profile.kind == "slurm"


FLAGS = {"cluster_file": "--cluster"}
"""Flags that are not called like their field."""

OWN = {"results", "dry_run", "detach"}
"""Fields that a head is not told, or in another way."""


@dataclass(frozen=True)
class Options:
    """Runtime choices: none of them changes a number.

    Parameters
    ----------
    results : Path
        Folder of the cubes.
    profile : str
        Compute-cluster profile.
    cluster_file : Path or None
        cluster.yaml to take instead of searching.
    workers : int or None
        Worker processes; 0 runs everything in this process, None as many as the profile says.
    detach, dry_run, retry_failed, strict : bool
        As in the command line.
    data_dir : Path or None
        Where raw data files lie.
    only : tuple of str
        Names of the cells to run, marked failed or not; none for all.
    time_limit : float or None
        Seconds a batch may run on a worker; None is generous.
    """

    results: Path
    profile: str = "local"
    cluster_file: Path | None = None
    workers: int | None = None
    detach: bool = False
    dry_run: bool = False
    retry_failed: bool = False
    strict: bool = False
    data_dir: Path | None = None
    only: tuple[str, ...] = ()
    time_limit: float | None = None

    def flags(self) -> list[str]:
        """The choices that a head has to be told, as arguments of `sweep submit`; paths are absolute."""
        found: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in OWN or value == field.default:
                continue
            flag = FLAGS.get(field.name, "--" + field.name.replace("_", "-"))
            for item in value if isinstance(value, tuple) else [value]:
                text = str(item.resolve()) if isinstance(item, Path) else str(item)
                found += [flag] if item is True else [flag, text]
        return found
