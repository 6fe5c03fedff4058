"""What a cube takes in and what it refuses."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from cubes.small import (
    SPEC,
    draw_block,
    draw_cell,
    draw_inputs,
    files,
    fill,
    make_plan,
    make_spec,
    read_whole,
    result_files,
)
from hypothesis import given
from hypothesis import strategies as st

from storage.cube.blocks import BlockStore
from storage.cube.growth import (
    align,
    chunk_counts,
    create,
    differences,
    grow,
    is_committed,
    open_cube,
    render,
)
from storage.cube.manifest import Manifest, append_run, name_problems, read_manifest
from storage.cube.schema import DONE, array_specs, coordinate_values
from storage.damage import scan
from storage.errors import StorageError
from storage.files import PLAIN
from storage.provenance import RunRecord
from sweeps.errors import InputError
from sweeps.file.spec import SweepSpec, load
from sweeps.plan import DatasetPlan, MethodPlan

# A cube in memory: what zarr reads from it, what growth keeps, and which chunks belong to a cube.

PLAN = make_plan("a", p=(0.9, 0.8), m=(6, 4), mixtures=4, mixture_chunk=2)


def test_zarr_reads_back_what_was_rendered(tmp_path: Path) -> None:
    template = render(PLAN, {}, draw_inputs(PLAN))
    PLAIN.put_all(tmp_path, (template.metadata_files() | template.coordinates | template.inputs).items())
    X, labels = draw_inputs(PLAN)
    wanted = coordinate_values(PLAN) | {"X": X, "labels_true": labels}
    specs = list(array_specs(PLAN))
    assert {spec.path for spec in specs} < template.metadata.keys()
    for spec in specs:
        array = zarr.open_array(tmp_path / spec.path, mode="r")
        assert (array.shape, array.chunks) == (spec.shape, spec.chunks)
        assert array.metadata.dimension_names == spec.dims
        found, name = np.asarray(array[...]), spec.variable.name
        if name in wanted and spec.path == f"a/{name}":
            np.testing.assert_array_equal(found, wanted[name])
        else:
            fill = np.full_like(found, spec.variable.fill)
            assert np.array_equal(found, fill, equal_nan=found.dtype.kind == "f"), spec.path


def test_a_grown_array_keeps_all_but_its_shape() -> None:
    """Chunk lengths above all: files that are there would mean other cells."""
    old = render(PLAN, {}, draw_inputs(PLAN)).metadata
    grown = replace(PLAN, p=(0.9, 0.8, 0.7), m=(6, 4, 12), mixtures=8)
    new = render(grown, old, draw_inputs(grown)).metadata
    assert new.keys() == old.keys()
    for path, entry in old.items():
        if entry["node_type"] == "array":
            assert new[path] == entry | {"shape": new[path]["shape"]}
    assert new["a/annotations"]["shape"][-2] == 12
    assert new["a/annotations"]["chunk_grid"]["configuration"]["chunk_shape"][-2] == 6
    assert chunk_counts(new["a/annotations"]) == (4, 3, 3, 1, 2, 1)


def test_annotations_of_a_file_are_inputs_that_must_agree_with_the_plan() -> None:
    plan = make_plan("a", n_annotations=2, annotations_checksum="c0ffee")
    X, labels = draw_inputs(plan)
    pool = np.array([[0, 1, 0], [2, 2, 1]], dtype=np.int32)
    template = render(plan, {}, (X, labels, pool))
    assert {key.rpartition("/")[0] for key in template.inputs} == {
        "a/X",
        "a/labels_true",
        "a/annotation_pool",
    }
    for wrong in (None, pool[:1]):
        with pytest.raises(ValueError, match="annotations of a have shape"):
            render(plan, {}, (X, labels, wrong))


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 4)), min_size=1, max_size=2))
def test_chunks_of_an_array_are_those_that_hold_an_element(dims: list[tuple[int, int]]) -> None:
    shape, chunks = zip(*dims, strict=True)
    entry = {
        "node_type": "array",
        "shape": list(shape),
        "chunk_grid": {"configuration": {"chunk_shape": list(chunks)}},
    }
    elements = itertools.product(*map(range, shape))
    held = {tuple(i // n for i, n in zip(element, chunks, strict=True)) for element in elements}
    for position in itertools.product(range(8), repeat=len(shape)):
        key = "a/x/c." + ".".join(map(str, position))
        assert is_committed(key, {"a/x": entry}) == (position in held)


def test_other_files_belong_to_no_array() -> None:
    metadata = render(PLAN, {}, None).metadata
    assert is_committed("a/status/c.0.0.0.0.0", metadata)
    for key in (
        "a/status/c.0.0.0.0",
        "a/status/c.2.0.0.0.0",
        "a/other/c.0",
        "a/c.0",
        "a/status/zarr.json",
        "c.0",
    ):
        assert not is_committed(key, metadata), key


def test_inputs_that_contradict_their_plan_are_refused() -> None:
    X, labels = draw_inputs(PLAN)
    for wrong, said in (
        ((X[:3], labels), r"X of a has shape \(3, 5, 2\), its plan says \(4, 5, 2\)"),
        ((X, None), "true labels"),
        ((X, labels[:, 1:]), "true labels"),
    ):
        with pytest.raises(ValueError, match=said):
            render(PLAN, {}, wrong)


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


@pytest.mark.parametrize(
    ("of_cube", "of_file", "said"),
    [
        (
            {},
            STRONG | LENGTHS,
            ["method: found 'strong' (population 5", "expected 'published'", 'method = "published" under'],
        ),
        (
            STRONG | LENGTHS | {"relocation": "all"},
            {},
            ["method: found 'published'", "expected 'strong'", 'method = "strong", relocation = "all" under'],
        ),
        # what "strong" was before it had lengths of its own
        (
            STRONG,
            STRONG | {"patience": 4},
            ["patience: found 4, expected 0", "write patience = 0 under [search]"],
        ),
        # what a file with these two keys asked for before there was a method, and what it asks for now
        (
            {"crossover": "labels", "mutation": 0.2},
            STRONG,
            ["relocation: found 'components', expected 'annotated'", 'write relocation = "annotated" under'],
        ),
        ({}, {"mutation": 0.9}, ["mutation: found 0.9, expected 1.0", "write mutation = 1.0 under [search]"]),
    ],
)
def test_another_search_is_refused_with_what_the_file_has_to_say(
    of_cube: dict[str, Any], of_file: dict[str, Any], said: list[str]
) -> None:
    cube, asked = (make_spec(search={"generations": 10, **given}) for given in (of_cube, of_file))
    (problem,) = differences(manifest(OLD, spec=cube), asked, [OLD])
    assert str(problem).startswith("tiny.zarr: search.")
    assert all(words in str(problem) for words in said)


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


# A cube as it is made and as it grows.

REAL = make_plan("a", p=(0.9, 0.8), m=(6, 4), models=("likelihood", "posterior"))
MIXTURE_OF_CUBE = make_plan("b", mixtures=4, mixture_chunk=2)
BASELINE_OF_CUBE = make_plan("c", models=(), p=(), m=(), has_labels=False)
DIAGONAL = "unsupervised-diagonal"
ALL = [REAL, MIXTURE_OF_CUBE, BASELINE_OF_CUBE]


def made(path: Path, plans: list[DatasetPlan]) -> Path:
    create(path, plans, draw_inputs, SPEC)
    return path


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return made(tmp_path / "results" / "tiny.zarr", ALL)


def test_a_new_cube_opens_lazily_without_a_warning_and_holds_nothing(cube: Path) -> None:
    tree = xr.open_datatree(cube, engine="zarr", chunks={})
    assert sorted(tree.children) == ["a", "b", "c"]
    for name, value in {"labels": -1, "best_restart": -1, "restarts_done": 0, "status": 0}.items():
        for node in ("a", "a/unsupervised", "b", "b/unsupervised", "c/unsupervised"):
            variable = tree[node][name]
            assert variable.dtype.kind == "i", "fill values are no missing values"
            assert "_FillValue" not in variable.attrs
            assert (variable.values == value).all()
    assert (tree["a/annotations"].values == -1).all()
    for name in ("log_likelihood", "centroids", "covariances", "seconds"):
        assert np.isnan(tree["a"][name].values).all()
    assert set(tree["a"].coords) == {"p", "m", "m_over_n", "replicate", "model", "field"}
    assert tree["a"]["log_likelihood"].attrs["units"] == "nats"
    assert tree["a"]["status"].attrs["flag_meanings"] == "pending done failed no_solution"
    assert all(variable.attrs.get("long_name") for variable in tree["a"].data_vars.values())
    assert tree["a"].attrs["checksum"] == REAL.checksum


def test_create_refuses_what_is_there(cube: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    with pytest.raises(InputError, match="already"):
        create(cube, ALL, draw_inputs, SPEC)
    (tmp_path / "link.zarr").symlink_to("nowhere")
    with pytest.raises(InputError, match="already"):
        create(tmp_path / "link.zarr", ALL, draw_inputs, SPEC)
    assert files(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_is_said_with_the_path(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="permission"):
        create(tmp_path / "x.zarr", [REAL], draw_inputs, SPEC)


GROWTHS: dict[str, dict[str, Any]] = {
    "replicates": {"replicates": 6},
    "everything": {"p": (0.9, 0.8, 1.0), "m": (6, 4, 15), "replicates": 4},
}


def grow_and_fill(cube: Path, plans: list[DatasetPlan]) -> xr.DataTree:
    """Grow, fill what is new, and check that all else is as it was."""
    before = result_files(cube)
    grow(cube, plans, draw_inputs, SPEC)
    assert result_files(cube) == before
    fill(cube, plans)
    assert before.items() <= result_files(cube).items()
    return read_whole(cube)


@pytest.mark.parametrize("changes", GROWTHS.values(), ids=GROWTHS)
def test_a_grown_cube_holds_what_one_made_so_at_once_does(tmp_path: Path, changes: dict[str, Any]) -> None:
    small, large = REAL, replace(REAL, **changes)
    cube = made(tmp_path / "grown.zarr", [small])
    fill(cube, [small])
    grown = grow_and_fill(cube, [large])
    at_once = made(tmp_path / "at_once.zarr", [large])
    fill(at_once, [large])
    expected = read_whole(at_once)
    for path in ("a", "a/unsupervised"):
        assert grown[path].to_dataset(inherit=False).identical(expected[path].to_dataset(inherit=False))


def test_other_mixtures_under_the_same_recipe_are_refused(tmp_path: Path) -> None:
    cube = made(tmp_path / "x.zarr", [MIXTURE_OF_CUBE])
    before = files(cube)
    larger = replace(MIXTURE_OF_CUBE, mixtures=6)

    def redrawn(plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
        features, labels = draw_inputs(plan)
        return np.nextafter(features, 9.0), labels

    with pytest.raises(InputError, match="other mixtures"):
        grow(cube, [larger], redrawn, SPEC)
    assert files(cube) == before


@pytest.mark.parametrize(
    ("first", "second"), [("posterior-full", "conditional-auto"), ("conditional-auto", "posterior-full")]
)
def test_a_model_that_chooses_its_shape_joins_one_that_does_not(
    tmp_path: Path, first: str, second: str
) -> None:
    one = make_plan("a", models=(first,))
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    (two,) = align(read_manifest(cube), [make_plan("a", models=(first, second))])
    grow(cube, [two], draw_inputs, SPEC)
    assert scan(cube).damaged == ()
    grown = grow_and_fill(cube, [two])
    assert scan(cube).damaged == ()
    node = grown["a"].to_dataset()
    assert (node["status"] == DONE).all()
    shapes = node["covariance_shape"]
    assert (shapes.sel(model="posterior-full") == -1).all()
    assert (shapes.sel(model="conditional-auto") >= 0).all()
    assert node["held_out"].sel(model="posterior-full").isnull().all()
    assert node["held_out"].sel(model="conditional-auto").notnull().all()
    assert node["candidate"].values.tolist() == ["spherical", "diagonal", "tied", "full"]
    at = two.models.index("conditional-auto")
    (cube / "a" / "held_out" / f"c.0.0.0.{at}.0").unlink()
    assert [damage.key for damage in scan(cube).damaged] == [f"a/held_out/c.0.0.0.{at}.0"]


def test_a_cube_with_annotations_held_out_grows(tmp_path: Path) -> None:
    second = "posterior-common"
    one = make_plan("a", models=("posterior-full",), held_out=True)
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    (two,) = align(
        read_manifest(cube), [make_plan("a", models=("posterior-full", second), p=(0.9, 0.8), held_out=True)]
    )
    grow(cube, [two], draw_inputs, SPEC)
    assert scan(cube).damaged == ()
    grown = grow_and_fill(cube, [two])
    assert scan(cube).damaged == ()
    node = grown["a"].to_dataset()
    assert (node["status"] == DONE).all()
    assert "covariance_shape" not in node
    assert node["candidate"].values.tolist() == ["spherical", "diagonal", "tied", "full", "common"]
    there = node["held_out"].notnull().all(["p", "m", "replicate"])
    assert there.sel(model="posterior-full").values.tolist() == [False, False, False, True, False]
    assert there.sel(model=second).values.tolist() == [False] * 4 + [True]
    (cube / "a" / "held_out_right" / "c.0.0.0.0.0").unlink()
    assert [damage.key for damage in scan(cube).damaged] == ["a/held_out_right/c.0.0.0.0.0"]


def test_baseline_and_grid_are_added_to_each_other(tmp_path: Path) -> None:
    grid_only = make_plan("a", baselines=())
    baseline_only = replace(BASELINE_OF_CUBE, name="b", has_labels=True)
    cube = made(tmp_path / "x.zarr", [grid_only, baseline_only])
    fill(cube, [grid_only, baseline_only])
    both = [make_plan("a"), make_plan("b")]
    grown = grow_and_fill(cube, both)
    for name in ("a", "b"):
        assert (grown[name]["status"] == DONE).all()
        assert (grown[f"{name}/unsupervised"]["status"] == DONE).all()
    assert grown["b"]["m_over_n"].dims == ("m",)


def test_a_second_baseline_is_added(tmp_path: Path) -> None:
    one = make_plan("a", mixtures=2)
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    before = read_whole(cube)["a/unsupervised"].to_dataset()
    (two,) = align(
        read_manifest(cube), [replace(one, baselines=("unsupervised-common", "unsupervised"), mixtures=4)]
    )
    assert two.baselines == ("unsupervised", "unsupervised-common")
    grown = grow_and_fill(cube, [two])
    assert np.array_equal(grown["a"]["X"], draw_inputs(two)[0])
    for baseline in two.baselines:
        assert (grown[f"a/{baseline}"]["status"] == DONE).all()
        assert grown[f"a/{baseline}"]["labels"].sizes["mixture"] == 4
    xr.testing.assert_identical(grown["a/unsupervised"].to_dataset().isel(mixture=slice(2)), before)
    assert (grown["a/unsupervised"]["covariances"] != grown["a/unsupervised-common"]["covariances"]).any()


def test_a_cube_of_wide_covariances_takes_in_narrower_ones(tmp_path: Path) -> None:
    one = make_plan(
        "a", models=("posterior-full",), baselines=("unsupervised", "unsupervised-full"), n_features=3
    )
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    before = result_files(cube)
    asked = replace(one, models=("likelihood", "posterior-full"), baselines=(*one.baselines, DIAGONAL))
    (two,) = align(read_manifest(cube), [asked])
    grown = grow_and_fill(cube, [two])
    assert {name: result_files(cube)[name] for name in before} == before
    found = open_cube(cube)["a/covariances"]
    assert found.dims[-3:] == ("cluster", "feature", "feature_2")
    for plan, cell in ((two, cell) for block in two.blocks() for cell in block.cells() if cell.p):
        stored = found.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
        np.testing.assert_array_equal(stored, draw_cell(plan, cell)["covariances"])
    for model, dims in (("unsupervised", 0), ("unsupervised-full", 2), (DIAGONAL, 1)):
        assert grown[f"a/{model}"]["covariances"].dims == ("cluster", "feature", "feature_2")[: 1 + dims]
    wider = replace(make_plan("b", models=("likelihood", "posterior-tied")))
    narrow = made(tmp_path / "y.zarr", [make_plan("b")])
    kept = files(narrow)
    with pytest.raises(InputError, match=r"'posterior-tied' with a matrix a cluster"):
        grow(narrow, [wider], draw_inputs, SPEC)
    assert files(narrow) == kept


def test_a_new_set_leaves_unavailable_ones_in_place(cube: Path) -> None:
    spec = make_spec("abcd")
    append_run(cube, RunRecord(run=1))
    grow(cube, [make_plan("d")], draw_inputs, spec)
    assert list(open_cube(cube).children) == ["a", "b", "c", "d"]
    assert list(read_manifest(cube).plans) == ["a", "b", "c", "d"]
    assert read_manifest(cube).spec == spec
    assert read_manifest(cube).runs == (RunRecord(run=1),)


def test_nothing_new_changes_nothing(cube: Path) -> None:
    append_run(cube, RunRecord(run=1))
    before = {name: (cube / name).stat().st_ino for name in files(cube)}
    grow(cube, ALL, draw_inputs, SPEC)
    assert {name: (cube / name).stat().st_ino for name in files(cube)} == before


def test_growth_that_is_none_is_refused_before_anything_is_written(cube: Path) -> None:
    before = files(cube)
    with pytest.raises(InputError, match="seed: found 8, expected 7"):
        grow(cube, ALL, draw_inputs, make_spec(seed=8))
    assert files(cube) == before


def test_more_annotations_than_at_creation_are_read_back(tmp_path: Path) -> None:
    small = make_plan("a", m=(4,))
    cube = made(tmp_path / "x.zarr", [small])
    fill(cube, [small])
    large = replace(small, m=(4, 11, 6))
    grow(cube, [large], draw_inputs, SPEC)
    fill(cube, [large])
    store = BlockStore(cube)
    for block in large.blocks():
        if not block.unsupervised:
            assert np.array_equal(store.read(block)["annotations"], draw_block(large, block)["annotations"])
    stored = read_whole(cube)["a"]["annotations"]
    assert stored.sizes["annotation"] == 11
    assert stored.encoding["chunks"][-2] == 4
    assert (stored.sel(m=6).isel(annotation=slice(6, None)) == -1).all()
