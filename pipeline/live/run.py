"""The page of a run, on the dashboard of its scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from pipeline.cluster.executor import DaskExecutor
from pipeline.cluster.pages import published
from pipeline.live.board import Board
from pipeline.live.feed import Feed
from pipeline.live.site import Site
from pipeline.live.state import AtWork, Crew, State
from pipeline.prepare.sweep import Prepared
from storage.cube.blocks import BlockStore
from storage.cube.manifest import read_manifest

MOST_MIXTURES = 4096
"""Whose true labels are kept; those of others are drawn again."""


@contextmanager
def page_of_run(prepared: Prepared, executor: DaskExecutor) -> Iterator[Feed]:
    """Serve the page while the block lasts.

    Parameters
    ----------
    prepared : Prepared
        The sweep, whose cube exists.
    executor : DaskExecutor
        On a scheduler of this process.

    Yields
    ------
    Feed
        To be told of results.
    """
    sources, cube = prepared.inputs.sources, prepared.cube

    @lru_cache(MOST_MIXTURES)
    def truth(dataset: str, mixture: int | None) -> NDArray[np.int16] | None:
        # a data set that is not available this time is in the cube all the same
        return sources[dataset].arrays(mixture)[1] if dataset in sources else None

    with Feed(Board(read_manifest(cube).plans.values()), BlockStore(cube, read_only=True), truth) as feed:
        state = State(cube, feed, skipped=prepared.inputs.skipped, crew=lambda: crew_of(executor))
        with published(executor.client, Site(state)):
            yield feed


def crew_of(executor: DaskExecutor) -> Crew:
    """Workers, and what each is at."""
    rows = [
        AtWork(urlsplit(where["worker"]).netloc, where["node"], where["job"], str(task), since)
        for task, where, since in executor.at_work()
    ]
    return Crew(executor.connected, rows)
