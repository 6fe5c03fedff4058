"""The benchmark of the first start: it compiles all that a search calls, and a later one nothing."""

from __future__ import annotations

from pathlib import Path

import compiling
import pytest


@pytest.mark.heavy
def test_a_later_start_compiles_nothing(tmp_path: Path) -> None:
    cold, _, compiled = compiling.start(tmp_path)
    warm, _, loaded = compiling.start(tmp_path)
    assert {"kernels.search.hgs._search", "kernels.partition.objective._evaluate"} <= {
        name for name, _ in compiled
    }
    assert loaded == []
    assert 0 < sum(spent for _, spent in compiled) < cold
    assert warm < cold / 5
