"""Single annotations of a file: what a line stands for, and draws without replacement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sweeps.annotations import pool
from sweeps.annotations.pool import draw_from, pool_checksum, read_pool
from sweeps.errors import InputError

TEXT = "1 2 must 1 ann\n2 1 cannot 3 bob 0.9\n3 3 must 4 ann\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "answers.txt"
    path.write_text(text)
    return path


def said(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_pool(path, 3)
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


def test_a_line_stands_for_as_many_annotations_as_its_weight_says(tmp_path: Path) -> None:
    found = read_pool(write(tmp_path, TEXT), 3)
    assert found.dtype == np.int32
    assert found.tolist() == [[0, 1, 0], *[[1, 0, 1]] * 3, *[[2, 2, 0]] * 2]


def test_an_empty_file_has_none(tmp_path: Path) -> None:
    assert read_pool(write(tmp_path, "# nobody has answered\n"), 3).shape == (0, 3)


def test_answered_questions_are_drawn_from_as_well(tmp_path: Path) -> None:
    asked = "i,j,probability,answer\n1,2,0.5,y\n1,3,0.4,n\n2,3,0.4,\n"
    assert read_pool(write(tmp_path, asked), 3).tolist() == [[0, 1, 0], [0, 2, 1]]


def test_the_checksum_is_of_what_is_drawn_from(tmp_path: Path) -> None:
    def checksum(text: str) -> str:
        return pool_checksum(read_pool(write(tmp_path, text), 3))

    same = "# answers\n1,2,m,1,ann\n2,1,c,1,eve\n2,1,-,2,bob\n3,3,+,4,ann\n"
    assert checksum(TEXT) == checksum(same)
    others = [
        TEXT.replace("cannot 3", "cannot 2"),
        TEXT.replace("2 1", "1 2"),
        "".join(reversed(TEXT.splitlines(keepends=True))),
    ]
    assert len({checksum(text) for text in [TEXT, *others]}) == 4


def test_parts_of_annotations_and_far_too_many_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = said(write(tmp_path, "1 2 must 0.5 ann\n1 2 must 1 ann\n3 3 must 3.5 bob\n"))
    assert [text.split(" (")[0] for text in found] == [
        "FILE, line 1: found weight 0.5, expected a whole number of annotations",
        "FILE, line 3: found weight 3.5, expected a whole number of annotations",
    ]
    monkeypatch.setattr(pool, "MOST_ANNOTATIONS", 5)
    (many,) = said(write(tmp_path, TEXT))
    assert many.startswith("FILE: found 6 annotations, expected at most 5")
    (huge,) = said(write(tmp_path, "1 2 must 1e12 ann\n"))
    assert huge.startswith("FILE: found 1,000,000,000,000 annotations")


def test_draws_are_without_replacement_and_every_annotation_is_as_likely() -> None:
    rows = np.column_stack([np.arange(20), np.arange(20), np.zeros(20)]).astype(np.int32)
    rng = np.random.default_rng(0)
    counts = np.zeros(20)
    for _ in range(2000):
        drawn = draw_from(rng, rows, 5)
        assert len(np.unique(drawn[:, 0])) == 5
        counts[drawn[:, 0]] += 1
    expected = 2000 * 5 / 20
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected * 0.75)).all()
    assert sorted(draw_from(rng, rows, 20)[:, 0]) == list(range(20))
    with pytest.raises(ValueError, match="larger sample"):
        draw_from(rng, rows, 21)
