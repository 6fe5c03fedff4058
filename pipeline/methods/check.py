"""Whether a method keeps its contract, tried on small problems."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.child import FORKED, WARNING
from pipeline.methods.contract import CANNOT, MUST, Links, NoSolution, Solution, Weights, merged_links
from pipeline.methods.keeper import LEFT
from pipeline.methods.loading import MethodCall
from pipeline.methods.process import Answer, MethodFailed, MethodProcess, TimeLimit

# Small problems on which a method is tried.

SAMPLES, FEATURES, CLUSTERS = 30, 2, 3


@dataclass(frozen=True, eq=False)
class Instance:
    """A table with links.

    Parameters
    ----------
    name : str
        What is special about it.
    X : ndarray of shape (n_samples, n_features)
        Features.
    n_clusters : int
        Clusters to ask for.
    must_link, cannot_link, weights
        Arguments of the contract.
    accuracy : float or None
        Of the annotations.
    """

    name: str
    X: NDArray[np.float64]
    n_clusters: int
    must_link: Links
    cannot_link: Links
    weights: Weights
    accuracy: float | None


def instances() -> list[Instance]:
    """Problems that a sweep may have: plain ones first.

    Three clusters of ten samples, far from each other, with annotations that are right, that contradict each
    other, that say everything is one cluster, with none; with one cluster, with more clusters than there
    seem to be, with repeated rows and a constant feature.

    Returns
    -------
    list of Instance
        Always the same ones.
    """
    rng = np.random.default_rng(20210405)
    labels = np.repeat(np.arange(CLUSTERS), SAMPLES // CLUSTERS)
    centers = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    X = centers[labels] + rng.normal(size=(SAMPLES, FEATURES))
    pairs = rng.integers(SAMPLES, size=(40, 2))
    right = np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], MUST, CANNOT)
    consistent = np.column_stack([pairs, right])
    contradictory = np.concatenate([consistent, np.column_stack([pairs[:5], 1 - right[:5]])])
    joined = np.column_stack(
        [np.arange(SAMPLES - 1), np.arange(1, SAMPLES), np.zeros(SAMPLES - 1, dtype=int)]
    )
    none = np.empty((0, 3), dtype=np.int64)
    repeated = np.column_stack([np.abs(np.round(X[:, 0] / 4)), np.ones(SAMPLES)])
    return [
        _instance("consistent links", X, CLUSTERS, consistent, 1.0),
        _instance("contradictory links", X, CLUSTERS, contradictory, 0.8),
        _instance("must-links that join all samples", X, CLUSTERS, joined, 0.9),
        _instance("no links", X, CLUSTERS, none, 0.9),
        _instance("links and an accuracy that is not told", X, CLUSTERS, consistent, None),
        _instance("one cluster", X, 1, consistent, 0.9),
        _instance("12 clusters", X, 12, consistent, 0.9),
        _instance("one feature", X[:, :1], CLUSTERS, consistent, 0.9),
        _instance("repeated rows and a constant feature", repeated, CLUSTERS, consistent, 0.9),
    ]


def without_links(instance: Instance) -> Instance:
    """The same table as a method gets it that uses nothing."""
    none = np.empty((0, 3), dtype=np.int64)
    return _instance(instance.name, instance.X, instance.n_clusters, none, None)


def _instance(
    name: str, X: NDArray[np.float64], n_clusters: int, annotations: NDArray[np.int64], accuracy: float | None
) -> Instance:
    must_link, cannot_link, weights = merged_links(annotations)
    return Instance(name, X, n_clusters, must_link, cannot_link, weights, accuracy)


SEED, OTHER_SEED = 4242, 777
GLOBAL_SEEDS = (1, 2)
SHOWN = 200
"""Characters of what a method printed."""

NAMED = 3
"""Problems that a breach names."""

ELSEWHERE = 3
"""Problems that are solved in another process as well."""

UNSTABLE = "not reproducible"

READ_ONLY = ("read-only", "WRITEABLE flag")
"""How numpy refuses to write into an array that a method does not own."""


@dataclass(frozen=True)
class Breach:
    """A part of the contract that a method does not keep.

    Parameters
    ----------
    what : str
        In a few words, such as `not reproducible`.
    where : str
        Problem or problems it was seen with.
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
        Nothing where the contract is kept.
    """

    version: str
    outcomes: tuple[Outcome, ...]
    breaches: tuple[Breach, ...]


def check(call: MethodCall, uses: Literal["links", "nothing"]) -> Report:
    """Try a method.

    Each problem is solved again with the same seed, after a call with another one, and while the global
    generators begin elsewhere; some of them in another process, too.

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
    pipeline.methods.process.MethodFailed
        If its file or package raises while it is imported.
    """
    with tempfile.TemporaryFile() as output, MethodProcess(output=output.fileno(), marked=False) as methods:
        version = methods.load(call)
        trial = _Trial(methods, call, uses, output.fileno())
        breaches: list[Breach] = []
        outcomes = []
        firsts = {}
        for instance in instances():
            first = firsts[instance.name] = trial.solve(instance)
            outcomes.append(_outcome(instance, first))
            if isinstance(first, MethodFailed | TimeLimit):
                breaches.append(_failure(instance, first))
            else:
                breaches += trial.repeated(instance, first)
        if not any(breach.what == UNSTABLE for breach in breaches):
            breaches += trial.elsewhere(firsts)
        if uses == "nothing":
            breaches += trial.with_links()
        methods.close()  # what is left in the buffers of the process is written
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    for what, line in (("forks", FORKED), ("leaves processes running", LEFT)):
        if line in lines:
            breaches.append(Breach(what, "", f"{lines.count(line)} times: {line.removeprefix(WARNING)}"))
    printed = [line for line in lines if line.strip() and not line.startswith(WARNING)]
    if printed:
        breaches.append(Breach("prints", "", f"{len(printed)} lines, first {printed[0][:SHOWN]!r}"))
    return Report(version, tuple(outcomes), tuple(_grouped(breaches)))


Result = Answer | NoSolution | MethodFailed | TimeLimit


@dataclass(frozen=True)
class _Trial:
    methods: MethodProcess
    call: MethodCall
    uses: Literal["links", "nothing"]
    output: int

    def solve(
        self, instance: Instance, seed: int = SEED, *, global_seed: int | None = None, raw: bool = False
    ) -> Result:
        """One call, with the links that the method is said to see; with all of them if `raw`."""
        seen = instance if raw or self.uses == "links" else without_links(instance)
        try:
            return self.methods.solve(
                self.call,
                instance.name,
                seen.X,
                n_clusters=seen.n_clusters,
                must_link=seen.must_link,
                cannot_link=seen.cannot_link,
                weights=seen.weights,
                accuracy=seen.accuracy,
                random_state=seed,
                global_seed=global_seed,
            )
        except (NoSolution, MethodFailed, TimeLimit) as error:
            return error

    def repeated(self, instance: Instance, first: Result) -> Iterator[Breach]:
        """Other answers to the same question."""
        if _differs(first, self.solve(instance)):
            yield Breach(UNSTABLE, instance.name, "another answer to the same random_state")
            return
        self.solve(instance, OTHER_SEED)
        if _differs(first, self.solve(instance)):
            found = "another answer after a call with another random_state"
            yield Breach("keeps something between calls", instance.name, found)
            return
        answers = [self.solve(instance, global_seed=seed) for seed in GLOBAL_SEEDS]
        if _differs(*answers):
            found = "the answer changes with the seed of random or numpy.random, not random_state alone"
            yield Breach("draws from global generators", instance.name, found)

    def elsewhere(self, firsts: Mapping[str, Result]) -> Iterator[Breach]:
        """Other answers in another process, as each worker has its own."""
        with MethodProcess(output=self.output, marked=False) as others:
            trial = replace(self, methods=others)
            for instance in instances()[:ELSEWHERE]:
                if _differs(firsts[instance.name], trial.solve(instance)):
                    yield Breach(UNSTABLE, instance.name, "another answer in another process")

    def with_links(self) -> Iterator[Breach]:
        """Answers that change with links, of a method that is said to see nothing."""
        instance = instances()[1]
        if _differs(self.solve(instance), self.solve(instance, raw=True)):
            found = 'the answer changes with links, which uses = "nothing" keeps from it'
            yield Breach("uses links", instance.name, found)


def _outcome(instance: Instance, result: Result) -> Outcome:
    if not isinstance(result, Answer):
        return Outcome(instance.name, None, None, None, str(result).partition("\n")[0])
    solution = result.solution
    return Outcome(instance.name, len(np.unique(solution.labels)), solution.objective, result.seconds)


def _failure(instance: Instance, error: MethodFailed | TimeLimit) -> Breach:
    if isinstance(error, TimeLimit):
        return Breach("too slow", instance.name, str(error))
    if any(word in error.cause for word in READ_ONLY):
        return Breach("writes into its arguments", instance.name, error.cause, error.traceback)
    if error.cause.startswith("BadAnswer: "):
        return Breach("no usable answer", instance.name, error.cause.removeprefix("BadAnswer: "))
    return Breach("fails", instance.name, error.cause, error.traceback)


def _differs(one: Result, other: Result) -> bool:
    if not (isinstance(one, Answer) and isinstance(other, Answer)):
        return (type(one), str(one)) != (type(other), str(other))
    return not _equal(one.solution, other.solution)


def _equal(one: Solution, other: Solution) -> bool:
    parts = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(_same(*pair) for pair in parts)


def _same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return type(one) is type(other) and one == other


def _grouped(breaches: list[Breach]) -> Iterator[Breach]:
    """Breaches that look alike as one, with all problems they were seen with."""
    alike: dict[tuple[str, str], list[Breach]] = {}
    for breach in breaches:
        alike.setdefault((breach.what, breach.found), []).append(breach)
    for (what, found), members in alike.items():
        named = ", ".join(member.where for member in members[:NAMED])
        more = f" and {len(members) - NAMED} more problems" if len(members) > NAMED else ""
        yield Breach(what, named + more, found, members[0].traceback)
