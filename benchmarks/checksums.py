"""Measure the cost of the checksums of a cube: the same cube with and without them."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from cubes.small import draw_block, draw_inputs, make_plan, make_spec
from tables import Table

from sweep_clustering.storage.cube import manifest
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import create, open_cube
from sweep_clustering.storage.cube.schema import ArraySpec
from sweep_clustering.storage.damage import scan
from sweep_clustering.sweeps.plan import Block

TABLE = Table(
    "checksums",
    (
        "cells",
        "samples",
        "MB on disk, with and without",
        "to write, ms of CPU",
        "to read, ms of CPU",
        "to check alone",
    ),
)
TABLES = (TABLE,)
# Rounds of each measurement, which take turns; the quickest counts.
ROUNDS = 7

# Samples and replicates.
SIZES = ((200, 20), (20_000, 20))


def measure() -> dict[str, str]:
    """Return the table."""
    with tempfile.TemporaryDirectory() as folder:
        return {TABLE.name: TABLE.markdown(_row(Path(folder), *size) for size in SIZES)}


def _row(folder: Path, n_samples: int, replicates: int) -> tuple[str, ...]:
    restarts = 50
    plan = make_plan(
        n_samples=n_samples,
        n_features=10,
        n_clusters=3,
        p=(0.8, 0.9, 1.0),
        m=(50, 100, 200, 400),
        replicates=replicates,
        models=("likelihood", "posterior"),
        restarts=restarts,
    )
    results = {block: draw_block(plan, block) for block in plan.blocks()}
    cube = folder / "cube.zarr"

    def write() -> None:
        shutil.rmtree(cube, ignore_errors=True)
        create(cube, [plan], draw_inputs, make_spec("a", restarts))
        _fill(cube, results)

    times: dict[tuple[str, bool], list[float]] = {}
    sizes, rates = {}, []
    for _ in range(ROUNDS):
        for has_checksums in (True, False):
            with ExitStack() as stack:
                if not has_checksums:
                    stack.enter_context(_without_checksums())
                times.setdefault(("write", has_checksums), []).append(_cpu(write))
                times.setdefault(("read", has_checksums), []).append(_cpu(lambda: open_cube(cube).load()))
                sizes[has_checksums] = sum(file.stat().st_size for file in cube.rglob("*") if file.is_file())
                if has_checksums:
                    rates.append(_rate(cube))
    shortest = {key: 1000 * min(seconds) for key, seconds in times.items()}
    return (
        f"{plan.n_cells:,}",
        f"{n_samples:,}",
        f"{sizes[True] / 1e6:.3f}, {sizes[False] / 1e6:.3f}",
        *(_pair(shortest[step, True], shortest[step, False]) for step in ("write", "read")),
        f"{max(rates):,.0f} MB/s",
    )


def _pair(with_sums: float, without_sums: float) -> str:
    return f"{with_sums:.0f}, {without_sums:.0f} (× {with_sums / without_sums:.2f})"


def _fill(cube: Path, results: dict[Block, dict[str, np.ndarray]]) -> None:
    store = BlockStore(cube)
    for block, arrays in results.items():
        store.write(block, arrays)


@contextmanager
def _without_checksums() -> Iterator[None]:
    """Write and expect no checksums."""
    entry = manifest.array_entry

    def plain_entry(spec: ArraySpec) -> dict[str, Any]:
        fields = entry(spec)
        return fields | {"codecs": [codec for codec in fields["codecs"] if codec != manifest.CHECKSUM]}

    with (
        patch("sweep_clustering.storage.cube.growth.array_entry", plain_entry),
        patch("sweep_clustering.storage.cube.manifest.array_entry", plain_entry),
        patch("sweep_clustering.storage.cube.chunks.CHECKSUM_BYTES", 0),
        patch("sweep_clustering.storage.cube.chunks.checksum", lambda chunk: b""),
    ):
        yield


def _cpu(step: Callable[[], object]) -> float:
    start_time = time.process_time()
    step()
    return time.process_time() - start_time


def _rate(cube: Path) -> float:
    start_time = time.perf_counter()
    size = scan(cube).size
    return size / 1e6 / (time.perf_counter() - start_time)
