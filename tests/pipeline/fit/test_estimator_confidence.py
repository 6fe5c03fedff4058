"""The estimator's confidence: membership, pairs, and nothing of it unless asked for."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from pipeline.commands.fit import fit_command
from pipeline.fit.estimator import AnnotatedClustering

MUST_LINKS = [[0, 1], [4, 4], [10, 11], [0, 1], [3, 29]]


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """Forty samples without clusters."""
    return np.random.default_rng(3).normal(size=(40, 3))


def small(**changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(3, restarts=2, generations=2, random_state=5, **changes)


def fitted_bits(estimator: AnnotatedClustering) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in vars(estimator).items() if name.endswith("_")}


CONFIDENT = ("membership_", "confidence_", "label_draws_", "r_hat_", "chain_agreement_")


def test_confidence_of_labels_and_pairs(noise: np.ndarray, tmp_path: Path) -> None:
    estimator = small(accuracy=0.9, confidence=True).fit(noise, must_link=MUST_LINKS)
    assert estimator.membership_.shape == (40, 3)
    assert estimator.confidence_.tolist() == estimator.membership_[range(40), estimator.labels_].tolist()
    draws = estimator.label_draws_
    shares = [(draws[:, i] == draws[:, j]).mean() for i, j in ((0, 1), (3, 29), (5, 5))]
    assert estimator.together([[0, 1], [3, 29], [5, 5]]).tolist() == pytest.approx(shares)
    assert estimator.together([]).shape == (0,)
    restored = pickle.loads(pickle.dumps(estimator))
    assert restored.together([[0, 1]]) == estimator.together([[0, 1]])
    again = clone(estimator).fit(noise, must_link=MUST_LINKS)
    assert fitted_bits(again) == fitted_bits(estimator)
    np.savetxt(tmp_path / "x", noise, fmt="%.17g")
    (tmp_path / "must").write_text("1 2 2\n5 5 2\n11 12\n4 30 1\n")
    arguments = ["-k", "3", "--restarts", "2", "--generations", "2", "--seed", "5", "--accuracy", "0.9"]
    files = [str(tmp_path / "x"), "--must-link", str(tmp_path / "must")]
    command = CliRunner().invoke(fit_command, [*files, *arguments, "--confidence", "--json"])
    assert json.loads(command.stdout)["membership"] == estimator.membership_.tolist()


def test_confidence_is_not_there_unless_asked_for(noise: np.ndarray) -> None:
    estimator = small(confidence=True).fit(noise)
    sure = fitted_bits(estimator)
    plain = fitted_bits(estimator.set_params(confidence=False).fit(noise))
    assert sure.keys() - plain.keys() == set(CONFIDENT)
    assert plain == {name: bits for name, bits in sure.items() if name in plain}
    with pytest.raises(AttributeError, match="fitted with confidence=False, expected confidence=True"):
        estimator.together([[0, 1]])
    with pytest.raises(NotFittedError):
        small(confidence=True).together([[0, 1]])
    for wrong in (1, "yes", None):
        with pytest.raises(ValueError, match=r"confidence: found .*, expected True or False"):
            small(confidence=wrong).fit(noise)


def test_pairs_are_checked(noise: np.ndarray) -> None:
    estimator = small(confidence=True).fit(noise)
    for pairs, text in [
        ([[0, 40]], "found 0, 40, expected whole numbers 0 to 39"),
        ([[0, 1, 2]], r"found rows of 3, expected shape \(n_pairs, 2\)"),
        ([0, 1], r"found shape \(2,\)"),
        ("some", "a str that makes no table"),
    ]:
        with pytest.raises(ValueError, match=text):
            estimator.together(pairs)
