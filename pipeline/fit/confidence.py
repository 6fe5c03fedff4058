"""Confidence in the labels of a solution: shares of draws (docs/model.md, sections 9 and 12)."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import Fit, Floats
from sweep_clustering.kernels.solver.contract import Effort, Solver
from sweep_clustering.kernels.solver.prepare import CHAINS
from sweep_clustering.pipeline.common import plural

EFFORT = Effort(n_draws=1000, burn_in=250, thin=4)

# Largest number of labels in all draws, 200 MB: with more than 100,000 samples there are fewer draws.
LARGEST = 10**8

# First place of the spawn keys of draws; those of restarts have one place only.
STREAM = 1

# A larger R-hat gives a note that chains disagree.
LARGEST_R_HAT = 1.1

# A smaller agreement gives the same note; good chains of 10,000 samples come near it.
LEAST_AGREEMENT = 0.5

# Labels of less confidence are counted as unsure.
UNSURE = 0.9


@dataclass(frozen=True, eq=False)
class Confidence:
    """Partitions drawn with probability proportional to exp(objective), and the confidence by them.

    The parameters are at their best for each partition, not integrated over.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), int16
        Labels of the solution.
    label_draws : ndarray of shape (n_draws, n_samples), int16
        Partitions, chain after chain; their clusters are numbered to share as many labels as possible with
        the solution.
    membership : ndarray of shape (n_samples, n_clusters)
        Share of the draws in which a sample is in a cluster; rows add up to 1.
    r_hat : float
        Split R-hat of the objective or of the agreement with the solution, whichever is larger: near 1 if
        chains agree, infinite if none of them moves and they differ.
    chain_agreement : float
        1 less the largest difference between the memberships of two chains.
    starts : int
        Number of distinct restarts that the chains started from.
    seconds : float
        Elapsed time of the chains, compilation of kernels included.
    """

    labels: NDArray[np.int16]
    label_draws: NDArray[np.int16]
    membership: Floats
    r_hat: float
    chain_agreement: float
    starts: int
    seconds: float

    @property
    def confidence(self) -> Floats:
        """Membership of each sample in the cluster of its label, as an array of shape (n_samples,)."""
        return self.membership[np.arange(len(self.labels)), self.labels]

    @property
    def expected_accuracy(self) -> float:
        """Mean confidence, the share of labels that is right if the model is."""
        return float(self.confidence.mean())

    def to_json(self) -> dict[str, Any]:
        """Return arrays and values that strict JSON can hold."""
        names = ("membership", "confidence", "expected_accuracy", "r_hat", "chain_agreement")
        values = {name: getattr(self, name) for name in names}
        return values | {"r_hat": self.r_hat if np.isfinite(self.r_hat) else None}

    @property
    def words(self) -> str:
        """The share of labels that is expected right, and the number of unsure ones."""
        unsure = f"{int((self.confidence < UNSURE).sum())} below {UNSURE:g}"
        return f"{self.expected_accuracy:.3f} of the labels expected right, if the model is; {unsure}"

    def lines(self) -> list[str]:
        """Return two lines for people."""
        agree = f"R-hat {self.r_hat:.3f}, agreement {self.chain_agreement:.3f}, {self.seconds:.3f} s"
        starts = plural(self.starts, "distinct restart")
        return [f"confidence {self.words}", f"chains     {CHAINS} from {starts}, {agree}"]

    def notes(self) -> Iterator[str]:
        """Say if chains disagree."""
        if self.r_hat > LARGEST_R_HAT or self.chain_agreement < LEAST_AGREEMENT:
            yield (
                f"chains disagree: R-hat {self.r_hat:.3g}, and memberships differ by up to"
                f" {1 - self.chain_agreement:.2g}; the confidence depends on where chains start"
            )


def find_confidence(solver: Solver, fits: Sequence[Fit], best: int, seed: int) -> Confidence:
    """Draw partitions around the best of the fits of a solver, and return the confidence in its labels.

    Chain c draws from `SeedSequence(seed, spawn_key=(1, c))`, and starts from the best fit, the next distinct
    one, and so on in turn.
    """
    began, labels, clusters = time.perf_counter(), fits[best].labels, range(solver.n_clusters)
    effort = EFFORT._replace(n_draws=min(EFFORT.n_draws, LARGEST // len(labels)))
    draws = solver.draws(fits, best, SeedSequence(seed, spawn_key=(STREAM,)), effort)
    r_hat, agreement, membership = 1.0, 1.0, draws.membership
    if membership is None:
        shares = np.array(
            [np.stack([(chain == k).mean(axis=0) for k in clusters], axis=1) for chain in draws.labels]
        )
        membership, agreement = shares.mean(axis=0), 1.0 - float(np.ptp(shares, axis=0).max())
    if draws.objectives is not None:
        agreements = (draws.labels == labels).mean(axis=2)
        r_hat = max(split_r_hat(draws.objectives), split_r_hat(agreements))
    return Confidence(
        labels=labels,
        label_draws=np.concatenate(draws.labels),
        membership=membership,
        r_hat=r_hat,
        chain_agreement=agreement,
        starts=draws.starts,
        seconds=time.perf_counter() - began,
    )


def split_r_hat(values: Floats) -> float:
    """Return Gelman and Rubin's R-hat of values by chain and draw, with each chain cut into halves.

    It is 1 if all values are the same, and infinite if they differ between halves alone. An odd draw in the
    middle is left out.
    """
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    # Differences by rounding, such as those of one objective computed along two paths, do not count.
    rounding = 1e-9 * (1.0 + float(np.abs(values).max()))
    within = float(halves.var(axis=1, ddof=min(1, half - 1)).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    if within <= rounding**2:
        return 1.0 if between <= rounding**2 else np.inf
    return float(np.sqrt((half - 1) / half + between / within))
