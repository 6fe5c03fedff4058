"""What answers tell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from beliefs import made_up

from pipeline.asking.scored import answer_information, entropy, scored


@pytest.mark.parametrize("accuracy", [0.6, 0.8, 1.0])
@pytest.mark.parametrize("together", [0.01, 0.3, 0.5, 0.9])
def test_information_is_that_of_the_joint_table(together: float, accuracy: float) -> None:
    wrong = 1.0 - accuracy
    joint = {
        (True, True): together * accuracy,
        (True, False): together * wrong,
        (False, True): (1 - together) * wrong,
        (False, False): (1 - together) * accuracy,
    }
    of_truth = {True: together, False: 1 - together}
    of_answer = {answer: sum(joint[truth, answer] for truth in (True, False)) for answer in (True, False)}
    expected = sum(
        q * math.log(q / (of_truth[truth] * of_answer[answer])) for (truth, answer), q in joint.items() if q
    )
    found = answer_information(np.array([together * (1 - together)]), accuracy)
    assert found[0] == pytest.approx(expected, abs=1e-12)


def test_an_annotator_who_tosses_a_coin_tells_nothing() -> None:
    assert answer_information(np.array([0.25]), 0.5)[0] == 0.0


def test_entropy_of_certain_and_even() -> None:
    np.testing.assert_allclose(entropy(np.array([0.0, 0.5, 1.0])), [0.0, math.log(2), 0.0], atol=1e-12)


def test_scores_are_those_of_the_shares_of_draws() -> None:
    belief = made_up([[0, 0, 1], [0, 1, 1], [0, 1, 1], [0, 1, 1]], accuracy=1.0)
    found = scored(belief, np.array([[0, 1], [0, 2]]))
    shares = np.array([1.5 / 5, 0.5 / 5])
    np.testing.assert_allclose(found.scores, entropy(shares))
