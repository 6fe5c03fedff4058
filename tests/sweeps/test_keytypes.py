"""Types of keys: what is taken, what a message expects, and what the JSON Schema says."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from sweeps.errors import InputError
from sweeps.keytypes import Choice, Each, Interval, Real, Text, Whole
from sweeps.validation import Record, read


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
