"""The page of a run in progress, in Chromium: it fills up, a failed cell is red, workers are busy."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from browser import Page, chromium
from processes import sabotage
from processes.killing import kill_family
from processes.sweeping import TINY, start, write_spec

from pipeline.live.run import crew_of
from pipeline.monitor.status import read_status

FAILING = "mixtures_k2/mixture=0/p=0.8/m=15/replicate=1/posterior"
LABELS = "return [...document.querySelectorAll('td[data-at]')].map((tile) => tile.getAttribute('aria-label'))"
SLOW = TINY.replace("restarts = 5", "restarts = 25")


class Stand:
    """In place of an executor: two tasks, one of them begun."""

    connected = 3

    def at_work(self) -> Iterator[tuple[str, dict[str, str], float]]:
        yield "a/p=0.9/likelihood", {"worker": "tls://127.0.0.1:41", "node": "n1", "job": "7"}, 12.0


def test_workers_are_named_without_their_protocol() -> None:
    crew = crew_of(Stand())  # type: ignore[arg-type]
    (row,) = crew.at_work
    assert (crew.connected, row.worker, row.node, row.job) == (3, "127.0.0.1:41", "n1", "7")
    assert (row.task, row.since) == ("a/p=0.9/likelihood", 12.0)


@contextmanager
def running(folder: Path) -> Iterator[tuple[Any, str]]:
    """A sweep that lasts, and the address of its page."""
    faults = [("", "paced"), (FAILING, "raises")]
    environment = sabotage.environment(faults, pace=0.01)
    process = start(write_spec(folder, SLOW), folder, "--workers", "2", environment=environment)
    try:
        yield process, wait_until(lambda: address_in(folder / "tiny.run" / "log"), process)
    finally:
        kill_family(process.pid)
        process.communicate()


def address_in(log: Path) -> str | None:
    found = re.search(r"dashboard: (http\S+)", log.read_text(encoding="utf-8")) if log.exists() else None
    return found and found[1]


def wait_until(condition: Callable[[], Any], process: Any) -> Any:
    deadline = time.monotonic() + 240
    while not (found := condition()):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    return found


def state_of(address: str) -> dict[str, Any] | None:
    try:
        with urlopen(f"{address}/state.json", timeout=20) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except HTTPError:
        return None  # it is starting


def shares(page: Page) -> tuple[int, int, int]:
    """Tiles, those that are begun, and those that are red."""
    labels = page.run(LABELS)
    begun = [label for label in labels if label and ": 0 of" not in label]
    return len(labels), len(begun), sum("failed" in label for label in begun)


def test_a_run_is_seen_from_its_begin_to_its_end(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    with running(tmp_path) as (process, address), chromium() as page:
        assert address.endswith("/sweep")
        wait_until(lambda: state_of(address), process)
        page.driver.get(address)
        seen = [wait_until(lambda: (found := shares(page))[1] and found, process)]
        at_work = "return document.querySelector('#workers td.long')?.textContent || ''"
        assert re.search(r"p=|unsupervised", wait_until(lambda: page.run(at_work), process))
        while not (seen[-1][2] and len({found[1] for found in seen}) > 2):
            seen.append(wait_until(lambda: shares(page), process))
        assert [found[1] for found in seen] == sorted(found[1] for found in seen)
        cause = "return document.getElementById('failures').innerText"
        assert "FloatingPointError: no such luck" in wait_until(lambda: page.run(cause), process)
        state = state_of(address)
        assert state is not None
        assert state["head"]["status"]["holder"] == read_status(cube).to_dict()["holder"]
        assert state["head"]["crew"]["connected"] == 2
        wait_until(
            lambda: (
                process.poll() is not None or state_of(address) is None or shares(page)[1] == shares(page)[0]
            ),
            process,
        )
        assert page.console() == []
        assert all(url.startswith(address) for url in page.requests())
