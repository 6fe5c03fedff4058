"""Problems of an input are collected and have a text."""

import pickle

from hypothesis import example, given
from hypothesis import strategies as st

from sweep_clustering.sweeps import errors
from sweep_clustering.sweeps.errors import InputError, Problem, cause_of, did_you_mean, one_line, short_text


def test_an_error_holds_all_problems_and_survives_the_way_from_a_worker() -> None:
    problems = [Problem("a", "b", "c"), Problem("d", "e", "f", "g")]
    error = InputError(iter(problems))
    again = pickle.loads(pickle.dumps(error))
    assert again.problems == error.problems == tuple(problems)
    assert str(again) == str(error) == "a: found b, expected c\nd: found e, expected f (g)"


def test_hints_and_values_as_their_files_spell_them() -> None:
    assert did_you_mean("posterio", ("likelihood", "posterior")) == "did you mean 'posterior'?"
    assert did_you_mean("kmeans", ("likelihood", "posterior")) == ""
    texts = {True: "true", False: "false", 3: "3", "a": "'a'", None: "None"}
    assert {value: short_text(value) for value in texts} == texts
    assert short_text("x" * 100) == "'" + "x" * 56 + "..."
    assert short_text(10**5000) == "a number of thousands of digits"


def error_with(**methods: object) -> Exception:
    """Return an error of a class with its own methods."""
    return type("Bad\nName\x1b[0m", (Exception,), methods)("z")


ODD = [
    FileNotFoundError(2, "No such file", "/tmp/caf\udce9"),
    ValueError("one\r\n2026-01-01 INFO done\x1b[2J\u202egnp.exe\x00\x85\u2028\ud800"),
    ValueError("\n" * 10_000_000),
    error_with(__str__=lambda self: 1 / 0),
    error_with(__str__=lambda self: 3),
    ExceptionGroup("two\udcff", [ValueError("a\nb"), OSError("b\ud800")]),
]


def test_the_cause_is_one_line_that_can_be_shown_and_stored() -> None:
    for cause in map(cause_of, ODD):
        assert cause.isprintable()
        assert 0 < len(cause) <= errors.LONGEST_LINE
        cause.encode()
        assert one_line(cause) == cause
    assert cause_of(ValueError("a  b, é 漢 ±√2")) == "ValueError: a  b, é 漢 ±√2"
    assert one_line("a\n\tb\x1b[1m\udcff") == r"a b\x1b[1m\udcff"
    assert one_line("a" * 501) == "a" * 497 + "..."


@example("\x1e\r", 10)
@given(st.text(st.characters(exclude_categories=())), st.integers(10, 600))
def test_any_text_is_lines_that_can_be_shown(text: str, most: int) -> None:
    assert len(one_line(text, most)) <= most
    lines = errors.plain_lines(text, most)
    assert len(lines) <= most
    assert errors.plain_lines(lines, most) == lines
    for line in [one_line(text, most), *lines.split("\n")]:
        assert line.isprintable()
        line.encode()


def test_problems_are_counted_with_those_that_one_stands_for() -> None:
    error = InputError([Problem("a", "no such file", ""), Problem("b", "3", "4", count=25)])
    assert error.n_problems == 26
    assert str(error) == "a: no such file\nb: found 3, expected 4"
