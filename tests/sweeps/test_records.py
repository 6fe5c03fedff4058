"""Types of keys: what is taken, what a message expects, and what the JSON Schema says."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from sweeps.errors import InputError
from sweeps.records import (
    ABSENT,
    Checked,
    Choice,
    Each,
    Given,
    Interval,
    Real,
    Record,
    Text,
    Whole,
    read,
    refusal,
)

# Records: every problem of a file at once, with its place, what was found, what was expected and a hint.


def two_fold(value: Any) -> int:
    if not isinstance(value, int) or value % 2:
        raise refusal("an even number", "a hint")
    return value


class Inner(Record):
    number: Annotated[int, Whole(1, 9)] = Field(description="A number.")
    word: Annotated[str, Choice(("short", "long"))] = "short"


class Outer(Record):
    inner: Inner
    maybe: Annotated[Inner | None, Given()] = None
    each: Annotated[tuple[Inner, ...], Each(repr, 0)] = ()
    share: Annotated[float, Real("a probability in [0, 1]", ge=0, le=1)] = 0.5
    names: Annotated[tuple[Annotated[str, Text("a text")], ...], Each(str.lower)] = ("a",)
    even: Annotated[int, Checked(two_fold, {"type": "integer", "multipleOf": 2})] = 2
    pair: Annotated[tuple[float, float], Interval(least=0)] = (0.0, 1.0)
    flag: bool = False


def problems(values: object, **more: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(Outer, values, "file", **more)
    return [str(problem) for problem in caught.value.problems]


def test_a_good_table_is_a_frozen_record() -> None:
    outer = read(Outer, {"inner": {"number": 1}, "names": ["a", "b"], "share": 1, "pair": [0, 2]}, "file")
    assert outer == Outer(inner=Inner(number=1), names=("a", "b"), share=1.0, pair=(0.0, 2.0))
    assert isinstance(outer.share, float)
    with pytest.raises(ValidationError):
        outer.flag = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"inner": 3}, "file inner: found 3, expected a table"),
        ({"inner": {}}, "file inner number: found nothing, expected this key"),
        ({"inner": {"number": True}}, "file inner number: found true, expected a whole number 1..9"),
        (
            {"inner": {"number": 1, "word": "lon"}},
            "found 'lon', expected one of short, long (did you mean 'lo",
        ),
        (
            {"inner": {"number": 1, "wrod": "x"}},
            "file inner: found unknown key 'wrod', expected one of number, w",
        ),
        ({"iner": {}}, "file: found unknown key 'iner'"),
        ({"maybe": None}, "file maybe: found None, expected a table"),
        ({"each": [{"number": 1}, {"number": 0}]}, "file each[1] number: found 0"),
        (
            {"each": [{"number": 1}, {"number": 1}]},
            "file each[1]: found {'number': 1} again, expected each value",
        ),
        ({"share": 2}, "file share: found 2, expected a probability in [0, 1]"),
        ({"share": "2"}, "file share: found '2', expected a finite number"),
        ({"names": []}, "file names: found an empty list, expected at least one value"),
        ({"names": ["a", 3, "A"]}, "file names[1]: found 3, expected a text"),
        ({"names": ["a", 3, "A"]}, "file names[2]: found 'A' again, expected each value once"),
        ({"names": "a"}, "file names: found 'a', expected a list"),
        ({"names": ABSENT}, "file names: found nothing, expected this key"),
        ({"even": 3}, "file even: found 3, expected an even number (a hint)"),
        ({"pair": [2, 1]}, "file pair: found [2, 1], expected a pair [low, high] with low ≤ high"),
        ({"pair": [-1, 1]}, "file pair: found [-1, 1], expected a pair"),
        ({"pair": [1]}, "file pair: found [1], expected a pair"),
        ({"flag": 1}, "file flag: found 1, expected true or false"),
    ],
)
def test_what_is_said(more: dict[str, Any], said: str) -> None:
    assert said in "\n".join(problems({"inner": {"number": 1}} | more))


def test_everything_is_said_at_once_and_tables_of_toml_have_brackets() -> None:
    values = {"inner": {"number": 0, "x": 1}, "each": [{"number": 1, "y": 2}], "maybe": 3, "flag": 0, "z": 0}
    assert [text.partition(":")[0] for text in problems(values, brackets=True)] == [
        "file [inner] number",
        "file [inner]",
        "file [maybe]",
        "file [[each]][0]",
        "file flag",
        "file",
    ]
    assert problems(3) == ["file: found 3, expected a table"]


def test_the_json_schema_says_what_is_checked() -> None:
    schema = Outer.model_json_schema()
    number = schema["$defs"]["Inner"]["properties"]["number"]
    assert number == {
        "description": "A number.", "maximum": 9, "minimum": 1, "title": "Number", "type": "integer",
    }  # fmt: skip
    assert schema["$defs"]["Inner"]["properties"]["word"]["enum"] == ["short", "long"]
    found = schema["properties"]
    assert (found["share"]["minimum"], found["share"]["maximum"]) == (0, 1)
    assert found["names"]["minItems"] == 1
    assert found["names"]["uniqueItems"]
    assert found["even"]["multipleOf"] == 2
    assert found["maybe"]["$ref"] == "#/$defs/Inner"
    assert schema["additionalProperties"] is False


class Wholes(Record):
    key: Annotated[int, Whole(1, 9)]


class Reals(Record):
    key: Annotated[float, Real("a share above 0, at most 1", gt=0, le=1)]


class Choices(Record):
    key: Annotated[str, Choice(("short", "long"), more=", or nothing")]


class Texts(Record):
    key: Annotated[str, Text("a lower-case word", "no blanks", pattern="^[a-z]+$", longest=5)]


class Lists(Record):
    key: Annotated[tuple[Annotated[int, Whole(0)], ...], Each(lambda value: value % 10)]


class Pairs(Record):
    key: Annotated[tuple[float, float], Interval(least=-1.0)]


@pytest.mark.parametrize(
    ("record", "value", "kept"),
    [
        (Wholes, 1, 1),
        (Wholes, 9, 9),
        (Reals, 1, 1.0),
        (Reals, 1e-300, 1e-300),
        (Choices, "long", "long"),
        (Texts, "abcde", "abcde"),
        (Lists, [3, 12], (3, 12)),
        (Pairs, [-1, 0.5], (-1.0, 0.5)),
        (Pairs, [2, 2], (2.0, 2.0)),
    ],
)
def test_what_is_taken(record: type[Any], value: object, kept: object) -> None:
    found = read(record, {"key": value}, "file").key
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("record", "value", "said"),
    [
        (Wholes, 0, "key: found 0, expected a whole number 1..9"),
        (Wholes, 10, "key: found 10, expected a whole number 1..9"),
        (Wholes, 2.0, "key: found 2.0, expected a whole number 1..9"),
        (Wholes, True, "key: found true, expected a whole number 1..9"),
        (Wholes, "2", "key: found '2', expected a whole number 1..9"),
        (Reals, 0, "key: found 0, expected a share above 0, at most 1"),
        (Reals, 1.5, "key: found 1.5, expected a share above 0, at most 1"),
        (Reals, float("nan"), "key: found nan, expected a finite number"),
        (Reals, "0.5", "key: found '0.5', expected a finite number"),
        (Reals, True, "key: found true, expected a finite number"),
        (
            Choices,
            "lang",
            "key: found 'lang', expected one of short, long, or nothing (did you mean 'long'?)",
        ),
        (Choices, 3, "key: found 3, expected one of short, long, or nothing"),
        (Texts, "a b", "key: found 'a b', expected a lower-case word (no blanks)"),
        (Texts, "abcdef", "key: found 'abcdef', expected a lower-case word (no blanks)"),
        (Lists, [], "key: found an empty list, expected at least one value"),
        (Lists, [1, 2, 11], "key[2]: found 11 again, expected each value once"),
        (Lists, [1, -1], "key[1]: found -1, expected a whole number of at least 0"),
        (Lists, 3, "key: found 3, expected a list"),
        (Pairs, [1, 0], "key: found [1, 0], expected a pair [low, high] with low ≤ high"),
        (Pairs, [-2, 0], "key: found [-2, 0], expected a pair [low, high] with low ≤ high"),
        (Pairs, [1], "key: found [1], expected a pair [low, high] with low ≤ high"),
    ],
)
def test_what_is_refused_and_what_was_expected(record: type[Any], value: object, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(record, {"key": value}, "file")
    assert [str(problem) for problem in caught.value.problems] == [f"file {said}"]


def test_every_element_that_is_wrong_is_named() -> None:
    with pytest.raises(InputError) as caught:
        read(Lists, {"key": ["1", 4, 14, None]}, "file")
    assert [problem.where for problem in caught.value.problems] == [
        "file key[0]",
        "file key[2]",
        "file key[3]",
    ]


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        (Wholes, {"type": "integer", "minimum": 1, "maximum": 9}),
        (Reals, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        (Choices, {"enum": ["short", "long"]}),
        (Texts, {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5}),
        (Lists, {"type": "array", "uniqueItems": True, "minItems": 1}),
        (Pairs, {"type": "array", "minItems": 2, "maxItems": 2}),
    ],
)
def test_an_editor_is_told_the_same_bounds(record: type[Any], wanted: dict[str, Any]) -> None:
    schema = record.model_json_schema()["properties"]["key"]
    assert schema | wanted == schema
