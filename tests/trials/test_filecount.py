"""The whole evaluation is three cubes with few files, made as they are shipped."""

from pathlib import Path

import pytest
from checkout import ROOT

from sweep_clustering.pipeline.run.request import Sweep, prepare
from sweep_clustering.pipeline.submit.overview import plan_overview

SHIPPED = ROOT / "sweeps"
MOST_FILES = 3400


@pytest.fixture
def evaluation(raw_data: Path, tmp_path: Path) -> list[Sweep]:
    names = ("uci", "uci-unscaled", "mixtures")
    return [prepare(SHIPPED / f"{name}.toml", results=tmp_path, data_dir=raw_data) for name in names]


def test_the_whole_evaluation_is_planned_in_few_files(evaluation: list[Sweep]) -> None:
    assert len([plan for sweep in evaluation for plan in sweep.inputs.plans]) == 8 + 8 + 3
    files = [plan_overview(sweep)["total"]["files"] for sweep in evaluation]
    assert sum(files) < MOST_FILES
