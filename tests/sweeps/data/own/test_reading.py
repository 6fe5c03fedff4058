"""Whatever the format of a user's own table: paths that cannot be read, and how much is said."""

from __future__ import annotations

from pathlib import Path

from own_tables import problems, write


def test_a_flood_of_problems_is_cut_short(tmp_path: Path) -> None:
    found = problems(write(tmp_path, "0,0\n" + "nan,1\n" * 100))
    assert len(found) == 21
    assert found[-1] == "FILE: found 80 more problems like these, expected none"


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    assert problems(tmp_path / "absent.csv") == [
        "FILE: found No such file or directory, expected a readable file"
    ]
    assert problems(tmp_path / "absent.npz") == [
        "FILE: found No such file or directory, expected a readable file"
    ]
    assert problems(tmp_path) == ["FILE: found Is a directory, expected a readable file"]
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"1,2\n\xff\xfe\n")
    assert problems(binary) == [
        "FILE, line 2: found byte 0xff, expected a text file in UTF-8 "
        "(save it again as UTF-8; spreadsheets call that CSV UTF-8)"
    ]
