"""What `sweep ask` is given, and what it says beside the questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beliefs import made_up
from solving.blobs import far_clusters

from pipeline.ask.questions import Outlook
from pipeline.ask.summary import AskOptions, Standing, read_ask, stand, standing_lines
from pipeline.asking.belief import Share
from pipeline.fit.inputs import FitInputs
from sweeps.errors import InputError

ROWS = "name,a,b\n" + "".join(f"row {i},{i},{i * i % 11}\n" for i in range(12))


@pytest.fixture
def options(tmp_path: Path) -> AskOptions:
    (tmp_path / "x.csv").write_text(ROWS)
    return AskOptions(features=tmp_path / "x.csv", n_clusters=3, aside=("name",), names="name")


def problems(options: AskOptions, **changes: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_ask(replace(options, **changes))
    return [str(problem) for problem in caught.value.problems]


def test_a_session_makes_its_file_and_the_others_must_be_there(options: AskOptions, tmp_path: Path) -> None:
    session = replace(options, interactive=True)
    new, absent = tmp_path / "new.csv", tmp_path / "absent.csv"
    assert read_ask(replace(session, annotations=(new,))).rows == []
    found = problems(session, annotations=(absent, new), annotator=" ")
    assert [text.split(": found")[0] for text in found] == ["--annotator", str(absent)]


def test_questions_never_overwrite_answers(options: AskOptions, tmp_path: Path) -> None:
    out = tmp_path / "ask.csv"
    asking = replace(options, out=out)
    read_ask(asking)
    for harmless in ("", "i,j,answer\n1,2,\n"):
        out.write_text(harmless)
        read_ask(asking)
    for other in ("i,j,answer\n1,2,yes\n", "i,j,answer\n1,2,skip\n", "i,j,answer\n1,2,perhaps\n", ROWS):
        out.write_text(other)
        (problem,) = problems(asking)
        assert problem.startswith(f"--out: found {out}, a file with answers")
    assert problems(replace(options, out=tmp_path))[0].startswith("--out: found")


# Where a course of questions stands.


@pytest.fixture
def given(tmp_path: Path) -> tuple[AskOptions, FitInputs]:
    np.savetxt(tmp_path / "x.data", far_clusters()[0], fmt="%.17g")
    (tmp_path / "a").write_text("i,j,annotator,answer\n1,2,ann,yes\n1,12,bob,no\n3,4,ann,yes\n5,6,ann,skip\n")
    options = AskOptions(
        features=tmp_path / "x.data", n_clusters=3, annotations=(tmp_path / "a",), restarts=2, count=4,
        until=0.9,
    )  # fmt: skip
    return options, read_ask(options)


def test_answers_are_counted_and_questions_chosen(given: tuple[AskOptions, FitInputs]) -> None:
    options, inputs = given
    found = stand(options, inputs, inputs.rows)
    assert (found.n_yes, found.n_no, found.n_skipped, found.n_answers) == (2, 1, 1, 3)
    assert len(found.questions) == 4
    assert found.share.mean > 0.9
    assert found.outlook == (0, 0, "")
    assert not {(0, 1), (0, 11), (2, 3), (4, 5)} & {(each.first, each.second) for each in found.questions}
    assert stand(options, inputs, inputs.rows).questions == found.questions
    assert stand(options, inputs, inputs.rows, 1, found.belief.labels).questions != found.questions
    # three right answers beside ten of accuracy 0.9 that are assumed
    assert found.belief.accuracy == pytest.approx(12 / 13)
    told = replace(options, accuracy=0.8, annotator_accuracy=("ann=0.7",))
    for annotator, accuracy in (("ann", 0.7), ("bob", 0.8)):
        own = replace(told, annotator=annotator)
        assert stand(own, read_ask(own), inputs.rows).belief.accuracy == accuracy


def test_standing_in_lines(options: AskOptions) -> None:
    belief = made_up([[0, 0, 1, 1, 2]] * 3)
    standing = Standing(belief, [], Share(0.83, 0.74, 0.91), Outlook(42, 187), 31, 26, 2)
    assert standing_lines(replace(options, until=0.9), standing)[:5] == [
        "answers    57: 31 yes, 26 no; 2 skipped",
        "accuracy   0.90, estimated from the answers",
        "sizes      2 2 1, spherical covariance",
        "confidence 83% (74% to 91%) of the labels expected right",
        "until 0.9  about 42 to 190 more questions",
    ]
    none = replace(standing, n_yes=0, n_no=0, n_skipped=0, outlook=None)
    lines = standing_lines(options, none)
    assert lines[:2] == ["answers    0: 0 yes, 0 no", "accuracy   0.90, assumed before there are answers"]
    told = replace(options, annotator_accuracy=("asked=0.9",))
    assert standing_lines(told, none)[1] == "accuracy   0.90, as given"
