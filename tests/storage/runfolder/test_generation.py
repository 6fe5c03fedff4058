"""Generations of the lease: who came later closes those before, and loses nothing of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from processes.crash import crash_everywhere

from storage.runfolder.failures import FailedWork, FailureRecord, append_failure, read_failures
from storage.runfolder.folder import RunFolder
from storage.runfolder.generation import Generation, close_older, inherit
from storage.runfolder.journal import Journal, replay
from storage.runfolder.lease import LeaseLost
from storage.runfolder.pilot import Pilot, TimedRestart, read_pilot

FAILURE = FailureRecord(work=FailedWork(start=0, stop=1), cause="X", node="n", job="", traceback="", cell="c")


def begin(run: RunFolder, number: int) -> Generation:
    generation = Generation(run, number)
    generation.open()
    close_older(run, number)
    return generation


def work(generation: Generation, *numbers: int) -> None:
    """What a run leaves in its folder."""
    with Journal(generation.journal, generation.files) as journal:
        for number in numbers:
            journal.append({"number": number}, {"x": np.arange(number)})
    timed = tuple(TimedRestart("iris", "likelihood", 0.9, 8, float(number)) for number in numbers)
    Pilot(timed=timed).write(generation.pilot, generation.files)
    append_failure(generation.failures, FAILURE, generation.files)


def numbers(generation: Generation) -> list[int]:
    return [header["number"] for header, _ in replay(generation.journal)]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    return run


def test_a_later_holder_closes_all_before_it(run: RunFolder) -> None:
    first, second = begin(run, 1), begin(run, 2)
    assert not first.writing.is_dir()
    assert second.writing.is_dir()
    third = begin(run, 4)
    assert [generation.writing.is_dir() for generation in run.generations()] == [False, False, True]
    for generation in (first, second):
        with pytest.raises(LeaseLost):
            generation.files.check()
    third.files.check()
    close_older(run, 2)
    assert third.writing.is_dir(), "one that woke late closes only those before itself"


def test_what_former_holders_did_is_taken_over(run: RunFolder) -> None:
    work(begin(run, 1), 1, 2)
    work(begin(run, 2), 3)
    third = begin(run, 3)
    inherit(run, third)
    assert numbers(third) == [1, 2, 3]
    assert [row.seconds for row in read_pilot(run).timed] == [3.0]
    # The second record was written by another holder: it is another failure.
    assert read_failures(run) == [FAILURE, FAILURE]
    assert [generation.number for generation in run.generations()] == [3]
    assert sorted(path.name for path in third.path.iterdir()) == [
        "failures.jsonl",
        "journal",
        "pilot.json",
        "writing",
    ]


def test_a_former_holder_that_wakes_has_nothing_left_to_write_to(run: RunFolder) -> None:
    first = begin(run, 1)
    with Journal(first.journal, first.files) as journal:
        journal.append({"number": 1}, {})
        second = begin(run, 2)
        inherit(run, second)
        with pytest.raises(LeaseLost):
            journal.append({"number": 2}, {})
        with pytest.raises(LeaseLost):
            Pilot(timed=()).write(first.pilot, first.files)
    assert numbers(second) == [1]


def test_taking_over_crashed_anywhere(tmp_path: Path) -> None:
    def fresh(number: int) -> RunFolder:
        run = RunFolder(tmp_path / f"{number}.zarr")
        run.make()
        work(begin(run, 1), 1, 2)
        work(begin(run, 2), 3)
        return run

    def take_over(run: RunFolder) -> Generation:
        generation = begin(run, 1 + max(each.number for each in run.generations()))
        inherit(run, generation)
        return generation

    def check(run: RunFolder) -> None:
        generation = take_over(run)
        assert sorted(numbers(generation)) == [1, 2, 3]
        assert [row.seconds for row in read_pilot(run).timed] == [3.0]
        assert read_failures(run) == [FAILURE, FAILURE]
        assert len(run.generations()) == 1

    assert len(crash_everywhere(tmp_path, fresh, take_over, check)) > 10
