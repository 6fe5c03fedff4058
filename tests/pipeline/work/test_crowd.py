"""Cells of the design "crowd" have annotators of different accuracy, some of them unsure."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cubes.small import result_files
from processes.commandline import sweep
from processes.sweeping import assert_same_bits, run, write_spec

from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.pipeline.check import verify
from sweep_clustering.pipeline.methods.contract import merged_links
from sweep_clustering.pipeline.report.cell import crowd_words, read_cell
from sweep_clustering.pipeline.scoring.scores import scores
from sweep_clustering.pipeline.work.records import Science
from sweep_clustering.pipeline.work.tasks import solver_of
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.damage import scan
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.file.spec import Crowd
from sweep_clustering.sweeps.inputs import RealSource, cell_accuracies, cell_annotations
from sweep_clustering.sweeps.plan import Cell, find_cell

LABELS = np.repeat(np.arange(3, dtype=np.int16), 20)
SOURCE = RealSource(np.random.default_rng(3).normal(size=(60, 2)) + 2.0 * LABELS[:, np.newaxis], LABELS)
CELL = Cell("blobs", None, 0.7, 95, 0, "conditional-any", "crowd")
SCIENCE = Science(11, (Search(),), 3, crowd=Crowd(answers=20, unsure=0.2))

SWEEP = """
name = "tiny"
seed = 99
[grid]
datasets = [{mixture = {n_clusters = [2], count = 1, n_samples = 30, n_features = 3}}]
p = [0.7]
m = [25, 60]
replicates = 1
design = ["uniform", "biased"]
models = ["unsupervised", "posterior", "conditional-any"]
methods = ["pckmeans"]
restarts = 2
"""
PEOPLE = SWEEP.replace('"biased"]', '"biased", "crowd"]') + "[crowd]\nanswers = 10\nunsure = 0.2\n"


def test_soft_fits_have_layers_of_each_annotator_and_other_models_one_accuracy() -> None:
    annotations = cell_annotations(SCIENCE.seed, CELL, SOURCE, SCIENCE.crowd)
    solver = solver_of(SCIENCE, CELL, SOURCE.X, annotations)
    annotators = np.arange(95) // 20
    assert len(solver.layers) == 10
    for layer in solver.layers:
        rows = (annotators == layer.annotator) & (annotations[:, 2] == layer.kind)
        assert np.array_equal(layer.pairs, annotations[rows, :2])
        assert layer.accuracy is None
    for model in ("posterior", "conditional-tied"):
        layers = solver_of(SCIENCE, replace(CELL, model=model), SOURCE.X, annotations).layers
        assert [(layer.kind, layer.accuracy) for layer in layers] == [(MUST, 0.7), (CANNOT, 0.7)]
        assert sum(len(layer.pairs) for layer in layers) == (annotations[:, 2] < 2).sum() < 95
    links = merged_links(annotations)
    assert links.weights[0].sum() + links.weights[1].sum() <= (annotations[:, 2] < 2).sum()


def test_a_crowd_joins_the_designs_of_a_cube(tmp_path: Path) -> None:
    grown, whole = tmp_path / "grown", tmp_path / "whole"
    assert run(write_spec(tmp_path, SWEEP), grown) == 0
    before, cube = result_files(grown / "tiny.zarr"), grown / "tiny.zarr"
    assert "annotator" not in open_cube(cube)["mixtures_k2"].coords
    assert run(write_spec(tmp_path, PEOPLE), grown) == 0
    assert result_files(cube).items() >= before.items()
    assert run(write_spec(tmp_path, PEOPLE), whole) == 0
    assert_same_bits(cube, whole / "tiny.zarr")
    assert scan(cube).good
    assert verify(cube, sample=30).good
    assert run(write_spec(tmp_path, PEOPLE.replace("25, 60]", "25, 60, 75]")), grown) == 0
    tree = open_cube(cube)
    node = tree["mixtures_k2"].to_dataset()
    assert node["annotator"].values.tolist() == (np.arange(75) // 10).tolist()
    answers = node["annotations"].sel(mixture=0, p=0.7, m=60, design="crowd", replicate=0).values
    is_unsure = answers[:60, 2] == 2
    assert 3 <= is_unsure.sum() <= 25
    assert (answers[60:] == -1).all()
    name = "mixtures_k2/mixture=0/p=0.7/m=60/design=crowd/replicate=0/conditional-any"
    cell = read_cell(tree, find_cell(name, read_manifest(cube).plans.values()))
    assert np.array_equal(cell.links, answers[:60][~is_unsure])
    where = {"mixture": 0, "p": 0.7, "m": 60, "design": "crowd", "replicate": 0, "model": "posterior"}
    labels = node["labels"].sel(where).values
    i, j, kind = answers[:60][~is_unsure].T
    agreement = scores(tree, "mixtures_k2")["annotation_agreement"].sel(where).values
    assert agreement == ((labels[i] == labels[j]) == (kind == MUST)).mean()


@pytest.mark.usefixtures("undrawn")
def test_a_report_says_who_annotated_a_cell_and_a_plan_who_will(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, PEOPLE.replace(', "conditional-any"', ""))
    lines = sweep("plan", spec, "--results", tmp_path).output.splitlines()
    (words,) = (line for line in lines if line.startswith("crowd p="))
    assert words == (
        "crowd p=0.7: accuracies of at most 10 % 0.50, 25 % 0.60, 50 % 0.70, 75 % 0.77, 100 % 0.90;"
        " 10 answers each, 20 % unsure"
    )
    assert run(spec, tmp_path) == 0
    manifest, tree = read_manifest(tmp_path / "tiny.zarr"), open_cube(tmp_path / "tiny.zarr")
    assert "crowd answers 10, " in " ".join(sweep("report", tmp_path / "tiny.zarr", "--full").output.split())
    name = "mixtures_k2/mixture=0/p=0.7/m=60/design=crowd/replicate=0/posterior"
    cell = find_cell(name, manifest.plans.values())
    place = tree["mixtures_k2"].to_dataset().sel(p=0.7, m=60, design="crowd", replicate=0, mixture=0)
    kinds = place["annotations"].values[:, 2]
    drawn = cell_accuracies(99, cell, manifest.spec.crowd)
    words = crowd_words(tree, manifest.spec, cell)
    assert words.startswith(f"Its 60 answers, {(kinds == 2).sum()} of them unsure, are of 6 annotators;")
    low, middle, high = np.quantile(drawn.mean(axis=1), (0.25, 0.5, 0.75))
    assert f" {low:.2f}, {middle:.2f}, {high:.2f}. " in words
    errors = [float(text) for text in re.findall(r"0\.\d{3}", words)]
    assert len(errors) == 2
    assert all(0.0 < error < 0.5 for error in errors)


def test_a_crowd_alone_is_an_attribute(tmp_path: Path) -> None:
    alone = PEOPLE.replace('["uniform", "biased", "crowd"]', '["crowd"]').replace(
        '"conditional-any"', '"conditional"'
    )
    assert run(write_spec(tmp_path, alone), tmp_path) == 0
    node = open_cube(tmp_path / "tiny.zarr")["mixtures_k2"]
    assert node.attrs["design"] == "crowd"
    assert node["annotator"].values.tolist() == (np.arange(60) // 10).tolist()
    assert read_manifest(tmp_path / "tiny.zarr").format_version == 5
