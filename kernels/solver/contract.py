"""The contract of solvers, and the records that they take and return.

A `Solver` has prepared a `Model` for some data. It chooses the parts of the model that are open (`Choice`),
fits it (`kernels.fits.Fit`) and draws partitions (`Draws`). `kernels.solver.prepare` finds the solver of a
model.

A further kind of cluster is one class that implements `Solver`, its row in `SOLVERS` of
`kernels.solver.prepare`, and its row in `KINDS` of `kernels.structure`, which says when it is meant and which
settings it uses. A solver may hold another one. If it transforms features, or merges samples, it prepares the
inner solver with other data, and maps labels, centroids and draws back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from sweep_clustering.kernels.choice import Criteria, HeldOut, Skill, bar_of
from sweep_clustering.kernels.fits import Fit, Floats, Runner
from sweep_clustering.kernels.problem.data import Layer
from sweep_clustering.kernels.settings import MODEL_ANY, Settings
from sweep_clustering.kernels.structure import ANY, AUTO, GROUPS, Kind, Structure, kind_of

UNSUPERVISED = "unsupervised"

# Some rows of a table, and the annotations among them.
Part = tuple[Floats, Sequence[Layer]]


@dataclass(frozen=True)
class Model:
    """A model of the data, some parts of which may be open.

    Parameters
    ----------
    term : str
        Annotation term of the objective, one of `kernels.settings.TERMS`.
    covariance : str
        Shape of the covariances; "auto" if it is open, "any" if everything is.
    settings : Settings
        Settings of the search and of the objective.
    structure : Structure or None
        Structure of the classes if everything is open and a choice was made before.
    has_groups : bool
        Whether merged groups are compared with structures if everything is open.
    """

    term: str
    covariance: str
    settings: Settings
    structure: Structure | None = None
    has_groups: bool = False

    @classmethod
    def from_name(cls, name: str, covariance: str, settings: Settings) -> Model:
        """Return the model that people mean by a name and a covariance."""
        if name == MODEL_ANY:
            return cls("conditional", ANY, settings)
        if covariance == GROUPS:
            return replace(cls.from_name(name, ANY, settings), has_groups=True)
        term = "conditional" if covariance == ANY and name != UNSUPERVISED else name
        return cls(term, covariance, settings)

    @property
    def name(self) -> str:
        """Name for people: the term, or the name of classes of any shape."""
        return MODEL_ANY if self.covariance == ANY and self.term != UNSUPERVISED else self.term

    @property
    def kind(self) -> Kind:
        """Kind of the clusters."""
        return kind_of(self.covariance, self.settings)

    @property
    def is_open(self) -> bool:
        """Whether the shape, or the whole structure, is still to be chosen."""
        return self.covariance in (AUTO, ANY) and self.structure is None


@dataclass(frozen=True, eq=False)
class Choice:
    """A shape or structure of clusters, and how well the candidates predicted held-out annotations.

    Parameters
    ----------
    name : str
        Name of the candidate that was chosen.
    words : str
        The same in words for people who do not know the names of structures.
    covariance : str
        Shape of the Gaussians.
    shape : str
        Shape of the covariances of clusters; "spherical" for classes of any shape.
    candidates : dict of str to HeldOut
        Predictions of held-out annotations by each candidate; empty if no annotations were held out.
    base_rate : HeldOut or None
        Predictions by how often annotations are must-links.
    structure : Structure or None
        Structure of the classes if all of it was open.
    fits : tuple of Fit
        Fits of the chosen candidate, if the choice made some.
    notes : tuple of str
        Sentences for people about the choice.
    alarms : tuple of str
        Sentences which say that the solution may be nonsense.
    skill : Skill or None
        Predictions of the chosen candidate beside distance, if merged groups were compared.
    has_no_skill : bool
        Whether no candidate predicted better than how often annotations are must-links.
    n_averaged : int
        Number of fits that the only one of `fits` is an average of; 0 if it is none.
    is_interrupted : bool
        Whether Ctrl-C ended the choice before all candidates or restarts were done.
    """

    name: str
    words: str
    covariance: str
    shape: str
    candidates: dict[str, HeldOut]
    base_rate: HeldOut | None = None
    structure: Structure | None = None
    fits: tuple[Fit, ...] = ()
    notes: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    skill: Skill | None = None
    has_no_skill: bool = False
    n_averaged: int = 0
    is_interrupted: bool = False

    @property
    def predictions(self) -> HeldOut | None:
        """Predictions of the chosen candidate, or else those that all candidates had to beat."""
        bar = None if self.base_rate is None else bar_of(self.base_rate).predictions
        return self.candidates.get(self.name, bar)

    @property
    def by_shape(self) -> dict[str, HeldOut]:
        """Predictions by shape of the clusters; of structures only those of the chosen one."""
        if self.name == self.shape:
            return self.candidates
        return {self.shape: self.candidates[self.name]} if self.name in self.candidates else {}


class Effort(NamedTuple):
    """Numbers of draws, and of the steps and fits behind them.

    Parameters
    ----------
    n_draws : int
        Number of partitions from all chains together.
    burn_in : int
        Sweeps of a chain before its first draw.
    thin : int
        Sweeps of a chain from one draw to the next.
    members : int
        Fits that draws of soft partitions come from. If it is 1, all come from the solution, which is sure of
        things that another fit denies.
    """

    n_draws: int
    burn_in: int
    thin: int
    members: int = 1


@dataclass(frozen=True, eq=False)
class Draws:
    """Partitions that are likely, given features and annotations.

    Parameters
    ----------
    labels : ndarray of shape (n_chains, n_draws, n_samples), int16
        Partitions.
    objectives : ndarray of shape (n_chains, n_draws), or None
        Objectives of the draws of chains; None if draws are independent.
    membership : ndarray of shape (n_samples, n_clusters), or None
        Probability of each label, if the solver knows it without draws.
    starts : int
        Distinct fits that the chains started from.
    is_numbered : bool
        Whether clusters have the numbers that they have in the solution.
    """

    labels: NDArray[np.int16]
    objectives: Floats | None = None
    membership: Floats | None = None
    starts: int = 1
    is_numbered: bool = True


class Solver(ABC):
    """A model prepared for some data, with everything that its fits share.

    Parameters
    ----------
    model : Model
        Model to fit.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotations; the term "unsupervised" does not see them.
    n_clusters : int
        Number of clusters.
    seed : numpy.random.SeedSequence
        Seed of choices; fits have streams of their own.
    run : callable
        Function that works as `map` does; its calls may run at the same time.
    """

    def __init__(
        self,
        model: Model,
        X: Floats,
        layers: Sequence[Layer],
        n_clusters: int,
        seed: SeedSequence,
        run: Runner = map,
    ) -> None:
        self.model, self.X, self.layers, self.n_clusters = model, X, layers, n_clusters
        self.seed, self.run = seed, run
        self.set_up()

    @abstractmethod
    def set_up(self) -> None:
        """Prepare everything that all fits share."""

    @property
    def feature_weight(self) -> float:
        """Weight of the features in the objective."""
        return 1.0

    @property
    def features_used(self) -> NDArray[np.int64]:
        """Numbers of the features in which the Gaussians have a density."""
        return np.arange(self.X.shape[1])

    @abstractmethod
    def warm_up(self, *, predict: bool = False) -> None:
        """Load or compile the kernels of fits, and with `predict` those of predictions too."""

    @abstractmethod
    def choose(
        self, streams: Sequence[SeedSequence] = (), *, predict: bool = False, part: Part | None = None
    ) -> Choice:
        """Choose the candidate that annotations speak for, which later fits use.

        Parameters
        ----------
        streams : sequence of numpy.random.SeedSequence
            Streams of restarts that the choice may make.
        predict : bool
            Whether annotations are held out even if nothing is open.
        part : (X, layers), optional
            Rows to choose by, with the annotations among them, in place of all rows.

        Raises
        ------
        ValueError
            If the problem admits no solution.
        """

    @abstractmethod
    def restart(self, stream: SeedSequence, start: NDArray[np.int16] | None = None) -> Fit:
        """Fit once.

        Parameters
        ----------
        stream : numpy.random.SeedSequence
            The only source of randomness.
        start : ndarray of shape (n_samples,), int16, optional
            Partition to begin with; some solvers ignore it.
        """

    @abstractmethod
    def draws(self, fits: Sequence[Fit], best: int, stream: SeedSequence, effort: Effort) -> Draws:
        """Draw partitions around a solution.

        Parameters
        ----------
        fits : sequence of Fit
            All fits of the chosen candidate; chains may start from several.
        best : int
            Number of the fit that is the solution.
        stream : numpy.random.SeedSequence
            The only source of randomness.
        effort : Effort
            Numbers of draws, steps and fits.
        """

    @abstractmethod
    def criteria(self, fit: Fit) -> Criteria:
        """Return the criteria by which fits of other numbers of clusters compare."""

    def average(self, choice: Choice, streams: Sequence[SeedSequence]) -> Choice:
        """Return a choice whose fits are averaged with those of other candidates, if that helps."""
        return choice

    def solve(
        self,
        streams: Sequence[SeedSequence],
        *,
        predict: bool = False,
        part: Part | None = None,
        start: NDArray[np.int16] | None = None,
    ) -> Choice:
        """Choose, and fit with every stream; the first fit may begin with a partition."""
        choice = self.choose(streams, predict=predict, part=part)
        if choice.fits:
            return self.average(choice, streams)

        def fit(number: int) -> Fit:
            return self.restart(streams[number], None if number else start)

        return replace(choice, fits=tuple(self.run(fit, range(len(streams)))))

    def evidence(self, fit: Fit, samples: NDArray[np.int64]) -> Floats:
        """Return the log-probabilities of the clusters of some samples, up to a constant; nats."""
        raise NotImplementedError

    def relabel(self, fit: Fit, samples: NDArray[np.int64], shares: Floats) -> Fit:
        """Return the fit with other shares of the clusters in some samples, and what follows from them."""
        raise NotImplementedError

    def salvage(self, calls: Sequence[tuple[Any, Any]]) -> Choice | None:
        """Return the best choice after Ctrl-C, or None if nothing was done.

        Parameters
        ----------
        calls : sequence of tuple
            Argument and result of each call of `run` that ended.
        """
        return None
