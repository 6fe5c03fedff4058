"""Types of keys, as annotations: what pydantic checks, what the JSON Schema says, what a message expects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema
from pydantic_core.core_schema import TupleSchema

from sweeps.errors import InputError, Problem, did_you_mean, shown

# Records read from files by pydantic, and its errors as problems that people can act on.

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


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds."""

    minimum: int
    maximum: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        bounds = f"of at least {self.minimum}" if self.maximum is None else f"{self.minimum}..{self.maximum}"
        number = core_schema.int_schema(strict=True, ge=self.minimum, le=self.maximum)
        return refused(number, f"a whole number {bounds}")


@dataclass(frozen=True)
class Real:
    """A finite number within bounds; `expected` says them in words."""

    expected: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = core_schema.float_schema(
            strict=True, allow_inf_nan=False, ge=self.ge, gt=self.gt, le=self.le, lt=self.lt
        )
        return core_schema.no_info_wrap_validator_function(self._bounded, number)

    def _bounded(self, value: Any, number: ValidatorFunctionWrapHandler) -> float:
        try:
            checked: float = number(value)
        except ValidationError as error:
            if error.errors()[0]["type"] in ("float_type", "finite_number"):
                raise
            raise refusal(self.expected) from None
        return checked


@dataclass(frozen=True)
class Choice:
    """One of a few words; `more` names what else there is, for the message."""

    words: tuple[str, ...]
    more: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        expected = "one of " + ", ".join(self.words) + self.more
        return refused(core_schema.literal_schema(list(self.words)), expected, options=self.words)


@dataclass(frozen=True)
class Text:
    """A text within a length or of a pattern; `expected` says it in words.

    The pattern is searched for: one for the whole text has `^` and `$`.
    """

    expected: str = "a text"
    hint: str = ""
    pattern: str | None = None
    shortest: int = 0
    longest: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(
            strict=True, pattern=self.pattern, min_length=self.shortest or None, max_length=self.longest
        )
        return refused(text, self.expected, self.hint)


@dataclass(frozen=True)
class Checked:
    """What a function makes of a value; it raises `sweeps.validation.refusal` for what it does not take.

    Parameters
    ----------
    check : callable
        From what the file holds to the value of the record.
    json_schema : mapping
        What the JSON Schema says, from which editors complete and check a file.
    """

    check: Callable[[Any], Any]
    json_schema: JsonSchemaValue = field(hash=False)  # a member of a union is hashed, and a dict has no hash

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return dict(self.json_schema)


@dataclass(frozen=True)
class Each:
    """A list, kept as a tuple, that repeats nothing.

    Parameters
    ----------
    identity : callable
        From an element as the file holds it to what tells elements apart. It may raise an error for a wrong
        element: the type of the elements reports that one.
    shortest : {0, 1}
        Least number of elements.
    """

    identity: Callable[[Any], Hashable]
    shortest: int = 1

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            self._mark_repeated, _taking_lists(handler(source))
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "uniqueItems": True, "minItems": self.shortest}

    def _mark_repeated(self, values: Any) -> Any:
        if not isinstance(values, list):
            return values
        if len(values) < self.shortest:
            return EMPTY
        seen: set[Hashable] = set()
        marked = []
        for value in values:
            try:
                identity = self.identity(value)
                again = StandIn(f"{shown(value)} again", "each value once")
                marked.append(again if identity in seen else value)
                seen.add(identity)
            except (TypeError, ValueError, ArithmeticError):
                marked.append(value)
        return marked


@dataclass(frozen=True)
class Interval:
    """A pair [low, high]; `expected` describes it in a message.

    Parameters
    ----------
    expected : str
        What a message expects.
    least : float
        Lower bound of both.
    above : float
        Value that `high` has to exceed.
    """

    expected: str = "a pair [low, high] with low ≤ high"
    least: float | None = None
    above: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        low = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=self.least)
        high = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=self.least, gt=self.above)
        pair = refused(core_schema.tuple_schema([low, high], strict=False), self.expected)
        return core_schema.no_info_after_validator_function(self._in_order, pair)

    def _in_order(self, pair: tuple[float, float]) -> tuple[float, float]:
        if pair[0] > pair[1]:
            raise refusal(self.expected)
        return pair


@dataclass(frozen=True)
class Expected:
    """Any type, with the words that a message has for it."""

    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return refused(handler(source), self.expected)


class Given:
    """A value, or None where its key is left out; null in a file is refused, as TOML has none."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = handler(source)
        inner: CoreSchema = schema["schema"]  # of the union with None
        return inner


class Listed:
    """A tuple that TOML, YAML and JSON have as a list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _taking_lists(handler(source))


class Terse(GenerateJsonSchema):
    """JSON Schema without what an editor does not need: titles that repeat the key, and null."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No title for any key."""
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Schema of a key with its default; a default of None is left out."""
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def _taking_lists(schema: CoreSchema) -> TupleSchema:
    elements = cast(TupleSchema, schema)
    elements["strict"] = False
    return elements
