"""Methods of a user in a whole run may do some things, and every way to go wrong is covered.

`test_events.py` has runs of workers, kills and growth with methods.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from processes.sweeping import assert_same_bits, run, write_spec

from sweep_clustering.pipeline.check import verify
from sweep_clustering.pipeline.common import FAILED_CELLS
from sweep_clustering.pipeline.methods.process import SPOILT
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.schema import DONE, FAILED, NO_SOLUTION
from sweep_clustering.sweeps.errors import InputError

CODE = """
import os
import random
import sys
import time

import numpy as np
from sweep_clustering import NoSolution, Solution


def nearest(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, pull=0.0):
    rng = np.random.default_rng(random_state)
    centers = X[rng.choice(len(X), n_clusters, replace=False)]
    distances = ((X[:, None] - centers) ** 2).sum(axis=2) - pull * accuracy
    return Solution(distances.argmin(axis=1), objective=-distances.min(axis=1).sum())


def ahead(X, n_clusters, must_link, cannot_link, **more):
    return np.arange(len(X)) % n_clusters


def careless(X, n_clusters, must_link, cannot_link, **more):
    print("{not json")
    sys.stdout.write("more")
    if np.random.random() < 0.5:
        return np.random.randint(n_clusters, size=len(X))
    return [random.randrange(n_clusters) for _ in X]


def proud(X, n_clusters, must_link, cannot_link, **more):
    raise NoSolution("there is none")


def wary(X, n_clusters, must_link, cannot_link, *, random_state, **more):
    if random_state % 2:
        raise NoSolution("not this time")
    return Solution(np.zeros(len(X)), objective=random_state % 97)


def strict(X, n_clusters, must_link, cannot_link, **more):
    if {*map(tuple, must_link.tolist())} & {*map(tuple, cannot_link.tolist())}:
        raise NoSolution("a pair is annotated both ways")
    return ahead(X, n_clusters, must_link, cannot_link)


def raises(X, n_clusters, must_link, cannot_link, **more):
    return {}["nothing"]


def hangs(X, n_clusters, must_link, cannot_link, **more):
    while True:
        time.sleep(0.01)


def short(X, n_clusters, must_link, cannot_link, **more):
    return [0, 1, 2]


def writes(X, n_clusters, must_link, cannot_link, **more):
    for each in range(3, 1024):
        try:
            os.write(each, b"twenty bytes of words" * 9)
        except OSError:
            pass
    return ahead(X, n_clusters, must_link, cannot_link)


def decompose(X, n_clusters, must_link, cannot_link, *, overwrite=True, **more):
    from scipy.linalg import svd

    axis = svd(X.T if overwrite else X.T.copy(), full_matrices=False, overwrite_a=True)[0][:, 0]
    place = X @ axis
    return np.searchsorted(np.quantile(place, np.arange(1, n_clusters) / n_clusters), place)
"""

SPEC = """
name = "tiny"
seed = 5
[grid]
datasets = ["iris"{more}]
p = [0.8]
m = ["1N"]
replicates = 2
models = ["unsupervised", "posterior"]
methods = [{methods}]
restarts = 3
[search]
population = 3
offspring = 2
generations = 1
"""


MIXTURES = ", {mixture = {n_clusters = [3], count = 2, n_samples = 30, n_features = 2}}"


def own(function: str, **keys: object) -> str:
    values = {"name": function, "call": f"mine.py:{function}", **keys}
    return "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items()) + "}"


GOOD = (
    own("nearest", restarts=3).replace("}", ", options = {pull = 0.5}}"),
    own("ahead", uses="nothing"),
    own("careless", restarts=2),
    own("wary", restarts=3),
    '"k-means"',
    own("strict"),
)


def write(folder: Path, *methods: str, more: str = "") -> Path:
    """Write a sweep file of some methods on iris, and more data sets."""
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(CODE)
    return write_spec(folder, SPEC.format(methods=", ".join(methods), more=more))


def failures(folder: Path) -> list[dict[str, str]]:
    files = (folder / "tiny.run").rglob("failures.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def states_of(status: xr.DataArray) -> dict[str, set[int]]:
    return {name: set(status.sel(model=name).values.ravel().tolist()) for name in status["model"].values}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cube of all methods that answer, made in one process."""
    folder = tmp_path_factory.mktemp("methods")
    assert run(write(folder, *GOOD, more=MIXTURES), folder) == 0
    return folder / "tiny.zarr"


def test_methods_stand_beside_the_models(reference: Path) -> None:
    iris = open_cube(reference)["iris"]
    assert iris["model"].values.tolist() == ["posterior", "nearest", "careless", "wary", "strict"]
    assert set(iris.children) == {"unsupervised", "ahead", "k-means"}
    assert iris["ahead"]["labels"].values.tolist() == [place % 3 for place in range(150)]
    nearest = iris["log_likelihood"].sel(model="nearest").values
    assert np.isfinite(nearest).all()
    best = iris["best_restart"].sel(model="nearest").values
    assert (np.take_along_axis(nearest, best[..., None], -1)[..., 0] == nearest.max(axis=-1)).all()
    assert np.isnan(iris["log_likelihood"].sel(model="careless").values).all()
    assert (iris["restarts_done"].sel(model="careless").values == 2).all()
    assert (iris["best_restart"].sel(model="careless").values == 0).all()


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_methods_that_fork_give_the_same_bits(reference: Path, tmp_path: Path, workers: int) -> None:
    spec = write(tmp_path, *GOOD, more=MIXTURES)
    forks = re.sub(r"( +)return ", r"\1os.fork()\n\1return ", CODE)
    (tmp_path / "mine.py").write_text(forks)
    assert forks.count("os.fork()") > 5
    assert run(spec, tmp_path, workers=workers, batch_restarts=1) == 0
    assert_same_bits(reference, tmp_path / "tiny.zarr")


def test_a_file_that_changed_is_refused_under_its_old_name(tmp_path: Path) -> None:
    spec = write(tmp_path, GOOD[0])
    assert run(spec, tmp_path) == 0
    (tmp_path / "mine.py").write_text(CODE + "# changed\n")
    with pytest.raises(InputError, match="method nearest, code"):
        run(spec, tmp_path)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_each_way_to_go_wrong_costs_its_own_cells_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, workers: int
) -> None:
    wrong = (own("raises"), own("hangs", time_limit=0.2), own("short"), own("proud"), own("writes"))
    assert run(write(tmp_path, GOOD[0], *wrong), tmp_path, workers=workers) == FAILED_CELLS
    assert "no solution: proud, in 2 cells" in caplog.text
    status = open_cube(tmp_path / "tiny.zarr")["iris"]["status"]
    failed = {name: {FAILED} for name in ("raises", "hangs", "short", "writes")}
    assert states_of(status) == {"posterior": {DONE}, "nearest": {DONE}, "proud": {NO_SOLUTION}, **failed}
    records = {record["cell"].rpartition("/")[2]: record for record in failures(tmp_path)}
    assert records["raises"]["cause"] == "KeyError: 'nothing'"
    assert 'return {}["nothing"]' in records["raises"]["traceback"]
    assert "time limit of 0.2 s" in records["hangs"]["cause"]
    assert "(3,)" in records["short"]["cause"]
    assert records["writes"]["cause"] == SPOILT


def test_a_method_that_writes_into_the_table_costs_its_own_cells_alone(tmp_path: Path) -> None:
    writer, reader = (own("decompose", time_limit=60) for _ in range(2))
    reader = reader.replace('"decompose"', '"copies"', 1).replace("}", ", options = {overwrite = false}}")
    spec = write(tmp_path, writer, reader, own("ahead"))
    spec.write_text(spec.read_text().replace("replicates = 2", "replicates = 3"))
    assert run(spec, tmp_path) == FAILED_CELLS
    iris = open_cube(tmp_path / "tiny.zarr")["iris"]
    assert states_of(iris["status"]) == {
        "posterior": {DONE},
        "decompose": {FAILED},
        "copies": {DONE},
        "ahead": {DONE},
    }
    labels = iris["labels"].sel(model="copies").values.reshape(-1, 150)
    assert len(labels) == 3
    assert (labels == labels[0]).all()
    records = failures(tmp_path)
    assert len(records) > 3
    assert all(record["cause"].startswith("wrote into X, which is read-only") for record in records)


def test_code_that_a_cube_names_is_run_by_verify_only_where_asked_for(reference: Path) -> None:
    careful = verify(reference, sample=1000)
    assert careful.good
    models = {check.cell.rpartition("/")[2] for check in careful.checks}
    assert models == {"unsupervised", "posterior", "k-means"}
    assert f"not looked at: {careful.left_out} cells" in careful.lines()[1]
    everything = verify(reference, sample=1000, run_methods=True)
    assert everything.good
    assert len(everything.checks) == len(careful.checks) + careful.left_out
