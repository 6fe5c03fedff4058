"""The whole evaluation in files: three cubes, made as they are shipped."""

from pathlib import Path

import pytest
from checkout import ROOT

from sweep_clustering.pipeline.run.request import Prepared, prepare
from sweep_clustering.pipeline.submit.overview import plan_overview

SHIPPED = ROOT / "sweeps"
MOST_FILES = 3400


@pytest.fixture
def evaluation(raw_data: Path, tmp_path: Path) -> list[Prepared]:
    names = ("uci", "uci-unscaled", "mixtures")
    return [prepare(SHIPPED / f"{name}.toml", results=tmp_path, data_dir=raw_data) for name in names]


def test_the_whole_evaluation_is_planned_in_few_files(evaluation: list[Prepared]) -> None:
    assert len([plan for prepared in evaluation for plan in prepared.inputs.plans]) == 8 + 8 + 3
    files = [plan_overview(prepared)["total"]["files"] for prepared in evaluation]
    assert sum(files) < MOST_FILES
