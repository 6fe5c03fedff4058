"""A reader in a loop works beside a writer that grows the cube and fills it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from cubes import small
from cubes.stages import LARGEST, STAGES

from sweep_clustering.storage.cube.growth import create, grow, open_cube
from sweep_clustering.storage.cube.manifest import append_run
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.storage.provenance import RunRecord
from sweep_clustering.sweeps.plan import Cell


def check_cells(tree: xr.DataTree) -> int:
    """Check that every done cell is whole, and return their number."""
    count = 0
    for name in tree.children:
        node = tree[name].to_dataset()
        table = node["status"].stack(cell=node["status"].dims).to_series()
        for key in table.index[table == DONE]:
            place = dict(zip(table.index.names, key, strict=True))
            cell = Cell(name, place.get("mixture"), *(place[k] for k in ("p", "m", "replicate", "model")))
            expected = small.draw_cell(LARGEST[name], cell)
            for variable in ("log_likelihood", "labels", "centroids", "restarts_done"):
                assert np.array_equal(node[variable].sel(place), expected[variable]), (cell, variable)
            count += 1
        for variable in ("labels", "best_restart"):
            assert (node[variable].where(node["status"] != DONE, -1) == -1).all()
    return count


@pytest.mark.parametrize("masked", [True, False])
def test_a_reader_never_fails_and_never_sees_a_torn_cell(tmp_path: Path, masked: bool) -> None:
    path = tmp_path / "tiny.zarr"
    create(path, STAGES[0], small.draw_inputs, small.SPEC)
    is_over = threading.Event()

    counts: list[int] = []

    def read() -> None:
        while not is_over.is_set():
            counts.append(check_cells(open_cube(path).load()) if masked else len(small.read_whole(path)))

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            for number, plans in enumerate(STAGES):
                grow(path, plans, small.draw_inputs, small.SPEC)
                append_run(path, RunRecord(run=number))
                small.fill(path, plans)
                # the writer is the faster one: some reads begin at each stage
                enough = len(counts) + 2
                while len(counts) < enough and not reader.done():
                    time.sleep(0.01)
        finally:
            is_over.set()
        reader.result()
    assert counts == sorted(counts)
    n_done = sum(plan.n_cells - (plan.mixtures or 1) for plan in LARGEST.values())
    assert check_cells(open_cube(path).load()) == n_done
