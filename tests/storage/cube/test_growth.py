"""A cube takes in what fits, and refuses the rest."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from checkout import ROOT
from cubes.small import (
    SPEC,
    draw_inputs,
    files,
    fill,
    filled_cube,
    make_plan,
    make_spec,
    read_whole,
    result_files,
    with_unions,
)

from sweep_clustering.storage.cube.growth import align, create, differences, grow, open_cube
from sweep_clustering.storage.cube.manifest import Manifest, append_run, plan_problems, read_manifest
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.storage.damage import scan
from sweep_clustering.storage.files import PLAIN
from sweep_clustering.storage.provenance import RunRecord
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.spec import SweepSpec, load
from sweep_clustering.sweeps.plan import DatasetPlan, MethodPlan

OLD = make_plan("a", p=(0.8, 0.9), m=(4, 5), replicates=2)
MIXTURE = make_plan("b", mixtures=4)
BASELINE = make_plan("c", models=(), p=(), m=())
WIDE = make_plan("d", models=("posterior-full",))
FLAT = make_plan("e", models=("posterior-diagonal",))
TWO = make_plan("f", models=("likelihood", "posterior"))


def manifest(*plans: DatasetPlan, spec: SweepSpec = SPEC) -> Manifest:
    return Manifest(Path("tiny.zarr"), spec, {plan.name: plan for plan in plans}, (), {})


def refusals(old: DatasetPlan, new: DatasetPlan, specs: Sequence[SweepSpec] = (SPEC, SPEC)) -> list[str]:
    return [str(problem) for problem in differences(manifest(old, spec=specs[0]), specs[1], [new])]


@pytest.mark.parametrize(
    ("old", "changes", "message"),
    [
        (OLD, {"p": (0.9, 0.85, 0.8 + 1e-12), "m": (5, 4, 9), "replicates": 3}, None),
        (OLD, {"models": ("posterior", "posterior-common", "likelihood"), "source": "another place"}, None),
        (replace(OLD, baselines=()), {"baselines": ("unsupervised-full", "unsupervised")}, None),
        (WIDE, {"models": ("posterior-tied", "posterior-full")}, None),
        (WIDE, {"models": ("conditional-auto", "posterior-full")}, None),
        (MIXTURE, {"mixtures": 8}, None),
        (BASELINE, {"models": ("likelihood-full",), "p": (0.8,), "m": (4,), "replicates": 7}, None),
        (OLD, {"p": (0.9,)}, "p: found 0.9, expected also 0.8"),
        (OLD, {"replicates": 1}, "replicates: found 1, expected at least the 2"),
        (OLD, {"models": ("posterior",)}, "models: found 'posterior', expected also 'likelihood'"),
        (OLD, {"baselines": ("unsupervised-common",)}, "expected also 'unsupervised', which the cube holds"),
        (OLD, {"models": ("likelihood", "posterior-diagonal")}, "expected one variance a cluster, as in"),
        (FLAT, {"models": (*FLAT.models, "posterior-tied")}, "a matrix a cluster, expected a variance of"),
        (TWO, {"models": (*TWO.models, "conditional")}, "found 3, expected a multiple of 2"),
        (OLD, {"n_clusters": 3}, "n_clusters: found 3, expected 2"),
        (OLD, {"checksum": "bad"}, "checksum: found 'bad', expected 'c0ffee'"),
        (OLD, {"mixtures": 3}, "mixtures: found 3, expected nothing"),
        (MIXTURE, {"mixtures": None}, "mixtures: found nothing, expected 4"),
        (MIXTURE, {"mixtures": 3}, "mixtures: found 3, expected at least the 4"),
        (MIXTURE, {"mixtures": 6}, "mixtures: found 6, expected a multiple of 4"),
    ],
)
def test_growth_and_what_is_refused(old: DatasetPlan, changes: dict[str, Any], message: str | None) -> None:
    problems = refusals(old, replace(old, **changes))
    assert (message in "".join(problems)) if message else problems == []
    assert all("use another name" in problem for problem in problems)


def test_a_data_set_that_is_taken_away_is_refused_with_what_to_do() -> None:
    stored = manifest(*map(make_plan, "abc"), spec=make_spec("abc"))
    (problem,) = differences(stored, make_spec("b"), [make_plan("b")])
    assert problem.value == "no 'a', 'c'"
    assert problem.expected == "also 'a', 'c', which the cube holds"
    assert "add them to a copy of the file" in problem.hint
    assert "shipped" not in problem.hint


def test_a_cube_of_a_shipped_sweep_that_has_become_smaller_names_the_file_with_all_its_data_sets() -> None:
    """The sweep "uci" had ten data sets once, and without a network the cube has four of them."""
    names = [entry.name for entry in load_sweep(ROOT / "sweeps" / "ten-tables.toml").grid.datasets]
    eight = [entry.name for entry in load_sweep(ROOT / "sweeps" / "uci.toml").grid.datasets]
    there = [name for name in names if name in ("iris", "wine", "wdbc", "digits-389")]
    stored = manifest(*map(make_plan, there), spec=make_spec(names, name="uci"))
    (problem,) = differences(stored, make_spec(eight, name="uci"), [])
    assert problem.value == "no 'wdbc', 'digits-389'"
    assert problem.hint.endswith("; the shipped sweeps/ten-tables.toml has all of them, and its own cube")


SHAPES = make_plan("a", models=("conditional-any",), n_samples=20)


def test_gaussians_come_with_what_is_new(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    plan_b = make_plan("b", n_samples=20)
    old = [SHAPES, plan_b]  # a cube of format 2 has cells of any shape without Gaussians
    filled_cube(cube, old)
    before = result_files(cube)
    more = [replace(SHAPES, p=(0.9, 0.8)), replace(plan_b, models=("likelihood", "conditional-any"))]
    new_plans = list(map(with_unions, [*more, replace(SHAPES, name="c")]))
    manifest = read_manifest(cube)
    assert manifest.format_version == 2
    assert differences(manifest, SPEC, new_plans) == []
    assert [bool(plan.unions) for plan in align(manifest, new_plans[:1])] == [False]
    grow(cube, new_plans[:1], draw_inputs, SPEC)
    assert read_manifest(cube).format_version == 2
    plans = align(manifest, new_plans)
    grow(cube, new_plans, draw_inputs, SPEC)
    fill(cube, plans)
    grown = read_manifest(cube)
    assert grown.format_version == 3
    assert list(grown.plans.values()) == plans
    assert result_files(cube).items() >= before.items()
    assert scan(cube).good
    names = {"component_class", "component_weights", "component_values", "base_rate"}
    nodes = {name: set(node.data_vars) & names for name, node in open_cube(cube).load().children.items()}
    assert nodes == {"a": set(), "b": names, "c": names}
    assert not any(path.name.startswith("c.0.0.0.0") for path in (cube / "b" / "base_rate").iterdir())
    whole = tmp_path / "whole.zarr"
    filled_cube(whole, new_plans[1:])
    for name in names:
        assert read_whole(whole)["c"][name].identical(read_whole(cube)["c"][name])


def test_longer_rows_have_no_room() -> None:
    old = with_unions(SHAPES)
    (union,) = old.unions
    longer = replace(old, unions=(replace(union, entries=union.entries + 1),))
    # a later release may want longer rows for models of the cube
    assert refusals(old, longer) == []
    second = replace(longer.unions[0], search="other")
    (text,) = refusals(old, replace(longer, unions=(union, second)))
    assert f"in {union.entries + 1} numbers, expected at most {union.components} in {union.entries}," in text
    assert refusals(SHAPES, longer) == []


def designs(*designs: str, **ask: Any) -> SweepSpec:
    grid = make_spec("a").dump()["grid"] | {"design": list(designs)}
    return make_spec("a", grid=grid, **({"ask": ask} if ask else {}))


def crowds(*designs: str, **crowd: Any) -> SweepSpec:
    grid = make_spec("a").dump()["grid"] | {"design": list(designs)}
    return make_spec("a", grid=grid, crowd=crowd)


def searches(*names: str, **settings: object) -> SweepSpec:
    """Return a sweep of searches whose population is the length of their name."""
    return make_spec("a", search=[{"name": name, "population": 3 + len(name)} | settings for name in names])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (designs("uniform", "active"), designs("biased", "active", "uniform"), ""),
        (designs("uniform"), designs("uniform", "active"), "design: found uniform, active, expected as in"),
        (designs("uniform"), designs("active"), "grid.design: found active, expected as in the cube"),
        (designs("uniform", "active"), designs("biased", "uniform"), "expected also active"),
        (designs("active", "biased", batch=8), designs("active", batch=9), "ask.batch: found '9'"),
        (designs("active"), designs("active", covariance="full"), "ask.covariance: found 'full'"),
        (designs("uniform", "biased"), designs("uniform", "biased", "active", batch=9), ""),
        (designs("uniform", "biased"), crowds("uniform", "biased", "crowd", unsure=0.1), ""),
        (crowds("crowd"), crowds("crowd", unsure=0.1), "crowd.unsure: found 0.1, expected 0.0"),
        (searches("a", "bb"), searches("dddd", "bb", "a"), ""),
        (make_spec("a"), searches("a", "bb"), "search: found a, bb, expected as in the cube, which has no"),
        (searches("a", "bb"), make_spec("a"), "search: found one, expected also a, bb"),
        (searches("a", "bb"), searches("bb", "ccc"), "search: found bb, ccc, expected also a (use another"),
        (searches("a", "b6", offspring=6), searches("a", "b6", offspring=7), "search a.offspring: found 7"),
        (searches("a", "bb"), searches("a", "bb", variance_prior=1.0), "search bb.variance_prior: found 1.0"),
    ],
)
def test_designs_and_searches_come_where_there_are_some(old: SweepSpec, new: SweepSpec, message: str) -> None:
    plans = [make_plan("a", designs=spec.grid.design, searches=spec.search_names) for spec in (old, new)]
    problems = refusals(*plans, (old, new))
    assert (message in "".join(problems)) if message else problems == []
    (aligned,) = align(manifest(plans[0], spec=old), plans[1:])
    assert aligned.designs[: len(plans[0].designs)] == plans[0].designs
    assert sorted(aligned.searches) == sorted({*plans[0].searches, *plans[1].searches})


def test_every_difference_is_shown_at_once() -> None:
    changes = {"search": {"generations": 10, "population": 9, "offspring": 3}, "stop": {"risk": 0.1}}
    spec = make_spec("a", restarts=4, seed=8, data={"unavailable": "skip"}, **changes)
    new = replace(OLD, p=(0.8,), n_clusters=3, restarts=4)
    places = [problem.where for problem in differences(manifest(OLD, MIXTURE), spec, [new])]
    keys = ["seed", "grid.restarts", "stop.rule", "stop.risk", "stop.r_min", "stop.step", "search.offspring"]
    keys += ["search.population", *(f"data set a, {key}" for key in ("n_clusters", "restarts", "p"))]
    assert [where.removeprefix("tiny.zarr: ") for where in places] == [*keys, "grid.datasets"]
    stored = load("spec", json.loads(json.dumps(SPEC.dump())))
    assert stored == SPEC
    assert differences(manifest(OLD, spec=stored), SPEC, [OLD]) == []
    # a data set that is only unavailable is not removed
    assert differences(manifest(OLD, MIXTURE), make_spec("ab"), [OLD]) == []


STRONG = {"crossover": "labels", "mutation": 0.2, "relocation": "components"}
LENGTHS = {"population": 5, "offspring": 8, "generations": 20, "patience": 4}


@pytest.mark.parametrize(
    ("of_cube", "of_file", "text"),
    [
        ({}, STRONG | LENGTHS, ["found 'strong', expected 'pub", 'method = "published" under [search]']),
        (STRONG | LENGTHS | {"relocation": "all"}, {}, ['write method = "strong", relocation = "all" under']),
        # the method "strong" meant this before it had lengths
        (STRONG, STRONG | {"patience": 4}, ["patience: found 4, expected 0", "patience = 0 under"]),
        ({}, {"mutation": 0.9}, ["mutation: found 0.9, expected 1.0", "mutation = 1.0 under [search]"]),
        ({}, {"held_out": True}, ["held_out: found true, expected false", "held_out = false under"]),
    ],
)
def test_another_search_is_refused(of_cube: dict[str, Any], of_file: dict[str, Any], text: list[str]) -> None:
    cube, spec = (make_spec(search={"generations": 10, **keys}) for keys in (of_cube, of_file))
    (problem,) = differences(manifest(OLD, spec=cube), spec, [replace(OLD, held_out=spec.held_out)])
    assert str(problem).startswith("tiny.zarr: search.")
    assert all(words in str(problem) for words in text), problem


def test_align_keeps_what_is_there_first() -> None:
    old = replace(OLD, models=("posterior",), source="first place")
    values = {"p": (0.7, 0.9 + 1e-13, 0.8), "m": (3, 5, 4), "models": ("likelihood", "posterior")}
    (aligned,) = align(manifest(old), [make_plan("a", replicates=4, source="second place", **values)])
    models = ("posterior", "likelihood")
    assert aligned == replace(old, p=(0.8, 0.9, 0.7), m=(4, 5, 3), replicates=4, models=models)
    assert align(manifest(OLD), [MIXTURE, OLD]) == [MIXTURE, OLD]
    new_plan = make_plan("c", replicates=6, models=("likelihood", "posterior"), designs=("active",))
    assert align(manifest(BASELINE), [new_plan]) == [new_plan]  # it has other chunks


WARD = {"name": "ward", "call": "ward", "uses": "nothing", "restarts": 1, "code": "scikit-learn 1"}
MINE = {"name": "mine", "call": "mine.py:f", "uses": "links", "restarts": 2, "code": "sha256:0"}
MINE |= {"path": "/a/b.py"}


def with_methods(*methods: dict[str, Any]) -> tuple[SweepSpec, DatasetPlan]:
    dump = make_spec(datasets="a").dump()
    dump["grid"]["methods"] = list(methods)
    spec = load("spec", dump)
    names = {"models": spec.grid.supervised, "baselines": spec.grid.baselines}
    return spec, make_plan(**names, methods=tuple(method.plan for method in spec.grid.methods), model_chunk=1)


@pytest.mark.parametrize(
    ("methods", "messages"),
    [
        ([WARD, MINE | {"code": "sha256:1"}], ["method mine, code: found 'sha256:1', expected 'sha256:0'"]),
        ([WARD, MINE | {"options": {"a": 1}}], ["method mine, options.a: found 1, expected nothing, as in"]),
        ([WARD, MINE | {"restarts": 3}], ["method mine, restarts: found 3, expected 2"]),
        ([], ["also 'ward', which the cube holds", "also 'mine', which the cube holds"]),
        ([MINE | {"path": "/b/c.py", "time_limit": 5.0}, WARD, MINE | {"name": "other"}], []),
    ],
)
def test_methods_are_added_and_never_change(methods: list[dict[str, Any]], messages: list[str]) -> None:
    old, plan = with_methods(WARD, MINE)
    new, new_plan = with_methods(*methods)
    problems = refusals(plan, new_plan, (old, new))
    assert all("another name" in problem for problem in problems)
    assert all(message in problem for message, problem in zip(messages, problems, strict=True))


def test_a_plan_names_models_and_methods_of_its_sweep_alone() -> None:
    spec, plan = with_methods(WARD, MINE)
    assert plan_problems("cube", spec, "a", plan) == []
    # a sweep of several designs has a dimension, which this plan lacks
    assert len(plan_problems("cube", designs("uniform", "active"), "a", make_plan("a"))) == 1
    pairs = (("theirs", "mine"), ("mine", "unsupervised"), ("mine", "ward"))
    wrong: list[dict[str, Any]] = [{"models": ("likelihood", *pair)} for pair in pairs]
    wrong += [{"baselines": ("unsupervised", "ward", "mine")}, {"methods": plan.methods[:1]}]
    wrong += [{"designs": ("active",)}, {"searches": ("a", "b")}]
    for changes in wrong:
        assert len(plan_problems("cube", spec, "a", replace(plan, **changes))) == 1, changes
    more_restarts = replace(plan, methods=(MethodPlan("ward", 1), MethodPlan("mine", 9)))
    assert len(plan_problems("cube", spec, "a", more_restarts)) == 2


# A cube as it is made and as it grows.

REAL = make_plan("a", p=(0.9, 0.8), m=(6, 4), models=("likelihood", "posterior"))
ALL = [REAL, make_plan("b", mixtures=4, mixture_chunk=2), replace(BASELINE, has_labels=False)]


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    create(tmp_path / "tiny.zarr", ALL, draw_inputs, SPEC)
    return tmp_path / "tiny.zarr"


BASELINES = ("unsupervised-common", "unsupervised")


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        (REAL, {"p": (0.9, 0.8, 1.0), "m": (6, 15, 4), "replicates": 4}),
        (make_plan("a", baselines=()), {"baselines": BASELINES}),
        (make_plan("a", models=(), p=(), m=()), {"models": ("likelihood",), "p": (0.9,), "m": (4,)}),
        (make_plan("a", mixtures=2), {"baselines": BASELINES, "mixtures": 4}),
        (WIDE, {"models": ("posterior-full", "conditional-auto"), "baselines": ("unsupervised-full",)}),
        (replace(WIDE, models=("conditional-auto",)), {"models": ("conditional-auto", "likelihood")}),
        (replace(WIDE, held_out=True), {"models": ("posterior-full", "posterior-common")}),
    ],
)
def test_grown_it_is_as_made_at_once(tmp_path: Path, first: DatasetPlan, changes: dict[str, Any]) -> None:
    cube, at_once = tmp_path / "grown.zarr", tmp_path / "at_once.zarr"
    filled_cube(cube, [first])
    if "baselines" in changes:
        changes = changes | {"baselines": tuple(dict.fromkeys([*first.baselines, *changes["baselines"]]))}
    (large,) = align(read_manifest(cube), [replace(first, **changes)])
    before = result_files(cube)
    grow(cube, [large], draw_inputs, SPEC)
    assert result_files(cube) == before
    assert scan(cube).damaged == ()
    create(at_once, [large], draw_inputs, SPEC)
    for path in (cube, at_once):
        fill(path, [large])
        assert scan(path).damaged == ()
    assert before.items() <= result_files(cube).items()
    grown, expected = read_whole(cube), read_whole(at_once)
    for node in expected.subtree:
        assert ("status" not in node) or bool((node["status"] == DONE).all())
        xr.testing.assert_equal(grown[node.path].to_dataset(inherit=False), node.to_dataset(inherit=False))
    if first is REAL:  # more annotations than at creation, in chunks as long as then
        entries = [read_manifest(path).metadata["a/annotations"] for path in (cube, at_once)]
        lengths = [entry["chunk_grid"]["configuration"]["chunk_shape"][-2] for entry in entries]
        assert lengths == [6, 15]


def test_short_features_are_float32_and_a_cube_keeps_the_type_it_has(tmp_path: Path) -> None:
    def inputs(plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
        features, labels = draw_inputs(plan)
        return features.astype(np.float32).astype(np.float64), labels

    for old, dtype in ((REAL, np.float64), (replace(REAL, short=True), np.float32)):
        cube = tmp_path / f"{dtype.__name__}.zarr"
        create(cube, [old], inputs, SPEC)
        new = [replace(old, short=short, p=(0.9, 0.8, 1.0)) for short in (False, True)]
        assert not [problem for plan in new for problem in differences(read_manifest(cube), SPEC, [plan])]
        for plan in new:
            grow(cube, align(read_manifest(cube), [plan]), inputs, SPEC)
        assert read_whole(cube)["a"]["X"].dtype == dtype
        assert scan(cube).damaged == ()
        assert np.array_equal(read_whole(cube)["a"]["X"], inputs(REAL)[0])


def test_what_is_there_or_does_not_grow_is_refused_before_anything_is_written(cube: Path) -> None:
    link = cube.with_name("link.zarr")
    link.symlink_to("nowhere")
    before = files(cube.parent)
    for path in (cube, link):
        with pytest.raises(InputError, match="already"):
            create(path, ALL, draw_inputs, SPEC)

    def redraw(plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
        features, labels = draw_inputs(plan)
        return np.nextafter(features, 9.0), labels

    with pytest.raises(InputError, match="seed: found 8, expected 7"):
        grow(cube, ALL, draw_inputs, make_spec(seed=8))
    with pytest.raises(InputError, match="b/X: found other mixtures"):
        grow(cube, [ALL[0], replace(ALL[1], mixtures=6), ALL[2]], redraw, SPEC)
    assert files(cube.parent) == before


def test_nothing_new_changes_nothing_but_leftovers_go_and_unavailable_sets_stay(cube: Path) -> None:
    append_run(cube, RunRecord(run=1))
    inodes = {name: (cube / name).stat().st_ino for name in files(cube)}
    # an interrupted growth left this file
    PLAIN.put_all(cube, [("z/X/c.0.0", b"1"), ("a/status/c.9.0.0.0", b"1"), ("a/X/c.5.0", b"1")])
    grow(cube, ALL, draw_inputs, SPEC)
    assert {name: (cube / name).stat().st_ino for name in files(cube)} == inodes
    spec = make_spec("abcd")
    grow(cube, [make_plan("d")], draw_inputs, spec)
    assert list(open_cube(cube).children) == list(read_manifest(cube).plans) == ["a", "b", "c", "d"]
    assert read_manifest(cube).spec == spec
    assert read_manifest(cube).runs == (RunRecord(run=1),)
