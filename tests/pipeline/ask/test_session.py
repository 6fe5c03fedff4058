"""A session takes keys one by one about made-up questions, and the next questions are explained."""

import io
import itertools
import os
import pty
import select
import signal
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from beliefs import made_up, random_belief
from rich.cells import cell_len
from solving.blobs import far_clusters

from sweep_clustering.pipeline.ask import questions as asking
from sweep_clustering.pipeline.ask.answers import AnswersFile
from sweep_clustering.pipeline.ask.questions import Outlook, Question, next_questions, questions_left
from sweep_clustering.pipeline.ask.session import (
    OTHER_LINES,
    Pipe,
    Rows,
    Session,
    Terminal,
    csv_text,
    question_lines,
    table_lines,
)
from sweep_clustering.pipeline.ask.summary import AskOptions, Assessment, assess, assessment_lines, read_ask
from sweep_clustering.pipeline.asking.belief import Share, share_at
from sweep_clustering.pipeline.asking.strategies import STRATEGIES
from sweep_clustering.pipeline.fit.inputs import annotations_of
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.files import read_answers
from sweep_clustering.sweeps.annotations.rows import Annotation, Row, Samples, Skip
from sweep_clustering.sweeps.data.table import SampleRows

SAMPLES = Samples(SampleRows(12))

# Where keys come from.


def test_keys_of_a_terminal_which_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = pty.openpty()
    with open(near, "rb", buffering=0) as screen:
        monkeypatch.setattr(sys, "stdin", screen)
        before, terminal = termios.tcgetattr(screen), Terminal()

        keys = {b"Y": "y", b"\x04": "", b"\x1b[A": "\x1b[a", b"\xc3\x9f": "\u00df", b"\xff": "\ufffd"}
        with suppress(KeyboardInterrupt), terminal.single_keys():
            assert termios.tcgetattr(screen) != before
            for typed, key in keys.items():
                os.write(far, typed)
                assert terminal.key() == key
            os.write(far, b"yyy")  # before a question these do not count
            select.select([screen], [], [], 10)
            terminal.show(["?"])
            os.write(far, b"n")
            assert terminal.key() == "n"
            raise KeyboardInterrupt
        assert termios.tcgetattr(screen) == before
        with terminal.single_keys():
            os.close(far)
            terminal.show([])
            assert terminal.key() == ""


def test_a_signal_just_before_a_wait_for_a_key_ends_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = pty.openpty()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    with open(near, "rb", buffering=0) as screen, open(far, "wb", buffering=0) as keyboard:
        monkeypatch.setattr(sys, "stdin", screen)
        terminal = Terminal()
        with terminal.single_keys():
            wake = signal.set_wakeup_fd(-1)
            assert wake != -1, "each signal leaves a byte, which the wait for a key looks for"
            signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
            signal.raise_signal(signal.SIGUSR1)
            keyboard.write(b"n")
            assert terminal.key() == "n", "a signal that asks for nothing is no key"
        assert signal.set_wakeup_fd(-1) == -1
    signal.signal(signal.SIGUSR1, before)


# A question as lines of a terminal, and as a file to fill in.

VALUES = np.array([[1.0, 5.0, 0.0], [1.5, 5.0, 100.0], [3.0, 5.0, 110.0]])


def rows(n_features: int = 3, **columns: list[str]) -> Rows:
    rng = np.random.default_rng(0)
    values = VALUES if n_features == 3 else rng.normal(size=(3, n_features))
    names = ["width", "flat", "height"] if n_features == 3 else [f"feature {n}" for n in range(n_features)]
    return Rows(values, names, ["Ann", "Bob", "Eve"], dict(columns), SAMPLES)


def test_the_first_letter_of_a_line_that_is_not_blank_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n  \n Yes\nno\n"))
    assert [Pipe().key() for _ in range(3)] == ["y", "n", ""]


def test_two_rows_side_by_side_those_that_differ_most_first() -> None:
    assert question_lines(rows(picture=["a.png", "b.png", "c.png"]), 0, 1, 56, 24) == [
        "         row 1 Ann               row 2 Bob",
        "picture  a.png                   b.png",
        "height   0                       100",
        "width    1                       1.5",
        "flat     5                       5",
    ]
    # differences are in standard deviations: 110 against 100 is little
    assert [line.split()[0] for line in question_lines(rows(), 1, 2)[1:]] == ["width", "height", "flat"]
    lines = question_lines(rows(text=["many words " * 40, "short", ""]), 0, 1, 80, 24)
    assert [line.split("  ")[0] for line in lines[1:5]] == ["text", "", "", "height"]
    assert lines[3].endswith("…")
    # every size fits
    long = ["many words " * 40, "x" * 300, "\u6f22\u5b57" * 100]
    for n, (width, height) in itertools.product((3, 100), ((80, 24), (40, 12), (20, 5), (200, 60))):
        for first, second in ((0, 1), (1, 2)):
            lines = question_lines(rows(n, text=long), first, second, width, height)
            assert all(cell_len(line) <= width for line in lines)
            assert len(lines) <= max(height - OTHER_LINES, 4) + 4


QUESTIONS = [
    Question(0, 2, 0.5004, 0.36812, '1 in 1 (61%) or 3 (37%); 3 is in "3"'),
    Question(1, 2, 0.25, 0.1, "a check: 2 is in 1; 3 is in 1"),
]
PLAIN = Rows(np.zeros((3, 1)), ("a",), None, {}, SAMPLES)
NAMED = Rows(np.zeros((3, 1)), ("a",), ["Ann, B.", "Bob\n", "#Eve"], {"text": ["x", "y", ";"]}, SAMPLES)


FROM_0 = Rows(np.zeros((3, 1)), ("a",), None, {}, Samples(SampleRows(12), 0))


@pytest.mark.parametrize("rows", [PLAIN, NAMED, FROM_0])
@pytest.mark.parametrize("annotator", ["asked", "Ann, B."])
def test_a_filled_file_is_read_as_answered(rows: Rows, annotator: str, tmp_path: Path) -> None:
    header, *lines = csv_text(QUESTIONS, rows, annotator).splitlines()
    for words, expected in ((("", ""), []), (("yes", "-"), [(0, 2, 0, annotator), (1, 2, 1, annotator)])):
        filled = [header, *map("".join, zip(lines, words, strict=True)), ""]
        (tmp_path / "ask.csv").write_text("\n".join(filled))
        rows_read = annotations_of(read_answers(tmp_path / "ask.csv", 3))
        assert [(row.first, row.second, row.kind, row.annotator) for row in rows_read] == expected


TABLE = Rows(np.arange(24.0).reshape(12, 2), ("a", "b"), None, {}, SAMPLES)


class Script(Pipe):
    """A console that types keys, and keeps what it was shown."""

    def __init__(self, keys: str) -> None:
        self.keys = list(keys)
        self.screens: list[list[str]] = []

    def show(self, lines: Sequence[str]) -> None:
        self.screens.append(list(lines))

    def key(self) -> str:
        return self.keys.pop(0) if self.keys else ""


def run(
    path: Path, keys: str, until: float | None = None, outlook: Outlook | None = None
) -> tuple[Script, list]:
    """Run a session whose questions are the open pairs of four samples, two at a time."""
    console, file, calls = Script(keys), AnswersFile(path, "asked", SAMPLES), []

    def assess(rows: Sequence[Row], batch: int, start: np.ndarray | None) -> Assessment:
        calls.append((len(rows), batch, start is not None))
        answered_pairs = {(row.first, row.second) for row in rows}
        open_pairs = [(i, j) for i in range(3) for j in range(i + 1, 4) if (i, j) not in answered_pairs][:2]
        questions = [Question(i, j, 0.5, 0.1, "") for i, j in open_pairs]
        share = Share(0.83, 0.74, 0.91)
        return Assessment(random_belief(0), questions, "overall", share, outlook, len(rows), 0, 0)

    options = AskOptions(features=Path("x.csv"), n_clusters=3, count=2, until=until, interactive=True)
    Session(options, TABLE, [], file, console, assess).run()
    file.close()
    return console, calls


def answers(path: Path) -> list[tuple[int, int, int | None]]:
    return [(row.first, row.second, getattr(row, "kind", None)) for row in read_answers(path, 12)]


def test_keys_become_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console, calls = run(tmp_path / "a", "ynsq")
    assert answers(tmp_path / "a") == [(0, 1, 0), (0, 2, 1), (0, 3, None)]
    # a batch is two answers; the next one begins with the solution of the one before
    assert calls == [(0, 0, False), (2, 1, True)]
    first = console.screens[1]
    assert first[0] == "question 2, 1 answer so far; saved: 1 and 2 together"
    assert first[1] == "expected right: 83% (74% to 91%) of the labels, at 0 answers"
    assert first[-1].startswith("[y]es")
    run(tmp_path / "b", "yy")
    assert len(answers(tmp_path / "b")) == 2  # the session ends where keys end
    run(tmp_path / "c", "ynynynyn")
    assert len(answers(tmp_path / "c")) == 6  # and it ends where pairs do
    assert capsys.readouterr().out.splitlines()[-1].startswith("no pair is left")


def test_undo_goes_back_over_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console, _ = run(tmp_path / "a", "yyuuuxnyq", 0.9, Outlook(40, 92))
    assert console.screens[0][2] == "to 90%: about 40 to 92 more questions"
    assert "\nno such key" in capsys.readouterr().out
    assert answers(tmp_path / "a") == [(0, 1, 1), (0, 2, 0)]
    heads = [lines[0] for lines in console.screens]
    assert "question 1, 0 answers so far; taken back: 1 and 2" in heads
    assert any("not undone: no answer of this session" in head for head in heads)


# How many questions are left.

SEED = np.random.SeedSequence(0)


def test_what_cannot_be_said_has_a_reason() -> None:
    assert questions_left(made_up([[0, 1, 1]] * 9), 0.6, 0, SEED) == (0, 0, "")
    belief, lowest = random_belief(0), share_at(0.0, 12).mean - 1e-6
    outlooks = {
        "before 10 answers": questions_left(belief, 0.85, asking.LEAST_ANSWERS - 1, SEED),
        "12 rows never pass it": questions_left(belief, 0.999, 50, SEED),
        "for each row": questions_left(random_belief(0, accuracy=0.5), lowest, 50, SEED),
    }
    for reason, outlook in outlooks.items():
        assert outlook.low is None
        assert outlook.high is None
        assert reason in outlook.reason


def test_a_right_answer_for_each_doubtful_sample_is_what_it_takes() -> None:
    draws = np.random.default_rng(0).integers(0, 2, size=(200, 42))
    draws[:, :2] = 0, 1  # all others are in either of two clusters with probability 1/2
    # p = 1 and two clusters: one answer settles one sample, whichever it is
    outlook = questions_left(made_up(draws, accuracy=1.0), share_at(1e-4, 42).mean, 50, SEED)
    assert outlook.low == pytest.approx(40 / asking.SPREAD, abs=1)
    assert outlook.high == pytest.approx(40 * asking.SPREAD, abs=2)
    # more errors and a higher level take more
    cases = ((1.0, 0.8), (0.9, 0.8), (0.9, 0.9), (0.75, 0.9))
    highs = [questions_left(made_up(draws, accuracy=p), level, 50, SEED).high or 0 for p, level in cases]
    assert highs == sorted({*highs, 1} - {1})


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [((8, 500), [(11, 72), (21, 225)]), ((2, 500), [(10, 78), (26, 231)]), ((8, 4), [(10, 85), (25, 206)])],
)
def test_courses_follow_from_the_seed(
    rounds: tuple[int, int], expected: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ROUNDS", rounds[0])
    monkeypatch.setattr(asking, "LEAST_ROUND", rounds[1])
    cases = ((random_belief(0), 0.9), (random_belief(1, accuracy=0.7), 0.8))
    outlooks = [questions_left(belief, level, 50, SEED) for belief, level in cases]
    assert [(low, high) for low, high, _ in outlooks] == expected


def annotation(first: int, second: int, kind: int = MUST) -> Annotation:
    return Annotation(Path("a"), 1, first, second, kind, 1.0)


def test_no_pair_twice_nor_one_that_was_asked() -> None:
    rows: list[Row] = [annotation(5, 2), annotation(0, 1, CANNOT), Skip(3, 4), Skip(9, 8)]
    for strategy in STRATEGIES:
        questions = next_questions(
            random_belief(0), rows, strategy=strategy, count=60, seed=SEED, samples=SAMPLES
        )
        pairs = {(question.first, question.second) for question in questions}
        assert len(pairs) == len(questions)
        assert all(first < second for first, second in pairs)
        assert not {(3, 4), (8, 9)} & pairs  # skipped lately
        assert strategy == "again" or not {(2, 5), (0, 1)} & pairs
        assert any("asked before: " in question.settles for question in questions) == (strategy == "again")
        assert all(0 < question.probability < 1 and question.information >= 0 for question in questions)
    # a skipped pair comes again after a while
    later: list[Row] = [annotation(0, 1)] * (asking.ANSWERS_BEFORE_REPEAT - 1)
    assert asking.recent_skips([Skip(5, 3), *later]) == {(3, 5)}
    assert asking.recent_skips([Skip(5, 3), *later, Skip(1, 2), annotation(0, 1)]) == {(1, 2)}


def test_words_say_what_the_answer_would_settle() -> None:
    # 0 and 1 are sure, 2 is in one of two, 3 in one of three
    draws = [[0, 1, 0, 0]] * 12 + [[0, 1, 1, 1]] * 5 + [[0, 1, 1, 2]] * 3
    belief = made_up(draws)
    rows: list[Row] = [annotation(0, 1, CANNOT), annotation(1, 0), annotation(0, 1, CANNOT)]
    questions = next_questions(belief, rows, strategy="again", count=9, seed=SEED, samples=SAMPLES)
    words = {(question.first, question.second): question.settles for question in questions}
    assert words[0, 2] == "1 is in 0; 3 in 0 (60%) or 1 (40%)"
    assert words[2, 3] == "3 in 0 (60%) or 1 (40%); 4 in 0 (60%) or 1 (25%) or 2 (15%)"
    assert words[0, 1] == "a check: 1 is in 0; 2 is in 1; asked before: 1 yes, 2 no"
    # 0 is in one cluster in 19 of 20 draws, and 1 is in a third one in 1 of 20
    belief = made_up([[0, 0]] * 10 + [[0, 1]] * 9 + [[1, 2]])
    (question,) = next_questions(belief, [], strategy="uniform", count=1, seed=SEED, samples=SAMPLES)
    assert question.settles == "1 is in 0; 2 in 0 (50%) or 1 (45%) or 2 (5%)"
    title, first, *_ = table_lines(questions, TABLE)
    assert first[title.index("what") :] == questions[0].settles


# What `sweep ask` is given, and what it says beside the questions.


def test_answers_are_counted_and_questions_chosen(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "x.data", far_clusters()[0], fmt="%.17g")
    (tmp_path / "a").write_text("i,j,annotator,answer\n1,2,ann,yes\n1,12,bob,no\n3,4,ann,yes\n5,6,ann,skip\n")
    plain = AskOptions(features=tmp_path / "x.data", n_clusters=3, restarts=2, count=4, until=0.9)
    options = replace(plain, annotations=(tmp_path / "a",))
    inputs = read_ask(options)
    state = assess(options, inputs, list(inputs.rows))
    assert state.n_yes == 2
    assert state.n_no == 1
    assert state.n_skipped == 1
    assert state.n_answers == 3
    assert len(state.questions) == 4
    assert state.outlook == (0, 0, "")
    assert state.share.mean > 0.9
    assert not {(0, 1), (0, 11), (2, 3), (4, 5)} & {(pair.first, pair.second) for pair in state.questions}
    assert assess(options, inputs, list(inputs.rows)).questions == state.questions
    assert assess(options, inputs, list(inputs.rows), 1, state.belief.labels).questions != state.questions
    # three right answers beside ten of accuracy 0.9 that are assumed
    assert state.belief.accuracy == pytest.approx(12 / 13)
    with_accuracies = replace(options, accuracy=0.8, annotator_accuracy=("ann=0.7",))
    for annotator, accuracy in (("ann", 0.7), ("bob", 0.8)):
        by_annotator = replace(with_accuracies, annotator=annotator)
        assert assess(by_annotator, read_ask(by_annotator), list(inputs.rows)).belief.accuracy == accuracy
    # a session makes its file, and questions may stand where no answer is
    for changes in ({"interactive": True, "annotations": (tmp_path / "b",)}, {"out": tmp_path / "b"}):
        assert list(read_ask(replace(plain, **changes)).rows) == []  # type: ignore[arg-type]
    for harmless in ("", "i,j,answer\n1,2,\n"):
        (tmp_path / "b").write_text(harmless)
        read_ask(replace(plain, out=tmp_path / "b"))


def test_an_open_number_is_chosen_from_that_of_names_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savetxt(tmp_path / "x.data", far_clusters()[0], fmt="%.17g")
    (tmp_path / "rows.csv").write_text("row,label\n1,red\n2,red\n30,blue\n")
    choose_count = Mock(return_value=(3, "as it is"))
    monkeypatch.setattr("sweep_clustering.pipeline.fit.running.choose_count", choose_count)
    options = AskOptions(features=tmp_path / "x.data", n_clusters=9, has_open_count=True, seed=5, restarts=1)
    options = replace(options, row_labels=tmp_path / "rows.csv", count=1)
    assessment = assess(options, read_ask(options), [])
    assert assessment.why_clusters == "as it is"
    assert assessment.belief.n_clusters == 3
    expected = {"n_names": 2, "seed": 5, "restarts": 1, "model": "conditional", "covariance": "any"}
    assert {name: choose_count.call_args.kwargs[name] for name in expected} == expected


def test_standing_in_lines() -> None:
    options = AskOptions(features=Path("x.csv"), n_clusters=3)
    belief = made_up([[0, 0, 1, 1, 2]] * 3)
    assessment = Assessment(belief, [], "overall", Share(0.83, 0.74, 0.91), Outlook(42, 187), 31, 26, 2)
    assert assessment_lines(replace(options, until=0.9), assessment)[:5] == [
        "answers    57: 31 yes, 26 no; 2 skipped",
        "accuracy   0.90, estimated from the answers",
        "sizes      2 2 1, spherical covariance",
        "confidence 83% (74% to 91%) of the labels expected right",
        "until 0.9  about 42 to 190 more questions",
    ]
    none = replace(assessment, n_yes=0, n_no=0, n_skipped=0, outlook=None)
    for accuracies, source in (((), "assumed before there are answers"), (("asked=0.9",), "as given")):
        lines = assessment_lines(replace(options, annotator_accuracy=accuracies), none)
        assert lines[:2] == ["answers    0: 0 yes, 0 no", f"accuracy   0.90, {source}"]
