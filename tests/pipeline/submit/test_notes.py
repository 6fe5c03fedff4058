"""What is said of a sweep before it is run."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from processes.commandline import sweep
from processes.sweeping import TINY, run, write_spec

from pipeline.submit.notes import search_notes
from sweeps.file.reading import load_sweep


def noted(folder: Path, models: str, more: str) -> list[str]:
    text = TINY.replace('"unsupervised", "likelihood", "posterior"', models) + more
    return search_notes(load_sweep(write_spec(folder, text)))


@pytest.mark.parametrize(
    ("models", "unused", "shapes"),
    [
        ('"posterior"', "covariance_prior", "spherical"),
        ('"unsupervised-common", "posterior"', "covariance_prior", "common, spherical"),
        ('"unsupervised-full", "posterior-tied"', "variance_prior", "full, tied"),
        ('"posterior-diagonal"', "variance_prior", "diagonal"),
        ('"unsupervised", "posterior-full"', "", ""),
        ('"posterior-auto"', "", ""),
        ('"posterior-auto", "posterior-full"', "", ""),
    ],
)
def test_a_prior_that_no_model_has_is_said(tmp_path: Path, models: str, unused: str, shapes: str) -> None:
    for name, value in (("variance_prior", 0.5), ("covariance_prior", 2.0)):
        found = noted(tmp_path, models, f"{name} = {value}\n")
        assert found == ([f"[search] {name} is not used by {shapes} covariances"] if name == unused else [])
    # nothing is said of what was not asked for
    assert noted(tmp_path, models, "variance_prior = 0\ncovariance_prior = 1\n") == []


def test_plan_and_submit_say_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = TINY.replace('"unsupervised", "likelihood", "posterior"', '"unsupervised-diagonal"')
    spec = write_spec(tmp_path, text.replace("[2, 3]", "[2]") + "variance_prior = 0.5\n")
    said = "[search] variance_prior is not used by diagonal covariances"
    assert f"NOTE {said}" in sweep("plan", spec, "--results", tmp_path).stdout
    document = json.loads(sweep("plan", spec, "--results", tmp_path, "--json").stdout)
    assert document["search_notes"] == [said]
    with caplog.at_level(logging.WARNING):
        assert run(spec, tmp_path) == 0
    assert f"NOTE {said}" in [record.getMessage() for record in caplog.records]
