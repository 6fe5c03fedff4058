"""Lines of annotation files have a meaning or named faults, and annotations are drawn."""

import csv
import io
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_tables import read_annotations, write
from scipy.special import expit, logit

from sweep_clustering.sweeps.annotations import draw, files
from sweep_clustering.sweeps.annotations.numbering import Numbering, numbering_of
from sweep_clustering.sweeps.annotations.rows import Annotation, Row, Samples, Skip
from sweep_clustering.sweeps.data.lines import Lines, read_lines, to_number
from sweep_clustering.sweeps.data.table import SampleRows
from sweep_clustering.sweeps.errors import InputError, Problem, collecting


def links_of(path: Path, samples: Samples | int) -> list[Annotation]:
    return read_annotations(path, samples, draw.CANNOT)


def test_forms_of_links_and_annotations(tmp_path: Path) -> None:
    for text in (
        "1 2 1\n2 4 0.5\n",
        "1,2,1\n2, 4, .5",
        "1\t2\t1\r\n2\t4\t5e-1\r\n",
        "1 2\n 2 4 0.5 # y\n# x\n\n",
    ):
        path = write(tmp_path, text)
        assert links_of(path, 4) == [
            Annotation(path, 1, 0, 1, draw.CANNOT, 1.0, files.LINKS, None),
            Annotation(path, 2, 1, 3, draw.CANNOT, 0.5, files.LINKS, None),
        ]
    for text in (
        "1 2 must 1 ann\n3 3 cannot 4 bob 0.9\n",
        "1,2,m,1,ann\n3, 3, C, 4, bob, .9\n",
        "1\t2\t+\t1\tann\t\r\n3\t3\t-\t4\tbob\t9e-1\r\n",
        "1  2 Must 1.0 ann # sure\n3 3 CANNOT 4 bob 0.9\n# i j kind\n\n",
    ):
        path = write(tmp_path, text)
        assert read_annotations(path, 3) == [
            Annotation(path, 1, 0, 1, draw.MUST, 1.0, "ann", None),
            Annotation(path, 2, 2, 2, draw.CANNOT, 2.0, "bob", 0.9),
        ]
    for text in ("", "\n\n", "# nothing yet\n"):
        path = write(tmp_path, text)
        assert links_of(path, 3) == read_annotations(path, 3) == []
    path = write(tmp_path, '1,2,m,1,Ann B.\n1,2,m,1,7\n\n1,2,m,1,"x, y"\n')
    named = [(row.line, row.annotator) for row in read_annotations(path, 2)]
    assert named == [(1, "Ann B."), (2, "7"), (4, "x, y")]
    # a pair of a sample with itself carries two per annotation
    links = links_of(write(tmp_path, "2 2 2\n2 2 4\n3 3\n1 1 1.5\n1 2 3\n"), 3)
    assert [(link.count, link.weight) for link in links] == [(1, 2), (2, 4), (1, 2), (0.75, 1.5), (3, 3)]


# Headers: columns in any order, by other names, as pandas and spreadsheets write them.

COLUMNS = {
    "i": ("i", "FIRST", "a", "Sample1"),
    "j": ("j", "Second", "B", "sample2"),
    "kind": ("kind", "Type", "label"),
    "weight": ("weight", "count"),
    "annotator": ("annotator", "Worker"),
    "accuracy": ("accuracy",),
}
HEADED = [
    {"i": "1", "j": "2", "kind": "must", "weight": "2", "annotator": "Ann B.", "accuracy": "0.9"},
    {"i": "3", "j": "1", "kind": "cannot", "weight": "0.5", "annotator": "bob, c", "accuracy": ""},
]


@given(
    st.permutations(list(COLUMNS)),
    st.sets(st.sampled_from(["weight", "annotator", "accuracy"])),
    st.sampled_from(",;\t"),
    st.integers(0, 3),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.sampled_from(["", ",", "Unnamed: 0,"]),
    st.booleans(),
)
def test_headers_come_as_people_have_them(
    order: list[str], left_out: set[str], mark: str, names: int, bom: str, end: str, index: str, quoted: bool
) -> None:
    columns = [name for name in order if name not in left_out]
    ends = {name: COLUMNS[name][names if name in "ij" else names % len(COLUMNS[name])] for name in columns}
    table = [list(ends.values()), *([row[name] for name in columns] for row in HEADED)]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=mark, lineterminator=end, quoting=csv.QUOTE_ALL * quoted)
    for number, row in enumerate(table):
        writer.writerow(([str(number - 1) if number else index.strip(",")] if index else []) + row)
    with TemporaryDirectory() as folder:
        path = write(Path(folder), bom + text.getvalue())
        first, second = read_annotations(path, 3)
        assert [row.line for row in (first, second)] == [3, 5] if end == "\n\n" else [2, 3]
        assert first.first == 0
        assert first.second == 1
        assert first.kind == draw.MUST
        assert second.first == 2
        assert second.second == 0
        assert first.count == (1 if "weight" in left_out else 2)
        assert second.count == (1 if "weight" in left_out else 0.5)
        assert first.annotator == ("asked" if "annotator" in left_out else "Ann B.")
        assert second.annotator == ("asked" if "annotator" in left_out else "bob, c")
        assert second.kind == draw.CANNOT
        assert first.accuracy == (None if "accuracy" in left_out else 0.9)
        assert second.accuracy is None


def test_columns_of_a_file_of_questions_are_named_in_small_letters() -> None:
    assert files.columns_of("I;J;Annotator;ANSWER") == ["i", "j", "annotator", "answer"]
    assert files.separator_of("I;J;Annotator;ANSWER") == ";"
    assert files.separator_of("i,j,kind") is None


def test_headers_of_links_and_words_for_kinds(tmp_path: Path) -> None:
    for text in (
        "i,j\n1,2\n3,3\n",
        "j i weight\n2 1 1 # sure\n3 3 2\n",
        ",a,b\n0,1,2\n1,3,3\n,,\n",
        'sep=;\n"second";"weight";"first"\n"2";"1";"1"\n"3";"2";"3"\n',
        "Unnamed: 0.1,Unnamed: 0,i,j\n0,0,1,2\n1,1,3,3\n",
    ):
        links = links_of(write(tmp_path, text), 3)
        assert [(row.first, row.second, row.count, row.kind) for row in links] == [
            (0, 1, 1, draw.CANNOT),
            (2, 2, 1, draw.CANNOT),
        ]
    for text in ("i,j,kind\n", "I;J;KIND", "kind j i\n# none\n", ",i,j,type\n"):
        assert files.read_answers(write(tmp_path, text), 3) == []
    for word, kind in files.KINDS.items():
        for text in (f"i,j,kind\n1,2,{word.title()}\n", f"1 2 {word} 1 ann\n", f"1;2;{word};1;ann\n"):
            assert [row.kind for row in read_annotations(write(tmp_path, text), 2)] == [kind]
    # rows may have the names of columns: a pair of them below a header is no header
    samples = Samples(SampleRows(3, None, ("a", "b", "kind")))
    pairs = {"i j\na b\n": [(0, 1)], "i,j\na,b\na,kind\n": [(0, 1), (0, 2)], "i,j\nkind,b\n": [(2, 1)]}
    for text, expected in pairs.items():
        assert [(row.first, row.second) for row in links_of(write(tmp_path, text), samples)] == expected


@pytest.mark.parametrize("text", ["0 1\n2 1\n", "0,1,1\n1,2,1\n", "0 1 1\n2 1 3\n", "i,j\n0,1\n2,1\n"])
def test_links_that_only_begin_as_an_index_or_a_header_does(tmp_path: Path, text: str) -> None:
    links = files.PairFile.of(write(tmp_path, text), draw.CANNOT).table(Samples(SampleRows(3), 0))
    assert [{link.first, link.second} for link in links] == [{0, 1}, {1, 2}]


@given(
    st.lists(
        st.lists(
            st.sampled_from([*"ij01-+#\"'", "", "kind", "answer", "must", "first_row", "2.5", "a b"]),
            max_size=6,
        ),
        max_size=5,
    ),
    st.sampled_from([",", ";", "\t", " "]),
    st.sampled_from([None, draw.MUST]),
)
def test_any_text_is_read_or_refused(cells: list[list[str]], mark: str, kind: int | None) -> None:
    content = "\n".join(map(mark.join, cells)).encode()
    file = files.PairFile(Lines(Path("FILE"), content), kind)
    numbering = numbering_of([file], "auto", Samples.of(3))
    rows: list[Row] = []
    problems: list[Problem] = []
    with collecting(problems):
        rows += file.table(numbering.samples_of(file.path, Samples.of(3).counted_from(numbering.first_row)))
    assert all({row.first, row.second} <= {0, 1, 2} for row in rows)
    assert all(problem.where.startswith("FILE, line") for problem in problems)


# From where rows are counted.

MARKED = "i,j,first_row,answer\n0,1,0,yes\n1,2,1,no\n"
WRITTEN = "i,j,together,information,settles,answer\n1,2,0.5,0.1,x,yes\n"


def test_files_of_a_command_count_rows_from_one_number(tmp_path: Path) -> None:
    texts = {
        "from 0": "0 2 must 1 ann\n",
        "last": "3 1 must 1 ann\n",
        "either": "1 2 must 1 ann\n",
        "links": "i,j\n2,1\n",
    }
    texts |= {"marked": MARKED, "marked 1": MARKED.replace("0,1,0,yes\n", ""), "written": WRITTEN}
    texts |= {"session": "i,j,annotator,answer\n1,2,ann,no\n", "names": "Ann,Eve,must,1,ann\n"}
    opened = {name: files.PairFile(read_lines(write(tmp_path, text, name))) for name, text in texts.items()}
    opened["links"] = files.PairFile(opened["links"].content, draw.CANNOT)
    at = {name: tmp_path / name for name in texts}
    zero = f"as line 1 of {at['from 0']} names row 0"
    by_ask = (1, "as sweep ask wrote it")
    for names, option, first, why, exceptions in (
        (["either", "links", "last"], "auto", 1, f"as line 1 of {at['last']} names row 3, the last", {}),
        (["either", "links", "from 0"], "auto", 0, zero, {}),
        (["either"], "0", 0, "as --first-row 0 says", {}),
        (["from 0"], "1", 1, "as --first-row 1 says", {}),
        (["marked"], "auto", 0, f"as {at['marked']} says", {}),
        (["from 0", "last"], "auto", 0, zero, {}),
        (["written"], "auto", 1, "as sweep ask wrote it", {}),
        (["marked"], "1", 1, "as --first-row 1 says", {}),
        (["from 0", "marked 1"], "auto", 0, zero, {"marked 1": (1, "as its column first_row says")}),
        (["from 0", "written", "session"], "auto", 0, zero, {"written": by_ask, "session": by_ask}),
        (["written"], "0", 0, "as --first-row 0 says", {}),
    ):
        pair_files = [opened[name] for name in names]
        numbering = numbering_of(pair_files, option, Samples.of(3))
        assert numbering.first_row == first
        assert numbering.reason == why
        assert numbering.is_used
        assert numbering.exceptions == {at[name]: number for name, number in exceptions.items()}
        assert len(numbering.lines()) == 1 + len(exceptions)
    assert numbering_of([opened["names"]], "auto", Samples.of(3)).lines() == []
    # no number is that of a row where names of rows are numbers
    named = Samples(SampleRows(3, names=("0", "2.5", "1")))
    assert numbering_of([opened["from 0"]], "auto", named) == Numbering(1)
    # a row that says from where it counts is read so, however other rows are counted
    for first in (0, 1):
        rows = opened["marked"].table(Samples(SampleRows(2), first))
        assert [(row.first, row.second) for row in rows] == [(0, 1), (0, 1)]
    numbering = numbering_of([opened["from 0"], opened["written"]], "auto", Samples.of(3))
    samples = Samples(SampleRows(3)).counted_from(0)
    for name, second in {"from 0": 2, "written": 1}.items():
        (row,) = opened[name].table(numbering.samples_of(at[name], samples))
        assert row.first == 0
        assert row.second == second
    with pytest.raises(
        InputError, match=r"sample 3, expected 0 to 2 \(samples are counted from 0, as line 1"
    ):
        numbering.samples_of(at["from 0"], samples).position("3", "FILE")
    assert [samples.text(2), samples.identifier(0), samples.cell(1)] == ["2", 0, "1"]


def read_pool(path: Path, samples: Samples | int) -> files.Pool:
    """Return the annotations of a file as cells draw them."""
    return files.read_pool(files.PairFile.of(path), samples)


READ: dict[str, Any] = {"links": links_of, "answers": files.read_answers, "pool": read_pool}
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
        first, second, third = files.read_answers(path, 9)
        assert first.first == 0
        assert first.second == 1
        assert first.kind == draw.MUST
        assert first.count == 1.0
        assert second.first == 2
        assert second.second == 3
        assert second.kind == draw.CANNOT
        assert first.annotator == "asked"
        assert first.accuracy is None
        assert third == Skip(6, 7)
        assert read_annotations(path, 9) == [first, second]
    for word, kind in files.ANSWERS.items():
        (row,) = read_annotations(write(tmp_path, f"i,j,answer\n1,2,{word.upper()}\n"), 2)
        assert row.kind == kind
    path = write(tmp_path, "i,j,annotator,accuracy,answer\n1,2,ann,0.8,yes\n2,1,,,no\n1,2,,,yes\n")
    rows = [(row.annotator, row.accuracy, row.kind) for row in read_annotations(path, 2)]
    assert rows == [("ann", 0.8, draw.MUST), ("asked", None, draw.CANNOT), ("asked", None, draw.MUST)]
    for text in ("i,j,answer\n", "i,j,answer", "i,j,answer\n1,2,\n"):
        assert files.read_answers(write(tmp_path, text), 9) == []
    assert files.separator_of("i j kind weight annotator") is None


def test_wherever_the_last_line_breaks_off_earlier_answers_are_read(tmp_path: Path) -> None:
    begin, last = "i,j,annotator,answer\n1,2,asked,yes\n", "3,9,asked,skip\n"
    for length in range(len(last)):
        first, *later = files.read_answers(write(tmp_path, begin + last[:length]), 9)
        assert first.first == 0
        assert first.second == 1
        assert first.kind == draw.MUST
        assert later == ([Skip(2, 8)] if last[:length].removeprefix("3,9,asked,") in files.SKIPS else [])
    for word, kind in (
        ("y", draw.MUST),
        ("ye", draw.MUST),
        ("yes", draw.MUST),
        ("n", draw.CANNOT),
        ("no", draw.CANNOT),
    ):
        *_, row = files.read_answers(write(tmp_path, f"{begin}3,9,asked,{word}"), 9)
        assert row.kind == kind
    with pytest.raises(InputError, match="line 3: found 5 cells, expected 4 as in the header"):
        files.read_answers(write(tmp_path, f"{begin}3,9,asked,yes,more"), 9)
    text = 'i,j,note,answer\n1,2,"a\n\n# b, c",yes\n\n# 3,4,x,no\n3,4,"d\n e",no\n5,99,f,no\n6,7,"g\n'
    path = write(tmp_path, text.replace("5,99", "5,9").replace('6,7,"g\n', '6,7,"g'))
    rows = [(row.line, row.first, row.kind) for row in read_annotations(path, 9)]  # the last one broke off
    assert rows == [(2, 0, draw.MUST), (7, 2, draw.CANNOT), (9, 4, draw.CANNOT)]


NAMES = ("=a", "'=a", "-1+2", "@b", "+c", "''-d", "plain", "-5.5.", "e\x1b[31m", "'f")


def test_names_that_a_spreadsheet_takes_as_formulas_go_round(tmp_path: Path) -> None:
    samples = Samples(SampleRows(10, None, NAMES))
    cells = [samples.cell(position) for position in range(10)]
    assert cells == ["'=a", "''=a", "'-1+2", "'@b", "'+c", "'''-d", "plain", "'-5.5.", "9", "'f"]
    rows = [f"{cells[i]},{cells[i - 1]},yes,'=who" for i in range(10)]
    pairs = read_annotations(write(tmp_path, "\n".join(["i,j,answer,annotator", *rows]) + "\n"), samples)
    assert [(row.first, row.second) for row in pairs] == [(i, (i - 1) % 10) for i in range(10)]
    assert {row.annotator for row in pairs} == {"=who"}
    # a program that takes quotes away leaves such names
    path = write(tmp_path, "i,j,answer\n=a,@b,yes\nplain,'f,no\n")
    assert [(row.first, row.second) for row in files.read_answers(path, samples)] == [(0, 3), (6, 9)]


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
LEFT_OUT = (
    'a row that is used (it has an empty cell, and missing = "drop" leaves it out;'
    ' links_outside = "drop" leaves out its annotations)'
)


def test_what_a_text_stands_for() -> None:
    used_rows, counted = np.array([0, 2, 3]), "(samples are counted from 1)"
    for rows, positions, wrong in (
        (SampleRows(4, used_rows), {"1": 0, "3": 1, "4": 2}, {"2": LEFT_OUT, "5": f"1 to 4 {counted}"}),
        (SampleRows(3), {"3": 2}, {"x": f"1 to 3 {counted}"}),
        (SampleRows(4, used_rows, OWN), {"Eve": 1, "3": 1, "Ann B.": 0},
         {"Bob": LEFT_OUT, "Evee": "the name of a row, or 1 to 4 (did you mean 'Eve'?)"}),
        # names that are numbers are no rows
        (SampleRows(3, None, ("101", "2", "x")), {"101": 0, "2": 1, "x": 2}, {"1": "the name of a row"}),
    ):  # fmt: skip
        samples = Samples(rows)
        assert {cell: samples.position(cell, "") for cell in positions} == positions
        for cell, expected in wrong.items():
            with pytest.raises(InputError) as caught:
                samples.position(cell, "FILE")
            assert cell in caught.value.problems[0].value
            assert str(caught.value).endswith(f", expected {expected}")
        assert str(samples.identifier(1)) == samples.text(1)
        assert samples.position(samples.text(1), "") == 1


# Single annotations of a file: what a line stands for, and draws without replacement.

TEXT = "1 2 must 1 ann\n2 1 cannot 3 bob 0.9\n3 3 must 4 ann\n"


@pytest.mark.parametrize(
    ("text", "is_hard"),
    [
        ("1 2 must! 1 ann\n1 3 c! 3 ann\n2 3 m inf ann\n1 2 + 5 ann\n", [True, True, True, False]),
        ("i,j,kind\n1,2,MUST!\n1,3,different!\n2,3,apart\n", [True, True, False]),
        ("i,j,kind,weight\n1,2,must!,\n3,3,must!,1\n2,3,m,2\n", [True, True, False]),
        ("i,j,answer\n1,2,yes!\n1,3,N!\n2,3,no\n", [True, True, False]),
    ],
)
def test_an_exclamation_mark_or_an_infinite_weight_makes_a_link_hard(
    text: str, is_hard: list[bool], tmp_path: Path
) -> None:
    rows = files.PairFile.of(write(tmp_path, text)).table(Samples.of(3))
    assert rows.columns["is_hard"].tolist() == is_hard
    assert [row.is_hard for row in rows if isinstance(row, Annotation)] == is_hard
    with pytest.raises(InputError, match="a hard link"):
        read_pool(write(tmp_path, text), 3)


def test_link_files_take_an_infinite_weight(tmp_path: Path) -> None:
    rows = files.PairFile.of(write(tmp_path, "1 2 inf\n1 1 inf\n2 3 2\n"), draw.MUST).table(Samples.of(3))
    assert rows.columns["is_hard"].tolist() == [True, True, False]
    assert rows.columns["count"].tolist() == [1, 1, 2]


def test_a_line_stands_for_as_many_annotations_as_its_weight_says(tmp_path: Path) -> None:
    pool = read_pool(write(tmp_path, TEXT), 3)[0]
    assert pool.dtype == np.int32
    assert pool.tolist() == [[0, 1, 0], *[[1, 0, 1]] * 3, *[[2, 2, 0]] * 2]
    assert read_pool(write(tmp_path, "# nobody has answered\n"), 3)[0].shape == (0, 3)
    text = "i,j,probability,answer\n1,2,0.5,y\n1,3,0.4,n\n2,3,0.4,\n"
    assert read_pool(write(tmp_path, text), 3)[0].tolist() == [[0, 1, 0], [0, 2, 1]]
    # the checksum is that of the pool
    texts = (TEXT, "# answers\n1,2,m,1,ann\n2,1,c,1,eve\n2,1,-,2,bob\n3,3,+,4,ann\n")
    changes = (("cannot 3", "cannot 2"), ("2 1", "1 2"), ("3 3", "2 2"))
    pools = [
        read_pool(write(tmp_path, text), 3)[0]
        for text in (*texts, *(TEXT.replace(*change) for change in changes))
    ]
    sums = [files.pool_checksum(pool) for pool in pools]
    assert sums[0] == sums[1]
    assert len(set(sums)) == 4


LABELS = np.repeat(np.arange(3, dtype=np.int16), [50, 30, 20])


@pytest.mark.parametrize("p", [0.6, 0.9, 1.0])
def test_the_share_of_right_annotations_is_the_accuracy_and_pairs_are_uniform(p: float) -> None:
    n = 400_000
    i, j, kind = draw.draw_annotations(np.random.default_rng(0), LABELS, p=p, m=n).T
    agrees = LABELS[i] == LABELS[j]
    right = (kind == draw.MUST) == agrees
    for part in (agrees, ~agrees, i == j):
        assert abs(right[part].mean() - p) <= 5 * np.sqrt(p * (1 - p) / part.sum())
    assert abs((i == j).mean() - 0.01) < 5 * np.sqrt(0.01 * 0.99 / n)
    for ends in (i, j):
        counts = np.bincount(ends, minlength=100)
        assert abs(counts - n / 100).max() < 5.5 * np.sqrt(n / 100)


@pytest.mark.parametrize("n_samples", [2, 12, 100])
def test_a_near_design_draws_uniformly_from_the_nearest_neighbours(n_samples: int) -> None:
    rng, m = np.random.default_rng(3), 100_000
    X = rng.integers(0, 3, size=(n_samples, 4)).astype(float)  # many distances are equal
    i, j, kind = draw.draw_near(rng, LABELS[:n_samples], X, p=1.0, m=m).T
    n_neighbours = min(draw.N_NEIGHBOURS, n_samples - 1)
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    farthest = np.sort(distances, axis=1)[:, n_neighbours - 1]
    assert (distances[i, j] <= farthest[i]).all()
    counts = np.zeros((n_samples, n_samples))
    np.add.at(counts, (i, j), 1)
    assert ((counts > 0).sum(axis=1) == n_neighbours).all()
    expected = m / n_samples / n_neighbours
    assert abs(counts[counts > 0] - expected).max() < 6 * np.sqrt(expected)
    assert np.array_equal(kind == draw.MUST, LABELS[i] == LABELS[j])


def test_neighbours_are_those_of_a_sort_of_all_distances() -> None:
    X = np.random.default_rng(4).normal(size=(300, 7))
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    samples = np.arange(0, 300, 7)
    assert np.array_equal(
        draw.nearest_neighbours(X, samples, 20), np.argsort(distances, axis=1)[samples, :20]
    )


def test_a_biased_design_draws_the_first_third_of_an_order_more_often() -> None:
    m, order = 200_000, np.random.default_rng(1).permutation(100)
    i, j, kind = draw.draw_biased(np.random.default_rng(2), LABELS, order, p=1.0, m=m).T
    assert np.array_equal(kind == draw.MUST, LABELS[i] == LABELS[j])
    often = np.zeros(100, dtype=bool)
    often[order[:33]] = True
    share = draw.OFTEN * 33 / (draw.OFTEN * 33 + 67)
    for ends in (i, j):
        assert abs(often[ends].mean() - share) < 5 * np.sqrt(share * (1 - share) / m)
    share_of_both = (often[i] & often[j]).mean()
    assert abs(share_of_both - share**2) < 5 * np.sqrt(share**2 * (1 - share**2) / m)


def test_a_crowd_has_the_quantiles_of_its_accuracies_and_the_median_is_the_accuracy_of_the_cell() -> None:
    quantiles, leaning = ((0.1, 0.5), (0.25, 0.6), (0.5, 0.7), (0.75, 0.77), (1.0, 0.9)), (-0.15, 0.8)
    shares, values = np.array(quantiles).T
    for p in (0.7, 0.6, 0.9):
        rng = np.random.default_rng(5)
        accuracies = draw.draw_accuracies(rng, 40_000, quantiles=quantiles, leaning=leaning, p=p)
        moved = expit(logit(values) - logit(0.7) + logit(p))
        assert np.allclose(np.quantile(accuracies.mean(axis=1), shares[:-1]), moved[:-1], atol=0.01)
        # the two kinds of pairs are one level of log odds, plus and minus the leaning
        tilt = (logit(accuracies[:, 0]) - logit(accuracies[:, 1])) / 2
        assert abs(tilt.mean() + 0.15) < 0.02
        assert abs(tilt.std() - 0.8) < 0.02
    few = draw.draw_accuracies(np.random.default_rng(5), 7, quantiles=quantiles, leaning=leaning, p=0.9)
    assert np.array_equal(few, accuracies[:7])
    rng = np.random.default_rng(5)
    assert (draw.draw_accuracies(rng, 3, quantiles=quantiles, leaning=leaning, p=1.0) == 1.0).all()
    rng = np.random.default_rng(5)
    alike = draw.draw_accuracies(rng, 3, quantiles=((0.5, 0.7),), leaning=(0.0, 0.0), p=0.8)
    assert np.allclose(alike, 0.8, rtol=1e-12)


def test_annotators_of_a_crowd_answer_in_turn_with_their_accuracies() -> None:
    accuracies, per_annotator = np.array([[0.9, 0.6], [0.2, 0.7], [0.5, 0.5]]), 100_000
    rng = np.random.default_rng(6)
    crowd = draw.draw_crowd(rng, LABELS, accuracies, answers=per_annotator, unsure=0.1, m=250_000)
    is_unsure = crowd[:, 2] == draw.UNSURE
    assert abs(is_unsure.mean() - 0.1) < 0.005
    agrees = LABELS[crowd[:, 0]] == LABELS[crowd[:, 1]]
    is_right = (crowd[:, 2] == draw.MUST) == agrees
    for annotator, start in enumerate((0, per_annotator, 2 * per_annotator)):
        rows = np.zeros(len(crowd), bool)
        rows[start : start + per_annotator] = True
        for side, pairs in enumerate((agrees, ~agrees)):
            assert abs(is_right[rows & pairs & ~is_unsure].mean() - accuracies[annotator, side]) < 0.01
    # a crowd of one accuracy, none of whom is unsure, gives the answers of a uniform design
    alike, rng = np.full((3, 2), 0.8), np.random.default_rng(7)
    crowd = draw.draw_crowd(rng, LABELS, alike, answers=100, unsure=0.0, m=250)
    assert np.array_equal(crowd, draw.draw_annotations(np.random.default_rng(7), LABELS, p=0.8, m=250))
