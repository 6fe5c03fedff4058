"""Annotations are read by their distinct cells, and equal those of the reader of single lines."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_tables import read_annotations, write_frame

from sweep_clustering.sweeps.annotations import files
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.files import PairFile
from sweep_clustering.sweeps.annotations.rows import Annotation, AnnotationRows, Row, Samples, Skip
from sweep_clustering.sweeps.data import columns
from sweep_clustering.sweeps.data.columns import Columns
from sweep_clustering.sweeps.data.lines import Lines, shortened
from sweep_clustering.sweeps.data.table import SampleRows, TableChoice
from sweep_clustering.sweeps.errors import InputError, Problem, collecting

ENDS = st.sampled_from(("1", "2", "3", "a", "b c", "01", "0", "9", "-1", "x", "", "1.0", "ä", "\u00a02"))
KIND = st.sampled_from(("must", "c", "no", "1", "?", "", "skip", "Must", "'-"))
WEIGHT = st.sampled_from(("1", "2", "0.5", "3", "-1", "w", "1e300", ""))
WHO = st.sampled_from(("ann", "bob", "", "'=x", "ann lee"))
SURE = st.sampled_from(("", "0.9", "2", "1"))
MARK = st.sampled_from(("", "0", "1", "7"))
COLUMNS = {
    "i": ENDS,
    "j": ENDS,
    "kind": KIND,
    "weight": WEIGHT,
    "annotator": WHO,
    "accuracy": SURE,
    "first_row": MARK,
    "answer": KIND,
    "note": WHO,
}
SAMPLES = {
    "numbers": Samples.of(3),
    "names": Samples(SampleRows(3, names=("a", "b c", "ä"))),
    "kept": Samples(SampleRows(3, selection=np.array([0, 2]))),
    "named by numbers": Samples(SampleRows(3, names=("2", "3", "1"))),
}


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw the text of an annotation file, right or wrong, with or without a header."""
    if draw(st.booleans()):
        names = list(COLUMNS)[: draw(st.integers(2, 6))]
        header = []
    else:
        names = draw(
            st.lists(st.sampled_from(sorted(COLUMNS)), min_size=2, max_size=6, unique=draw(st.booleans()))
        )
        names = [*{"i", "j"}.difference(names), *names]
        header = [names]
    rows = draw(st.lists(st.tuples(*(COLUMNS[name] for name in names)), max_size=8))
    separator = draw(st.sampled_from((",", "\t", ";", " ", "  ", ", ")))
    lines = [separator.join(row) for row in [*header, *rows]]
    lines = [*draw(st.sampled_from(((), ("# links",), ("", "# links", "")))), *lines]
    if draw(st.booleans()):
        lines.insert(
            draw(st.integers(0, len(lines))), draw(st.sampled_from(("", "# a", '"1",2,must', "1 2 must")))
        )
    return "\n".join(lines) + draw(st.sampled_from(("\n", "", "\n\n")))


def read_one_by_one(columns: Columns, find: object, read: Callable[[int, Any], Row | None]) -> AnnotationRows:
    """Judge each row alone."""
    rows, problems = list[Row](), list[Problem]()
    for place, line in enumerate(columns.lines.tolist()):
        with collecting(problems):
            row = read(line, columns.row(place))
            rows += [] if row is None else [row]
    if problems:
        raise InputError(shortened(columns.path, problems), AnnotationRows.of(rows).kept_rows)
    return AnnotationRows.of(rows).kept_rows


def outcome(file: PairFile, samples: Samples) -> tuple[list[Row], list[Problem]]:
    try:
        return list(file.table(samples)), []
    except InputError as error:
        return list(error.rest or ()), list(error.problems)


@settings(deadline=None, max_examples=400)
@given(text=texts(), kind=st.sampled_from((None, None, 0)), called=st.sampled_from(sorted(SAMPLES)))
def test_distinct_cells_say_what_single_lines_say(text: str, kind: int | None, called: str) -> None:
    """Both readers give the same rows and the same problems in the same order."""
    lines, samples = Lines(Path("own.csv"), text.encode()), SAMPLES[called]
    with pytest.MonkeyPatch.context() as patch:
        at_once = []
        for few in (columns.FEW_CELLS, 0):
            patch.setattr(columns, "FEW_CELLS", few)
            at_once.append(outcome(PairFile(lines, kind), samples))
        patch.setattr(files, "parse_plain", lambda *_: None)
        by_line = outcome(PairFile(lines, kind), samples)
        patch.setattr(files, "read_rows", read_one_by_one)
        one_by_one = outcome(PairFile(lines, kind), samples)
    assert by_line == one_by_one
    assert at_once == [one_by_one] * 2


@pytest.mark.parametrize(
    "text",
    [
        "1,2,must\n2,3,cannot\n",
        "# links\n\n1 2 must\n2 3 cannot",
        "1\t2\tmust\t2\n2\t3\tcannot\t1\n",
        "1;2;must\n2;3;cannot\n",
        "i,j,kind,annotator\n1,2,must,ann\n2,3,cannot,bob\n",
        "a,b,answer\n1,2,yes\n2,3,no\n",
    ],
)
def test_plain_files_are_not_read_line_by_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test before would compare a reader with itself."""
    for name in ("split_lines", "split_rows"):
        monkeypatch.setattr(files, name, lambda *_: pytest.fail("a line was read"))
    rows = PairFile(Lines(Path("own"), text.encode())).table(Samples.of(3)).columns
    assert rows[["first", "second", "kind"]].tolist() == [(0, 1, MUST), (1, 2, CANNOT)]


def test_columns_are_the_rows_that_they_were_made_from() -> None:
    rows: list[Row] = [
        Annotation(Path("a"), 3, 0, 1, 0, 2.5, "bob", 0.75),
        Skip(4, 5, "eve", 2.0),
        Annotation(Path("b"), 1, 2, 2, 1, 1.0),
    ]
    columns = AnnotationRows.of(rows)
    assert list(columns) == rows
    assert list(columns.answers) == [rows[0], rows[2]]
    again = AnnotationRows.join([AnnotationRows.of(rows[2:]), AnnotationRows.of([]), columns])
    assert list(again) == [rows[2], *rows]
    assert again.annotators == ("links", "bob", "eve")
    assert list(again.skips) == [rows[1]]
    assert list(AnnotationRows.join([])) == []


FRAME = pd.DataFrame(
    {
        "i": [1, 2, 3],
        "j": [2, 3, 3],
        "kind": ["must", "cannot", "must"],
        "weight": [1.0, 2.5, 2.0],
        "accuracy": [np.nan, 0.9, np.nan],
    }
)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather", "npz"])
def test_unsure_answers_are_counted_whatever_the_file_calls_them(suffix: str, tmp_path: Path) -> None:
    words = ["must", "unsure", "?", "NA", "" if suffix == "npz" else None, "Unsure", "cannot"]
    frame = pd.DataFrame({"i": range(1, 8), "j": range(2, 9), "kind": words, "annotator": list("aabbcca")})
    rows = PairFile.of(write_frame(frame, tmp_path / f"links.{suffix}")).table(Samples.of(8))
    assert [row.line for row in rows.answers if isinstance(row, Annotation)] == (
        [2, 8] if suffix == "csv" else [1, 7]
    )
    assert list(rows.skips) == [Skip(n, n + 1, who) for n, who in zip(range(1, 6), "abbcc", strict=True)]


def test_an_empty_answer_is_no_unsure_one(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text("i,j,annotator,answer\n1,2,ann,\n2,3,ann,unsure\n3,4,ann,?\n4,5,ann,skip\n")
    rows = PairFile.of(path).table(Samples.of(8))
    assert list(rows) == [Skip(n, n + 1, "ann") for n in (1, 2, 3)]


@pytest.mark.parametrize("suffix", ["parquet", "feather", "npz"])
def test_files_of_columns_say_what_a_text_says(suffix: str, tmp_path: Path) -> None:
    text = read_annotations(write_frame(FRAME, tmp_path / "links.csv"), 3)
    rows = read_annotations(write_frame(FRAME, tmp_path / f"links.{suffix}"), 3)
    plain = [(r.first, r.second, r.kind, r.count, r.annotator, r.accuracy) for r in text]
    assert [(r.first, r.second, r.kind, r.count, r.annotator, r.accuracy) for r in rows] == plain
    assert [row.line for row in rows] == [1, 2, 3]
    links = write_frame(
        FRAME[["i", "j"]].set_axis(["First", " Second"], axis=1), tmp_path / f"links.{suffix}"
    )
    assert [(link.first, link.second) for link in read_annotations(links, 3, MUST)] == [
        (0, 1),
        (1, 2),
        (2, 2),
    ]


@pytest.mark.parametrize("suffix", ["parquet", "feather", "npz"])
def test_all_that_is_wrong_with_a_file_of_columns_is_named(suffix: str, tmp_path: Path) -> None:
    wrong = FRAME.assign(i=[1.5, 2.0, 9.0], kind=["must", "perhaps", "must"])
    with pytest.raises(InputError) as caught:
        read_annotations(path := write_frame(wrong, tmp_path / f"links.{suffix}"), 3)
    problems = [(problem.where, problem.value) for problem in caught.value.problems]
    assert problems == [
        (f"{path}, row 1", "sample '1.5'"),
        (f"{path}, row 2", "kind 'perhaps'"),
        (f"{path}, row 3", "sample 9"),
    ]
    with pytest.raises(InputError, match="no column 'j'"):
        read_annotations(write_frame(FRAME.drop(columns="j"), tmp_path / f"links.{suffix}"), 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.npz", "shape (2, 2)"),
        ("b.npz", "2 of 'i', 2 of 'j', 3 of 'kind'"),
        ("c.npz", "no columns"),
        ("d.parquet", "list<"),
        ("e.parquet", "a broken file"),
        ("f.npz", "a broken file"),
        ("g.feather", "a broken file"),
    ],
)
def test_files_that_are_no_columns_are_refused(name: str, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", i=np.ones((2, 2)), j=np.ones(2), kind=np.ones(3))
    np.savez(tmp_path / "b.npz", i=np.ones(2), j=np.ones(2), kind=np.ones(3))
    np.savez(tmp_path / "c.npz")
    pd.DataFrame({"i": [[1], [2]], "j": [1, 2], "kind": [1, 1]}).to_parquet(tmp_path / "d.parquet")
    (tmp_path / "e.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "f.npz").write_bytes(b"PK no")
    (tmp_path / "g.feather").write_bytes(b"")
    with pytest.raises(InputError) as caught:
        read_annotations(tmp_path / name, 3)
    assert message in caught.value.problems[0].value


def test_names_of_samples_are_the_same_by_columns_and_by_lines() -> None:
    text = "i,j,kind\n2,b,must\n0,a,must\n2,x,must\n"
    mentions = PairFile(Lines(Path("own"), text.encode())).mentions
    assert mentions.row_0 == 3
    assert mentions.has_numbers
    assert mentions.texts == frozenset("abx")
    by_line = PairFile(Lines(Path("own"), io.BytesIO(text.replace("x,", '"x",').encode()).read())).mentions
    assert by_line == mentions


@pytest.mark.parametrize("order", ["<", ">"])
def test_arrays_of_either_byte_order_are_read(order: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    arrays = {
        "i": ("i8", [1, 2]),
        "j": ("f8", [2, 3]),
        "kind": ("U6", ["must", "cannot"]),
        "weight": ("f4", [2, 1]),
    }
    np.savez(path, **{name: np.array(values, dtype=order + kind) for name, (kind, values) in arrays.items()})
    first, second = read_annotations(path, 3)
    assert first.first == 0
    assert first.second == 1
    assert second.first == 1
    assert second.second == 2
    assert [first.kind, second.kind] == [0, 1]
    assert [first.count, second.count] == [2, 1]


@pytest.mark.parametrize(
    "rows",
    [["1,2,mst"], ["1,9,must"], ["1,2,must,0"], ["1,2,mst", "1,9,must"], ["1,9,must", "1,2,mst"]],
)
def test_many_wrong_rows_are_counted_as_one_by_one(rows: list[str], tmp_path: Path) -> None:
    """A quote in the last line lets the lines be read one by one."""
    messages, counts = set[str](), set[int]()
    width = rows[0].count(",")
    many = [row for row in rows for _ in range(1000)]
    for last in ("1,2,must" + ",1" * (width - 2), '"1",2,must' + ",1" * (width - 2)):
        path = tmp_path / "a.csv"
        path.write_text("\n".join(many + [last] + rows[:1] * 500) + "\n")
        with pytest.raises(InputError) as caught:
            PairFile.of(path).table(Samples.of(5))
        messages.add(str(caught.value))
        counts.add(caught.value.n_problems)
    assert counts == {len(many) + 500}
    assert len(messages) == 1
    assert "lines 1, 2, 3 and 1,497 more: found" in messages.pop()


def test_annotators_are_numbered_by_their_first_row() -> None:
    text = "i,j,kind,annotator\n1,1,cannot,bob\n1,2,must,ann\n"
    rows = PairFile(Lines(Path("own.csv"), text.encode())).table(Samples.of(3))
    assert rows.annotators == ("bob", "ann")
    assert rows.columns["annotator"].tolist() == [0, 1]


def test_a_pair_of_rows_that_were_left_out_does_not_say_how_a_self_pair_counts() -> None:
    samples = Samples(
        SampleRows(3, selection=np.array([0, 2])), choice=TableChoice(missing="drop", links_outside="drop")
    )
    text = "i,j,kind,weight\n2,2,must,2\n1,1,must,2\n1,3,must,2\n"
    rows = PairFile(Lines(Path("own.csv"), text.encode())).table(samples)
    assert rows.columns["count"].tolist() == [1.0, 2.0]
    assert rows.n_outside == 1


def test_a_wrong_row_more_than_are_read_to_the_end_is_counted_too() -> None:
    text = "i,j,kind\n" + "1,2,mst\n" * 21
    with pytest.raises(InputError) as caught:
        PairFile(Lines(Path("own.csv"), text.encode())).table(Samples.of(3))
    assert caught.value.n_problems == 21


def test_the_first_line_that_names_row_0_is_named() -> None:
    mentions = PairFile(Lines(Path("own"), b"1 2 must\n0 1 must\n2 0 must\n")).mentions
    assert mentions.row_0 == 2


def test_the_first_line_that_names_the_largest_row_is_named() -> None:
    mentions = PairFile(Lines(Path("own"), b"1 2 must\n9 1 must\n2 9 must\n")).mentions
    assert mentions.largest_line == 2


def test_annotations_that_were_left_out_of_any_file_are_counted() -> None:
    parts = [AnnotationRows(AnnotationRows.of([]).columns, n_outside=count) for count in (2, 3)]
    assert AnnotationRows.join(parts).n_outside == 5
