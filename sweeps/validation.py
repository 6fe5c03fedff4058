"""Records read from files by pydantic, and its errors as problems that people can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from sweeps.errors import InputError, Problem, did_you_mean, shown

R = TypeVar("R")

REFUSAL = "refusal"
"""Type of the errors that bring the words of their message along."""

KINDS = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a finite number",
    "int_type": "a whole number",
    "invalid_key": "a text as its key",
    "list_type": "a list",
    "model_type": "a table",
    "string_type": "a text",
    "tuple_type": "a list",
}
"""What is expected, by the name of pydantic's error."""


class Record(BaseModel):
    """Values of one table of a file: of the very types declared, without any other key, never changed."""

    # built when first used: a command that reads a cube needs no record of files
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _mark_unknown(cls, values: Any) -> Any:
        return (
            marked(values, cls.model_fields)
            if isinstance(values, Mapping) and cls.model_config["extra"] == "forbid"
            else values
        )


def marked(values: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return a table in which the unknown keys say what the known ones are."""
    names = tuple(known)
    return {key: value if key in names else Unknown(names) for key, value in values.items()}


@dataclass(frozen=True)
class Unknown:
    """Replaces the value of an unknown key; `known` are the keys of its table."""

    known: tuple[str, ...]


@dataclass(frozen=True)
class StandIn:
    """Replaces a value that other values rule out, and holds the words of the message.

    No type accepts it. So what is wrong between entries is found in the same validation as what is wrong with
    each of them, and all of it is reported at once.
    """

    found: str
    expected: str
    hint: str = ""


ABSENT = StandIn("nothing", "this key")
EMPTY = StandIn("an empty list", "at least one value")


def read(
    record: type[R],
    values: object,
    where: str,
    *,
    brackets: bool = False,
    context: Mapping[str, Any] | None = None,
) -> R:
    """Validate what a file holds.

    Parameters
    ----------
    record : type
        What it should be: a `Record`, or a dataclass with annotated fields.
    values : object
        What TOML, YAML or JSON gave.
    where : str
        File, and table where it is not the whole file, for messages.
    brackets : bool
        Whether tables at the top are written as in TOML: `sweep.toml [grid] p`.
    context : mapping, optional
        For the validators.

    Raises
    ------
    InputError
        With everything that is wrong, in all of the tables.
    """
    try:
        return _adapter(record).validate_python(values, context=context)
    except ValidationError as error:
        # from None: the text of pydantic's error would repeat in its own words what the problems say
        raise InputError(problems_of(error, where, brackets=brackets)) from None


_adapters: dict[object, TypeAdapter[Any]] = {}


def _adapter(record: type[R]) -> TypeAdapter[R]:
    """Of one kind of record; made once, as that takes longer than to read a record."""
    if record not in _adapters:
        _adapters[record] = TypeAdapter(record)
    return _adapters[record]


def problems_of(error: ValidationError, where: str, *, brackets: bool = False) -> list[Problem]:
    """Translate the errors of pydantic; parameters as of `read`."""
    return [_problem(line, where, brackets) for line in error.errors(include_url=False)]


def refusal(expected: str, hint: str = "", *, key: str = "", found: str = "") -> PydanticCustomError:
    """Error for a validator to raise.

    Parameters
    ----------
    expected : str
        What should stand there.
    hint : str
        A remedy.
    key, found : str
        Where keys of a table contradict each other: the key that the message names, and what was found there.
    """
    words = {"expected": expected, "hint": hint, "key": key, "found": found}
    return PydanticCustomError(REFUSAL, "{expected}", words)


def refused(schema: CoreSchema, expected: str, hint: str = "", options: tuple[str, ...] = ()) -> CoreSchema:
    """Schema that says `expected` in place of pydantic's own words.

    Parameters
    ----------
    schema : core schema
        What is checked.
    expected, hint : str
        As of `refusal`.
    options : tuple of str
        Words that the hint is chosen from.
    """
    words = {"expected": expected, "hint": hint, "options": options}
    return core_schema.custom_error_schema(
        schema, REFUSAL, custom_error_message="{expected}", custom_error_context=words
    )


def _problem(line: ErrorDetails, where: str, brackets: bool) -> Problem:
    value, words, names = line["input"], line.get("ctx", {}), _names(line["loc"])
    if isinstance(value, Unknown):
        expected, hint = "one of " + ", ".join(sorted(value.known)), did_you_mean(names[-1], value.known)
        table = _place(where, names[:-1], brackets, table=True)
        return Problem(table, f"unknown key {names[-1]!r}", expected, hint)
    expected = words["expected"] if line["type"] == REFUSAL else KINDS.get(line["type"], line["msg"])
    key = words.get("key")
    place = _place(where, [*names, key] if key else names, brackets, table=expected == "a table" and not key)
    if line["type"] == "missing":
        value = ABSENT
    if isinstance(value, StandIn):
        return Problem(place, value.found, value.expected, value.hint)
    if line["type"] != REFUSAL:
        return Problem(place, shown(value), expected)
    options = words.get("options", ())
    hint = words["hint"] or (did_you_mean(value, options) if isinstance(value, str) else "")
    return Problem(place, words.get("found") or shown(value), expected, hint)


def _names(loc: tuple[int | str, ...]) -> list[str]:
    """Keys from the outermost to the innermost, with positions in lists; the tags of a union are left out."""
    names: list[str] = []
    for part in loc:
        if isinstance(part, int) and names:
            names[-1] += f"[{part}]"
        elif not str(part).startswith("("):
            names.append(str(part))
    return names


def _place(where: str, names: list[str], brackets: bool, *, table: bool) -> str:
    """File, tables and key: `sweep.toml [grid] datasets[1].mixture count`."""
    if not names:
        return where.removesuffix(":")  # the message has one of its own
    tables, key = (names, "") if table else (names[:-1], names[-1])
    if brackets and tables:
        name, bracket, place = tables[0].partition("[")
        outer = f"[[{name}]]{bracket}{place}" if bracket else f"[{name}]"
        tables = [outer, *tables[1:]]
        return " ".join(filter(None, (where, tables[0], ".".join(tables[1:]), key)))
    return " ".join(filter(None, (where, ".".join(tables), key)))
