"""The next questions: what is left out, and what is said of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from beliefs import made_up, random_belief

from pipeline.ask.questions import LEAST_ANSWERS, SOON, SPREAD, next_questions, questions_left, skipped_lately
from pipeline.asking.belief import share_at
from pipeline.asking.strategies import STRATEGIES
from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.files import Annotation, Row, Samples, Skip
from sweeps.data.table import SampleRows

# How many questions are left.

SEED = np.random.SeedSequence(0)
SAMPLES = Samples(SampleRows(12))


def test_what_cannot_be_said_has_a_reason() -> None:
    assert questions_left(made_up([[0, 1, 1]] * 9), 0.6, 0, SEED) == (0, 0, "")
    belief, lowest = random_belief(0), share_at(0.0, 12).mean - 1e-6
    found = {
        "before 10 answers": questions_left(belief, 0.85, LEAST_ANSWERS - 1, SEED),
        "accuracy 0.50": questions_left(random_belief(0, accuracy=0.5), 0.85, 50, SEED),
        "12 rows never pass it": questions_left(belief, 0.999, 50, SEED),
        "for each row": questions_left(random_belief(0, accuracy=0.56), lowest, 50, SEED),
    }
    for reason, each in found.items():
        assert (each.low, each.high) == (None, None)
        assert reason in each.reason


def test_a_right_answer_for_each_doubtful_sample_is_what_it_takes() -> None:
    draws = np.random.default_rng(0).integers(0, 2, size=(200, 42))
    draws[:, :2] = 0, 1  # all others are in either of two clusters with probability 1/2
    # p = 1 and two clusters: one answer settles one sample, whichever it is
    found = questions_left(made_up(draws, accuracy=1.0), share_at(1e-4, 42).mean, 50, SEED)
    assert found.low == pytest.approx(40 / SPREAD, abs=1)
    assert found.high == pytest.approx(40 * SPREAD, abs=2)
    # more errors and a higher level take more
    cases = ((1.0, 0.8), (0.9, 0.8), (0.9, 0.9), (0.75, 0.9))
    highs = [questions_left(made_up(draws, accuracy=p), level, 50, SEED).high or 0 for p, level in cases]
    assert highs == sorted({*highs, 1} - {1})


def answer(first: int, second: int, kind: int = MUST) -> Annotation:
    return Annotation(Path("a"), 1, first, second, kind, 1.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_pair_twice_nor_one_that_was_asked(strategy: str) -> None:
    belief = random_belief(0)
    rows: list[Row] = [answer(5, 2), answer(0, 1, CANNOT), Skip(3, 4), Skip(9, 8)]
    found = next_questions(belief, rows, strategy=strategy, count=60, seed=SEED, samples=SAMPLES)
    pairs = {(each.first, each.second) for each in found}
    assert len(pairs) == len(found)
    assert all(first < second for first, second in pairs)
    assert not {(3, 4), (8, 9)} & pairs  # skipped lately
    assert strategy == "again" or not {(2, 5), (0, 1)} & pairs
    assert any("asked before: " in each.settles for each in found) == (strategy == "again")
    assert all(0 < each.together < 1 and each.information >= 0 for each in found)


def test_a_skipped_pair_comes_again_after_a_while() -> None:
    later: list[Row] = [answer(0, 1)] * (SOON - 1)
    assert skipped_lately([Skip(5, 3), *later]) == {(3, 5)}
    assert skipped_lately([Skip(5, 3), *later, Skip(1, 2), answer(0, 1)]) == {(1, 2)}


def test_words_say_what_the_answer_would_settle() -> None:
    # 0 and 1 are sure, 2 is in one of two, 3 in one of three
    draws = [[0, 1, 0, 0]] * 12 + [[0, 1, 1, 1]] * 5 + [[0, 1, 1, 2]] * 3
    belief = made_up(draws)
    rows: list[Row] = [answer(0, 1, CANNOT), answer(1, 0), answer(0, 1, CANNOT)]
    asked = next_questions(belief, rows, strategy="again", count=9, seed=SEED, samples=SAMPLES)
    found = {(each.first, each.second): each.settles for each in asked}
    assert found[0, 2] == "1 is in 1; 3 in 1 (60%) or 2 (40%)"
    assert found[2, 3] == "3 in 1 (60%) or 2 (40%); 4 in 1 (60%) or 2 (25%) or 3 (15%)"
    assert found[0, 1] == "a check: 1 is in 1, 2 in 2; asked before: 1 yes, 2 no"
    same = made_up([[0, 0, 1]] * 4)
    asked = next_questions(same, [], strategy="uniform", count=3, seed=SEED, samples=SAMPLES)
    assert "a check: both are in 1" in [each.settles for each in asked]
