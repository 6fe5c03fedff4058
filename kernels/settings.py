"""What the search is told: its size, and the choices of its method."""

from __future__ import annotations

from typing import NamedTuple

CROSSOVERS = ("centroids", "labels")
RELOCATED = ("annotated", "all")


class SearchSettings(NamedTuple):
    """Size and method of a restart; the defaults of the method are those of model.md section 3.

    Parameters
    ----------
    population : int
        Solutions that survive a generation.
    offspring : int
        Solutions made in a generation.
    generations : int
        Generations of a restart.
    patience : int
        Generations without gain that end a restart early; 0 for never.
    crossover : {"centroids", "labels"}
        How an offspring that is not mutated inherits: each sample goes to the closest centroid, or takes the
        label of either parent. A mutated one always goes by centroids, so "labels" needs `mutation` below 1.
    mutation : float
        Probability that an offspring is mutated.
    relocation : {"annotated", "all"}
        Samples of phase 1 of the local search. With "all", no sample is left for phase 2, and the objective
        never falls.
    """

    population: int = 10
    offspring: int = 10
    generations: int = 10
    patience: int = 0
    crossover: str = "centroids"
    mutation: float = 1.0
    relocation: str = "annotated"


class Schedule(NamedTuple):
    """What the compiled search sees of the settings."""

    population: int
    offspring: int
    generations: int
    patience: int
    by_labels: bool
    mutation: float


def schedule_of(settings: SearchSettings) -> Schedule:
    """Settings with the types the search is compiled for."""
    return Schedule(
        int(settings.population),
        int(settings.offspring),
        int(settings.generations),
        int(settings.patience),
        settings.crossover == "labels",
        float(settings.mutation),
    )


def check_settings(settings: SearchSettings) -> None:
    """Raise ValueError for the first setting that is out of range."""
    size, offspring, generations, patience, crossover, mutation, relocation = settings
    if size < 1 or offspring < 0 or generations < 0 or (size == 1 and offspring * generations > 0):
        raise ValueError(f"{settings}: expected a population of 2 or more, or of 1 without offspring")
    if patience < 0:
        raise ValueError(f"patience is {patience}, expected a whole number, 0 or more")
    if crossover not in CROSSOVERS:
        raise ValueError(f"crossover is {crossover!r}, expected one of {', '.join(CROSSOVERS)}")
    if not 0.0 <= mutation <= 1.0:
        raise ValueError(f"mutation is {mutation}, expected a probability")
    if crossover == "labels" and mutation == 1.0:
        raise ValueError("crossover is 'labels', but mutation is 1: expected less, so that some take labels")
    if relocation not in RELOCATED:
        raise ValueError(f"relocation is {relocation!r}, expected one of {', '.join(RELOCATED)}")
