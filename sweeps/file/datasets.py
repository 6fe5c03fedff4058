"""Data sets of a sweep file: known by name, tables of the user's own, mixtures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, core_schema

from sweeps.data.registry import BUILTIN
from sweeps.errors import did_you_mean
from sweeps.keytypes import Checked, Each, Expected, Interval, Text, Whole
from sweeps.plan import Clusters, Name, Scale
from sweeps.validation import Record, refusal

SCALE = "How the features are scaled; that of [data] where it is left out."


class Named(Record):
    """A data set, by the name of its node in the cube."""

    name: Name = Field(description="Name in the cube.")


class Builtin(Named):
    """One of the data sets known by name."""

    scale: Scale = Field("none", description=SCALE)


class UserTable(Named):
    """A table of the user's own; `path` is absolute once the file was read."""

    path: Annotated[str, Text(shortest=1)] = Field(
        description="Table: CSV or text with a row per sample, or .npz; relative to the folder of this file."
    )
    label_column: Annotated[str | int | None, Expected("a column's name or index")] = Field(
        None, description="Column of the true labels, by name or index; left out where there are none."
    )
    n_clusters: Clusters | None = Field(
        None, description="Number of clusters; that of the classes where it is left out."
    )
    scale: Scale = Field("none", description=SCALE)


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
    """`count` draws of a mixture with one number of clusters; the order of the bases is that of the keys."""

    scale: Scale = "none"


class Recipe(Draw):
    """Mixtures as a sweep file asks for them."""

    n_clusters: Annotated[tuple[Clusters, ...], Each(int)] = Field(
        description="Numbers of clusters; each gives a data set."
    )


class MixtureEntry(Record):
    """Data sets of mixtures, named `<name>_k<n_clusters>`."""

    name: Name = Field("mixtures", description="What the names of the data sets begin with.")
    mixture: Recipe = Field(description="What is drawn.")
    scale: Scale = Field("none", description=SCALE)


def _known(value: Any) -> str:
    if not isinstance(value, str):
        raise refusal("the name of a data set, or a table")
    if value not in BUILTIN:
        is_path = "/" in value or "\\" in value or Path(value).suffix != ""
        own = 'a table of your own is {name = "...", path = "..."}'
        raise refusal(
            "one of " + ", ".join(BUILTIN) + ", or a table", own if is_path else did_you_mean(value, BUILTIN)
        )
    return value


class KnownEntry(Builtin):
    """One of the data sets that come with this package, or that it can fetch."""

    name: Annotated[str, Checked(_known, {"type": "string", "enum": list(BUILTIN)})] = Field(
        description="Name of the data set."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        table = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [table["properties"]["name"], table]}


def _kind(value: Any) -> str:
    """Which of a union a table, or a record, is."""
    for key, kind in (("mixture", "(entry)"), ("count", "(mixtures)"), ("path", "(table)")):
        if key in (value if isinstance(value, Mapping) else getattr(value, "model_fields_set", ())):
            return kind
    return "(known)"


OwnTable = Annotated[UserTable, Tag("(table)")]
Dataset = Annotated[
    Annotated[Builtin, Tag("(known)")] | OwnTable | Annotated[Mixtures, Tag("(mixtures)")],
    Discriminator(_kind),
]
Entry = Annotated[
    Annotated[KnownEntry, Tag("(known)")] | OwnTable | Annotated[MixtureEntry, Tag("(entry)")],
    Discriminator(_kind),
]


class AsWritten:
    """Data sets as a sweep file asks for them; the context of validation has its `folder` and `scale`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        entries = handler.generate_schema(Annotated[tuple[Entry, ...], Each(repr)])
        return core_schema.with_info_after_validator_function(_resolved, entries)


def _resolved(entries: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
    context: Any = info.context
    folder, scale = context["folder"], context["scale"]
    found: dict[str, Any] = {}
    again: list[InitErrorDetails] = []
    for position, entry in enumerate(entries):
        scaled = entry if "scale" in entry.model_fields_set else entry.model_copy(update={"scale": scale})
        for dataset in _datasets(scaled, folder):
            if dataset.name in found:
                error = refusal("a name used once", found=f"the name {dataset.name!r} again")
                again.append(InitErrorDetails(type=error, loc=(position,), input=dataset.name))
            found.setdefault(dataset.name, dataset)
    if again:
        raise ValidationError.from_exception_data("data sets", again)
    return tuple(found.values())


def _datasets(entry: KnownEntry | UserTable | MixtureEntry, folder: Path) -> Iterator[Named]:
    if isinstance(entry, KnownEntry):
        yield Builtin(name=entry.name, scale=entry.scale)
    elif isinstance(entry, UserTable):
        yield entry.model_copy(update={"path": str((folder / entry.path).resolve())})
    else:
        shared = {key: getattr(entry.mixture, key) for key in Draw.model_fields}
        for k in entry.mixture.n_clusters:
            yield Mixtures(name=f"{entry.name}_k{k}", n_clusters=k, scale=entry.scale, **shared)
