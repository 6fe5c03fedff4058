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
