"""How kernels are compiled: with the options of one place, in nobody else's way."""

from __future__ import annotations

from pathlib import Path

import numba
import pytest

from kernels.jit import jit


def test_others_functions_keep_their_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))
    double = jit(lambda x: 2 * x)
    assert str(tmp_path) == numba.core.config.CACHE_DIR
    assert double(4) == 8
    assert list(tmp_path.iterdir()) == []


def test_kernels_release_the_interpreter() -> None:
    from kernels.search.hgs import _search
    from kernels.search.local_search import local_search

    for kernel in (_search, local_search):
        assert kernel.targetoptions["nogil"]
        assert not kernel.targetoptions["fastmath"]
        assert not kernel.targetoptions["parallel"]
        assert kernel.targetoptions["error_model"] == "numpy"
