"""Annotation files: what a line means, and everything that is wrong with one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.annotations import files
from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.files import (
    ANSWERS,
    LINKS,
    SKIPS,
    Annotation,
    Samples,
    Skip,
    columns_of,
    draw_from,
    pool_checksum,
    read_annotations,
    read_answers,
    read_links,
    read_pool,
    separator_of,
)
from sweeps.data.lines import to_number
from sweeps.data.table import SampleRows
from sweeps.errors import InputError

# Link files: what they mean, and every line that means nothing.


def write_of_links(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "must.link"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text", ["1 2 1\n2 4 0.5\n", "1,2,1\n2, 4, .5", "1\t2\t1\r\n2\t4\t5e-1\r\n", "1 2\n 2 4 0.5 # y\n# x\n\n"]
)
def test_formats_of_links(text: str, tmp_path: Path) -> None:
    path = write_of_links(tmp_path, text)
    assert read_links(path, 4, CANNOT) == [
        Annotation(path, 1, 0, 1, CANNOT, 1.0, LINKS, None),
        Annotation(path, 2, 1, 3, CANNOT, 0.5, LINKS, None),
    ]


def test_lines_are_kept_apart_and_numbered(tmp_path: Path) -> None:
    links = read_links(write_of_links(tmp_path, "3 1 1\n\n# none\n1 3 2.5\n3 1\n"), 3, MUST)
    assert [(link.line, link.first, link.second, link.count) for link in links] == [
        (1, 2, 0, 1),
        (4, 0, 2, 2.5),
        (5, 2, 0, 1),
    ]


def test_self_pair_carries_two_per_annotation(tmp_path: Path) -> None:
    links = read_links(write_of_links(tmp_path, "2 2 2\n2 2 4\n3 3\n1 1 1.5\n1 2 3\n"), 3, MUST)
    assert [link.count for link in links] == [1, 2, 1, 0.75, 3]
    assert [link.weight for link in links] == [2, 4, 2, 1.5, 3]
    assert [link.is_self_pair for link in links] == [True] * 4 + [False]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n"])
def test_empty_file_is_an_empty_annotation_graph_of_links(text: str, tmp_path: Path) -> None:
    assert read_links(write_of_links(tmp_path, text), 3, MUST) == []


def test_every_bad_line_is_said(tmp_path: Path) -> None:
    lines = {
        "1 2 1": None,
        "0 2 1": "sample 0",
        "1 6 1": "sample 6",
        "-1 2 1": "sample -1",
        "1 2 0": "weight 0",
        "1 2 -3": "weight -3",
        "1 2 nan": "weight nan",
        "1 2 inf": "weight inf",
        "1 2 1e12": None,
        "1 2 1e13": "weight 1e13",
        "1 2 x": "weight x",
        "1 2 ": None,
        "1": "'1'",
        "1 2 3 4": "'1 2 3 4'",
        "one two": "'one two'",
        "1.0 2": "'1.0 2'",
        "1,,2": "'1,,2'",
        "1_0 2": "'1_0 2'",
        "9" * 5000 + " 1": repr("9" * 60),
        "2 2 1": "weight 1 for the self pair of sample 2",
        "2 2 3": "weight 3 for the self pair of sample 2",
        "² 1": "'² 1'",
    }
    path = write_of_links(tmp_path, "\n".join(lines))
    with pytest.raises(InputError) as caught:
        read_links(path, 5, MUST)
    expected = [(f"{path}, line {n}", found) for n, found in enumerate(lines.values(), start=1) if found]
    assert [(problem.where, problem.found) for problem in caught.value.problems] == expected


def test_unreadable_path_of_links(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        read_links(tmp_path / "absent.link", 3, MUST)


def test_published_instance(shared_data: Path) -> None:
    folder = shared_data / "reference-vertebral"
    must = read_links(folder / "vertebral-must.link", 310, MUST)
    cannot = read_links(folder / "vertebral-cannot.link", 310, CANNOT)
    assert Counter(link.kind for link in [*must, *cannot]) == {MUST: 104, CANNOT: 206}
    assert Counter(link.count for link in [*must, *cannot]) == {1.0: 310}
    assert [link.first for link in must if link.is_self_pair] == [132, 181]
    labels = np.loadtxt(folder / "vertebral.label", dtype=int)
    assert all(labels[link.first] == labels[link.second] for link in must)
    assert all(labels[link.first] != labels[link.second] for link in cannot)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "all.annotations"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "1 2 must 1 ann\n3 3 cannot 4 bob 0.9\n",
        "1,2,m,1,ann\n3, 3, C, 4, bob, .9\n",
        "1\t2\t+\t1\tann\t\r\n3\t3\t-\t4\tbob\t9e-1\r\n",
        "1  2 Must 1.0 ann # sure\n3 3 CANNOT 4 bob 0.9\n# i j kind\n\n",
        "1,2,m,1,ann,\n3,3,c,4,bob,0.9\n",
    ],
)
def test_formats(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    assert read_annotations(path, 3) == [
        Annotation(path, 1, 0, 1, MUST, 1.0, "ann", None),
        Annotation(path, 2, 2, 2, CANNOT, 2.0, "bob", 0.9),
    ]


def test_names_are_any_word(tmp_path: Path) -> None:
    found = read_annotations(write(tmp_path, '1,2,m,1,Ann B.\n1,2,m,1,7\n1,2,m,1,"x, y"\n1,2,m,1,a=b\n'), 2)
    assert [annotation.annotator for annotation in found] == ["Ann B.", "7", "x, y", "a=b"]


def test_lines_say_the_same_as_link_files(tmp_path: Path) -> None:
    lines = ["1 2 1", "2 1 0.5", "3 3 6", "1 3 2"]
    (tmp_path / "links").write_text("\n".join(lines))
    links = read_links(tmp_path / "links", 3, MUST)
    path = write(tmp_path, "\n".join("{} {} must {} links".format(*line.split()) for line in lines))
    for link, annotation in zip(links, read_annotations(path, 3), strict=True):
        assert (link.first, link.second, link.kind, link.count, link.weight, link.annotator) == (
            annotation.first, annotation.second, annotation.kind,
            annotation.count, annotation.weight, annotation.annotator,
        )  # fmt: skip


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n"])
def test_empty_file_is_an_empty_annotation_graph(text: str, tmp_path: Path) -> None:
    assert read_annotations(write(tmp_path, text), 3) == []


def test_every_problem_of_every_line_is_said(tmp_path: Path) -> None:
    lines = {
        "1 2 must 1 ann": (),
        "0 2 must 1 ann": ("sample 0",),
        "1 6 must 1 ann": ("sample 6",),
        "1 b must 1 ann": ("sample 'b'",),
        "1.0 2 must 1 ann": ("sample '1.0'",),
        "1 2 mus 1 ann": ("kind 'mus'",),
        "1 2 must-link 1 ann": ("kind 'must-link'",),
        "1 2 must 0 ann": ("weight 0",),
        "1 2 must x ann": ("weight x",),
        "1 2 must nan ann": ("weight nan",),
        "1,2,must,,ann": ("weight ",),
        "4 4 cannot 3 ann": ("weight 3 for the self pair of sample 4",),
        "1,2,must,1,": ("no annotator",),
        "1 2 must 1 ann 0": ("accuracy 0",),
        "1 2 must 1 ann 1.1": ("accuracy 1.1",),
        "1 2 must 1 ann nan": ("accuracy nan",),
        "1 2 must 1 ann sure": ("accuracy sure",),
        "1 2 must 1": ("'1 2 must 1'",),
        "1 2 must 1 ann 0.5 x": ("'1 2 must 1 ann 0.5 x'",),
        "9 x what -1 ann 2": ("sample 9", "kind 'what'", "weight -1", "accuracy 2"),
    }
    path = write(tmp_path, "\n".join(lines))
    with pytest.raises(InputError) as caught:
        read_annotations(path, 5)
    expected = [
        (f"{path}, line {number}", found) for number, many in enumerate(lines.values(), 1) for found in many
    ]
    expected = [*expected[:20], (str(path), f"{len(expected) - 20} more problems like these")]
    assert [(problem.where, problem.found) for problem in caught.value.problems] == expected


def test_kind_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'cannot'"):
        read_annotations(write(tmp_path, "1 2 canot 1 ann"), 3)


def test_unreadable_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        read_annotations(tmp_path / "absent", 3)


# Question files: what an answer means, and everything that is wrong with one.


def write_of_questions(tmp_path: Path, text: str | bytes) -> Path:
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
def test_formats_of_questions(text: str, tmp_path: Path) -> None:
    path = write_of_questions(tmp_path, text)
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
    (row,) = read_annotations(write_of_questions(tmp_path, f"i,j,answer\n1,2,{word.upper()}\n"), 2)
    assert row.kind == kind


def test_annotators_and_accuracies_have_columns(tmp_path: Path) -> None:
    text = "i,j,annotator,accuracy,answer\n1,2,ann,0.8,yes\n1,2,,,no\n"
    first, second = read_annotations(write_of_questions(tmp_path, text), 2)
    assert (first.annotator, first.accuracy) == ("ann", 0.8)
    assert (second.annotator, second.accuracy) == ("asked", None)


def test_answers_may_repeat_and_contradict_each_other(tmp_path: Path) -> None:
    rows = read_annotations(write_of_questions(tmp_path, "i,j,answer\n1,2,yes\n2,1,no\n1,2,yes\n"), 2)
    assert [row.kind for row in rows] == [MUST, CANNOT, MUST]


@pytest.mark.parametrize("text", ["i,j,answer\n", "i,j,answer", "i,j,answer\n1,2,\n"])
def test_nothing_answered_is_no_error(text: str, tmp_path: Path) -> None:
    assert read_answers(write_of_questions(tmp_path, text), 9) == []


def test_all_problems_at_once(tmp_path: Path) -> None:
    text = "i,j,accuracy,answer\n1,10,,yes\n1,2,2,perhaps\n0,x,,\n1,2\n1,2,,yess\n3,4,,no\n"
    assert problems(write_of_questions(tmp_path, text)) == [
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
    (problem,) = problems(write_of_questions(tmp_path, "i,j,j,answer\n1,2,3,yes\n"))
    assert problem == "FILE, line 1: found several columns 'j', expected one of each name"


def test_a_file_without_those_columns_has_lines_of_annotations(tmp_path: Path) -> None:
    assert separator_of("i j kind weight annotator") is None
    with pytest.raises(ValueError, match="is no header"):
        columns_of("i,j,kind")
    (problem,) = problems(write_of_questions(tmp_path, "i,j,reply\n"))
    assert "i j kind weight annotator" in problem


def test_wherever_the_last_line_breaks_off_earlier_answers_are_read(tmp_path: Path) -> None:
    begin = "i,j,annotator,answer\n1,2,asked,yes\n"
    last = "3,9,asked,skip\n"
    for length in range(len(last)):
        path = write_of_questions(tmp_path, begin + last[:length])
        first, *rest = read_answers(path, 9)
        assert isinstance(first, Annotation)
        assert (first.first, first.second, first.kind) == (0, 1, MUST)
        assert rest == ([Skip(2, 8)] if last[:length].removeprefix("3,9,asked,") in SKIPS else [])
    for word, kind in (("yes", MUST), ("no", CANNOT)):
        for length in range(1, len(word) + 1):
            *_, row = read_answers(write_of_questions(tmp_path, f"{begin}3,9,asked,{word[:length]}"), 9)
            assert isinstance(row, Annotation)
            assert row.kind == kind


def test_only_the_last_line_may_break_off(tmp_path: Path) -> None:
    assert problems(write_of_questions(tmp_path, "i,j,answer\n1,2\n")) == [
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


# What annotation files may call samples: rows of the file, or names, and never a row that is left out.

KEPT = np.array([0, 2, 3])
NAMES_OF_SAMPLES = ("Ann B.", "Bob", "Eve", "Kim")


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
    samples = Samples(SampleRows(4, KEPT, NAMES_OF_SAMPLES))
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
    samples = Samples(SampleRows(4, KEPT, NAMES_OF_SAMPLES))
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


# Single annotations of a file: what a line stands for, and draws without replacement.

TEXT = "1 2 must 1 ann\n2 1 cannot 3 bob 0.9\n3 3 must 4 ann\n"


def write_of_pool(folder: Path, text: str) -> Path:
    path = folder / "answers.txt"
    path.write_text(text)
    return path


def said(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_pool(path, 3)
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


def test_a_line_stands_for_as_many_annotations_as_its_weight_says(tmp_path: Path) -> None:
    found = read_pool(write_of_pool(tmp_path, TEXT), 3)
    assert found.dtype == np.int32
    assert found.tolist() == [[0, 1, 0], *[[1, 0, 1]] * 3, *[[2, 2, 0]] * 2]


def test_an_empty_file_has_none(tmp_path: Path) -> None:
    assert read_pool(write_of_pool(tmp_path, "# nobody has answered\n"), 3).shape == (0, 3)


def test_answered_questions_are_drawn_from_as_well(tmp_path: Path) -> None:
    asked = "i,j,probability,answer\n1,2,0.5,y\n1,3,0.4,n\n2,3,0.4,\n"
    assert read_pool(write_of_pool(tmp_path, asked), 3).tolist() == [[0, 1, 0], [0, 2, 1]]


def test_the_checksum_is_of_what_is_drawn_from(tmp_path: Path) -> None:
    def checksum(text: str) -> str:
        return pool_checksum(read_pool(write_of_pool(tmp_path, text), 3))

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
    found = said(write_of_pool(tmp_path, "1 2 must 0.5 ann\n1 2 must 1 ann\n3 3 must 3.5 bob\n"))
    assert [text.split(" (")[0] for text in found] == [
        "FILE, line 1: found weight 0.5, expected a whole number of annotations",
        "FILE, line 3: found weight 3.5, expected a whole number of annotations",
    ]
    monkeypatch.setattr(files, "MOST_ANNOTATIONS", 5)
    (many,) = said(write_of_pool(tmp_path, TEXT))
    assert many.startswith("FILE: found 6 annotations, expected at most 5")
    (huge,) = said(write_of_pool(tmp_path, "1 2 must 1e12 ann\n"))
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
