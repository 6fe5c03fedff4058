"""What the search is told: its size, and the choices of its method."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import NamedTuple

CROSSOVERS = ("centroids", "labels")
RELOCATED = ("annotated", "all", "components")


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
    relocation : {"annotated", "all", "components"}
        Samples of phase 1 of the local search. With "all", no sample is left for phase 2, and the objective
        never falls. With "components", that and, where its end would survive, moves of whole must-link
        components.
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
    """Raise ValueError if a setting is out of range; the text names all that are."""
    size, offspring, generations, *method = settings
    if size < 1 or offspring < 0 or generations < 0 or (size == 1 and offspring * generations > 0):
        raise ValueError(f"{settings}: expected a population of 2 or more, or of 1 without offspring")
    wrong = [f"{name} is {found}, expected {expected}" for name, found, expected in wrong_choices(*method)]
    if wrong:
        raise ValueError("; ".join(wrong))


def wrong_choices(
    patience: object, crossover: object, mutation: object, relocation: object
) -> Iterator[tuple[str, str, str]]:
    """Name, value found and value expected of every choice of the method that is not possible."""
    if not isinstance(patience, Integral) or isinstance(patience, bool) or patience < 0:
        yield "patience", repr(patience), "a whole number, 0 or more"
    if crossover not in CROSSOVERS:
        yield "crossover", repr(crossover), f"one of {', '.join(CROSSOVERS)}"
    if not isinstance(mutation, Real) or isinstance(mutation, bool) or not 0.0 <= float(mutation) <= 1.0:
        yield "mutation", repr(mutation), "a probability"
    elif crossover == "labels" and mutation == 1.0:
        yield (
            "mutation",
            repr(mutation),
            "less than 1 for crossover by labels, which mutated offspring do not take",
        )
    if relocation not in RELOCATED:
        yield "relocation", repr(relocation), f"one of {', '.join(RELOCATED)}"
