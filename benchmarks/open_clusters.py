"""Classes of any shape without K: `python -m benchmarks open_clusters [--write]`, 20 minutes on two cores.

K = 2 to 10 are fitted to the sets of the clustering suite (../shared/data/suite beside the checkout) with at
most 400 rows, and to drawn tables of 3 to 12 Gaussian classes, each of a shape of its own. Nine of ten
uniform pairs are right, and the models do not know that. The ARI is that of the fit whose K a rule takes.
"""

from collections.abc import Callable, Iterator
from multiprocessing import Pool
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from suite import SUITE, best_published, fit_any, read
from tables import Table, show

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.pipeline.fit.counts import (
    TRIED,
    ClusterChoice,
    choose,
    choose_clusters,
    feasible_counts,
    finalists_of,
    share_allowed,
)

MOST_ROWS = 400
ROWS_OF_CLASS = 40
N_FEATURES = 8
DISTANCE = 5.0
CLASS_COUNTS = (3, 4, 5, 6, 8, 10, 12)
DRAWS = 3
SHARES = (0.15, 0.3, 0.6)
ACCURACY = 0.9
RESTARTS = 5

# The number of clusters that each rule takes.
RULES: dict[str, Callable[[ClusterChoice], int]] = {
    "fewest within 1 s.e.": lambda choice: finalists_of(choice.candidates, 1.0)[0].n_clusters,
    "least log loss": lambda choice: finalists_of(choice.candidates, 0.0)[0].n_clusters,
    "not bound by random pairs": lambda choice: choose(choice.candidates).chosen.n_clusters,
    "in use": lambda choice: choice.chosen.n_clusters,
}
OPEN = Table("open_clusters/ari", ("tables", "answers a row", "fits", *RULES, "true K", "right K in use"))
TABLES = (OPEN,)


class Job(NamedTuple):
    """A table by the name of a set or the number of its classes, answers for each row, and a draw."""

    name: str
    share: float
    draw: int

    @property
    def kind(self) -> str:
        """The line of the table that the job counts in."""
        if "/" in self.name:
            return "suite"
        return "drawn, K ≤ 6" if int(self.name) <= 6 else "drawn, K > 6"


class Outcome(NamedTuple):
    """ARI by each rule and at the true K, and whether the rule in use takes it."""

    aris: list[float]
    is_right: bool


def drawn_classes(rng: np.random.Generator, n_clusters: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return Gaussian classes of unlike sizes and shapes that are apart."""
    means = rng.normal(size=(n_clusters, N_FEATURES)) * DISTANCE / np.sqrt(N_FEATURES)
    maps = rng.normal(size=(n_clusters, N_FEATURES, N_FEATURES)) / np.sqrt(N_FEATURES)
    labels = rng.choice(n_clusters, ROWS_OF_CLASS * n_clusters, p=rng.dirichlet(np.full(n_clusters, 4.0)))
    noise = rng.normal(size=(len(labels), N_FEATURES))
    X = means[labels] + np.einsum("nij,nj->ni", maps[labels], noise)
    return (X - X.mean(axis=0)) / X.std(axis=0), labels


def measure_job(job: Job) -> Outcome | None:
    """Choose among all K on one table; None if the answers are too few to be held out."""
    rng = np.random.default_rng([51, job.draw, len(job.name)])
    X, truth = read(SUITE, job.name) if "/" in job.name else drawn_classes(rng, int(job.name))
    pairs = rng.integers(len(X), size=(int(job.share * len(X)), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    is_must = (truth[pairs[:, 0]] == truth[pairs[:, 1]]) == (rng.random(len(pairs)) < ACCURACY)
    layers = [Layer(MUST, pairs[is_must], None, None), Layer(CANNOT, pairs[~is_must], None, None)]
    choice = choose_clusters(
        feasible_counts(X, TRIED),
        lambda count: fit_any(X, layers, count, restarts=RESTARTS),
        max_share=share_allowed(X, layers, seed=0),
    )
    if any(candidate.held_out is None for candidate in choice.candidates):
        return None
    aris = {
        candidate.n_clusters: float(adjusted_rand(truth, candidate.result.best.labels))
        for candidate in choice.candidates
    }
    n_classes = len(np.unique(truth))
    numbers = [rule(choice) for rule in RULES.values()] + [min(n_classes, max(aris))]
    return Outcome([aris[number] for number in numbers], choice.chosen.n_clusters == n_classes)


def rows(jobs: list[Job], outcomes: list[Outcome | None]) -> Iterator[tuple[str, ...]]:
    """Yield the mean ARI of each kind of tables and number of answers."""
    for kind, share in dict.fromkeys((job.kind, job.share) for job in jobs):
        group = [
            outcome
            for job, outcome in zip(jobs, outcomes, strict=True)
            if outcome is not None and (job.kind, job.share) == (kind, share)
        ]
        means = np.mean([outcome.aris for outcome in group], axis=0)
        is_right = np.mean([outcome.is_right for outcome in group])
        yield kind, f"{share:g}", str(len(group)), *(f"{mean:.3f}" for mean in means), f"{is_right:.0%}"


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="Put the table into the documents.")
def main(write: bool) -> None:
    """See above."""
    names = [name for name in best_published(SUITE) if len(read(SUITE, name)[0]) <= MOST_ROWS]
    jobs = [Job(name, share, 0) for share in SHARES for name in names]
    jobs += [
        Job(str(number), share, draw) for share in SHARES for number in CLASS_COUNTS for draw in range(DRAWS)
    ]
    with Pool() as pool:
        outcomes = pool.map(measure_job, jobs, chunksize=1)
    show({OPEN.name: OPEN.markdown(rows(jobs, outcomes))}, write=write)
