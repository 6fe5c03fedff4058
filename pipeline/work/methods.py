"""Calls of a method: the restarts of a cell that no model of ours solves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from multiprocessing.util import Finalize

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.contract import merged_links
from pipeline.methods.loading import MethodCall
from pipeline.methods.process import MethodFailed, MethodProcess, Unsolved
from pipeline.work.records import Partial, Science, Work
from sweeps.errors import InputError, Problem, collecting
from sweeps.file.methods import Method
from sweeps.plan import Cell
from sweeps.seeds import method_seed


def method_calls(where: str, methods: Iterable[Method]) -> tuple[MethodCall, ...]:
    """Methods of a sweep as workers get them, with the text of files.

    Parameters
    ----------
    where : str
        Sweep file or cube, for messages.
    methods : iterable of Method
        Of its grid.

    Raises
    ------
    InputError
        If a file is not the one whose checksum was taken.
    """
    calls, problems = [], list[Problem]()
    for method in methods:
        try:
            source = method.source()
        except ValueError as error:
            problems.append(Problem(f"{where}: method {method.name}", str(error), "the file as it was"))
            continue
        calls.append(MethodCall(method.name, method.call, source, method.options, method.time_limit))
    if problems:
        raise InputError(problems)
    return tuple(calls)


def check_calls(where: str, calls: Iterable[MethodCall]) -> None:
    """Import each method once, in a process of its own, so that a run does not begin with one that cannot be.

    Raises
    ------
    InputError
        With what is wrong with each: code that raises, names that are not there, arguments, options.
    """
    problems: list[Problem] = []
    with MethodProcess() as process:
        for call in calls:
            with collecting(problems):
                try:
                    process.load(call)
                except MethodFailed as failed:
                    expected = "code that can be imported"
                    problems.append(Problem(f"{where}: method {call.name}", failed.cause, expected))
    if problems:
        raise InputError(problems)


@cache
def _process() -> MethodProcess:
    """The processes that run methods for this one; they end with this one, and are waited for."""
    process = MethodProcess()
    Finalize(None, process.close, exitpriority=0)  # a worker, which multiprocessing started, runs no atexit
    return process


def run_method(
    science: Science,
    work: Work,
    method: MethodCall,
    X: NDArray[np.float64],
    annotations: NDArray[np.int32],
) -> Partial:
    """Call a method for some restarts of a cell.

    Parameters
    ----------
    science : Science
        Seed and number of clusters.
    work : Work
        Cell and restarts.
    method : MethodCall
        What to call.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    annotations : ndarray of shape (m, 3)
        Samples i and j, and kind; none for a method that uses none.

    Returns
    -------
    Partial
        The solution of the largest objective, of the lowest restart where there are none. Centroids are the
        method's own, or means; covariances are spherical, from its labels.

    Raises
    ------
    MethodFailed
        If a call raises, answers what the contract does not allow, dies, or takes too long.
    """
    cell = work.cell
    must_link, cannot_link, weights = merged_links(annotations)
    best, answer, seconds, cpu_seconds = -1, None, 0.0, 0.0
    objectives = np.full(work.stop - work.start, np.nan)
    for restart in range(work.start, work.stop):
        try:
            found = _process().solve(
                method,
                (cell.dataset, cell.mixture, science.seed),
                X,
                n_clusters=science.n_clusters,
                must_link=must_link,
                cannot_link=cannot_link,
                weights=weights,
                accuracy=cell.p,
                random_state=_seed(science, cell, method, restart),
            )
        except Unsolved as none:
            seconds, cpu_seconds = seconds + none.seconds, cpu_seconds + none.cpu_seconds
            continue
        seconds, cpu_seconds = seconds + found.seconds, cpu_seconds + found.cpu_seconds
        if found.solution.objective is not None:
            objectives[restart - work.start] = found.solution.objective
        if answer is None or objectives[restart - work.start] > objectives[best - work.start]:
            best, answer = restart, found.solution
    labels = np.full(len(X), -1) if answer is None else answer.labels
    labels = np.asarray(labels, dtype=np.int16)
    centroids, covariances = _clusters(X, labels, science.n_clusters)
    if answer is not None and answer.centroids is not None:
        centroids = np.asarray(answer.centroids, dtype=np.float64)
    return Partial(
        work=Work(cell, work.start, work.stop),
        objectives=objectives,
        best_restart=best,
        labels=labels,
        centroids=centroids,
        covariances=covariances,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
    )


def _seed(science: Science, cell: Cell, method: MethodCall, restart: int) -> int:
    return method_seed(
        science.seed,
        cell.dataset,
        mixture=cell.mixture,
        p=cell.p,
        m=cell.m,
        replicate=cell.replicate,
        method=method.name,
        restart=restart,
    )


def _clusters(
    X: NDArray[np.float64], labels: NDArray[np.int16], n_clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and spherical variances; NaN for a cluster without samples, and where there is no solution."""
    from kernels.scores import cluster_gaussians

    if (labels < 0).all():
        return np.full((n_clusters, X.shape[1]), np.nan), np.full(n_clusters, np.nan)
    _, means, variances = cluster_gaussians(X, labels, n_clusters)
    return means, variances
