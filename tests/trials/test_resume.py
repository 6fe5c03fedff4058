"""Runs, crashes, failures and growth in any order keep what was done and give the same end."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from cubes.small import MADE_OF, draw_gaussians, result_files
from hypothesis import HealthCheck, Phase, settings, stateful
from hypothesis import strategies as st
from processes.crash import crash_inside
from processes.sweeping import TINY, assert_same_bits, run, write_spec

from sweep_clustering.pipeline.cluster import executor
from sweep_clustering.pipeline.common import best_of
from sweep_clustering.pipeline.run.signals import StopSignal
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import Chosen, Science, Solved, Span
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.chunks import chunk_name
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE, PENDING, result_names
from sweep_clustering.storage.runfolder import lease
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.sweeps.inputs import Source
from sweep_clustering.sweeps.plan import Block, Cell, DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, DIMS, SCORED
from sweep_clustering.sweeps.words import chooses, is_any, shape_of

STAGES = {
    "datasets": [
        '"iris"',
        '{mixture = {n_clusters = [2], count = COUNT, n_samples = 20, n_features = 2}}, "iris"',
    ],
    "p": ["0.8", "0.8, 1.0", "0.9, 0.8, 1.0"],
    "m": ['"0.5N"', '30, "0.5N"'],
    "replicates": ["1", "2", "4"],
    "models": [
        '"posterior-full"',
        '"unsupervised-diagonal", "posterior-full"',
        '"unsupervised-diagonal", "posterior-full", "conditional-auto", "conditional-any"',
    ],
    "COUNT": ["2", "4"],
}


HELD_OUT = "[search]\nheld_out = true\n"
POPULATIONS = {"quick": 3, "other": 4, "later": 5}
SEARCHES = {"search": ["quick, other", "quick, other, later"]}


def spec_text(stages: dict[str, int], more: str = "") -> str:
    """Return the sweep file at some stage of its growth."""
    now = {key: (STAGES | SEARCHES)[key][stage] for key, stage in stages.items()}
    count = now.pop("COUNT")
    replicates = now.pop("replicates")
    for name in filter(None, now.pop("search", "").split(", ")):
        more += f'[[search]]\nname = "{name}"\npopulation = {POPULATIONS[name]}\n'
    lists = "\n".join(f"{key} = [{values}]" for key, values in now.items())
    text = f'name = "tiny"\nseed = 8\n[grid]\n{lists}\nreplicates = {replicates}\nrestarts = 3\n'
    return text.replace("COUNT", count) + more


def stub_choice(science: Science, cell: Cell) -> Chosen:
    """Return a choice, or scores, that take no time and depend on the coordinates of the cell."""
    rng = np.random.default_rng(tasks.stream_of(science, cell, 1000))
    losses, shares = rng.random((2, len(SCORED if science.searches[0].held_out else CANDIDATES))).tolist()
    if is_any(cell.model):
        return Chosen("spherical", tuple(losses), tuple(shares), MADE_OF.codes, rng.random())
    shape = CANDIDATES[rng.integers(len(CANDIDATES))] if chooses(cell.model) else shape_of(cell.model)
    return Chosen(shape, tuple(losses), tuple(shares))


def stub(science: Science, work: Span, source: Source) -> Solved:
    """Solve without any time, with results that depend on the coordinates alone."""
    X, _ = source.arrays(work.unit.mixture)
    streams = [tasks.stream_of(science, work.unit, r) for r in range(work.start, work.stop)]
    rngs = [np.random.default_rng(stream) for stream in streams]
    search = science.search(work.unit)  # streams do not tell searches apart
    objectives = [float(rng.standard_normal()) + search.population for rng in rngs]
    best = best_of(objectives)
    rng, k = rngs[best], science.n_clusters
    shape, chosen = shape_of(work.unit.model), work.chosen
    if science.holds_out(work.unit):
        chosen = chosen or stub_choice(science, work.unit)
        shape = chosen.covariance
    return Solved(
        span=work,
        objectives=np.array(objectives),
        best_restart=work.start + best,
        labels=((rng.integers(0, k, len(X)) + search.population) % k).astype(np.int16),
        centroids=rng.standard_normal((k, X.shape[1])),
        covariances=rng.random((k, *[X.shape[1]] * len(DIMS[shape]))),
        seconds=1e-6,
        cpu_seconds=1e-6,
        chosen=chosen,
        gaussians=draw_gaussians(rng, X.shape[1], k) if is_any(work.unit.model) else None,
    )


class Solver:
    """The stub, until it is told to stop or to fail."""

    def __init__(self) -> None:
        self.stop_after: int | None = None
        self.broken = ""

    def __call__(self, science: Science, work: Span, source: Source) -> Solved:
        if self.broken and self.broken in str(work.unit):
            raise FloatingPointError("no such luck")
        if self.stop_after is not None:
            self.stop_after -= 1
            if self.stop_after < 0:
                raise StopSignal(15)
        return stub(science, work, source)


@contextmanager
def quick_solver(solver: Solver) -> Iterator[None]:
    """Use a stub solver, compile nothing, and take every holder of a lease for dead."""
    with (
        patch.object(tasks, "run_cell", solver),
        patch.object(executor, "load_kernels", lambda: None),
        patch.object(lease, "is_alive", lambda process: False),
    ):
        yield


def chunk_files(plan: DatasetPlan, block: Block, names: dict[str, str]) -> dict[str, str]:
    """Return the files that hold results of a block."""
    places = [
        f"{block.node.path}/{name}/{chunk_name(block.chunk)}" for name in result_names(plan, block.models)
    ]
    return {name: names[name] for name in names if any(name == p or name.startswith(f"{p}.") for p in places)}


class Sweeping(stateful.RuleBasedStateMachine):
    """One sweep and its cube, whatever happens to them."""

    more = ""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name)
        self.cube = self.folder / "tiny.zarr"
        self.stages = dict.fromkeys(STAGES, 0)
        self.solver = Solver()
        self.done: dict[Cell, tuple[bytes, ...]] = {}
        self.statuses: dict[Cell, int] = {}
        self.chunks: dict[str, str] = {}

    def submit(self, **options: object) -> int:
        with quick_solver(self.solver):
            spec = write_spec(self.folder, spec_text(self.stages, self.more))
            return run(spec, self.folder, batch_restarts=4, **options)

    @stateful.rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        """Let the file ask for more, without what it may not ask for."""
        key = data.draw(st.sampled_from(sorted(self.stages)))
        self.stages[key] = min(self.stages[key] + 1, len((STAGES | SEARCHES)[key]) - 1)

    @stateful.rule()
    def run_all(self) -> None:
        assert self.submit(retry_failed=True) == 0

    @stateful.rule(work=st.integers(0, 30))
    def run_some(self, work: int) -> None:
        self.solver.stop_after = work
        assert self.submit() in (0, 3, 143)
        self.solver.stop_after = None

    @stateful.rule(model=st.sampled_from(["posterior", "replicate=0", "unsupervised"]))
    def fail(self, model: str) -> None:
        self.solver.broken = model
        assert self.submit() in (0, 3)
        self.solver.broken = ""

    @stateful.rule(at=st.integers(1, 250))
    def crash(self, at: int) -> None:
        with crash_inside(self.folder, at):
            self.submit()

    @stateful.precondition(lambda self: self.cube.exists())
    @stateful.invariant()
    def what_was_done_stays(self) -> None:
        store = BlockStore(self.cube, read_only=True)
        files, now, chunks = result_files(self.cube), {}, {}
        for plan in read_manifest(self.cube).plans.values():
            for block, statuses in store.all_statuses(plan):
                arrays = store.read(block)
                if (statuses == DONE).all():
                    chunks |= chunk_files(plan, block, files)
                for position, (cell, status) in enumerate(zip(block.cells(), statuses.tolist(), strict=True)):
                    now[cell] = status
                    if status == DONE:
                        names = sorted(set(arrays) - {"annotations"})
                        bits = tuple(arrays[name][position].tobytes() for name in names)
                        assert self.done.setdefault(cell, bits) == bits, cell
        assert self.statuses.keys() <= now.keys()
        for cell, status in self.statuses.items():
            assert now[cell] == DONE if status == DONE else now[cell] != PENDING or status == PENDING, cell
        assert self.chunks.items() <= chunks.items()
        self.statuses, self.chunks = now, chunks

    def teardown(self) -> None:
        try:
            assert self.submit(retry_failed=True) == 0
            self.what_was_done_stays()
            with quick_solver(Solver()):
                assert run(self.folder / "tiny.toml", self.folder / "undisturbed") == 0
            assert_same_bits(self.folder / "undisturbed" / "tiny.zarr", self.cube)
        finally:
            self.scratch.cleanup()


class HoldingOut(Sweeping):
    """A sweep in which every model holds annotations out."""

    more = HELD_OUT


class Searching(Sweeping):
    """A sweep of several searches, whose random streams are the same."""

    def __init__(self) -> None:
        super().__init__()
        self.stages["search"] = 0


def explore(examples: int, steps: int, machine: type[Sweeping]) -> None:
    stateful.run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            phases=[Phase.generate],  # to shrink a failure takes minutes
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(
    ("machine", "examples", "steps"), [(Sweeping, 3, 6), (HoldingOut, 2, 5), (Searching, 2, 5)]
)
def test_any_order_of_events(machine: type[Sweeping], examples: int, steps: int) -> None:
    explore(examples, steps, machine)


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("machine", [Sweeping, HoldingOut, Searching])
def test_any_long_order_of_events(machine: type[Sweeping]) -> None:
    explore(40, 20, machine)


def crash_at(number: int, folder: Path, undisturbed: Path) -> bool:
    """Return whether a run came to a change of this number; after a crash the next run still ends."""
    results = folder / str(number)
    spec = write_spec(folder, spec_text(dict.fromkeys(STAGES, 1)))
    with quick_solver(Solver()):
        with crash_inside(results, number) as injector:
            run(spec, results, batch_restarts=4)
        assert run(spec, results) == 0
    assert_same_bits(undisturbed, results / "tiny.zarr")
    return injector.crashed


@pytest.fixture
def undisturbed_cube(tmp_path: Path) -> Path:
    with quick_solver(Solver()):
        assert run(write_spec(tmp_path, spec_text(dict.fromkeys(STAGES, 1))), tmp_path / "undisturbed") == 0
    return tmp_path / "undisturbed" / "tiny.zarr"


def test_a_whole_run_crashed_here_and_there(tmp_path: Path, undisturbed_cube: Path) -> None:
    assert all(crash_at(number, tmp_path, undisturbed_cube) for number in (2, 150, 290))


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_a_whole_run_crashed_before_and_after_every_change(tmp_path: Path, undisturbed_cube: Path) -> None:
    number = 1
    while crash_at(number, tmp_path, undisturbed_cube):
        number += 1
    assert number > 290


def test_results_that_wait_for_a_cube_that_was_removed_are_not_those_of_the_next(tmp_path: Path) -> None:
    iris = TINY.replace("{mixture = {n_clusters = [2, 3], count = 2, n_samples = 30, n_features = 3}}, ", "")
    cell = "iris/p=0.8/m=75/replicate=1/posterior"
    assert run(write_spec(tmp_path, iris), tmp_path, only=(cell,)) == 0
    cube = tmp_path / "tiny.zarr"
    assert RunFolder(cube).last_run.journal.stat().st_size
    shutil.rmtree(cube)
    other_seed = iris.replace("seed = ", "seed = 1")
    assert run(write_spec(tmp_path, other_seed), tmp_path) == 0
    assert run(write_spec(tmp_path, other_seed), tmp_path / "new") == 0
    assert_same_bits(tmp_path / "new" / "tiny.zarr", cube)
