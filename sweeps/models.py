"""Names of models: an annotation term, and after it the shape of covariances where that is not spherical.

`auto` stands for the shape that predicts held-out annotations best: each cell chooses its own.
"""

from __future__ import annotations

UNSUPERVISED = "unsupervised"
SPHERICAL = "spherical"
AUTO = "auto"

TERM_CODES = {UNSUPERVISED: 0, "likelihood": 1, "posterior": 2, "conditional": 3}

SHAPE_CODES = {SPHERICAL: 0, "common": 16, "diagonal": 32, "tied": 48, "full": 64, AUTO: 80}
"""Added to the code of the term."""


def model_of(term: str, shape: str) -> str:
    """Name of a model: `posterior`, or `posterior-full`."""
    return term if shape == SPHERICAL else f"{term}-{shape}"


MODEL_CODES = {
    model_of(term, shape): term_code + shape_code
    for shape, shape_code in SHAPE_CODES.items()
    for term, term_code in TERM_CODES.items()
    if (term, shape) != (UNSUPERVISED, AUTO)
}
"""All models, with their place in the seeds: a contract: a code is never changed or reused.

Without annotations nothing can be held out, and no shape be chosen."""

BASELINES = tuple(model_of(UNSUPERVISED, shape) for shape in SHAPE_CODES if shape != AUTO)
"""Models without annotations, one of each shape: they depend only on the data."""


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
    """Whether each cell of a model chooses its shape of covariances."""
    return shape_of(model) == AUTO


def holds_out(model: str, every: bool) -> bool:
    """Whether cells of a model hold annotations out: of one that chooses its shape, or of `every` one."""
    return chooses(model) or (every and is_model(model) and model not in BASELINES)


def baseline_of(model: str) -> str:
    """Model without annotations and of the same shape: a difference to it is due to annotations.

    Of a model that chooses its shape it is the one that such a cell has without annotations, the simplest.
    """
    return model_of(UNSUPERVISED, SPHERICAL if chooses(model) else shape_of(model))
