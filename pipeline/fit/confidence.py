"""How sure a solution is of each label: shares of draws from chains (docs/model.md, section 9)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.problem.problem import Problem
from kernels.search.genetic import CLONE, Restart
from kernels.search.sampling import Length, run_chain

CHAINS = 4
LENGTH = Length(burn_in=250, draws=250, thin=4)

REACH = 10.0
"""Nats below the best restart, up to which another one starts a chain."""

LARGEST = 10**8
"""Labels of all draws together, 200 MB: with more than 100,000 samples fewer draws are kept."""

STREAM = 1
"""First place of the spawn keys of chains; those of restarts have one place only."""

LARGEST_R_HAT, LEAST_AGREEMENT = 1.1, 0.5
"""Beyond either, a note says that chains disagree; good chains of 10,000 samples come near the second."""

PAIRS_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False)
class Confidence:
    """Partitions drawn with probability proportional to exp(objective), and what they say.

    The parameters are at their best for each partition, not integrated over.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), int16
        The solution.
    draws : ndarray of shape (n_draws, n_samples), int16
        Partitions, chain after chain; their clusters are numbered to share as many labels as possible with
        the solution.
    membership : ndarray of shape (n_samples, n_clusters)
        Share of the draws in which a sample is in a cluster; rows add up to 1.
    r_hat : float
        Split R-hat of the objective or of the agreement with the solution, whichever is larger: near 1 if
        chains agree, infinite if none of them moves and they differ.
    chain_agreement : float
        1 less the largest difference between the memberships of two chains.
    chains, starts : int
        Chains, and distinct restarts that they started from.
    seconds : float
        Elapsed in the chains, compilation of kernels included.
    """

    labels: NDArray[np.int16]
    draws: NDArray[np.int16]
    membership: NDArray[np.float64]
    r_hat: float
    chain_agreement: float
    chains: int
    starts: int
    seconds: float

    @property
    def confidence(self) -> NDArray[np.float64]:
        """Membership of each sample in the cluster of its label, of shape (n_samples,)."""
        return self.membership[np.arange(len(self.labels)), self.labels]

    @property
    def expected_accuracy(self) -> float:
        """Mean confidence: the share of labels that is right, if the model is."""
        return float(self.confidence.mean())

    def to_json(self) -> dict[str, Any]:
        """Values that strict JSON can hold."""
        return {
            "membership": self.membership.tolist(),
            "confidence": self.confidence.tolist(),
            "expected_accuracy": self.expected_accuracy,
            "r_hat": self.r_hat if np.isfinite(self.r_hat) else None,
            "chain_agreement": self.chain_agreement,
        }

    def notes(self) -> Iterator[str]:
        """Say where chains disagree."""
        if self.r_hat > LARGEST_R_HAT or self.chain_agreement < LEAST_AGREEMENT:
            yield (
                f"chains disagree: R-hat {self.r_hat:.3g}, and memberships differ by up to"
                f" {1 - self.chain_agreement:.2g}; the confidence depends on where chains start"
            )


def find_confidence(problem: Problem, runs: Sequence[Restart], best: int, seed: int) -> Confidence:
    """Run chains from the best distinct restarts.

    Chain c draws from `SeedSequence(seed, spawn_key=(1, c))`, and starts from the best restart, the next
    distinct one, and so on in turn.

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    runs : sequence of Restart
        All restarts.
    best : int
        Which of them is the solution.
    seed : int
        Of all randomness.
    """
    began = time.perf_counter()
    starts = distinct_starts(runs, best)
    labels = runs[best].labels
    draws = max(2, min(LENGTH.draws, LARGEST // (CHAINS * len(labels))))
    chains = [
        run_chain(
            problem,
            starts[chain % len(starts)].labels,
            labels,
            LENGTH._replace(draws=draws),
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, chain))),
        )
        for chain in range(CHAINS)
    ]
    shares = np.array([_membership(chain.labels, problem.n_clusters) for chain in chains])
    agreements = np.array([(chain.labels == labels).mean(axis=1) for chain in chains])
    return Confidence(
        labels=labels,
        draws=np.concatenate([chain.labels for chain in chains]),
        membership=shares.mean(axis=0),
        r_hat=max(split_r_hat(np.array([chain.objectives for chain in chains])), split_r_hat(agreements)),
        chain_agreement=1.0 - float(np.ptp(shares, axis=0).max()),
        chains=CHAINS,
        starts=min(len(starts), CHAINS),
        seconds=time.perf_counter() - began,
    )


def distinct_starts(runs: Sequence[Restart], best: int) -> list[Restart]:
    """The solution, then other restarts within reach, best first, without clones (model.md, section 3)."""
    starts = [runs[best]]
    for run in sorted(runs, key=lambda run: -run.objective):
        is_near = run.objective >= runs[best].objective - REACH
        if is_near and not any(_are_clones(run, start) for start in starts):
            starts.append(run)
    return starts


def _are_clones(first: Restart, second: Restart) -> bool:
    is_close = abs(first.objective - second.objective) <= CLONE
    return is_close and bool((np.sort(first.sizes) == np.sort(second.sizes)).all())


def _membership(draws: NDArray[np.int16], n_clusters: int) -> NDArray[np.float64]:
    return np.stack([(draws == k).mean(axis=0) for k in range(n_clusters)], axis=1)


def split_r_hat(values: NDArray[np.float64]) -> float:
    """Gelman and Rubin's R-hat of chains cut into halves.

    Parameters
    ----------
    values : ndarray of shape (n_chains, n_draws)
        A number for each draw; an odd one in the middle is left out.

    Returns
    -------
    float
        1 if all values are the same; infinite if they differ between halves alone.
    """
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    # Differences by rounding, such as of one objective computed along two paths, are none.
    rounding = 1e-9 * (1.0 + float(np.abs(values).max()))
    within = float(halves.var(axis=1, ddof=min(1, half - 1)).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    if within <= rounding**2:
        return 1.0 if between <= rounding**2 else np.inf
    return float(np.sqrt((half - 1) / half + between / within))


def together(draws: NDArray[np.int16], pairs: NDArray[np.integer]) -> NDArray[np.float64]:
    """Share of the draws in which the two samples of a pair are in one cluster.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_samples)
        Labels.
    pairs : ndarray of shape (n_pairs, 2)
        Samples from 0.

    Returns
    -------
    ndarray of shape (n_pairs,)
    """
    shares = np.empty(len(pairs))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        some = slice(start, start + PAIRS_AT_ONCE)
        first, second = draws[:, pairs[some, 0]], draws[:, pairs[some, 1]]
        shares[some] = (first == second).mean(axis=0)
    return shares
