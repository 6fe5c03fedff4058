"""A smoke test of a method: whether it loads, gives valid answers, and repeats them."""

import pickle
import tempfile
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.methods.child import FORKED, WARNING
from sweep_clustering.pipeline.methods.contract import NoSolution, merged_links
from sweep_clustering.pipeline.methods.keeper import LEFT
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.methods.process import (
    MethodFailed,
    MethodProcess,
    TimeLimit,
    WroteIntoArguments,
)
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST

CLUSTERS = 3
SAMPLES = 10 * CLUSTERS
FEATURES = 2
SEED = 4242
# Length of a printed line in a report, in characters.
LONGEST_LINE = 200


@dataclass(frozen=True)
class Breach:
    """A part of the contract that a method does not keep."""

    # A few words, such as `not reproducible`.
    what: str
    # The name of the problem; empty if there was no single one.
    where: str
    # The observation.
    cause: str
    # The traceback of the method, if it raised.
    traceback: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of one problem; without an answer, clusters, objective and seconds are None."""

    instance: str
    # The number of clusters with samples.
    clusters: int | None
    objective: float | None
    # The time of the call.
    seconds: float | None
    # Why there was no solution, or what failed.
    note: str = ""


@dataclass(frozen=True)
class Report:
    """Result of the smoke test: the version of the method, one outcome for each problem, and breaches."""

    version: str
    outcomes: tuple[Outcome, ...]
    breaches: tuple[Breach, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values."""
        breaches = [asdict(breach) for breach in self.breaches]
        for breach in breaches:
            breach["found"] = breach.pop("cause")
        return asdict(self) | {"breaches": breaches}


def check(call: MethodCall, uses: Literal["links", "nothing"]) -> Report:
    """Try a method on three clusters of ten samples, with links if it uses them and without, twice each.

    Raises
    ------
    InputError
        If there is no such method, or it does not take its arguments or options.
    sweep_clustering.pipeline.methods.process.MethodFailed
        If its file or package raises while it is imported.
    """
    rng = np.random.default_rng(20210405)
    labels = np.repeat(np.arange(CLUSTERS), SAMPLES // CLUSTERS)
    X = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[labels] + rng.normal(size=(SAMPLES, FEATURES))
    pairs = rng.integers(SAMPLES, size=(40, 2))
    kinds = np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], MUST, CANNOT)
    problems = {"links": np.column_stack([pairs, kinds]), "no links": np.empty((0, 3), dtype=np.int64)}
    outcomes, breaches = list[Outcome](), list[Breach]()
    with tempfile.TemporaryFile() as output, MethodProcess(output=output.fileno(), marked=False) as methods:
        version = methods.load(call)
        for name in problems if uses == "links" else ["no links"]:
            links = merged_links(problems[name])
            try:
                first, second = (
                    methods.solve(
                        call,
                        name,
                        X,
                        n_clusters=CLUSTERS,
                        links=links,
                        accuracy=0.9 if uses == "links" else None,
                        random_state=SEED,
                    )
                    for _ in range(2)
                )
            except (NoSolution, MethodFailed, TimeLimit) as error:
                outcomes.append(Outcome(name, None, None, None, str(error).partition("\n")[0]))
                if isinstance(error, TimeLimit):
                    breaches.append(Breach("too slow", name, str(error)))
                elif isinstance(error, WroteIntoArguments):
                    breaches.append(Breach("writes into its arguments", name, error.cause))
                elif isinstance(error, MethodFailed):
                    cause = error.cause.removeprefix("BadAnswer: ")
                    title = "fails" if cause == error.cause else "no usable answer"
                    breaches.append(Breach(title, name, cause, error.traceback))
                continue
            n_clusters = len(np.unique(first.solution.labels))
            outcomes.append(Outcome(name, n_clusters, first.solution.objective, first.seconds))
            if pickle.dumps(first.solution) != pickle.dumps(second.solution):
                breaches.append(Breach("not reproducible", name, "another answer to the same random_state"))
        methods.close()  # which writes the buffers of the process
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    for title, line in (("forks", FORKED), ("leaves processes running", LEFT)):
        if line in lines:
            times = plural(lines.count(line), "time")
            breaches.append(Breach(title, "", f"{times}: {line.removeprefix(WARNING)}"))
    printed = [line for line in lines if line.strip() and not line.startswith(WARNING)]
    if printed:
        breaches.append(
            Breach("prints", "", f"{plural(len(printed), 'line')}, first {printed[0][:LONGEST_LINE]!r}")
        )
    return Report(version, tuple(outcomes), tuple(breaches))
