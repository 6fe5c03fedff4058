"""Rows are added to the answers file and taken back, whatever else happens to it."""

import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from sweep_clustering.pipeline.ask.answers import AnswersFile, ChangedError, HeldError, NotSavedError
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.files import read_answers
from sweep_clustering.sweeps.annotations.rows import Samples
from sweep_clustering.sweeps.data.table import SampleRows

SAMPLES = Samples(SampleRows(9))
HEADER, MADE = "i,j,annotator,answer\n", "i,j,annotator,first_row,answer\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.csv"


def test_rows_are_added_and_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, synced, fsync = AnswersFile(path, "ann, the first", SAMPLES), [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(path.stat().st_size), fsync(handle)))
    assert path.read_text() == MADE
    sizes = []
    for kind in (MUST, CANNOT, None):
        file.add(0, 4, kind)
        sizes.append(path.stat().st_size)
    assert path.read_text() == MADE + "".join(f'1,5,"ann, the first",1,{w}\n' for w in ("yes", "no", "skip"))
    file.undo()
    file.undo()
    assert synced == [*sizes, sizes[1], sizes[0]]  # each is on the disk before the next question
    file.add(1, 2, CANNOT)
    file.close()
    rows: Any = read_answers(path, 9)
    who = "ann, the first"
    assert [(row.kind, row.second, row.annotator) for row in rows] == [(MUST, 4, who), (CANNOT, 2, who)]
    again = AnswersFile(path, "asked", SAMPLES)
    with pytest.raises(HeldError):
        AnswersFile(path, "asked", SAMPLES)
    with pytest.raises(IndexError):  # earlier sessions cannot be undone
        again.undo()
    again.close()
    assert len(read_answers(path, 9)) == 2


OTHER = "i;j;together;settles;answer\n3;4;0.5;x;yes\n5;6;0.5;y;\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (HEADER + "1,2,a,yes", HEADER + "1,2,a,yes\n7,8,asked,yes\n"),
        (HEADER + "1,2,a,y", HEADER + "1,2,a,y\n7,8,asked,yes\n"),
        (HEADER + "1,2,a,yes\n3,4,a", HEADER + "1,2,a,yes\n7,8,asked,yes\n"),
        (HEADER + "1,2,a,yes\n3", HEADER + "1,2,a,yes\n7,8,asked,yes\n"),
        (HEADER + "# a remark", HEADER + "# a remark\n7,8,asked,yes\n"),
        (HEADER + "1,2,a,yes\n\n", HEADER + "1,2,a,yes\n\n7,8,asked,yes\n"),
        (HEADER + "1,2,a,yes\r\n", HEADER + "1,2,a,yes\r\n7,8,asked,yes\n"),
        ("", MADE + "7,8,asked,1,yes\n"),
        ("# nothing yet", "# nothing yet\n" + MADE + "7,8,asked,1,yes\n"),
        (OTHER, OTHER + "7;8;;;yes\n"),  # its columns are kept
    ],
)
def test_a_last_line_is_ended_or_was_none(before: str, after: str, path: Path) -> None:
    path.write_bytes(before.encode())
    file = AnswersFile(path, "asked", SAMPLES)
    file.add(6, 7, MUST)
    file.close()
    assert path.read_bytes().decode() == after


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, 0])
def test_a_failing_disk_leaves_whole_rows(code: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a row is written, and then nothing; without a code the system itself refuses."""
    file = AnswersFile(path, "asked", SAMPLES)
    file.add(0, 1, MUST)
    size, limits = path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    real = os.pwrite

    def write_on_full_disk(handle: int, row: bytes, at: int) -> int:
        if at > size:
            raise OSError(code, os.strerror(code))
        return real(handle, row[:4], at)

    if code:
        monkeypatch.setattr(os, "pwrite", write_on_full_disk)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4, limits[1]))
    try:
        with pytest.raises(NotSavedError, match="this answer was not saved: yes on 3 and 4, to ") as caught:
            file.add(2, 3, MUST)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(caught.value).count(str(path)) == 2
    monkeypatch.setattr(os, "pwrite", real)
    assert path.read_text() == MADE + "1,2,asked,1,yes\n"
    file.add(2, 3, CANNOT)
    file.close()
    assert len(read_answers(path, 9)) == 2


@pytest.mark.parametrize(
    "spoilt", [b"spoilt\n", b"\xff\xfe", b"i,j,answer\n1,2,yes\n\0", "folder", "fifo", "gone"]
)
def test_a_file_that_another_program_spoilt_is_named(spoilt: bytes | str, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "answers.csv"
    path.parent.mkdir()
    file = AnswersFile(path, "asked", SAMPLES)
    file.add(0, 1, MUST)
    if isinstance(spoilt, bytes):
        path.write_bytes(spoilt)
    else:
        path.unlink()
        path.parent.rmdir() if spoilt == "gone" else path.mkdir() if spoilt == "folder" else os.mkfifo(path)
    for _ in range(2):
        with pytest.raises(NotSavedError, match="not saved: skip on 3 and 4, to") as caught:
            file.add(2, 3, None)
        assert str(path.parent) in str(caught.value).splitlines()[1]
    assert not isinstance(spoilt, bytes) or path.read_bytes() == spoilt
    file.close()
    file.close()


def test_what_an_editor_wrote_meanwhile_stays(path: Path) -> None:
    file = AnswersFile(path, "asked", SAMPLES)
    file.add(0, 1, MUST)
    edited = path.read_text() + "8,9,bob,no\n"
    path.with_name("new").write_text(edited)
    path.with_name("new").replace(path)
    with pytest.raises(ChangedError):
        file.undo()
    file.add(2, 3, MUST)
    assert path.read_text() == edited + "3,4,asked,1,yes\n"
    path.unlink()
    file.add(4, 5, MUST)
    file.close()
    assert path.read_text() == MADE + "5,6,asked,1,yes\n"
