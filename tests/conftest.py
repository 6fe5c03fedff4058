"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from checkout import SHARED

from sweep_clustering.installation import same_arithmetic

# As `sweep` does it, before numpy is loaded: bits of this process are compared with those of commands.
os.environ.update(same_arithmetic() | os.environ)

import dask

from sweep_clustering.sweeps.data.builtin import REGISTRY

if TYPE_CHECKING:
    from golden import Everything


# Tests start hundreds of processes. Where the environment or the installer leaves no bytecode, each of them
# would compile all libraries again, which takes most of its seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", action="store_true", help="write what tests/golden holds again, and compare nothing"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Trials first: the longest files, at the end of which one of two processes would have nothing to do."""
    items.sort(key=lambda item: "trials" not in item.path.parts)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Handle signals after a test as before it: a command that a signal ends ignores all further ones."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Chunks here are so small that threads would only hand them around; a run has its own scheduler."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Let `os.fsync` of this process return at once: of the disk, tests look at the order of calls alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the eight real data sets; they are not part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return folder


@pytest.fixture(scope="session")
def raw_data() -> Path:
    """Folder with the downloaded files of the eight real data sets, as `sweep datasets fetch` leaves them."""
    folder = Path(os.environ.get("SWEEP_DATA_DIR") or SHARED / "data" / "raw")
    if not folder.is_dir():
        pytest.skip("the real data sets (SWEEP_DATA_DIR, or ../shared/data/raw) are not on this machine")
    files = {file.file for each in REGISTRY.values() for file in each.files if "/" not in file.file}
    if missing := sorted(file for file in files if not (folder / file).exists()):
        pytest.skip(f"{folder} lacks {', '.join(missing)}: sweep datasets fetch")
    return folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the tiny sweep and its finished cube, run serially in one go; for reading only."""
    from processes.sweeping import run, write_spec

    folder = tmp_path_factory.mktemp("finished")
    assert run(write_spec(folder), folder) == 0
    return folder


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Everything:
    """What sweeps with every axis compute and show, as it is compared with `tests/golden`; about a minute."""
    from golden import run_everything

    with dask.config.set(scheduler="synchronous"):
        return run_everything(tmp_path_factory.mktemp("everything"))


@pytest.fixture
def page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of reports as they stand in the page, their PNG and PDF files empty: two thirds of the time.

    For tests of what a page says; `pipeline/report/test_page.py` looks at all files.
    """
    from cubes.reported import svg_alone
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", svg_alone)
