"""Raw scores of the cells of a sweep in one CSV, with all that another needs to compute them again.

`raw_text` makes such a file of a cube, `read_raw` reads one that may come from anywhere, and `differences`
says what it was made of that another sweep is not. It begins with lines of `#`, a key and a JSON value, the
head. Then come a line of columns and one for each cell: coordinates, status, and scores with all digits.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import xarray as xr
from pydantic import Field

from sweep_clustering.pipeline.scoring.scores import CATALOGUE
from sweep_clustering.pipeline.scoring.tables import cell_table
from sweep_clustering.storage.cube.schema import STATUS_WORDS
from sweep_clustering.sweeps.data.lines import (
    MOST_BYTES,
    Line,
    Lines,
    read_text,
    shortened,
    split_cells,
    to_number,
)
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, plural, shown
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.plan import AXES, Cell, DatasetPlan
from sweep_clustering.sweeps.records import Choice, Given, Real, Record, Text, Whole, read

FORMAT = 1

# Scores that follow from the arrays of a cell alone.
RAW = tuple(name for name, score in CATALOGUE.items() if score.function is not None)
COLUMNS = ("dataset", *AXES, "status", *RAW)

Number = Annotated[int, Whole(0)]
Word = Annotated[str, Text(min_length=1, max_length=200)]


class Head(Record):
    """What the lines before the columns say, one for each key.

    `settings` are those that results depend on besides coordinates, `methods` says what each of them is,
    `data` the same of data sets, and `made_with` has the software and processors that computed cells:
    fingerprints, and versions of packages with methods.
    """

    format: Annotated[int, Whole(FORMAT, FORMAT)] = Field(description="Of the file.")
    sweep: Word
    settings: dict[str, Any]
    methods: dict[str, dict[str, Any]]
    data: dict[str, Word]
    made_with: list[dict[str, Word]]


class Row(Record):
    """A cell, without its scores."""

    dataset: Word
    mixture: Annotated[Number | None, Given()] = None
    p: Annotated[Annotated[float, Real("an accuracy in (0, 1]", gt=0, le=1)] | None, Given()] = None
    m: Annotated[Number | None, Given()] = None
    design: Annotated[Word | None, Given()] = None
    replicate: Annotated[Number | None, Given()] = None
    search: Annotated[Word | None, Given()] = None
    model: Word
    status: Annotated[str, Choice(tuple(STATUS_WORDS.values()))]


@dataclass(frozen=True)
class RawCell:
    """A line of the file: where it is, its cell, status in words, and scores, NaN where missing."""

    where: str
    cell: Cell
    status: str
    scores: Mapping[str, float]


@dataclass(frozen=True)
class RawScores:
    """A file of raw scores that was read."""

    path: Path
    head: Head
    cells: tuple[RawCell, ...]


def head_of(spec: SweepSpec, plans: Mapping[str, DatasetPlan]) -> dict[str, dict[str, Any]]:
    """What results of a sweep depend on besides the coordinates of their cells: plain JSON values, by key."""
    told = spec.dump()
    grid = told.pop("grid")
    settings = {key: told[key] for key in told if key not in ("name", "data")} | {
        "restarts": grid["restarts"]
    }
    methods = {each.name: dict(each.science) for each in spec.grid.methods}
    for each in spec.grid.methods:
        if not each.path:  # a version, which stands in `made_with`: another one may well give the same scores
            del methods[each.name]["code"]
    data = {plan.name: ", ".join(_data(plan)) for plan in plans.values()}
    plain: dict[str, dict[str, Any]] = json.loads(
        json.dumps({"settings": settings, "methods": methods, "data": data})
    )
    return plain


def _data(plan: DatasetPlan) -> Iterator[str]:
    yield plan.checksum
    yield f"scale {plan.scale}"
    yield f"{plan.n_clusters} clusters"
    if plan.annotations_checksum:
        yield f"annotations {plan.annotations_checksum}"


def software(spec: SweepSpec) -> dict[str, str]:
    """Versions of the packages of methods, by method."""
    return {f"method {each.name}": each.code for each in spec.grid.methods if each.code and not each.path}


def raw_text(
    tree: xr.DataTree,
    spec: SweepSpec,
    plans: Mapping[str, DatasetPlan],
    fingerprints: Iterable[Mapping[str, str]],
) -> str:
    """Text of a file of the raw scores of a cube.

    Parameters
    ----------
    tree : xarray.DataTree
        The opened cube.
    spec : SweepSpec
        Its sweep.
    plans : mapping of str to DatasetPlan
        Grid of each data set.
    fingerprints : iterable of mapping
        Of its runs.
    """
    made = [dict(each) | software(spec) for each in fingerprints]
    head = {"format": FORMAT, "sweep": spec.name, **head_of(spec, plans)}
    head["made_with"] = [each for place, each in enumerate(made) if each not in made[:place]]
    cells = cell_table(tree, plans)[list(COLUMNS)]
    lines = (f"# {key}: {json.dumps(value)}\n" for key, value in head.items())
    return "".join(lines) + str(cells.to_csv(index=False, lineterminator="\n"))


def read_raw(path: Path) -> RawScores:
    """Read a file of raw scores.

    Raises
    ------
    InputError
        With everything that is wrong with its head and its lines.
    """
    content = read_text(path, MOST_BYTES)
    problems, head, cells = list[Problem](), None, list[RawCell]()
    with collecting(problems):
        head = read(Head, _head(path, content), f"{path}, head:")
    lines = list(Lines(path, content))
    names = split_cells(lines[0].text, ",") if lines else []
    for name in COLUMNS:
        if (n := names.count(name)) != 1:
            where = lines[0].where if lines else str(path)
            hint = did_you_mean(name, names)
            problems.append(Problem(where, f"{plural(n, 'column')} {name!r}", f"one column {name!r}", hint))
    if len(lines) == 1:
        problems.append(Problem(str(path), "no cells", "a line for each cell"))
    seen = dict[Cell, str]()
    for line in lines[1:] if set(COLUMNS) <= set(names) else []:
        with collecting(problems):
            found = _cell(line, names)
            if found.cell in seen:
                raise InputError(
                    [Problem(line.where, f"the cell of {seen[found.cell]} again", "each cell once")]
                )
            seen[found.cell] = line.where
            cells.append(found)
    if problems or head is None:
        raise InputError(shortened(path, problems))
    return RawScores(path, head, tuple(cells))


def _head(path: Path, content: bytes) -> dict[str, Any]:
    """Values of the lines that begin the file, by key."""
    found, problems = dict[str, Any](), list[Problem]()
    for number, line in enumerate(content.decode().splitlines(), start=1):
        if not line.startswith("#"):
            break
        key, _, text = line.removeprefix("#").partition(":")
        try:
            found[key.strip()] = json.loads(text)
        except (ValueError, RecursionError):
            problems.append(Problem(f"{path}, line {number}", shown(line), "# key: JSON value"))
    if problems:
        raise InputError(problems)
    return found


def _cell(line: Line, names: list[str]) -> RawCell:
    cells = split_cells(line.text, ",")
    if len(cells) != len(names):
        raise InputError(
            [Problem(line.where, plural(len(cells), "cell"), f"{len(names)}, one for each column")]
        )
    texts, problems, scores = dict(zip(names, cells, strict=True)), list[Problem](), dict[str, float]()
    with collecting(problems):
        numbers = ("mixture", "p", "m", "replicate")
        values = {name: texts[name] for name in Row.model_fields if texts[name]}
        row = read(
            Row,
            {name: _number(text, name) if name in numbers else text for name, text in values.items()},
            f"{line.where},",
        )
    for name in RAW:
        value = to_number(texts[name]) if texts[name] else np.nan
        if value is None:
            problems.append(Problem(f"{line.where}, {name}", shown(texts[name]), "a number, or nothing"))
        else:
            scores[name] = value
    if problems:
        raise InputError(problems)
    return RawCell(line.where, Cell(**row.model_dump(exclude={"status"})), row.status, scores)


def _number(text: str, name: str) -> float | int | str:
    """A number, whole where the coordinate is; a text that is none as it is."""
    value = to_number(text)
    if value is None or name == "p":
        return text if value is None else value
    return int(value) if value.is_integer() else value


def differences(
    scores: RawScores, spec: SweepSpec, plans: Mapping[str, DatasetPlan], where: str
) -> list[Problem]:
    """What a file of raw scores was made of, and another sweep is not.

    Parameters
    ----------
    scores : RawScores
        The file.
    spec : SweepSpec
        The other sweep.
    plans : mapping of str to DatasetPlan
        Of its data sets. Those that the file, or the sweep, lacks are not compared.
    where : str
        The file of the other sweep, for messages.
    """
    problems = list[Problem]()
    for part, ours in head_of(spec, plans).items():
        theirs = getattr(scores.head, part)
        if part == "methods":  # of one that both have, each key by itself
            both = ours.keys() & theirs.keys()
            ours, theirs = (dict(_flat(each, both)) for each in (ours, theirs))
        every = ours.keys() & theirs.keys() if part == "data" else ours.keys() | theirs.keys()
        for key in sorted(every):
            mine, its = (shown(each[key]) if key in each else "nothing" for each in (ours, theirs))
            if theirs.get(key) != ours.get(key):
                problems.append(Problem(f"{scores.path}, head: {part} {key}", its, f"{mine}, as of {where}"))
    return problems


def _flat(methods: Mapping[str, Any], open_up: Container[str]) -> Iterator[tuple[str, Any]]:
    for name, keys in methods.items():
        yield from (
            ((f"{name} {key}", value) for key, value in keys.items()) if name in open_up else [(name, keys)]
        )
