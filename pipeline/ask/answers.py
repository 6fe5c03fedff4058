"""The answers file of a session: each answer is on the disk before the next question is asked."""

import csv
import fcntl
import io
import os
from contextlib import suppress
from pathlib import Path

from sweep_clustering.pipeline.fit.inputs import place_problems
from sweep_clustering.storage.files import PLAIN, StorageError, storage_errors, sync_directory
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.files import ANNOTATOR, columns_of, separator_of
from sweep_clustering.sweeps.annotations.rows import FIRST_ROW, Samples
from sweep_clustering.sweeps.data.lines import MOST_BYTES, Lines, as_cell, read_lines
from sweep_clustering.sweeps.data.reading import rows_of
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, present, refused
from sweep_clustering.sweeps.files import opened

# Words of the column answer.
WORDS = {MUST: "yes", CANNOT: "no", None: "skip"}


class ChangedError(RuntimeError):
    """Another program wrote to the answers file."""


class HeldError(RuntimeError):
    """Another session adds answers to the file."""


class NotSavedError(RuntimeError):
    """An answer could not be saved in the file."""


class AnswersFile:
    """A question file to which answers are added, one row each.

    A row is written by one call, and is on the disk when `add` returns: whatever ends the process, earlier
    rows stay as they are, and an incomplete row is read as one without an answer. The file is made if it is
    not there. A `HeldError` is raised if another session has it.
    """

    def __init__(self, path: Path, annotator: str, samples: Samples) -> None:
        self.path = path
        self.annotator = annotator
        self.samples = samples
        self._file = -1
        self._open()

    def _open(self) -> None:
        with storage_errors(self.path):
            if not self.path.exists():
                PLAIN.put(self.path, self._header)
                sync_directory(self.path.absolute().parent)
            with opened(self.path, MOST_BYTES):  # os.open would wait for a pipe
                file = os.open(self.path, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if read_lines(self.path).first is None:  # it has blank lines and comments only
                    _end_last_line(file, ",", 0)
                    os.pwrite(file, self._header, os.fstat(file).st_size)
                header = _header(read_lines(self.path))
                self._columns = columns_of(header)
                self._separator = separator_of(header) or ","
                self._ends = [_end_last_line(file, self._separator, len(self._columns))]
            except BaseException as error:
                os.close(file)
                if isinstance(error, BlockingIOError):
                    raise HeldError(f"{self.path} is open in another session") from None
                raise
        self._file = file

    @property
    def _header(self) -> bytes:
        """Return the first line of a new file, which has the number of the first row if rows have numbers."""
        mark = [FIRST_ROW] if self.samples.are_written_as_numbers else []
        return (",".join(["i", "j", ANNOTATOR, *mark, "answer"]) + "\n").encode()

    def add(self, first: int, second: int, kind: int | None) -> None:
        """Write an answer on two samples from 0: `MUST`, `CANNOT`, or None for a skipped pair.

        If another program wrote to the file since, the answer is added to the changed file. A `NotSavedError`
        says that the disk fails, or that the file takes no answers any more; nothing of the answer is then in
        it.
        """
        try:
            with storage_errors(self.path):
                if self._is_changed():
                    self.close()
                    self._open()
                self._write(self._row(first, second, kind))
        except (StorageError, InputError, HeldError) as error:
            names = " and ".join(map(self.samples.text, (first, second)))
            raise NotSavedError(
                f"this answer was not saved: {WORDS[kind]} on {names}, to {self.path}\n"
                f"  {error}\nanswers saved before it are not touched by this session"
            ) from error

    def _write(self, row: bytes) -> None:
        begin = end = self._ends[-1]
        try:
            while row:  # a full disk first takes a part, and then raises
                n_written = os.pwrite(self._file, row, end)
                row, end = row[n_written:], end + n_written
            os.fsync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, begin)
            raise
        self._ends.append(end)

    def undo(self) -> None:
        """Take back the last answer of this session, if there is one (else `IndexError`).

        A `ChangedError` says that somebody else wrote to the file since.
        """
        if len(self._ends) == 1:
            raise IndexError("no answer of this session")
        if self._is_changed():
            raise ChangedError(f"{self.path} was changed by another program")
        with storage_errors(self.path):
            os.ftruncate(self._file, self._ends[-2])
            self._ends.pop()
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file, if it is open."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _is_changed(self) -> bool:
        with suppress(OSError):  # the file is closed, or gone
            open_file, current = os.fstat(self._file), os.stat(self.path)
            return not os.path.samestat(open_file, current) or open_file.st_size != self._ends[-1]
        return True

    def _row(self, first: int, second: int, kind: int | None) -> bytes:
        cells = {
            "i": self.samples.cell(first),
            "j": self.samples.cell(second),
            ANNOTATOR: as_cell(self.annotator),
            FIRST_ROW: str(self.samples.first_row),
            "answer": WORDS[kind],
        }
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self._separator, lineterminator="\n")
        writer.writerow([cells.get(column, "") for column in self._columns])
        return text.getvalue().encode()


def check_answers_file(path: Path) -> list[Problem]:
    """Return the reasons why a session cannot add answers to a file."""
    if not path.exists():
        return list(place_problems(str(path), path, overwrite=True))
    problems: list[Problem] = []
    with collecting(problems):
        with opened(path, MOST_BYTES):  # a pipe takes no answers
            lines = read_lines(path)
        if lines.first is not None:
            _header(lines)
    return problems


def _header(lines: Lines) -> str:
    """Return the first line, which must be the header of a file that takes answers."""
    first = present(lines.first)
    if separator_of(first.text) is None:
        hint = "name a new file last: --annotations may be given several times"
        expected = "a header with the columns i, j and answer, for answers to be added, or no file yet"
        raise refused(first.location, repr(first.text[:60]), expected, hint)
    return first.text


def _end_last_line(file: int, separator: str, n_columns: int) -> int:
    """End the last line, or remove it if it is an incomplete row; return where the next row begins."""
    size = os.fstat(file).st_size
    content = os.pread(file, size, 0)
    begin = max(content.rfind(b"\n"), content.rfind(b"\r")) + 1
    last = content[begin:].decode(errors="replace").strip()
    if not last:
        return size
    cells = next(csv.reader([last], delimiter=separator, skipinitialspace=True))
    with suppress(InputError, UnicodeDecodeError):  # a row may begin in an earlier line
        for row, line, n_lines in rows_of(Path(), content, separator):
            if content.count(b"\n") + 2 == line + n_lines:
                cells, begin = row, sum(len(text) + 1 for text in content.split(b"\n")[: line - 1])
    if len(cells) < n_columns and not last.startswith("#"):
        os.ftruncate(file, begin)
        return begin
    os.pwrite(file, b"\n", size)
    return size + 1
