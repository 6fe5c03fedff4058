"""Numbers of clusters as they are written: 5, 2..8, or 2,3,5."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.fit.inputs import place_problems
from sweeps.data.table import MAX_CLASSES
from sweeps.errors import Problem

OPTION = "-k"
SUFFIXES = (".svg", ".png", ".pdf")
EXPECTED = "a number, a range as 2..8, or a list as 2,3,5"


def read_counts(text: str) -> tuple[tuple[int, ...], list[Problem]]:
    """Numbers of clusters of a text, ascending.

    A single number is not judged here, as it is with the other options of a fit.

    Parameters
    ----------
    text : str
        A number, a range of which both ends belong to it, or numbers and ranges with commas.

    Returns
    -------
    counts : tuple of int
        Each once; (1,) if something is wrong.
    problems : list of Problem
        Everything that is.
    """
    found: list[int] = []
    problems: list[Problem] = []
    parts = text.split(",")
    for part in parts:
        ends = [_whole(end) for end in part.split("..")]
        if len(ends) > 2 or None in ends:
            problems.append(Problem(OPTION, repr(part if part.strip() else text), EXPECTED))
            continue
        low, high = ends[0] or 0, ends[-1] or 0
        if len(parts) == len(ends) == 1:
            return (low,), []
        if low > high:
            problems.append(Problem(OPTION, part.strip(), "the smaller number first"))
        problems += [
            Problem(OPTION, str(end), f"1 or more, and less than {MAX_CLASSES}")
            for end in dict.fromkeys((low, high))
            if not 1 <= end < MAX_CLASSES
        ]
        if 1 <= low <= high < MAX_CLASSES:
            found += range(low, high + 1)
    repeated = [count for count, times in sorted(Counter(found).items()) if times > 1]
    if repeated:
        problems.append(
            Problem(OPTION, f"{', '.join(map(str, repeated))} more than once", "each number once")
        )
    return ((1,), problems) if problems else (tuple(sorted(found)), [])


def option_problems(
    counts: Sequence[int], *, figure: Path | None, out: Path | None, overwrite: bool
) -> Iterator[Problem]:
    """What is wrong with `--figure` and `--force`.

    Parameters
    ----------
    counts : sequence of int
        Numbers of clusters; empty if they are wrong.
    figure, out : Path or None
        Files to write.
    overwrite : bool
        Whether they may be there.
    """
    yield from place_problems("--figure", figure, overwrite)
    if figure is not None and figure.suffix.lower() not in SUFFIXES:
        yield Problem("--figure", str(figure), f"a name that ends in {', '.join(SUFFIXES)}")
    if figure is not None and len(counts) == 1:
        yield Problem("--figure", f"-k {counts[0]}, one number", "several to compare, as -k 2..8")
    if figure is not None and out is not None and figure.absolute() == out.absolute():
        yield Problem("--figure", f"{figure}, as --out", "a file of its own")
    if overwrite and figure is None and out is None:
        yield Problem("--force", "no --out and no --figure", "a file to overwrite")


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
