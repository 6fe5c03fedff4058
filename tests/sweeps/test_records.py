"""Types of keys: what is taken, what a message expects, and what the JSON Schema says."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from sweeps import records
from sweeps.errors import InputError
from sweeps.records import ABSENT, Choice, Each, Interval, Real, Record, Text, Whole, read


def two_fold(value: Any) -> int:
    if not isinstance(value, int) or value % 2:
        raise records.refusal("an even number", "a hint")
    return value


class Inner(Record):
    number: Annotated[int, Whole(1, 9)] = Field(description="A number.")
    word: Annotated[str, Choice(("short", "long"), more=", or nothing")] = "short"


class Outer(Record):
    inner: Inner
    maybe: Annotated[Inner | None, records.Given()] = None
    each: Annotated[tuple[Inner, ...], Each(repr, 0)] = ()
    share: Annotated[float, Real("a share above 0, at most 1", gt=0, le=1)] = 0.5
    names: Annotated[tuple[Annotated[str, Text("a text")], ...], Each(str.lower)] = ("a",)
    wholes: Annotated[tuple[Annotated[int, Whole(0)], ...], Each(lambda value: value % 10)] = (1,)
    even: Annotated[int, records.Checked(two_fold, {"type": "integer", "multipleOf": 2})] = 2
    pair: Annotated[tuple[float, float], Interval(least=-1.0)] = (0.0, 1.0)
    flag: bool = False
    lower: Annotated[str, Text("a lower-case word", "no blanks", pattern="^[a-z]+$", max_length=5)] = "a"


def problems(values: object, **more: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(Outer, values, "file", **more)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"inner": {"number": 9}}, Inner(number=9, word="short")),
        ({"share": 1}, 1.0),
        ({"names": ["a", "b"]}, ("a", "b")),
        ({"each": []}, ()),
        ({"wholes": [3, 12]}, (3, 12)),
        ({"pair": [-1, 0.5]}, (-1.0, 0.5)),
        ({"pair": [2, 2]}, (2.0, 2.0)),
    ],
)
def test_what_is_taken(given: dict[str, Any], kept: object) -> None:
    (key,) = given
    outer = read(Outer, {"inner": {"number": 1}} | given, "file")
    assert getattr(outer, key) == kept
    assert type(getattr(outer, key)) is type(kept)
    with pytest.raises(ValidationError):
        outer.flag = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"inner": 3}, ["inner: found 3, expected a table"]),
        ({"inner": {}}, ["inner number: found nothing, expected this key"]),
        *(({"inner": {"number": number}}, [f"inner number: found {found}, expected a whole number 1..9"])
          for number, found in ((0, "0"), (10, "10"), (2.0, "2.0"), (True, "true"), ("2", "'2'"))),
        ({"inner": {"number": 1, "word": "lon"}},
         ["inner word: found 'lon', expected one of short, long, or nothing (did you mean 'long'?)"]),
        ({"inner": {"number": 1, "word": 3}},
         ["inner word: found 3, expected one of short, long, or nothing"]),
        ({"inner": {"number": 1, "wrod": "x"}},
         ["inner: found unknown key 'wrod', expected one of number, word (did you mean 'word'?)"]),
        ({"maybe": None}, ["maybe: found None, expected a table"]),
        ({"each": [{"number": 1}, {"number": 0}]}, ["each[1] number: found 0, expected a whole number 1..9"]),
        ({"each": [{"number": 1}] * 2}, ["each[1]: found {'number': 1} again, expected each value once"]),
        *(({"share": share}, [f"share: found {found}, expected a share above 0, at most 1"])
          for share, found in ((0, "0"), (1.5, "1.5"), (float("nan"), "nan"), ("0.5", "'0.5'"))),
        ({"names": []}, ["names: found an empty list, expected at least one value"]),
        ({"names": ["a", 3, "A"]},
         ["names[1]: found 3, expected a text", "names[2]: found 'A' again, expected each value once"]),
        ({"names": "a"}, ["names: found 'a', expected a list"]),
        ({"names": ABSENT}, ["names: found nothing, expected this key"]),
        ({"wholes": ["1", 4, 14, None, -1]}, [
            "wholes[0]: found '1', expected a whole number of at least 0",
            "wholes[2]: found 14 again, expected each value once",
            "wholes[3]: found None, expected a whole number of at least 0",
            "wholes[4]: found -1, expected a whole number of at least 0",
        ]),
        ({"even": 3}, ["even: found 3, expected an even number (a hint)"]),
        *(({"pair": pair}, [f"pair: found {pair}, expected a pair [low, high] with low ≤ high"])
          for pair in ([2, 1], [-2, 1], [1])),
        ({"flag": 1}, ["flag: found 1, expected true or false"]),
        *(({"lower": word}, [f"lower: found {word!r}, expected a lower-case word (no blanks)"])
          for word in ("a b", "abcdef")),
    ],
)  # fmt: skip
def test_what_is_refused_and_what_was_expected(more: dict[str, Any], said: list[str]) -> None:
    assert problems({"inner": {"number": 1}} | more) == [f"file {each}" for each in said]


def test_everything_is_said_at_once_and_tables_of_toml_have_brackets() -> None:
    values = {"inner": {"number": 0, "x": 1}, "each": [{"number": 1, "y": 2}], "maybe": 3, "flag": 0, "z": 0}
    assert [text.partition(":")[0] for text in problems(values, brackets=True)] == [
        "file [inner] number", "file [inner]", "file [maybe]", "file [[each]][0]", "file flag", "file",
    ]  # fmt: skip
    assert problems(3) == ["file: found 3, expected a table"]
