"""Reading of one TOML table: every key taken is checked, every other key is a problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sweeps.errors import Problem, did_you_mean, shown

T = TypeVar("T")


class Bad(ValueError):
    """What a check says of a value it refuses."""

    def __init__(self, expected: str, hint: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint


Check = Callable[[Any], T]


class Table:
    """One table of a TOML file.

    Parameters
    ----------
    where : str
        File and table, for messages.
    values : object
        What the file holds there.
    problems : list of Problem
        Grows with everything found wrong.
    """

    def __init__(self, where: str, values: object, problems: list[Problem]) -> None:
        self._where = where
        self._problems = problems
        self._taken: list[str] = []
        self._values: dict[str, Any] = values if isinstance(values, dict) else {}
        if not isinstance(values, dict):
            problems.append(Problem(where, shown(values), "a table"))

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def raw(self, key: str, default: object = None) -> Any:
        """Value of `key` as it stands, marked as known."""
        self._taken.append(key)
        return self._values.get(key, default)

    def inner(self, key: str) -> Table:
        """The table under `key`, an empty one where the key is absent."""
        return Table(f"{self._where} {key}:", self.raw(key, {}), self._problems)

    def required(self, key: str, check: Check[T], fallback: T) -> T:
        """Checked value of `key`; a missing key is a problem and gives `fallback`."""
        if key not in self._values:
            self._taken.append(key)
            self.problem(key, "nothing", "this key")
            return fallback
        return self.optional(key, check, fallback)

    def optional(self, key: str, check: Check[T], default: T) -> T:
        """Checked value of `key`, `default` where the key is absent or wrong."""
        value = self.raw(key, default)
        if key not in self._values:
            return default
        try:
            return check(value)
        except Bad as bad:
            self.problem(key, shown(value), bad.expected, bad.hint)
            return default

    def each(self, key: str, check: Check[T], identity: Callable[[T], object]) -> tuple[T, ...]:
        """Checked elements of a list that must not be empty and repeats nothing, wrong ones left out."""
        values = self.required(key, array, [None])
        if values == [None]:
            return ()
        if not values:
            self.problem(key, "an empty list", "at least one value")
        good: dict[object, T] = {}
        for position, value in enumerate(values):
            place = f"{key}[{position}]"
            try:
                item = check(value)
            except Bad as bad:
                self.problem(place, shown(value), bad.expected, bad.hint)
                continue
            if identity(item) in good:
                self.problem(place, f"{shown(value)} again", "each value once")
            good.setdefault(identity(item), item)
        return tuple(good.values())

    def problem(self, key: str, found: str, expected: str, hint: str = "") -> None:
        """Note a problem of `key`."""
        self._problems.append(Problem(f"{self._where} {key}", found, expected, hint))

    def close(self) -> None:
        """Report every key that nothing asked for."""
        for key in self._values:
            if key not in self._taken:
                hint = did_you_mean(key, self._taken)
                expected = "one of " + ", ".join(sorted(set(self._taken)))
                self._problems.append(Problem(self._where, f"unknown key {key!r}", expected, hint))


def array(value: Any) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise Bad("a list")
    return value


def whole(minimum: int, maximum: int | None = None) -> Check[int]:
    """A whole number within bounds."""
    text = (
        f"a whole number of at least {minimum}" if maximum is None else f"a whole number {minimum}..{maximum}"
    )

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Bad(text)
        if value < minimum or (maximum is not None and value > maximum):
            raise Bad(text)
        return value

    return check


def real(value: Any) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Bad("a finite number")
    return float(value)


def not_negative(value: Any) -> float:
    """A finite number, zero or above."""
    number = real(value)
    if number < 0:
        raise Bad("a number of at least 0")
    return number


def choice(options: Iterable[str]) -> Check[str]:
    """One of a few words."""
    words = tuple(options)

    def check(value: Any) -> str:
        if value in words and isinstance(value, str):
            return value
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        raise Bad("one of " + ", ".join(words), hint)

    return check


def interval(value: Any) -> tuple[float, float]:
    """A pair [low, high] with low ≤ high."""
    if not isinstance(value, list) or len(value) != 2:
        raise Bad("a pair [low, high]")
    low, high = real(value[0]), real(value[1])
    if low > high:
        raise Bad("a pair [low, high] with low ≤ high")
    return low, high
