"""Drivers stand still at any change of a file, wake when others have taken over, and go on."""

import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import xarray as xr
from cubes.small import files, make_plan, read_whole
from cubes.writer import journal_records
from hypothesis import HealthCheck, Phase, settings, stateful
from hypothesis import strategies as st
from processes.killing import reported_done
from processes.stepping import Driver

from sweep_clustering.storage.cube.blocks import UNPROMISED

SMALL = make_plan(baselines=())
LARGE = replace(SMALL, p=(0.9, 0.8))
FAILING = frozenset({"a/p=0.9/m=4/replicate=0/likelihood"})


def promised_cube(cube: Path) -> xr.DataTree:
    """Return a cube without times, as a restart that two drivers ran has two times."""
    tree = read_whole(cube)
    return tree.map_over_datasets(lambda node: node.drop_vars(UNPROMISED, errors="ignore"))


@cache
def undisturbed_cube() -> xr.DataTree:
    """Return the cube of two drivers, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        cube = Path(folder) / "tiny.zarr"
        Driver(cube, SMALL).finish()
        Driver(cube, LARGE).finish()
        return promised_cube(cube)


class Stale(stateful.RuleBasedStateMachine):
    """Some drivers of one cube, of which any may stand still anywhere while the others move."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.cube = self.folder / "tiny.zarr"
        self.drivers: list[Driver] = []

    @stateful.precondition(lambda self: len([d for d in self.drivers if d.ended is None]) < 3)
    @stateful.rule(large=st.booleans(), failing=st.booleans())
    def start(self, large: bool, failing: bool) -> None:
        plan = LARGE if large else SMALL
        self.drivers.append(Driver(self.cube, plan, FAILING if failing else frozenset()))

    @stateful.precondition(lambda self: self.drivers)
    @stateful.rule(which=st.integers(0, 9), times=st.integers(1, 60))
    def step(self, which: int, times: int) -> None:
        self.drivers[which % len(self.drivers)].step(times)

    @stateful.precondition(lambda self: self.drivers)
    @stateful.rule(which=st.integers(0, 9))
    def finish(self, which: int) -> None:
        self.drivers[which % len(self.drivers)].finish()

    @stateful.precondition(lambda self: self.drivers)
    @stateful.rule(which=st.integers(0, 9))
    def kill(self, which: int) -> None:
        self.drivers[which % len(self.drivers)].kill()

    @stateful.invariant()
    def drivers_end_as_they_should(self) -> None:
        ends = {driver.ended for driver in self.drivers}
        assert ends <= {None, "complete", "lost the lease", "killed"}, ends

    @stateful.invariant()
    def what_was_reported_done_stays(self) -> None:
        reported = set().union(*(driver.reported for driver in self.drivers))
        assert reported <= reported_done(self.cube)

    def teardown(self) -> None:
        try:
            for driver in self.drivers:
                driver.kill()
            last = Driver(self.cube, LARGE)
            last.finish()
            assert last.ended == "complete"
            assert promised_cube(self.cube).identical(undisturbed_cube())
            assert not list(journal_records(self.cube)), "nothing is left that is not in the cube"
            assert len(list(self.cube.with_suffix(".run").glob("generation.*"))) == 1
        finally:
            for driver in self.drivers:
                driver.kill()
            shutil.rmtree(self.folder)


def run(examples: int) -> None:
    few = settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # making an example smaller starts hundreds of processes
        suppress_health_check=list(HealthCheck),
    )
    stateful.run_state_machine_as_test(Stale, settings=few)


def test_drivers_that_stand_still_and_wake() -> None:
    run(4)


@pytest.mark.heavy
def test_drivers_that_stand_still_and_wake_at_length() -> None:
    run(400)


@pytest.mark.parametrize("which", range(1, 118, 15))
def test_one_driver_stands_still_at_each_change(which: int, tmp_path: Path) -> None:
    """If it wakes when another has finished, it changes nothing and ends for want of the lease."""
    cube = tmp_path / "tiny.zarr"
    first = Driver(cube, SMALL, FAILING)
    first.step(which)
    second = Driver(cube, LARGE)
    second.finish()
    assert second.ended == "complete"
    before = files(cube)
    at = first.changes[-1]
    had_it = any(change.startswith("os.link") for change in first.changes[:-1])
    over = first.ended is not None
    first.finish()
    assert first.ended == ("lost the lease" if had_it and not over else "complete"), at
    assert files(cube) == before, at
    third = Driver(cube, LARGE)
    third.finish()
    assert third.ended == "complete"
    assert files(cube) == before
