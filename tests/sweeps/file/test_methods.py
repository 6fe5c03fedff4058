"""A sweep file names shipped methods and files of a user, and every fault is named at once."""

from pathlib import Path

import pytest

from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.methods import checksum, entry_of, name_of, uses_links
from sweep_clustering.sweeps.file.reading import as_toml, load_sweep
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.words import SHIPPED

CODE = "def cluster(X, n_clusters, *links, **more):\n    return [0] * len(X)\n"

FILE = """
name = "a"
seed = 1
[grid]
datasets = ["iris"]
{annotations}
{models}
methods = [{methods}]
restarts = 5
"""
MODELS = 'models = ["unsupervised", "posterior"]'
ANNOTATIONS = 'p = [0.9]\nm = ["1N"]\nreplicates = 2'
MINE = '{name = "mine", call = "mine.py:cluster"}'


def write(folder: Path, methods: str, models: str = MODELS, annotations: str = ANNOTATIONS) -> SweepSpec:
    """Write a sweep file of some methods, beside `mine.py`, and read it."""
    (folder / "mine.py").write_text(CODE)
    (folder / "a.toml").write_text(FILE.format(methods=methods, models=models, annotations=annotations))
    return load_sweep(folder / "a.toml")


def fault(folder: Path, call: str) -> str:
    with pytest.raises(InputError) as raised:
        write(folder, f'{{name = "mine", call = "{call}"}}')
    (problem,) = raised.value.problems
    return problem.value


def test_a_shipped_method_by_its_name(tmp_path: Path) -> None:
    (method,) = write(tmp_path, '"cop-kmeans"').grid.methods
    assert method.name == "cop-kmeans"
    assert method.call == "cop-kmeans"
    assert method.uses == "links"
    assert method.path == ""
    assert method.restarts == min(SHIPPED["cop-kmeans"].restarts, 5)
    (method,) = write(tmp_path, '{call = "ward", options = {linkage = "average"}}').grid.methods
    assert method.name == "ward"
    assert method.options == {"linkage": "average"}
    assert method.code.startswith("scikit-learn ")


def test_a_shipped_method_without_its_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write(tmp_path, '"genie"').grid.methods[0].code.startswith("genieclust ")
    monkeypatch.setattr("sweep_clustering.sweeps.words.find_spec", lambda package: None)
    with pytest.raises(InputError) as raised:
        write(tmp_path, '"genie", {name = "even", call = "genie", options = {gini_threshold = 0.1}}, "ward"')
    first, second = raised.value.problems
    assert first.where.endswith("[grid] methods[0] call")
    assert second.where.endswith("[grid] methods[1] call")
    assert first.value == second.value == "no genieclust, which genie calls"
    assert first.hint == second.hint == "pip install 'sweep-clustering[suite]'"


def test_a_file_beside_the_sweep_is_known_by_its_checksum(tmp_path: Path) -> None:
    (method,) = write(tmp_path, MINE.replace("}", ", restarts = 3}")).grid.methods
    assert method.code == checksum(CODE.encode())
    assert method.path == str(tmp_path / "mine.py")
    assert method.source() == CODE
    assert method.uses == "links"
    assert method.restarts == 3
    assert method.time_limit == 600.0
    # the place of the file is no part of the science
    moved = method.model_copy(update={"path": "/elsewhere/mine.py", "call": "../elsewhere/mine.py:cluster"})
    assert moved.science == method.science == method.model_copy(update={"time_limit": 1.0}).science
    for change in ({"code": "sha256:0"}, {"options": {"a": 1}}, {"restarts": 2}, {"uses": "nothing"}):
        assert method.model_copy(update=change).science != method.science
    (tmp_path / "mine.py").write_text(CODE + "#")
    with pytest.raises(ValueError, match="sha256"):
        method.source()
    (tmp_path / "mine.py").unlink()
    with pytest.raises(ValueError, match="no such file"):
        method.source()


def test_a_path_of_a_file_may_have_blanks(tmp_path: Path) -> None:
    (tmp_path / "my methods").mkdir()
    file = tmp_path / "my methods" / "the first.py"
    file.write_text(CODE)
    for call in ("my methods/the first.py:cluster", f"{file}:cluster"):
        (method,) = write(tmp_path, f'{{name = "mine", call = "{call}"}}').grid.methods
        assert method.call == call
        assert method.path == str(file)
    assert fault(tmp_path, " mine.py:cluster") == "' mine.py:cluster'"
    assert fault(tmp_path, "mine.py :cluster") == "'mine.py :cluster'"


def test_a_name_that_a_file_does_not_have_gets_its_functions_and_classes(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import numpy\nclass Holder: pass\ndef first(X):\n    rows = X\n")
    with pytest.raises(InputError) as raised:
        write(tmp_path, '{name = "mine", call = "other.py:zzz"}')
    assert [problem.hint for problem in raised.value.problems] == ["it has Holder, first"]


def test_a_file_may_define_import_or_set_its_method(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from statistics import median, mean as middle\nlow = min\n")
    for name in ("median", "middle", "low"):
        (method,) = write(tmp_path, f'{{name = "mine", call = "other.py:{name}"}}').grid.methods
        assert method.call == f"other.py:{name}"
    assert fault(tmp_path, "other.py:mean").startswith("no 'mean' in ")


def test_a_package_without_a_version_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported from its sources, as a package that is installed to be edited."""
    package = tmp_path / "sources" / "edited_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError")  # it is not imported
    (package / "inner.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(package.parent))
    entry = '{name = "mine", call = "edited_package.inner:cluster"}'
    (method,) = write(tmp_path, entry).grid.methods
    assert method.code == checksum(CODE.encode())
    assert method.path == ""
    (package / "inner.py").write_text(CODE + "#")
    assert write(tmp_path, entry).grid.methods[0].code != method.code
    (package.parent / "bare_package").mkdir()  # a namespace has neither a version nor a file
    (method,) = write(tmp_path, entry.replace("edited_package.inner", "bare_package")).grid.methods
    assert method.code == ""
    for call, words in (
        ("edited_package.outer:f", "without 'outer'"),
        ("sklearn.clusters:KMeans", "without 'clusters'"),
        ("sklearn.cluster._kmeans.inner:KMeans", "without 'cluster._kmeans.inner'"),
        ("no_such_package:f", "no package 'no_such_package'"),
    ):
        assert fault(tmp_path, call).endswith(words)
    assert (
        write(tmp_path, '{name = "mine", call = "sklearn.cluster:Birch"}')
        .grid.methods[0]
        .code.startswith("scikit")
    )


def test_methods_are_baselines_or_beside_the_models_by_what_they_use(tmp_path: Path) -> None:
    grid = write(tmp_path, '"k-means", "pckmeans", ' + MINE.replace("}", ', uses = "nothing"}')).grid
    assert grid.supervised == ("posterior", "pckmeans")
    assert grid.baselines == ("unsupervised", "k-means", "mine")
    assert grid.n_cells == 2 * 2 + 3
    more = (
        ANNOTATIONS.replace("[0.9]", "[0.8, 0.9]").replace('"1N"', '"1N", 5, 7')
        + '\ndesign = ["active", "biased"]'
    )
    assert write(tmp_path, '"k-means", "pckmeans"', annotations=more).grid.n_cells == 2 * 3 * 2 * 2 * 2 + 2
    # a sweep of methods alone needs no models, and one without links no annotations
    assert write(tmp_path, '"pckmeans"', models="").grid.models == ()
    grid = write(tmp_path, '"k-means"', models="", annotations="").grid
    assert grid.supervised == ()
    assert grid.p == ()
    assert grid.m == ()


def test_the_resolved_file_gives_the_same_methods(tmp_path: Path) -> None:
    spec = write(
        tmp_path, '"k-means", {name = "mine", call = "mine.py:cluster", options = {a = {b = [1, "c"]}}}'
    )
    again = tmp_path / "elsewhere" / "again.toml"
    again.parent.mkdir()
    again.write_text(as_toml(spec))
    methods = load_sweep(again).grid.methods
    assert [(m.science, m.path) for m in methods] == [(m.science, m.path) for m in spec.grid.methods]


def test_a_file_is_text_as_python_reads_it_and_what_is_none_is_not_read(tmp_path: Path) -> None:
    for content, words in (("# " + "x" * 2**20, "1,048,578 bytes"), ("(" * 5000, "too many")):
        (tmp_path / "other.py").write_text(content)
        assert words in fault(tmp_path, "other.py:cluster")
    assert "a device" in fault(tmp_path, "/dev/zero:cluster")
    head = "# coding: cp1251\n"
    for content in (f"WORD = 'ж'\n{CODE}".encode("utf-8-sig"), f"{head}WORD = 'ж'\n{CODE}".encode("cp1251")):
        (tmp_path / "other.py").write_bytes(content)
        (method,) = write(tmp_path, MINE.replace("mine.py", "other.py")).grid.methods
        assert method.code == checksum(content)
        names: dict[str, object] = {}
        exec(compile(method.source() or "", "other.py", "exec"), names)
        assert names["WORD"] == "ж"
    for content in (b"\xff# \n", b"# coding: none\n"):
        (tmp_path / "other.py").write_bytes(content)
        assert "no text" in fault(tmp_path, "other.py:cluster")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cop-kmean", "did you mean 'cop-kmeans'?"),
        ("posterior", "it is a model: it belongs in models of [grid]"),
        ("zzz", 'one of your own is {name = "...", call = "file.py:function"}'),
    ],
)
def test_a_name_that_no_shipped_method_has_gets_a_hint(name: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        write(tmp_path, f'"{name}"')
    assert [problem.hint for problem in raised.value.problems] == [hint]


def test_a_method_of_a_command_line_is_an_entry_of_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"{tmp_path.resolve()}/mine.py:cluster"
    for text, entry in (
        ("k-means", {"call": "k-means"}),
        ("no colon", {"call": "no colon"}),
        ("mine.py:cluster", {"name": "mine", "call": path}),
        ("./mine.py:cluster", {"name": "mine", "call": path}),
        ("package.module:Holder.cluster", {"name": "cluster", "call": "package.module:Holder.cluster"}),
        ('{name = "own", call = "mine.py:cluster"}', {"name": "own", "call": path}),
        ('{call = "ward", restarts = 2}', {"call": "ward", "restarts": 2}),
        ("{call = 3}", {"call": 3}),
    ):
        assert entry_of(text) == entry
    with pytest.raises(InputError, match="a TOML error"):
        entry_of("{call")


def test_entries_have_names_and_use_links_before_they_are_checked() -> None:
    for entry, name, is_linked in (
        ("k-means", "k-means", False),
        ("cop-kmeans", "cop-kmeans", True),
        ({"call": "ward"}, "ward", False),
        ({"name": "mine", "call": "mine.py:cluster"}, "mine", True),
        ({"name": "mine", "call": "mine.py:cluster", "uses": "nothing"}, "mine", False),
        ({"name": "mine", "call": "k-means", "uses": "links"}, "mine", True),
        ({"call": 3}, 3, True),
    ):
        assert name_of(entry) == name
        assert uses_links(entry) == is_linked
    assert name_of(1) != name_of(True)


def test_a_method_may_have_all_restarts_and_no_citation(tmp_path: Path) -> None:
    spec = write(tmp_path, MINE.replace("}", ', restarts = 5, citation = "A. Author"}') + ', "k-means"')
    mine, shipped = spec.dump()["grid"]["methods"]
    assert mine["restarts"] == 5
    assert mine["citation"] == "A. Author"
    assert "citation" not in shipped
    with pytest.raises(InputError, match="at most the 5 restarts"):
        write(tmp_path, MINE.replace("}", ", restarts = 6}"))
    for value in ("nan", "[1, {a = -inf}]", "1979-05-27"):
        with pytest.raises(InputError, match="numbers, texts, true or false"):
            write(tmp_path, MINE.replace("}", f", options = {{a = 1, b = {value}}}}}"))
