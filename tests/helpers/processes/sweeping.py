"""Small sweeps for tests run here, and cubes are compared bit by bit."""

import logging
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import tomli_w
import xarray as xr
from rich.console import Console

from sweep_clustering.pipeline.run.request import Options
from sweep_clustering.pipeline.submit.submission import submit
from sweep_clustering.pipeline.work.records import Task
from sweep_clustering.pipeline.work.timing import Timing, make_batches
from sweep_clustering.storage.cube.blocks import UNPROMISED
from sweep_clustering.storage.cube.growth import open_cube

TINY = """
name = "tiny"
seed = 99
[grid]
datasets = [{mixture = {n_clusters = [2, 3], count = 2, n_samples = 30, n_features = 3}}, "iris"]
p = [0.8, 1.0]
m = ["0.5N", "1N"]
replicates = 2
models = ["unsupervised", "likelihood", "posterior"]
restarts = 5
[search]
population = 3
offspring = 2
generations = 1
"""


def tiny(seed: int, **grid: object) -> str:
    """Return the tiny sweep with another seed, and other values of some keys of its grid."""
    document = tomllib.loads(TINY)
    return tomli_w.dumps(document | {"seed": seed, "grid": document["grid"] | grid})


def write_spec(folder: Path, text: str = TINY) -> Path:
    """Put a sweep file into a folder."""
    path = folder / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return path


def batches_of(restarts: int) -> Callable[..., Iterator[Task]]:
    """Return a replacement of `make_batches` with so many restarts in each batch."""
    return lambda science, work, timing, *, seconds: make_batches(science, work, Timing(), seconds=restarts)


def run(spec: Path, results: Path, *, batch_restarts: int | None = None, **options: object) -> int:
    """Submit without a terminal; serially unless told otherwise."""
    choices = {"workers": 0, **options}
    logging.getLogger("sweep_clustering").setLevel(logging.INFO)
    batches = make_batches if batch_restarts is None else batches_of(batch_restarts)
    with ExitStack() as stack:
        stack.enter_context(patch("sweep_clustering.pipeline.run.head.make_batches", batches))
        if choices["workers"] and "cluster_file" not in choices:
            # Runs of two tests at a time would want the same port.
            site = Path(stack.enter_context(TemporaryDirectory())) / "cluster.yaml"
            site.write_text("local: {kind: local, dashboard_port: 0}")
            choices["cluster_file"] = site
        return submit(spec, Options(results=results, **choices), Console(stderr=True))  # type: ignore[arg-type]


def start(
    spec: Path, results: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start `sweep submit` as a process of its own, with more in its environment where that is asked for."""
    command = [
        sys.executable,
        "-m",
        "sweep_clustering",
        "submit",
        str(spec),
        "--results",
        str(results),
        *arguments,
    ]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def wait_until(
    condition: Callable[[], Any], process: subprocess.Popen[Any] | None = None, seconds: float = 240.0
) -> Any:
    """Wait for a condition in a process that must not end before, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
    return value


def assert_same_bits(first: Path, second: Path) -> None:
    """Compare every array of two cubes except times, bit for bit, in order of their coordinates."""
    # arrays of a few bytes, which threads would only make slower to read
    trees = [open_cube(path).load(scheduler="synchronous") for path in (first, second)]
    assert [node.path for node in trees[0].subtree] == [node.path for node in trees[1].subtree]
    for node in trees[0].subtree:
        expected, dataset = node.to_dataset(inherit=False), trees[1][node.path].to_dataset(inherit=False)
        assert set(expected.variables) == set(dataset.variables), node.path
        for name in expected.variables:
            if name not in UNPROMISED:
                _assert_equal(expected[name], dataset[name], f"{node.path}/{name}")


def restarts_run(log: str) -> int:
    """Return the number of restarts of a finished run from its last log line."""
    counts = re.findall(r"(\d+) restarts?, \d+ blocks? in", log)
    return int(counts[-1])


def _assert_equal(expected: xr.DataArray, array: xr.DataArray, where: str) -> None:
    assert expected.dims == array.dims, where
    assert expected.dtype == array.dtype, where
    if expected.dtype.kind in "if":
        assert expected.values.tobytes() == array.values.tobytes(), where
    else:
        assert np.array_equal(expected.values, array.values), where
