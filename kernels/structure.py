"""Structures of clusters with their words, codes and costs, and the kinds of clusters.

A `Structure` says in which coordinates the Gaussians of a class stand, how many each class has, and their
shape. `KINDS` says which settings and data go with a kind of clusters; the solver of each kind is in
`kernels.solver`. Only the standard library is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

# Shapes of the covariances: one variance for each cluster, or for all; one for each cluster and feature; one
# matrix for all clusters, or one for each.
COVARIANCES = ("spherical", "common", "diagonal", "tied", "full")

# Shape, or number, that the annotations choose.
AUTO = "auto"

# Shapes to choose from, the simplest first.
CANDIDATES = ("spherical", "diagonal", "tied", "full")

# Covariance if shape, components and subspace are all chosen (`kernels.unions.race`).
ANY = "any"

# The same, with classes of merged groups among the candidates (`kernels.unions.contest`).
GROUPS = "groups"

# Coordinates of the components: the features as they are, or directions along which classes differ.
NONE = "none"
DISCRIMINATIVE = "discriminative"

# A partition that neither annotations nor a likelihood made.
KMEANS = "k-means"

# Classes of small groups that were merged, by the mean of what speaks for that or by Ward's criterion.
AVERAGE = "average linkage"
WARD = "Ward's linkage"
LINKAGES = (AVERAGE, WARD)

# Classes that start from the answers alone, by eigenvectors of their signed graph.
SIGNED = "signed graph"

# Classes that linear functions of the features tell apart, which start from classes of merged groups.
LINEAR = "linear"

# Classes of single rows that were merged, and divided into small groups afterwards: by average linkage, or by
# Genie's linkage, with the Gini index of the sizes above which it merges one of the smallest classes.
ROWS = "average linkage of rows"
GENIE = {f"Genie {gini}": gini for gini in (0.1, 0.5)}
OF_ROWS = (ROWS, *GENIE)
MERGED_KINDS = (*LINKAGES, SIGNED, LINEAR, *OF_ROWS)

# Merged groups, Gaussians by their shape, and coordinates, in words.
ARE = "the classes are "
GROUP_WORDS = {linkage: f"small groups of rows merged by {linkage}" for linkage in LINKAGES}
GROUP_WORDS[ROWS] = "rows merged by average linkage"
GROUP_WORDS |= {
    name: f"rows merged by Genie's linkage with the Gini index {gini}" for name, gini in GENIE.items()
}
GROUP_WORDS[SIGNED] = "groups that the answers suggest, refined by the features"
BODIES = {
    "spherical": ("ball", ""),
    "common": ("ball", ", all of one size"),
    "diagonal": ("ellipsoid", " along the axes"),
    "tied": ("ellipsoid", ", all of one shape"),
    "full": ("ellipsoid", ""),
}

# Log odds, nats, to try for answers whose accuracy is not given. Cubes of models without merged groups have
# the bits of the first ones.
ODDS = (0.7, 1.5, 3.0, 5.0)
FIRST_ODDS = ODDS[:3]

# Spaces that answers teach: any directions, or weights of the features alone.
METRIC = "metric"
WEIGHTS = "weights"

# Codes of a structure in a cube; below 0 they are words of a subspace.
STRUCTURE: tuple[str, ...] = ("subspace", "components", "covariance", "proportions", "annotated")
STRUCTURE += ("first_subspace", "first_components", "first_covariance")
LEARNED = {METRIC: ", in a metric from the answers", WEIGHTS: ", in features weighted by the answers"}
PLACES = {
    DISCRIMINATIVE: "in the directions that separate the classes",
    METRIC: "by distances learned from the answers",
    WEIGHTS: "in features weighted by the answers",
}
SHAPES = (*COVARIANCES, KMEANS, *MERGED_KINDS)
SPACES = {NONE: 0, DISCRIMINATIVE: -2, METRIC: -3, WEIGHTS: -4}
PROPORTIONS = ("equal", "free")


class Structure(NamedTuple):
    """Components of each class, their shape and their coordinates.

    Parameters
    ----------
    subspace : int or str
        Number of principal components that are the coordinates; "none" for the features as they are;
        "discriminative" for directions along which the classes of a first fit differ.
    components : int
        Gaussians of each class at the start.
    covariance : str
        Shape of the Gaussians; or "k-means".
    proportions : str
        "free" or "equal".
    annotated : bool
        Whether annotations take part in the fit; they choose in any case.
    first : Structure, optional
        Structure of the first fit of discriminative directions.
    odds : float
        Log odds, nats, for all answers whose accuracy is not given; 0 if a soft fit estimates it, or merged
        groups take the usual one.
    """

    subspace: int | str
    components: int
    covariance: str
    proportions: str = "free"
    annotated: bool = True
    first: Structure | None = None
    odds: float = 0.0

    def __str__(self) -> str:
        if self.covariance == KMEANS:
            return KMEANS
        if self.covariance == LINEAR:
            return f"linear functions, from {self.first}"
        if self.covariance in MERGED_KINDS:
            text = f"{self.covariance}, {self.components} a class{self._place}{self._sureness}"
            return text if self.annotated else f"{text}, without annotations"
        text = f"{self.components} {self.covariance}"
        if self.subspace == DISCRIMINATIVE:
            text += f" along discriminative directions of {self.first}"
        elif self.subspace != NONE:
            text += f" in {self.subspace} principal components"
        text += "" if self.proportions == "free" else ", equal"
        text += self._sureness
        return text if self.annotated else f"{text}, without annotations"

    @property
    def _place(self) -> str:
        if isinstance(self.subspace, int):
            return f", in {self.subspace} principal components"
        return LEARNED.get(self.subspace, "")

    @property
    def _sureness(self) -> str:
        return f", answers {1.0 / (1.0 + math.exp(-self.odds)):.0%} right" if self.odds else ""

    @property
    def words(self) -> str:
        """The structure in words for people who do not know the names of structures."""
        if self.covariance == KMEANS:
            return "each row belongs to the nearest of the centers, as in k-means"
        if self.covariance == LINEAR and self.first is not None:
            start = self.first.words.removeprefix(ARE)
            return f"linear functions of the features separate the classes, which at first were {start}"
        if self.covariance in GROUP_WORDS:
            parts = [ARE + GROUP_WORDS[self.covariance]]
            parts += ["with one center each"] if self.covariance in LINKAGES and self.components == 1 else []
        else:
            noun, kind = BODIES[self.covariance]
            count = f"one {noun}" if self.components == 1 else f"{self.components} {noun}s"
            parts = [f"each class is {count}{kind}"]
        if isinstance(self.subspace, int):
            parts.append(f"in the first {self.subspace} principal components")
        elif self.subspace != NONE:
            parts.append(PLACES[self.subspace])
        if self.covariance in BODIES and self.proportions == "equal":
            parts.append("all classes equally likely")
        parts += [] if self.annotated else ["found without the answers"]
        return ", ".join(parts) + self._sureness.replace("answers", "with answers taken to be")

    @property
    def codes(self) -> tuple[int, ...]:
        """Whole numbers that a cube holds, one for each of `STRUCTURE`.

        That of `annotated` is 0 or 1, plus twice the number of the log odds in `ODDS`, from 1 on.
        """
        first = (-1, -1, -1) if self.first is None else self.first.codes[:3]
        assumed = 2 * (0.0, *ODDS).index(self.odds)
        flags = PROPORTIONS.index(self.proportions), int(self.annotated) + assumed
        space = SPACES.get(str(self.subspace), self.subspace)
        return (int(space), self.components, SHAPES.index(self.covariance), *flags, *first)

    def n_dims(self, n_features: int, n_classes: int) -> int:
        """Return the number of coordinates; in a space that answers teach, the largest."""
        if self.subspace == DISCRIMINATIVE:
            return min(n_classes - 1, n_features) or 1
        if self.subspace in LEARNED:
            return min(MOST_LEARNED, n_features)
        return n_features if isinstance(self.subspace, str) else min(self.subspace, n_features)

    @classmethod
    def from_codes(cls, codes: Sequence[int]) -> Structure:
        """Return the structure of some codes.

        Raises
        ------
        ValueError
            If no structure has these codes.
        """
        codes, flags = tuple(map(int, codes)), range(2 * len(ODDS) + 2)
        is_placed = len(codes) == len(STRUCTURE) and (codes[0] > 0 or codes[0] in SPACES.values())
        is_flagged = is_placed and codes[3] in (0, 1) and codes[4] in flags
        if not (is_flagged and codes[1] > 0 and codes[2] in range(len(SHAPES))):
            raise ValueError(f"codes {codes} of what classes are made of")
        words = {code: word for word, code in SPACES.items()}
        first = None if codes[6] < 1 else cls.from_codes((*codes[5:], *codes[3:5], -1, -1, -1))
        structure = cls(
            words.get(codes[0], codes[0]),
            codes[1],
            SHAPES[codes[2]],
            PROPORTIONS[codes[3]],
            bool(codes[4] % 2),
            None if first is None else first._replace(proportions="free", annotated=True, odds=0.0),
            (0.0, *ODDS)[codes[4] // 2],
        )
        if structure.codes != codes or (structure.covariance == LINEAR and first is None):
            raise ValueError(f"codes {codes} of what classes are made of")
        return structure


def named_structure(subspace: int | str, components: int | str, covariance: str) -> Structure:
    """Return a structure without options: with the names that are there, and the simplest of the others."""
    space, count = NONE if subspace == AUTO else subspace, 1 if components == AUTO else int(components)
    first = Structure(NONE, 1, covariance) if space == DISCRIMINATIVE else None
    return Structure(space, count, covariance, first=first)


# The costs of structures, and which of them are tried. The lengths of rows in a cube (`sweeps.shapes`) follow
# from these numbers, so that they are part of its format, version 3.

# Limit of the principal components that are tried, beside the features as they are.
MOST_DIMS = 30

# Most Gaussians of all classes together.
MOST_COMPONENTS = 160

# The same as a share of the samples.
SPARSEST = 0.25

# Most operations of a step: beyond it, a candidate costs more than it can be worth.
DEAREST = 1e8

# Operations for each dimension: a step of few dimensions takes the sums over samples, whatever the shape.
SCATTERED = 4

# Operations that a step costs beside its dimensions (`single_operations`).
STEP_OVERHEAD = 40

# Fewest rows of the part of a large table on which structures and restarts are compared.
PART = 4_000

# Rows of that part for each class.
PART_OF_CLASS = 50


def most_components(covariance: str, n_samples: int, n_dims: int, n_classes: int) -> int:
    """Return how many Gaussians of each class a choice tries at most; 0 if a single one is too dear."""
    affordable = int(DEAREST // operations(covariance, n_samples, n_dims, n_classes))
    return min(affordable, most_supported(covariance, n_samples, n_classes))


def most_supported(covariance: str, n_samples: int, n_classes: int) -> int:
    """Return how many Gaussians of each class so many samples can tell apart, at least 1."""
    if covariance in ("tied", KMEANS):
        return 1
    return max(int(min(MOST_COMPONENTS, SPARSEST * n_samples) // n_classes), 1)


def part_size(n_classes: int) -> int:
    """Return the rows of the part of a large table, which has at least twice as many."""
    return max(PART, PART_OF_CLASS * n_classes)


def wide_dims(n_dims: int, n_classes: int) -> tuple[int, ...]:
    """Return numbers of principal components above `MOST_DIMS` to try: K classes differ in K directions."""
    return (n_classes,) if MOST_DIMS < n_classes <= n_dims // 2 else ()


def operations(covariance: str, n_samples: int, n_dims: int, n_classes: int) -> int:
    """Return the operations of a step of a fit with one Gaussian a class."""
    return n_samples * n_classes * n_dims * (n_dims if covariance in ("tied", "full") else SCATTERED)


def single_operations(n_samples: int, n_dims: int, n_classes: int) -> int:
    """Return the operations of a step of a fit with one Gaussian a class that has variances alone."""
    # The cost was measured: in many dimensions samples are read once for several Gaussians. Rows of a cube
    # (`sweeps.shapes`) always have room for this structure, so that its cost does not change their format.
    return n_samples * n_classes * min(SCATTERED * n_dims, n_dims + STEP_OVERHEAD)


# Classes above which structures are not chosen by annotations, of which each class has too few.
MANY_CLASSES = 30

# Features, or principal components, at most, that groups are merged in.
MOST_LEARNED = 100

# Groups that are merged: so many rows each on average, so many groups at most, and for each class at least.
GROUP_ROWS = 3
MOST_GROUPS = 900
GROUPS_OF_CLASS = 3

# Rows, at most, where single rows are merged: it takes five numbers for every two rows.
MOST_ROWS = 4_000


def n_groups(n_samples: int, n_classes: int) -> int:
    """Return how many small groups are merged into so many classes."""
    return min(n_samples, max(min(n_samples // GROUP_ROWS, MOST_GROUPS), GROUPS_OF_CLASS * n_classes))


def merged_structures(
    n_samples: int, n_features: int, n_classes: int, n_pairs: int = 0
) -> tuple[Structure, ...]:
    """Return the structures of merged groups to try, those of one space after the other.

    The answers alone tell K classes apart if the mean number of answers of a row is above K² / 4.
    Small groups mix thin classes, which single rows do not: tables of few rows have trees of these, too.
    """
    per_class = max(n_groups(n_samples, n_classes) // n_classes, 2)
    is_wide, is_told = n_features > MOST_LEARNED, 8 * n_pairs > n_samples * n_classes**2
    kinds = [(linkage, count) for linkage in LINKAGES for count in (per_class, 1)]
    kinds += [(SIGNED, 1)] if is_told else []
    spaces = (MOST_LEARNED, METRIC) if is_wide else (NONE, METRIC, WEIGHTS)
    structures = [
        Structure(space, count, kind, proportions="equal") for space in spaces for kind, count in kinds
    ]
    if n_samples <= MOST_ROWS:
        of_rows = [Structure(METRIC, per_class, kind, proportions="equal") for kind in OF_ROWS]
        structures += [
            of_rows[0]._replace(subspace=spaces[0]),
            *of_rows,
            *(structure._replace(subspace=spaces[0], annotated=False) for structure in of_rows),
        ]
    return tuple(sorted(structures, key=lambda structure: spaces.index(structure.subspace)))


class Parts(Protocol):
    """Settings of the components of clusters."""

    @property
    def components(self) -> int | str: ...
    @property
    def subspace(self) -> int | str: ...


def largest_structures(
    covariance: str, parts: Parts, n_samples: int, n_features: int, n_classes: int
) -> Iterator[tuple[Structure, int]]:
    """Yield structures that cells of a search may have, with their numbers of Gaussians.

    None of the others is larger than all of these.
    """
    if covariance not in (ANY, GROUPS):
        structure = named_structure(parts.subspace, parts.components, covariance)
        yield structure, structure.components * n_classes
        return
    part = part_size(n_classes)
    n_compared = part if n_samples >= 2 * part else n_samples  # a part affords more than the whole
    dims = (*range(1, min(MOST_DIMS, n_features) + 1), *wide_dims(n_features, n_classes))
    for subspace in (*dims, NONE, DISCRIMINATIVE):
        n_dims = n_features if isinstance(subspace, str) else subspace
        for shape in (*COVARIANCES, KMEANS):
            # One spherical Gaussian for each class is tried even if it is too dear.
            minimum = int(shape == "spherical")
            n_components = max(most_components(shape, n_compared, n_dims, n_classes), minimum)
            if n_components:
                yield Structure(subspace, n_components, shape), n_components * n_classes
    if covariance == GROUPS:
        n_gaussians = max(n_groups(n_samples, n_classes), n_classes)
        for structure in merged_structures(n_samples, n_features, n_classes):
            yield structure, n_gaussians


# Kinds of clusters.


@dataclass(frozen=True)
class Kind:
    """A kind of cluster, and its consequences for settings and cubes. `kernels.solver` has its solver.

    Parameters
    ----------
    name : str
        Name in `SOLVERS` of `sweeps.words`, where each kind has the version of its solver.
    is_meant : callable
        Function of a covariance and settings: whether they mean this kind.
    terms : tuple of str
        Annotation terms that it is fitted with; empty if it is fitted with all.
    unused : tuple of str
        Settings without effect.
    is_searched : bool
        Whether the genetic search finds it, so that the settings of the search have an effect.
    has_gaussians : bool
        Whether a cube keeps Gaussians of it beside centroids and covariances.
    scale : str
        Default scale of the features.
    """

    name: str
    is_meant: Callable[[str, Parts], bool]
    terms: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    is_searched: bool = True
    has_gaussians: bool = False
    scale: str = "none"


# Classes that are unions of Gaussians, or stand in a subspace.
UNION = Kind(
    name="union of Gaussians",
    is_meant=lambda covariance, parts: (
        covariance in (ANY, GROUPS) or (parts.components, parts.subspace) != (1, NONE)
    ),
    terms=("unsupervised", "conditional"),
    unused=("min_cluster_size", "variance_prior", "covariance_prior", "feature_weight"),
    is_searched=False,
    has_gaussians=True,
    scale=AUTO,
)

# Clusters of one Gaussian each.
ONE_GAUSSIAN = Kind(name="one Gaussian", is_meant=lambda covariance, parts: True)

# All kinds; the first that is meant counts.
KINDS = (UNION, ONE_GAUSSIAN)


def kind_of(covariance: str, parts: Parts) -> Kind:
    """Return the kind of clusters that a covariance and settings mean."""
    return next(kind for kind in KINDS if kind.is_meant(covariance, parts))
