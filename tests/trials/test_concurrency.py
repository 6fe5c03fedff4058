"""A reader in a loop, beside a writer that grows the cube and fills it."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import numpy as np
import pytest
import xarray as xr
from checkout import HELPERS
from cubes import small
from cubes.small import SPEC, draw_cell, draw_inputs, fill
from cubes.stages import LARGEST, STAGES, resume

from storage.cube.growth import create, grow, open_cube
from storage.cube.manifest import append_run
from storage.cube.schema import DONE
from storage.provenance import RunRecord
from sweeps.plan import Cell, DatasetPlan


def check_cells(tree: xr.DataTree) -> int:
    """Every done cell is whole; how many there are."""
    count = 0
    for name in tree.children:
        node = tree[name].to_dataset()
        table = node["status"].stack(cell=node["status"].dims).to_series()
        for key in table.index[table == DONE]:
            place = dict(zip(table.index.names, key, strict=True))
            cell = Cell(name, place.get("mixture"), *(place[k] for k in ("p", "m", "replicate", "model")))
            expected = draw_cell(LARGEST[name], cell)
            for variable in ("log_likelihood", "labels", "centroids", "restarts_done"):
                assert np.array_equal(node[variable].sel(place), expected[variable]), (cell, variable)
            count += 1
        for variable in ("labels", "best_restart"):
            pending = node["status"] != DONE
            assert (node[variable].where(pending, -1) == -1).all()
    return count


def write_all(path: Path, stages: list[list[DatasetPlan]]) -> None:
    for number, plans in enumerate(stages):
        grow(path, plans, draw_inputs, SPEC)
        append_run(path, RunRecord(run=number))
        fill(path, plans)


@pytest.mark.parametrize("masked", [True, False])
def test_a_reader_never_fails_and_never_sees_a_torn_cell(tmp_path: Path, masked: bool) -> None:
    path = tmp_path / "tiny.zarr"
    create(path, STAGES[0], draw_inputs, SPEC)
    counts: list[int] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                if masked:
                    counts.append(check_cells(open_cube(path).load()))
                else:
                    small.read_whole(path)
                    counts.append(0)
        except BaseException as error:
            failures.append(error)

    with dask.config.set(scheduler="synchronous"):
        reader = threading.Thread(target=read)
        reader.start()
        try:
            write_all(path, STAGES)
        finally:
            stop.set()
            reader.join()
        assert failures == []
        assert len(counts) >= 3
        assert counts == sorted(counts)
        assert check_cells(open_cube(path).load()) == sum(
            plan.n_cells - (plan.mixtures or 1) for plan in LARGEST.values()
        )


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from cubes.stages import resume
print("ready", flush=True)
resume(Path(sys.argv[1]))
"""


@pytest.mark.heavy
def test_killed_over_and_over_the_cube_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    path = tmp_path / "killed" / "tiny.zarr"
    create(path, STAGES[0], draw_inputs, SPEC)
    fill(path, STAGES[0])
    before = small.result_files(path)
    rng = random.Random(1)
    kills = 0
    while True:
        command = [sys.executable, "-c", WRITER, str(path), str(HELPERS)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        with writer.stdout:
            assert writer.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.01 * (kills + 3)))
            writer.kill()
        finished = writer.wait() == 0
        check_cells(open_cube(path).load())
        assert before.items() <= small.result_files(path).items()
        if finished:
            break
        kills += 1
    assert kills >= 10
    undisturbed = tmp_path / "undisturbed" / "tiny.zarr"
    create(undisturbed, STAGES[0], draw_inputs, SPEC)
    fill(undisturbed, STAGES[0])
    resume(undisturbed)
    resume(path)
    assert small.files(path) == small.files(undisturbed)
