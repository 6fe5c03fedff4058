"""kill -9 of any process at any moment, submit again: the bits of an undisturbed run, little done twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from killing import VICTIMS, Site, trials
from sweeping import run, write_spec

SPEC = """
name = "tiny"
seed = 11
[grid]
datasets = [{mixture = {n_clusters = [2, 3], count = 2, n_samples = 30, n_features = 3}}]
p = [0.8, 1.0]
m = ["1N"]
replicates = 3
models = ["unsupervised", "likelihood", "posterior"]
restarts = 4
[search]
population = 3
offspring = 2
generations = 1
"""

LONGEST = 0.8
"""Seconds from the first work to the kill; the sweep lasts some seconds, a batch half of one."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    assert run(write_spec(folder, SPEC), folder) == 0
    return folder / "tiny.zarr"


def killed(folder: Path, reference: Path, count: int, seed: int) -> tuple[dict[str, int], Site]:
    """So many kills; each kind of victim in turn, in an order by chance."""
    rng = random.Random(seed)
    victims = [VICTIMS[number % len(VICTIMS)] for number in range(count)]
    rng.shuffle(victims)
    with Site(folder, write_spec(folder, SPEC), reference) as site:
        return trials(site, victims, rng, LONGEST), site


def test_any_process_killed_at_any_moment(tmp_path: Path, reference: Path) -> None:
    counts, site = killed(tmp_path, reference, 5, seed=1)
    assert set(counts) == set(VICTIMS)
    assert site.sweeps >= 1


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_a_hundred_kills(tmp_path: Path, reference: Path) -> None:
    """Shown with -s: how many of each, and how many restarts were computed twice for them."""
    counts, site = killed(tmp_path, reference, 120, seed=2)
    lines = [f"{victim:>10} {count:4d}" for victim, count in sorted(counts.items())]
    print("\n".join(["", *lines, f"{site.sweeps} sweeps, {site.repeated} restarts repeated"]))  # noqa: T201
    assert min(counts.values()) >= 25
