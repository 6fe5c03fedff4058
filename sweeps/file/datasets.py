"""Data sets of a sweep file: known by name, tables of the user's own, mixtures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.data.registry import BUILTIN
from sweeps.data.tables import SCALES
from sweeps.errors import Problem, did_you_mean
from sweeps.file.toml import Bad, Table, choice, interval, whole

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Builtin:
    """One of the data sets known by name."""

    name: str
    scale: str


@dataclass(frozen=True)
class UserTable:
    """A table of the user's own; `path` is absolute."""

    name: str
    path: str
    label_column: str | int | None
    n_clusters: int | None
    scale: str


@dataclass(frozen=True)
class Mixtures:
    """`count` draws of a mixture of spherical Gaussians (model.md, eq. (25)); the intervals drawn from."""

    name: str
    n_clusters: int
    count: int
    n_samples: int
    n_features: int
    center: tuple[float, float]
    variance: tuple[float, float]
    scale: str


Dataset = Builtin | UserTable | Mixtures


def read_datasets(grid: Table, path: Path, scale: str, problems: list[Problem]) -> tuple[Dataset, ...]:
    """Read the key `datasets` of a grid.

    Parameters
    ----------
    grid : Table
        Table of the sweep file that has the key.
    path : Path
        Sweep file; a user's `path` is relative to its folder.
    scale : str
        Scaling of the data sets that do not say their own.
    problems : list of Problem
        Grows with everything found wrong.

    Returns
    -------
    tuple of Builtin, UserTable or Mixtures
        The good ones; a mixture with several `n_clusters` gives as many data sets.
    """
    found: dict[str, Dataset] = {}
    for position, value in enumerate(grid.each("datasets", lambda value: value, repr)):
        where = f"datasets[{position}]"
        for dataset in _dataset(value, grid, where, path, scale, problems):
            if dataset.name in found:
                grid.problem(where, f"the name {dataset.name!r} again", "a name used once")
            found.setdefault(dataset.name, dataset)
    return tuple(found.values())


def _dataset(
    value: Any, grid: Table, where: str, path: Path, scale: str, problems: list[Problem]
) -> Sequence[Dataset]:
    if isinstance(value, str):
        value = {"name": value}
    table = Table(f"{path.name} [grid] {where}", value, problems)
    if "mixture" in table:
        return _mixtures(table, scale, problems, f"{path.name} [grid] {where}.mixture")
    own_scale = table.optional("scale", choice(SCALES), scale)
    if "path" not in table:
        name = table.required("name", _builtin_name, "")
        table.close()
        return [Builtin(name, own_scale)] if name else []
    dataset = UserTable(
        name=table.required("name", name_check, "unnamed"),
        path=str((path.parent / table.required("path", _text, ".")).resolve()),
        label_column=table.optional("label_column", _label_column, None),
        n_clusters=table.optional("n_clusters", whole(1, 32_767), None),
        scale=own_scale,
    )
    table.close()
    return [dataset]


def _mixtures(table: Table, scale: str, problems: list[Problem], where: str) -> list[Mixtures]:
    name = table.optional("name", name_check, "mixtures")
    own_scale = table.optional("scale", choice(SCALES), scale)
    recipe = Table(where, table.raw("mixture"), problems)
    table.close()
    clusters = recipe.each("n_clusters", whole(1, 32_767), int)
    mixtures = Mixtures(
        name=name,
        n_clusters=0,
        count=recipe.required("count", whole(1, 10**6), 1),
        n_samples=recipe.optional("n_samples", whole(2, 10**9), 200),
        n_features=recipe.optional("n_features", whole(1, 10**6), 10),
        center=recipe.optional("center", interval, (-1.0, 1.0)),
        variance=recipe.optional("variance", _variance_interval, (0.0, 5.0)),
        scale=own_scale,
    )
    recipe.close()
    return [Mixtures(**{**vars(mixtures), "name": f"{name}_k{k}", "n_clusters": k}) for k in clusters]


def name_check(value: Any) -> str:
    """A text that can name a cube or one of its nodes."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        hint = "a path or a blank cannot be part of a name, nor '.' or '-' begin one"
        raise Bad("a name of letters, digits, '.', '_' and '-'", hint)
    return value


def _builtin_name(value: Any) -> str:
    if not isinstance(value, str):
        raise Bad("the name of a data set, or a table")
    if value not in BUILTIN:
        is_path = "/" in value or "\\" in value or Path(value).suffix != ""
        hint = (
            'a table of your own is {name = "...", path = "..."}' if is_path else did_you_mean(value, BUILTIN)
        )
        raise Bad("one of " + ", ".join(BUILTIN) + ", or a table", hint)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Bad("a text")
    return value


def _label_column(value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Bad("a column's name or index")
    return value


def _variance_interval(value: Any) -> tuple[float, float]:
    low, high = interval(value)
    if low < 0 or high <= 0:
        raise Bad("a pair [low, high] with 0 ≤ low ≤ high and 0 < high")
    return low, high
