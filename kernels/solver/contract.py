"""What every solver takes and gives.

A `Model` says what is fitted, a `Solver` has prepared it for some data: it chooses what is open (`Choice`),
fits (`kernels.fits.Fit`) and draws partitions (`Draws`). `kernels.solver.prepare` has the solver of a model.

A further kind of cluster is one class that implements `Solver`, its row in `SOLVERS` of
`kernels.solver.prepare`, and its row in `KINDS` of `kernels.structure`, which says when it is meant and what
follows for settings. A solver may hold another one: what transforms features, or merges samples, prepares the
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

from sweep_clustering.kernels.choice.criteria import Criteria
from sweep_clustering.kernels.choice.held_out import HeldOut, bar_of
from sweep_clustering.kernels.fits import Fit, Floats, Runner
from sweep_clustering.kernels.problem.data import Layer
from sweep_clustering.kernels.settings import MODEL_ANY, Settings
from sweep_clustering.kernels.structure import ANY, AUTO, Kind, Structure, kind_of

UNSUPERVISED = "unsupervised"

# Some rows of a table, and the annotations among them.
Part = tuple[Floats, Sequence[Layer]]


@dataclass(frozen=True)
class Model:
    """What is fitted.

    Parameters
    ----------
    term : str
        Annotation term of the objective, one of `kernels.settings.TERMS`.
    covariance : str
        Shape of the covariances; "auto" where it is chosen, "any" where everything is.
    settings : Settings
        Settings of the search and of the objective.
    structure : Structure or None
        What classes are made of, where that is open and was chosen before.
    """

    term: str
    covariance: str
    settings: Settings
    structure: Structure | None = None

    @classmethod
    def named(cls, name: str, covariance: str, settings: Settings) -> Model:
        """Return the model of a name and a covariance as people give them."""
        if name == MODEL_ANY:
            return cls("conditional", ANY, settings)
        return cls(
            "conditional" if covariance == ANY and name != UNSUPERVISED else name, covariance, settings
        )

    @property
    def name(self) -> str:
        """Name for people: the term, or that of classes of any shape."""
        return MODEL_ANY if self.covariance == ANY and self.term != UNSUPERVISED else self.term

    @property
    def kind(self) -> Kind:
        """Kind of the clusters."""
        return kind_of(self.covariance, self.settings)

    @property
    def is_open(self) -> bool:
        """Whether the shape, or everything, is still to be chosen."""
        return self.covariance in (AUTO, ANY) and self.structure is None


@dataclass(frozen=True, eq=False)
class Choice:
    """What clusters are made of, and what spoke for it.

    Parameters
    ----------
    name : str
        Name of what was chosen, as among the candidates.
    words : str
        The same for people who know no names of structures.
    covariance : str
        Shape of the Gaussians.
    shape : str
        Shape of the covariances of clusters: of classes of any shape "spherical".
    candidates : dict of str to HeldOut
        How well candidates predicted annotations that they had not seen, by name; none if nobody looked.
    base_rate : HeldOut or None
        Predictions by how often annotations are must-links.
    structure : Structure or None
        What classes are made of, where all of it was open.
    fits : tuple of Fit
        Fits of what was chosen, where it was tried with some; else none.
    notes, alarms : tuple of str
        What to know of the choice; those of the notes that say that the solution may be nonsense.
    has_no_skill : bool
        Whether no candidate predicted better than how often annotations are must-links.
    is_interrupted : bool
        Whether it is the best that there was when somebody pressed Ctrl-C.
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
    has_no_skill: bool = False
    is_interrupted: bool = False

    @property
    def predicted(self) -> HeldOut | None:
        """How well what was chosen predicted annotations, or else what all candidates had to beat."""
        bar = None if self.base_rate is None else bar_of(self.base_rate).predictions
        return self.candidates.get(self.name, bar)

    @property
    def by_shape(self) -> dict[str, HeldOut]:
        """Predictions by shape of the clusters: of structures there is that of the one chosen alone."""
        if self.name == self.shape:
            return self.candidates
        return {self.shape: self.candidates[self.name]} if self.name in self.candidates else {}


class Effort(NamedTuple):
    """How much is done for draws.

    Parameters
    ----------
    n_draws : int
        Partitions, of all chains together.
    burn_in, thin : int
        Sweeps of a chain before its first draw, and from one draw to the next.
    members : int
        Fits that draws of soft partitions come from: with one it is the solution alone, which is sure of what
        another fit denies.
    """

    n_draws: int
    burn_in: int
    thin: int
    members: int = 1


@dataclass(frozen=True, eq=False)
class Draws:
    """Partitions that features and annotations leave open.

    Parameters
    ----------
    labels : ndarray of shape (n_chains, n_draws, n_samples), int16
        Partitions.
    objectives : ndarray of shape (n_chains, n_draws), or None
        Objectives of the draws of chains; None where draws are independent.
    membership : ndarray of shape (n_samples, n_clusters), or None
        Probability of each label, where it is known without draws.
    starts : int
        Distinct fits that the chains started from.
    is_numbered : bool
        Whether clusters are numbered as those of the solution.
    """

    labels: NDArray[np.int16]
    objectives: Floats | None = None
    membership: Floats | None = None
    starts: int = 1
    is_numbered: bool = True


class Solver(ABC):
    """A model prepared for some data: what all of its fits share is computed once.

    Parameters
    ----------
    model : Model
        What is fitted.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotations; the term "unsupervised" does not see them.
    n_clusters : int
        K.
    seed : numpy.random.SeedSequence
        Seed of choices; fits have streams of their own.
    run : callable
        As `map`; calls may run at once.
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
        """Prepare what all fits share."""

    @property
    def feature_weight(self) -> float:
        """Weight of the features in the objective."""
        return 1.0

    @property
    def kept(self) -> NDArray[np.int64]:
        """Features on which the Gaussians have a density."""
        return np.arange(self.X.shape[1])

    @abstractmethod
    def warm_up(self, *, predict: bool = False) -> None:
        """Load the kernels that fits need, or compile them; those of predictions, too, if asked for."""

    @abstractmethod
    def choose(
        self, streams: Sequence[SeedSequence] = (), *, predict: bool = False, part: Part | None = None
    ) -> Choice:
        """Choose what is open, as annotations speak for it; later fits are of what was chosen.

        Parameters
        ----------
        streams : sequence of numpy.random.SeedSequence
            Streams of the restarts that a choice may be tried with.
        predict : bool
            Whether annotations are held out also where nothing is open.
        part : (X, layers), optional
            Some rows to choose from, with the annotations among them, in place of all.

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
            A partition to begin with, for solvers that can.
        """

    @abstractmethod
    def draws(self, fits: Sequence[Fit], best: int, stream: SeedSequence, effort: Effort) -> Draws:
        """Draw partitions around a solution.

        Parameters
        ----------
        fits : sequence of Fit
            All fits of what was chosen; chains may start from several.
        best : int
            Which of them is the solution.
        stream : numpy.random.SeedSequence
            The only source of randomness.
        effort : Effort
            How much is done.
        """

    @abstractmethod
    def criteria(self, fit: Fit) -> Criteria:
        """Return the criteria by which fits of other numbers of clusters compare."""

    def solve(
        self,
        streams: Sequence[SeedSequence],
        *,
        predict: bool = False,
        part: Part | None = None,
        start: NDArray[np.int16] | None = None,
    ) -> Choice:
        """Choose what is open, and fit it with every stream; the first fit may begin with a partition."""
        choice = self.choose(streams, predict=predict, part=part)
        if choice.fits:
            return choice

        def fit(number: int) -> Fit:
            return self.restart(streams[number], None if number else start)

        return replace(choice, fits=tuple(self.run(fit, range(len(streams)))))

    def salvage(self, done: Sequence[tuple[Any, Any]]) -> Choice | None:
        """Return the best that there is after Ctrl-C, None if there is nothing.

        Parameters
        ----------
        done : sequence of tuple
            Argument and result of each call that `run` has ended.
        """
        return None
