"""Problems of an input: their text, and how they are collected."""

from __future__ import annotations

import pickle

import pytest

from sweeps.errors import InputError, Problem, collecting, did_you_mean, shown


def test_a_problem_says_where_what_and_what_was_expected() -> None:
    assert str(Problem("file, line 3", "'x'", "a number")) == "file, line 3: found 'x', expected a number"
    assert str(Problem("a", "b", "c", "d")) == "a: found b, expected c (d)"


def test_an_error_holds_all_problems_and_survives_the_way_from_a_worker() -> None:
    problems = [Problem("a", "b", "c"), Problem("d", "e", "f", "g")]
    error = InputError(iter(problems))
    again = pickle.loads(pickle.dumps(error))
    assert again.problems == error.problems == tuple(problems)
    assert str(again) == str(error) == "a: found b, expected c\nd: found e, expected f (g)"


def test_problems_of_several_steps_are_collected_in_order() -> None:
    problems: list[Problem] = []
    done = []
    for step in range(3):
        with collecting(problems):
            if step != 1:
                raise InputError([Problem(f"step {step}", "this", "that"), Problem("also", "this", "that")])
            done.append(step)
    assert [problem.where for problem in problems] == ["step 0", "also", "step 2", "also"]
    assert done == [1]


def test_other_errors_are_not_collected() -> None:
    problems: list[Problem] = []
    with pytest.raises(KeyError), collecting(problems):
        raise KeyError("ours")
    assert problems == []


def test_the_closest_word_is_the_hint() -> None:
    assert did_you_mean("posterio", ("likelihood", "posterior")) == "did you mean 'posterior'?"
    assert did_you_mean("kmeans", ("likelihood", "posterior")) == ""


def test_values_are_shown_as_their_files_spell_them() -> None:
    assert [shown(value) for value in (True, False, 1, "a", None)] == ["true", "false", "1", "'a'", "None"]
    assert shown("x" * 100) == "'" + "x" * 56 + "..."
    assert len(shown(list(range(100)))) == 60
