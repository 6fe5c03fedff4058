"""Faults inside real worker processes have a bounded cost and a clear message."""

from pathlib import Path

import pytest
from processes import sabotage
from processes.sweeping import assert_same_bits, run, start, tiny, write_spec

from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE, FAILED
from sweep_clustering.storage.runfolder.folder import RunFolder, read_failures

SPEC = tiny(5, datasets=["iris"], m=["1N"], replicates=3, models=["likelihood", "posterior"], restarts=2)

LIMITED = """
small: {kind: local, memory_limit: 700MiB, dashboard_port: 0}
"""


def cell(p: int, replicate: int) -> str:
    return f"iris/p={p}/m=150/replicate={replicate}/posterior"


def submit_sabotaged(folder: Path, faults: list[tuple[str, str]], *arguments: str) -> tuple[int, str]:
    """Submit in another process whose workers have these faults."""
    (folder / "cluster.yaml").write_text(LIMITED)
    choices = ("--workers", "2", "--profile", "small", "--cluster", str(folder / "cluster.yaml"), *arguments)
    process = start(write_spec(folder, SPEC), folder, *choices, environment=sabotage.environment(faults))
    _, log = process.communicate(timeout=300)
    return process.returncode, log


def unfinished_cells(cube: Path) -> set[str]:
    """Return the cells that are not done, and check that all of them have failed."""
    store, plans = BlockStore(cube, read_only=True), read_manifest(cube).plans.values()
    failed = {str(cell) for cell in store.cells(plans, FAILED)}
    assert len(failed) + sum(1 for _ in store.cells(plans, DONE)) == sum(plan.n_cells for plan in plans)
    return failed


def causes(cube: Path, name: str) -> list[str]:
    """Return the causes of a cell that failed."""
    records = [record for record in read_failures(RunFolder(cube)) if record.cell == name]
    assert all(record.node for record in records)
    return [record.cause for record in records]


@pytest.mark.slow
def test_a_cell_that_never_ends_costs_itself_alone(
    tmp_path: Path, reference: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both workers are stuck in turn and started again, or the run would hang."""
    broken = [cell(1, 0), cell(1, 1)]
    faults = [(name, "hang") for name in broken]
    code, log = submit_sabotaged(tmp_path, [*faults, (cell(1, 2), "raises")], "--time-limit", "2")
    assert code == 3, log
    cube = tmp_path / "tiny.zarr"
    assert unfinished_cells(cube) == {*broken, cell(1, 2)}
    for name in broken:
        (once, twice) = causes(cube, name)
        assert once == twice
        assert once.startswith("TimeLimitExceeded: ran for more than 2 s")
        assert f"cell {name} failed: {once}" in log
    assert causes(cube, cell(1, 2)) == ["FloatingPointError: no such luck"] * 2
    assert run(tmp_path / "tiny.toml", tmp_path, retry_failed=True) == 0
    assert_same_bits(reference, cube)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("fault", "says"), [("kill_self", "killed by a signal"), ("memory", "its memory limit")]
)
def test_a_cell_that_kills_its_workers_costs_itself_alone(
    tmp_path: Path, reference: Path, fault: str, says: str
) -> None:
    code, log = submit_sabotaged(tmp_path, [(cell(1, 1), fault)])
    assert code == 3, log
    assert unfinished_cells(tmp_path / "tiny.zarr") == {cell(1, 1)}
    (once, twice) = causes(tmp_path / "tiny.zarr", cell(1, 1))
    assert once.startswith("WorkersDied: 3 worker processes died while they ran it")
    assert says in once + twice
    assert run(tmp_path / "tiny.toml", tmp_path, retry_failed=True) == 0
    assert_same_bits(reference, tmp_path / "tiny.zarr")
