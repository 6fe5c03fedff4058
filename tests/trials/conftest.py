"""Fixtures of the trials."""

from pathlib import Path

import pytest
from processes.sweeping import run, write_spec


@pytest.fixture(scope="module")
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cube of the `SPEC` of a module after a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("reference")
    assert run(write_spec(folder, request.module.SPEC), folder) == 0
    return folder / "tiny.zarr"
