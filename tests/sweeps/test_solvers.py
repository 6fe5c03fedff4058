"""Versions of solvers: which of them the models, designs and methods of a sweep have."""

from pathlib import Path

import pytest

from sweep_clustering.sweeps import solvers
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.spec import load
from sweep_clustering.sweeps.solvers import SOLVERS, solvers_of
from sweep_clustering.sweeps.words import SHIPPED

UNION = str(SOLVERS["union of Gaussians"])


def versions(grid: dict[str, object], **tables: object) -> dict[str, str]:
    """Solvers of a sweep of iris."""
    table = {"datasets": [{"name": "iris"}], "p": [0.9], "m": ["1N"], "replicates": 1, "restarts": 1} | grid
    return solvers_of(load("sweep", {"name": "s", "seed": 1, "grid": table, **tables}))


def test_each_model_has_the_version_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, kind in enumerate(SOLVERS, start=7):
        monkeypatch.setitem(solvers.SOLVERS, kind, number)
    found = versions({"models": ["unsupervised", "posterior-full", "likelihood-auto", "conditional-any"]})
    assert found == {
        "solver of unsupervised": "7",
        "solver of posterior-full": "7",
        "solver of likelihood-auto": "8",
        "solver of conditional-any": "9",
    }


def test_a_search_with_components_has_unions_and_the_other_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(solvers.SOLVERS, "union of Gaussians", 12)
    search = [{"name": "one"}, {"name": "pairs", "components": 2}]
    found = versions({"models": ["conditional"]}, search=search)
    assert found == {"solver of search=one/conditional": "1", "solver of search=pairs/conditional": "12"}


def test_designs_that_ask_and_shipped_methods_have_one(tmp_path: Path) -> None:
    method = next(name for name, each in SHIPPED.items() if each.uses == "links" and not each.package)
    lines = [
        'name = "s"\nseed = 1\n[grid]\ndatasets = ["iris"]\np = [0.9]\nm = ["1N"]',
        "replicates = 1\nrestarts = 1",
        f'models = ["posterior"]\nmethods = ["{method}"]\ndesign = ["uniform", "active"]\n',
    ]
    (tmp_path / "s.toml").write_text("\n".join(lines))
    found = solvers_of(load_sweep(tmp_path / "s.toml"))
    assert set(found) == {"solver of posterior", f"solver of {method}", "solver of design=active"}


def test_growth_changes_no_entry() -> None:
    first = versions({"models": ["posterior"]})
    assert first.items() <= versions({"models": ["posterior", "conditional-any"]}).items()
