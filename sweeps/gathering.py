"""Going on after a bad input, to say all that is wrong at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sweeps.errors import InputError, Problem


@contextmanager
def gathered(problems: list[Problem]) -> Iterator[None]:
    """Add the problems of an `InputError` raised inside to a list, and go on after the block.

    Parameters
    ----------
    problems : list of Problem
        Grows; the caller raises them once everything was looked at.
    """
    try:
        yield
    except InputError as error:
        problems += error.problems
