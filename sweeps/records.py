"""Types of keys, as annotations: what pydantic checks, what the JSON Schema says, what a message expects."""

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
from pydantic_core.core_schema import TupleSchema

from sweep_clustering.sweeps.errors import MISSING, InputError, Problem, did_you_mean, short_text

# Records read from files by pydantic, and its errors as problems that people can act on.

R = TypeVar("R")

# Type of the errors that bring the words of their message along.
REFUSAL = "refusal"

# What is expected, by the name of pydantic's error.
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
    """Values of one table of a file: of the very types declared, without any other key, never changed."""

    # built when first used: a command that reads a cube needs no record of files
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _mark_unknown(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and cls.model_config["extra"] == "forbid":
            return marked(values, cls.model_fields)
        return values


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


ABSENT = StandIn(MISSING, "the key")
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
        found: R = _adapter(record).validate_python(values, context=context)
        return found
    except ValidationError as error:
        problems = [_problem(line, where, brackets) for line in error.errors(include_url=False)]
        # from None: the text of pydantic's error would repeat in its own words what the problems say
        raise InputError(problems) from None


# Of one kind of record; made once, as that takes longer than to read a record.
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


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
        return Problem(place, short_text(value), expected)
    options = words.get("options", ())
    hint = words["hint"] or (did_you_mean(value, options) if isinstance(value, str) else "")
    return Problem(place, words.get("found") or short_text(value), expected, hint)


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
        return " ".join(filter(None, (where, outer, ".".join(tables[1:]), key)))
    return " ".join(filter(None, (where, ".".join(tables), key)))


@dataclass(frozen=True, eq=False)
class Expected:
    """A type with the words that a message has for it, in place of pydantic's own.

    Parameters
    ----------
    expected, hint : str
        As of `refusal`.
    schema : core schema, optional
        What is checked; that of the type it annotates unless given.
    options : tuple of str
        Words that the hint is chosen from.
    """

    expected: str
    hint: str = ""
    schema: CoreSchema | None = None
    options: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        words = {"expected": self.expected, "hint": self.hint, "options": self.options}
        return core_schema.custom_error_schema(
            self.schema or handler(source),
            REFUSAL,
            custom_error_message="{expected}",
            custom_error_context=words,
        )


def Whole(minimum: int, maximum: int | None = None) -> Expected:
    """A whole number within bounds."""
    bounds = f"of at least {minimum}" if maximum is None else f"{minimum}..{maximum}"
    number = core_schema.int_schema(strict=True, ge=minimum, le=maximum)
    return Expected(f"a whole number {bounds}", schema=number)


def Real(expected: str, **bounds: Any) -> Expected:
    """A finite number within bounds (`ge`, `gt`, `le`, `lt`); `expected` says them in words."""
    number = core_schema.float_schema(strict=True, allow_inf_nan=False, **bounds)
    return Expected(expected, schema=number)


def Choice(words: tuple[str, ...]) -> Expected:
    """One of a few words."""
    expected = "one of " + ", ".join(words)
    return Expected(expected, schema=core_schema.literal_schema(list(words)), options=words)


def Text(expected: str = "a text", hint: str = "", **limits: Any) -> Expected:
    """A text within a length (`min_length`, `max_length`) or of a `pattern`; `expected` says it in words.

    The pattern is searched for: one for the whole text has `^` and `$`.
    """
    return Expected(expected, hint, core_schema.str_schema(strict=True, **limits))


def Interval(
    expected: str = "a pair [low, high] with low ≤ high",
    least: float | None = None,
    above: float | None = None,
) -> Expected:
    """A pair [low, high], both at least `least` and `high` more than `above`."""

    def in_order(pair: tuple[float, float]) -> tuple[float, float]:
        if pair[0] > pair[1]:
            raise ValueError(expected)
        return pair

    low = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=least)
    high = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=least, gt=above)
    pair = core_schema.tuple_schema([low, high], strict=False)
    return Expected(expected, schema=core_schema.no_info_after_validator_function(in_order, pair))


@dataclass(frozen=True, eq=False)
class As:
    """Another type in place of the one it annotates, which is what type checkers see.

    Parameters
    ----------
    kind : type
        What pydantic checks.
    """

    kind: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.kind)


@dataclass(frozen=True)
class Checked:
    """What a function makes of a value; it raises `refusal` for what it does not take.

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
                again = StandIn(f"{short_text(value)} again", "each value once")
                marked.append(again if identity in seen else value)
                seen.add(identity)
            except (TypeError, ValueError, ArithmeticError):
                marked.append(value)
        return marked


def named_once(names: Callable[[Any], Iterable[Any]]) -> BeforeValidator:
    """A list of tables, of which each is called otherwise than those before it.

    Looked at before the tables are validated: every repeat is then reported with all else that is wrong.

    Parameters
    ----------
    names : callable
        From a table as the file holds it to what it names; what is no text is left to the type of its key.
    """

    def mark(entries: Any) -> Any:
        if not isinstance(entries, list):
            return entries
        seen: set[str] = set()
        marked = []
        for entry in entries:
            own = [name for name in names(entry) if isinstance(name, str)]
            again = next((name for name in own if name in seen), None)
            name = StandIn(f"the name {again!r} again", "a name used once")
            table = entry if isinstance(entry, Mapping) else {}
            marked.append(entry if again is None else {**table, "name": name})
            seen.update(own)
        return marked

    return BeforeValidator(mark)


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
