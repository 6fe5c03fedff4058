"""Files hold labels of rows."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweep_clustering.kernels.settings import UNLABELLED
from sweep_clustering.sweeps.annotations.labels import NO_LABEL, LabelFile, RowLabels
from sweep_clustering.sweeps.annotations.numbering import numbering_of
from sweep_clustering.sweeps.annotations.rows import Samples
from sweep_clustering.sweeps.data.table import SampleRows
from sweep_clustering.sweeps.errors import InputError

ROWS = 6
WANTED = ["a", "", "b b", "a", "", ""]


def read(path: Path, samples: Samples | int = ROWS) -> RowLabels:
    row_samples = Samples.of(samples)
    return LabelFile(LabelFile.of(path).content, row_samples.rows.n_rows).labels(row_samples)


def cells(labels: RowLabels) -> list[str]:
    return [labels.names[code] if code != UNLABELLED else "" for code in labels.codes.tolist()]


def problems(path: Path, samples: Samples | int = ROWS) -> str:
    with pytest.raises(InputError) as caught:
        read(path, samples)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a\n\nb b\na\n\n\n",
        "a\n?\nb b\na\n-1\nNA",
        "label\na\n\nb b\na\n\n\n",
        '# a comment\n"a"\n""\n"b b"\na\nnan\nN/A\n',
        "row,label\n1,a\n3,b b\n4,a\n5,?\n",
        "label;row\na;1\nb b;3\na;4\n",
        "1\ta\n3\tb b\n4\ta\n",
        "1,a\n3,b b\n4,a\n4,a\n2,NA\n",
        "\ufeffid,class\r\n1,a\r\n3,b b\r\n4,a\r\n",
        "1.0,a\n3,b b\n4,a\n",
    ],
)
def test_text_gives_the_labels(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    assert cells(read(tmp_path / "labels.csv")) == WANTED


def test_blanks_separate_two_columns(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("1 a\n3  b\n", encoding="utf-8")
    assert cells(read(tmp_path / "labels.txt")) == ["a", "", "b", "", "", ""]


def test_one_column_of_numbers_has_minus_one_for_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "labels.npz", y=np.array([2, -1, 0, 2, -1, 10]))
    labels = read(tmp_path / "labels.npz")
    assert labels.names == ("0", "2", "10")
    assert labels.codes.tolist() == [1, -1, 0, 1, -1, 2]


def test_names_of_rows_stand_for_them(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("row,label\nx,a\nz,b\n", encoding="utf-8")
    samples = Samples(SampleRows(3, names=("x", "y", "z")))
    assert cells(read(tmp_path / "labels.csv", samples)) == ["a", "", "b"]


def test_rows_that_are_left_out_have_no_label(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("a\nb\nc\n", encoding="utf-8")
    samples = Samples(SampleRows(3, selection=np.array([0, 2])))
    assert cells(read(tmp_path / "labels.txt", samples)) == ["a", "c"]


def test_every_problem_is_in_one_report(tmp_path: Path) -> None:
    long, other = "a" * 61, "c" * 61
    (tmp_path / "labels.csv").write_text(f"row,label\n1,{long}\n7,b\n1,{other}\nfoo,a\n", encoding="utf-8")
    text = problems(tmp_path / "labels.csv")
    assert "line 3: found sample 7" in text
    assert f"line 4: found label {other[:60]!r}, and {long[:60]!r} in line 2" in text
    assert "line 5: found sample 'foo'" in text


def test_rows_of_other_numbers_of_cells_are_named(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("row,label\n1,a\n2\n3,b,c\n", encoding="utf-8")
    text = problems(tmp_path / "labels.csv")
    assert "line 3: found 1 cell, expected two, row and label" in text
    assert "line 4: found 3 cells, expected two, row and label" in text


def test_blank_line_counts_as_a_line_of_labels(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("a\n\nb\n\n", encoding="utf-8")
    assert f"4 lines for {ROWS} rows" in problems(tmp_path / "labels.txt")


def test_blank_line_behind_the_last_label_is_no_row(tmp_path: Path) -> None:
    labels = [["a", "b"][row % 2] for row in range(ROWS)]
    (tmp_path / "labels.txt").write_text("\n".join(labels) + "\n\n", encoding="utf-8")
    assert cells(read(tmp_path / "labels.txt")) == labels


def test_file_of_comments_has_no_labels_if_the_table_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("# nothing yet", encoding="utf-8")
    assert len(LabelFile(LabelFile.of(tmp_path / "labels.txt").content).labels(Samples.of(ROWS)).codes) == 0


@pytest.mark.parametrize("text", ["a\nb\n", "1,a,x\n2,b,y\n", "a\nb\nc\nd\ne\nf\ng\nh\n"])
def test_other_numbers_of_lines_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    assert "a label for each row, or two columns, row and label" in problems(tmp_path / "labels.csv")


def test_file_without_labels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("\n?\nNA\n\n-1\n\n", encoding="utf-8")
    assert "no labels of rows that are used" in problems(tmp_path / "labels.txt")


def test_unknown_columns_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "labels.npz", a=np.arange(3), b=np.arange(3))
    assert "one column of labels, or two" in problems(tmp_path / "labels.npz")


@pytest.mark.parametrize(("cell", "first"), [("0", 0), (str(ROWS), 1)])
def test_file_says_from_where_it_counts(tmp_path: Path, cell: str, first: int) -> None:
    (tmp_path / "labels.csv").write_text(f"row,label\n1,a\n{cell},b\n", encoding="utf-8")
    file = LabelFile(LabelFile.of(tmp_path / "labels.csv").content, ROWS)
    assert numbering_of([file], "auto", Samples.of(ROWS)).first_row == first


@pytest.mark.parametrize("first", [0, 1])
def test_distances_say_from_where_a_file_counts(tmp_path: Path, first: int) -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 120)
    X = rng.normal(6.0 * classes[:, None], 1.0, (120, 2))
    rows = range(2, 118)
    text = "".join(f"{row + first},{classes[row]}\n" for row in rows)
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    file = LabelFile(LabelFile.of(tmp_path / "labels.csv").content, 120)
    numbering = numbering_of([file], "auto", Samples.of(120), X)
    assert numbering.first_row == first
    assert numbering.problem is None


def test_file_whose_rows_are_all_wrong_leaves_the_numbering_open(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("row,label\n99,a\nfoo,b\n", encoding="utf-8")
    file = LabelFile(LabelFile.of(tmp_path / "labels.csv").content, ROWS)
    X = np.arange(ROWS, dtype=float)[:, None]
    problem = numbering_of([file], "auto", Samples.of(ROWS), X).problem
    assert problem is not None
    assert "may count from 0 or from 1" in str(problem)


@pytest.mark.parametrize("seed", range(30))
def test_forms_of_the_same_labels_are_read_alike(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows, words = int(rng.integers(1, 40)), ["a", "B c", "3", "-2.5", "x;y", "é", "1e3", "yes"]
    labels = [str(rng.choice(words)) if rng.random() < 0.6 else "" for _ in range(n_rows)]
    labels[int(rng.integers(n_rows))] = "a"
    samples = Samples.of(n_rows).counted_from(int(rng.integers(2)))
    empty = [str(rng.choice(NO_LABEL)) for _ in labels]
    table = pd.DataFrame({"label": [word or none for word, none in zip(labels, empty, strict=True)]})
    table.insert(0, "row", np.arange(n_rows) + samples.first_row)
    shuffled = table.sample(frac=1.0, random_state=seed)
    form = seed % 5
    path = tmp_path / ("labels.parquet" if form == 3 else "labels.npz" if form == 4 else "labels.csv")
    if form == 0:
        path.write_text("\n".join(table["label"]) + "\n", encoding="utf-8")
    elif form == 1:
        shuffled.to_csv(path, index=False)
    elif form == 2:
        shuffled.to_csv(path, index=False, header=False, sep="\t")
    elif form == 3:
        shuffled.rename(columns=lambda name: f" {name.title()} ").to_parquet(path)
    else:
        np.savez(path, label=table["label"].to_numpy().astype(str))
    assert cells(read(path, samples)) == labels


@pytest.mark.parametrize("seed", range(60))
def test_any_file_gives_labels_or_a_report(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    marks = [bytes([byte]) for byte in b'12a,\t; \n"#?\xff\0']
    marks += [b"-1", b"\r\n", b"row,label\n", b"\xef\xbb\xbf", b"1,a\n2,b\n"]
    path = tmp_path / f"labels{rng.choice(['.csv', '.txt', '.parquet', '.npz'])}"
    path.write_bytes(b"".join(marks[place] for place in rng.integers(len(marks), size=rng.integers(30))))
    labels = None
    with suppress(InputError):
        labels = read(path, Samples.of(int(rng.integers(1, 8))))
    assert labels is None or labels.names
