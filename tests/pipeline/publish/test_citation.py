"""A cube names its citations, and bundles describe themselves to people and programs."""

import contextlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest
import xarray as xr
from click.testing import Result
from processes.commandline import refuse, succeed, sweep

from sweep_clustering.pipeline.check import published_hash
from sweep_clustering.pipeline.publish.bundle import write_bundle
from sweep_clustering.pipeline.publish.description import bibliography
from sweep_clustering.pipeline.report.write import write_export, write_report
from sweep_clustering.pipeline.scoring.raw import COLUMNS, OF_DATA, RAW, scored_cells, stored_scores
from sweep_clustering.storage.archive import Archive
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.files import Place
from sweep_clustering.sweeps.data.builtin import REGISTRY
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.words import SHIPPED

pytestmark = pytest.mark.usefixtures("without_sections_module")

METHOD = """
import numpy as np


def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    return np.arange(len(X)) % n_clusters
"""
SWEEP = r"""name = "cited"
seed = 5
[grid]
datasets = [
    "iris",
    {name = "secret", path = "secret.csv", label_column = "kind"},
    {name = "open_data", path = "open.csv", label_column = "kind", licence = "CC0-1.0", citation = CITATION},
]
p = [0.9]
m = [10]
models = ["unsupervised", "posterior"]
methods = [
    "k-means",
    "pckmeans",
    {name = "mine", call = "own.py:cluster", citation = "Own, A. (2026). Round robin. https://doi.org/10.5555/round"},
    {name = "nobody", call = "own.py:cluster", uses = "nothing"},
]
replicates = 1
restarts = 2
[search]
generations = 3
""".replace("CITATION", r"'Doe & Roe (2020), 50 % of \{all} data, doi:10.1234/ab_c.d.'")


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cited")
    rows = [f"{kind}{number / 10},{kind},{kind}" for number in range(20) for kind in (1, 2)]
    for name in ("secret.csv", "open.csv"):
        (folder / name).write_text("\n".join(["a,b,kind", *rows]))
    (folder / "own.py").write_text(METHOD)
    (folder / "cited.toml").write_text(SWEEP)
    succeed("submit", folder / "cited.toml", "--results", folder, "--workers", "0")
    return folder / "cited.zarr"


def cells(place: Place) -> pd.DataFrame:
    return scored_cells(open_cube(place), read_manifest(place).plans, [place])


@pytest.fixture(scope="module")
def bundle(cube: Path) -> Path:
    return write_bundle(cube, cube.with_name("cited.zip"))


def parsed(text: str) -> dict[str, dict[str, str]]:
    """Return the entries of BibTeX by key; all blocks of the text must be entries."""
    bibtexparser = pytest.importorskip("bibtexparser")
    library = bibtexparser.parse_string(text)
    assert library.failed_blocks == []
    assert len(library.blocks) == len(library.entries)
    return {
        entry.key: {"type": entry.entry_type} | {field.key: field.value for field in entry.fields}
        for entry in library.entries
    }


def test_everything_that_was_used_is_cited_with_licence_home_and_doi(cube: Path, bundle: Path) -> None:
    printed = succeed("cite", cube)
    assert sweep("cite", bundle).stdout == printed.stdout
    assert Archive(bundle).read("CITATION.bib").decode() == printed.stdout
    entries = parsed(printed.stdout)
    assert list(entries) == [
        *("sweep", "source-paper", "data-iris", "data-secret", "data-open_data"),
        *("method-k-means", "method-pckmeans", "method-mine", "method-nobody", "method-sklearn"),
    ]
    assert entries["source-paper"]["doi"] == "10.48550/arXiv.2104.02146"
    iris = entries["data-iris"]
    assert iris["doi"] == "10.24432/C56C76"
    assert iris["url"] == "https://archive.ics.uci.edu/dataset/53/iris"
    assert iris["note"] == "used as iris; licence CC-BY-4.0"
    open_data = entries["data-open_data"]
    assert open_data["doi"] == "10.1234/ab_c.d"
    assert open_data["title"] == r"{open\_data}"
    assert open_data["note"] == (
        r"Doe \& Roe (2020), 50 \% of \textbackslash{}\{all\} data, doi:10.1234/ab\_c.d.; used as open\_data;"
        " licence CC0-1.0"
    )
    assert entries["method-mine"]["doi"] == "10.5555/round"
    assert entries["method-k-means"]["note"] == "used as k-means; licence BSD-3-Clause"
    assert entries["method-sklearn"]["type"] == "article"


def test_every_known_data_set_and_method_has_a_source() -> None:
    for name, entry in REGISTRY.items():
        assert {"author", "title", "year", "doi"} <= entry.reference.keys(), name
        assert bool(entry.licence) != name.startswith("suite/")
    for name, method in SHIPPED.items():
        assert {"author", "title", "year"} <= method.reference.keys(), name


def test_data_without_a_licence_are_named_and_left_out(cube: Path, bundle: Path) -> None:
    tree = open_cube(bundle)
    assert "X" not in tree["secret"]
    assert "labels_true" not in tree["secret"]
    assert tree["secret"]["labels"].shape == open_cube(cube)["secret"]["labels"].shape
    assert {"X", "labels_true"} <= {*tree["open_data"].data_vars} & {*tree["iris"].data_vars}
    archive = zipfile.ZipFile(bundle)
    assert not any(b"secret/X" in archive.read(name) for name in archive.namelist())
    assert [plan.name for plan in read_manifest(bundle).plans.values() if plan.left_out] == ["secret"]
    text = Archive(bundle).read("README.md").decode()
    assert "The features and the classes of secret are left out, because no licence" in text
    assert "| secret | not known | its author |" in text
    scored = {
        raw.cell.dataset for raw in present(stored_scores(bundle)).cells if raw.scores["adjusted_rand"] > -2
    }
    assert scored == {"iris", "secret", "open_data"}
    problems = refuse("report", bundle, "--cell", "secret/p=0.9/m=10/replicate=0/posterior")
    assert "expected a cell of data that were not left out" in problems


@pytest.mark.slow
def test_scores_of_data_that_are_left_out_go_with_the_cells(
    cube: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    merged = succeed("merge", bundle, "--out", "merged.zarr")
    assert "\nscores of secret are those of the bundles, because data were left out" in merged.stdout
    succeed("bundle", "merged.zarr")
    whole = cells(cube)
    assert whole["relative_nmi"].notna().sum() > 1
    for place in (bundle, Path("merged.zarr"), Path("merged.zip")):
        pd.testing.assert_frame_equal(cells(place), whole)
    pd.testing.assert_frame_equal(write_report(bundle, Path("page")).cells, whole)
    assert write_bundle(bundle, Path("twice.zip")).read_bytes() == bundle.read_bytes()
    refused = sweep("merge", bundle, "--out", "merged.zarr")
    assert refused.stderr.count("something there already") == 2


@pytest.mark.slow
def test_scores_beside_a_merged_cube_are_verified_with_its_cells(
    cube: Path,
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    merged, path = tmp_path / "merged.zarr", tmp_path / "merged.scores.csv"
    monkeypatch.chdir(tmp_path)
    assert sweep("merge", bundle, "--out", merged).exit_code == 0
    monkeypatch.chdir(bundle.parent)  # the files of the methods and of the data are here

    def verified() -> Result:
        return sweep("verify", merged, "--sample", 99, "--run-methods")

    assert "18 of 18 cells were computed again, and all are equal." in verified().stdout
    digest, honest = published_hash(merged), path.read_text()
    line = next(line for line in honest.splitlines() if line.startswith("secret") and "posterior" in line)
    values = line.split(",")
    at = COLUMNS.index("adjusted_rand")
    score, values[at] = values[at], "0.999"
    path.write_text(honest.replace(line, ",".join(values)))
    result = verified()
    assert result.exit_code == 1
    assert "18 of 18 cells were computed again: 17 equal, 1 different." in result.stdout
    name = "secret/p=0.9/m=10/replicate=0/posterior"
    difference = f"adjusted_rand 0.999 in merged.scores.csv, {score} here"
    assert f"different: {name}: {difference}" in result.stdout
    # the scores draw the cells, too, so that their author cannot know which
    assert published_hash(merged) != digest
    # a cube that has grown since has cells without scores
    path.write_text(honest.replace(f"{line}\n", ""))
    assert verified().exit_code == 0
    for name in OF_DATA:
        values[COLUMNS.index(name)] = ""
    path.write_text(honest.replace(line, ",".join(values)))
    assert verified().exit_code == 0
    assert caplog.messages == []
    assert cells(merged)["nmi"].notna().sum() == 17
    assert [message.partition(":")[0] for message in caplog.messages] == ["1 cell of secret"]


@pytest.mark.slow
def test_scores_of_data_that_are_left_out_are_in_grids_and_are_read_at_an_address(
    cube: Path,
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (cube, bundle):
        write_export(place, Path(place.suffix[1:]), "netcdf")
    names = sorted(path.name for path in Path("zarr").iterdir())
    assert names == sorted(path.name for path in Path("zip").iterdir())
    for name in names:
        xr.testing.assert_identical(*(xr.load_dataset(Path(folder, name)) for folder in ("zarr", "zip")))
    assert sweep("merge", bundle, "--out", "merged.zarr").exit_code == 0
    for place in (cube, Path("merged.zarr")):
        assert sweep("export", place, "--scores").exit_code == 0
    trees = [
        xr.open_datatree(path, engine="zarr")
        for path in (cube.with_suffix(".scores.zarr"), "merged.scores.zarr")
    ]
    for node in trees[0].subtree:
        xr.testing.assert_equal(node.to_dataset().compute(), trees[1][node.path].to_dataset().compute())
    storage = fsspec.filesystem("memory")
    storage.put("merged.zarr", "/people/merged.zarr", recursive=True)
    storage.put("merged.scores.csv", "/people/merged.scores.csv")
    address = "memory://people/merged.zarr"
    pd.testing.assert_frame_equal(cells(address), cells(cube))
    assert caplog.messages == []
    storage.rm("/people/merged.scores.csv")
    assert cells(address)["nmi"].notna().sum() == 12
    assert caplog.messages == [
        "6 cells of secret: no scores that need data, which are left out, and none are stored in"
        " memory://people/merged.scores.csv; sweep merge takes the data in if they are on this machine"
    ]


def test_a_cube_merged_of_bundles_has_scores_of_data_that_are_on_this_machine(
    cube: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    merged = succeed("merge", bundle, "--out", "with.zarr", "--data-dir", bundle.parent)
    assert "left out" not in merged.stdout
    pd.testing.assert_frame_equal(cells(Path("with.zarr"))[[*RAW]], cells(cube)[[*RAW]], check_exact=True)


@pytest.mark.slow
def test_a_cube_that_grows_without_its_data_says_once_which_scores_it_lacks(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    succeed("merge", bundle, "--out", "cited.zarr")
    (bundle.parent / "grown.toml").write_text(SWEEP.replace("replicates = 1", "replicates = 2"))
    grown = succeed("submit", bundle.parent / "grown.toml", "--results", ".", "--workers", "0")
    remedy = "sweep merge cited.zarr --out NEW.zarr writes a cube with the data and all scores"
    lack = "the cube lacks its features and classes, so that new cells get no scores that need them"
    assert f"NOTE data set secret: {lack}: {remedy}" in grown.output
    assert "NOTE data set open_data: the cube lacks" not in grown.output
    caplog.clear()
    succeed("bundle", "cited.zarr")
    assert [message.partition(",")[0] for message in caplog.messages] == [
        "3 cells of secret: no scores that need data"
    ]
    monkeypatch.chdir(bundle.parent)
    succeed("merge", tmp_path / "cited.zarr", "--out", tmp_path / "NEW.zarr")
    assert cells(tmp_path / "NEW.zarr")["nmi"].notna().all()


def test_no_path_of_the_machine_is_in_a_bundle(cube: Path, bundle: Path) -> None:
    spec = read_manifest(bundle).spec
    assert [getattr(entry, "path", None) for entry in spec.grid.datasets] == [None, "secret.csv", "open.csv"]
    assert [method.path for method in spec.grid.methods[2:]] == ["own.py", "own.py"]
    assert str(cube.parent).encode() not in bundle.read_bytes()
    again = write_bundle(bundle, cube.with_name("again.zip"))
    assert read_manifest(again).document == read_manifest(bundle).document


@pytest.mark.slow
def test_the_lines_of_the_readme_work(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Archive(bundle).read("README.md").decode()
    monkeypatch.chdir(bundle.parent)
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, flags=re.DOTALL)
    assert [language for language, _ in blocks] == ["python", "python", "python", "bash"]
    for language, block in blocks:
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(block, {})
            assert re.search("DataTree|posterior", output.getvalue())
    for line in blocks[-1][1].splitlines():
        succeed(*line.split()[1:])


@pytest.fixture(scope="module")
def unpacked(bundle: Path) -> Path:
    folder = bundle.parent / "unpacked"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # these warnings are of the libraries that mlcroissant needs
def test_the_description_is_croissant(unpacked: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    dataset = mlcroissant.Dataset(unpacked / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    records = list(dataset.records("scores"))
    text = [line for line in (unpacked / "scores.csv").read_text().splitlines() if line[0] != "#"]
    assert len(records) == len(text) - 1
    assert records[0]["scores/dataset"] == b"iris"
    document: dict[str, Any] = json.loads((unpacked / "croissant.json").read_text())
    assert document["license"] == [
        "https://spdx.org/licenses/CC-BY-4.0.html",
        "https://spdx.org/licenses/CC0-1.0.html",
    ]
    assert document["citeAs"] == (unpacked / "CITATION.bib").read_text()


@pytest.mark.slow
def test_the_description_is_an_ro_crate(unpacked: Path) -> None:
    rocrate = pytest.importorskip("rocrate.rocrate")
    crate = rocrate.ROCrate(unpacked)
    assert crate.root_dataset["name"] == "cited"
    files = {entity.id for entity in crate.data_entities}
    there = {path.name for path in unpacked.iterdir()} - {"manifest.json", "ro-crate-metadata.json"}
    assert files == there - {"croissant.json"}
    assert crate.get("#run-1")["result"].id == "cited.zarr.zip"
    assert crate.get("#run-1")["instrument"]["softwareVersion"] == "1.0.0"
    assert bibliography(read_manifest(unpacked / "cited.zarr.zip")).startswith("@software{sweep,")


@pytest.mark.slow
def test_data_that_were_left_out_are_needed_to_compute_their_cells_again(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bundle.parent)
    succeed("verify", bundle, "--sample", "99", "--run-methods")
    monkeypatch.chdir(tmp_path)
    problems = refuse("verify", bundle, "--sample", "99")
    assert "secret.csv: found no such file, expected a file of data set secret" in problems
    assert "(--data-dir names the folder of such files)" in problems
    succeed("verify", bundle, "--sample", "99", "--data-dir", bundle.parent)
    secret = bundle.parent / "secret.csv"
    (tmp_path / "secret.csv").write_text(secret.read_text().replace("1.9", "1.8"))
    assert "data set secret, checksum: found" in sweep("verify", bundle, "--sample", "99").stderr
