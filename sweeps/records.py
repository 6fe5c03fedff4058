"""Types of keys, as annotations: checks of pydantic, words of the JSON Schema, words of messages."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from sweep_clustering.sweeps.errors import MISSING_KEY, InputError, Problem, did_you_mean, short_text

R = TypeVar("R")

# Type of the errors that contain the words of their message.
REFUSAL = "refusal"

# Expected values, by the name of pydantic's error.
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


class Record(BaseModel):
    """A frozen table of a file, with values of the declared types and no other key."""

    # Validators are built at the first use: a command that reads a cube needs few of them.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _mark_unknown(cls, values: object) -> object:
        if isinstance(values, Mapping) and cls.model_config["extra"] == "forbid":
            return mark_unknown_keys(values, cls.model_fields)
        return values


def mark_unknown_keys(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return a table in which the value of an unknown key lists the known ones."""
    names = tuple(keys)
    return {key: value if key in names else UnknownKey(names) for key, value in values.items()}


@dataclass(frozen=True)
class UnknownKey:
    """A marker in the place of an unknown key's value."""

    keys: tuple[str, ...]  # the known ones


@dataclass(frozen=True)
class StandIn:
    """A marker in the place of a value that contradicts others, with the words of the message.

    No type accepts it. So contradictions between entries are found in the same validation as the faults of
    each entry, and all of them are reported at once.
    """

    value: str
    expected: str
    hint: str = ""


MISSING_VALUE = StandIn(MISSING_KEY, "the key")
EMPTY = StandIn("an empty list", "at least one value")


# Values that validators get beside those of a file.
Context = Mapping[str, Any]


def read(
    record: type[R], values: object, location: str, *, brackets: bool = False, context: Context | None = None
) -> R:
    """Validate the content of a file.

    Parameters
    ----------
    record : type
        a `Record`, or a dataclass with annotated fields
    values : object
        values of a TOML, YAML or JSON text
    location : str
        file, and table if it is not the whole file, for messages
    brackets : bool
        Whether tables at the top are written as in TOML: `sweep.toml [grid] p`.
    context : mapping, optional
        context of the validators

    Raises
    ------
    InputError
        With all faults, in all of the tables.
    """
    try:
        content: R = _adapter(record).validate_python(values, context=context)
        return content
    except ValidationError as error:
        problems = [_problem(line, location, brackets) for line in error.errors(include_url=False)]
        # from None: the text of pydantic's error would repeat in its own words what the problems say
        raise InputError(problems) from None


# An adapter is made once for each kind of record, because that takes longer than to read a record.
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def refusal(expected: str, hint: str = "", *, key: str = "", value: str = "") -> PydanticCustomError:
    """Return an error for a validator to raise.

    `key` and `value` are for tables whose keys contradict each other: the key and its value in the message.
    """
    words = {"expected": expected, "hint": hint, "key": key, "value": value}
    return PydanticCustomError(REFUSAL, "{expected}", words)


def _problem(line: ErrorDetails, file: str, brackets: bool) -> Problem:
    value, words, names = line["input"], line.get("ctx", {}), _names(line["loc"])
    if isinstance(value, UnknownKey):
        expected, hint = "one of " + ", ".join(sorted(value.keys)), did_you_mean(names[-1], value.keys)
        table = _place(file, names[:-1], brackets, table=True)
        return Problem(table, f"unknown key {names[-1]!r}", expected, hint)
    expected = words["expected"] if line["type"] == REFUSAL else KINDS.get(line["type"], line["msg"])
    key = words.get("key")
    place = _place(file, [*names, key] if key else names, brackets, table=expected == "a table" and not key)
    if line["type"] == "missing":
        value = MISSING_VALUE
    if isinstance(value, StandIn):
        return Problem(place, value.value, value.expected, value.hint)
    if line["type"] != REFUSAL:
        return Problem(place, short_text(value), expected)
    options = words.get("options", ())
    hint = words["hint"] or (did_you_mean(value, options) if isinstance(value, str) else "")
    return Problem(place, words.get("value") or short_text(value), expected, hint)


def _names(loc: tuple[int | str, ...]) -> list[str]:
    """Return keys from the outermost to the innermost, with positions in lists, without tags of a union."""
    names: list[str] = []
    for part in loc:
        if isinstance(part, int) and names:
            names[-1] += f"[{part}]"
        elif not str(part).startswith("("):
            names.append(str(part))
    return names


def _place(location: str, names: list[str], brackets: bool, *, table: bool) -> str:
    """Return file, tables and key: `sweep.toml [grid] datasets[1].mixture count`."""
    if not names:
        return location.rstrip(":,")  # the message has a colon of its own
    tables, key = (names, "") if table else (names[:-1], names[-1])
    if brackets and tables:
        name, bracket, place = tables[0].partition("[")
        outer = f"[[{name}]]{bracket}{place}" if bracket else f"[{name}]"
        return " ".join(filter(None, (location, outer, ".".join(tables[1:]), key)))
    return " ".join(filter(None, (location, ".".join(tables), key)))


@dataclass(frozen=True, eq=False)
class Expected:
    """A type with words for messages, in place of pydantic's own, and options for the hint."""

    expected: str
    hint: str = ""
    schema: CoreSchema | None = None
    options: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = self.schema or handler(source)
        words = {"expected": self.expected, "hint": self.hint, "options": self.options}
        return core_schema.custom_error_schema(
            schema, REFUSAL, custom_error_message="{expected}", custom_error_context=words
        )


def Whole(minimum: int, maximum: int | None = None) -> Expected:
    """Return the type of a whole number within bounds."""
    bounds = f"of at least {minimum}" if maximum is None else f"{minimum}..{maximum}"
    number = core_schema.int_schema(strict=True, ge=minimum, le=maximum)
    return Expected(f"a whole number {bounds}", schema=number)


def Real(expected: str, **bounds: Any) -> Expected:
    """Return the type of a finite number with bounds (`ge`, `gt`, `le`, `lt`), which `expected` describes."""
    number = core_schema.float_schema(strict=True, allow_inf_nan=False, **bounds)
    return Expected(expected, schema=number)


def Choice(words: tuple[str, ...]) -> Expected:
    """Return the type of one of a few words."""
    expected = "one of " + ", ".join(words)
    return Expected(expected, schema=core_schema.literal_schema(list(words)), options=words)


def Text(expected: str = "a text", hint: str = "", **limits: Any) -> Expected:
    """Return the type of a text, which `expected` describes.

    The limits are `min_length`, `max_length` and `pattern`; a pattern for the whole text has `^` and `$`.
    """
    return Expected(expected, hint, core_schema.str_schema(strict=True, **limits))


def Interval(
    expected: str = "a pair [low, high] with low ≤ high",
    floor: float | None = None,
    edge: float | None = None,
) -> Expected:
    """Return the type of a pair [low, high], both at least `floor` and `high` more than `edge`."""

    def in_order(pair: tuple[float, float]) -> tuple[float, float]:
        if pair[0] > pair[1]:
            raise ValueError(expected)
        return pair

    low = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=floor)
    high = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=floor, gt=edge)
    pair = core_schema.tuple_schema([low, high], strict=False)
    return Expected(expected, schema=core_schema.no_info_after_validator_function(in_order, pair))


@dataclass(frozen=True, eq=False)
class As:
    """Another type for pydantic in place of the annotated one, which type checkers see."""

    kind: Any

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.kind)


@dataclass(frozen=True)
class Parser:
    """A value that a function converts; it raises `refusal` for other values.

    The JSON Schema is for editors, which complete and check a file by it.
    """

    check: Callable[[Any], Any]
    json_schema: JsonSchemaValue = field(hash=False)  # a member of a union is hashed, and a dict has no hash

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return dict(self.json_schema)


@dataclass(frozen=True)
class Set:
    """A list, kept as a tuple, without repeats.

    `identity` returns the part of an element by which elements differ. It may raise an error for a wrong
    element, which the type of the elements reports. `shortest`, 0 or 1, is the least number of elements.
    """

    identity: Callable[[Any], Hashable]
    shortest: int = 1

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = _taking_lists(handler(source))
        return core_schema.no_info_before_validator_function(self._mark_repeated, schema)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "uniqueItems": True, "minItems": self.shortest}

    def _mark_repeated(self, values: object) -> object:
        if not isinstance(values, list):
            return values
        if len(values) < self.shortest:
            return EMPTY
        identities: set[Hashable] = set()
        elements = []
        for value in values:
            try:
                identity = self.identity(value)
                repeat = StandIn(f"{short_text(value)} again", "each value once")
                elements.append(repeat if identity in identities else value)
                identities.add(identity)
            except (TypeError, ValueError, ArithmeticError):
                elements.append(value)
        return elements


def named_once(names: Callable[[Any], Iterable[Any]]) -> BeforeValidator:
    """Return a validator of a list of tables with distinct names, which `names` returns for a table.

    It comes before the validation of the tables, so that repeats are reported with all other faults.
    """

    def mark(entries: object) -> object:
        if not isinstance(entries, list):
            return entries
        former_names: set[str] = set()
        tables = []
        for entry in entries:
            table_names = [name for name in names(entry) if isinstance(name, str)]
            repeat = next((name for name in table_names if name in former_names), None)
            name = StandIn(f"the name {repeat!r} again", "a name used once")
            table = entry if isinstance(entry, Mapping) else {}
            tables.append(entry if repeat is None else {**table, "name": name})
            former_names.update(table_names)
        return tables

    return BeforeValidator(mark)


class NoNull:
    """A value, or None for a missing key; null in a file is refused, because TOML has none."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = handler(source)
        inner: CoreSchema = schema["schema"]  # the other member is None
        return inner


class List:
    """A tuple that is a list in TOML, YAML and JSON."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _taking_lists(handler(source))


class Terse(GenerateJsonSchema):
    """JSON Schema without titles that repeat the key, and without null, which editors do not need."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema of a key with its default, except a default of None."""
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def _taking_lists(schema: CoreSchema) -> core_schema.TupleSchema:
    elements = cast(core_schema.TupleSchema, schema)
    elements["strict"] = False
    return elements
