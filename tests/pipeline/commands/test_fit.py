"""`sweep fit` prints its result, and `sweep ask` writes questions to a file or asks them here."""

import itertools
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from checkout import ROOT
from click.testing import CliRunner, Result
from processes.commandline import refuse, succeed, sweep
from processes.pseudo import Pseudo
from solving.blobs import far_clusters

from sweep_clustering.pipeline.commands.main import main
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.annotations.files import read_answers

ANNOTATIONS = """# i j kind weight annotator
1 2 must 1 ann
11,12,m,2,ann
21 22 + 1 ann
5 5 must 2 ann
1 11 cannot 1 ann

1 30 must 1 bob
1 21 - 3 bob
7 7 cannot 4 bob
"""
CONDITIONAL = ("--annotations", "pairs.txt", "--model", "conditional", "--accuracy", "0.9")
SMALL = "-k", "3", "--restarts", "1", "--generations", "1", "--names", "id", "--without", "class"
SESSION = "ask", "x.csv", *SMALL, "--interactive", "--annotations", "answers.csv"
TERMINAL = *SESSION, "--strategy", "uniform", "--covariance", "spherical", "-n", "4"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with tables of three far clusters, names and classes, and annotations."""
    monkeypatch.chdir(tmp_path)
    X, labels = far_clusters()
    np.savetxt("x.data", X, fmt="%.17g")
    np.savetxt("y.label", labels + 1, fmt="%d")
    lines = [f"r{n},{a!r},{b!r},{y}" for n, ((a, b), y) in enumerate(zip(X.tolist(), labels, strict=True))]
    Path("x.csv").write_text("\n".join(["id,width,height,class", *lines]) + "\n")
    Path("a").write_text(ANNOTATIONS)
    drawn = draw_annotations(np.random.default_rng(4), labels, p=0.9, m=60)
    kinds = ("must", "cannot")
    lines = [f"{i + 1} {j + 1} {kinds[kind]} {1 + (i == j)} ann\n" for i, j, kind in drawn.tolist()]
    Path("pairs.txt").write_text("".join(lines))
    return tmp_path


def fit(*arguments: object) -> Result:
    """Run `sweep fit` by a small search, for three clusters if no number is named."""
    k = () if "-k" in arguments else ("-k", 3)
    return succeed("fit", "x.data", "--restarts", 2, "--generations", 1, *k, *arguments)


def document(*arguments: object) -> dict[str, Any]:
    """Return the JSON of a fit without times."""
    fields: dict[str, Any] = json.loads(fit("--json", *arguments).stdout)
    assert 0 < fields.pop("cpu_seconds") < 2 * fields.pop("seconds") + 0.1
    return fields


@pytest.mark.parametrize(("method", "objective"), [("published", -7373.1052), ("strong", -7372.9728)])
def test_published_instance(method: str, objective: float, shared_data: Path) -> None:
    stem = shared_data / "reference-vertebral" / "vertebral"
    links = ("--must-link", f"{stem}-must.link", "--cannot-link", f"{stem}-cannot.link", "--accuracy", 0.9)
    more = ("--labels", f"{stem}.label", *links, "--model", "posterior", "--restarts", 2, "--method", method)
    fields = json.loads(sweep("fit", f"{stem}.data", "-k", 3, *more, "--json").stdout)
    assert fields["objective"] == pytest.approx(objective, abs=1e-3)
    assert fields["model"] == "posterior"
    assert len(fields["restart_objectives"]) == 2
    assert 0 < fields["scores"]["nmi"] < 1


# Annotations of several annotators.


def test_accuracies_and_contradictions_are_said() -> None:
    fields = document("--annotations", "a", "--labels", "y.label", "--model", "likelihood")
    assert fields["model"] == "likelihood"
    assert fields["notes"] == []
    assert fields["held_out"] == {}
    assert fields["annotator_accuracies"] == {"ann": 1.0, "bob": 0.75}
    assert fields["contradictions"] == [
        {"i": 1, "j": 30, "kind": "must", "weight": 1.0, "annotator": "bob", "file": "a", "line": 8},
        {"i": 7, "j": 7, "kind": "cannot", "weight": 4.0, "annotator": "bob", "file": "a", "line": 10},
    ]
    assert fields["scores"]["annotation_agreement"] == pytest.approx(9 / 12)
    assert fields["scores"]["nmi"] == pytest.approx(1)
    assert {name: scores["ari"] for name, scores in fields["unsupervised"].items()} == pytest.approx(
        {"k_means": 1, "gaussian_mixture_full": 1}
    )
    scored = fit("--annotations", "a", "--labels", "y.label").stdout
    assert "nmi (min, as in the paper) 1, nmi (arithmetic, as scikit-learn) 1, ari 1" in scored
    assert re.search(r"^ {11}k-means, without annotations, .*ari 1$", scored, flags=re.MULTILINE)
    assert re.search(r"^ {11}mixture of full Gaussians, without annotations, ", scored, flags=re.MULTILINE)
    assert "unsupervised" not in document("--annotations", "a")
    plain, sure = (fit(*CONDITIONAL, "-v", *more).stdout.splitlines() for more in ((), ("--confidence",)))
    assert any("of held-out annotations, log loss" in line for line in plain)
    sureness, first, second, *_ = [line for line in sure if line not in plain]
    assert first == "confidence 1.000 of the labels expected right, if the model is; 0 below 0.9"
    assert sureness.strip().endswith(first.removeprefix("confidence "))
    assert second.startswith("chains     4 from 1 distinct restart, R-hat 1.000, agreement 1.000, ")


@pytest.mark.parametrize(
    "model", ["unsupervised", "likelihood", "posterior", "conditional", "conditional-any"]
)
def test_hard_links_hold_whatever_the_model(model: str) -> None:
    hard = "1 11 must! 1 ann\n1 2 cannot! 1 ann\n3 22 + inf ann\n"
    Path("hard.txt").write_text(hard + ANNOTATIONS)
    more = ("--model", model, "--accuracy", "0.9", "--restarts", "2", "--confidence")
    labels = document("--annotations", "hard.txt", *more)["labels"]
    assert labels[0] == labels[10]
    assert labels[0] != labels[1]
    assert labels[2] == labels[21]


def test_hard_links_that_contradict_each_other_are_named_with_all_other_problems() -> None:
    Path("hard.txt").write_text("i,j,kind\n1,2,must!\n2,3,same!\n5,6,must!\n1,3,cannot!\n2,4,cannot\n")
    result = sweep(
        "fit", "x.data", "-k", "3", "--annotations", "hard.txt", "--accuracy", "2", "--first-row", "1"
    )
    assert result.exit_code == 2
    assert "--accuracy" in result.output
    assert "3 links that cannot hold together" in result.output
    for link in (
        "1 must! 2 (hard.txt, line 2)",
        "2 must! 3 (hard.txt, line 3)",
        "1 cannot! 3 (hard.txt, line 5)",
    ):
        assert link in result.output


def test_numbers_of_clusters_that_hard_links_rule_out_are_left_out() -> None:
    Path("apart").write_text("1 11 inf\n11 21 inf\n1 21 inf\n")
    result = document("-k", "2..4", "--cannot-link", "apart", "--restarts", "1", "--first-row", "1")
    assert [candidate["n_clusters"] for candidate in result["choice"]["candidates"]] == [3, 4]
    text = fit("-k", "2,3", "--cannot-link", "apart", "--restarts", "1", "--first-row", "1").stdout
    assert "there can be no fewer, as hard links rule them out" in " ".join(text.split())


def test_hard_links_that_need_more_clusters_than_are_tried_set_their_number() -> None:
    pairs = list(itertools.combinations(range(1, 13), 2))
    Path("apart").write_text("".join(f"{i} {j} inf\n" for i, j in pairs))
    options = "x.data", "--cannot-link", "apart", "--restarts", "1", "--first-row", "1"
    result = succeed("fit", *options)
    assert "12 alone was tried" in result.stdout
    assert "there can be no fewer, as hard links keep 12 rows apart" in " ".join(result.stdout.split())
    result = sweep("fit", *options, "-k", "5")
    assert result.exit_code == 2
    assert "they need at least 12 clusters (-k, n_clusters)" in " ".join(result.output.split())


@pytest.mark.parametrize(("restarts", "before"), [("1", ""), ("2", "2 of 2 restarts found this solution; ")])
def test_restarts_are_compared_if_there_are_several(restarts: str, before: str) -> None:
    lines = fit("--model", "unsupervised", "--restarts", restarts).stdout.splitlines()
    assert f"certainty  {before}no answers were held out to test it" in lines


def test_one_cluster_is_followed_by_no_questions() -> None:
    assert "next:" not in fit("-k", "1", "--restarts", "1").stderr


def from_0(text: str) -> str:
    """Return the same annotations as pandas writes them if rows count from 0."""
    rows = [re.split("[ ,]", line) for line in text.splitlines() if line and line[0] != "#"]
    lines = [f"{n},{a},{w},{k},{int(j) - 1},{int(i) - 1}" for n, (i, j, k, w, a) in enumerate(rows)]
    return "\n".join([",annotator,weight,kind,j,i", *lines]) + "\n"


def test_rows_are_counted_from_0_where_a_file_names_row_0() -> None:
    Path("zero.csv").write_text(from_0(ANNOTATIONS))
    Path("other.link").write_text("first,second\n1,3\n")
    Path("same.link").write_text("2 4\n")
    plain = document("--annotations", "a", "--must-link", "same.link", "--out", "from1.csv")
    assert plain.pop("first_row_why") == "as line 8 of a names row 30, the last"
    fields = document("--annotations", "zero.csv", "--must-link", "other.link", "--out", "from0.csv")
    assert fields.pop("first_row_why") == "as line 2 of zero.csv names row 0"
    assert plain["first_row"] == 1
    assert fields["first_row"] == 0
    assert plain["index"] == list(range(1, 31))
    assert fields["index"] == list(range(30))
    assert {key: fields[key] for key in fields if key not in ("first_row", "index", "contradictions")} == {
        key: plain[key] for key in plain if key not in ("first_row", "index", "contradictions")
    }
    pairs = [[(row["i"], row["j"]) for row in of["contradictions"]] for of in (plain, fields)]
    assert pairs == [[(1, 30), (7, 7)], [(0, 29), (6, 6)]]
    assert [row.split(",")[0] for row in Path("from0.csv").read_text().splitlines()[1:]] == [
        *map(str, range(30))
    ]
    prefix = "rows       of annotation files are numbered from "
    for words, line in (
        (("--annotations", "zero.csv"), "0, as line 2 of zero.csv names row 0"),
        (("--must-link", "same.link", "--first-row", "1"), "1, as --first-row 1 says"),
        (("--must-link", "same.link", "--first-row", 0), "0, as --first-row 0 says"),
    ):
        result = fit(*words)
        assert prefix + line in result.stdout.splitlines()
        assert ("--first-row 0" in result.stderr) == (words[-1] == 0)  # the next command has the option
    assert prefix not in fit().stdout


def test_examples_of_the_guide_run() -> None:
    text = (ROOT / "docs" / "guides" / "annotators.md").read_text(encoding="utf-8")
    Path("x.data").rename("table.csv")
    lines = re.findall(r"^\$ sweep (fit .*)$", text, flags=re.MULTILINE)
    examples = re.findall(r"^```text\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    for example, line in itertools.product(examples, lines):
        Path("pairs.txt").write_text(example, encoding="utf-8")
        result = succeed(*shlex.split(line))
        assert "bob" in result.stdout, result.output
    assert len(examples) == 2
    assert bool(lines)


# Several numbers of clusters, and the fit of the one that is taken.


def test_the_fit_taken_is_that_of_its_number_bit_for_bit() -> None:
    for how, criterion in (("--confidence", "held-out annotations"), ("--no-held-out", "BIC")):
        chosen = document("-k", "2..4", "--out", "several.csv", "--force", *CONDITIONAL, how)
        single = document("--out", "one.csv", "--force", *CONDITIONAL, how)
        choice = chosen.pop("choice")
        assert chosen == single
        assert Path("several.csv").read_bytes() == Path("one.csv").read_bytes()
        index = [row.split(",")[0] for row in Path("one.csv").read_text().splitlines()]
        assert index == ["index", *map(str, range(1, 31))]
        assert choice["n_clusters"] == 3
        assert choice["criterion"] == criterion
        assert [candidate["n_clusters"] for candidate in choice["candidates"]] == [2, 3, 4]


def test_the_result_comes_first_and_the_figure_is_written() -> None:
    lines = fit("-k", "2,3", *CONDITIONAL, "--figure", "c.svg", "-v").stdout.splitlines()
    table = lines.index("") + 1
    assert [line[:3] for line in lines[table + 1 : table + 3]] == ["  2", "* 3"]
    assert any(line.startswith("number     3 of 2, 3 tried: the largest BIC among") for line in lines)
    assert lines[table + 3].startswith("accuracy   told 0.9, estimated 0.")
    alone = [line for line in fit(*CONDITIONAL, "-v").stdout.splitlines() if line[:6] != "solver"]
    assert [line for line in alone if line not in lines] == []
    assert "figure     in c.svg" in lines[:table]
    assert b"taken: K = 3" in Path("c.svg").read_bytes()


def test_the_result_is_short_and_says_what_to_do_next() -> None:
    result = fit(*CONDITIONAL)
    lines = result.stdout.splitlines()
    assert len(lines) <= 12
    assert lines[0] == "classes    3 (30 rows)"
    assert [line.split() for line in lines[1:5]] == [
        ["class", "rows", "share"],
        *([str(number), "10", "33.3%"] for number in range(3)),
    ]
    assert lines[5].startswith("model      conditional: each class is one ball")
    assert lines[6].startswith("certainty  predicts ")
    assert re.search(r"^answers    \d+ of \d+ contradict the classes$", result.stdout, re.MULTILINE)
    assert lines[-2].startswith("labels     none were written: --out labels.csv writes them")
    assert lines[-1].startswith("more       -v ")
    assert result.stderr.startswith("next:\n  sweep ask x.data -k 3 ")
    assert "labels     in l.csv" in fit(*CONDITIONAL, "--out", "l.csv").stdout.splitlines()
    # the largest of many classes are shown
    many = fit(*CONDITIONAL, "-k", "12").stdout.splitlines()
    assert len(many) <= 16
    assert re.fullmatch(r" {11}and 7 more with (1 row each|\d+ rows each|\d+ to \d+ rows)", many[7])


def on_terminal(*command: str, stream: str) -> str:
    """Return the output of a command on one stream, which is a terminal of 60 columns."""
    terminal, writer = os.openpty()
    line = [sys.executable, "-m", "sweep_clustering", *command]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(line, **silent | {stream: writer}, env=os.environ | {"COLUMNS": "60"}, check=True)  # type: ignore[call-overload]
    os.close(writer)
    output = os.read(terminal, 2**16).decode()
    os.close(terminal)
    return output


@pytest.mark.slow
def test_lines_fit_on_a_narrow_terminal() -> None:
    lines = on_terminal("fit", "x.data", "-k", "3", *CONDITIONAL, "-v", stream="stdout").splitlines()
    assert lines[0] == "classes    3 (30 rows)"
    assert max(map(len, lines)) <= 60
    words = " ".join(line.strip() for line in lines)
    assert "--out labels.csv writes them, --json prints everything" in words
    header = ",".join(f"measure {at}" for at in range(8))
    X = np.tile(np.loadtxt("x.data"), 4) + np.random.default_rng(0).normal(size=(30, 8))
    np.savetxt("named.csv", X, delimiter=",", header=header, comments="")
    output = on_terminal("fit", "named.csv", "-k", "3", "--restarts", "1", stream="stderr")
    lines = output.partition("\x1b")[0].splitlines()  # before the bar of progress
    assert max(map(len, lines)) <= 60
    assert f"note: features used: {header.replace(',', ', ')} (8)" == " ".join(map(str.strip, lines))


# Tables as people have them, and labels that go to a file.

MESSY = """\
,plant,nr,width,height,kind
0,Ann B.,1,0.1,2,one kind
1,Bob,2,,3,one kind
2,Eve,3,0.2,2.1,one kind
3,Kim,4,9.5,8,another
4,Lee,5,9.4,8.1,another
5,Zoe,6,9.6,8.2,another
"""
TOLD = "--index-column", "plant", "--label-column", "kind", "--missing", "drop", "--drop", "0,nr"


def test_a_messy_table_in_one_command() -> None:
    Path("x.csv").write_text(MESSY)
    Path("a.csv").write_text("Ann B.,Eve,must,1,ann\nKim,1,must,1,ann\n")
    plain = ("fit", "x.csv", "-k", 2, "--restarts", 2, *TOLD)
    line = (*plain, "--annotations", "a.csv", "--first-row", 1, "--accuracy", 0.9, "--out", "labels.csv")
    result = sweep(*line, "--json", "--confidence")
    assert result.stderr.splitlines() == [
        "note: 1 of 6 rows have an empty cell and are left out (--missing drop): Bob (row 2)",
        "note: features used: width, height (2)",
    ]
    fields = json.loads(result.stdout)
    assert fields["scores"]["nmi"] == 1
    assert fields["features"] == ["width", "height"]
    assert [(pair["i"], pair["j"]) for pair in fields["contradictions"]] == [("Kim", "Ann B.")]
    header, *rows = (row.split(",") for row in Path("labels.csv").read_text().splitlines())
    assert header == ["index", "label", "confidence"]
    assert [row[0] for row in rows] == fields["index"] == ["Ann B.", "Eve", "Kim", "Lee", "Zoe"]
    assert [int(row[1]) for row in rows] == fields["labels"]
    assert "which is there already, expected a new file (--force overwrites it)" in refuse(*line)
    assert sweep(*line, "--force").exit_code == 0
    assert Path("labels.csv").read_text().startswith("index,label\n")
    for name in ("x.csv", "a.csv"):
        Path("link.csv").unlink(missing_ok=True)
        Path("link.csv").symlink_to(name)
        for place in (name, "link.csv"):
            message = refuse(*line[:-1], place, "--force")
            assert f"--out: found {place}, which is read, expected a file of its own" in message
    assert Path("x.csv").read_text() == MESSY
    # the next command asks about the same table
    program, *words = shlex.split(sweep(*plain).stderr.split("next:\n")[1].replace("\\\n", " "))
    assert program == "sweep"
    assert words[:4] == ["ask", "x.csv", "-k", "2"]
    questions = succeed(*words, "-n", 2)
    assert "features used: width, height (2)" in questions.stderr, questions.output


# Questions to a file and back, and a session that nothing can rob.


def ask(*arguments: str) -> Result:
    """Run `sweep ask` with a file, and check that it ends well."""
    return succeed("ask", "x.csv", *SMALL, *arguments)


def fill(path: str) -> int:
    """Answer all questions of a file from the classes, but skip every fifth one."""
    _, labels = far_clusters()
    header, *rows = Path(path).read_text().splitlines()
    for number, row in enumerate(rows):
        i, j = (int(cell) - 1 for cell in row.split(",")[:2])
        rows[number] += "skip" if number % 5 == 4 else "yes" if labels[i] == labels[j] else "no"
    Path(path).write_text("\n".join([header, *rows, ""]))
    return len(rows)


def count_saved() -> int:
    path = Path("answers.csv")
    return len(read_answers(path, 30)) if path.exists() else 0


@pytest.mark.parametrize("strategy", ["information", "again"])
def test_questions_go_round_and_commands_that_are_shown_can_be_typed(strategy: str) -> None:
    ask("-n", "10", "--strategy", strategy, "--out", "ask.csv")
    assert fill("ask.csv") == 10
    second = ask("-n", "7", "--strategy", strategy, "--annotations", "ask.csv", "--out", "ask2.csv").stdout
    assert "answers    8: " in second
    assert "posterior and likelihood would take" in second
    assert fill("ask2.csv") == 7
    commands = re.findall(r"^  sweep ((?:.*\\\n)*.*)$", second, flags=re.MULTILINE)
    again, fitting = [shlex.split(text.replace("\\\n", "")) for text in commands]
    for words in (again, fitting):
        succeed(*words)
    assert again[0] == "ask"
    assert Path("ask3.csv").is_file()
    files = "--annotations", "ask.csv", "--annotations", "ask2.csv"
    third = ask("--json", "--columns", "width,height", *files, "--until", "0.5")
    document = json.loads(third.stdout)
    rows = [*read_answers(Path("ask.csv"), 30), *read_answers(Path("ask2.csv"), 30)]
    answered = {(row.first, row.second) for row in rows}
    questions = [(question["i"] - 1, question["j"] - 1) for question in document["questions"]]
    assert len(questions) == len(set(questions)) == 20
    assert not answered & set(questions)
    assert document["model"] == "conditional"
    assert document["until"]["passed"]
    program, *words = document["fit"]
    result = sweep(*words, "--restarts", "2", "--json")
    assert program == "sweep", result.output
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["scores"]["annotation_agreement"] > 0.9


def test_where_no_pair_is_left_nothing_is_written() -> None:
    pairs = [f"{i},{j},{'must' if (i < 15) == (j < 15) else 'cannot'}" for j in range(30) for i in range(j)]
    Path("all.csv").write_text("\n".join(["i,j,kind", *pairs]))
    files = "--annotations", "all.csv", "--strategy", "uniform"
    result = ask("-n", "5", *files, "--out", "ask.csv", "--first-row", "0")
    assert result.stdout.endswith("--strategy again asks those in doubt once more\n")
    assert not Path("ask.csv").exists()


def test_questions_are_read_as_they_were_written_whatever_rows_are_counted_from() -> None:
    ask("-n", "4", "--first-row", "0", "--out", "ask.csv")
    Path("one.txt").write_text("30 1 cannot 1 ann\n")
    Path("zero.txt").write_text("0 29 cannot 1 ann\n")
    header, *rows = (line.split(",") for line in Path("ask.csv").read_text().splitlines())
    pairs = [(int(row[0]), int(row[1])) for row in rows]
    Path("ask.csv").write_text("\n".join(",".join(row) for row in [header, *([*r[:-1], "no"] for r in rows)]))
    assert header[-2:] == ["first_row", "answer"]
    assert [row[-2] for row in rows] == ["0"] * 4
    assert [(row.first, row.second) for row in read_answers(Path("ask.csv"), 30)] == pairs
    prefix = "rows       of annotation files are numbered from "
    alone = ask("--annotations", "ask.csv", "--out", "again.csv").stdout.splitlines()
    assert alone[0] == prefix + "0, as ask.csv says"
    assert Path("again.csv").read_text().splitlines()[0].split(",") == header
    stderr = ask("--annotations", "ask.csv", "--annotations", "one.txt", "--first-row", "1").stderr
    of_ask = "           those of ask.csv from 0, as its column first_row says\n"
    assert f"{prefix}1, as --first-row 1 says\n{of_ask}" in stderr
    fields = json.loads(ask("--json", "--annotations", "ask.csv", "--annotations", "zero.txt").stdout)
    assert fields["first_row"] == 0
    assert fields["index"][0] == 0
    assert fields["answers"]["no"] == 5
    assert not {*pairs} & {(question["i"], question["j"]) for question in fields["questions"]}
    # a session writes as the file counts to which it adds: one of before said nothing, and counted from 1
    session = "ask", "x.csv", *SMALL, "--interactive", "--annotations", "zero.txt", "--annotations"
    Path("old.csv").write_text("i,j,annotator,answer\n1,2,asked,yes\n")
    for name, first, width in (("new.csv", 0, 5), ("old.csv", 1, 4)):
        result = CliRunner().invoke(main, [*session, name, "-n", "2"], input="n\nq\n")
        assert result.exit_code == 0, result.output
        rows_shown = re.findall(r"row (\d+) r\1", result.stdout.split("question 1,")[1])[:2]
        row = Path(name).read_text().splitlines()[-1].split(",")
        assert len(row) == width
        assert row[:2] == [str(int(number) + first) for number in rows_shown]
        assert len(read_answers(Path(name), 30)) == 1 + first


def test_keys_from_a_pipe_and_a_failing_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(main, [*SESSION, "-n", "2"], input="y\nno\nu\nskip\nyes\nq\n")
    assert result.exit_code == 0, result.output
    assert count_saved() == 3, result.output
    assert "3 answers and skips of this session are in answers.csv" in result.stdout
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
    result = CliRunner().invoke(main, SESSION, input="y\n")
    assert result.exit_code == 1
    assert count_saved() == 3
    assert "No space left on device" in result.stderr


@cache
def compile_kernels() -> None:
    """Put the kernels of a session into the cache, as compiling may take longer than any wait."""
    arguments = [word.replace("answers", "others") for word in TERMINAL]
    assert CliRunner().invoke(main, arguments, input="q\n").exit_code == 0


def session(folder: Path) -> Pseudo:
    compile_kernels()
    terminal = Pseudo(*TERMINAL, folder=folder)
    terminal.wait_for("[q]uit")
    return terminal


def answer(terminal: Pseudo, key: str, then: str) -> None:
    """Press a key and wait until the text that follows is on the screen."""
    terminal.type(key)
    terminal.wait_for(then)
    terminal.wait_for_end("[q]uit")


def test_keys_need_no_enter_screens_fit_and_ctrl_c_ends_as_everywhere(folder: Path) -> None:
    terminal = session(folder)
    replies = ("question 2,", "question 3,", "question 4,", "taken back: ", "no such key")
    for key, then in zip("ynsu?", replies, strict=True):
        answer(terminal, key, then)
    second = sweep(*SESSION)
    assert second.exit_code == 1
    assert second.stderr[-39:] == "answers.csv is open in another session\n"
    terminal.type("\x03")
    assert terminal.exit_code() == 130
    assert count_saved() == 2
    assert "2 answers and skips of this session" in terminal.output
    assert "Traceback" not in terminal.output
    assert all(len(screen) <= 24 and max(map(len, screen)) <= 80 for screen in terminal.screens()[1:-1])
    (first,) = [line for line in terminal.screens()[1] if line.startswith("width")]
    assert len(first.split()) == 3


def test_ctrl_c_ends_a_session_also_where_the_tests_run_in_the_background(folder: Path) -> None:
    """A shell without job control starts what it puts there with Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        terminal = session(folder)
    finally:
        signal.signal(signal.SIGINT, before)
    terminal.type("\x03")
    assert terminal.exit_code() == 130


@pytest.mark.parametrize(("way", "codes"), [(signal.SIG_DFL, (0, -signal.SIGHUP)), (signal.SIG_IGN, (0,))])
def test_a_closed_terminal_loses_nothing(folder: Path, way: signal.Handlers, codes: tuple[int, ...]) -> None:
    """This holds also where its signal is ignored, as under nohup."""
    before = signal.signal(signal.SIGHUP, way)
    try:
        terminal = session(folder)
    finally:
        signal.signal(signal.SIGHUP, before)
    for number, key in enumerate("yns", start=2):
        answer(terminal, key, f"question {number},")
    assert terminal.close() in codes
    assert count_saved() == 3


@pytest.mark.parametrize("times", [2, pytest.param(60, marks=pytest.mark.heavy)])
def test_killed_sessions_lose_no_answer(folder: Path, times: int) -> None:
    """Sessions are killed at random moments: saved answers are in the file, and every row is whole."""
    rng, before = random.Random(0), 0
    for _ in range(times):
        terminal = session(folder)
        answered = rng.randrange(1, 6)
        for number in range(answered):
            answer(terminal, rng.choice("yns"), f"question {number + 2},")
        terminal.type(rng.choice("yns"))
        time.sleep(rng.uniform(0.0, 0.02))
        terminal.kill()
        terminal.exit_code()
        after = count_saved()
        assert answered <= after - before <= answered + 1
        before = after


GAPS = "id,x,y\nr0,,0\n" + "".join(f"r{n},{n % 4},{n * n % 11}\n" for n in range(1, 30))
OF_GAPS = "r0 r1 must 1 bob\nr0 r0 must 3 bob\nr1 r2 must 1 ann\nr3 r4 cannot 1 ann\n"


def test_unsure_answers_are_left_out_and_counted(tmp_path: Path) -> None:
    path, more = tmp_path / "a.csv", tmp_path / "more.csv"
    lines = "1,2,must,2,ann\n1,11,cannot,1,bob\n"
    path.write_text(lines)
    more.write_text(f"{lines}1,3,unsure,1,ann\n3,1,?,2,bob\n4,5,,1,bob\n")
    model = ("--model", "conditional", "--covariance", "spherical", "--first-row", 1)
    before, fields = (document("--annotations", file, *model) for file in (path, more))
    assert before.pop("unsure") == {"annotators": {}, "pairs": []}
    assert fields.pop("unsure") == {
        "annotators": {"ann": 1.0, "bob": 3.0},
        "pairs": [{"i": 1, "j": 3, "count": 3.0}, {"i": 4, "j": 5, "count": 1.0}],
    }
    assert before == fields
    estimates = fields["annotator_estimates"]
    assert list(estimates) == ["ann", "bob"]
    low, high = estimates["ann"]["together"]["interval"]
    assert 0.0 < low < estimates["ann"]["together"]["accuracy"] < high < 1.0
    text = fit("--annotations", more, *model).stdout
    assert "unsure     4 answers about 2 pairs, left out: bob 3, ann 1\n" in text
    share = f"{estimates['ann']['together']['accuracy']:.2f} ({low:.2f} to {high:.2f})"
    search = ("-k", 3, "--restarts", 2, "--generations", 1)
    details = succeed("-v", "fit", "x.data", *search, "--annotations", more, *model).stdout
    assert f"estimate   ann: right for {share} of pairs that belong together, " in details


@pytest.mark.parametrize("separator", [" ", ","])
def test_annotations_of_rows_that_are_left_out_are_left_out_and_counted(
    separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines with commas are read at once, and lines with blanks and a comment one by one."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(GAPS)
    Path("a.txt").write_text(OF_GAPS.replace(" ", separator) + ("# end\n" if separator == " " else ""))
    words = "fit t.csv -k 2 --index-column id --annotations a.txt --missing drop --restarts 1"
    line = shlex.split(words)
    assert "--links-outside drop leaves out its annotations" in refuse(*line)
    fitted = sweep(*line, "--links-outside", "drop", "--json")
    document = json.loads(fitted.stdout)
    assert document["links_dropped"] == 2
    assert document["annotator_accuracies"]["bob"] is None
    note = "left out   2 of 4 annotations, which are of rows that are left out (--links-outside drop)"
    assert note in sweep(*line, "--links-outside", "drop").stdout
    Path("b.txt").write_text(OF_GAPS.replace(" ", separator).replace("r1", "r77"))
    assert sweep(*line, "--links-outside", "drop", "--annotations", "b.txt").exit_code == 2


def test_a_sweep_leaves_out_annotations_of_rows_that_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(GAPS)
    Path("a.txt").write_text(OF_GAPS)
    table = 'name = "own", path = "t.csv", index_column = "id", n_clusters = 2, annotations = "a.txt"'
    text = f"""
name = "s"
seed = 1
[grid]
datasets = [{{{table}, missing = "drop"}}]
p = [0.8]
m = [2]
replicates = 1
models = ["conditional"]
restarts = 1
"""
    Path("s.toml").write_text(text)
    assert 'links_outside = "drop" leaves out its annotations' in refuse("plan", "s.toml")
    Path("s.toml").write_text(text.replace('"drop"', '"drop", links_outside = "drop"'))
    document = json.loads(sweep("plan", "s.toml", "--json").stdout)
    assert any("2 of 4 annotations" in note for note in document["notes"]["own"])
    assert document["search_notes"] == [
        "the relative NMI of conditional needs unsupervised among models of [grid], too"
    ]


OPEN_COUNT = "ask", "x.csv", "--restarts", "1", "--names", "id", "--without", "class", "--covariance", "tied"


def test_without_a_number_of_clusters_sweep_ask_chooses_one_and_says_why() -> None:
    options = "--restarts", 1, "--without", "id,class", "--covariance", "tied", "--annotations", "pairs.txt"
    fields = json.loads(succeed("fit", "x.csv", *options, "--json").stdout)
    result = succeed(*OPEN_COUNT, "-n", 2, "--annotations", "pairs.txt", "--out", "questions.csv")
    number, sizes = (
        next(line for line in result.stdout.splitlines() if line.startswith(word))
        for word in ("number", "sizes")
    )
    assert number.startswith(f"number     {fields['choice']['n_clusters']} of 2 to 10 tried: ")
    assert len(sizes.partition(",")[0].split()[1:]) == fields["choice"]["n_clusters"] == 3
    random = "overall: .*; one of five is a random pair, because no number of clusters was named\n"
    assert re.search(f"\nquestions  {random}", result.stdout)
    for option in (("-k", 3), ("--strategy", "uniform")):
        assert (
            "random pair" not in succeed(*OPEN_COUNT, "-n", 2, "--annotations", "pairs.txt", *option).stdout
        )


def test_commands_that_sweep_ask_shows_leave_the_number_of_clusters_open() -> None:
    result = succeed(*OPEN_COUNT, "-n", 2, "--out", "questions.csv")
    assert "sweep ask x.csv" in result.stdout
    assert "-k" not in result.stdout


def test_a_session_may_leave_the_number_of_clusters_open() -> None:
    session = *OPEN_COUNT, "-n", "1", "--interactive", "--annotations", "answers.csv"
    assert CliRunner().invoke(main, session, input="y\nn\nq\n").exit_code == 0
    assert count_saved() == 2


@pytest.mark.parametrize("command", ["fit", "ask"])
def test_a_table_of_few_rows_needs_no_number_of_clusters(command: str) -> None:
    Path("few.csv").write_text("a,b\n1,2\n1.1,2\n3,4\n3.1,4.2\n5,6\n")
    assert len(json.loads(succeed(command, "few.csv", "--json").stdout)["labels"]) == 5
