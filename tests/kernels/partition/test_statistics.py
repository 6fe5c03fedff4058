"""Arrays of named tuples have their types in every spelling of numpy's annotations."""

from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from sweep_clustering.kernels.partition.statistics import allocate

Scalar = TypeVar("Scalar", bound=np.generic)
Spelled = TypeAliasType("Spelled", np.ndarray[tuple[Any, ...], np.dtype[Scalar]], type_params=(Scalar,))

SPELLINGS = {
    "of this numpy": NDArray[np.int16],
    "as numpy 2.4 expands it": np.ndarray[tuple[Any, ...], np.dtype[np.int16]],
    "as numpy 2.5 names it": Spelled[np.int16],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_array_has_the_type_of_its_annotation_in_every_spelling(spelling: str) -> None:
    fields: Any = NamedTuple("Fields", [("labels", Annotated[SPELLINGS[spelling], "samples 2"])])  # type: ignore[misc]
    array = allocate(fields, {"samples": 3}).labels
    assert array.dtype == np.int16
    assert array.shape == (3, 2)


def test_an_annotation_without_one_numpy_type_is_refused_with_words() -> None:
    fields: Any = NamedTuple("Fields", [("labels", Annotated[np.ndarray, "samples"])])
    with pytest.raises(TypeError, match="names 0 numpy types, expected one"):
        allocate(fields, {"samples": 3})
