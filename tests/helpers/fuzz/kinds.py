"""What a trial damages, and the command that then meets it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tomli_w
import yaml
from fuzz.mutation import (
    archive_damaged,
    bytes_damaged,
    chunk_damaged,
    json_damaged,
    lines_damaged,
    record_damaged,
    tree_damaged,
)
from fuzz.templates import CELL, LATER, Templates

from storage.runfolder.folder import RunFolder

NUMBERS = (
    *("0", "1", "-1", "nan", "inf", "", "1e400", "1_0", "x", "0x1", "٣", "1e-400", '"', "1e308", "-1e308"),
    "9" * 400,
)
PAIRS = (*NUMBERS, "must", "c", "ann", "a=b", "0.5", "1.0", "2", "3", "10", "é", "+", "#")


@dataclass(frozen=True)
class Scene:
    """Where a trial takes place.

    Parameters
    ----------
    inputs, results : Path
        Copies of good files; nothing outside of `results` may change.
    """

    inputs: Path
    results: Path


Kind = Callable[[random.Random, Templates, Scene], list[object]]
"""Puts damaged files in place, and returns the arguments of `sweep`."""


def sweep_file(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """A sweep file, as text or with other values."""
    import tomllib

    path = scene.inputs / "tiny.toml"
    content = (scene.inputs / rng.choice(("tiny.toml", "full.toml"))).read_bytes()
    path.write_bytes(
        bytes_damaged(rng, content) if rng.random() < 0.3 else _toml(rng, tomllib.loads(content.decode()))
    )
    more = [["plan", path], ["submit", path, "--dry-run"], ["status", path]]
    return rng.choice((["plan", path, "--resolved"], *([*each, "--results", scene.results] for each in more)))


def _toml(rng: random.Random, tree: object) -> bytes:
    damaged = tree_damaged(rng, tree)
    try:
        return tomli_w.dumps(damaged).encode(errors="surrogatepass")
    except (TypeError, AttributeError, RecursionError, ValueError):  # what TOML cannot say, such as null
        return str(damaged).encode()


def cluster(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """cluster.yaml, as text or with other values."""
    path = scene.inputs / "cluster.yaml"
    content = path.read_bytes()
    if rng.random() < 0.4:
        path.write_bytes(bytes_damaged(rng, content))
    else:
        tree = tree_damaged(rng, yaml.safe_load(content))
        path.write_text(yaml.safe_dump(tree, allow_unicode=rng.random() < 0.5), errors="replace")
    name = rng.choice(("local", "other", "slurm", "slurm", "pbs", "again", "on", "absent"))
    more = rng.choice(([], ["--detach"], ["--workers", "3"]))
    spec = ["submit", scene.inputs / "tiny.toml", "--results", scene.results]
    return [*spec, "--dry-run", "--cluster", path, "--profile", name, *more]


def text_table(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """A table as text, of a sweep or of a fit."""
    if rng.random() < 0.3:
        path = scene.inputs / "own.csv"
        path.write_bytes(lines_damaged(rng, path.read_bytes(), NUMBERS))
        return ["plan", scene.inputs / "tiny.toml", "--results", scene.results]
    path = scene.inputs / "plain.csv"
    path.write_bytes(lines_damaged(rng, path.read_bytes(), NUMBERS))
    return _fit(rng, path)


def npz_table(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """A table as arrays."""
    path = scene.inputs / "own.npz"
    path.write_bytes(archive_damaged(rng, path.read_bytes()))
    return _fit(rng, path)


def annotations(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Files of links, annotations or labels."""
    option = rng.choice(("--must-link", "--cannot-link", "--annotations", "--labels"))
    name = "links" if option.endswith("link") else option[2:]
    path = scene.inputs / name
    path.write_bytes(lines_damaged(rng, path.read_bytes(), PAIRS))
    model = rng.choice(([], ["--accuracy", "0.9"], ["--model", "conditional", "--accuracy", "0.8"]))
    return [*_fit(rng, scene.inputs / "plain.csv"), option, path, *model]


def _fit(rng: random.Random, path: Path) -> list[object]:
    scale = rng.choice(("none", "standard", "minmax"))
    small = ["--restarts", "1", "--generations", "1", "--population", "2", "--offspring", "2"]
    return ["fit", path, "-k", "2", "--scale", scale, *small, *rng.choice(([], ["--json"]))]


def journal(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Results of a run that did not end: bytes of the container, or bodies with a right checksum."""
    shutil.copytree(good.begun, scene.results)
    path = RunFolder(scene.results / "tiny.zarr").last_run.journal
    content = path.read_bytes()
    path.write_bytes(bytes_damaged(rng, content) if rng.random() < 0.25 else record_damaged(rng, content))
    return _resume(scene)


def cube(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Metadata of a cube: its root, or a file beside an array."""
    shutil.copytree(good.finished, scene.results)
    found = scene.results / "tiny.zarr"
    path = found / "zarr.json"
    if rng.random() < 0.2:
        path = rng.choice(sorted(found.rglob("zarr.json")))
    path.write_bytes(json_damaged(rng, path.read_bytes()))
    return rng.choice(list(_readers(scene)))


def chunks(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Chunk files of a cube: other bytes or values, another chunk, a directory, nothing."""
    shutil.copytree(good.finished, scene.results)
    found = scene.results / "tiny.zarr"
    files = sorted(path for path in found.rglob("*") if path.is_file() and path.name != "zarr.json")
    for _ in range(rng.choice((1, 1, 3))):
        path = rng.choice(files)
        if path.is_file():
            how = rng.randrange(7)
            if how < 3:
                path.write_bytes(bytes_damaged(rng, path.read_bytes()))
            elif how == 6:
                path.write_bytes(chunk_damaged(rng, path.read_bytes()))
            elif how == 3:
                path.write_bytes(rng.choice([file for file in files if file.is_file()]).read_bytes())
            else:
                path.unlink()
                if how == 4:
                    path.mkdir()
    return rng.choice(list(_readers(scene)))


def run_folder(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Records of a run: values of another type, other bytes, a directory or a pipe in their place."""
    shutil.copytree(rng.choice((good.finished, good.begun)), scene.results)
    run = RunFolder(scene.results / "tiny.zarr")
    leases = [run.lease(number) for number in run.lease_numbers()]
    own = run.last_run
    records = [own.head, run.submission, own.jobs, own.state, own.pilot, own.failures, run.stop, *leases]
    path = rng.choice(sorted({path for path in records if path.exists()}))
    how = rng.random()
    if path == own.failures and how < 0.9:
        path.write_bytes(
            b"\n".join(json_damaged(rng, line) for line in path.read_bytes().splitlines()) + b"\n"
        )
    elif how < 0.9:
        path.write_bytes(json_damaged(rng, path.read_bytes()))
    else:
        path.unlink()
        (path.mkdir if how < 0.95 else lambda: os.mkfifo(path))()
    if (
        rng.random() < 0.3
    ):  # a lease that nobody gave back: its holder may be alive, or is not heard of any more
        for lease in leases:
            if lease.is_file():
                lease.write_bytes(lease.read_bytes().replace(b"true", b"false", 1))
                os.utime(lease, (age := rng.choice((0, 2**33, 2**31)), age))
    commands = [command for command in _readers(scene) if command[0] not in ("report", "verify", "compare")]
    found = scene.results / "tiny.zarr"
    more = [["logs", found], ["logs", found, "--head"], ["logs", found, "--job", "7"], ["cancel", found]]
    return rng.choice(commands + more)


def _readers(scene: Scene) -> Iterator[list[object]]:
    """Commands that open a cube; those that take long come seldom."""
    found, spec = scene.results / "tiny.zarr", scene.inputs / "tiny.toml"
    for _ in range(3):
        yield ["status", found]
        yield ["status", found, "--json"]
        yield ["why", found]
        yield ["why", found, CELL]
        yield ["why", found, LATER, "--json"]
        yield ["verify", found, "--sample", "2"]
        yield ["plan", spec, "--results", scene.results]
        yield _resume(scene)
    yield ["report", found]
    yield ["compare", found, found]


def _resume(scene: Scene) -> list[object]:
    return ["submit", scene.inputs / "tiny.toml", "--results", scene.results, "--workers", "0"]


KINDS: dict[str, Kind] = {
    each.__name__: each
    for each in (sweep_file, cluster, text_table, npz_table, annotations, journal, cube, chunks, run_folder)
}
