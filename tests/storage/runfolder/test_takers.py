"""Several processes want one lease, and each may sleep or die between any two steps."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from processes.leases import DEAD, leave_lease, other, run_of

from storage.runfolder import lease as module
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Lease, LeaseHeld, LeaseState


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return tmp_path / "results" / "tiny.zarr"


def race(cube: str, rounds: int, barrier: Any, results: Any) -> None:
    for number in range(rounds):
        barrier.wait()
        try:
            Lease.acquire(Path(f"{cube}.{number}.zarr"))
            results.put(number)
        except LeaseHeld:
            pass


def test_of_many_takers_of_a_dead_lease_one_wins(tmp_path: Path) -> None:
    rounds, takers = 15, 4
    for number in range(rounds):
        leave_lease(tmp_path / f"cube.{number}.zarr", other(**DEAD))
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(takers), context.Queue()
    arguments = (str(tmp_path / "cube"), rounds, barrier, results)
    processes = [context.Process(target=race, args=arguments) for _ in range(takers)]
    for process in processes:
        process.start()
    # all of them stay alive until every round is over, for a dead winner would be taken over
    won = sorted(results.get(timeout=60) for _ in range(rounds))
    for process in processes:
        process.join()
    assert won == list(range(rounds))
    assert results.empty()


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("look", ["lease_numbers", "generations"])
def test_a_lease_that_is_taken_during_a_look_is_not_taken_away(
    cube: Path, monkeypatch: pytest.MonkeyPatch, look: str, at: int
) -> None:
    leave_lease(cube, other(**DEAD))
    real_look, looks, taken = getattr(RunFolder, look), [], []

    def slow_look(run: RunFolder) -> Any:
        found = real_look(run)
        looks.append(found)
        if len(looks) == at:
            monkeypatch.setattr(RunFolder, look, real_look)
            taken.append(Lease.acquire(cube))
        return found

    monkeypatch.setattr(RunFolder, look, slow_look)
    with pytest.raises(LeaseHeld):
        Lease.acquire(cube)
    with taken.pop() as lease:
        lease.check()


real = module.last_lease


@pytest.mark.parametrize("number", [1, 50])
def test_a_taker_who_slept_takes_nothing_away(
    cube: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It saw a dead lease once, which others have taken since, or which has long been cleaned away."""
    dead = leave_lease(cube, other(**DEAD), number=number)
    look = [LeaseState(min(number, 3), dead, 0, False)] * 2
    with Lease.acquire(cube) as lease:
        monkeypatch.setattr(module, "last_lease", lambda run: look.pop() if look else real(run))
        with pytest.raises(LeaseHeld) as caught:
            Lease.acquire(cube)
        assert caught.value.holder == lease.holder
        lease.check()
    leases = {f"lease.{number}", f"lease.{number + 1}"}
    assert {path.name for path in run_of(cube).iterdir()} == {f"generation.{number + 1}", *leases}
