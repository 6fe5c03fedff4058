"""Data sets of a sweep file: known by name, tables of the user's own, mixtures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    Discriminator,
    Field,
    Tag,
)

from sweeps.keytypes import Choice, Each, Expected, Given, Interval, Text, Whole
from sweeps.keywords import CATEGORIES, MISSING
from sweeps.plan import Clusters, Name, Scale
from sweeps.validation import Record

ColumnKey = Annotated[str | int, Expected("a column's name or index")]
Columns = Annotated[tuple[ColumnKey, ...], Each(repr)]

SCALE = "How the features are scaled; that of [data] where it is left out."


class Named(Record):
    """A data set, by the name of its node in the cube."""

    name: Name = Field(description="Name in the cube.")


class Builtin(Named):
    """One of the data sets known by name."""

    scale: Scale = Field("none", description=SCALE)


class UserTable(Named):
    """A table of the user's own; paths are absolute once the file was read."""

    path: Annotated[str, Text(shortest=1)] = Field(
        description="Table with a row per sample: text (CSV; .gz too), .npz, .npy, .parquet, .feather, .xlsx;"
        " relative to the folder of this file."
    )
    columns: Annotated[Columns | None, Given()] = Field(
        None, description="The features, by name or index; all columns that are nothing else by default."
    )
    drop: Annotated[Columns | None, Given()] = Field(
        None, description="Columns that are no features, by name or index."
    )
    index_column: Annotated[str | int | None, Expected("a column's name or index")] = Field(
        None, description="Column of the names of the samples, each once; annotations may use them."
    )
    label_column: Annotated[str | int | None, Expected("a column's name or index")] = Field(
        None, description="Column of the true labels, by name or index; left out where there are none."
    )
    missing: Annotated[str, Choice(MISSING)] = Field(
        "error", description="Rows with an empty cell: refused, or left out."
    )
    categories: Annotated[str, Choice(CATEGORIES)] = Field(
        "error", description="Features of texts: refused, or a column of 0 and 1 for each of their texts."
    )
    sheet: Annotated[str | int | None, Expected("a sheet's name or index")] = Field(
        None, description="Sheet of an .xlsx workbook, by name or index; the first where it is left out."
    )
    n_clusters: Clusters | None = Field(
        None, description="Number of clusters; that of the classes where it is left out."
    )
    annotations: Annotated[str | None, Given(), Text(shortest=1)] = Field(
        None,
        description="File of annotations that cells draw from; relative to the folder of this file.",
    )
    scale: Scale = Field("none", description=SCALE)


LATER = {
    "annotations": None,
    "columns": None,
    "drop": None,
    "index_column": None,
    "missing": "error",
    "categories": "error",
    "sheet": None,
}
"""Keys of a table that cubes made before them lack, with what that means."""


class Draw(Record):
    """How mixtures of spherical Gaussians are drawn (model.md, eq. (25))."""

    count: Annotated[int, Whole(1, 10**6)] = Field(description="Number of mixtures.")
    n_samples: Annotated[int, Whole(2, 10**9)] = Field(200, description="Samples of a mixture.")
    n_features: Annotated[int, Whole(1, 10**6)] = Field(10, description="Features.")
    center: Annotated[tuple[float, float], Interval()] = Field(
        (-1.0, 1.0), description="Interval that the coordinates of the centers are drawn from."
    )
    variance: Annotated[
        tuple[float, float],
        Interval("a pair [low, high] with 0 ≤ low ≤ high and 0 < high", least=0, above=0),
    ] = Field((0.0, 5.0), description="Interval that the variances of the clusters are drawn from.")


class _OneSize(Named):
    n_clusters: Clusters


class Mixtures(Draw, _OneSize):
    """`count` draws of a mixture with one number of clusters.

    The order of the base classes is that of the keys in what a cube keeps: name and number of clusters first.
    """

    scale: Scale = "none"


def mixtures_name(name: str, n_clusters: object) -> str:
    """Name of the data set with one number of clusters, of an entry that asks for several."""
    return f"{name}_k{n_clusters}"


def base_name(name: str, n_clusters: int) -> str:
    """Name of the entry that a data set of mixtures comes from, given that of the data set."""
    return name.removesuffix(mixtures_name("", n_clusters))


def kind_of(value: Any) -> str:
    """Tag of the member of a union that a table, or a record, is; found by a key that only that one has."""
    for key, kind in (("mixture", "(entry)"), ("count", "(mixtures)"), ("path", "(table)")):
        if key in (value if isinstance(value, Mapping) else getattr(value, "model_fields_set", ())):
            return kind
    return "(known)"


OwnTable = Annotated[UserTable, Tag("(table)")]
Dataset = Annotated[
    Annotated[Builtin, Tag("(known)")] | OwnTable | Annotated[Mixtures, Tag("(mixtures)")],
    Discriminator(kind_of),
]
