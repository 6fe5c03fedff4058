"""A submit of which everything is known to be right: what the head is handed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.options import Options
from pipeline.prepare import Prepared
from pipeline.profiles import Profile
from pipeline.settled import Wanted, is_settled


@dataclass(frozen=True)
class Checked:
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
