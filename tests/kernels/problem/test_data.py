"""Codes that kernels compare are those of the names."""

from kernels.problem import data
from kernels.problem.problem import MODELS
from kernels.settings import COVARIANCES, TERMS


def test_codes_are_places_in_the_lists_of_names() -> None:
    assert [getattr(data, name.upper()) for name in COVARIANCES] == list(range(len(COVARIANCES)))
    assert [getattr(data, name.upper()) for name in TERMS] == list(range(len(TERMS)))
    assert {name: getattr(data, name.upper()) for name in TERMS} == MODELS
