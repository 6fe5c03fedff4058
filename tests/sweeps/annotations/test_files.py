"""Annotations: what lines of files mean, what is wrong with one, and how they are drawn."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_tables import write

from sweeps.annotations import files
from sweeps.annotations.draw import CANNOT, MUST, OFTEN, draw_annotations, draw_biased
from sweeps.annotations.files import Annotation, Samples, Skip, read_annotations, read_answers, read_pool
from sweeps.data.lines import to_number
from sweeps.data.table import SampleRows
from sweeps.errors import InputError


def links_of(path: Path, samples: Samples | int) -> list[Annotation]:
    return files.read_links(path, samples, CANNOT)


def test_forms_of_links_and_annotations(tmp_path: Path) -> None:
    for text in (
        "1 2 1\n2 4 0.5\n",
        "1,2,1\n2, 4, .5",
        "1\t2\t1\r\n2\t4\t5e-1\r\n",
        "1 2\n 2 4 0.5 # y\n# x\n\n",
    ):
        path = write(tmp_path, text)
        assert links_of(path, 4) == [
            Annotation(path, 1, 0, 1, CANNOT, 1.0, files.LINKS, None),
            Annotation(path, 2, 1, 3, CANNOT, 0.5, files.LINKS, None),
        ]
    for text in (
        "1 2 must 1 ann\n3 3 cannot 4 bob 0.9\n",
        "1,2,m,1,ann\n3, 3, C, 4, bob, .9\n",
        "1\t2\t+\t1\tann\t\r\n3\t3\t-\t4\tbob\t9e-1\r\n",
        "1  2 Must 1.0 ann # sure\n3 3 CANNOT 4 bob 0.9\n# i j kind\n\n",
    ):
        path = write(tmp_path, text)
        assert read_annotations(path, 3) == [
            Annotation(path, 1, 0, 1, MUST, 1.0, "ann", None),
            Annotation(path, 2, 2, 2, CANNOT, 2.0, "bob", 0.9),
        ]
    for text in ("", "\n\n", "# nothing yet\n"):
        path = write(tmp_path, text)
        assert links_of(path, 3) == read_annotations(path, 3) == []
    path = write(tmp_path, '1,2,m,1,Ann B.\n1,2,m,1,7\n\n1,2,m,1,"x, y"\n')
    named = [(each.line, each.annotator) for each in read_annotations(path, 2)]
    assert named == [(1, "Ann B."), (2, "7"), (4, "x, y")]
    # a pair of a sample with itself carries two per annotation
    links = links_of(write(tmp_path, "2 2 2\n2 2 4\n3 3\n1 1 1.5\n1 2 3\n"), 3)
    assert [(link.count, link.weight) for link in links] == [(1, 2), (2, 4), (1, 2), (0.75, 1.5), (3, 3)]


READ: dict[str, Any] = {"links": links_of, "answers": read_answers, "pool": read_pool}
CASES = tomllib.loads(Path(__file__).with_name("problems.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["problems"][0][:60])
def test_every_problem_of_a_file_is_said(case: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path, case["text"])
    with pytest.raises(InputError) as caught:
        READ[case["read"]](path, case["rows"])
    assert [str(problem).replace(str(path), "FILE") for problem in caught.value.problems] == case["problems"]


# Question files: what an answer means, and everything that is wrong with one.


def test_forms_of_questions(tmp_path: Path) -> None:
    for text in (
        "i,j,answer\n1,2,yes\n3,4,no\n5,6,\n7,8,skip\n",
        "# asked on Monday\nI,J,Answer\r\n1,2,Y\r\n3,4,N\r\n,,\r\n7,8,S\r\n",
        "\ufeffi;j;settles;answer\n1;2;1 (50%), or 2;must\n3;4;x;-\n7;8;x;skip\n",
        "answer\tj\ti\n+\t2\t1\ncannot\t4\t3\nskip\t8\t7",
        'i,j,weight,answer\n1,2,"1, or 2",1.0\n3,4,,0.0\n7,8,,skip\n',
        "i,j,annotator,accuracy,answer\n1,2,,,yes\n3,4,,,no\n7,8,,,skip\n",
    ):
        path = write(tmp_path, text)
        first, second, third = read_answers(path, 9)
        assert (first.first, first.second, first.kind, first.count) == (0, 1, MUST, 1.0)
        assert (second.first, second.second, second.kind) == (2, 3, CANNOT)
        assert (first.annotator, first.accuracy, third) == ("asked", None, Skip(6, 7))
        assert read_annotations(path, 9) == [first, second]
    for word, kind in files.ANSWERS.items():
        (row,) = read_annotations(write(tmp_path, f"i,j,answer\n1,2,{word.upper()}\n"), 2)
        assert row.kind == kind
    path = write(tmp_path, "i,j,annotator,accuracy,answer\n1,2,ann,0.8,yes\n2,1,,,no\n1,2,,,yes\n")
    found = [(row.annotator, row.accuracy, row.kind) for row in read_annotations(path, 2)]
    assert found == [("ann", 0.8, MUST), ("asked", None, CANNOT), ("asked", None, MUST)]
    for text in ("i,j,answer\n", "i,j,answer", "i,j,answer\n1,2,\n"):
        assert read_answers(write(tmp_path, text), 9) == []
    assert files.separator_of("i j kind weight annotator") is None


def test_wherever_the_last_line_breaks_off_earlier_answers_are_read(tmp_path: Path) -> None:
    begin, last = "i,j,annotator,answer\n1,2,asked,yes\n", "3,9,asked,skip\n"
    for length in range(len(last)):
        first, *rest = read_answers(write(tmp_path, begin + last[:length]), 9)
        assert (first.first, first.second, first.kind) == (0, 1, MUST)
        assert rest == ([Skip(2, 8)] if last[:length].removeprefix("3,9,asked,") in files.SKIPS else [])
    for word, kind in (("y", MUST), ("ye", MUST), ("yes", MUST), ("n", CANNOT), ("no", CANNOT)):
        *_, row = read_answers(write(tmp_path, f"{begin}3,9,asked,{word}"), 9)
        assert row.kind == kind
    text = 'i,j,note,answer\n1,2,"a\n\n# b, c",yes\n\n# 3,4,x,no\n3,4,"d\n e",no\n5,99,f,no\n6,7,"g\n'
    path = write(tmp_path, text.replace("5,99", "5,9").replace('6,7,"g\n', '6,7,"g'))
    rows = [(row.line, row.first, row.kind) for row in read_annotations(path, 9)]  # the last one broke off
    assert rows == [(2, 0, MUST), (7, 2, CANNOT), (9, 4, CANNOT)]


NAMES = ("=a", "'=a", "-1+2", "@b", "+c", "''-d", "plain", "-5.5", "e\x1b[31m", "'f")


def test_names_that_a_spreadsheet_takes_as_formulas_go_round(tmp_path: Path) -> None:
    samples = Samples(SampleRows(10, None, NAMES))
    cells = [samples.cell(position) for position in range(10)]
    assert cells == ["'=a", "''=a", "'-1+2", "'@b", "'+c", "'''-d", "plain", "-5.5", "9", "'f"]
    rows = [f"{cells[i]},{cells[i - 1]},yes,'=who" for i in range(10)]
    found = read_annotations(write(tmp_path, "\n".join(["i,j,answer,annotator", *rows]) + "\n"), samples)
    assert [(row.first, row.second) for row in found] == [(i, (i - 1) % 10) for i in range(10)]
    assert {row.annotator for row in found} == {"=who"}
    # as a program left them that takes quotes away
    path = write(tmp_path, "i,j,answer\n=a,@b,yes\nplain,'f,no\n")
    assert [(row.first, row.second) for row in read_answers(path, samples)] == [(0, 3), (6, 9)]


@given(st.lists(st.text("=+-@'a1\x1b ").map(str.strip).filter(bool), unique=True, min_size=1))
def test_any_names_go_round(names: list[str]) -> None:
    samples = Samples(SampleRows(len(names), None, tuple(names)))
    for position, name in enumerate(names):
        cell = samples.cell(position)
        assert not (cell[0] in "=+-@" and to_number(cell) is None)
        if name.isprintable() or cell.isdecimal():
            assert samples.position(samples.named_by(cell), "") == position


# What annotation files may call samples: rows of the file, or names, and never a row that is left out.

OWN = ("Ann B.", "Bob", "Eve", "Kim")
LEFT_OUT = 'a row that is used (it has an empty cell, and missing = "drop" leaves it out)'


def test_what_a_text_stands_for() -> None:
    kept, counted = np.array([0, 2, 3]), "(samples are counted from 1)"
    for rows, found, wrong in (
        (SampleRows(4, kept), {"1": 0, "3": 1, "4": 2}, {"2": LEFT_OUT, "5": f"1 to 4 {counted}"}),
        (SampleRows(3), {"3": 2}, {"x": f"1 to 3 {counted}"}),
        (SampleRows(4, kept, OWN), {"Eve": 1, "3": 1, "Ann B.": 0},
         {"Bob": LEFT_OUT, "Evee": "the name of a row, or 1 to 4 (did you mean 'Eve'?)"}),
        # names that are numbers are no rows
        (SampleRows(3, None, ("101", "2", "x")), {"101": 0, "2": 1, "x": 2}, {"1": "the name of a row"}),
    ):  # fmt: skip
        samples = Samples(rows)
        assert {cell: samples.position(cell, "") for cell in found} == found
        for cell, expected in wrong.items():
            with pytest.raises(InputError) as caught:
                samples.position(cell, "FILE")
            assert cell in caught.value.problems[0].found
            assert str(caught.value).endswith(f", expected {expected}")
        assert str(samples.told(1)) == samples.text(1)
        assert samples.position(samples.text(1), "") == 1


# Single annotations of a file: what a line stands for, and draws without replacement.

TEXT = "1 2 must 1 ann\n2 1 cannot 3 bob 0.9\n3 3 must 4 ann\n"


def test_a_line_stands_for_as_many_annotations_as_its_weight_says(tmp_path: Path) -> None:
    found = read_pool(write(tmp_path, TEXT), 3)
    assert found.dtype == np.int32
    assert found.tolist() == [[0, 1, 0], *[[1, 0, 1]] * 3, *[[2, 2, 0]] * 2]
    assert read_pool(write(tmp_path, "# nobody has answered\n"), 3).shape == (0, 3)
    asked = "i,j,probability,answer\n1,2,0.5,y\n1,3,0.4,n\n2,3,0.4,\n"
    assert read_pool(write(tmp_path, asked), 3).tolist() == [[0, 1, 0], [0, 2, 1]]
    # the checksum is of what is drawn from
    texts = (TEXT, "# answers\n1,2,m,1,ann\n2,1,c,1,eve\n2,1,-,2,bob\n3,3,+,4,ann\n")
    changes = (("cannot 3", "cannot 2"), ("2 1", "1 2"), ("3 3", "2 2"))
    pools = [
        read_pool(write(tmp_path, text), 3) for text in (*texts, *(TEXT.replace(*each) for each in changes))
    ]
    sums = [files.pool_checksum(pool) for pool in pools]
    assert (sums[0], len(set(sums))) == (sums[1], 4)


LABELS = np.repeat(np.arange(3, dtype=np.int16), [50, 30, 20])


@pytest.mark.parametrize("p", [0.6, 0.9, 1.0])
def test_the_share_of_right_annotations_is_the_accuracy_and_pairs_are_uniform(p: float) -> None:
    n = 400_000
    i, j, kind = draw_annotations(np.random.default_rng(0), LABELS, p=p, m=n).T
    agrees = LABELS[i] == LABELS[j]
    right = (kind == MUST) == agrees
    for part in (agrees, ~agrees, i == j):
        assert abs(right[part].mean() - p) <= 5 * np.sqrt(p * (1 - p) / part.sum())
    assert abs((i == j).mean() - 0.01) < 5 * np.sqrt(0.01 * 0.99 / n)
    for ends in (i, j):
        counts = np.bincount(ends, minlength=100)
        assert abs(counts - n / 100).max() < 5.5 * np.sqrt(n / 100)


def test_a_biased_design_draws_the_first_third_of_an_order_more_often() -> None:
    m, order = 200_000, np.random.default_rng(1).permutation(100)
    i, j, kind = draw_biased(np.random.default_rng(2), LABELS, order, p=1.0, m=m).T
    assert np.array_equal(kind == MUST, LABELS[i] == LABELS[j])
    often = np.zeros(100, dtype=bool)
    often[order[:33]] = True
    share = OFTEN * 33 / (OFTEN * 33 + 67)
    for ends in (i, j):
        assert abs(often[ends].mean() - share) < 5 * np.sqrt(share * (1 - share) / m)
    both = (often[i] & often[j]).mean()
    assert abs(both - share**2) < 5 * np.sqrt(share**2 * (1 - share**2) / m)
