"""All that the page shows, as one JSON document: what changed since another, and the few numbers beside.

`State.document` is called by whoever answers for the page. Counts and scores are those of a `Keeper`'s board,
everything else is read from the run folder, as `sweep status` reads it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.live.board import look, to_json
from pipeline.live.sources import Keeper
from pipeline.monitor.runs import last_lines
from pipeline.monitor.status import Status, counted_status
from storage.runfolder.folder import RunFolder
from storage.runfolder.records import FailureRecord, Progress, read_failures

SNAPSHOT_SECONDS = 1.0
"""A state is looked at once in so many seconds at most, however many look at the page."""

LOG_LINES, MOST_FAILURES, MOST_WORKERS = 12, 20, 24
LONGEST = 400
"""Letters of a line of the log, or of a cause."""

PACE_SECONDS, PACE_STEP = 600.0, 5.0
"""How far back the throughput goes, and the least between two of its points."""


class AtWork(NamedTuple):
    """What a worker is at: its name, node and job, the task, and the unix time since when."""

    worker: str
    node: str
    job: str
    task: str
    since: float


class Crew(NamedTuple):
    """Workers that are connected, and what those are at that have begun something."""

    connected: int
    at_work: Sequence[AtWork]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: their numbers, and those that have been at it for longest."""
        longest = sorted(self.at_work, key=lambda each: each.since)
        return {"connected": self.connected, "busy": len(longest), "rows": longest[:MOST_WORKERS]}


class Pace:
    """Restarts and questions done over the last minutes, from what the driver says of itself."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def note(self, progress: Progress) -> None:
        """Take what the driver wrote last."""
        done, points = progress.restarts + progress.asked, self._points
        if points and (done < points[-1][1] or progress.at < points[-1][0]):
            points.clear()  # another run, or a clock that was set back
        if not points or progress.at - points[-1][0] >= PACE_STEP:
            points.append((progress.at, done))
        while points[-1][0] - points[0][0] > PACE_SECONDS:
            points.popleft()

    def to_dict(self) -> dict[str, Any]:
        """Units per second over all that is known, over how many seconds, and between any two points."""
        points = list(self._points)
        seconds = points[-1][0] - points[0][0] if points else 0.0
        steps = [round((now[1] - before[1]) / (now[0] - before[0]), 3) for before, now in pairwise(points)]
        rate = (points[-1][1] - points[0][1]) / seconds if seconds else None
        return {"per_second": rate, "seconds": round(seconds), "steps": steps}


class State:
    """The document of a page, made at most once a second.

    Parameters
    ----------
    cube : Path
        Its cube.
    keeper : Keeper
        Of the board.
    crew : callable or None
        Who works now; None where that is not known here.
    """

    def __init__(self, cube: Path, keeper: Keeper, crew: Callable[[], Crew] | None = None) -> None:
        self.token = secrets.token_hex(8)
        self._cube = cube
        self._keeper = keeper
        self._crew = crew
        self._pace = Pace()
        self._made, self._version, self._number, self._head = -SNAPSHOT_SECONDS, 0, 0, ""
        self._failures: tuple[object, dict[str, Any]] = None, {}

    def document(self, since: str = "") -> tuple[str, bytes]:
        """Name of the state there is now, and JSON of what changed since another, nothing where none did.

        Parameters
        ----------
        since : str
            Name of the state that is known already; any other text has the whole document made.
        """
        with self._keeper.lock:
            if time.monotonic() - self._made >= SNAPSHOT_SECONDS:
                self._keeper.update()
                number, head = self._keeper.board.advance(), to_json(self._rest())
                if head != self._head or number != self._number:
                    self._version += 1
                    self._head, self._number = head, number
                self._made = time.monotonic()
            name = f"{self.token}.{self._version}.{self._number}"
            if since == name:
                return name, b""
            known, board = self._known(since), self._keeper.board
            parts = {
                "name": to_json(name),
                "at": f"{time.time():.1f}",
                "head": self._head,
                "tiles": board.tiles.since(known),
                "series": board.series.since(known),
            }
            if known < 0:
                parts["grid"] = to_json(self._grid())
            return name, ("{" + ",".join(f'"{key}":{text}' for key, text in parts.items()) + "}").encode()

    def _known(self, name: str) -> int:
        """Version of the board in a state of this name, -1 where this document never had it."""
        token, _, rest = name.partition(".")
        number = rest.partition(".")[2]
        known = int(number) if token == self.token and number.isdecimal() and len(number) < 16 else -1
        return known if known <= self._number else -1

    def _rest(self) -> dict[str, Any]:
        board, run = self._keeper.board, RunFolder(self._cube)
        blocks = len(board.statuses), board.blocks_done
        status = counted_status(self._cube, self._keeper.manifest, board.datasets(), blocks)
        if status.progress is not None:
            self._pace.note(status.progress)
        journal = run.last_run.journal
        return {
            "cube": self._cube.name,
            "status": _steady(status),
            "who": status.who,
            "ends_at": None if status.progress is None else status.progress.at + status.progress.left,
            "pace": self._pace.to_dict(),
            "journal": {
                "bytes": journal.stat().st_size if os.path.exists(journal) else 0,
                "waiting": len(board.waiting),
                "open_blocks": len(board.open_blocks),
            },
            "scored": board.scored,
            "unread": self._keeper.unread,
            "crew": None if self._crew is None else self._crew().to_dict(),
            "failures": self._failed(run),
            "log": [line[:LONGEST] for line in last_lines(run.log, LOG_LINES)],
        }

    def _grid(self) -> dict[str, Any]:
        grid = self._keeper.board.grid
        models = [model for plan in grid.plans.values() for model in (*plan.baselines, *plan.models)]
        units = {name: "mixtures" if plan.mixtures else "redraws" for name, plan in grid.plans.items()}
        return {
            "panels": [asdict(panel) for panel in grid.panels],
            "looks": {model: look(model) for model in models},
            "units": units,
        }

    def _failed(self, run: RunFolder) -> dict[str, Any]:
        """The last failures, one of each cell, with the tile of the cell."""
        files = [generation.failures for generation in run.generations()]
        key = [(path, path.stat().st_size) for path in files if path.exists()]
        if key == self._failures[0]:
            return self._failures[1]
        records, plans = read_failures(run), self._keeper.board.grid.plans
        last: dict[str, FailureRecord] = {}
        for record in reversed(records):
            last.setdefault(record.cell, record)
        shown = []
        for record in islice(last.values(), MOST_FAILURES):
            cell, tile = record.work.cell, None
            if cell is not None and cell.dataset in plans and plans[cell.dataset].has(cell):
                tile = self._keeper.board.grid.tile(cell)
            fields = record.model_dump(include={"cell", "at", "node", "job", "attempt"})
            shown.append({**fields, "cause": record.cause[:LONGEST], "tile": tile})
        self._failures = key, {"cells": len(last), "records": len(records), "last": shown}
        return self._failures[1]


def _steady(status: Status) -> dict[str, Any]:
    """What `sweep status --json` says, without what is another number a second later."""
    found = status.to_dict()
    del found["eta_seconds"]
    for key in ("at", "left") if found["run"] is not None else ():
        del found["run"][key]
    return found
