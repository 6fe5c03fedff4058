"""Names that stay, as cubes hold them: designs, models, methods; and the strategies of asking.

No arrays are loaded, as commands show and check these names before it is known what has to be computed.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import decode_source, find_spec
from pathlib import Path
from typing import Literal

from sweep_clustering.sweeps.errors import refused
from sweep_clustering.sweeps.files import read_file

# Designs: how the pairs that are annotated are chosen.

UNIFORM = "uniform"
BIASED = "biased"
NEAR = "near"

# Designs whose pairs are drawn at once: uniformly, with some samples more often, or a sample and a near one.
DRAWN = (UNIFORM, BIASED, NEAR)

_BY_STRATEGY = ("uncertain", "anchors", "again", "farthest-first", "committee", "overall")
# Designs whose pairs are asked for, batch after batch, and the strategy of each (`pipeline.asking`).
ASKED = {"active": "information", **{name: name for name in _BY_STRATEGY}}

# All designs by name. A name stays: cubes hold it, and random streams depend on it.
DESIGNS = (*DRAWN, *ASKED)

# The designs of a sweep that names none.
DEFAULT = (UNIFORM,)


# Strategies of asking by name, and what each asks (`pipeline.asking.strategies`).
STRATEGIES = {
    "overall": "the pairs whose answers together say the most of all other pairs",
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
    return design in ASKED


def asked_of(designs: Iterable[str]) -> tuple[str, ...]:
    """Those of some designs whose pairs are asked for."""
    return tuple(design for design in designs if asks(design))


# Names of models: an annotation term, and after it the shape of covariances where that is not spherical.
#
# `auto` stands for the shape that predicts held-out annotations best: each cell chooses its own.

UNSUPERVISED = "unsupervised"
SPHERICAL = "spherical"
AUTO = "auto"
# And `any` for classes of any shape: components and subspace are chosen too (docs/model.md, section 12).
ANY = "any"

TERM_CODES = {UNSUPERVISED: 0, "likelihood": 1, "posterior": 2, "conditional": 3}

# Added to the code of the term.
SHAPE_CODES = {SPHERICAL: 0, "common": 16, "diagonal": 32, "tied": 48, "full": 64, AUTO: 80, ANY: 96}


def model_of(term: str, shape: str) -> str:
    """Name of a model: `posterior`, or `posterior-full`."""
    return term if shape == SPHERICAL else f"{term}-{shape}"


# All models, with their place in the seeds: a contract: a code is never changed or reused.
#
# Without annotations nothing can be held out, and no shape be chosen; classes of any shape have one term.
MODEL_CODES = {
    model_of(term, shape): term_code + shape_code
    for shape, shape_code in SHAPE_CODES.items()
    for term, term_code in TERM_CODES.items()
    if (term, shape) != (UNSUPERVISED, AUTO) and (shape != ANY or term == "conditional")
}

# Models without annotations, one of each shape: they depend only on the data.
BASELINES = tuple(model_of(UNSUPERVISED, shape) for shape in SHAPE_CODES if shape not in (AUTO, ANY))


def split_model(model: str) -> tuple[str, str]:
    """Annotation term and shape of covariances of a model, as `build_problem` takes them.

    Parameters
    ----------
    model : str
        One of `MODEL_CODES`.

    Returns
    -------
    term, covariance : str
        One of `TERM_CODES` and one of `SHAPE_CODES`.
    """
    term, _, shape = model.partition("-")
    return term, shape or SPHERICAL


def is_model(name: str) -> bool:
    """Whether a name is that of a model; others on the dimension `model` are methods."""
    return name in MODEL_CODES


def shape_of(model: str) -> str:
    """Shape of covariances of a model; those of a method's clusters are spherical."""
    return split_model(model)[1] if is_model(model) else SPHERICAL


def chooses(model: str) -> bool:
    """Whether each cell of a model chooses its shape of covariances, or all that its classes are made of."""
    return shape_of(model) in (AUTO, ANY)


def is_any(model: str) -> bool:
    """Whether each cell of a model chooses what its classes are made of."""
    return shape_of(model) == ANY


def chooses_shape(model: str) -> bool:
    """Whether that is their shape of covariances alone."""
    return shape_of(model) == AUTO


def holds_out(model: str, every: bool) -> bool:
    """Whether cells of a model hold annotations out: of one that chooses its shape, or of `every` one."""
    return chooses(model) or (every and is_model(model) and model not in BASELINES)


def baseline_of(model: str) -> str:
    """Model without annotations and of the same shape: a difference to it is due to annotations.

    Of a model that chooses its shape it is the one that such a cell has without annotations, the simplest.
    """
    return model_of(UNSUPERVISED, SPHERICAL if chooses(model) else shape_of(model))


# Methods: those that come with sweep, to be set beside its models in the same cells.

Uses = Literal["links", "nothing"]

# What can be called, in words.
FORMS = "a shipped method, package.module:function, or file.py:function"

# Bytes of a file with a method: it goes to every worker with each batch.
LONGEST_FILE = 2**20

# Seconds that a call may take where nothing else is said.
PER_CALL = 600.0


@dataclass(frozen=True)
class Shipped:
    """What a sweep needs to know of a method before it runs.

    Parameters
    ----------
    uses : {"links", "nothing"}
        Whether it sees annotations. One that does not is a baseline: it depends on the data alone.
    restarts : int
        Calls for a cell unless the sweep file says otherwise: 10 where starts are random and an objective
        tells which call was best, else 1.
    text : str
        What it is, and where it was published.
    package : str
        Whose version its answers depend on; empty for one of our own.
    extra : str
        Extra of this distribution that installs the package; empty where that is always there.
    """

    uses: Uses
    restarts: int
    text: str
    package: str = ""
    extra: str = ""

    @property
    def missing(self) -> str:
        """How to install its package, where that is not installed; else empty."""
        if not self.extra or find_spec(self.package) is not None:
            return ""
        return f"pip install 'sweep-clustering[{self.extra}]'"


_TABLES = tomllib.loads(read_file(Path(__file__).parent / "data" / "methods.toml", LONGEST_FILE).decode())
# Methods by name. A name stays: cubes hold it.
SHIPPED: dict[str, Shipped] = {name: Shipped(**keys) for name, keys in _TABLES.items()}


@cache
def installed_version(package: str) -> str:
    """Distribution and version of a top-level package; found once, as that reads all of them."""
    names = packages_distributions().get(package, [])
    return ", ".join(sorted(f"{name} {version(name)}" for name in set(names)))


def read_code(path: Path) -> bytes:
    """Content of a Python file with a method.

    Raises
    ------
    InputError
        If it cannot be read, or is too large.
    """
    return read_file(path, LONGEST_FILE, "a Python file")


def text_of_code(path: Path, content: bytes) -> str:
    """Text of a Python file as Python reads it, by its mark of byte order and its line on the coding.

    Raises
    ------
    InputError
        If it is not in that coding.
    """
    try:
        return decode_source(content)
    except (SyntaxError, ValueError) as error:
        found = f"bytes that are no text ({error})"
        raise refused(path, found, "a Python file, in UTF-8 or as it says") from None
