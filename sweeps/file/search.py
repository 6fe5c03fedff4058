"""The table `[search]` of a sweep file: the settings that `kernels.settings` declares.

A `Search` is what a cube keeps of one; `FILE_FORM` and `CUBE_FORM` are the types of one, or of
several by name, in a file and in a cube.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    Tag,
    ValidatorFunctionWrapHandler,
    create_model,
)
from pydantic_core import CoreSchema, core_schema

from sweep_clustering.kernels import settings as declared
from sweep_clustering.kernels.structure import kind_of
from sweep_clustering.sweeps import records
from sweep_clustering.sweeps.plan import DatasetPlan, Flag, Name, UnionPlan
from sweep_clustering.sweeps.shapes import room_for
from sweep_clustering.sweeps.words import is_model, shape_of

# Settings that a method names.
BY_METHOD = tuple(setting.name for setting in declared.SETTINGS if setting.by_method)

NAME = "name"
HELD_OUT = "held_out"
HELD_OUT_KEY = (
    Flag,
    Field(
        False, description="Whether every model predicts held-out annotations: five short searches a cell."
    ),
)


@dataclass(frozen=True)
class Search(declared.Settings):
    """Settings of the search (docs/model.md, sections 3 and 6) and of the objective (section 2).

    A cube keeps values alone, whatever named them. So a cube says what it was made with also when a method
    has other values by then, and is grown by any file that comes to the same values.

    Parameters
    ----------
    held_out : bool
        Whether every model with annotations predicts those that it has not seen, in short searches beside the
        restarts. It is no setting: no solution depends on it.
    name : str or None
        Name in a sweep of several searches. It is no setting either.
    """

    held_out: bool = False
    name: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return settings by name; those of later generations come last, and only if not at their defaults.

        So a cube made before a setting was added stays growable.
        """
        settings = {
            setting.name: getattr(self, setting.name)
            for setting in sorted(declared.SETTINGS, key=lambda setting: setting.epoch)
            if setting.epoch == 1 or getattr(self, setting.name) != setting.default
        }
        name = {} if self.name is None else {NAME: self.name}
        return name | settings | ({HELD_OUT: True} if self.held_out else {})

    @property
    def settings(self) -> declared.Settings:
        """Settings without name and held-out annotations."""
        names = (setting.name for setting in declared.SETTINGS)
        return declared.Settings(**{name: getattr(self, name) for name in names})

    def summary(self) -> dict[str, Any]:
        """Return the method, and the settings that do not follow from its name, for people."""
        implied = {NAME, *BY_METHOD} - declared.LENGTHS
        other_values = {name: value for name, value in self.to_dict().items() if name not in implied}
        other_values |= {HELD_OUT: "true"} if self.held_out else {}
        return {"method": declared.method_words(self), **other_values}

    def shortest_keys(self) -> dict[str, Any]:
        """Return the fewest keys of a sweep file that give the settings of a method."""
        method, other_keys = declared.method_of(self)
        return {"method": method, **other_keys}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            cls._from_value,
            handler.generate_schema(KeptTable),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
        )

    @classmethod
    def _from_value(cls, value: object, table: ValidatorFunctionWrapHandler) -> Search:
        return value if isinstance(value, cls) else cls(**dict(table(value)))


def unions_of(searches: Iterable[Search], plan: DatasetPlan) -> tuple[UnionPlan, ...]:
    """List the models and searches of a data set whose classes are unions of Gaussians."""
    sizes = (plan.n_samples, plan.n_features, plan.n_clusters)
    return tuple(
        UnionPlan(model, search.name, *room_for(shape_of(model), search, *sizes))
        for model in filter(is_model, plan.node_of)
        for search in searches
        if search.name in (*plan.searches, None) and kind_of(shape_of(model), search).has_gaussians
    )


def search_from(**keys: Any) -> Search:
    """Make a search from the keys of a sweep file, with or without a method."""
    held_out, name = bool(keys.get(HELD_OUT, False)), keys.get(NAME)
    return Search(**vars(declared.settings_of(keys)), held_out=held_out, name=name)


@dataclass(frozen=True)
class Declared:
    """Type of a key, as its setting is declared; None may stand for the value of the method."""

    setting: declared.Setting
    may_be_none: bool = False

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        kind = records.Expected(self.setting.expected, schema=self._type(), options=self.setting.choices)
        validator = kind.__get_pydantic_core_schema__(source, handler)
        return core_schema.with_info_wrap_validator_function(self._refuse_contradiction, validator)

    def _type(self) -> CoreSchema:
        low, high, choices = self.setting.low, self.setting.high, self.setting.choices
        if choices:
            return core_schema.literal_schema(list(choices))
        number: CoreSchema = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=low, le=high)
        if self.setting.is_whole:
            number = core_schema.int_schema(strict=True, ge=int(low), le=None if high is None else int(high))
        if not self.setting.words:
            return number
        return core_schema.union_schema([number, core_schema.literal_schema(list(self.setting.words))])

    def _refuse_contradiction(
        self, value: Any, validator: ValidatorFunctionWrapHandler, info: core_schema.ValidationInfo
    ) -> Any:
        """Refuse a value, right by itself, that the settings declared before this one rule out."""
        if self.may_be_none and value is None:
            if "method" not in info.data:  # it was refused
                return None
        else:
            value = validator(value)
        # a table may name several methods, each of which has to allow the value
        methods = info.data.get("method")
        for choice in [{"method": method} for method in methods] if isinstance(methods, tuple) else [{}]:
            values = {**info.data, **choice, self.setting.name: value}
            for setting, fault, expected in declared.wrong_settings(values):
                if setting == self.setting:
                    raise records.refusal(expected, value=fault)
        return value


def _key(setting: declared.Setting, default: Any) -> Any:
    """Declare a key of a table; its default is validated too, as another setting may rule it out."""
    kind: Any = Annotated[type(setting.default), Declared(setting, may_be_none=default is None)]
    left_out = f" Left out: {setting.default_words}." if setting.by_method else ""
    return kind, Field(default, description=setting.meaning + left_out, validate_default=True)


SearchTable = create_model(
    "Search",
    __base__=records.Record,
    __doc__="Settings of the search and of its objective.",
    **{setting.name: _key(setting, setting.preset) for setting in declared.OFFERED},
    held_out=HELD_OUT_KEY,
)
KeptTable = create_model(
    "Kept",
    __base__=records.Record,
    **{setting.name: _key(setting, setting.default) for setting in declared.SETTINGS},
    held_out=HELD_OUT_KEY,
    name=(Annotated[Name | None, records.NoNull()], None),
)


# The searches of a sweep: one, or several by name, which are then a dimension of the cell.
#
# A file names several as `[search] method = ["published", "strong"]`, or as tables `[[search]]`.

# Forms in which searches are written; messages leave these words out.
ITEM = "(one)"
LIST = "(several)"


def names_several(search: object) -> bool:
    """Say whether a value of the key search, before it is validated, means several."""
    value = search.get("method") if isinstance(search, Mapping) else search
    return isinstance(value, list) and len(value) > 1


def _form(value: object) -> str:
    return LIST if isinstance(value, list | tuple) else ITEM


def _check_differences(searches: tuple[Search, ...]) -> tuple[Search, ...]:
    """Refuse searches of the same settings, and some that hold out annotations beside others that do not."""
    if not searches:
        raise records.refusal(records.EMPTY.expected, value=records.EMPTY.value)
    for first, second in combinations(searches, 2):
        if first.held_out != second.held_out:
            raise records.refusal("the same in all searches", key=HELD_OUT, value="true and false")
        if first.settings == second.settings:
            fault = f"{second.name!r} with the settings of {first.name!r}"
            raise records.refusal("searches that differ", value=fault)
    return searches


def _dump(searches: tuple[Search, ...]) -> Any:
    return searches[0].to_dict() if len(searches) == 1 else [search.to_dict() for search in searches]


def _check_names(value: Search | tuple[Search, ...]) -> tuple[Search, ...]:
    searches = (value,) if isinstance(value, Search) else value
    wrong = [search.name for search in searches if (search.name is None) != (len(searches) == 1)]
    if wrong:
        fault = "a search without a name" if wrong[0] is None else f"one search named {wrong[0]!r}"
        raise records.refusal("a table without a name, or several with one each", value=fault)
    return _check_differences(searches)


def _from_table(table: records.Record) -> tuple[Search, ...]:
    """Make one search, or one for each method that the table names."""
    keys = dict(table)
    methods = keys.pop("method")
    if len(methods) == 1:
        return (search_from(**keys, method=methods[0]),)
    return _check_differences(tuple(search_from(**keys, method=method, name=method) for method in methods))


def _from_tables(tables: tuple[records.Record, ...]) -> tuple[Search, ...]:
    if len(tables) == 1:  # a name that tells nothing apart is none
        return (search_from(**{**dict(tables[0]), NAME: None}),)
    return _check_differences(tuple(search_from(**dict(table)) for table in tables))


Method = Annotated[str, records.Choice(declared.METHOD.choices)]
Methods = Annotated[
    Annotated[Method, AfterValidator(lambda method: (method,)), Tag(ITEM)]
    | Annotated[tuple[Method, ...], records.Set(str), Tag(LIST)],
    Discriminator(_form),
]

SharedTable = create_model(
    "Search",
    __base__=SearchTable,
    __doc__=SearchTable.__doc__,
    method=(
        Methods,
        Field(
            declared.METHOD.default,
            description=f"{declared.METHOD.meaning} A list of several makes a search of each.",
            validate_default=True,
        ),
    ),
)
NamedTable = create_model(
    "NamedSearch",
    __base__=SearchTable,
    __doc__="One of several searches, which are a dimension of the cell.",
    name=(Name, Field(description="Name of the search.")),
)

NAMES = records.named_once(lambda table: [table.get(NAME)] if isinstance(table, Mapping) else [])
_in_file = (
    Annotated[SharedTable, AfterValidator(_from_table), Tag(ITEM)]
    | Annotated[tuple[NamedTable, ...], records.List(), NAMES, AfterValidator(_from_tables), Tag(LIST)]
)
_in_cube = Annotated[Search, Tag(ITEM)] | Annotated[tuple[Search, ...], records.List(), NAMES, Tag(LIST)]
# Searches as a sweep file has them: the method decides what the file leaves out.
FILE_FORM = Annotated[_in_file, Discriminator(_form), PlainSerializer(_dump)]

# Searches as a cube keeps them: a table, or a list of tables with names.
CUBE_FORM = Annotated[_in_cube, Discriminator(_form), AfterValidator(_check_names), PlainSerializer(_dump)]
