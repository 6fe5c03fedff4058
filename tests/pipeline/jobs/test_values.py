"""Types of the values in a profile, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic_core import PydanticCustomError

from pipeline.jobs.values import lines, name, pairs, plain, size, time_span, walltime, word


@pytest.mark.parametrize(
    ("check", "value", "taken"),
    [
        (size, "4GiB", 4 * 2**30),
        (size, "1GB", 10**9),
        (size, 2**20, 2**20),
        (time_span, "12h", 43_200.0),
        (time_span, "90 s", 90.0),
        (time_span, 2.5, 2.5),
        (walltime("slurm"), "2-00:00:00", "2-00:00:00"),
        (walltime("pbs"), "as the site writes it", "as the site writes it"),
        (lines, ["--exclusive", "a b"], ["--exclusive", "a b"]),
        (pairs, {"request_gpus": 0}, {"request_gpus": 0}),
        (name, "a b", "a b"),
        (name, 8, "8"),
        (plain, "a b", "a b"),
        (plain, True, True),
        (word, "long", "long"),
    ],
)
def test_what_is_taken(check: Callable[[Any], Any], value: object, taken: object) -> None:
    assert check(value) == taken


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (size, ["", "much", "0", 0, -1, True, None, 1.5, 1, 64, "1kB", "GB", " GiB", "1e400GB", 10**400]),
        (time_span, ["", "soon", "0s", 0, -1, True, None, "h", "1e400h", "nan", 1e300, 10**400]),
        (walltime("slurm"), [36_000, "ten hours", "", None]),
        (walltime("pbs"), [36_000, "", "a\nb"]),
        (lines, ["--exclusive", [1], ["a\nb"], [""], None]),
        (pairs, [["a"], {"a": None}, {"a": "b\nc"}, {"": 1}]),
        (name, [None, [], "", " ", "a\nb", True, 1.5, float("nan")]),
        (plain, [None, [], "", " ", "a\nb", "a\x1b[0m"]),
        (word, [1, "", "a b", " a", "a\nb"]),
    ],
)
def test_what_is_refused(check: Callable[[Any], Any], values: list[object]) -> None:
    for value in values:
        with pytest.raises((PydanticCustomError, ValueError)):
            check(value)
