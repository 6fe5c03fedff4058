"""Where the sweep files, scores and figures of the repeat stand."""

from __future__ import annotations

from pathlib import Path

REPEAT = Path(__file__).resolve().parents[1]
CHECKOUT = REPEAT.parents[1]
SCORES = REPEAT / "scores"
COSTS = SCORES / "costs.json"
"""What each sweep was predicted to cost, and did, by its name."""


def sweep_file(name: str) -> Path:
    """The sweep file of that name."""
    return REPEAT / "sweeps" / _data(name) / f"{name}.toml"


def cells_file(name: str) -> Path:
    """Scores of the cells of a sweep."""
    return SCORES / _data(name) / f"{name}.csv"


def kept(pattern: str) -> list[str]:
    """Sweeps of such a name whose scores are kept."""
    return sorted(path.stem for path in SCORES.glob(f"*/{pattern}.csv"))


def _data(name: str) -> str:
    return "uci" if name.startswith("uci") else "mixtures"
