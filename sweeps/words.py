"""Names that stay, because cubes have them: designs, models, methods; strategies of asking; solvers.

No arrays are loaded: commands show and check these names before they know what has to be computed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import decode_source, find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sweep_clustering.kernels.structure import ONE_GAUSSIAN, kind_of
from sweep_clustering.sweeps.errors import refused
from sweep_clustering.sweeps.files import read_file

if TYPE_CHECKING:
    from sweep_clustering.sweeps.file.search import Search
    from sweep_clustering.sweeps.file.spec import SweepSpec

# Designs: how the pairs that are annotated are chosen.

UNIFORM = "uniform"
BIASED = "biased"
NEAR = "near"
CROWD = "crowd"

# Designs whose pairs are drawn at once: uniformly, with some samples more often, a sample and a near one, or
# uniformly for the annotators of a crowd.
DRAWN_DESIGNS = (UNIFORM, BIASED, NEAR, CROWD)

_BY_STRATEGY = ("uncertain", "anchors", "again", "farthest-first", "committee", "overall", "merges")
# Designs whose pairs are asked for, batch after batch, and the strategy of each (`pipeline.asking`).
ASKED_DESIGNS = {"active": "information", **{name: name for name in _BY_STRATEGY}}

# All designs by name. A name stays: cubes hold it, and random streams depend on it.
DESIGNS = (*DRAWN_DESIGNS, *ASKED_DESIGNS)

# The designs of a sweep that names none.
DEFAULT = (UNIFORM,)


# Strategies of asking by name, and what each asks (`pipeline.asking.strategies`).
STRATEGIES = {
    "overall": "the pairs whose answers together say the most of all other pairs",
    "merges": "near pairs, and pairs that say where clusters are to be merged or split",
    "information": "the pairs whose answers together say the most of who belongs together",
    "uncertain": "those whose answers are hardest to predict, each taken alone",
    "anchors": "a doubtful row against a sure one of its likeliest cluster",
    "again": "answered pairs whose answers are in doubt, once more",
    "farthest-first": "rows far apart, to find clusters and their members",
    "committee": "pairs on which fits to resampled answers disagree",
    "uniform": "any pairs",
}


def asks(design: str | None) -> bool:
    """Whether the pairs of a design are asked for; None is the design of a sweep that names none."""
    return design in ASKED_DESIGNS


def asked_of(designs: Iterable[str]) -> tuple[str, ...]:
    """Return those designs whose pairs are asked for."""
    return tuple(design for design in designs if asks(design))


# Names of models: an annotation term, and after it the shape of covariances if that is not spherical.
# `auto` stands for the shape that predicts held-out annotations best, for each cell apart.

UNSUPERVISED = "unsupervised"
SPHERICAL = "spherical"
AUTO = "auto"
# `any` stands for classes of any shape: components and subspace are chosen too (docs/model.md, section 12).
ANY = "any"
# `groups` adds classes of merged groups to these candidates (section 13), as `sweep fit` does.
GROUPS = "groups"

TERM_CODES = {UNSUPERVISED: 0, "likelihood": 1, "posterior": 2, "conditional": 3}

# These are added to the code of the term.
SHAPE_CODES = {
    SPHERICAL: 0,
    "common": 16,
    "diagonal": 32,
    "tied": 48,
    "full": 64,
    AUTO: 80,
    ANY: 96,
    GROUPS: 112,
}
# Shapes that stand for a choice of everything that classes are made of.
OPEN_SHAPES = (ANY, GROUPS)


def model_of(term: str, shape: str) -> str:
    """Return the name of a model, such as `posterior` or `posterior-full`."""
    return term if shape == SPHERICAL else f"{term}-{shape}"


# Codes of all models in the seeds. They are a contract: a code is never changed or reused. Without
# annotations nothing can be held out, and no shape be chosen; classes of any shape have one term.
MODEL_CODES = {
    model_of(term, shape): term_code + shape_code
    for shape, shape_code in SHAPE_CODES.items()
    for term, term_code in TERM_CODES.items()
    if (term, shape) != (UNSUPERVISED, AUTO) and (shape not in OPEN_SHAPES or term == "conditional")
}

# Models without annotations, one of each shape: they depend only on the data.
BASELINES = tuple(model_of(UNSUPERVISED, shape) for shape in SHAPE_CODES if shape not in (AUTO, *OPEN_SHAPES))


def split_model(model: str) -> tuple[str, str]:
    """Return the annotation term and the shape of covariances of a model, one of `MODEL_CODES`."""
    term, _, shape = model.partition("-")
    return term, shape or SPHERICAL


def is_model(name: str) -> bool:
    """Whether a name is that of a model; others on the dimension `model` are methods."""
    return name in MODEL_CODES


def shape_of(model: str) -> str:
    """Return the shape of covariances of a model, which is spherical for clusters of a method."""
    return split_model(model)[1] if is_model(model) else SPHERICAL


def chooses(model: str) -> bool:
    """Whether each cell of a model chooses its shape of covariances, or all components of its classes."""
    return shape_of(model) in (AUTO, *OPEN_SHAPES)


def is_any(model: str) -> bool:
    """Whether each cell of a model chooses the components of its classes."""
    return shape_of(model) in OPEN_SHAPES


def has_groups(model: str) -> bool:
    """Whether merged groups are among the candidates of each cell of a model."""
    return shape_of(model) == GROUPS


def holds_out(model: str, is_for_all: bool) -> bool:
    """Whether cells of a model hold annotations out: if they choose a shape, or if those of all models do."""
    return chooses(model) or (is_for_all and is_model(model) and model not in BASELINES)


def baseline_of(model: str) -> str:
    """Return the model without annotations and of the same shape: a difference to it is due to annotations.

    For a model that chooses its shape it is the simplest one, which such a cell has without annotations.
    """
    return model_of(UNSUPERVISED, SPHERICAL if chooses(model) else shape_of(model))


# Input of a method: annotations or nothing.
Uses = Literal["links", "nothing"]

# Forms of a call, in words.
FORMS = "a shipped method, package.module:function, or file.py:function"

# Largest file with a method, in bytes: it goes to every worker with each batch.
LONGEST_FILE = 2**20

# Seconds that a call may take by default.
PER_CALL = 600.0


@dataclass(frozen=True)
class Shipped:
    """Properties of a shipped method that a sweep needs before it runs."""

    uses: Uses  # a method without annotations is a baseline: it depends on the data alone
    # Default number of calls for a cell: 10 if starts are random and an objective ranks the calls, else 1.
    restarts: int
    text: str  # with the place of publication
    package: str = ""  # a package on whose version its answers depend
    extra: str = ""  # extra of this distribution that installs the package
    reference: Mapping[str, str] = field(default_factory=dict)  # fields of its entry in BibTeX

    @property
    def install_command(self) -> str:
        """Command that installs its package if that is missing, else an empty text."""
        if not self.extra or find_spec(self.package) is not None:
            return ""
        return f"pip install 'sweep-clustering[{self.extra}]'"


_TABLES = tomllib.loads(read_file(Path(__file__).parent / "data" / "methods.toml", LONGEST_FILE).decode())
# Methods by name. A name stays: cubes hold it.
SHIPPED: dict[str, Shipped] = {name: Shipped(**keys) for name, keys in _TABLES.items()}


@cache
def installed_version(package: str) -> str:
    """Return distribution and version of a top-level package."""
    names = packages_distributions().get(package, [])
    return ", ".join(sorted(f"{name} {version(name)}" for name in set(names)))


def read_code(path: Path) -> bytes:
    """Return the content of a Python file with a method; an unreadable or too large one is an InputError."""
    return read_file(path, LONGEST_FILE, "a Python file")


def text_of_code(path: Path, content: bytes) -> str:
    """Return the text of a Python file in its declared coding; another coding is an InputError."""
    try:
        return decode_source(content)
    except (SyntaxError, ValueError) as error:
        description = f"bytes that are no text ({error})"
        raise refused(path, description, "a Python file, in UTF-8 or as it says") from None


# Versions of solvers by kind of model. Every run keeps them in its cube, so that nobody mixes cells of two
# solvers without notice. Raise one in the commit that changes a bit of such a cell's results while data,
# seeds, settings and libraries stay the same: other starts, another order of a sum, another default. Golden
# bits and archives of releases that change are the sign. A number is never lowered or used again. A change of
# the search that all kinds share raises all of them.
SOLVERS = {
    "one Gaussian": 1,
    "chosen shape": 1,
    # 1 fitted them in cubes of format 2, which hold no Gaussians; 3 ends the fits of folds earlier,
    # 4 changes linked rows together, and chooses by no annotations that are all of one kind
    "union of Gaussians": 4,
    # 5 compares structures for more than 30 classes on random pairs, too, and asks by averages; 6 does so for
    # any number of classes; 7 merges rows by Genie's linkage, too; 8 also takes answers of unknown accuracy
    # for nearly certain; 9 leaves out more groups that are behind, and has metrics of single precision
    "merged groups": 9,
    "method": 1,
    "questions": 1,
}

PREFIX = "solver of "


def solver_name(model: str, search: str | None = None) -> str:
    """Return the name of the solver of a model in fingerprints, with its search if there are several."""
    return f"{PREFIX}{model}" if search is None else f"{PREFIX}search={search}/{model}"


def solvers_of(spec: SweepSpec) -> dict[str, str]:
    """Return the version of each solver that a sweep needs, by its name."""
    kinds = {
        solver_name(model, search.name): _kind_of(model, search)
        for model in spec.grid.models
        for search in spec.search
    }
    kinds |= {solver_name(method.name): "method" for method in spec.grid.methods if method.call in SHIPPED}
    asking = {
        solver_name(f"design={design}"): _asking_version(design, spec.ask.covariance)
        for design in asked_of(spec.grid.design)
    }
    return {name: str(SOLVERS[kind]) for name, kind in kinds.items()} | asking


def _asking_version(design: str, shape: str) -> str:
    """Return the version of the questions of a design, and that of merged groups if these ask."""
    groups_ask = shape in OPEN_SHAPES or (shape == AUTO and ASKED_DESIGNS[design] == "merges")
    return f"{SOLVERS['questions']}.{SOLVERS['merged groups']}" if groups_ask else str(SOLVERS["questions"])


def _kind_of(model: str, search: Search) -> str:
    """Return the kind of a model in a search, as `SOLVERS` names it."""
    kind = kind_of(shape_of(model), search)
    if has_groups(model):
        return "merged groups"
    return "chosen shape" if kind is ONE_GAUSSIAN and holds_out(model, search.held_out) else kind.name
