"""Who is to blame when a worker is gone."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.cluster.losses import DEATHS, Losses, TimeLimitExceeded, WorkersDied
from pipeline.cluster.watchdog import TOPIC

RUNNING, QUEUED = "running", "queued"


class Site:
    """A compute cluster that says what real ones were heard to say."""

    def __init__(self) -> None:
        self.losses = Losses()
        for key in (RUNNING, QUEUED):
            self.losses.watch(key, 5.0)

    def say(self, what: str, key: str, worker: str, nanny: str | None) -> dict[str, Any]:
        place = {"worker": worker, "nanny": nanny, "node": "node7", "job": "42"}
        return self.losses.read(TOPIC, {"is": what, "key": key, **place})

    def come(self, worker: str, nanny: str | None) -> dict[str, Any]:
        return self.losses.read(TOPIC, {"is": "worker", "worker": worker, "nanny": nanny})

    def go(self, worker: str, expected: bool = False) -> dict[str, Any]:
        event = {
            "action": "remove-worker",
            "processing-tasks": [RUNNING, QUEUED, "else"],
            "expected": expected,
        }
        return self.losses.read(worker, event)

    def dies_often(self, times: int, **place: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number in range(times):
            self.say("started", RUNNING, f"worker {number}", "nanny")
            assert self.go(f"worker {number}", **place) == {}
            found = self.come(f"worker {number + 1}", "nanny")
        return found


def test_what_ran_when_process_after_process_died_is_to_blame_and_nothing_else() -> None:
    site = Site()
    assert site.dies_often(DEATHS - 1) == {}
    found = site.dies_often(1)
    assert list(found) == [RUNNING]
    assert isinstance(found[RUNNING], WorkersDied)
    assert (found[RUNNING].node, found[RUNNING].job) == ("node7", "42")
    assert "3 worker processes died" in str(found[RUNNING])


def test_workers_that_were_sent_away_are_nobodys_fault() -> None:
    assert Site().dies_often(2 * DEATHS, expected=True) == {}


@pytest.mark.parametrize("nanny", [None, "nanny"])
def test_a_nanny_that_died_as_well_speaks_for_the_batch(nanny: str | None) -> None:
    """Preemption, walltime and loss of a node take both; so do workers that never had a nanny."""
    site = Site()
    for number in range(2 * DEATHS):
        site.say("started", RUNNING, f"worker {number}", nanny and f"{nanny} {number}")
        site.go(f"worker {number}")
        assert site.come(f"worker {number + 1}", f"nanny {number + 1}") == {}


def test_the_memory_it_used_is_said() -> None:
    site = Site()
    site.dies_often(DEATHS - 1)
    site.losses.read("worker-restart-memory", {"worker": "worker 0", "rss": 3 * 2**30, "pid": 5})
    assert "memory limit when it used 3.00 GiB" in str(site.dies_often(1)[RUNNING])


def test_who_overran_is_lost_at_once_and_its_process_charged_to_nobody() -> None:
    site = Site()
    site.say("started", RUNNING, "worker", "nanny")
    found = site.say("overran", RUNNING, "worker", "nanny")
    assert list(found) == [RUNNING]
    assert isinstance(found[RUNNING], TimeLimitExceeded)
    assert "5 s" in str(found[RUNNING])
    site.losses.forget(RUNNING)
    assert site.go("worker") == {}
    assert site.come("another", "nanny") == {}


def test_news_of_batches_that_ended_is_no_news() -> None:
    site = Site()
    site.say("started", RUNNING, "worker", "nanny")
    site.losses.forget(RUNNING)
    assert site.say("overran", RUNNING, "worker", "nanny") == {}
    assert site.go("worker") == {}
    assert site.losses.read("worker", {"action": "worker-status-change"}) == {}
