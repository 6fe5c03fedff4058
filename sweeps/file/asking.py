"""The table `[ask]` of a sweep file: how the pairs of designs that ask for them are chosen."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sweeps.file.counts import AnnotationCount, Count
from sweeps.keytypes import Choice, Whole
from sweeps.shapes import DIMS
from sweeps.validation import Record


class Ask(Record):
    """How questions are chosen, batch after batch.

    A batch is a function of the answers before it and of a random stream of its own, so that all of this is
    science: it is compared when a cube grows.
    """

    batch: Count = Field(
        AnnotationCount("0.125N"),
        description='Questions of a batch: a whole number, or a share of the samples such as "0.125N".',
        json_schema_extra={"default": "0.125N"},
    )
    restarts: Annotated[int, Whole(1, 10**6)] = Field(
        3, description="Independent runs of the search before each batch."
    )
    covariance: Annotated[str, Choice(tuple(DIMS))] = Field(
        "auto",
        description='Shape of the covariances of the model that asks; "auto" chooses one for each batch.',
    )
