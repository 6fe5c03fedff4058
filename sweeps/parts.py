"""Parts of a sweep, for several heads: each is a sweep with some data sets and some mixtures.

A part has cells of the whole sweep, with the same names, and so the same seeds and the same bits. Its name
leads to its cube and run folder.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweep_clustering.sweeps.errors import InputError, Problem, refused
from sweep_clustering.sweeps.file.spec import Dataset, Mixtures, SweepSpec
from sweep_clustering.sweeps.plan import range_words

WRITTEN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
NAMED = re.compile(r"(.+)\.part-([1-9][0-9]{0,5})-of-([1-9][0-9]{0,5})")
# Longest name, as in `sweeps.plan.Name`.
LONGEST = 100


@dataclass(frozen=True)
class Part:
    """Part of a sweep, from the name of its cube."""

    sweep: str  # name of the whole sweep
    number: int  # from 1
    of: int  # number of parts

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def part_named(name: str) -> Part | None:
    """Return the part with a name, None for a whole sweep."""
    match = NAMED.fullmatch(name)
    part = None if match is None else Part(match[1], int(match[2]), int(match[3]))
    return part if part is not None and part.number <= part.of else None


def numbers_of(text: str) -> tuple[int, int]:
    """Return number and count of a text such as "1/4"; another form is an InputError."""
    match = WRITTEN.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        expected = "NUMBER/PARTS, such as 1/4, the first of four"
        raise refused("--part", repr(text), expected)
    return int(match[1]), int(match[2])


def part_of(spec: SweepSpec, text: str, made: Mapping[int, SweepSpec] | None = None) -> SweepSpec:
    """Return a part of a sweep, which keeps its data sets and mixtures when mixtures are added.

    A real data set and a mixture have the same number of cells. The real data sets are dealt to the parts in
    turn, and so are the mixtures of each entry.

    Parameters
    ----------
    spec : SweepSpec
        the whole sweep
    text : str
        the part, such as "1/4"
    made : mapping of int to SweepSpec, optional
        sweeps of the parts that have a cube, by their numbers

    Raises
    ------
    InputError
        If the text has another form, if a part would be empty, or if a cube has data that its part lacks.
    """
    (number, parts), where = numbers_of(text), "--part"
    # an earlier release may have made as many cubes as data sets and mixtures
    most = sum(map(_length, spec.grid.datasets)) if made else _most(spec)
    if parts > most:
        expected = f"at most {most:,} parts: a part is at least one data set or one mixture"
        raise refused(where, repr(text), expected)
    name = f"{spec.name}.part-{number}-of-{parts}"
    if len(name) > LONGEST:
        expected = f"at most {LONGEST} characters; give the sweep a shorter name"
        raise refused(where, f"a cube named {name}", expected)
    chosen, made = dealt(spec, number, parts), made or {}
    if problems := [*_changes(made, {at: dealt(spec, at, parts) for at in made}, is_growing=True)]:
        ranges = {at: dealt_in_ranges(spec, at, parts) for at in made}
        if any(_changes(made, ranges, is_growing=False)):
            raise InputError(problems)
        chosen = dealt_in_ranges(spec, number, parts)
    grid = spec.grid.model_copy(update={"datasets": tuple(chosen)})
    return spec.model_copy(update={"name": name, "grid": grid})


def _most(spec: SweepSpec) -> int:
    """Return the largest number of parts of which none is empty."""
    # the mixtures of each entry begin one part after those of the entry before
    mixed = [entry.count for entry in spec.grid.datasets if isinstance(entry, Mixtures)]
    n_real = len(spec.grid.datasets) - len(mixed)
    return max([n_real, *(n_real + at + count for at, count in enumerate(mixed))])


def dealt(spec: SweepSpec, number: int, parts: int) -> list[Dataset]:
    """Return the data sets of a part: each mixture has its part whatever the number of mixtures is."""
    n_real = sum(not isinstance(entry, Mixtures) for entry in spec.grid.datasets)
    chosen: list[Dataset] = []
    real, mixed = 0, n_real
    for entry in spec.grid.datasets:
        if isinstance(entry, Mixtures):
            draws = entry.draws[(number - 1 - mixed) % parts :: parts]
            mixed += 1
            if draws:
                place = {"first": draws[0], "count": len(draws), "step": entry.step * parts}
                chosen.append(entry.model_copy(update=place))
        else:
            if real % parts == number - 1:
                chosen.append(entry)
            real += 1
    return chosen


def dealt_in_ranges(spec: SweepSpec, number: int, parts: int) -> list[Dataset]:
    """Return the data sets of a part as earlier releases divided a sweep: mixtures could not grow."""
    lengths = [_length(entry) for entry in spec.grid.datasets]
    begin, end = ((at * sum(lengths)) // parts for at in (number - 1, number))
    chosen: list[Dataset] = []
    for entry, length in zip(spec.grid.datasets, lengths, strict=True):
        first, stop = max(begin, 0), min(end, length)
        if first < stop:
            if isinstance(entry, Mixtures):
                entry = entry.model_copy(update={"count": stop - first, "first": entry.first + first})
            chosen.append(entry)
        begin, end = begin - length, end - length
    return chosen


def _changes(
    made: Mapping[int, SweepSpec], now: Mapping[int, list[Dataset]], *, is_growing: bool
) -> Iterator[Problem]:
    """Yield the data that existing parts would lose, or gain without room for them."""
    for number, stored in made.items():
        entries = {entry.name: entry for entry in now[number]}
        for entry in stored.grid.datasets:
            new_entry = entries.get(entry.name)
            if isinstance(entry, Mixtures) and isinstance(new_entry, Mixtures):
                is_kept = new_entry.draws[: entry.count] == entry.draws
                # a range would grow over the next one
                is_kept = is_kept and (is_growing or new_entry.count == entry.count)
            else:
                is_kept = new_entry is not None
            if not is_kept:
                old, new = (_words(row) for row in (entry, new_entry))
                hint = "use another name; parts of an earlier release are ranges, which cannot grow"
                yield Problem(f"{stored.name}: data set {entry.name}", new, f"{old}, as in its cube", hint)


def _words(entry: Dataset | None) -> str:
    """Return the data that a part has of a data set in words."""
    if entry is None:
        return "nothing"
    return f"mixtures {range_words(entry.draws)}" if isinstance(entry, Mixtures) else "all of it"


def _length(entry: Dataset) -> int:
    return entry.count if isinstance(entry, Mixtures) else 1
