"""What a cube takes in and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cubes.small import SPEC, make_plan, make_spec

from storage.cube.growth import align, differences
from storage.cube.manifest import Manifest
from storage.cube.records import name_problems
from sweeps.file.spec import SweepSpec, load
from sweeps.plan import DatasetPlan, MethodPlan

OLD = make_plan("a", p=(0.8, 0.9), m=(4, 5), replicates=2)
MIXTURE = make_plan("b", mixtures=4)
BASELINE = make_plan("c", models=(), p=(), m=())
WIDE = make_plan("d", models=("posterior-full",))
FLAT = make_plan("e", models=("posterior-diagonal",))


def manifest(*plans: DatasetPlan, spec: SweepSpec = SPEC) -> Manifest:
    return Manifest(Path("tiny.zarr"), spec, {plan.name: plan for plan in plans}, (), {})


def found(old: DatasetPlan, new: DatasetPlan) -> list[str]:
    return [str(problem) for problem in differences(manifest(old), SPEC, [new])]


@pytest.mark.parametrize(
    ("old", "changes"),
    [
        (OLD, {}),
        (OLD, {"p": (0.9, 0.85, 0.8)}),
        (OLD, {"m": (5, 4, 9)}),
        (OLD, {"replicates": 6}),
        (OLD, {"models": ("posterior", "likelihood")}),
        (replace(OLD, baselines=()), {"baselines": ("unsupervised",)}),
        (OLD, {"baselines": ("unsupervised-common", "unsupervised")}),
        (OLD, {"baselines": ("unsupervised-full", "unsupervised")}),
        (OLD, {"models": ("posterior-common", "likelihood")}),
        (WIDE, {"models": ("posterior-tied", "posterior-full")}),
        (WIDE, {"models": ("likelihood", "posterior-full")}),
        (WIDE, {"models": ("conditional-auto", "posterior-full")}),
        (OLD, {"source": "another place"}),
        (OLD, {"p": (0.8 + 1e-12, 0.9)}),
        (MIXTURE, {"mixtures": 8}),
        (OLD, {"replicates": 3}),
        (BASELINE, {"models": ("likelihood",), "p": (0.8,), "m": (4,), "replicates": 7}),
        (BASELINE, {"models": ("likelihood-full",), "p": (0.8,), "m": (4,), "replicates": 7}),
    ],
)
def test_growth_is_taken_in(old: DatasetPlan, changes: dict[str, Any]) -> None:
    assert found(old, replace(old, **changes)) == []


@pytest.mark.parametrize(
    ("old", "changes", "said"),
    [
        (OLD, {"p": (0.9,)}, "p: found 0.9, expected also 0.8"),
        (OLD, {"m": (6,)}, "m: found 6, expected also 4, 5"),
        (OLD, {"replicates": 1}, "replicates: found 1, expected at least the 2"),
        (OLD, {"models": ("posterior",)}, "models: found 'posterior', expected also 'likelihood'"),
        (OLD, {"models": ()}, "models: found none, expected also 'likelihood'"),
        (OLD, {"baselines": ()}, "models: found no 'unsupervised'"),
        (OLD, {"baselines": ("unsupervised-common",)}, "models: found no 'unsupervised'"),
        (
            OLD,
            {"models": ("likelihood", "posterior-diagonal")},
            "models: found 'posterior-diagonal' with a variance of each feature a cluster, "
            "expected one variance a cluster, as in the cube",
        ),
        (
            OLD,
            {"models": ("likelihood", "posterior-diagonal", "likelihood-full")},
            "models: found 'posterior-diagonal', 'likelihood-full' with a matrix a cluster",
        ),
        (
            FLAT,
            {"models": ("posterior-diagonal", "posterior-tied", "posterior")},
            "models: found 'posterior-tied' with a matrix a cluster, "
            "expected a variance of each feature a cluster, as in the cube",
        ),
        (
            FLAT,
            {"models": ("posterior-diagonal", "posterior-auto")},
            "models: found 'posterior-auto' with a matrix a cluster, "
            "expected a variance of each feature a cluster, as in the cube",
        ),
        (OLD, {"n_clusters": 3}, "n_clusters: found 3, expected 2"),
        (OLD, {"checksum": "bad"}, "checksum: found 'bad', expected 'c0ffee'"),
        (OLD, {"restarts": 9}, "restarts: found 9, expected 3"),
        (OLD, {"scale": "standard"}, "scale: found 'standard', expected 'none'"),
        (OLD, {"mixtures": 3}, "mixtures: found 3, expected nothing"),
        (MIXTURE, {"mixtures": None}, "mixtures: found nothing, expected 4"),
        (MIXTURE, {"mixtures": 6}, "mixtures: found 6, expected a multiple of 4"),
    ],
)
def test_anything_else_is_refused(old: DatasetPlan, changes: dict[str, Any], said: str) -> None:
    problems = found(old, replace(old, **changes))
    assert any(said in problem for problem in problems)
    assert all("use another name" in problem for problem in problems)


def designed(*designs: str, **ask: Any) -> SweepSpec:
    grid = make_spec("a").dump()["grid"] | {"design": list(designs)}
    return make_spec("a", grid=grid, **({"ask": ask} if ask else {}))


def refusals(old: SweepSpec, new: SweepSpec) -> list[str]:
    plans = [make_plan("a", designs=spec.grid.design) for spec in (old, new)]
    return [str(problem) for problem in differences(manifest(plans[0], spec=old), new, plans[1:])]


def test_designs_come_one_by_one_where_there_are_several() -> None:
    old, new = designed("uniform", "active"), designed("biased", "active", "uniform")
    assert refusals(old, new) == []
    plans = [make_plan("a", designs=spec.grid.design) for spec in (old, new)]
    (aligned,) = align(manifest(plans[0], spec=old), plans[1:])
    assert aligned.designs == ("uniform", "active", "biased")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (("uniform",), ("uniform", "active"), "grid.design: found uniform, active, expected as in the cube"),
        (("uniform",), ("active",), "grid.design: found active, expected as in the cube"),
        (("uniform", "active"), ("uniform",), "grid.design: found uniform, expected also active (use"),
        (("uniform", "active"), ("biased", "uniform"), "found biased, uniform, expected also active (use"),
    ],
)
def test_other_designs_are_refused(old: tuple[str, ...], new: tuple[str, ...], said: str) -> None:
    problems = refusals(designed(*old), designed(*new))
    assert any(said in problem and "use another name" in problem for problem in problems)


def test_other_questions_are_refused_where_a_design_asks() -> None:
    old = designed("uniform", "active", batch=8)
    assert "ask.batch: found '9', expected '8'" in refusals(old, designed("uniform", "active", batch=9))[0]
    found = refusals(old, designed("uniform", "active", batch=8, covariance="full"))
    assert "ask.covariance: found 'full', expected 'auto'" in found[0]
    drawn = designed("uniform", "biased")
    assert refusals(drawn, designed("uniform", "biased", "active", batch=9)) == []


def test_every_difference_is_shown_at_once() -> None:
    spec = make_spec(
        "a",
        restarts=4,
        seed=8,
        search={"generations": 10, "population": 9, "offspring": 3},
        data={"unavailable": "skip"},
        stop={"risk": 0.1},
    )
    new = replace(OLD, p=(0.8,), n_clusters=3, restarts=4)
    problems = differences(manifest(OLD, MIXTURE), spec, [new])
    assert [problem.where.removeprefix("tiny.zarr: ") for problem in problems] == [
        "seed",
        "grid.restarts",
        "search.offspring",
        "search.population",
        "stop.r_min",
        "stop.risk",
        "stop.rule",
        "stop.step",
        "data set a, n_clusters",
        "data set a, restarts",
        "data set a, p",
        "grid.datasets",
    ]


STRONG = {"crossover": "labels", "mutation": 0.2, "relocation": "components"}
LENGTHS = {"population": 5, "offspring": 8, "generations": 20, "patience": 4}
PUBLISHED_SAID = (
    "population 10, offspring 10, generations 10, patience 0, crossover 'centroids', mutation 1.0,"
)
STRONG_SAID = "population 5, offspring 8, generations 20, patience 4, crossover 'labels', mutation 0.2,"


@pytest.mark.parametrize(
    ("of_cube", "of_file", "said"),
    [
        (
            {},
            STRONG | LENGTHS,
            f"search.method: found 'strong' ({STRONG_SAID} relocation 'components'),"
            f" expected 'published' ({PUBLISHED_SAID} relocation 'annotated'), as in the"
            ' cube (to grow this cube write method = "published" under [search], and no key that says'
            " otherwise; or use another name)",
        ),
        (
            STRONG | LENGTHS | {"relocation": "all"},
            {},
            f"search.method: found 'published' ({PUBLISHED_SAID} relocation 'annotated'),"
            f" expected 'strong' ({STRONG_SAID} relocation 'all'), as in the cube (to grow"
            ' this cube write method = "strong", relocation = "all" under [search], and no key that says'
            " otherwise; or use another name)",
        ),
        (
            STRONG | {"relocation": "all"},
            STRONG,
            "search.relocation: found 'components', expected 'all', as in the cube (to grow this cube write"
            ' relocation = "all" under [search], and no key that says otherwise; or use another name)',
        ),
        (  # what "strong" was before it had lengths of its own
            STRONG,
            STRONG | {"patience": 4},
            "search.patience: found 4, expected 0, as in the cube (to grow this cube write patience = 0 under"
            " [search], and no key that says otherwise; or use another name)",
        ),
        (  # what a file with these two keys asked for before there was a method, and what it asks for now
            {"crossover": "labels", "mutation": 0.2},
            STRONG,
            "search.relocation: found 'components', expected 'annotated', as in the cube (to grow this cube"
            ' write relocation = "annotated" under [search], and no key that says otherwise; or use another'
            " name)",
        ),
        (
            {},
            {"mutation": 0.9},
            "search.mutation: found 0.9, expected 1.0, as in the cube (to grow this cube write mutation = 1.0"
            " under [search], and no key that says otherwise; or use another name)",
        ),
    ],
)
def test_another_search_is_refused_with_what_the_file_has_to_say(
    of_cube: dict[str, Any], of_file: dict[str, Any], said: str
) -> None:
    cube, asked = (make_spec(search={"generations": 10, **given}) for given in (of_cube, of_file))
    (problem,) = differences(manifest(OLD, spec=cube), asked, [OLD])
    assert str(problem) == f"tiny.zarr: {said}"


def test_a_sweep_is_the_one_in_its_dump() -> None:
    stored = load("spec", json.loads(json.dumps(SPEC.dump())))
    assert stored == SPEC
    assert differences(manifest(OLD, spec=stored), SPEC, [OLD]) == []


@pytest.mark.parametrize(("datasets", "refused"), [("ab", False), ("a", True)])
def test_a_set_that_is_only_unavailable_is_not_removed(datasets: str, refused: bool) -> None:
    spec = make_spec(datasets)
    assert bool(differences(manifest(OLD, MIXTURE), spec, [OLD])) == refused


def test_align_keeps_what_is_there_first() -> None:
    old = replace(OLD, models=("posterior",), source="first place")
    asked = make_plan(
        "a",
        p=(0.7, 0.9 + 1e-13, 0.8),
        m=(3, 5, 4),
        replicates=4,
        models=("likelihood", "posterior"),
        source="second place",
    )
    (aligned,) = align(manifest(old), [asked])
    assert aligned == replace(
        old, p=(0.8, 0.9, 0.7), m=(4, 5, 3), replicates=4, models=("posterior", "likelihood")
    )


def test_align_leaves_new_sets_alone() -> None:
    assert align(manifest(OLD), [MIXTURE, OLD]) == [MIXTURE, OLD]


def test_align_takes_grid_chunks_of_the_plan_where_the_cube_has_no_grid() -> None:
    asked = make_plan("c", replicates=6, models=("likelihood", "posterior"))
    (aligned,) = align(manifest(BASELINE), [asked])
    assert (aligned.replicate_chunk, aligned.model_chunk) == (6, 2)


@pytest.mark.parametrize("of_cube", [False, True])
def test_annotations_are_held_out_of_all_of_a_cube_or_of_none(of_cube: bool) -> None:
    search = {"generations": 10, "population": 10}
    specs = {held_out: make_spec("a", search=search | {"held_out": held_out}) for held_out in (False, True)}
    old, new = (replace(OLD, held_out=held_out) for held_out in (of_cube, not of_cube))
    (problem,) = differences(manifest(old, spec=specs[of_cube]), specs[not of_cube], [new])
    words = {False: "false", True: "true"}
    assert str(problem).startswith(
        f"tiny.zarr: search.held_out: found {words[not of_cube]}, expected {words[of_cube]}, as in the cube"
    )
    assert f"to grow this cube write held_out = {words[of_cube]} under [search]" in problem.hint
    assert differences(manifest(old, spec=specs[of_cube]), specs[of_cube], [old]) == []


WARD = {"name": "ward", "call": "ward", "uses": "nothing", "restarts": 1, "code": "scikit-learn 1"}
MINE = {
    "name": "mine",
    "call": "mine.py:f",
    "uses": "links",
    "restarts": 2,
    "code": "sha256:0",
    "path": "/a/mine.py",
}


def with_methods(*methods: dict[str, Any]) -> tuple[SweepSpec, DatasetPlan]:
    spec = make_spec(datasets="a")
    dump = spec.dump()
    dump["grid"]["methods"] = list(methods)
    spec = load("spec", dump)
    plan = make_plan(
        models=spec.grid.supervised,
        baselines=spec.grid.baselines,
        methods=tuple(each.plan for each in spec.grid.methods),
        model_chunk=1,
    )
    return spec, plan


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"code": "sha256:1"}, "method mine, code: found 'sha256:1', expected 'sha256:0', as in the cube"),
        ({"options": {"a": 1}}, "method mine, options: found {'a': 1}, expected {}"),
        ({"restarts": 3}, "method mine, restarts: found 3, expected 2"),
        ({"call": "mine.py:g"}, "method mine, call: found 'mine.py:g', expected 'mine.py:f'"),
    ],
)
def test_a_method_that_changed_is_refused_under_its_name(changes: dict[str, Any], said: str) -> None:
    old, plan = with_methods(WARD, MINE)
    new, asked = with_methods(WARD, MINE | changes)
    problems = [str(each) for each in differences(manifest(plan, spec=old), new, [asked])]
    assert any(said in problem and "another name" in problem for problem in problems)


def test_a_cube_with_methods_grows_by_any_number_of_them() -> None:
    old, plan = with_methods(WARD, MINE)
    new, asked = with_methods(
        MINE | {"path": "/b/mine.py", "time_limit": 5.0}, WARD, MINE | {"name": "other"}, WARD | {"name": "w"}
    )
    assert differences(manifest(plan, spec=old), new, [asked]) == []
    (aligned,) = align(manifest(plan, spec=old), [asked])
    assert aligned.models == ("likelihood", "mine", "other")
    assert aligned.baselines == ("unsupervised", "ward", "w")


def test_a_method_that_is_gone_is_refused() -> None:
    old, plan = with_methods(WARD, MINE)
    new, asked = with_methods()
    problems = " ".join(str(each) for each in differences(manifest(plan, spec=old), new, [asked]))
    assert "'mine', which the cube holds" in problems
    assert "'ward', which the cube holds" in problems


def test_a_plan_names_models_and_methods_of_its_sweep_alone() -> None:
    spec, plan = with_methods(WARD, MINE)
    assert name_problems("cube", spec, plan) == []
    for changes, count in (
        ({"models": ("likelihood", "theirs", "mine")}, 1),
        ({"models": ("likelihood", "mine", "unsupervised")}, 1),
        ({"models": ("likelihood", "mine", "ward")}, 1),
        ({"baselines": ("unsupervised", "ward", "mine")}, 1),
        ({"methods": plan.methods[:1]}, 1),
        ({"methods": (MethodPlan("ward", 1), MethodPlan("mine", 9))}, 2),
    ):
        assert len(name_problems("cube", spec, replace(plan, **changes))) == count, changes
