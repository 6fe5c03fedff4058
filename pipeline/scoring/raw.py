"""Raw scores of the cells of a sweep in one CSV, with all that another needs to compute them again.

`raw_text` makes such a file of a cube, `read_raw` reads one that may come from anywhere, and
`differences` compares its sweep with another one. `scored_tree` is a cube in which data that are left out
have the scores of such a file, and `scored_cells` is the table of its cells. The file begins with the head:
lines of `#`, a key and a JSON value. Then come a line of columns and one for each cell: coordinates, status,
and scores with all digits.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field, create_model
from pydantic_core import core_schema

from sweep_clustering.pipeline.common import Progress, plural, silent
from sweep_clustering.pipeline.scoring.scores import CATALOGUE
from sweep_clustering.pipeline.scoring.tables import cell_table
from sweep_clustering.storage import files
from sweep_clustering.storage.archive import Archive, is_zip
from sweep_clustering.storage.cube.schema import DONE, STATUS_WORDS
from sweep_clustering.storage.files import Place
from sweep_clustering.sweeps.data.lines import MOST_BYTES, Lines, plain_text, read_text, read_typed, shortened
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, key_changes, raise_all, short_text
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.plan import AXES, Cell, DatasetPlan
from sweep_clustering.sweeps.records import Choice, Expected, NoNull, Real, Record, Text, Whole, read

if TYPE_CHECKING:
    from sweep_clustering.storage.cube.manifest import Manifest

logger = logging.getLogger(__name__)

# Version of the file format, and the name of such a file.
FORMAT = 1
SCORES = "scores.csv"

# End of the name of such a file beside a cube that lacks data.
SCORES_SUFFIX = ".scores.csv"

# Scores that follow from the arrays of a cell alone.
RAW = tuple(name for name, score in CATALOGUE.items() if score.function is not None)
COLUMNS = ("dataset", *AXES, "status", *RAW)
# Scores that no cell has without its data.
OF_DATA = tuple(name for name in RAW if "labels_true" in CATALOGUE[name].arrays)

Number = Annotated[int, Whole(0)]
Word = Annotated[str, Text(min_length=1, max_length=200)]


class Head(Record):
    """Values of the lines before the columns, one line for each key.

    `settings` are those that results depend on besides coordinates, `methods` describes each method and
    `data` each data set, and `made_with` has the software and processors that computed cells:
    fingerprints, and versions of packages with methods.
    """

    format: Annotated[int, Whole(FORMAT, FORMAT)] = Field(description="version of the format")
    sweep: Word
    settings: dict[str, Any]
    methods: dict[str, dict[str, Any]]
    data: dict[str, Word]
    made_with: list[dict[str, Word]]


class Row(Record):
    """Cell of a line, without its scores."""

    dataset: Word
    mixture: Annotated[Number | None, NoNull()] = None
    p: Annotated[Annotated[float, Real("an accuracy in (0, 1]", gt=0, le=1)] | None, NoNull()] = None
    m: Annotated[Number | None, NoNull()] = None
    design: Annotated[Word | None, NoNull()] = None
    replicate: Annotated[Number | None, NoNull()] = None
    search: Annotated[Word | None, NoNull()] = None
    model: Word
    status: Annotated[str, Choice(tuple(STATUS_WORDS.values()))]


Score = Annotated[float, Expected("a number, or nothing", schema=core_schema.float_schema(strict=True))]
ScoredRow = create_model("ScoredRow", __base__=Row, **dict.fromkeys(RAW, (Score, np.nan)))  # type: ignore[call-overload]


@dataclass(frozen=True)
class RawCell:
    """Line of the file: its place, its cell, the status in words, and scores, NaN where missing."""

    location: str
    cell: Cell
    status: str
    scores: Mapping[str, float]


@dataclass(frozen=True)
class RawScores:
    """Content of a file of raw scores."""

    path: Path
    head: Head
    cells: tuple[RawCell, ...]


def head_of(spec: SweepSpec, plans: Mapping[str, DatasetPlan]) -> dict[str, dict[str, Any]]:
    """Return what results depend on besides the coordinates of their cells: plain JSON values, by key."""
    settings = spec.dump()
    restarts = settings.pop("grid")["restarts"]
    settings = {key: value for key, value in settings.items() if key not in ("name", "data")}
    methods = {method.name: dict(method.science) for method in spec.grid.methods}
    for method in spec.grid.methods:
        # The version of a package stands in `made_with`: another version may well give the same scores.
        if not method.path:
            del methods[method.name]["code"]
    data = {plan.name: ", ".join(_data(plan)) for plan in plans.values()}
    head = {"settings": settings | {"restarts": restarts}, "methods": methods, "data": data}
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(head))
    return plain


def _data(plan: DatasetPlan) -> Iterator[str]:
    yield plan.checksum
    yield f"scale {plan.scale}"
    yield f"{plan.n_clusters} clusters"
    if plan.annotations_checksum:
        yield f"annotations {plan.annotations_checksum}"


def software(spec: SweepSpec) -> dict[str, str]:
    """Return the versions of the packages of methods, by method."""
    return {
        f"method {method.name}": method.code
        for method in spec.grid.methods
        if method.code and not method.path
    }


def scored_cells(
    tree: xr.DataTree, plans: Mapping[str, DatasetPlan], places: Iterable[Place], progress: Progress = silent
) -> pd.DataFrame:
    """Return the `cell_table` of an opened cube, with scores stored at `places` for left-out data."""
    return cell_table(scored_tree(tree, plans, places), plans, progress)


def scored_tree(tree: xr.DataTree, plans: Mapping[str, DatasetPlan], places: Iterable[Place]) -> xr.DataTree:
    """Return an opened cube in which data that are left out have the scores that are stored at `places`.

    A note says which cells have none.
    """
    plans_without_data, places = [plan for plan in plans.values() if plan.left_out], list(places)
    if not plans_without_data:
        return tree
    lines = dict[Cell, Mapping[str, float]]()
    for table in filter(None, map(stored_scores, places)):
        lines |= {line.cell: line.scores for line in table.cells if line.status == STATUS_WORDS[DONE]}
    nodes, values, n_unscored = tree.to_dict(), dict[str, dict[str, NDArray[np.float64]]](), Counter[str]()
    for block in (block for plan in plans_without_data for block in plan.blocks()):
        path, has_labels = f"/{block.node.path}", plans[block.dataset].has_labels
        status = nodes[path]["status"].load()
        arrays = values.setdefault(path, {name: np.full(status.shape, np.nan) for name in RAW})
        for cell in block.cells():
            index = tuple(status.indexes[dim].get_loc(getattr(cell, str(dim))) for dim in status.dims)
            for name, value in lines.get(cell, {}).items():
                arrays[name][index] = value
            lacks_all = all(np.isnan(arrays[name][index]) for name in OF_DATA)
            n_unscored[block.dataset] += has_labels and status.values[index] == DONE and lacks_all
    for path, arrays in values.items():
        dims = nodes[path]["status"].dims
        variables = {name: (dims, array) for name, array in arrays.items() if not np.isnan(array).all()}
        nodes[path] = nodes[path].assign(variables)
    if n_unscored.total():
        names = ", ".join(name for name, count in n_unscored.items() if count)
        names_of_files = ", ".join(str(place if is_zip(place) else _scores_path(place)) for place in places)
        text = "%s of %s: no scores that need data, which are left out, and none are stored in %s;"
        text += " sweep merge takes the data in if they are on this machine"
        logger.warning(text, plural(n_unscored.total(), "cell"), names, names_of_files)
    return xr.DataTree.from_dict(nodes)


def stored_scores(place: Place) -> RawScores | None:
    """Return the scores in a bundle, or in the file beside a cube, if there are any."""
    if is_zip(place) and SCORES in (archive := Archive(place)).sizes:
        return read_raw(Path(place, SCORES), archive.read(SCORES))
    path = _scores_path(place)
    if isinstance(path, Path):
        return read_raw(path) if path.exists() else None
    with suppress(OSError):  # who may not list a bucket is not told that a file is missing
        return read_raw(Path(path), files.read(path, MOST_BYTES))
    return None


def _scores_path(place: Place) -> Place:
    """Return the place of the scores of a cube that lacks data."""
    path = Path(place).with_suffix(SCORES_SUFFIX)
    return path if isinstance(place, Path) else f"{place.rpartition('/')[0]}/{path.name}"


def raw_text(cells: pd.DataFrame, cube: "Manifest") -> str:
    """Return the text of a file of the raw scores of a cube, from its `scored_cells`."""
    runs = [dict(fingerprint) | software(cube.spec) for fingerprint in cube.made_with]
    distinct = [run for place, run in enumerate(runs) if run not in runs[:place]]
    head: dict[str, object] = {"format": FORMAT, "sweep": cube.spec.name}
    head |= head_of(cube.spec, cube.plans) | {"made_with": distinct}
    lines = (f"# {key}: {json.dumps(value)}\n" for key, value in head.items())
    return "".join(lines) + str(cells.to_csv(columns=COLUMNS, index=False, lineterminator="\n"))


def read_raw(path: Path, content: bytes | None = None) -> RawScores:
    """Read a file of raw scores, whose content may be known already.

    One `InputError` has all problems of its head and its lines.
    """
    content = read_text(path, MOST_BYTES) if content is None else plain_text(path, content)
    problems, head = list[Problem](), None
    with collecting(problems):
        head = read(Head, _head(path, content), f"{path}, head:")
    with collecting(problems):
        rows = read_typed(path, Lines(path, content), ScoredRow, _cell, "cell", ",")
    if problems or head is None:
        raise InputError(shortened(path, problems))
    cells = (
        RawCell(row.location, _cell(row.record), row.record.status, row.record.model_dump(include={*RAW}))
        for row in rows
    )
    return RawScores(path, head, tuple(cells))


def _head(path: Path, content: bytes) -> dict[str, Any]:
    """Return the values of the lines that begin the file, by key."""
    values, problems = dict[str, Any](), list[Problem]()
    for number, line in enumerate(content.decode().splitlines(), start=1):
        if not line.startswith("#"):
            break
        key, _, text = line.removeprefix("#").partition(":")
        try:
            values[key.strip()] = json.loads(text)
        except (ValueError, RecursionError):
            problems.append(Problem(f"{path}, line {number}", short_text(line), "# key: JSON value"))
    raise_all(problems)
    return values


def _cell(row: Row) -> Cell:
    return Cell(**row.model_dump(exclude={"status", *RAW}))


def differences(
    scores: RawScores, spec: SweepSpec, plans: Mapping[str, DatasetPlan], origin: str
) -> list[Problem]:
    """Return the differences between the sweep of a file of raw scores and another sweep, which is of the
    file `origin`.

    Data sets that only one side has are not compared.
    """
    expected = head_of(spec, plans)
    values = {part: dict(getattr(scores.head, part)) for part in expected}
    for side, other_side in ((values, expected), (expected, values)):
        side["data"] = {name: text for name, text in side["data"].items() if name in other_side["data"]}
    return list(key_changes(f"{scores.path}, head: ", values, expected, origin))
