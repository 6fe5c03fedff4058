"""Measure the cost of the order of cells: a draw of every block first, or block after block."""

import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from tables import Table

from sweep_clustering.pipeline.run.ledger import Collector
from sweep_clustering.pipeline.run.request import Options
from sweep_clustering.pipeline.submit.submission import submit
from sweep_clustering.pipeline.work.records import Failed, Solved, Span
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.schema import PENDING
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.plan import Block

TABLE = Table(
    "breadth",
    (
        "order",
        "blocks with a result at 5 % of the run",
        "at 20 %",
        "cells open at once, at most",
        "journal at its largest, kB",
        "writes of blocks",
        "time in writes, of the run",
    ),
)
TABLES = (TABLE,)

SHARES = (0.05, 0.2)

SWEEP = """
name = "breadth"
seed = 1

[grid]
datasets = ["iris", "wine", { name = "mixtures", mixture = { n_clusters = [3], count = 5 } }]
p = [0.8, 0.9, 1.0]
m = ["0.5N", "1N", "1.5N"]
replicates = 20
models = ["unsupervised", "likelihood", "posterior"]
restarts = 10
"""


@dataclass
class Watch:
    """State of a collector after each batch, and the written part of the grid."""

    n_done: int = 0
    open_cells: int = 0
    journal: int = 0
    writes: int = 0
    write_seconds: float = 0.0
    blocks: set[Block] = field(default_factory=set)
    # Restarts done, and blocks that were written at least once, after each batch.
    progress: list[tuple[int, int]] = field(default_factory=list)

    def look(self, collector: Collector, results: Sequence[Solved | Failed]) -> None:
        """Note the state after a batch."""
        self.n_done += sum(
            result.span.stop - result.span.start for result in results if isinstance(result, Solved)
        )
        self.open_cells = max(self.open_cells, len(collector._open))
        self.journal = max(self.journal, present(collector._journal).size)
        self.progress.append((self.n_done, len(self.blocks)))


def measure() -> dict[str, str]:
    """Return the table."""
    rows = [_row("a draw of every block first, then more", False), _row("block after block", True)]
    return {TABLE.name: TABLE.markdown(rows)}


def _row(name: str, depth_first: bool) -> tuple[str, ...]:
    watch = Watch()
    take, write = Collector.take, BlockStore.write

    def take_and_look(self: Collector, results: Sequence[Solved | Failed]) -> list[Span[Any]]:
        spans = take(self, results)
        watch.look(self, results)
        return spans

    def timed_write(self: BlockStore, block: Block, results: Any) -> None:
        start_time = time.perf_counter()
        write(self, block, results)
        watch.write_seconds += time.perf_counter() - start_time
        watch.writes += 1
        watch.blocks.add(block)

    def whole_cell(handed: int, draws: int, **_: Any) -> range:
        return range(handed, draws)

    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "breadth.toml"
        spec.write_text(SWEEP)
        start_time = time.perf_counter()
        with (
            patch.object(Collector, "take", take_and_look),
            patch.object(BlockStore, "write", timed_write),
            patch("sweep_clustering.pipeline.run.head.next_wave", whole_cell)
            if depth_first
            else nullcontext(),
        ):
            options = Options(results=Path(folder) / "results", workers=2)
            assert submit(spec, options, Console(quiet=True)) == 0
        seconds = time.perf_counter() - start_time
        store = BlockStore(Path(folder) / "results" / "breadth.zarr", read_only=True)
        blocks = len(watch.blocks)
        assert not any((store.statuses(block) == PENDING).any() for block in watch.blocks)
    counts, n_blocks = np.array(watch.progress).T
    shares = [n_blocks[np.searchsorted(counts, share * counts[-1])] for share in SHARES]
    return (
        name,
        *(f"{share} of {blocks}" for share in shares),
        f"{watch.open_cells:,}",
        f"{watch.journal / 1000:,.0f}",
        str(watch.writes),
        f"{watch.write_seconds / seconds:.1%}".replace("%", " %"),
    )
