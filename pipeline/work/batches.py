"""How restarts are timed, and grouped into batches of a sensible length."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pipeline.work.records import Batch, Science, Work
from pipeline.work.timing import Timing

SHORTEST, LONGEST = 0.5, 60.0
"""Bounds of a batch in seconds: below, the scheduler is busy; above, too much is lost with a worker."""

SECONDS_PER_WORKER = 0.01
"""Shortest batch for each worker there is: 100 batches a second take less than half of a driver's core."""

logger = logging.getLogger(__name__)


def target_seconds(total: float, workers: int) -> float:
    """Length of a batch: 1/50 of a worker's share, within bounds.

    Many workers take longer batches, so that the driver keeps up, but two each if there is work enough.
    """
    share = total / max(workers, 1)
    shortest = max(SHORTEST, min(SECONDS_PER_WORKER * workers, share / 2))
    return min(max(share / 50, shortest), LONGEST)


def make_batches(
    science: Science, work: Iterable[Work], timing: Timing, *, seconds: float
) -> Iterator[Batch]:
    """Group the work of one data set into batches, in order.

    Parameters
    ----------
    science : Science
        Seed and search parameters.
    work : iterable of Work
        What is left to do, of one data set.
    timing : Timing
        Predictions.
    seconds : float
        Length to aim for.

    Yields
    ------
    Batch
        A cell may be split over batches, its restarts being independent; with an adaptive stop it is not:
        the rule is tested in one task. Neither is one that holds annotations out: it does so once.
    """
    group: list[Work] = []
    filled = predicted = 0.0
    for item in work:
        each = timing.seconds(item.cell)
        size = each / seconds
        start = item.start
        whole = science.stop is not None or science.holds_out(item.cell)
        choosing = timing.choosing(item)
        while start < item.stop:
            # A sum of shares rounds: what misses a full batch by less than that is full.
            room = int((1 - filled - choosing / seconds) / size + 1e-9)
            wanted = item.stop - start if whole else 1
            if room < wanted and group:
                yield Batch(science, item.cell.dataset, tuple(group), predicted)
                group, filled, predicted = [], 0.0, 0.0
                continue
            stop = min(item.stop, start + max(wanted, room))
            group.append(replace(item, start=start, stop=stop))
            filled += (stop - start) * size + choosing / seconds
            predicted += (stop - start) * each + choosing
            start = stop
    if group:
        yield Batch(science, group[0].cell.dataset, tuple(group), predicted)
