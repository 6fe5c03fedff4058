"""The sweep file: parsed once into frozen records, all of its problems reported together."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from sweeps.data.tables import SCALES
from sweeps.errors import InputError, Problem
from sweeps.file import toml as tomlcheck
from sweeps.file.datasets import Dataset, name_check, read_datasets
from sweeps.file.stopping import Stop, read_stop
from sweeps.file.toml import Bad, Table, choice, not_negative, whole
from sweeps.models import BASELINES, MODEL_CODES
from sweeps.seeds import accuracy_code


@dataclass(frozen=True)
class AnnotationCount:
    """Number of annotations: a whole number, or a share of the number of samples (`"1.5N"`)."""

    text: str

    def resolve(self, n_samples: int) -> int:
        """Return the whole number for `n_samples`: floor(f·N), exact for the decimal digits written."""
        if self.text.endswith("N"):
            return math.floor(Fraction(self.text[:-1] or "1") * n_samples)
        return int(self.text)


@dataclass(frozen=True)
class Grid:
    """What is crossed with what."""

    datasets: tuple[Dataset, ...]
    p: tuple[float, ...]
    m: tuple[AnnotationCount, ...]
    replicates: int
    models: tuple[str, ...]
    restarts: int

    @property
    def supervised(self) -> tuple[str, ...]:
        """Models that use annotations."""
        return tuple(model for model in self.models if model not in BASELINES)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models that use none."""
        return tuple(model for model in self.models if model in BASELINES)


CROSSOVERS = ("centroids", "labels")
RELOCATED = ("annotated", "all", "components")

METHOD = ("patience", "crossover", "mutation", "relocation")
"""Keys of the search left out of the resolved file at their defaults: cubes older than them stay growable."""


@dataclass(frozen=True)
class Search:
    """Parameters of the search (model.md section 3) and of the objective (section 2)."""

    population: int = 10
    offspring: int = 10
    generations: int = 10
    min_cluster_size: int = 2
    variance_prior: float = 0.0
    patience: int = 0
    crossover: str = "centroids"
    mutation: float = 1.0
    relocation: str = "annotated"

    def to_dict(self) -> dict[str, Any]:
        """Parameters by name; those of `METHOD` only where they differ from their defaults."""
        default = Search()
        return {
            key: value
            for key, value in asdict(self).items()
            if key not in METHOD or value != getattr(default, key)
        }


@dataclass(frozen=True)
class SweepSpec:
    """A whole sweep file.

    Parameters
    ----------
    name : str
        Names the cube.
    seed : int
        Root of every random stream.
    grid : Grid
        Coordinates.
    search : Search
        Search parameters.
    unavailable : str
        `"error"` or `"skip"`: what to do about a data set that cannot be had.
    stop : Stop or None
        When a cell has had restarts enough; None runs all of them.
    path : Path
        Where the file was read.
    """

    name: str
    seed: int
    grid: Grid
    search: Search
    unavailable: str
    stop: Stop | None
    path: Path = field(compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Resolved file as plain JSON values, the text kept in the cube."""
        grid = asdict(self.grid)
        grid["m"] = [count.text for count in self.grid.m]
        plain = {"name": self.name, "seed": self.seed, "grid": grid, "search": self.search.to_dict()}
        plain["data"] = {"unavailable": self.unavailable}
        if self.stop is not None:
            plain["stop"] = self.stop.to_dict()
        resolved: dict[str, Any] = _listed(plain)
        return resolved


def load_spec(path: Path) -> SweepSpec:
    """Read a sweep file.

    Parameters
    ----------
    path : Path
        TOML file; a `path` inside it is relative to its folder.

    Returns
    -------
    SweepSpec

    Raises
    ------
    InputError
        With every problem of the file: unknown keys, wrong types, values out of range, repeated values.
    """
    problems: list[Problem] = []
    root = Table(path.name, _parse(path), problems)
    data = Table(f"{path.name} [data]", root.raw("data", {}), problems)
    scale = data.optional("scale", choice(SCALES), "none")
    unavailable = data.optional("unavailable", choice(("error", "skip")), "error")
    data.close()
    grid = _grid(Table(f"{path.name} [grid]", root.raw("grid", {}), problems), path, scale, problems)
    stop = root.raw("stop")
    spec = SweepSpec(
        name=root.required("name", name_check, "unnamed"),
        seed=root.required("seed", whole(0, 2**63 - 1), 0),
        grid=grid,
        search=read_search(Table(f"{path.name} [search]", root.raw("search", {}), problems)),
        unavailable=unavailable,
        stop=None if stop is None else read_stop(Table(f"{path.name} [stop]", stop, problems), grid.restarts),
        path=path,
    )
    root.close()
    if problems:
        raise InputError(problems)
    return spec


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            [Problem(str(path), error.strerror or str(error), "a readable sweep file")]
        ) from error
    except UnicodeDecodeError as error:
        raise InputError([Problem(str(path), "bytes that are not UTF-8", "a TOML file")]) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError([Problem(str(path), f"a TOML error: {error}", "a TOML file")]) from error


def _grid(table: Table, path: Path, scale: str, problems: list[Problem]) -> Grid:
    datasets = read_datasets(table, path, scale, problems)
    models = table.each("models", choice(MODEL_CODES), str)
    supervised = any(model not in BASELINES for model in models)
    p = table.each("p", accuracy, accuracy_code) if supervised or "p" in table else ()
    m = table.each("m", annotation_count, lambda count: count.text) if supervised or "m" in table else ()
    replicates = whole(1, 10**6)
    grid = Grid(
        datasets=datasets,
        p=p,
        m=m,
        replicates=(
            table.required("replicates", replicates, 1)
            if supervised
            else table.optional("replicates", replicates, 1)
        ),
        models=models,
        restarts=table.required("restarts", whole(1, 10**6), 1),
    )
    # Keys that only the supervised models need stay known without them.
    table.raw("p")
    table.raw("m")
    table.close()
    return grid


def read_search(table: Table) -> Search:
    """Read the table `[search]`; a key that is not there has its default."""
    default = Search()
    search = Search(
        population=table.optional("population", whole(2, 10_000), default.population),
        offspring=table.optional("offspring", whole(1, 10_000), default.offspring),
        generations=table.optional("generations", whole(1, 10**6), default.generations),
        min_cluster_size=table.optional("min_cluster_size", whole(1), default.min_cluster_size),
        variance_prior=table.optional("variance_prior", not_negative, default.variance_prior),
        patience=table.optional("patience", whole(0, 10**6), default.patience),
        crossover=table.optional("crossover", choice(CROSSOVERS), default.crossover),
        mutation=table.optional("mutation", _probability, default.mutation),
        relocation=table.optional("relocation", choice(RELOCATED), default.relocation),
    )
    if search.crossover == "labels" and search.mutation == 1.0:
        table.problem(
            "crossover", "'labels' with mutation = 1", "mutation below 1", "mutated offspring take no labels"
        )
    table.close()
    return search


def _probability(value: Any) -> float:
    number = tomlcheck.real(value)
    if not 0 <= number <= 1:
        raise Bad("a probability in [0, 1]")
    return number


def accuracy(value: Any) -> float:
    """Accuracy of annotations, in (0, 1]."""
    number = tomlcheck.real(value)
    if not 1e-9 <= number <= 1:
        raise Bad("an accuracy in (0, 1]")
    return number


def annotation_count(value: Any) -> AnnotationCount:
    """Number of annotations: a whole number, or a share of the samples."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)?\s*N\s*", value)
        if match is None or (match[1] is not None and Fraction(match[1]) == 0):
            raise Bad('a whole number of at least 1, or a text such as "1.5N"')
        return AnnotationCount(f"{match[1] or '1'}N")
    try:
        return AnnotationCount(str(whole(1, 2**31 - 1)(value)))
    except Bad:
        raise Bad('a whole number of at least 1, or a text such as "1.5N"') from None


def _listed(value: Any) -> Any:
    """Tuples as lists, so that the record equals what JSON gives back."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_listed(item) for item in value]
    return value
