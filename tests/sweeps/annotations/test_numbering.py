"""Answers, or else the user, say from where files count rows that do not say it."""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from own_tables import write_frame

from sweep_clustering.sweeps.annotations.files import PairFile
from sweep_clustering.sweeps.annotations.numbering import Numbering, numbering_of, verdict
from sweep_clustering.sweeps.annotations.rows import Samples
from sweep_clustering.sweeps.data.reading import read_table
from sweep_clustering.sweeps.data.table import SampleRows, TableChoice, identity
from sweep_clustering.sweeps.errors import InputError

N = 500


def table(
    seed: int, n_rows: int = N, *, is_sorted: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rows of three clusters and their classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n_rows)
    labels = np.sort(labels) if is_sorted else labels
    return rng.normal(size=(3, 6))[labels] * 2 + rng.normal(size=(n_rows, 6)), labels


def answers(seed: int, labels: NDArray[np.int64], count: int = 300, accuracy: float = 0.9) -> pd.DataFrame:
    """Return answers on rows from 0, of which none is the first or the last."""
    rng = np.random.default_rng(seed + 1000)
    i, j = rng.integers(1, len(labels) - 1, (2, count))
    i, j = i[i != j], j[i != j]
    is_must = (labels[i] == labels[j]) == (rng.random(len(i)) < accuracy)
    return pd.DataFrame({"i": i, "j": j, "kind": np.where(is_must, "must", "cannot")})


def number_file(
    folder: Path, pairs: pd.DataFrame, X: NDArray[np.float64], rows: SampleRows | None = None
) -> Numbering:
    """Return the numbering of a file of these pairs."""
    pairs.to_csv(folder / "a.csv", index=False)
    return numbering_of([PairFile.of(folder / "a.csv")], "auto", Samples(rows or SampleRows(len(X))), X)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kinds", [["must", "cannot"], ["must"]])
def test_answers_say_from_where_they_count(tmp_path: Path, first: int, kinds: list[str]) -> None:
    X, labels = table(first)
    pairs = answers(first, labels, 600)
    pairs = pairs[pairs["kind"].isin(kinds)]
    pairs[["i", "j"]] += first
    numbering = number_file(tmp_path, pairs, X)
    assert numbering.problem is None
    assert numbering.first_row == first
    assert numbering.reason.startswith("as the answers say")


def test_answers_that_are_not_clear_are_asked_about(tmp_path: Path) -> None:
    X, labels = table(1)
    in_order, classes = table(1, is_sorted=True)
    random = answers(1, labels)
    random["kind"] = np.random.default_rng(1).permutation(random["kind"])
    for pairs, features in ((answers(1, labels, 9), X), (random, X), (answers(1, classes), in_order)):
        problem = number_file(tmp_path, pairs, features).problem
        assert problem is not None
        assert problem.expected == "--first-row 0 or --first-row 1"


def test_rows_that_are_left_out_keep_their_numbers(tmp_path: Path) -> None:
    X, labels = table(2)
    used_rows = np.setdiff1d(np.arange(N), [3, 100, 101, 400])
    pairs = answers(2, labels, 400)
    for first in (0, 1):
        moved = pairs.assign(i=pairs["i"] + first, j=pairs["j"] + first)
        assert number_file(tmp_path, moved, X[used_rows], SampleRows(N, used_rows)).first_row == first


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_wrong_rows_do_not_keep_the_others_from_saying_or_asking_it(tmp_path: Path, suffix: str) -> None:
    X, labels = table(3)
    few, many = answers(3, labels, 9), answers(3, labels)
    wrong = pd.DataFrame({"i": [N + 1, 3], "j": [7, 8], "kind": ["must", "mus"]})
    last = pd.DataFrame({"i": [N], "j": [7], "kind": ["must"]})
    numberings = {}
    for name, parts in {"few": [few], "many": [many], "last": [last, few]}.items():
        path = tmp_path / f"{name}.{suffix}"
        pairs = pd.concat([*parts, wrong], ignore_index=True)
        file, samples = PairFile.of(write_frame(pairs, path)), Samples(SampleRows(N))
        numberings[name] = numbering_of([file], "auto", samples, X)
        with pytest.raises(InputError) as error:
            file.table(numberings[name].samples_of(path, samples))
        assert len(error.value.problems) == len(wrong)
    assert numberings["few"].problem is not None
    assert numberings["many"].first_row == 0
    assert numberings["many"].problem is None
    assert numberings["last"].first_row == 1
    assert numberings["last"].problem is None


@settings(deadline=None)  # other steps along the table take a tenth of a second
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1]), st.floats(0.5, 1.0), st.integers(20, 600))
def test_answers_never_speak_for_the_wrong_numbering(
    seed: int, first: int, accuracy: float, count: int
) -> None:
    X, labels = table(seed, 200)
    pairs = answers(seed, labels, count, accuracy)
    rows = pairs[["i", "j"]].to_numpy() + first
    result = verdict(X, rows, rows - 1, (pairs["kind"] == "must").to_numpy())
    assert result.first_row in (None, first)


@pytest.mark.parametrize("count", [9, 300])
def test_rows_that_are_added_to_a_file_do_not_count_as_its_others_say(tmp_path: Path, count: int) -> None:
    X, labels = table(4)
    question_rows, added = answers(4, labels, 20).assign(first_row=0), answers(5, labels, count)
    added[["i", "j"]] += 1
    numbering = number_file(tmp_path, pd.concat([question_rows, added]), X)
    assert numbering.first_row == 1
    assert (numbering.problem is None) == (count == 300)


@pytest.mark.parametrize("end", ["", "# a comment, so that lines are read one by one\n"])
def test_rows_say_from_where_they_count_also_as_floats(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"i,j,kind,first_row\n3,4,must,0.0\n3,4,must,1.0\n3,4,must,\n{end}")
    file, samples = PairFile.of(path), Samples(SampleRows(9))
    assert file.mentions.marks == {0, 1}
    assert file.table(samples).columns["first"].tolist() == [3, 2, 2]


# Names and numbers of rows, whatever the file.


@given(st.integers(-(2**53) + 1, 2**53 - 1), st.sampled_from(["{}.0", "{}.", "{}.000", "{:.18e}"]))
def test_a_whole_number_is_one_however_it_is_spelled(number: int, form: str) -> None:
    spelled = form.format(number if "e" not in form else float(number))
    assert identity(spelled) == str(number)


@pytest.mark.parametrize("text", ["007", "007.0", "7.5", "1e3", "1_0", "9007199254740993.0", "", "a.0", "+7"])
def test_other_texts_are_names_of_their_own(text: str) -> None:
    assert identity(text) == text


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "feather", "npz"])
@pytest.mark.parametrize("kind", ["int64", "float64", "float32", "str"])
def test_the_same_pairs_whatever_the_file(tmp_path: Path, suffix: str, kind: str) -> None:
    pairs = pd.DataFrame({"i": [7, 17], "j": [3, 20]})
    pairs = pairs.astype(float).astype(str) if kind == "str" else pairs.astype(kind)
    path = write_frame(pairs, tmp_path / f"links.{suffix}")
    names = tuple(f"{n}.0" for n in np.random.default_rng(1).permutation(20) + 1)
    by_name = [[names.index(f"{n}.0") for n in row] for row in ([7, 3], [17, 20])]
    for rows, expected in ((SampleRows(20), [[6, 2], [16, 19]]), (SampleRows(20, None, names), by_name)):
        pairs_read = PairFile.of(path, 0).table(Samples(rows)).columns
        assert np.column_stack([pairs_read["first"], pairs_read["second"]]).tolist() == expected


def test_a_number_is_no_row_where_names_are_numbers_or_do_not_tell_rows_apart() -> None:
    for rows in (SampleRows(3, None, ("2.5", "b", "c")), SampleRows(3, None, (), "its index repeats 5")):
        assert Samples(rows).find("2") is None
    assert Samples(SampleRows(2, None, ("007", "8"))).find("7") is None


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_that_stands_twice_is_refused(tmp_path: Path) -> None:
    X = np.arange(8.0).reshape(4, 2)
    for twice, arrays in (("i", {"j": [1, 2]}), ("X", {}), ("names", {"X": X})):
        path = tmp_path / f"{twice}.npz"
        np.savez(path, **arrays)
        with zipfile.ZipFile(path, "a") as archive:
            for values in (X, X + 1):
                with archive.open(f"{twice}.npy", "w") as member:
                    np.save(member, values)
        with pytest.raises(InputError, match=f"several arrays '{twice}'"):
            PairFile.of(path) if twice == "i" else read_table(path, TableChoice(index_column="names"))


def test_a_header_is_no_link_of_rows_that_are_called_so(tmp_path: Path) -> None:
    letters = Samples(SampleRows(26, None, tuple("abcdefghijklmnopqrstuvwxyz")))
    for text, pairs in {"i,j\nc,d\n": [[2, 3]], "c,d\ni,j\n": [[2, 3], [8, 9]], "a,b,2\n": [[0, 1]]}.items():
        (tmp_path / "a.link").write_text(text)
        links = PairFile.of(tmp_path / "a.link", 0).table(letters).columns
        assert np.column_stack([links["first"], links["second"]]).tolist() == pairs
    (tmp_path / "a.link").write_text("a,b\nc,d\n")
    with pytest.raises(InputError, match="names two rows, and two columns as well"):
        PairFile.of(tmp_path / "a.link", 0).table(letters)


def test_files_that_say_where_they_count_from_are_believed(tmp_path: Path) -> None:
    texts = {"ask": "i,j,annotator,answer\n2,3,ann,yes\n", "one": "i,j,first_row,kind\n2,3,1,must\n"}
    texts |= {"zero": "i,j,first_row,kind\n2,30,0,must\n", "plain": "i,j,kind\n2,3,must\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    def numbering(*names: str, choice: str = "auto") -> Numbering:
        files = [PairFile.of(tmp_path / name) for name in names]
        return numbering_of(files, choice, Samples(SampleRows(9)), np.eye(9))

    assert numbering("ask").reason == "as sweep ask wrote it"
    assert numbering("ask", "one").reason == f"as {tmp_path / 'one'} says"
    both = numbering("ask", "one", "zero")
    assert both.first_row == 0
    assert both.reason == f"as {tmp_path / 'zero'} says"
    assert both.exceptions == {
        tmp_path / "ask": (1, "as sweep ask wrote it"),
        tmp_path / "one": (1, "as its column first_row says"),
    }
    assert numbering("one", "ask", choice="0").exceptions == {
        tmp_path / "one": (1, "as its column first_row says")
    }
    assert numbering("plain", "zero").problem is not None
    # a row that is not there is explained by the file that says where rows count from
    samples = numbering("zero").samples_of(tmp_path / "zero", Samples(SampleRows(9)))
    with pytest.raises(InputError, match=f"counted from 0, as {tmp_path / 'zero'} says"):
        PairFile.of(tmp_path / "zero").table(samples)


def test_marks_of_some_rows_of_a_file_are_no_numbering_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("i,j,kind,first_row\n3,4,must,0\n5,6,must,\n")
    file, samples = PairFile.of(tmp_path / "a.csv"), Samples(SampleRows(9))
    numbering = numbering_of([file], "1", samples)
    assert numbering.exceptions == {}
    assert file.table(numbering.samples_of(file.path, samples)).columns["first"].tolist() == [3, 4]


@pytest.mark.parametrize("first", [0, 1])
def test_answers_on_few_rows_speak_clearly_as_chance_is_measured_without_either_numbering(first: int) -> None:
    X, labels = table(0, 26)
    pairs = answers(0, labels, accuracy=1.0)
    rows = pairs[["i", "j"]].to_numpy() + first
    result = verdict(X, rows, rows - 1, (pairs["kind"] == "must").to_numpy())
    assert result.first_row == first
