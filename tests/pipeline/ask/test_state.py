"""Where a course of questions stands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from solving.blobs import far_clusters

from pipeline.ask.options import AskOptions, read_ask
from pipeline.ask.state import stand
from pipeline.fit.inputs import FitInputs, FitOptions


@pytest.fixture
def given(tmp_path: Path) -> tuple[AskOptions, FitInputs]:
    X, _ = far_clusters()
    np.savetxt(tmp_path / "x.data", X, fmt="%.17g")
    (tmp_path / "a").write_text("i,j,annotator,answer\n1,2,ann,yes\n1,12,bob,no\n3,4,ann,yes\n5,6,ann,skip\n")
    fit = FitOptions(
        tmp_path / "x.data", None, None, None, 3, "conditional", None, 2, 0, "none",
        annotations=(tmp_path / "a",), covariance="spherical",
    )  # fmt: skip
    options = AskOptions(fit, 4, "information", None, (), None, 0.9, "asked", False, False)
    return options, read_ask(options)


def test_answers_are_counted_and_questions_chosen(given: tuple[AskOptions, FitInputs]) -> None:
    options, inputs = given
    found = stand(options, inputs, inputs.rows)
    assert (found.n_yes, found.n_no, found.n_skipped, found.n_answers) == (2, 1, 1, 3)
    assert len(found.questions) == 4
    assert found.share.mean > 0.9
    assert found.outlook == (0, 0, "")
    assert not {(0, 1), (0, 11), (2, 3), (4, 5)} & {(each.first, each.second) for each in found.questions}


def test_accuracy_is_that_of_who_answers(given: tuple[AskOptions, FitInputs]) -> None:
    options, inputs = given
    told = replace(options.fit, accuracy=0.8, annotator_accuracy=("ann=0.7",))
    for annotator, accuracy in (("ann", 0.7), ("bob", 0.8), ("asked", 0.8)):
        found = stand(replace(options, fit=told, annotator=annotator), inputs, inputs.rows)
        assert found.belief.accuracy == accuracy
    # three right answers beside ten of accuracy 0.9 that are assumed
    assert stand(options, inputs, inputs.rows).belief.accuracy == pytest.approx(12 / 13)


def test_batches_differ_and_repeat(given: tuple[AskOptions, FitInputs]) -> None:
    options, inputs = given
    uniform = replace(options, strategy="uniform")
    first = stand(uniform, inputs, inputs.rows)
    assert stand(uniform, inputs, inputs.rows).questions == first.questions
    second = stand(uniform, inputs, inputs.rows, batch=1, start=first.belief.labels)
    assert second.questions != first.questions
