"""After kill -9 of any process at any moment a new submit gives the same bits and repeats little."""

import random
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from processes import sabotage
from processes.killing import VICTIMS, Site, trials
from processes.sweeping import assert_same_bits, start, tiny, write_spec

from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.schema import DONE

MIXTURES = [{"mixture": {"n_clusters": [2, 3], "count": 2, "n_samples": 30, "n_features": 3}}]
SPEC = tiny(11, datasets=MIXTURES, m=["1N"], replicates=3, restarts=4)

LONGEST = 0.8
"""Seconds from the first work to the kill; the sweep lasts some seconds, a batch half of one."""


def submit_killing(folder: Path, reference: Path, count: int, seed: int) -> tuple[dict[str, int], Site]:
    """Kill so many processes, each kind of victim in turn, in a random order."""
    rng = random.Random(seed)
    victims = [VICTIMS[number % len(VICTIMS)] for number in range(count)]
    rng.shuffle(victims)
    with Site(folder, write_spec(folder, SPEC), reference) as site:
        return trials(site, victims, rng, LONGEST), site


@pytest.mark.slow
def test_any_process_killed_at_any_moment(tmp_path: Path, reference: Path) -> None:
    counts, site = submit_killing(tmp_path, reference, len(VICTIMS), seed=1)
    assert set(counts) == set(VICTIMS)
    assert site.sweeps >= 1


@pytest.mark.slow
def test_a_reader_sees_whole_cells_and_a_second_submit_is_refused(tmp_path: Path, reference: Path) -> None:
    spec, cube = write_spec(tmp_path, SPEC), tmp_path / "tiny.zarr"
    expected = open_cube(reference).load()
    # Slow enough for the second one to start, on a busy machine too.
    paced = sabotage.environment([("", "paced")], pace=0.1)
    first = start(spec, tmp_path, "--workers", "2", environment=paced)
    counts = [0]
    try:
        while first.poll() is None:
            if not cube.exists():
                time.sleep(0.05)
                continue
            if counts == [0]:
                second = start(spec, tmp_path, "--workers", "0")
            counts.append(whole_cells(open_cube(cube).load(), expected))
    finally:
        first.kill()
        _, log = first.communicate()
    _, refusal = second.communicate(timeout=60)
    assert first.returncode == 0, log
    assert second.returncode == 1
    assert f"is being written by process {first.pid} on" in refusal
    assert counts == sorted(counts)
    assert len(set(counts)) >= 3, "the reader saw it grow"
    assert_same_bits(reference, cube)


def whole_cells(tree: xr.DataTree, expected: xr.DataTree) -> int:
    """Return the number of done cells; they must equal the final ones, and others the fill value."""
    count = 0
    for node in tree.subtree:
        if "status" not in node:
            continue
        is_done = node["status"] == DONE
        count += int(is_done.sum())
        for name in ("log_likelihood", "labels", "centroids", "best_restart"):
            values, final = node[name], expected[node.path][name]
            fill = -1 if values.dtype.kind == "i" else np.nan
            xr.testing.assert_equal(values, final.where(is_done, fill))
    return count


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["sys.exit", "graceful", "segfault"])
def test_workers_that_end_of_themselves(tmp_path: Path, reference: Path, mode: str) -> None:
    chaos = sabotage.environment([("", "paced")], chaos=f"10 {mode}")
    process = start(write_spec(tmp_path, SPEC), tmp_path, "--workers", "2", environment=chaos)
    _, log = process.communicate(timeout=300)
    assert process.returncode == 0, log
    assert_same_bits(reference, tmp_path / "tiny.zarr")


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_a_hundred_kills(tmp_path: Path, reference: Path) -> None:
    """The option -s shows how many of each were killed, and how many restarts were computed twice."""
    counts, site = submit_killing(tmp_path, reference, 120, seed=2)
    lines = [f"{victim:>10} {count:4d}" for victim, count in sorted(counts.items())]
    print("\n".join(["", *lines, f"{site.sweeps} sweeps, {site.n_repeated} restarts repeated"]))  # noqa: T201
    assert min(counts.values()) >= 25
