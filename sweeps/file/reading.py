"""The sweep file as people write it, read into the sweep that it asks for.

`load_sweep` reads one, `as_file` and `as_toml` write a sweep as one, and `sweep_schema` is what editors check
it with. Contradictions between tables are marked before anything is validated, so that all problems come at
once.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    ValidationInfo,
    model_validator,
)

from sweep_clustering.kernels import settings as declared
from sweep_clustering.kernels.settings import DEFAULT as SETTINGS
from sweep_clustering.kernels.settings import MODEL_ANY, SCALES, SINGULAR
from sweep_clustering.kernels.structure import UNION
from sweep_clustering.sweeps import records, words
from sweep_clustering.sweeps.data.builtin import BUILTIN, KNOWN_NAMES, fitting, is_pattern
from sweep_clustering.sweeps.errors import InputError, Problem, closest, collecting, did_you_mean, refused
from sweep_clustering.sweeps.file import spec
from sweep_clustering.sweeps.file.methods import METHODS, Method, name_of, uses_links
from sweep_clustering.sweeps.file.search import FILE_FORM, HELD_OUT, NAME, Search, names_several, search_from
from sweep_clustering.sweeps.files import NO_FILE, read_file
from sweep_clustering.sweeps.plan import Clusters, Name, Scale

# The text of a sweep file as plain values, within bounds.

# Bytes of a file; the shipped ones have less than 2,000.
MOST_BYTES = 2**20

# Levels of tables and lists; a sweep file has five.
MOST_NESTED = 20

# Before anything is parsed: the time tomllib takes grows with the square of the parts of a key.
LONG_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_NESTED}}}"""
)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file that is no larger and nested no deeper than a sweep file needs."""
    content = read_file(path, MOST_BYTES, "a readable sweep file", pipe=True)
    try:
        text = content.decode("utf-8-sig")  # editors of Windows put a mark before the text
    except UnicodeDecodeError as error:
        raise refused(path, "bytes that are not UTF-8", "a TOML file") from error
    long_key = LONG_KEY.search(text)
    if long_key is not None:
        line = text.count("\n", 0, long_key.start()) + 1
        raise refused(f"{path}, line {line}", f"a key of more than {MOST_NESTED} parts", "a short key")
    try:
        values = tomllib.loads(text)
        is_nested = _is_nested(values)
    except RecursionError:
        is_nested = True
    except ValueError as error:  # a whole number of more than 4,300 digits is no TOMLDecodeError
        raise refused(path, f"a TOML error: {error}", "a TOML file") from error
    if is_nested:
        raise refused(path, f"tables or lists nested deeper than {MOST_NESTED} levels", "a sweep file")
    return values


def _is_nested(value: object, levels: int = MOST_NESTED) -> bool:
    """Say whether tables and lists are nested in more levels."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_nested(child, levels - 1) for child in children)


class Recipe(spec.Draw):
    """Mixtures as a sweep file asks for them."""

    n_clusters: Annotated[tuple[Clusters, ...], records.Set(int)] = Field(
        description="Numbers of clusters; each gives a data set."
    )


class MixtureEntry(records.Record):
    """Data sets of mixtures, named `<name>_k<n_clusters>`."""

    name: Name = Field("mixtures", description="First part of the names of the data sets.")
    mixture: Recipe = Field(description="Mixtures that are drawn.")
    scale: Scale = Field("none", description=spec.SCALE)


def _check_name(value: object) -> str:
    if not isinstance(value, str):
        raise records.refusal("the name of a data set, or a table")
    if not fitting(value):
        is_path = "/" in value or "\\" in value or Path(value).suffix != ""
        hint = 'a table of your own is {name = "...", path = "..."}' if is_path else ""
        raise records.refusal(f"{KNOWN_NAMES}, or a table", did_you_mean(value, BUILTIN) or hint)
    return value


KNOWN_SCHEMA = {"anyOf": [{"enum": list(BUILTIN)}, {"pattern": r"[*?\[]"}], "type": "string"}


class KnownEntry(spec.Builtin):
    """One of the data sets that come with this package, or that it can fetch."""

    name: Annotated[str, records.Parser(_check_name, KNOWN_SCHEMA)] = Field(
        description="Name of the data set; a pattern such as suite/uci/* stands for all whose names it fits."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        table = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [table["properties"]["name"], table]}


def _kind_of(value: object) -> str:
    """Return the tag of an entry. One with keys of a recipe beside its name learns where these belong."""
    kind = spec.kind_of(value)
    keys = value.keys() if isinstance(value, Mapping) else ()
    return "(entry)" if kind != "(table)" and Recipe.model_fields.keys() & keys else kind


Entry = Annotated[
    Annotated[KnownEntry, Tag("(known)")] | spec.OwnTable | Annotated[MixtureEntry, Tag("(entry)")],
    Discriminator(_kind_of),
]


def _names(entry: object) -> list[Any]:
    """Return the names of the data sets that an entry asks for."""
    table = entry if isinstance(entry, Mapping) else {"name": entry}
    if "mixture" not in table:
        name = table.get("name")
        return fitting(name) if isinstance(name, str) and is_pattern(name) else [name]
    name, mixture = table.get("name", MixtureEntry.model_fields["name"].default), table["mixture"]
    counts = mixture.get("n_clusters") if isinstance(mixture, Mapping) else None
    return [spec.mixtures_name(name, k) for k in counts] if isinstance(counts, list) else []


SETTING = {setting.name: setting for setting in declared.SETTINGS}


def _resolved(entries: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
    context: Any = info.context
    folder, scale = context["folder"], context["scale"]
    scaled_entries = (
        entry if "scale" in entry.model_fields_set else entry.model_copy(update={"scale": scale})
        for entry in entries
    )
    return tuple(dataset for entry in scaled_entries for dataset in _datasets(entry, folder))


def _datasets(entry: KnownEntry | spec.UserTable | MixtureEntry, folder: Path) -> Iterator[Any]:
    if isinstance(entry, KnownEntry):
        yield from (spec.Builtin(name=name, scale=entry.scale) for name in fitting(entry.name))
    elif isinstance(entry, spec.UserTable):
        files = {"path": entry.path, "annotations": entry.annotations}
        paths = {key: str((folder / path).resolve()) for key, path in files.items() if path is not None}
        yield entry.model_copy(update=paths)
    else:
        recipe = {key: getattr(entry.mixture, key) for key in spec.Draw.model_fields}
        for k in entry.mixture.n_clusters:
            yield spec.Mixtures(
                name=spec.mixtures_name(entry.name, k), n_clusters=k, scale=entry.scale, **recipe
            )


# Data sets as a sweep file asks for them; the context of validation has its `folder` and `scale`.
DATASETS = Annotated[
    # json.dumps refuses what stands for a name that was marked
    tuple[Entry, ...], records.Set(json.dumps), records.named_once(_names), AfterValidator(_resolved)
]


class DataTable(spec.Data):
    """Keys of all data sets in a sweep file."""

    scale: Scale = Field("none", description="How the features are scaled.")


class GridTable(spec.Grid):
    """Values that are crossed with each other, as a sweep file has them."""

    datasets: Annotated[tuple[spec.Dataset, ...], records.As(DATASETS)] = Field(
        description=spec.Grid.model_fields["datasets"].description
    )
    methods: Annotated[tuple[Method, ...], records.As(METHODS)] = Field(
        (), description=spec.Grid.model_fields["methods"].description
    )

    @model_validator(mode="before")
    @classmethod
    def _mark_lacking(cls, values: object) -> object:
        """Mark `p`, `m` and `replicates` as lacking where annotations are used, and lists that are empty."""
        if not isinstance(values, Mapping):
            return values
        models, methods = values.get("models"), values.get("methods")
        names = [model for model in models if isinstance(model, str)] if isinstance(models, list) else []
        strays = {model for model in names if model in words.SHIPPED}
        # a misspelt model needs what the one needs that its message suggests
        suggestions = {closest(model, words.MODEL_CODES) for model in names} - {"", *words.BASELINES}
        entries = methods if isinstance(methods, list) else []
        keys = ["p", "m", "replicates"] if suggestions or any(map(uses_links, (*entries, *strays))) else []
        keys += [] if "methods" in values else ["models"]
        empty = {key: records.EMPTY for key in ("p", "m", "models", "methods") if values.get(key) == []}
        if strays:
            values = {**values, "models": list(map(_method_among_models, values["models"]))}
        return {**dict.fromkeys(keys, records.MISSING_VALUE), **values, **empty}


def _method_among_models(model: object) -> object:
    """Replace a method in the list of models by its problem."""
    if not isinstance(model, str) or model not in words.SHIPPED:
        return model
    return records.StandIn(repr(model), "a model", "it is a method: it belongs in methods of [grid]")


class SweepFile(spec.SweepSpec):
    """A sweep: data sets, annotations and models crossed with each other."""

    grid: GridTable = Field(description="Values that are crossed with each other.")
    search: Annotated[tuple[Search, ...], records.As(FILE_FORM)] = Field(
        default_factory=lambda: (search_from(),),
        description=spec.SweepSpec.model_fields["search"].description,
        json_schema_extra={"default": search_from().shortest_keys()},
    )
    data: DataTable = Field(DataTable(), description=spec.SweepSpec.model_fields["data"].description)

    def resolved(self) -> spec.SweepSpec:
        """Return the sweep with the scale of [data] moved to the data sets, which is what a cube keeps."""
        values = {key: value for key, value in self if value is not None}
        data = spec.Data(unavailable=self.data.unavailable)
        return spec.SweepSpec(**{**values, "grid": spec.Grid(**dict(self.grid)), "data": data})

    @model_validator(mode="before")
    @classmethod
    def _mark_contradictions(cls, values: Any) -> Any:
        """Replace values that other tables rule out by their problems.

        This comes before the values are validated, so that all problems are reported together. A misspelt
        value may be meant to be right.
        """
        grid = values.get("grid") if isinstance(values, Mapping) else None
        if not isinstance(grid, Mapping):
            return values
        values, model_names = dict(values), grid.get("models")
        models = model_names if isinstance(model_names, list) else []
        stop, restarts = values.get("stop"), grid.get("restarts")
        if isinstance(stop, Mapping):  # a stop whose rule is never tested would do nothing
            r_min = stop.get("r_min", spec.Stop.model_fields["r_min"].default)
            if type(r_min) is type(restarts) is int and r_min >= restarts > 1:
                fault = f"{r_min} of at most {restarts} restarts"
                rule = records.StandIn(fault, "fewer than restarts of [grid]", "no cell could stop early")
                values["stop"] = {**stop, "r_min": rule}
        designs = grid.get("design", list(words.DEFAULT))
        if "ask" in values and isinstance(designs, list) and {*map(str, designs)} <= {*words.DRAWN_DESIGNS}:
            expected = f"one of {', '.join(words.ASKED_DESIGNS)} in design of [grid]"
            values["ask"] = records.StandIn("a table without a design that asks", expected)
        other_designs = {*words.DRAWN_DESIGNS, *words.ASKED_DESIGNS} - {words.CROWD}
        if "crowd" in values and isinstance(designs, list) and {*map(str, designs)} <= other_designs:
            fault = "a table without the design"
            values["crowd"] = records.StandIn(fault, f'"{words.CROWD}" in design of [grid]')
        # a method searches by itself: several searches would repeat it
        if not model_names and grid.get("methods") and names_several(values.get("search")):
            expected = "one, or a model in [grid]: methods do not search"
            values["search"] = records.StandIn("several searches without a model", expected)
        known_models = [model for model in models if isinstance(model, str) and model in words.MODEL_CODES]
        # every cell of a shape whose likelihood is unbounded would fail without a prior
        unbounded_models = [model for model in known_models if words.shape_of(model) in SINGULAR]
        # classes that are unions of components have one term, and what is open is a model's to choose
        unsuited_models = [
            model
            for model in known_models
            if words.split_model(model)[0] not in UNION.terms
            or words.shape_of(model) in (words.ANY, words.AUTO, "common")
        ]
        # predictions of annotations that no model has would be none
        is_unsupervised = bool(models) and all(model in words.BASELINES for model in models)

        def judge(search: Mapping[str, Any]) -> Mapping[str, Any]:
            entries = dict(search)
            if is_unsupervised and search.get(HELD_OUT) is True:
                expected = "false, or such a model in [grid]"
                entries[HELD_OUT] = records.StandIn("true without a model that uses annotations", expected)
            pairs = ((name, search.get(name)) for name in ("components", "subspace") if name in search)
            changes = {name: value for name, value in pairs if value != getattr(SETTINGS, name)}
            for name, value in changes.items():
                if not SETTING[name].allows(value):
                    continue  # it has a problem of its own
                if value == words.AUTO:
                    hint = f"the model {MODEL_ANY} chooses it"
                    entries[name] = records.StandIn(repr(value), "a value that is named", hint)
                elif unsuited_models:
                    fault, fitting = f"{value!r} with {unsuited_models[0]!r}", " or ".join(UNION.terms)
                    expected = f"{getattr(SETTINGS, name)!r}, or models of {fitting} alone in [grid]"
                    entries[name] = records.StandIn(fault, expected)
            for name in UNION.unused if changes else ():
                plain = getattr(SETTINGS, name)
                if search.get(name, plain) != plain:
                    expected = f"{plain!r}: it has no place with {', '.join(changes)}"
                    entries[name] = records.StandIn(repr(search[name]), expected)
            prior = search.get("covariance_prior")
            if unbounded_models and type(prior) in (int, float) and prior == 0:
                fault = f"{prior!r} with {unbounded_models[0]!r}"
                hint = "diagonal covariances do without the prior"
                entries["covariance_prior"] = records.StandIn(fault, "a number above 0", hint)
            return entries

        search = values.get("search")
        if isinstance(search, list):
            values["search"] = [judge(table) if isinstance(table, Mapping) else table for table in search]
        elif isinstance(search, Mapping):
            values["search"] = judge(search)
        return values


def load_sweep(path: str | Path, methods: Sequence[Mapping[str, Any]] = ()) -> spec.SweepSpec:
    """Read a sweep file.

    Parameters
    ----------
    path : str or Path
        TOML file; a `path` inside it is relative to its folder.
    methods : sequence of mapping
        Entries from `sweeps.file.methods.entry_of` that replace the models and methods of the file: the same
        cells with other methods, under a name of their own.

    Returns
    -------
    SweepSpec

    Raises
    ------
    InputError
        With every problem of the file: unknown keys, wrong types, values out of range, repeated values. Its
        `rest` is the user's own tables in it, as far as they are right.

    Examples
    --------
    >>> from sweep_clustering import load_sweep
    >>> load_sweep("sweeps/quick.toml").grid.restarts
    3
    """
    path = Path(path)
    values = read_toml(path)
    if methods:
        values = _of_methods(values, methods)
    data = values["data"] if isinstance(values.get("data"), dict) else {}
    scale = data.get("scale")
    # a wrong scale has a problem of its own; the data sets are validated with one that is right
    restarts = values["grid"].get("restarts") if isinstance(values.get("grid"), dict) else None
    context = {
        "folder": path.parent,
        "scale": scale if scale in SCALES else "none",
        "restarts": restarts if type(restarts) is int and restarts > 0 else 10**6,
    }
    problems: list[Problem] = []
    with collecting(problems):
        return records.read(SweepFile, values, path.name, brackets=True, context=context).resolved()
    tables = tuple(_own_tables(values, path.parent))
    if data.get("unavailable") == "skip":
        tables = tuple(table for table in tables if Path(table.path).exists())
    problems += [
        Problem(place, NO_FILE, "")
        for table in tables
        for place in (table.path, table.annotations)
        if place is not None and "\0" not in place and not Path(place).exists()
    ]
    raise InputError(problems, tables)


def _own_tables(values: Mapping[str, Any], folder: Path) -> Iterator[spec.UserTable]:
    """Yield the user's own tables in a file with problems, without the keys that are wrong."""
    grid = values.get("grid")
    entries = grid.get("datasets") if isinstance(grid, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            continue
        table = spec.UserTable(name="table", path=entry["path"] or ".")
        for key, value in entry.items():
            with suppress(ValueError):
                right = spec.UserTable.model_validate({"name": "table", "path": table.path, key: value})
                table = table.model_copy(update={key: getattr(right, key)})
        yield from _datasets(table, folder)


def _of_methods(values: dict[str, Any], methods: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of a sweep file with other methods alone; what is wrong in it stays."""
    name, grid, search = (values.get(key) for key in ("name", "grid", "search"))
    changes = dict[str, Any]()
    if isinstance(name, str):
        changes["name"] = "-".join([name, *(str(name_of(entry)) for entry in methods)])
    if isinstance(grid, Mapping):
        other_keys = {key: value for key, value in grid.items() if key != "models"}
        changes["grid"] = other_keys | {"methods": list(methods)}
    if isinstance(search, list) and len(search) > 1 and isinstance(search[0], Mapping):
        # a method searches by itself
        changes["search"] = {key: value for key, value in search[0].items() if key != "name"}
    return values | changes


# Sweeps as files: the JSON Schema of a sweep file, and a resolved sweep written as one.


def sweep_schema() -> str:
    """Return the JSON Schema of the sweep file, by which an editor completes and checks it."""
    schema = SweepFile.model_json_schema(schema_generator=records.Terse)
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sweep file"}
    return json.dumps({**schema, **about}, indent=1) + "\n"


def as_file(sweep: spec.SweepSpec) -> dict[str, Any]:
    """Return the tables of a sweep file that gives this sweep, every default filled in."""
    # the method is for the reader: every key that goes by it stands there, too
    searches = [
        ({} if search.name is None else {NAME: search.name})
        | search.shortest_keys()
        | vars(search.settings)
        | {HELD_OUT: search.held_out}
        for search in sweep.search
    ]
    values = sweep.dump() | {"search": searches if sweep.search_names else searches[0]}
    grid = values["grid"]
    grid["datasets"] = [
        _mixture(entry) if isinstance(entry, spec.Mixtures) else entry.model_dump(exclude_none=True)
        for entry in sweep.grid.datasets
    ]
    grid["m"] = [int(text) if text.isdecimal() else text for text in grid["m"]]
    if sweep.grid.methods:
        grid["methods"] = [method.as_file() for method in sweep.grid.methods]
    # Without a model that uses annotations `p` and `m` are empty, and a file with an empty list is refused.
    values["grid"] = {key: value for key, value in grid.items() if value != []}
    return values


def as_toml(sweep: spec.SweepSpec) -> str:
    """Return the text of a sweep file that gives this sweep, every default filled in."""
    return tomli_w.dumps(as_file(sweep))


def _mixture(entry: spec.Mixtures) -> dict[str, Any]:
    recipe = entry.model_dump(mode="json", exclude={"name", "scale", "first", "step"})
    name = spec.base_name(entry.name, entry.n_clusters)
    return {"name": name, "mixture": recipe | {"n_clusters": [entry.n_clusters]}, "scale": entry.scale}
