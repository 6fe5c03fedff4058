"""The searches of a sweep: one, or several by name, which are then a dimension of the cell.

A file names several as `[search] method = ["published", "strong"]`, or as tables `[[search]]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    Tag,
    create_model,
)
from pydantic_core import CoreSchema

from kernels.settings import METHOD
from sweeps.file.search import HELD_OUT, NAME, Search, SearchTable, asked
from sweeps.keytypes import Choice, Each, Listed
from sweeps.plan import Name
from sweeps.validation import EMPTY, Record, StandIn, refusal

ONE, SEVERAL = "(one)", "(several)"
"""Forms in which searches are written; messages leave these words out."""

Table = Mapping[str, Any]


def tables_changed(values: Table, change: Callable[[Table], Table]) -> Table:
    """A sweep file in which each table of a search is changed, before anything is validated."""
    search = values.get("search")
    if isinstance(search, Mapping):
        return {**values, "search": change(search)}
    if isinstance(search, list):
        tables = [change(each) if isinstance(each, Mapping) else each for each in search]
        return {**values, "search": tables}
    return values


def names_several(search: object) -> bool:
    """Whether what a file has in the place of its search, not validated yet, would be several."""
    listed = search.get("method") if isinstance(search, Mapping) else search
    return isinstance(listed, list) and len(listed) > 1


def _form(value: object) -> str:
    return SEVERAL if isinstance(value, list | tuple) else ONE


def _marked(tables: Any) -> Any:
    """Put in place of a value what is wrong with it beside the tables before it."""
    if not isinstance(tables, list):
        return tables
    if not tables:
        return EMPTY
    names: list[object] = []
    marked = []
    for table in tables:
        if isinstance(table, Mapping):
            name, held_out = table.get(NAME), table.get(HELD_OUT, False)
            if isinstance(name, str) and name in names:
                table = {**table, NAME: StandIn(f"the name {name!r} again", "a name used once")}
            first = tables[0].get(HELD_OUT, False) if isinstance(tables[0], Mapping) else held_out
            if type(held_out) is type(first) is bool and held_out != first:
                found, expected = str(held_out).lower(), f"{str(first).lower()}, as in the first search"
                table = {**table, HELD_OUT: StandIn(found, expected)}
            names.append(name)
        marked.append(table)
    return marked


def _different(searches: tuple[Search, ...]) -> tuple[Search, ...]:
    """Refuse a search that is there twice, under two names."""
    for place, search in enumerate(searches):
        for other in searches[:place]:
            if search.settings == other.settings:
                found = f"{search.name!r} with the settings of {other.name!r}"
                raise refusal("searches that differ", found=found)
    return searches


def _dumped(searches: tuple[Search, ...]) -> Any:
    return searches[0].to_dict() if len(searches) == 1 else [each.to_dict() for each in searches]


def _kept(value: Search | tuple[Search, ...]) -> tuple[Search, ...]:
    searches = (value,) if isinstance(value, Search) else value
    wrong = [each.name for each in searches if (each.name is None) != (len(searches) == 1)]
    if wrong:
        found = "a search without a name" if wrong[0] is None else f"one search named {wrong[0]!r}"
        raise refusal("a table without a name, or several with one each", found=found)
    return _different(searches)


def _asked_one(table: Record) -> tuple[Search, ...]:
    """One search, or one for each method that the table names."""
    given = dict(table)
    methods = given.pop("method")
    if len(methods) == 1:
        return (asked(**given, method=methods[0]),)
    return _different(tuple(asked(**given, method=method, name=method) for method in methods))


def _asked_several(tables: tuple[Record, ...]) -> tuple[Search, ...]:
    if len(tables) == 1:  # a name that tells nothing apart is none
        return (asked(**{**dict(tables[0]), NAME: None}),)
    return _different(tuple(asked(**dict(table)) for table in tables))


Method = Annotated[str, Choice(METHOD.choices)]
Methods = Annotated[
    Annotated[Method, AfterValidator(lambda method: (method,)), Tag(ONE)]
    | Annotated[tuple[Method, ...], Each(str), Tag(SEVERAL)],
    Discriminator(_form),
]

SharedTable = create_model(
    "Search",
    __base__=SearchTable,
    __doc__=SearchTable.__doc__,
    method=(
        Methods,
        Field(
            METHOD.default,
            description=f"{METHOD.meaning} A list of several makes a search of each.",
            validate_default=True,
        ),
    ),
)
NamedTable = create_model(
    "NamedSearch",
    __base__=SearchTable,
    __doc__="One of several searches, which are a dimension of the cell.",
    name=(Name, Field(description="What the search is called.")),
)

_in_file = (
    Annotated[SharedTable, AfterValidator(_asked_one), Tag(ONE)]
    | Annotated[
        tuple[NamedTable, ...],
        Listed(),
        BeforeValidator(_marked),
        AfterValidator(_asked_several),
        Tag(SEVERAL),
    ]
)
_in_cube = (
    Annotated[Search, Tag(ONE)]
    | Annotated[tuple[Search, ...], Listed(), BeforeValidator(_marked), Tag(SEVERAL)]
)


class Kept:
    """Searches as a cube keeps them: a table, or a list of tables with names."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        kept = Annotated[_in_cube, Discriminator(_form), AfterValidator(_kept), PlainSerializer(_dumped)]
        return handler.generate_schema(kept)


class Written:
    """Searches as a sweep file asks for them: what the file leaves out is what the method says."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(Annotated[_in_file, Discriminator(_form), PlainSerializer(_dumped)])
