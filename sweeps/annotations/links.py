"""Link files: must-links or cannot-links as `i j weight` lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS
from sweeps.annotations.samples import Samples
from sweeps.data.lines import PROBLEMS_SHOWN, Line, Lines, read_lines, shortened, split_cells, to_number
from sweeps.errors import InputError, Problem, collecting

# The adjacency of a self pair counts both ends (docs/model.md, eq. (3)), and so do link files.
SELF_PAIR_WEIGHT = 2.0
LINKS = "links"
"""Annotator of all link files: they name none."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A line of a link file or of an annotation file.

    Parameters
    ----------
    file : Path
        Where it was read.
    line : int
        Number of the line, from 1.
    first, second : int
        The two samples, from 0.
    kind : int
        `sweeps.annotations.draw.MUST` or `CANNOT`.
    count : float
        Number of annotations it represents.
    annotator : str
        Who made it.
    accuracy : float or None
        Probability that this one is right, if the line says so.
    """

    file: Path
    line: int
    first: int
    second: int
    kind: int
    count: float
    annotator: str = LINKS
    accuracy: float | None = None

    @property
    def is_self_pair(self) -> bool:
        """Whether it pairs a sample with itself."""
        return self.first == self.second

    @property
    def weight(self) -> float:
        """Weight as the file has it: a self pair carries 2 per annotation."""
        return self.count * _unit(self.is_self_pair)


def read_links(path: Path, samples: Samples | int, kind: int) -> list[Annotation]:
    """Read a link file.

    A line holds two sample numbers from 1, or names of samples, and a weight, separated by blanks, commas or
    tabs. Without a weight the line is one annotation. A self pair carries weight 2 per annotation. `#` begins
    a comment. Lines of the same pair, in either order, add up when they are laid out for the kernels. An
    empty file is an empty annotation graph.

    Parameters
    ----------
    path : Path
        The file.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are.
    kind : int
        `sweeps.annotations.draw.MUST` or `CANNOT`, what the file holds.

    Returns
    -------
    list of Annotation
        In the order of the lines.

    Raises
    ------
    InputError
        With every line that is not a link.
    """
    named = Samples.of(samples)
    return each_line(read_lines(path), lambda line: _link(line, path, named, kind))


def each_line(lines: Lines, parse: Callable[[Line], Annotation]) -> list[Annotation]:
    """Annotations of all lines of a file.

    Parameters
    ----------
    lines : Lines
        Of the file.
    parse : callable
        From a line to its annotation; raises InputError for an invalid line.

    Raises
    ------
    InputError
        With the problems of every line.
    """
    annotations: list[Annotation] = []
    problems: list[Problem] = []
    for line in lines:
        found: list[Problem] = []
        with collecting(found):
            annotations.append(parse(line))
        # Of those beyond the first only how many there are matters, and a file may have millions.
        problems += found if len(problems) < PROBLEMS_SHOWN else problems[-1:] * len(found)
    if problems:
        raise InputError(shortened(lines.path, problems))
    return annotations


def _link(line: Line, path: Path, samples: Samples, kind: int) -> Annotation:
    text = without_comment(line)
    cells = split_cells(text)
    if len(cells) not in (2, 3) or not all(map(samples.may_be, cells[:2])):
        raise InputError([Problem(line.where, repr(text[:60]), "two sample numbers and a weight")])
    pair = sample_pair(cells[0], cells[1], samples, line.where)
    count = annotation_count(cells[2], pair, line.where) if len(cells) == 3 else 1.0
    return Annotation(path, line.number, *pair, kind, count)


def without_comment(line: Line) -> str:
    """Text of a line up to its comment."""
    return line.text.partition("#")[0].strip()


def sample_pair(first: str, second: str, samples: Samples, where: str) -> tuple[int, int]:
    """Two samples from 0, of cells that count from 1 or name them.

    Raises
    ------
    InputError
        For the first that is not a sample.
    """
    return samples.position(first, where), samples.position(second, where)


def annotation_count(cell: str, pair: tuple[int, int], where: str) -> float:
    """Number of annotations that a weight represents.

    Raises
    ------
    InputError
        If the weight is not one of `WEIGHTS`, or does not fit a self pair.
    """
    weight = to_number(cell)
    if weight is None or not LEAST_WEIGHT <= weight <= LARGEST_WEIGHT:
        raise InputError([Problem(where, f"weight {cell}", WEIGHTS)])
    is_self_pair = pair[0] == pair[1]
    if is_self_pair and weight % 2 == 1:
        found = f"weight {weight:g} for the self pair of sample {pair[0] + 1}"
        hint = "a self pair carries weight 2 per annotation"
        raise InputError([Problem(where, found, "an even weight", hint)])
    return weight / _unit(is_self_pair)


def _unit(is_self_pair: bool) -> float:
    return SELF_PAIR_WEIGHT if is_self_pair else 1.0
