"""Sweep files are read, kept and written back, and everything wrong is refused at once."""

import json
import re
import time
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from processes.sweeping import TINY

from sweep_clustering import sweeps
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.reading import MOST_BYTES, as_file, as_toml, load_sweep, sweep_schema
from sweep_clustering.sweeps.file.search import Search, search_from
from sweep_clustering.sweeps.file.spec import Builtin, Mixtures, Stop, SweepSpec, UserTable, load

# The text of a sweep file: what takes too much to read is refused at once.


def write(folder: Path, text: str, name: str = "sweep.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


DEEP = "tables or lists nested deeper than 20 levels"


def test_what_is_refused_at_once(tmp_path: Path) -> None:
    begin = time.process_time()
    for text, words in (
        ("name = " + "[" * 5000, DEEP),
        ("name = " + "[" * 21 + "]" * 21, DEEP),
        ("name = " + "{a=" * 100 + "1" + "}" * 100, DEEP),
        ("seed" + ".a" * 100_000 + " = 1", "line 1: found a key of more than 20 parts"),
        ("\n[a" + " . 'a'" * 100_000 + "]", "line 2: found a key of more than 20 parts"),
        ("seed = " + "9" * 9000, "a TOML error: Exceeds the limit (4300 digits)"),
        ("#" * (MOST_BYTES + 1), "1,048,577 bytes, expected at most 1,048,576"),
        ("=" * MOST_BYTES, "a TOML error"),
        ('"' * MOST_BYTES, "a TOML error"),
    ):
        path = write(tmp_path, text)
        with pytest.raises(InputError) as caught:
            load_sweep(path)
        assert words in str(caught.value)
        assert str(path) in str(caught.value)
    assert time.process_time() - begin < 10
    for name, words in (("none.toml", "no such file"), ("", "a folder")):
        with pytest.raises(InputError, match=words):
            load_sweep(tmp_path / name)


# Sweeps as files: the schema an editor checks with, and what a resolved sweep looks like.

FOLDER = Path(sweeps.__file__).parent
REFUSED = tomllib.loads(Path(__file__).with_name("problems.toml").read_text(encoding="utf-8"))
SCHEMA = Draft202012Validator(json.loads(sweep_schema()))
GOOD, EVERYTHING, ALONE = (REFUSED["base"][name] for name in ("good", "everything", "alone"))


def test_shipped_sweeps_keep_to_the_schema_and_repeat_the_published_evaluation() -> None:
    """There are 8,798 cells: 150 mixtures x (3 x 8 x 2 + 1), 8 data sets x (3 x 3 x 10 x 2 + 1)."""
    # `sweep schema > sweeps/sweep.schema.json` writes it again
    assert (FOLDER / "sweep.schema.json").read_text(encoding="utf-8") == sweep_schema()
    for path in sorted(FOLDER.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("#:schema ./sweep.schema.json\n")
        SCHEMA.validate(tomllib.loads(text))
        spec = load_sweep(path)
        assert spec.name == path.stem
        assert load("the cube", json.loads(json.dumps(spec.dump()))) == spec
    cells = 0
    for name in ("mixtures", "uci"):
        grid = load_sweep(FOLDER / f"{name}.toml").grid
        drawn = sum(entry.count if isinstance(entry, Mixtures) else 1 for entry in grid.datasets)
        cells += drawn * (len(grid.p) * len(grid.m) * grid.replicates * len(grid.supervised) + 1)
        assert grid.restarts == 50
    assert cells == 8_798
    for name in ("uci", "uci-unscaled", "mixtures", "vertebral"):
        assert 'method = "published"' in (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        assert load_sweep(FOLDER / f"{name}.toml").search == (Search(generations=10),)


def test_the_main_sweep_is_that_of_the_paper_and_a_further_one_has_ten_tables_and_a_stop() -> None:
    paper, unscaled, more = (
        load_sweep(FOLDER / f"{name}.toml") for name in ("uci", "uci-unscaled", "ten-tables")
    )
    names = [[entry.name for entry in spec.grid.datasets] for spec in (paper, unscaled, more)]
    assert len(names[0]) == 8
    assert names[1] == names[0]
    assert names[2] == [*names[0], "wdbc", "digits-389"]
    assert paper.stop is None
    assert more.stop == Stop(risk=0.05)
    assert more.grid.model_dump(exclude={"datasets"}) == paper.grid.model_dump(exclude={"datasets"})


def test_a_resolved_sweep_gives_the_same_sweep_and_the_schema_refuses_what_the_reader_refuses(
    tmp_path: Path,
) -> None:
    (tmp_path / "elsewhere").mkdir()
    for text in (EVERYTHING, ALONE):
        spec = load_sweep(write(tmp_path, text))
        again = load_sweep(write(tmp_path / "elsewhere", as_toml(spec)))
        assert again == spec
        assert json.dumps(again.dump()) == json.dumps(spec.dump())
        SCHEMA.validate(as_file(spec))
        assert as_file(spec)["search"]["population"] == spec.search[0].population
    assert SCHEMA.is_valid(tomllib.loads(EVERYTHING))
    for old, new in (
        ("seed = 7", "seeed = 7"), ('"iris"', '"irsi"'), ("[0.8, 1]", "[0.8, 1.1]"), ('"0.5N"', '"half"'),
        ("label_column = -1", "label_colum = -1"), ("patience = 4", "patience = 4.5"), ("r_min", "r_max"),
    ):  # fmt: skip
        assert old in EVERYTHING
        assert not SCHEMA.is_valid(tomllib.loads(EVERYTHING.replace(old, new, 1))), new


@pytest.mark.parametrize("case", REFUSED["case"], ids=lambda case: case["problems"][0][:60])
def test_every_problem_of_a_file_is_said(case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def cluster(X, n_clusters, *links, **more):\n    return []\n")
    (tmp_path / "bad.py").write_text("def cluster(:\n")
    text = REFUSED["base"].get(case.get("base"), "")
    for old, new in case.get("change", []):
        assert old in text
        text = text.replace(old, new, 1)
    text += case.get("add", "")
    (tmp_path / "tables").mkdir()
    for name in set(re.findall(r'(?:path|annotations) = "([^"/]*/?[^"/]+)"', text)) - {
        "none.csv",
        "gone.txt",
    }:
        (tmp_path / name).touch()
    with pytest.raises(InputError) as caught:
        load_sweep(write(tmp_path, text))
    problems = [str(problem).replace(str(tmp_path), "FOLDER") for problem in caught.value.problems]
    assert problems == case["problems"]


def test_a_good_file_is_read_whole(tmp_path: Path) -> None:
    spec = load_sweep(write(tmp_path, GOOD.replace('"iris"', '"iris", {name = "wine", scale = "none"}')))
    assert spec.name == "good"
    assert spec.seed == 7
    (tmp_path / "windows.toml").write_text((tmp_path / "sweep.toml").read_text(), "utf-8-sig", newline="\r\n")
    assert load_sweep(tmp_path / "windows.toml") == spec
    assert spec.data.unavailable == "error"
    iris, wine, mine, two, four = spec.grid.datasets
    assert iris == Builtin(name="iris", scale="standard")
    assert wine == Builtin(name="wine", scale="none")
    path = str(tmp_path / "tables/mine.csv")
    assert mine == UserTable(name="mine", path=path, label_column=-1, scale="minmax")
    sizes: dict[str, Any] = {"count": 5, "n_samples": 200, "n_features": 10, "variance": (0.5, 1.0)}
    assert two == Mixtures(name="mixtures_k2", n_clusters=2, center=(-1.0, 1.0), scale="standard", **sizes)
    assert four.name == "mixtures_k4"
    assert four.n_clusters == 4
    assert spec.grid.p == (0.8, 1.0)
    assert [count.resolve(145) for count in spec.grid.m] == [72, 75, 145]
    assert spec.grid.supervised == ("posterior",)
    assert spec.grid.baselines == ("unsupervised",)
    assert spec.search == (search_from(),)
    assert "annotations" not in spec.dump()["grid"]["datasets"][2]
    text = GOOD.replace("tables/mine.csv", "/own.csv").replace("label_column = -1", 'annotations = "a/../b"')
    spec = load_sweep(write(tmp_path, text))
    mine, entry = spec.grid.datasets[1], spec.dump()["grid"]["datasets"][1]
    assert mine.path == "/own.csv"
    assert mine.annotations == entry["annotations"] == str(tmp_path / "b")


def test_stop_designs_and_how_they_ask_are_kept_where_they_are_named(tmp_path: Path) -> None:
    dump = load_sweep(write(tmp_path, GOOD)).dump()
    assert not {"stop", "ask"} & dump.keys()
    assert "design" not in dump["grid"]
    assert json.loads(json.dumps(dump)) == dump
    assert dump["search"]["population"] == search_from().population
    assert dump["grid"]["m"] == ["0.5N", "75", "1N"]
    named = load_sweep(write(tmp_path, GOOD.replace("restarts = 3", 'restarts = 3\ndesign = ["uniform"]')))
    assert named.dump() == dump
    spec, stop = load_sweep(write(tmp_path, EVERYTHING)), Stop(rule="boender-rinnooy-kan", risk=0.1, r_min=2)
    assert Stop(**spec.dump()["stop"]) == spec.stop == stop
    more = 'restarts = 3\ndesign = ["uniform", "active"]\n[ask]\nbatch = "0.1N"'
    spec = load_sweep(write(tmp_path, GOOD.replace("restarts = 3", more)))
    assert spec.grid.design == ("uniform", "active")
    assert spec.ask.batch.resolve(150) == 15
    assert spec.ask.restarts == 3
    assert spec.ask.covariance == "auto"
    assert spec.dump()["ask"] == {"batch": "0.1N", "restarts": 3, "covariance": "auto"}
    assert spec.dump()["grid"]["design"] == ["uniform", "active"]


PUBLISHED = 'method = "published"\n'


def read(folder: Path, search: str, sweep: str = GOOD) -> SweepSpec:
    return load_sweep(write(folder, sweep + search))


def test_a_cube_keeps_values_whatever_named_them(tmp_path: Path) -> None:
    sizes = {"population": 3, "offspring": 2, "generations": 1, "min_cluster_size": 2, "variance_prior": 0.0}
    ways: dict[str, object] = {"crossover": "labels", "mutation": 0.2, "relocation": "components"}
    keys = 'crossover = "labels"\nmutation = 0.2\nrelocation = "components"\n'
    for text, more in (
        ("", {"patience": 4} | ways),
        ('method = "strong"\n', {"patience": 4} | ways),
        (PUBLISHED + keys, ways),
        (PUBLISHED + "patience = 4\n" + keys, {"patience": 4} | ways),
        ('relocation = "all"\n', {"patience": 4} | ways | {"relocation": "all"}),
        (PUBLISHED + "mutation = 0.2\n", {"mutation": 0.2}),
        # a cube of an older release, whose file lacks the keys, is then still one of the same sweep
        (PUBLISHED, {}),
        ('patience = 0\ncrossover = "centroids"\nmutation = 1\nrelocation = "annotated"\n', {}),
        (PUBLISHED + "held_out = false\n", {}),
        (PUBLISHED + "held_out = true\n", {"held_out": True}),
    ):
        expected: dict[str, Any] = {**sizes, **more}
        spec = read(tmp_path, text, TINY)
        (search,), dump = spec.search, spec.dump()["search"]
        assert json.dumps(dump) == json.dumps(expected)
        assert Search(**dump) == search == Search(**expected)
        assert asdict(search) == asdict(Search()) | expected
        assert load("cube", spec.dump()) == spec
        assert search.held_out == ("held_out" in search.summary()) == ("held_out" in expected)
        assert load_sweep(write(tmp_path, as_toml(spec), "again.toml")) == spec


# Several searches in one sweep file.

LIST = '[search]\nmethod = ["published", "strong"]\npopulation = 4\n'
TABLES = '[[search]]\nname = "wide"\npopulation = 30\n[[search]]\nname = "free"\nproportions = "free"\n'


def test_several_searches_are_kept_and_written_back(tmp_path: Path) -> None:
    spec = read(tmp_path, LIST)
    assert spec.search_names == ("published", "strong")
    for name in spec.search_names:
        assert spec.search_of(name).settings == search_from(method=name, population=4).settings
    assert spec.search_of(None) == spec.search[0]
    assert [search_dump["name"] for search_dump in spec.dump()["search"]] == ["published", "strong"]
    for search in (LIST, TABLES, TABLES.replace("[[search]]\n", "[[search]]\nheld_out = true\n")):
        spec = read(tmp_path, search)
        assert load("cube", json.loads(json.dumps(spec.dump()))) == spec
        assert load_sweep(write(tmp_path, as_toml(spec), "again.toml")) == spec
        assert spec.held_out == ("held_out" in search)
    # one search is no dimension, however it is written
    alone = read(tmp_path, f"[search]\n{PUBLISHED}")
    assert alone.dump()["search"] == Search().to_dict()
    for text in ('[search]\nmethod = ["published"]\n', f'[[search]]\n{PUBLISHED}name = "only"\n'):
        spec = read(tmp_path, text)
        assert spec == alone
        assert spec.search_of(None) == spec.search[0]


def test_what_no_sweep_has_written_is_refused(tmp_path: Path) -> None:
    dump = load_sweep(FOLDER / "quick.toml").dump()
    grid, search = dump["grid"], dump["search"]
    wrong = {"seed": -1, "colour": 1, "grid": grid | {"m": ["0N"], "datasets": ["iris"]}}
    wrong["search"] = search | {"generations": 0, "method": "published", "crossover": None}
    with pytest.raises(InputError) as caught:
        load("cube", dump | wrong | {"data": {"unavailable": ""}})
    assert sorted(f"{problem.where}: {problem.value}" for problem in caught.value.problems) == [
        "cube data unavailable: ''", "cube grid m[0]: '0N'", "cube grid.datasets[0]: 'iris'",
        "cube search crossover: None", "cube search generations: 0", "cube search: unknown key 'method'",
        "cube seed: -1", "cube: unknown key 'colour'",
    ]  # fmt: skip
    dump = read(tmp_path, LIST).dump()
    first, second = dump["search"]
    nameless = {key: value for key, value in first.items() if key != "name"}
    for searches, words in (
        ([first, second | {"name": "published"}], "again"),
        ([nameless, nameless], "without a name"),
        ([first], "one search named 'published'"),
        (first, "one search named 'published'"),
        ([first, first | {"name": "other"}], "with the settings of"),
        ([], "an empty list"),
    ):
        with pytest.raises(InputError, match=words):
            load("cube", dump | {"search": searches})


@pytest.mark.parametrize(("unavailable", "n_problems"), [("skip", 1), ("error", 2)])
def test_an_absent_table_that_may_be_absent_is_no_problem_of_the_file(
    tmp_path: Path, unavailable: str, n_problems: int
) -> None:
    text = f"""name = "texts"
seed = 1
[grid]
datasets = ["iris", {{ name = "texts", path = "nowhere.npz" }}]
p = [0.9]
m = ["1N"]
models = ["posteriorr"]
replicates = 1
restarts = 1
[data]
unavailable = "{unavailable}"
"""
    with pytest.raises(InputError) as error:
        load_sweep(write(tmp_path, text))
    problems = [str(problem) for problem in error.value.problems]
    assert len(problems) == n_problems
    assert any("nowhere.npz: no such file" in problem for problem in problems) == (unavailable == "error")
    assert len(error.value.rest) == n_problems - 1
