"""Records of verifications: who computed which cells of a file again, where, and with which answers.

`write_record` makes one of the outcome of `sweep verify`, and `read_records` reads those of some files. A
record has the hash of its file, and a record of another file is refused, and so is one with other cells than
the file draws. Nobody vouches for the name and the answers in it: whoever doubts them verifies the file.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from sweep_clustering.pipeline.check import (
    ANSWERS,
    CELLS,
    PATHS,
    CellCheck,
    Drawable,
    Verification,
    statement,
)
from sweep_clustering.storage.files import storage_errors, write_new
from sweep_clustering.sweeps.errors import Problem, collecting, raise_all, refused
from sweep_clustering.sweeps.files import read_file
from sweep_clustering.sweeps.records import Choice, Listed, Record, Text, Whole, read

FORMAT = "sweep verification"
FORMAT_VERSION = 1

# Largest file of a record, in bytes.
LONGEST = 2**26

Line = Annotated[str, Text("a line of at most 1,000 characters", max_length=1_000, pattern=r"^[^\n\r]*$")]
Count = Annotated[int, Whole(0)]


class Answer(Record):
    """A cell, or a path of questions, that was computed again."""

    cell: Line
    answer: Annotated[str, Choice(ANSWERS)]
    differs: Annotated[tuple[Line, ...], Listed()] = ()
    cause: Line = ""


class VerificationRecord(Record):
    """A verification of a file, as a board shows it."""

    format: Annotated[str, Choice((FORMAT,))]
    format_version: Annotated[int, Whole(FORMAT_VERSION, FORMAT_VERSION)]
    file: Line  # name of the file when it was verified
    sha256: Annotated[str, Text("64 digits of a hash", pattern="^[0-9a-f]{64}$")]
    by: Line
    at: Line  # time, UTC
    seed: Count | None  # None if the file alone decided which cells were drawn
    n_cells: Count  # those that could have been drawn
    cells: Annotated[tuple[Answer, ...], Listed()] = Field(min_length=1)
    n_paths: Count = 0
    paths: Annotated[tuple[Answer, ...], Listed()] = ()
    left_out: Count = 0  # cells of methods whose code was not run
    made_with: dict[str, Line]  # software and class of the machine

    @property
    def statements(self) -> list[str]:
        """Conclusions about the cells, and about the paths of questions, in words."""
        pairs = (self.cells, self.n_cells, CELLS), (self.paths, self.n_paths, PATHS)
        return [
            statement([answer.answer for answer in answers], n_all, nouns)
            for answers, n_all, nouns in pairs
            if answers
        ]


def write_record(path: Path, verification: Verification, by: str) -> None:
    """Write the outcome of a verification, and the name of who made it."""
    record = VerificationRecord(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        file=Path(verification.cube).name,
        sha256=verification.digest,
        by=by,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=verification.seed,
        n_cells=verification.n_cells,
        cells=tuple(map(_answer, verification.checks)),
        n_paths=verification.n_paths,
        paths=tuple(map(_answer, verification.paths)),
        left_out=verification.left_out,
        made_with=verification.here,
    )
    with storage_errors(path):
        write_new(path, (record.model_dump_json(indent=1) + "\n").encode())


def _answer(check: CellCheck) -> Answer:
    return Answer(cell=check.cell, answer=check.answer, differs=check.differs, cause=check.cause[:1_000])


def read_records(paths: Iterable[Path], files: Iterable[Path]) -> dict[Path, list[VerificationRecord]]:
    """Read records of cubes and bundles, by the file that each is of.

    Raises
    ------
    InputError
        With the problems of all records: those that are none, those of no such file, and those with other
        cells than the file draws.
    """
    paths, problems = list(paths), list[Problem]()
    files = list(files) if paths else []
    drawable = {(every := Drawable.of(file, True)).digest: (file, every) for file in files}
    records: dict[Path, list[VerificationRecord]] = {file: [] for file in files}
    for path in paths:
        with collecting(problems):
            record = _read(path)
            if record.sha256 not in drawable:
                expected = f"the hash of one of {', '.join(map(str, files))}"
                hint = "a file that has changed since has another hash"
                raise refused(f"{path}: sha256", record.sha256, expected, hint)
            file, cells = drawable[record.sha256]
            if record.left_out:
                cells = Drawable.of(file, False)
            expected_cells = [str(cell) for cell in cells.draw(len(record.cells), record.seed)]
            if (len(cells.cells), expected_cells) != (
                record.n_cells,
                [answer.cell for answer in record.cells],
            ):
                description = f"{len(record.cells)} of {record.n_cells} cells"
                raise refused(f"{path}: cells", description, "those that the file draws")
            records[file].append(record)
    raise_all(problems)
    return records


def _read(path: Path) -> VerificationRecord:
    try:
        values = json.loads(read_file(path, LONGEST))
    except (ValueError, RecursionError) as error:
        raise refused(path, f"no JSON ({error})", "a record of `sweep verify --record`") from None
    return read(VerificationRecord, values, f"{path}:")
