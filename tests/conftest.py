"""Fixtures shared by all tests."""

from pathlib import Path

import pytest
from checkout import SHARED


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the eight real data sets; they are not part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the tiny sweep and its finished cube, run serially in one go; for reading only."""
    from processes.sweeping import run, write_spec

    folder = tmp_path_factory.mktemp("finished")
    assert run(write_spec(folder), folder) == 0
    return folder
