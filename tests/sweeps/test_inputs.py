"""The annotations of a cell are a function of its coordinates by its design, unless it asks."""

import hashlib
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tomli_w

from sweep_clustering.sweeps import inputs as module
from sweep_clustering.sweeps.annotations import draw
from sweep_clustering.sweeps.annotations.files import pool_checksum
from sweep_clustering.sweeps.data.builtin import Unavailable
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.spec import Crowd, SweepSpec
from sweep_clustering.sweeps.plan import Cell
from sweep_clustering.sweeps.seeds import annotation_seed, data_seed, order_seed

# From the data sets of a sweep file to arrays and plans.

ROWS = "a,b,class\n" + "".join(f"{i},{i * i % 7},{'xy'[i % 2]}\n" for i in range(12))


def spec(folder: Path, **changes: object) -> SweepSpec:
    """Return a small sweep of one table and one mixture, with some keys changed."""
    (folder / "mine.csv").write_text(ROWS)
    mine = {"name": "mine", "path": "mine.csv", "label_column": "class"}
    grid = {"datasets": [mine], "p": [0.9], "m": ["0.5N", "1N"], "replicates": 2, "restarts": 3}
    file: dict[str, Any] = {"name": "s", "seed": 5, "search": {"min_cluster_size": 2}}
    file["grid"] = grid | {"models": ["unsupervised", "likelihood"]}
    places = {"batch": "ask", "min_cluster_size": "search", "scale": "data", "unavailable": "data"}
    for key, value in changes.items():
        file.setdefault(places.get(key, "grid"), {})[key] = value
    (folder / "s.toml").write_text(tomli_w.dumps(file))
    return load_sweep(folder / "s.toml")


def load(folder: Path, **changes: object) -> module.Inputs:
    return module.load_inputs(spec(folder, **changes), "s.toml")


def messages_of(folder: Path, **changes: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(folder, **changes)
    return [str(problem) for problem in caught.value.problems]


def test_a_table_becomes_a_plan_and_a_source(tmp_path: Path) -> None:
    inputs = load(tmp_path, scale="standard")
    (plan,) = inputs.plans
    assert plan.name == "mine"
    assert plan.n_samples == 12
    assert plan.n_features == 2
    assert plan.n_clusters == 2
    assert plan.m == (6, 12)
    assert plan.p == (0.9,)
    assert plan.models == ("likelihood",)
    assert plan.baselines == ("unsupervised",)
    assert plan.replicate_chunk == 2
    assert plan.model_chunk == 1
    assert plan.scale == "standard"
    assert plan.mixtures is None
    X, labels_true = inputs.stacked(plan)
    assert np.allclose([X.mean(axis=0), X.std(axis=0) - 1], 0)
    assert labels_true.tolist() == [0, 1] * 6
    for how in ("none", "minmax"):  # the checksum is of the table before scaling
        assert load(tmp_path, scale=how).plans[0].checksum == plan.checksum
    sweep = spec(tmp_path)
    (tmp_path / "mine.csv").write_text(ROWS.replace("11,2,y", "11,3,y"))
    assert module.load_inputs(sweep, "").plans[0].checksum != plan.checksum


def test_a_cube_keeps_names_that_are_neither_long_nor_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = spec(tmp_path)
    for length, most, is_kept in ((200, 2, True), (201, 2, False), (200, 1, False)):
        monkeypatch.setattr(module, "MOST_NAMED", most)
        name = "a" * length
        header, *_ = ROWS.splitlines()
        _, *others = header.split(",")
        (tmp_path / "mine.csv").write_text(ROWS.replace(header, ",".join([name, *others]), 1))
        (plan,) = module.load_inputs(sweep, "").plans
        assert plan.feature_names == ((name, *others[:-1]) if is_kept else ())
    assert module.names_checksum(()) == ""
    assert module.names_checksum(("a", "b")) != module.names_checksum(("b", "a"))


MIXTURE = {"mixture": {"n_clusters": [2, 3], "count": 3, "n_samples": 20, "n_features": 4}}


def test_what_32_bits_hold_is_sent_so_and_comes_back_as_it_was(tmp_path: Path) -> None:
    whole, scaled = (load(tmp_path, scale=how) for how in ("none", "standard"))
    assert [inputs.plans[0].short for inputs in (whole, scaled)] == [True, False]
    held = {value: module.is_short(np.array([[value]])) for value in (0.5, 0.1, 1e300, 2.0**24 + 1)}
    assert list(held.values()) == [True, False, False, False]
    for inputs, size in ((whole, 4), (scaled, 8)):
        source, buffers = inputs.sources["mine"], list[pickle.PickleBuffer]()
        sent = pickle.dumps(source, protocol=5, buffer_callback=buffers.append)
        assert 24 * size in [buffer.raw().nbytes for buffer in buffers]
        X, labels_true = pickle.loads(sent, buffers=buffers).arrays(None)
        assert X.dtype == np.float64
        assert X.tolist() == source.arrays(None)[0].tolist()
        assert labels_true.tolist() == source.arrays(None)[1].tolist()


def test_mixtures_are_functions_of_their_coordinates(tmp_path: Path) -> None:
    inputs = load(tmp_path, datasets=[MIXTURE])
    assert [plan.name for plan in inputs.plans] == ["mixtures_k2", "mixtures_k3"]
    plan = inputs.plans[1]
    X, labels_true = inputs.stacked(plan)
    assert X.shape == (3, 20, 4)
    for mixture in range(3):
        again, labels = inputs.sources["mixtures_k3"].arrays(mixture)
        assert np.array_equal(again, X[mixture])
        assert np.array_equal(labels, labels_true[mixture])
    rng = np.random.default_rng(data_seed(5, "mixtures_k3", 1))
    drawn, labels = module.draw_mixture(rng, n_clusters=3, n_samples=20, n_features=4)
    assert np.array_equal(X[1], drawn)
    assert np.array_equal(labels_true[1], labels)
    # more mixtures keep the checksum, another recipe does not
    changes = ({}, {"count": 6}, {"variance": [1, 2]}, {"n_samples": 21})
    recipes = [{"mixture": MIXTURE["mixture"] | change} for change in changes]
    checksums = [load(tmp_path, datasets=[recipe]).plans[0].checksum for recipe in recipes]
    assert checksums[0] == checksums[1]
    assert len(set(checksums)) == 3


def test_what_only_the_data_can_tell(tmp_path: Path) -> None:
    lost = {"name": "mine", "path": "none.csv", "n_clusters": 2}
    changes: dict[str, object]
    for changes, words in (
        ({"m": ["0.01N"]}, ["mine", "0.01N of 12 samples = 0", "at least 1 annotation"]),
        ({"m": ["0.5N", 6]}, ["'0.5N' and '6', both 6", "once"]),
        ({"min_cluster_size": 7}, ["12 samples", "2 · 7"]),
        ({"datasets": [lost]}, ["none.csv", "no such file"]),
        ({"design": ["active"], "batch": "0.05N"},
         ["s.toml [ask] batch, data set 'mine'", "0.05N of 12 samples = 0", "at least 1 question"]),
    ):  # fmt: skip
        (problem,) = messages_of(tmp_path, **changes)
        assert [word for word in words if word not in problem] == []


def test_annotations_of_a_file_stand_in_for_true_labels(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("".join(f"{i},{i * i}\n" for i in range(9)))
    (tmp_path / "answers.txt").write_text("1 2 must 4 ann\n3 9 cannot 5 bob\n")
    plain = {"name": "plain", "path": "plain.csv", "n_clusters": 2, "annotations": "answers.txt"}
    alone = {key: value for key, value in plain.items() if key != "annotations"}
    assert "no true labels" in "\n".join(messages_of(tmp_path, datasets=[alone]))
    inputs = load(tmp_path, datasets=[alone], models=["unsupervised"])
    assert inputs.stacked(inputs.plans[0])[1] is None
    inputs = load(tmp_path, datasets=[plain])
    (plan,) = inputs.plans
    assert plan.n_annotations == 9
    assert not plan.has_labels
    assert plan.m == (4, 9)
    X, labels_true, pool, _ = inputs.stored(plan)
    assert X.shape == (9, 2)
    assert labels_true is None
    assert plan.annotations_checksum == pool_checksum(pool)
    assert plan.source.endswith(f"annotations {tmp_path / 'answers.txt'}")
    (tmp_path / "answers.txt").write_text("1 9 must 4 ann\n")
    (few,) = messages_of(tmp_path, datasets=[plain])
    most = f"found 1N = 9 annotations, expected at most 4, the annotations in {tmp_path / 'answers.txt'}"
    assert few == f"s.toml [grid], data set 'plain': m: {most}"
    assert load(tmp_path, datasets=[plain], models=["unsupervised"]).plans[0].n_annotations == 4


def test_a_messy_table_with_annotations_by_name_and_row(tmp_path: Path) -> None:
    (tmp_path / "messy.csv").write_text("id,a,b\nAnn,1,2\nBob,,3\nEve,3,5\nKim,4,1\nLee,5,9\n")
    (tmp_path / "answers.txt").write_text("Ann Eve must 3 ann\n4 5 cannot 2 bob\n")
    entry = {"name": "own", "path": "messy.csv", "n_clusters": 2, "annotations": "answers.txt"}
    entry |= {"index_column": "id", "missing": "drop"}
    sweep = spec(tmp_path, datasets=[entry])
    inputs = module.load_inputs(sweep, "")
    (plan,) = inputs.plans
    X, _, pool, names = inputs.stored(plan)
    assert names.tolist() == ["Ann", "Eve", "Kim", "Lee"]
    assert plan.feature_names == ("a", "b")
    assert X.tolist() == [[1, 2], [3, 5], [4, 1], [5, 9]]
    assert pool.tolist() == [[0, 1, 0]] * 3 + [[2, 3, 1]] * 2
    assert inputs.notes["own"][-2] == "features used: a, b (2)"
    assert inputs.notes["own"][-1].endswith("names row 5, the last")
    dump = sweep.dump()["grid"]["datasets"][0]
    assert {key: dump[key] for key in entry if key not in ("path", "annotations")}.items() <= entry.items()
    assert not {"columns", "drop", "categories", "sheet"} & dump.keys()  # older cubes lack them too
    (tmp_path / "answers.txt").write_text("Ann Bob must 3 ann\n")
    (problem,) = messages_of(tmp_path, datasets=[entry])
    assert "line 1: found sample 'Bob', expected a row that is used" in problem


def test_unavailable_data_are_an_error_or_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Mock(side_effect=Unavailable("ecoli", ("nowhere",)))
    monkeypatch.setattr("sweep_clustering.sweeps.inputs.find", gone)
    datasets = ["ecoli", {"name": "mine", "path": "mine.csv", "label_column": "class"}]
    rows = [{"name": name, "path": f"{name}.csv", "n_clusters": 2} for name in ("one", "two")]
    *tables, problem = messages_of(tmp_path, datasets=[*datasets, *rows])
    assert ["one.csv" in tables[0], "two.csv" in tables[1], len(tables)] == [True, True, 2]
    assert "'ecoli', which is not available: nowhere" in problem
    assert 'unavailable = "skip"' in problem
    inputs = load(tmp_path, datasets=datasets, unavailable="skip")
    assert [plan.name for plan in inputs.plans] == ["mine"]
    assert inputs.skipped == {"ecoli": ("nowhere",)}
    (problem,) = messages_of(tmp_path, datasets=["ecoli", "wine"], unavailable="skip")
    assert "found 'ecoli' and 1 more, not available: nowhere, expected" in problem
    (alone,) = messages_of(tmp_path, datasets=["ecoli"], unavailable="skip")
    assert "found 'ecoli', not available: nowhere, expected" in alone


def test_designs_are_of_data_sets_that_use_annotations(tmp_path: Path) -> None:
    designs = ["active", "uniform"]
    (plan,) = load(tmp_path, design=designs).plans
    assert plan.designs == ("active", "uniform")
    assert plan.n_paths == 2
    assert plan.n_cells == 2 * 2 * 2 + 1
    (alone,) = load(tmp_path, design=designs, models=["unsupervised"]).plans
    assert alone.designs == ("uniform",)
    assert alone.asking_designs == ()
    assert alone.n_paths == 0
    (tmp_path / "own.txt").write_text("1 2 must 12 ann\n")
    entry = {"name": "mine", "path": "mine.csv", "label_column": "class", "annotations": "own.txt"}
    (problem,) = messages_of(tmp_path, datasets=[entry])
    assert "expected first_row = 0 or first_row = 1" in problem
    entry["first_row"] = 1
    (problem,) = messages_of(tmp_path, datasets=[entry], design=["uniform", "active", "biased"])
    assert "design: found 'active', 'biased', with the annotations in" in problem
    assert 'expected "uniform" alone' in problem


# Drawing of mixtures: the laws of docs/model.md, eq. (25), and the streams that must not move.


def test_first_draw_is_pinned() -> None:
    # a cube that was begun must go on with the same data
    X, labels = module.draw_mixture(np.random.default_rng(2021), n_clusters=2, n_samples=4, n_features=1)
    golden = [0.8339489990417366, -2.4271893108204994, -0.15667516830523676, -2.141416507072786]
    np.testing.assert_allclose(X[:, 0], golden, rtol=1e-14)
    assert labels.tolist() == [1, 1, 1, 0]


def test_embeddings_have_length_one_and_sizes_that_fall_with_the_rank() -> None:
    rng = np.random.default_rng(4)
    X, labels = module.draw_mixture(
        rng, n_clusters=20, n_samples=500, n_features=40, kind="embeddings", skew=1.0
    )
    assert np.square(X).sum(axis=1) == pytest.approx(np.ones(500))
    sizes = np.bincount(labels, minlength=20)
    assert sizes.sum() == 500
    shares = 1.0 / np.arange(1, 21)
    assert sizes == pytest.approx(1 + 480 * shares / shares.sum(), abs=1.0)
    equal = module.draw_mixture(rng, n_clusters=20, n_samples=500, n_features=40, kind="embeddings")[1]
    assert np.bincount(equal).tolist() == [25] * 20
    assert module.class_sizes(3, 5, 1.0).tolist() == [1, 1, 1, 0, 0]
    # within a class, five directions have nearly all of the variance
    large = X[labels == 0] - X[labels == 0].mean(axis=0)
    values = np.sort(np.linalg.eigvalsh(large.T @ large))[::-1]
    assert values[:5].sum() > 0.75 * values.sum()
    assert values[4] > 3.0 * values[5]


def test_a_recipe_of_the_first_cubes_has_the_checksum_and_the_words_that_it_had(tmp_path: Path) -> None:
    plain = {"mixture": {"n_clusters": [2], "count": 1}}
    named = {"mixture": {**plain["mixture"], "kind": "spherical", "skew": 0}}
    skewed = {"mixture": {**plain["mixture"], "skew": 0.5}}
    checksums = [load(tmp_path, datasets=[entry]).plans[0].checksum for entry in (plain, named, skewed)]
    assert checksums[0] == checksums[1] != checksums[2]
    recipe = {"name": "mixtures_k2", "n_clusters": 2, "n_samples": 200, "n_features": 10}
    recipe |= {"center": [-1.0, 1.0], "variance": [0.0, 5.0]}
    text = json.dumps(recipe, sort_keys=True)
    assert checksums[0] == hashlib.sha256(text.encode()).hexdigest()


def test_an_absent_table_is_left_out_if_the_file_says_so(tmp_path: Path) -> None:
    absent = {"name": "texts", "path": "nowhere.npz"}
    assert "nowhere.npz" in messages_of(tmp_path, datasets=["iris", absent])[0]
    inputs = load(tmp_path, datasets=["iris", absent], unavailable="skip")
    assert [plan.name for plan in inputs.plans] == ["iris"]
    assert inputs.skipped == {"texts": (f"{tmp_path / 'nowhere.npz'} does not exist",)}


CROWD = Crowd(answers=4, unsure=0.2)


def test_what_a_design_draws_is_a_function_of_coordinates() -> None:
    labels, cell = (np.arange(30) % 3).astype(np.int16), Cell("a", 2, 0.9, 12, 1, "posterior")
    X = np.random.default_rng(0).normal(size=(30, 2))
    source = module.RealSource(X, labels)
    seed = annotation_seed(7, "a", mixture=2, p=0.9, m=12, replicate=1)
    uniform = draw.draw_annotations(np.random.default_rng(seed), labels, p=0.9, m=12)
    for drawn_cell in (cell, replace(cell, design="uniform"), replace(cell, model="likelihood")):
        assert np.array_equal(module.cell_annotations(7, drawn_cell, source, CROWD), uniform)
    order = np.random.default_rng(order_seed(7, "a", mixture=2, replicate=1)).permutation(30)
    biased = module.cell_annotations(7, replace(cell, design="biased"), source, CROWD)
    assert np.array_equal(biased, draw.draw_biased(np.random.default_rng(seed), labels, order, p=0.9, m=12))
    assert not np.array_equal(biased, uniform)
    near = module.cell_annotations(7, replace(cell, design="near"), source, CROWD)
    assert np.array_equal(near, draw.draw_near(np.random.default_rng(seed), labels, X, p=0.9, m=12))
    people = np.random.default_rng(order_seed(7, "a", mixture=2, replicate=1))
    accuracies = draw.draw_accuracies(people, 3, quantiles=CROWD.accuracies, leaning=CROWD.leaning, p=0.9)
    crowd = module.cell_annotations(7, replace(cell, design="crowd"), source, CROWD)
    rng = np.random.default_rng(seed)
    assert np.array_equal(crowd, draw.draw_crowd(rng, labels, accuracies, answers=4, unsure=0.2, m=12))
    assert np.array_equal(crowd[:, :2], uniform[:, :2])
    with pytest.raises(ValueError, match="are asked for, not drawn"):
        module.cell_annotations(7, replace(cell, design="active"), source, CROWD)
