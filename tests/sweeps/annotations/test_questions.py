"""Question files: what an answer means, and everything that is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.files import read_annotations, read_answers
from sweeps.annotations.links import Annotation
from sweeps.annotations.questions import ANSWERS, SKIPS, Skip, columns_of, separator_of
from sweeps.annotations.samples import Samples
from sweeps.data.lines import to_number
from sweeps.data.tables import SampleRows
from sweeps.errors import InputError


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "asked.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_answers(path, 9)
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        "i,j,answer\n1,2,yes\n3,4,no\n5,6,\n7,8,skip\n",
        "# asked on Monday\nI,J,Answer\r\n1,2,Y\r\n3,4,N\r\n,,\r\n7,8,S\r\n",
        "\ufeffi;j;settles;answer\n1;2;1 (50%), or 2;must\n3;4;x;-\n7;8;x;skip\n",
        "answer\tj\ti\n+\t2\t1\ncannot\t4\t3\nskip\t8\t7",
        'i,j,settles,answer\n1,2,"1, or 2",1.0\n3,4,,0.0\n7,8,,skip\n',
    ],
)
def test_formats(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    first, second, third = read_answers(path, 9)
    assert isinstance(first, Annotation)
    assert isinstance(second, Annotation)
    assert (first.first, first.second, first.kind, first.count) == (0, 1, MUST, 1.0)
    assert (second.first, second.second, second.kind) == (2, 3, CANNOT)
    assert (first.annotator, first.accuracy) == ("asked", None)
    assert third == Skip(6, 7)
    assert read_annotations(path, 9) == [first, second]


@pytest.mark.parametrize(("word", "kind"), list(ANSWERS.items()))
def test_every_word(word: str, kind: int, tmp_path: Path) -> None:
    (row,) = read_annotations(write(tmp_path, f"i,j,answer\n1,2,{word.upper()}\n"), 2)
    assert row.kind == kind


def test_annotators_and_accuracies_have_columns(tmp_path: Path) -> None:
    text = "i,j,annotator,accuracy,answer\n1,2,ann,0.8,yes\n1,2,,,no\n"
    first, second = read_annotations(write(tmp_path, text), 2)
    assert (first.annotator, first.accuracy) == ("ann", 0.8)
    assert (second.annotator, second.accuracy) == ("asked", None)


def test_answers_may_repeat_and_contradict_each_other(tmp_path: Path) -> None:
    rows = read_annotations(write(tmp_path, "i,j,answer\n1,2,yes\n2,1,no\n1,2,yes\n"), 2)
    assert [row.kind for row in rows] == [MUST, CANNOT, MUST]


@pytest.mark.parametrize("text", ["i,j,answer\n", "i,j,answer", "i,j,answer\n1,2,\n"])
def test_nothing_answered_is_no_error(text: str, tmp_path: Path) -> None:
    assert read_answers(write(tmp_path, text), 9) == []


def test_all_problems_at_once(tmp_path: Path) -> None:
    text = "i,j,accuracy,answer\n1,10,,yes\n1,2,2,perhaps\n0,x,,\n1,2\n1,2,,yess\n3,4,,no\n"
    assert problems(write(tmp_path, text)) == [
        "FILE, line 2: found sample 10, expected 1 to 9 (samples are counted from 1)",
        "FILE, line 3: found accuracy 2, expected a number above 0, at most 1",
        "FILE, line 3: found answer 'perhaps', expected yes or no (must or cannot, y or n, 1 or 0, + or -), "
        "skip, or nothing",
        "FILE, line 4: found sample 0, expected 1 to 9 (samples are counted from 1)",
        "FILE, line 5: found 2 cells, expected 4 as in the header",
        "FILE, line 6: found answer 'yess', expected yes or no (must or cannot, y or n, 1 or 0, + or -), "
        "skip, or nothing (did you mean 'yes'?)",
    ]


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    (problem,) = problems(write(tmp_path, "i,j,j,answer\n1,2,3,yes\n"))
    assert problem == "FILE, line 1: found several columns 'j', expected one of each name"


def test_a_file_without_those_columns_has_lines_of_annotations(tmp_path: Path) -> None:
    assert separator_of("i j kind weight annotator") is None
    with pytest.raises(ValueError, match="is no header"):
        columns_of("i,j,kind")
    (problem,) = problems(write(tmp_path, "i,j,reply\n"))
    assert "i j kind weight annotator" in problem


def test_wherever_the_last_line_breaks_off_earlier_answers_are_read(tmp_path: Path) -> None:
    begin = "i,j,annotator,answer\n1,2,asked,yes\n"
    last = "3,9,asked,skip\n"
    for length in range(len(last)):
        path = write(tmp_path, begin + last[:length])
        first, *rest = read_answers(path, 9)
        assert isinstance(first, Annotation)
        assert (first.first, first.second, first.kind) == (0, 1, MUST)
        assert rest == ([Skip(2, 8)] if last[:length].removeprefix("3,9,asked,") in SKIPS else [])
    for word, kind in (("yes", MUST), ("no", CANNOT)):
        for length in range(1, len(word) + 1):
            *_, row = read_answers(write(tmp_path, f"{begin}3,9,asked,{word[:length]}"), 9)
            assert isinstance(row, Annotation)
            assert row.kind == kind


def test_only_the_last_line_may_break_off(tmp_path: Path) -> None:
    assert problems(write(tmp_path, "i,j,answer\n1,2\n")) == [
        "FILE, line 2: found 2 cells, expected 3 as in the header"
    ]


NAMES = ("=a", "'=a", "-1+2", "@b", "+c", "''-d", "plain", "-5.5", "e\x1b[31m", "'f")


def test_names_that_a_spreadsheet_takes_as_formulas_go_round(tmp_path: Path) -> None:
    samples = Samples(SampleRows(len(NAMES), None, NAMES))
    cells = [samples.cell(position) for position in range(len(NAMES))]
    assert cells == ["'=a", "''=a", "'-1+2", "'@b", "'+c", "'''-d", "plain", "-5.5", "9", "'f"]
    path = tmp_path / "own.csv"
    rows = [f"{cells[i]},{cells[i - 1]},yes,'=who" for i in range(len(NAMES))]
    path.write_text("\n".join(["i,j,answer,annotator", *rows]) + "\n")
    found = read_answers(path, samples)
    assert [(row.first, row.second) for row in found] == [
        (i, (i - 1) % len(NAMES)) for i in range(len(NAMES))
    ]
    assert {row.annotator for row in found if isinstance(row, Annotation)} == {"=who"}
    path.write_text("i,j,answer\n=a,@b,yes\nplain,'f,no\n")  # as a program left them that takes quotes away
    assert [(row.first, row.second) for row in read_answers(path, samples)] == [(0, 3), (6, 9)]


@given(
    st.lists(st.text("=+-@'a1\x1b "), unique_by=str.strip, min_size=1).map(
        lambda n: [x.strip() for x in n if x.strip()]
    )
)
def test_any_names_go_round(names: list[str]) -> None:
    if names:
        samples = Samples(SampleRows(len(names), None, tuple(names)))
        for position, name in enumerate(names):
            cell = samples.cell(position)
            assert not (cell[0] in "=+-@" and to_number(cell) is None)
            if name.isprintable() or samples.cell(position).isdecimal():
                assert samples.position(samples.named_by(cell), "") == position


def test_a_cell_of_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(
        'i,j,"no\nte",answer\n1,2,"a\n\n# b, c",yes\n\n# 3,4,x,no\n3,4,"d\n e",no\n5,99,f,no\n6,7,"g\n'
    )
    path.write_text(path.read_text().replace('"no\nte"', "note"))
    with pytest.raises(InputError) as caught:
        read_answers(path, 9)
    assert [each.where for each in caught.value.problems] == [f"{path}, line 9", f"{path}, line 10"]
    path.write_text(path.read_text().replace("5,99", "5,9").replace('6,7,"g\n', '6,7,"g'))
    found = read_answers(path, 9)  # the last row broke off
    assert [(row.line, row.first, row.kind) for row in found if isinstance(row, Annotation)] == [
        (2, 0, MUST), (7, 2, CANNOT), (9, 4, CANNOT),
    ]  # fmt: skip
    path.write_text(
        'i,j,note,answer\n1,2,"a,yes\n3,4,b,no\n5,6,c,yes'
    )  # a quote that swallows what follows it
    with pytest.raises(InputError, match="line 2: found a cell whose quote is never closed"):
        read_answers(path, 9)
