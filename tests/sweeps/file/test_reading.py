"""Sweep files: what is read, and everything that is refused, all of it at once."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import sweeps
from sweeps.errors import InputError
from sweeps.file.reading import (
    LONG_KEY,
    MOST_BYTES,
    MOST_NESTED,
    as_file,
    as_toml,
    load_sweep,
    read_toml,
    sweep_schema,
)
from sweeps.file.search import Search, asked
from sweeps.file.spec import Builtin, Mixtures, Stop, UserTable

# The text of a sweep file: what takes too much to read is refused at once.

DEEP = f"tables or lists nested deeper than {MOST_NESTED} levels"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("name = " + "[" * 5000, DEEP),
        ("name = " + "[" * 21 + "]" * 21, DEEP),
        ("name = " + "{a=" * 5000, DEEP),
        ("name = " + "{a=" * 100 + "1" + "}" * 100, DEEP),
        ("seed" + ".a" * 100_000 + " = 1", "line 1: found a key of more than 20 parts"),
        ("\n[a" + " . 'a'" * 100_000 + "]", "line 2: found a key of more than 20 parts"),
        ("seed = " + "9" * 9000, "a TOML error: Exceeds the limit (4300 digits)"),
        ("#" * (MOST_BYTES + 1), "1,048,577 bytes, expected at most 1,048,576"),
        ("a" * MOST_BYTES, "a TOML error"),
        ("=" * MOST_BYTES, "a TOML error"),
        ('"' * MOST_BYTES, "a TOML error"),
    ],
)
def test_what_is_refused_at_once(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    begin = time.perf_counter()
    with pytest.raises(InputError) as caught:
        load_sweep(path)
    assert found in str(caught.value)
    assert str(path) in str(caught.value)
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize("text", ["[search]\n[[search]]\n", "[[search]]\na = 1\n [ search ]\n"])
def test_searches_in_both_forms_are_explained(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"tables \[\[search\]\] are several: write one or the other"):
        read_toml(path)
    path.write_text("[[search]]\n= 1")
    with pytest.raises(InputError) as caught:
        read_toml(path)
    assert "write one or the other" not in str(caught.value)


def test_a_number_too_long_to_write_is_described(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("seed = 0x" + "f" * 9000)
    with pytest.raises(InputError, match="seed: found a number of thousands of digits, expected a whole"):
        load_sweep(path)


def test_lists_of_fractions_are_no_long_key(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("p = [" + ", ".join(f"0.{n}" for n in range(1, 500)) + "]\n[a.b.c]\nd.e = 1\n")
    assert len(read_toml(path)["p"]) == 499
    assert LONG_KEY.search("a" + ".a" * MOST_NESTED)


# Sweeps as files: the schema an editor checks with, and what a resolved sweep looks like.

FOLDER = Path(sweeps.__file__).parent
SHIPPED_OF_WRITTEN = sorted(FOLDER.glob("*.toml"))
SCHEMA = Draft202012Validator(json.loads(sweep_schema()))

EVERYTHING = """
name = "all"
seed = 7
[grid]
datasets = ["iris", {name = "mine", path = "tables/mine.csv", label_column = -1, scale = "minmax"},
            {name = "other", path = "other.npz", n_clusters = 3},
            {name = "mix", mixture = {n_clusters = [2, 4], count = 5, variance = [0.5, 1]}}]
p = [0.8, 1]
m = ["0.5N", 75, "N"]
replicates = 2
models = ["unsupervised", "posterior"]
restarts = 3
[search]
patience = 4
[data]
scale = "standard"
unavailable = "skip"
[stop]
risk = 0.1
r_min = 2
"""
BASELINE = 'name="x"\nseed=1\n[grid]\ndatasets=["iris"]\nmodels=["unsupervised"]\nrestarts=1\n'


def test_the_shipped_schema_is_the_printed_one() -> None:
    """`sweep schema > sweeps/sweep.schema.json` writes it again."""
    assert (FOLDER / "sweep.schema.json").read_text(encoding="utf-8") == sweep_schema()


@pytest.mark.parametrize("path", SHIPPED_OF_WRITTEN, ids=lambda path: path.name)
def test_shipped_sweeps_name_the_schema_and_keep_to_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#:schema ./sweep.schema.json\n")
    SCHEMA.validate(tomllib.loads(text))


@pytest.mark.parametrize("text", [EVERYTHING, BASELINE])
def test_a_resolved_sweep_is_a_file_that_gives_the_same_sweep(tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.toml").write_text(text, encoding="utf-8")
    spec = load_sweep(tmp_path / "sweep.toml")
    (tmp_path / "elsewhere").mkdir()
    again = tmp_path / "elsewhere" / "again.toml"
    again.write_text(as_toml(spec), encoding="utf-8")
    assert load_sweep(again) == spec
    assert json.dumps(load_sweep(again).dump()) == json.dumps(spec.dump())
    SCHEMA.validate(as_file(spec))
    assert as_file(spec)["search"]["population"] == spec.search[0].population


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed = 7", "seeed = 7"),
        ("seed = 7", "seed = -1"),
        ('"iris"', '"irsi"'),
        ('"posterior"]', '"posteriro"]'),
        ("[0.8, 1]", "[0.8, 1.1]"),
        ("[0.8, 1]", "[0.8, 0.8]"),
        ('"0.5N"', '"half"'),
        ("count = 5", "count = 0"),
        ("label_column = -1", "label_colum = -1"),
        ("patience = 4", "patience = 4.5"),
        ("risk = 0.1", "risk = 1"),
        ("r_min = 2", "r_max = 2"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(old: str, new: str) -> None:
    assert old in EVERYTHING
    assert SCHEMA.is_valid(tomllib.loads(EVERYTHING))
    assert not SCHEMA.is_valid(tomllib.loads(EVERYTHING.replace(old, new, 1)))


def test_every_key_has_a_description() -> None:
    schema = json.loads(sweep_schema())
    known = schema["$defs"]["KnownEntry"]["anyOf"][1]
    tables: list[dict[str, Any]] = [schema, *schema["$defs"].values(), known]
    keys = {
        f"{table['title']} {key}": said
        for table in tables
        for key, said in table.get("properties", {}).items()
    }
    assert len(keys) > 30
    assert [key for key, said in keys.items() if not said.get("description")] == []


GOOD = """
name = "good"
seed = 7
[grid]
datasets = ["iris", {name = "mine", path = "tables/mine.csv", label_column = -1, scale = "minmax"},
            {mixture = {n_clusters = [2, 4], count = 5, variance = [0.5, 1]}}]
p = [0.8, 1]
m = ["0.5N", 75, "N"]
replicates = 2
models = ["unsupervised", "posterior"]
restarts = 3
[data]
scale = "standard"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_sweep(write(folder, text))
    return [str(problem) for problem in caught.value.problems]


def test_a_good_file_is_read_whole(tmp_path: Path) -> None:
    spec = load_sweep(write(tmp_path, GOOD))
    assert (spec.name, spec.seed, spec.unavailable) == ("good", 7, "error")
    iris, mine, two, four = spec.grid.datasets
    assert iris == Builtin(name="iris", scale="standard")
    assert mine == UserTable(
        name="mine", path=str(tmp_path / "tables/mine.csv"), label_column=-1, scale="minmax"
    )
    assert isinstance(two, Mixtures)
    assert isinstance(four, Mixtures)
    assert (two.name, two.n_clusters, two.count, two.variance, two.n_samples) == (
        "mixtures_k2", 2, 5, (0.5, 1.0), 200,
    )  # fmt: skip
    assert (four.name, four.n_clusters) == ("mixtures_k4", 4)
    assert spec.grid.p == (0.8, 1.0)
    assert [count.resolve(145) for count in spec.grid.m] == [72, 75, 145]
    assert spec.grid.supervised == ("posterior",)
    assert spec.grid.baselines == ("unsupervised",)
    assert spec.search == (asked(),)


def test_a_share_of_samples_is_exact_in_its_decimal_digits(tmp_path: Path) -> None:
    # 0.29 * 100 is 28.999999999999996 in binary floating point.
    spec = load_sweep(write(tmp_path, GOOD.replace('"0.5N"', '"0.29N"')))
    assert spec.grid.m[0].resolve(100) == 29


def test_an_adaptive_stop_is_read_and_kept(tmp_path: Path) -> None:
    assert load_sweep(write(tmp_path, GOOD)).stop is None
    assert "stop" not in load_sweep(write(tmp_path, GOOD)).dump()
    spec = load_sweep(write(tmp_path, GOOD + "[stop]\nrisk = 0.1\nr_min = 2\n"))
    assert spec.stop == Stop(rule="boender-rinnooy-kan", risk=0.1, r_min=2, step=5)
    assert Stop(**spec.dump()["stop"]) == spec.stop


def test_annotations_are_held_out_only_where_a_model_has_some(tmp_path: Path) -> None:
    text = """name = "alone"
seed = 1
[grid]
datasets = ["iris"]
models = ["unsupervised", "unsupervised-full"]
restarts = 2
[search]
held_out = true
generations = 0
"""
    found = problems_of(tmp_path, text)
    assert len(found) == 2
    where = "sweep.toml [search] held_out: found true without a model that uses annotations, expected false"
    assert sum(problem.startswith(where) for problem in found) == 1
    needed = 'restarts = 2\np = [0.9]\nm = ["1N"]\nreplicates = 1'
    supervised = text.replace("generations = 0", "").replace("restarts = 2", needed)
    supervised = supervised.replace("unsupervised-full", "posterior")
    assert load_sweep(write(tmp_path, supervised)).held_out
    (misspelt,) = problems_of(tmp_path, supervised.replace("posterior", "posteriro"))
    assert "did you mean 'posterior'?" in misspelt


def test_the_resolved_file_survives_json(tmp_path: Path) -> None:
    resolved = load_sweep(write(tmp_path, GOOD)).dump()
    assert json.loads(json.dumps(resolved)) == resolved
    assert resolved["search"]["population"] == asked().population
    assert resolved["grid"]["m"] == ["0.5N", "75", "1N"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seed = 7", "seeed = 7", ["unknown key 'seeed'", "did you mean 'seed'?", "seed: found nothing"]),
        ("replicates = 2", "replicate = 2", ["unknown key 'replicate'", "did you mean 'replicates'?"]),
        ("[data]", "[dta]", ["unknown key 'dta'", "did you mean 'data'?"]),
        ("[data]", "[stop]\nr_min = 2\n[data]", ["[stop] risk: found nothing"]),
        ("[data]", "[stop]\nrisk = 1\nr_min = 2\n[data]", ["risk: found 1, expected a probability between"]),
        ("[data]", "[stop]\nrisk = 0\nr_min = 1\n[data]", ["risk: found 0", "r_min: found 1, expected"]),
        ("[data]", "[stop]\nrisk = 0.1\nr_min = 3\n[data]", ["r_min: found 3 of at most 3 restarts"]),
        ("[data]", "[stop]\nrisk = 0.1\nr_min = 2\nstep = 0\n[data]", ["[stop] step: found 0"]),
        ("[data]", '[stop]\nrisk = 0.1\nrule = "good"\n[data]', ["rule: found 'good'", "good-turing"]),
        ("[data]", "[stop]\nriks = 0.1\n[data]", ["unknown key 'riks'", "did you mean 'risk'?"]),
        ("[data]", "[search]\nheld_out = 1\n[data]", ["[search] held_out: found 1, expected true or false"]),
        ("[data]", "[search]\nheldout = true\n[data]", ["unknown key 'heldout'", "did you mean 'held_out'?"]),
        ("[grid]", "stop = 0.1\n[grid]", ["[stop]: found 0.1, expected a table"]),
        ("seed = 7", 'seed = "7"', ["seed: found '7', expected a whole number"]),
        ("seed = 7", "seed = true", ["seed: found true, expected a whole number"]),
        ("seed = 7", "seed = -1", ["seed: found -1, expected a whole number"]),
        ("[0.8, 1]", "[0.8, 1.1]", ["p[1]: found 1.1, expected an accuracy in (0, 1]"]),
        ("[0.8, 1]", "[0, 1]", ["p[0]: found 0, expected an accuracy in (0, 1]"]),
        ("[0.8, 1]", "[nan, inf]", ["p[0]: found nan", "p[1]: found inf"]),
        ("[0.8, 1]", '["0.8"]', ["p[0]: found '0.8', expected a finite number"]),
        ("[0.8, 1]", "[0.8, 0.8]", ["p[1]: found 0.8 again"]),
        ("[0.8, 1]", "[0.8, 0.8000000001]", ["p[1]: found 0.8000000001 again"]),
        ("[0.8, 1]", "0.8", ["p: found 0.8, expected a list"]),
        ("[0.8, 1]", "[]", ["p: found an empty list"]),
        ('["0.5N", 75, "N"]', "[0]", ["m[0]: found 0, expected a whole number of at least 1"]),
        ('["0.5N", 75, "N"]', "[-5]", ["m[0]: found -5"]),
        ('["0.5N", 75, "N"]', "[1.5]", ["m[0]: found 1.5"]),
        ('["0.5N", 75, "N"]', '["0N", "-1N", "N2"]', ["m[0]: found '0N'", "m[1]: found '-1N'", "m[2]"]),
        ('["0.5N", 75, "N"]', "[75, 75]", ["m[1]: found 75 again"]),
        ('["0.5N", 75, "N"]', '["N", "1N"]', ["m[1]: found '1N' again"]),
        ('["0.5N", 75, "N"]', "[]", ["m: found an empty list"]),
        ("replicates = 2", "replicates = 0", ["replicates: found 0"]),
        ("restarts = 3", "restarts = 2.0", ["restarts: found 2.0"]),
        ('"posterior"]', '"posteriro"]', ["models[1]: found 'posteriro'", "did you mean 'posterior'?"]),
        ('"posterior"]', '["posterior"]]', ["models[1]: found ['posterior'], expected one of"]),
        ('"posterior"]', '"posterior-comon"]', ["did you mean 'posterior-common'?"]),
        ('["unsupervised", "posterior"]', "[]", ["models: found an empty list"]),
        ('"iris"', '"irsi"', ["found 'irsi'", "did you mean 'iris'?"]),
        ('"iris"', '"data/iris.csv"', ["found 'data/iris.csv'", "{name = "]),
        ('"iris"', "5", ["datasets[0]: found 5, expected a table"]),
        ('"iris"', '"iris", {name = "iris"}', ["the name 'iris' again"]),
        ('name = "mine"', 'name = "a/b"', ["name: found 'a/b'", "a path or a blank"]),
        ('name = "good"', 'name = "../good"', ["name: found '../good'"]),
        ('name = "good"', 'name = "-good"', ["name: found '-good'"]),
        ('name = "good"', 'name = ".."', ["name: found '..'"]),
        ('scale = "minmax"', 'scale = "minimax"', ["scale: found 'minimax'", "did you mean 'minmax'?"]),
        ("label_column = -1", "label_colum = -1", ["unknown key 'label_colum'", "'label_column'?"]),
        ("count = 5", "count = 0", ["count: found 0"]),
        ("n_clusters = [2, 4]", "n_clusters = [2, 2]", ["n_clusters[1]: found 2 again"]),
        ("variance = [0.5, 1]", "variance = [1, 0.5]", ["variance: found [1, 0.5]"]),
        ("variance = [0.5, 1]", "variance = [-1, 0.5]", ["variance: found [-1, 0.5]"]),
        ('datasets = ["iris"', 'datasets = ["iris"]\nxdatasets = ["iris"', ["unknown key 'xdatasets'"]),
    ],
)  # fmt: skip
def test_what_is_refused_and_why(tmp_path: Path, old: str, new: str, said: list[str]) -> None:
    assert old in GOOD
    text = "\n".join(problems_of(tmp_path, GOOD.replace(old, new, 1)))
    for words in said:
        assert words in text
    assert "sweep.toml" in text


@pytest.mark.parametrize("key", ["name", "seed", "datasets", "p", "m", "replicates", "models", "restarts"])
def test_each_required_key_is_missed(tmp_path: Path, key: str) -> None:
    lines = GOOD.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{key} ="))
    stop = start + (2 if key == "datasets" else 1)
    text = "\n".join(problems_of(tmp_path, "\n".join(lines[:start] + lines[stop:])))
    assert f"{key}: found nothing" in text


@pytest.mark.parametrize("model", ["unsupervised-full", "posterior-tied", "posterior-auto"])
@pytest.mark.parametrize("prior", ["0", "0.0"])
def test_a_shape_whose_likelihood_is_unbounded_needs_a_prior(tmp_path: Path, model: str, prior: str) -> None:
    text = GOOD.replace('"posterior"]', f'"posterior", "{model}", "posterior-diagonal"]')
    assert load_sweep(write(tmp_path, text + "[search]\ncovariance_prior = 0.5\n"))
    (said,) = problems_of(tmp_path, text + f"[search]\ncovariance_prior = {prior}\n")
    expected = f"covariance_prior: found {prior} with {model!r}, expected a number above 0"
    assert expected in said
    assert load_sweep(
        write(tmp_path, text.replace(f'"{model}", ', "") + "[search]\ncovariance_prior = 0.0\n")
    )
    # with everything else
    assert (
        len(problems_of(tmp_path, text.replace("seed = 7", "seed = -7") + "[search]\ncovariance_prior = 0\n"))
        == 2
    )


def test_no_model_chooses_a_shape_without_annotations(tmp_path: Path) -> None:
    (said,) = problems_of(tmp_path, GOOD.replace('"posterior"]', '"posterior", "unsupervised-auto"]'))
    assert "found 'unsupervised-auto', expected one of " in said
    assert load_sweep(write(tmp_path, GOOD.replace('"posterior"]', '"posterior", "likelihood-auto"]')))


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    text = GOOD.replace("seed = 7", "seed = -7").replace("[0.8, 1]", "[2, 3]").replace('"iris"', '"iris2"')
    assert len(problems_of(tmp_path, text + '\nscal = "x"\n[search]\ngenerations = 0\npopulation = 1\n')) == 7


def test_contradictions_between_entries_are_reported_with_all_other_problems(tmp_path: Path) -> None:
    text = """
name = "a/b"
[grid]
datasets = ["iris", {name = "iris", path = ""}, "irsi", {mixture = {n_clusters = [2], count = 0}},
            {name = "mixtures_k2", path = "x", colour = 1}]
p = [2, 0.8, 0.8]
m = [0]
replicates = 0
models = ["posteriro", "likelihood"]
restarts = 5
[search]
generations = 0
[data]
unavailable = "skpi"
[stop]
risk = 2
r_min = 5
"""
    assert [problem.split(", expected")[0] for problem in problems_of(tmp_path, text)] == [
        "sweep.toml name: found 'a/b'",
        "sweep.toml seed: found nothing",
        "sweep.toml [grid] datasets[1] name: found the name 'iris' again",
        "sweep.toml [grid] datasets[1] path: found ''",
        "sweep.toml [grid] datasets[2] name: found 'irsi'",
        "sweep.toml [grid] datasets[3].mixture count: found 0",
        "sweep.toml [grid] datasets[4] name: found the name 'mixtures_k2' again",
        "sweep.toml [grid] datasets[4]: found unknown key 'colour'",
        "sweep.toml [grid] p[0]: found 2",
        "sweep.toml [grid] p[2]: found 0.8 again",
        "sweep.toml [grid] m[0]: found 0",
        "sweep.toml [grid] replicates: found 0",
        "sweep.toml [grid] models[0]: found 'posteriro'",
        "sweep.toml [search] generations: found 0",
        "sweep.toml [data] unavailable: found 'skpi'",
        "sweep.toml [stop] risk: found 2",
        "sweep.toml [stop] r_min: found 5 of at most 5 restarts",
    ]


@pytest.mark.parametrize(("model", "missed"), [("posteriro", 3), ("unsupervisd", 0), ("x", 0)])
def test_what_a_misspelt_model_needs_is_missed_at_once(tmp_path: Path, model: str, missed: int) -> None:
    text = f'name="x"\nseed=1\n[grid]\ndatasets=["iris"]\nmodels=["{model}"]\nrestarts=1\n'
    found = problems_of(tmp_path, text)
    assert sum("found nothing, expected this key" in problem for problem in found) == missed
    assert sum("models[0]: found" in problem for problem in found) == 1


def test_the_default_of_r_min_can_be_too_many_as_well(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, GOOD + "[stop]\nrisk = 0.1\n")
    assert problem == (
        "sweep.toml [stop] r_min: found 10 of at most 3 restarts, expected fewer than restarts of [grid]"
        " (no cell could stop early)"
    )


def test_without_a_supervised_model_the_grid_of_annotations_is_not_needed(tmp_path: Path) -> None:
    text = '\nname="x"\nseed=1\n[grid]\ndatasets=["iris"]\nmodels=["unsupervised"]\nrestarts=1\n'
    spec = load_sweep(write(tmp_path, text))
    assert (spec.grid.p, spec.grid.m, spec.grid.replicates) == ((), (), 1)


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.toml"):
        load_sweep(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_sweep(tmp_path / "none.toml")
    with pytest.raises(InputError, match="directory"):
        load_sweep(tmp_path)


SHIPPED = sorted(Path(sweeps.__file__).parent.glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_sweeps_are_good_and_named_as_their_file(path: Path) -> None:
    assert load_sweep(path).name == path.stem


def test_the_shipped_evaluation_is_the_published_one() -> None:
    """8,798 cells: 150 mixtures x (3 x 8 x 2 + 1) and 8 data sets x (3 x 3 x 10 x 2 + 1)."""
    cells = 0
    for name in ("mixtures", "uci"):
        grid = load_sweep(Path(sweeps.__file__).parent / f"{name}.toml").grid
        drawn = sum(entry.count if isinstance(entry, Mixtures) else 1 for entry in grid.datasets)
        cells += drawn * (len(grid.p) * len(grid.m) * grid.replicates * len(grid.supervised) + 1)
        assert grid.restarts == 50
    assert cells == 8_798


def test_the_scaled_and_the_unscaled_evaluation_differ_in_name_and_scale_alone() -> None:
    folder = Path(sweeps.__file__).parent
    scaled = tomllib.loads((folder / "uci.toml").read_text(encoding="utf-8"))
    unscaled = tomllib.loads((folder / "uci-unscaled.toml").read_text(encoding="utf-8"))
    scaled["name"], scaled["data"]["scale"] = "uci-unscaled", "none"
    assert scaled == unscaled


@pytest.mark.parametrize("name", ["uci", "uci-unscaled", "mixtures", "vertebral"])
def test_sweeps_that_repeat_the_paper_name_its_search(name: str) -> None:
    path = Path(sweeps.__file__).parent / f"{name}.toml"
    assert tomllib.loads(path.read_text(encoding="utf-8"))["search"]["method"] == "published"
    assert load_sweep(path).search == (Search(generations=10),)


DESIGNED = GOOD.replace("restarts = 3", 'restarts = 3\ndesign = ["uniform", "active"]\n[ask]\nbatch = "0.1N"')


def test_designs_and_how_they_ask_are_read_and_kept(tmp_path: Path) -> None:
    spec = load_sweep(write(tmp_path, DESIGNED))
    assert spec.grid.design == ("uniform", "active")
    assert (spec.ask.batch.resolve(150), spec.ask.restarts, spec.ask.covariance) == (15, 3, "auto")
    assert spec.dump()["ask"] == {"batch": "0.1N", "restarts": 3, "covariance": "auto"}
    assert spec.dump()["grid"]["design"] == ["uniform", "active"]


def test_a_file_that_names_no_design_keeps_nothing_of_it(tmp_path: Path) -> None:
    dump = load_sweep(write(tmp_path, GOOD)).dump()
    assert "ask" not in dump
    assert "design" not in dump["grid"]
    named = load_sweep(write(tmp_path, GOOD.replace("restarts = 3", 'restarts = 3\ndesign = ["uniform"]')))
    assert named.dump() == dump


def test_everything_wrong_with_designs_is_said_at_once(tmp_path: Path) -> None:
    text = DESIGNED.replace('"active"]', '"activ", "uniform"]').replace('"0.1N"', "0\ncovariance = 'ful'")
    found = "\n".join(problems_of(tmp_path, text))
    for words in (
        "[grid] design[1]: found 'activ', expected one of uniform, biased, active",
        "(did you mean 'active'?)",
        "[grid] design[2]: found 'uniform' again",
        "[ask] batch: found 0",
        "[ask] covariance: found 'ful'",
    ):
        assert words in found


def test_a_table_on_asking_needs_a_design_that_asks(tmp_path: Path) -> None:
    for designs in ('design = ["biased"]', ""):
        (problem,) = problems_of(tmp_path, DESIGNED.replace('design = ["uniform", "active"]', designs))
        assert "[ask]: found a table without a design that asks, expected one of active" in problem
