"""Designs: each that asks has its strategy, and each name is known."""

from __future__ import annotations

from pipeline.asking.strategies import STRATEGIES
from sweeps.designs import ASKED, DEFAULT, DESIGNS, DRAWN, asked_of, asks


def test_every_design_that_asks_has_its_strategy() -> None:
    assert set(ASKED.values()) <= set(STRATEGIES)


def test_a_design_draws_or_asks() -> None:
    assert set(DRAWN) | set(ASKED) == set(DESIGNS)
    assert not set(DRAWN) & set(ASKED)
    assert asked_of(("uniform", "active", "biased", "uncertain")) == ("active", "uncertain")
    assert not asks(None)
    assert asked_of(DEFAULT) == ()
