"""When a worker job counts as gone, and what its end is taken for."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pipeline.jobs.slot import LOST_SECONDS, SETTLED_SECONDS, Slot
from pipeline.jobs.slurm import LiveJob


@dataclass
class Job:
    job_id: str | None = "7"
    refusal: str = ""


LIVE = [LiveJob("7", "sweep-a-0", "RUNNING", "n1", "None")]


def test_a_job_in_the_queue_is_not_gone() -> None:
    slot = Slot(Job())
    assert not any(slot.is_gone(LIVE, now) for now in range(10))


def test_one_answer_without_the_job_says_nothing() -> None:
    slot = Slot(Job())
    assert not slot.is_gone([], 0.0)
    assert not slot.is_gone(LIVE, 1.0)
    assert not slot.is_gone([], 2.0)
    assert slot.is_gone([], 3.0)


def test_a_queue_that_does_not_answer_says_nothing_of_a_job_that_never_had_a_worker() -> None:
    slot = Slot(Job())
    slot.update(slot.job, 0, 0.0)
    assert not slot.is_gone(None, 1e6)


def test_without_the_queue_a_job_is_gone_when_its_workers_are_for_long() -> None:
    slot = Slot(Job())
    slot.update(slot.job, 1, 0.0)
    slot.update(slot.job, 0, 5.0)
    assert not slot.is_gone(None, 5.0 + LOST_SECONDS)
    assert slot.is_gone(None, 5.1 + LOST_SECONDS)


def test_a_worker_that_comes_back_is_not_lost() -> None:
    slot = Slot(Job())
    for now, workers in enumerate((1, 0, 1)):
        slot.update(slot.job, workers, float(now))
    assert not slot.waits
    assert slot.lost is None


@pytest.mark.parametrize(("job", "gone"), [(Job(None), False), (Job(None, "Invalid account"), True)])
def test_a_job_without_a_number_is_under_way_or_refused(job: Job, gone: bool) -> None:
    assert Slot(job).is_gone([], 0.0) is gone


def test_a_settled_job_clears_the_deaths_before_it() -> None:
    slot = Slot(Job(), deaths=2)
    slot.update(slot.job, 1, 0.0)
    slot.update(slot.job, 1, SETTLED_SECONDS - 0.1)
    assert (slot.settled, slot.deaths) == (False, 2)
    slot.update(slot.job, 1, SETTLED_SECONDS)
    assert (slot.settled, slot.deaths) == (True, 0)


@pytest.mark.parametrize(("state", "deaths"), [("FAILED", 1), ("", 1), ("CANCELLED", 0), ("NODE_FAIL", 0)])
def test_an_early_end_counts_unless_somebody_made_it(state: str, deaths: int) -> None:
    slot = Slot(Job(), ended=state)
    assert (
        slot.mark_ended(100.0) == 2.0
    )  # in no case at once: a queue that cancels every job would be flooded
    assert (slot.deaths, slot.replace_at) == (deaths, 102.0)
    assert Slot(Job(), settled=True).mark_ended(100.0) == 0.0


def test_another_job_starts_afresh_but_keeps_the_count() -> None:
    slot = Slot(Job(), deaths=2)
    slot.update(slot.job, 1, 0.0)
    slot.update(slot.job, 1, 20.0)
    slot.deaths, slot.replace_at = 1, 21.0
    slot.update(Job("8"), 0, 22.0)
    assert (slot.settled, slot.deaths, slot.replace_at, slot.waits) == (False, 1, None, True)
