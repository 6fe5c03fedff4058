"""Names of models: an annotation term, and "-common" where all clusters share one variance."""

from __future__ import annotations

UNSUPERVISED = "unsupervised"
COMMON = "-common"
SUFFIX_CODE = 16

TERM_CODES = {UNSUPERVISED: 0, "likelihood": 1, "posterior": 2, "conditional": 3}

MODEL_CODES = {
    **TERM_CODES,
    **{term + COMMON: code + SUFFIX_CODE for term, code in TERM_CODES.items()},
}
"""All models, with their place in the seeds: a contract: a code is never changed or reused."""

BASELINES = (UNSUPERVISED, UNSUPERVISED + COMMON)
"""Models without annotations: they depend only on the data."""


def split_model(model: str) -> tuple[str, str]:
    """Annotation term and shape of covariances of a model, as `build_problem` takes them.

    Parameters
    ----------
    model : str
        One of `MODEL_CODES`.

    Returns
    -------
    term, covariance : str
        The first one of `TERM_CODES`, the second "spherical" or "common".
    """
    if model.endswith(COMMON):
        return model.removesuffix(COMMON), "common"
    return model, "spherical"


def baseline_of(model: str) -> str:
    """Model without annotations and with the same variance: a difference to it is due to annotations."""
    return UNSUPERVISED + COMMON if model.endswith(COMMON) else UNSUPERVISED
