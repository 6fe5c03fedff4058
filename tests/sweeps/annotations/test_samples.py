"""What annotation files may call samples: rows of the file, or names, and never a row that is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sweeps.annotations.draw import MUST
from sweeps.annotations.files import read_annotations
from sweeps.annotations.links import read_links
from sweeps.annotations.samples import Samples
from sweeps.data.tables import SampleRows
from sweeps.errors import InputError

KEPT = np.array([0, 2, 3])
NAMES = ("Ann B.", "Bob", "Eve", "Kim")


def problem(samples: Samples, cell: str) -> str:
    with pytest.raises(InputError) as caught:
        samples.position(cell, "FILE, line 1")
    return str(caught.value).removeprefix("FILE, line 1: found ")


def test_rows_of_the_file_from_one() -> None:
    samples = Samples(SampleRows(4, KEPT))
    assert [samples.position(cell, "") for cell in ("1", "3", "4")] == [0, 1, 2]
    assert [samples.text(position) for position in range(3)] == ["1", "3", "4"]
    assert samples.told(1) == 3
    assert problem(samples, "2") == (
        "sample '2', expected a row that is used (it has an empty cell, and missing = \"drop\" leaves it out)"
    )
    assert problem(samples, "5") == "sample 5, expected 1 to 4 (samples are counted from 1)"
    assert problem(Samples.of(3), "x") == "sample 'x', expected 1 to 3 (samples are counted from 1)"


def test_names_and_rows_where_no_name_is_a_number() -> None:
    samples = Samples(SampleRows(4, KEPT, NAMES))
    assert [samples.position(cell, "") for cell in ("Eve", "3", "Ann B.")] == [1, 1, 0]
    assert samples.told(1) == "Eve"
    assert problem(samples, "Bob").startswith("sample 'Bob', expected a row that is used")
    assert (
        problem(samples, "Evee")
        == "sample 'Evee', expected the name of a row, or 1 to 4 (did you mean 'Eve'?)"
    )


def test_names_that_are_numbers_are_no_rows() -> None:
    samples = Samples(SampleRows(3, None, ("101", "2", "x")))
    assert [samples.position(cell, "") for cell in ("101", "2", "x")] == [0, 1, 2]
    assert problem(samples, "1") == "sample '1', expected the name of a row"


def test_files_that_name_samples(tmp_path: Path) -> None:
    samples = Samples(SampleRows(4, KEPT, NAMES))
    path = tmp_path / "a.csv"
    path.write_text("Ann B.,Kim,must,1,ann\nEve,4,cannot,1,ann\n")
    assert [(each.first, each.second) for each in read_annotations(path, samples)] == [(0, 2), (1, 2)]
    path.write_text("i,j,answer\nAnn B.,Kim,yes\n3,1,no\n")
    assert [(each.first, each.second) for each in read_annotations(path, samples)] == [(0, 2), (1, 0)]
    path.write_text("Ann B.,Kim\nEve,Eve,2\n")
    assert [(each.first, each.second, each.count) for each in read_links(path, samples, MUST)] == [
        (0, 2, 1),
        (1, 1, 1),
    ]
    path.write_text("Ann B.,Bob\n")
    with pytest.raises(InputError, match="line 1: found sample 'Bob', expected a row that is used"):
        read_links(path, samples, MUST)
