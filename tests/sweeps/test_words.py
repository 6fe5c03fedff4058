"""Names in cubes are a contract, covariances have narrow and wide forms, and solvers have versions."""

from pathlib import Path

import numpy as np
import pytest

from sweep_clustering.kernels import settings, structure
from sweep_clustering.sweeps import words
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.spec import load
from sweep_clustering.sweeps.shapes import CANDIDATES, CODES, DIMS, narrowed, widened


def test_codes_are_pinned_and_terms_and_shapes_are_those_of_the_kernels() -> None:
    terms = ("unsupervised", "likelihood", "posterior", "conditional")
    shapes = {"": 0, "-common": 16, "-diagonal": 32, "-tied": 48, "-full": 64, "-auto": 80}
    pinned = {f"{term}{shape}": code + at for shape, code in shapes.items() for at, term in enumerate(terms)}
    del pinned["unsupervised-auto"]
    pinned |= {"conditional-any": 99, "conditional-groups": 115}
    assert pinned == words.MODEL_CODES
    assert tuple(words.TERM_CODES) == settings.TERMS
    named = (*structure.COVARIANCES, words.AUTO, structure.ANY, structure.GROUPS)
    assert tuple(words.SHAPE_CODES) == tuple(DIMS) == named
    assert tuple(CODES) == structure.COVARIANCES
    assert CANDIDATES == structure.CANDIDATES
    assert words.AUTO == structure.AUTO


def test_a_name_says_term_and_shape_and_baselines_are_of_the_same_shape() -> None:
    assert words.split_model("conditional-full") == ("conditional", "full")
    for model in words.MODEL_CODES:
        shape = "spherical" if words.chooses(model) else words.shape_of(model)
        assert words.split_model(words.baseline_of(model)) == ("unsupervised", shape)
    assert {words.baseline_of(model) for model in words.MODEL_CODES} == set(words.BASELINES)
    auto = ["likelihood-auto", "posterior-auto", "conditional-auto", "conditional-any", "conditional-groups"]
    assert [model for model in words.MODEL_CODES if words.chooses(model)] == auto
    assert [model for model in words.MODEL_CODES if words.is_any(model)] == auto[-2:]
    assert [model for model in words.MODEL_CODES if words.has_groups(model)] == auto[-1:]


def test_a_wider_form_holds_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    forms = {
        "spherical": rng.random(3),
        "any": rng.random(3),
        "groups": rng.random(3),
        "common": np.full(3, 0.7),
        "diagonal": rng.random((3, 4)),
    }
    forms |= {"tied": np.repeat(rng.random((1, 4, 4)), 3, axis=0)}
    forms |= dict.fromkeys(("full", "auto"), rng.random((3, 4, 4)))
    for shape in DIMS:
        for n_axes in range(3):
            if n_axes < forms[shape].ndim - 1:
                with pytest.raises(ValueError, match="expected at most"):
                    widened(forms[shape], n_axes, 4)
            else:
                wide = widened(forms[shape], n_axes, 4)
                assert wide.shape == (3, *[4] * n_axes)
                np.testing.assert_array_equal(narrowed(wide, shape), forms[shape])
    with pytest.raises(ValueError, match="expected 3 axes of a full shape"):
        narrowed(forms["diagonal"], "full")


def versions(grid: dict[str, object], **tables: object) -> dict[str, str]:
    """Return the solvers of a sweep of iris."""
    table = {"datasets": [{"name": "iris"}], "p": [0.9], "m": ["1N"], "replicates": 1, "restarts": 1} | grid
    return words.solvers_of(load("sweep", {"name": "s", "seed": 1, "grid": table, **tables}))


def test_each_model_has_the_version_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, kind in enumerate(words.SOLVERS, start=7):
        monkeypatch.setitem(words.SOLVERS, kind, number)
    models = ["unsupervised", "posterior-full", "likelihood-auto", "conditional-any", "conditional-groups"]
    solvers = versions({"models": models})
    assert solvers == {
        "solver of unsupervised": "7",
        "solver of posterior-full": "7",
        "solver of likelihood-auto": "8",
        "solver of conditional-any": "9",
        "solver of conditional-groups": "10",
    }


def test_a_search_with_components_has_unions_and_the_other_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(words.SOLVERS, "union of Gaussians", 12)
    search = [{"name": "one"}, {"name": "pairs", "components": 2}]
    solvers = versions({"models": ["conditional"]}, search=search)
    assert solvers == {"solver of search=one/conditional": "1", "solver of search=pairs/conditional": "12"}


def test_designs_that_ask_and_shipped_methods_have_one(tmp_path: Path) -> None:
    method = next(
        name for name, shipped in words.SHIPPED.items() if shipped.uses == "links" and not shipped.package
    )
    lines = [
        'name = "s"\nseed = 1\n[grid]\ndatasets = ["iris"]\np = [0.9]\nm = ["1N"]',
        "replicates = 1\nrestarts = 1",
        f'models = ["posterior"]\nmethods = ["{method}"]\ndesign = ["uniform", "active"]\n',
    ]
    (tmp_path / "s.toml").write_text("\n".join(lines))
    solvers = words.solvers_of(load_sweep(tmp_path / "s.toml"))
    assert set(solvers) == {"solver of posterior", f"solver of {method}", "solver of design=active"}


def test_questions_of_merged_groups_change_with_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(words.SOLVERS, "questions", 5)
    monkeypatch.setitem(words.SOLVERS, "merged groups", 8)
    merges = next(design for design, strategy in words.ASKED_DESIGNS.items() if strategy == "merges")
    grid = {"models": ["posterior"], "design": ["active", merges]}
    for shape, active, merging in (("auto", "5", "5.8"), ("spherical", "5", "5"), ("any", "5.8", "5.8")):
        solvers = versions(grid, ask={"covariance": shape})
        assert solvers["solver of design=active"] == active
        assert solvers[f"solver of design={merges}"] == merging


def test_growth_changes_no_entry() -> None:
    first = versions({"models": ["posterior"]})
    assert first.items() <= versions({"models": ["posterior", "conditional-any"]}).items()
