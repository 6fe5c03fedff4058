"""Parts of a sweep, for several heads: each is a sweep of its own, of some data sets or a range of mixtures.

A part has the cells of the whole, by the same names, and so the same seeds and the same bits; its own name
gives it a cube and a run folder of its own.
"""

import re
from dataclasses import dataclass

from sweeps.errors import InputError, Problem
from sweeps.file.spec import Dataset, Mixtures, SweepSpec

WRITTEN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
NAMED = re.compile(r"(.+)\.part-([1-9][0-9]{0,5})-of-([1-9][0-9]{0,5})")
# Of a name, as `sweeps.plan.Name` has it.
LONGEST = 100


@dataclass(frozen=True)
class Part:
    """Which part of a sweep, from the name of its cube.

    Parameters
    ----------
    sweep : str
        Name of the whole.
    number, of : int
        Which one, from 1, and of how many.
    """

    sweep: str
    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def part_named(name: str) -> Part | None:
    """The part that the name of a sweep says it is; None of a whole one."""
    match = NAMED.fullmatch(name)
    part = None if match is None else Part(match[1], int(match[2]), int(match[3]))
    return part if part is not None and part.number <= part.of else None


def numbers_of(text: str) -> tuple[int, int]:
    """Which part a text such as "1/4" names, and of how many.

    Raises
    ------
    InputError
        If it is not written so.
    """
    match = WRITTEN.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        expected = "NUMBER/PARTS, such as 1/4, the first of four"
        raise InputError([Problem("--part", repr(text), expected)])
    return int(match[1]), int(match[2])


def part_of(spec: SweepSpec, text: str) -> SweepSpec:
    """A part of a sweep.

    A real data set and a mixture have the same number of cells. In the order of the file they are divided
    into ranges that are as long as each other, or one longer.

    Parameters
    ----------
    spec : SweepSpec
        The whole.
    text : str
        Which part, such as "1/4".

    Raises
    ------
    InputError
        If it is not written so, or there are fewer data sets and mixtures than parts.
    """
    (number, parts), where = numbers_of(text), "--part"
    lengths = [_length(entry) for entry in spec.grid.datasets]
    if parts > sum(lengths):
        expected = f"at most {sum(lengths):,} parts: a part is at least one data set or one mixture"
        raise InputError([Problem(where, repr(text), expected)])
    name = f"{spec.name}.part-{number}-of-{parts}"
    if len(name) > LONGEST:
        expected = f"at most {LONGEST} characters; give the sweep a shorter name"
        raise InputError([Problem(where, f"a cube named {name}", expected)])
    begin, end = ((at * sum(lengths)) // parts for at in (number - 1, number))
    chosen: list[Dataset] = []
    for entry, length in zip(spec.grid.datasets, lengths, strict=True):
        first, stop = max(begin, 0), min(end, length)
        if first < stop:
            if isinstance(entry, Mixtures):
                entry = entry.model_copy(update={"count": stop - first, "first": entry.first + first})
            chosen.append(entry)
        begin, end = begin - length, end - length
    grid = spec.grid.model_copy(update={"datasets": tuple(chosen)})
    return spec.model_copy(update={"name": name, "grid": grid})


def _length(entry: Dataset) -> int:
    return entry.count if isinstance(entry, Mixtures) else 1
