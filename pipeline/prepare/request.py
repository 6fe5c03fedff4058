"""A checked submit: everything that the head of a run needs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from pipeline.cluster.profiles import Profile
from pipeline.prepare.sweep import Prepared
from pipeline.prepare.wanted import Wanted, is_settled


@dataclass(frozen=True)
class Request:
    """A checked submit.

    Parameters
    ----------
    spec : Path
        Sweep file.
    prepared : Prepared
        Its contents, with data and cube.
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
        """Whether its workers are jobs of SLURM."""
        return self.profile is not None and self.profile.kind == "slurm"


FLAGS = {"cluster_file": "--cluster"}
"""Flags that are not named like their field."""

NOT_FORWARDED = {"results", "dry_run", "detach"}
"""Fields that a head does not need; the folder of results it gets as an absolute path."""


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
        Folder with raw data files.
    only : tuple of str
        Names of the cells to run, marked failed or not; empty for all.
    time_limit : float or None
        Seconds a batch may run on a worker; None for a generous default.
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
        """The choices that a head needs, as arguments of `sweep submit`; paths are absolute."""
        found: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in NOT_FORWARDED or value == field.default:
                continue
            flag = FLAGS.get(field.name, "--" + field.name.replace("_", "-"))
            for item in value if isinstance(value, tuple) else [value]:
                text = str(item.resolve()) if isinstance(item, Path) else str(item)
                found += [flag] if item is True else [flag, text]
        return found
