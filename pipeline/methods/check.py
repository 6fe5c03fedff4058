"""A smoke test of a method: does it load, answer as it should, and give the same answer again?"""

import pickle
import tempfile
from dataclasses import dataclass
from typing import Any, Literal

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

SAMPLES, FEATURES, CLUSTERS = 30, 2, 3
SEED = 4242
# Characters of what a method printed.
SHOWN = 200


@dataclass(frozen=True)
class Breach:
    """A part of the contract that a method does not keep.

    Parameters
    ----------
    what : str
        In a few words, such as `not reproducible`.
    where : str
        Problem it was seen with; empty where it was no single one.
    found : str
        What was seen.
    traceback : str
        Of the method, where it raised.
    """

    what: str
    where: str
    found: str
    traceback: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of one problem.

    Parameters
    ----------
    instance : str
        Its name.
    clusters : int or None
        Clusters with samples; None where there was no answer.
    objective : float or None
        Of the answer.
    seconds : float or None
        Of the call.
    note : str
        Why there was no solution, or what failed.
    """

    instance: str
    clusters: int | None
    objective: float | None
    seconds: float | None
    note: str = ""


@dataclass(frozen=True)
class Report:
    """What came out of the trials.

    Parameters
    ----------
    version : str
        Of the method, as `pipeline.methods.loading.version_of` tells it.
    outcomes : tuple of Outcome
        One for each problem.
    breaches : tuple of Breach
        Nothing where no breach was seen.
    """

    version: str
    outcomes: tuple[Outcome, ...]
    breaches: tuple[Breach, ...]


def check(call: MethodCall, uses: Literal["links", "nothing"]) -> Report:
    """Try a method on three clusters of ten samples, with links if it sees them and without; twice each.

    Parameters
    ----------
    call : MethodCall
        The method, with the time limit of a call.
    uses : {"links", "nothing"}
        What it is said to see.

    Returns
    -------
    Report
        With every breach that was seen.

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
            must_link, cannot_link, weights = merged_links(problems[name])
            seen: Any = {"must_link": must_link, "cannot_link": cannot_link, "weights": weights}
            seen["accuracy"] = 0.9 if uses == "links" else None
            try:
                first, again = (
                    methods.solve(call, name, X, n_clusters=CLUSTERS, random_state=SEED, **seen)
                    for _ in range(2)
                )
            except (NoSolution, MethodFailed, TimeLimit) as error:
                outcomes.append(Outcome(name, None, None, None, str(error).partition("\n")[0]))
                if isinstance(error, TimeLimit):
                    breaches.append(Breach("too slow", name, str(error)))
                elif isinstance(error, WroteIntoArguments):
                    breaches.append(Breach("writes into its arguments", name, error.cause))
                elif isinstance(error, MethodFailed):
                    found = error.cause.removeprefix("BadAnswer: ")
                    what = "fails" if found == error.cause else "no usable answer"
                    breaches.append(Breach(what, name, found, error.traceback))
                continue
            n_found = len(np.unique(first.solution.labels))
            outcomes.append(Outcome(name, n_found, first.solution.objective, first.seconds))
            if pickle.dumps(first.solution) != pickle.dumps(again.solution):
                breaches.append(Breach("not reproducible", name, "another answer to the same random_state"))
        methods.close()  # what is left in the buffers of the process is written
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    for what, line in (("forks", FORKED), ("leaves processes running", LEFT)):
        if line in lines:
            breaches.append(
                Breach(what, "", f"{plural(lines.count(line), 'time')}: {line.removeprefix(WARNING)}")
            )
    printed = [line for line in lines if line.strip() and not line.startswith(WARNING)]
    if printed:
        breaches.append(Breach("prints", "", f"{plural(len(printed), 'line')}, first {printed[0][:SHOWN]!r}"))
    return Report(version, tuple(outcomes), tuple(breaches))
