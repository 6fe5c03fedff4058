"""Restarts side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from sklearn.utils.parallel import Parallel, delayed

from kernels.interrupt import new_flag, sharing

Result = TypeVar("Result")


def runner(n_jobs: int | None) -> Callable[[Callable[[int], Result], Iterable[int]], Iterable[Result]]:
    """What `map` does, so many calls at a time.

    Threads, as the search holds no lock and shares the table with no copy.

    Parameters
    ----------
    n_jobs : int or None
        As of `joblib.Parallel`.
    """

    def run(function: Callable[[int], Result], numbers: Iterable[int]) -> Iterable[Result]:
        flag = new_flag()  # that of the thread that waits for all of them

        def one(number: int) -> Result:
            with sharing(flag):
                return function(number)

        found: Iterable[Result] = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(one)(number) for number in numbers
        )
        return found

    return run
