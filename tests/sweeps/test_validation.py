"""Records: every problem of a file at once, with its place, what was found, what was expected and a hint."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from sweeps.errors import InputError
from sweeps.keytypes import Checked, Choice, Each, Given, Interval, Real, Text, Whole
from sweeps.validation import ABSENT, Record, read, refusal


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
