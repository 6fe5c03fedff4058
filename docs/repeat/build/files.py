"""Paths of the sweep files, scores and figures of the repeat."""

from __future__ import annotations

from pathlib import Path

REPEAT = Path(__file__).resolve().parents[1]
CHECKOUT = REPEAT.parents[1]
SCORES = REPEAT / "scores"
# Predicted and measured costs of each sweep by its name.
COSTS = SCORES / "costs.json"


def sweep_file(name: str) -> Path:
    """Return the path of the sweep file of that name."""
    return REPEAT / "sweeps" / _data(name) / f"{name}.toml"


def cells_file(name: str) -> Path:
    """Return the path of the scores of the cells of a sweep."""
    return SCORES / _data(name) / f"{name}.csv"


def sweeps_with_scores(pattern: str) -> list[str]:
    """Return the names of the sweeps of this pattern that have scores."""
    return sorted(path.stem for path in SCORES.glob(f"*/{pattern}.csv"))


def _data(name: str) -> str:
    return "uci" if name.startswith("uci") else "mixtures"
