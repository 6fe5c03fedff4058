"""The settings as the compiled search takes them."""

from __future__ import annotations

from typing import NamedTuple

from kernels.bypointer import by_pointer
from kernels.settings import SearchSettings, require

SIZES = ("population", "offspring", "generations")


@by_pointer
class Schedule(NamedTuple):
    """What the compiled search sees of the settings."""

    population: int
    offspring: int
    generations: int
    patience: int
    by_labels: bool
    mutation: float
    by_components: bool


def schedule_of(settings: SearchSettings) -> Schedule:
    """Settings with the types the search is compiled for."""
    return Schedule(
        int(settings.population),
        int(settings.offspring),
        int(settings.generations),
        int(settings.patience),
        settings.crossover == "labels",
        float(settings.mutation),
        settings.relocation == "components",
    )


def check_settings(settings: SearchSettings) -> None:
    """Raise ValueError if a setting is out of range; the text names all that are.

    The sizes may be smaller than a user can ask for: a population of 1 without offspring is one local search.
    """
    size, made = settings.population, settings.offspring * settings.generations
    if size < 1 or settings.offspring < 0 or settings.generations < 0 or (size == 1 and made > 0):
        raise ValueError(f"{settings}: expected a population of 2 or more, or of 1 without offspring")
    require(settings, SearchSettings, but=SIZES)
