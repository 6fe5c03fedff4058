"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from checkout import SHARED

from sweep_clustering.installation import same_arithmetic

# As `sweep` does it, before numpy is loaded: bits of this process are compared with those of commands.
os.environ.update(same_arithmetic() | os.environ)

import dask
from threadpoolctl import threadpool_limits

from sweep_clustering.sweeps.data.builtin import REGISTRY

if TYPE_CHECKING:
    from golden import Everything
    from matplotlib.figure import Figure

    from sweep_clustering.pipeline.report.elements import Picture


# Tests start hundreds of processes. Where the environment or the installer leaves no bytecode, each of them
# would compile all libraries again, which takes most of its seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests that a shell starts in the background ignore Ctrl-C, and so do all commands that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", action="store_true", help="write what tests/golden holds again, and compare nothing"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put trials first: a long file at the end would leave one of two processes without work."""
    items.sort(key=lambda item: "trials" not in item.path.parts)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Handle signals after a test as before it, as a command that a signal ends ignores later ones."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def pytest_collection_finish() -> None:
    """Leave all modules out of later collections of garbage, which take some percent of the time else."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread, as chunks are so small here that threads would only hand them around."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_thread_of_linear_algebra() -> Iterator[None]:
    """Compute products of matrices on one thread, as those that wait for others keep both cores busy."""
    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Let `os.fsync` of this process return at once, as tests look at the order of calls alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder with the eight real data sets, which are not part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return folder


@pytest.fixture(scope="session")
def raw_data() -> Path:
    """Return the folder of the eight real data sets as `sweep datasets fetch` downloads them."""
    folder = Path(os.environ.get("SWEEP_DATA_DIR") or SHARED / "data" / "raw")
    if not folder.is_dir():
        pytest.skip("the real data sets (SWEEP_DATA_DIR, or ../shared/data/raw) are not on this machine")
    files = {file.file for entry in REGISTRY.values() for file in entry.files if "/" not in file.file}
    if missing := sorted(file for file in files if not (folder / file).exists()):
        pytest.skip(f"{folder} lacks {', '.join(missing)}: sweep datasets fetch")
    return folder


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tiny sweep and its finished cube; it is for reading only."""
    from processes.sweeping import run, write_spec

    folder = tmp_path_factory.mktemp("finished")
    assert run(write_spec(folder), folder) == 0
    return folder


@pytest.fixture(scope="session")
def all_sweeps(tmp_path_factory: pytest.TempPathFactory) -> Everything:
    """Return what sweeps with every axis compute and show, as in `tests/golden`; it takes a minute."""
    from golden import run_everything

    with dask.config.set(scheduler="synchronous"):
        return run_everything(tmp_path_factory.mktemp("everything"))


def save_undrawn(figure: Figure, folder: Path, name: str, caption: str, formats: Sequence[str]) -> Picture:
    """Write empty files in place of a figure, and return an empty picture, instead of `figures.save`."""
    from sweep_clustering.pipeline.report.elements import Picture

    folder.mkdir(parents=True, exist_ok=True)
    for suffix in formats:
        (folder / f"{name}.{suffix}").touch()
    return Picture(name, caption, "<svg></svg>", tuple(formats), folded=False)


@pytest.fixture
def undrawn() -> Iterator[None]:
    """Write the reports of a test with empty figures, to save time.

    `pipeline/report/test_page.py` looks at the figures in a page and at their files.
    """
    with patch("sweep_clustering.pipeline.report.write.save", save_undrawn):
        yield


@pytest.fixture
def without_sections() -> Iterator[None]:
    """Write the reports of a test without the sections that stand on the page, to save more time.

    The text, the tables and the files beside the page are written.
    """
    with patch("sweep_clustering.pipeline.report.write.write_figures", lambda *arguments: []):
        yield


@pytest.fixture(scope="module")
def without_sections_module() -> Iterator[None]:
    """Write the reports of all tests and fixtures of a module without the sections of the page."""
    with patch("sweep_clustering.pipeline.report.write.write_figures", lambda *arguments: []):
        yield
