"""Growing a cube by searches."""

from __future__ import annotations

from pathlib import Path

import pytest
from cubes.small import make_plan, make_spec

from storage.cube.growth import align, differences
from storage.cube.manifest import Manifest
from sweeps.file.spec import SweepSpec
from sweeps.plan import DatasetPlan


def manifest(spec: SweepSpec, plan: DatasetPlan) -> Manifest:
    return Manifest(Path("tiny.zarr"), spec, {"a": plan}, (), {})


def searched(*names: str, **settings: object) -> SweepSpec:
    """A sweep of searches that differ in how many solutions survive, the length of their name."""
    return make_spec("a", search=[{"name": name, "population": 3 + len(name)} | settings for name in names])


def search_refusals(old: SweepSpec, new: SweepSpec) -> list[str]:
    plans = [make_plan("a", searches=spec.search_names) for spec in (old, new)]
    return [str(problem) for problem in differences(manifest(old, plans[0]), new, plans[1:])]


def test_searches_come_one_by_one_where_there_are_several() -> None:
    old, new = searched("a", "bb"), searched("dddd", "bb", "a")
    assert search_refusals(old, new) == []
    plans = [make_plan("a", searches=spec.search_names) for spec in (old, new)]
    (aligned,) = align(manifest(old, plans[0]), plans[1:])
    assert aligned.searches == ("a", "bb", "dddd")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            make_spec("a"),
            searched("a", "bb"),
            "search: found searches a, bb, expected as in the cube, which has",
        ),
        (searched("a", "bb"), make_spec("a"), "search: found one search, expected also searches a, bb"),
        (
            searched("a", "bb"),
            searched("bb", "ccc"),
            "search: found searches bb, ccc, expected also a (use",
        ),
    ],
)
def test_other_searches_are_refused(old: SweepSpec, new: SweepSpec, said: str) -> None:
    assert any(said in problem and "use another name" in problem for problem in search_refusals(old, new))


def test_a_search_of_another_name_is_told_by_its_settings() -> None:
    old = searched("a", "bb")
    renamed = make_spec("a", search=[each | {"name": f"new-{each['name']}"} for each in old.dump()["search"]])
    (problem,) = search_refusals(old, renamed)
    assert "expected also a, bb (name them as the cube does: new-a is its a, new-bb is its bb)" in problem


def test_other_settings_of_a_named_search_are_refused() -> None:
    found = search_refusals(searched("a", "bb", offspring=6), searched("a", "bb", "ccc", offspring=7))
    assert len(found) == 2
    assert "search a.offspring: found 7, expected 6, as in the cube (to grow this cube write" in found[0]
    assert "offspring = 6 under the search 'a', and no key that says otherwise" in found[0]
    priors = search_refusals(searched("a", "bb"), searched("a", "bb", variance_prior=1.0))
    assert "search bb.variance_prior: found 1.0, expected 0.0, as in the cube (use another name)" in priors[1]
