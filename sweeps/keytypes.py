"""Types of keys, as annotations: what pydantic checks, what the JSON Schema says, what a message expects."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import (
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from pydantic_core.core_schema import TupleSchema

from sweeps.errors import shown
from sweeps.validation import EMPTY, StandIn, refusal, refused


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
