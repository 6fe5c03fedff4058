"""Names of strategies."""

from __future__ import annotations

from pipeline.asking.names import NAMES
from pipeline.asking.strategies import STRATEGIES


def test_every_strategy_has_a_name_and_a_meaning() -> None:
    assert list(NAMES) == list(STRATEGIES)
    assert all(NAMES.values())
