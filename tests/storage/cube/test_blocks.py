"""Blocks are written whole and compared when done, and a cube opens as a lazy, masked tree."""

import os
import pickle
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dask
import dask.array
import numpy as np
import pytest
import zarr
from cubes.small import SPEC, draw_block, draw_inputs, files, fill, make_plan, read_whole, result_files
from cubes.stages import STAGES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sweep_clustering.storage.cube import manifest as module
from sweep_clustering.storage.cube.blocks import BlockStore, CellMismatch, differing_rows
from sweep_clustering.storage.cube.growth import create, grow, open_cube
from sweep_clustering.storage.cube.schema import DONE, FAILED, PENDING, VARIABLES, result_names
from sweep_clustering.storage.files import StorageError

RESULTS = result_names(make_plan(), ["likelihood"])
PLAN = make_plan("a", p=(0.9, 0.8), m=(4, 6), replicates=3, models=("likelihood", "posterior"))
MIXTURE = make_plan("b", mixtures=4, mixture_chunk=2, m=(3,))
BLOCK = list(PLAN.blocks())[-1]
Results = dict[str, np.ndarray]


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN, MIXTURE], draw_inputs, SPEC)
    return path


@pytest.fixture
def store(cube: Path) -> BlockStore:
    return BlockStore(cube)


def results(**changes: Any) -> Results:
    return draw_block(PLAN, BLOCK) | {key: np.asarray(value) for key, value in changes.items()}


def with_change(of: Results, name: str, where: Any, value: Any) -> Results:
    """Return results with another value somewhere."""
    values = of[name].copy()
    values[where] = value
    return of | {name: values}


def inodes(cube: Path) -> dict[str, int]:
    return {name: (cube / name).stat().st_ino for name in files(cube)}


def are_equal(first: Results, second: Results) -> bool:
    return first.keys() == second.keys() and not any(differing_rows(first[x], second[x]).any() for x in first)


def test_every_block_reads_back_and_lies_at_its_coordinates(store: BlockStore, cube: Path) -> None:
    blocks = [(plan, block) for plan in (PLAN, MIXTURE) for block in plan.blocks()]
    for number, (plan, block) in enumerate(blocks):
        assert (store.statuses(block) == PENDING).all()
        status = np.arange(block.n_cells) % 3 if number % 2 else np.full(block.n_cells, DONE)
        store.write(block, draw_block(plan, block) | {"status": status})
    for plan in (PLAN, MIXTURE):
        statuses = list(store.all_statuses(plan))
        assert [block for block, _ in statuses] == list(plan.blocks())
        assert all(np.array_equal(values, store.statuses(block)) for block, values in statuses)
    fill(cube, [PLAN, MIXTURE])
    tree = read_whole(cube)
    for plan, block in blocks:
        drawn = draw_block(plan, block)
        assert are_equal(store.read(block), drawn)
        for cell, values in zip(block.cells(), drawn["log_likelihood"], strict=True):
            place = {dim.name: getattr(cell, dim.name) for dim in block.node.stored}
            assert np.array_equal(tree[block.node.path]["log_likelihood"].sel(place), values)


def test_computed_again_nothing_is_touched(store: BlockStore, cube: Path) -> None:
    nan = with_change(results(), "log_likelihood", (2, 1), np.nan)
    store.write(BLOCK, nan)
    before = inodes(cube)
    store.write(BLOCK, nan | {"seconds": nan["seconds"] + 1})
    store.write(BLOCK, results(status=np.zeros(BLOCK.n_cells)))
    assert inodes(cube) == before
    assert are_equal(store.read(BLOCK), nan)


def test_another_result_names_cell_variables_and_both_values(store: BlockStore, cube: Path) -> None:
    first = with_change(with_change(results(), "log_likelihood", (3, 1), 0.0), "covariances", (3, 0), np.nan)
    store.write(BLOCK, first)
    before = files(cube)
    for name, index, new in (
        ("log_likelihood", (3, 1), -0.0),
        ("centroids", (3, 1, 0), np.nan),
        ("covariances", (3, 0), 0.5),
        ("labels", (3, 4), 7),
        ("restarts_done", (3,), 2),
        ("status", (3,), FAILED),
    ):
        second = with_change(first, name, index, new)
        with pytest.raises(CellMismatch, match=r"^a/p=0.8/m=6/replicate=1/posterior: ") as caught:
            store.write(BLOCK, second)
        assert caught.value.cell == list(BLOCK.cells())[3]
        text = f"stored {first[name][index].item()!r}, new {second[name][index].item()!r}"
        assert name in caught.value.values
        assert text in str(pickle.loads(pickle.dumps(caught.value)))
    third = with_change(first, "best_restart", 2, first["best_restart"][2] + 1)
    third["labels"] = first["labels"] + (np.arange(6) // 2 == 1).astype(np.int16)[:, None]
    with pytest.raises(CellMismatch, match=r"labels\[0\].*best_restart.*and 1 more cells") as caught:
        store.write(BLOCK, third)
    assert list(caught.value.values) == ["labels", "best_restart"]
    assert files(cube) == before


def test_other_annotations_of_a_done_cell_are_a_mismatch(store: BlockStore) -> None:
    store.write(BLOCK, results(status=[DONE, PENDING, DONE, DONE, PENDING, PENDING]))
    store.write(BLOCK, with_change(results(status=[PENDING] * 5 + [FAILED]), "annotations", (2, 0, 2), 7))
    with pytest.raises(CellMismatch, match=r"a/p=0.8/m=6/replicate=1.*annotations\[3, 2\]"):
        store.write(BLOCK, with_change(results(), "annotations", (1, 3, 2), 7))


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rounds=st.lists(st.lists(st.sampled_from([PENDING, DONE, FAILED]), min_size=6, max_size=6), max_size=4)
)
def test_any_row_of_writes(tmp_path_factory: pytest.TempPathFactory, rounds: list[list[int]]) -> None:
    """The result equals a plain table of cells: a retry completes failed cells and keeps done ones."""
    path = tmp_path_factory.mktemp("row") / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    store = BlockStore(path)
    table: list[tuple[int, float]] = [(PENDING, np.nan)] * 6
    for number, status in enumerate(rounds):
        pairs = list(zip(table, status, strict=True))
        allowed = [PENDING if old[0] == DONE and new == FAILED else new for old, new in pairs]
        store.write(BLOCK, results(status=allowed, seconds=np.full(6, float(number))))
        new_rows = [(new, float(number) if new == DONE else np.nan) for new in allowed]
        table = [old if old[0] == DONE else new for old, new in zip(table, new_rows, strict=True)]
    stored, drawn, is_done = store.read(BLOCK), results(), np.array([status == DONE for status, _ in table])
    assert stored["status"].tolist() == [status for status, _ in table]
    assert np.array_equal(stored["seconds"], [seconds for _, seconds in table], equal_nan=True)
    # cells that are not done hold nothing, nor do annotations that no done cell has
    has_annotations = is_done.reshape(3, 2).any(axis=1)
    for name in {*RESULTS, "annotations"} - {"status", "seconds"}:
        rows = has_annotations if name == "annotations" else is_done
        assert np.array_equal(stored[name][rows], drawn[name][rows])
        fill_value = np.full_like(stored[name][~rows], VARIABLES[name].fill)
        assert np.array_equal(stored[name][~rows], fill_value, equal_nan=stored[name].dtype.kind == "f")


def test_a_second_model_shares_the_annotations_of_the_first(tmp_path: Path) -> None:
    old, cube = make_plan("a", models=("likelihood",)), tmp_path / "x.zarr"
    new = replace(old, models=("likelihood", "posterior"))
    create(cube, [old], draw_inputs, SPEC)
    fill(cube, [old])
    grow(cube, [new], draw_inputs, SPEC)
    before, results_before = inodes(cube), result_files(cube)
    store, block = BlockStore(cube), list(new.blocks())[-1]
    assert block.models == ("posterior",)
    with pytest.raises(CellMismatch, match=r"posterior.*annotations"):
        store.write(block, with_change(draw_block(new, block), "annotations", ..., 0))
    store.write(block, draw_block(new, block))
    assert before.items() <= inodes(cube).items()
    assert results_before.items() <= result_files(cube).items()
    assert len(inodes(cube)) == len(before) + len(RESULTS)
    assert are_equal(store.read(block), draw_block(new, block))


def test_status_follows_when_all_else_is_on_disk(store: BlockStore, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[str, Path]] = []
    fsync, rename = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        fsync(descriptor)
        events.append(("durable", Path(os.readlink(f"/proc/self/fd/{descriptor}"))))

    def record_rename(source: Path, target: Path) -> None:
        rename(source, target)
        events.append(("named", Path(target)))

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_rename)
    store.write(BLOCK, results())
    *names, status = [path for event, path in events if event == "named"]
    assert {path.parent.name for path in names} == {*RESULTS, "annotations"} - {"status"}
    # first all contents with their names, then all names durable, then the status
    steps = {path: ("durable", path.with_name(path.name + ".partial")) for path in (*names, status)}
    expected = [step for path in names for step in (steps[path], ("named", path))]
    expected += [("durable", path.parent) for path in names]
    assert events == [*expected, steps[status], ("named", status), ("durable", status.parent)]


def test_what_vanished_is_an_error_and_is_not_made_again(store: BlockStore, cube: Path) -> None:
    shutil.rmtree(cube / "a" / "covariances")
    with pytest.raises(StorageError, match=r"covariances.*vanished"):
        store.write(BLOCK, results())
    assert not (cube / "a" / "covariances").exists()
    assert (store.statuses(BLOCK) == PENDING).all()
    shutil.rmtree(cube)
    for action in (store.statuses, store.read, lambda block: store.write(block, results())):
        with pytest.raises(StorageError, match="vanished"):
            action(BLOCK)
    assert not cube.exists()


def test_results_that_do_not_fit_are_all_named(store: BlockStore, cube: Path) -> None:
    wrong = results(best_restart=np.full(6, 0.5), status=[np.nan] * 6, restarts_done=[2**40] * 6, extra=0)
    wrong |= {"labels": wrong["labels"][:, 1:], "annotations": wrong["annotations"][:, :-1]}
    with pytest.raises(ValueError, match=r"block a/p=0.8/m=6/replicates=0:3 do not fit") as caught:
        store.write(BLOCK, wrong)
    message = str(caught.value)
    assert "extra, expected log_likelihood" in message
    assert "labels: shape (6, 4), expected (6, 5)" in message
    assert "annotations: shape (3, 5, 3), expected (3, 6, 3)" in message
    assert all(f"{name}: values that int" in message for name in ("best_restart", "restarts_done", "status"))
    assert (store.statuses(BLOCK) == PENDING).all()
    with pytest.raises(TypeError):
        BlockStore(cube, read_only=True).write(BLOCK, results())


def test_a_block_that_is_no_whole_chunk_of_the_cube_is_refused(store: BlockStore) -> None:
    cases: list[dict[str, Any]] = [{"name": "x"}, {"p": (0.9, 0.85)}, {"m": (4, 5)}, {"replicates": 2}]
    cases += [
        {"replicate_chunk": 2},
        {"models": PLAN.models[::-1]},
        {"mixtures": 2},
        {"searches": ("a", "b")},
    ]
    for changes in cases:
        block = list(replace(PLAN, **changes).blocks())[-1]
        for action in (store.statuses, store.read, store.annotations, store.has_status):
            with pytest.raises(ValueError, match="has no block"):
                action(block)


# The same bits: what counts as a difference, and between which cells.

FLOATS = st.sampled_from([0.0, -0.0, 1.0, np.nextafter(1.0, 2.0), np.nan, -np.nan, np.inf, 5e-324])


@given(st.data(), st.integers(1, 3), st.integers(0, 3))
def test_a_row_differs_if_a_value_has_other_bits(data: st.DataObject, rows: int, columns: int) -> None:
    def bits(row: np.ndarray) -> list[bytes]:
        return [b"NaN" if np.isnan(value) else struct.pack("<d", value) for value in np.ravel(row)]

    shape = (rows, columns) if columns else (rows,)
    first, second = (data.draw(hnp.arrays(np.float64, shape, elements=FLOATS)) for _ in range(2))
    expected = [bits(a) != bits(b) for a, b in zip(first, second, strict=True)]
    assert differing_rows(first, second).tolist() == expected
    assert not differing_rows(first, first.copy()).any()


# The cube opened: a snapshot of its status masks everything else.


def test_opening_computes_nothing_and_shows_the_moment_it_was(cube: Path) -> None:
    with dask.config.set(scheduler=Mock(side_effect=AssertionError("something was computed"))):
        tree = open_cube(cube)
        with pytest.raises(AssertionError, match="something was computed"):
            tree["a"]["labels"].values  # noqa: B018  the test above can fail
    for node in tree.subtree:
        for name, variable in node.to_dataset(inherit=False).data_vars.items():
            assert isinstance(variable.data, np.ndarray if name == "status" else dask.array.Array)
    assert isinstance(tree["a"].coords["m_over_n"].data, np.ndarray)
    assert tree["a"]["labels"].chunks == ((1, 1), (1, 1), (3,), (2,), (5,))
    assert tree["a/unsupervised"]["best_restart"].chunks == ()
    # grown meanwhile: accuracies and counts rise with their cells
    grown = replace(PLAN, p=(0.9, 0.8, 0.85), m=(4, 6, 5))
    grow(cube, [grown, MIXTURE], draw_inputs, SPEC)
    fill(cube, [grown])
    assert (tree["a"]["status"] == PENDING).all()
    assert (tree["a"]["labels"].values == -1).all()
    again = open_cube(cube)
    assert set(tree["a"]["X"].__dask_graph__()).isdisjoint(again["a"]["X"].__dask_graph__())
    assert pickle.loads(pickle.dumps(again)).load().identical(again.load())  # workers get it so
    coordinates = [again["a"][name].values.tolist() for name in ("p", "m", "m_over_n")]
    assert coordinates == [[0.8, 0.85, 0.9], [4, 5, 6], [0.8, 1.0, 1.2]]
    for block in (block for block in grown.blocks() if not block.node.baseline):
        labels = again["a"]["labels"].sel(p=block.first.p, m=block.first.m).values
        assert np.array_equal(labels.reshape(block.n_cells, -1), draw_block(grown, block)["labels"])


def test_what_is_not_done_is_masked(store: BlockStore, cube: Path) -> None:
    expected = draw_block(PLAN, BLOCK)
    store.write(BLOCK, expected)
    # behind the back of the store: the results stay, the status of three cells goes
    status = zarr.open_array(cube / "a" / "status", mode="r+")
    status[1, 1] = [[DONE, FAILED], [PENDING, PENDING], [DONE, DONE]]
    node = open_cube(cube)["a"].sel(p=0.8, m=6)
    is_done = np.array([[True, False], [False, False], [True, True]])
    for name in RESULTS[:-1]:
        values = node[name].values
        assert np.array_equal(values[is_done], expected[name][is_done.ravel()])
        masked = np.full_like(values[~is_done], VARIABLES[name].fill)
        assert np.array_equal(values[~is_done], masked, equal_nan=values.dtype.kind == "f")
        assert values.dtype == expected[name].dtype
    annotations = node["annotations"].values
    assert np.array_equal(annotations[[0, 2]], expected["annotations"][[0, 2]])
    assert (annotations[1] == -1).all()
    assert annotations.dtype == np.int32


def test_a_growth_during_opening_is_not_half_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid and the arrays belong to one moment, though the root is replaced in between."""
    path, real = tmp_path / "tiny.zarr", module.read_manifest
    create(path, STAGES[0], draw_inputs, SPEC)
    fill(path, STAGES[0])
    before = open_cube(path).load(scheduler="synchronous")

    def slow_read(path: Path) -> module.Manifest:
        manifest = real(path)
        monkeypatch.setattr(module, "read_manifest", real)
        grow(path, STAGES[-1], draw_inputs, SPEC)
        fill(path, STAGES[-1])
        return manifest

    monkeypatch.setattr(module, "read_manifest", slow_read)
    assert open_cube(path).load(scheduler="synchronous").identical(before)
    assert not open_cube(path).load(scheduler="synchronous").identical(before)
