"""The sweep file: parsed once into frozen records, all of its problems reported together."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, PlainSerializer

from sweeps.file.datasets import Dataset
from sweeps.file.methods import Method, name_of
from sweeps.file.search import Search
from sweeps.file.stopping import Stop
from sweeps.keytypes import Checked, Choice, Each, Given, Whole
from sweeps.models import BASELINES, MODEL_CODES
from sweeps.plan import Accuracy, Name
from sweeps.seeds import accuracy_code
from sweeps.validation import Record, read, refusal

COUNT = r"\s*(\d+(?:\.\d*)?|\.\d+)?\s*N\s*"


@dataclass(frozen=True)
class AnnotationCount:
    """Number of annotations: a whole number, or a share of the number of samples (`"1.5N"`)."""

    text: str

    def resolve(self, n_samples: int) -> int:
        """Return the whole number for `n_samples`: floor(f·N), exact for the decimal digits written."""
        if self.text.endswith("N"):
            return math.floor(Fraction(self.text[:-1] or "1") * n_samples)
        return int(self.text)


def annotation_count(value: Any) -> AnnotationCount:
    """Number of annotations as a file, or the text kept in a cube, has it."""
    if isinstance(value, AnnotationCount):
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, str):
        match = re.fullmatch(COUNT, value)
        if match is not None and (match[1] is None or Fraction(match[1]) > 0):
            return AnnotationCount(f"{match[1] or '1'}N")
    elif isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31:
        return AnnotationCount(str(value))
    raise refusal('a whole number of at least 1, or a text such as "1.5N"')


Count = Annotated[
    AnnotationCount,
    Checked(
        annotation_count,
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": rf"^{COUNT}$|^\d+$"}]},
    ),
    PlainSerializer(lambda count: count.text),
]


class Grid(Record):
    """What is crossed with what."""

    datasets: Annotated[tuple[Dataset, ...], Each(repr)] = Field(
        description="Data sets: names of known ones, tables of your own, mixtures."
    )
    p: Annotated[tuple[Accuracy, ...], Each(accuracy_code, shortest=0)] = Field(
        (), description="Accuracies: probabilities that an annotation is right."
    )
    m: Annotated[tuple[Count, ...], Each(lambda value: annotation_count(value).text, shortest=0)] = Field(
        (), description='Numbers of annotations: whole numbers, or shares of the samples such as "1.5N".'
    )
    replicates: Annotated[int, Whole(1, 10**6)] = Field(
        1, description="How often the annotations are drawn anew."
    )
    models: Annotated[tuple[Annotated[str, Choice(tuple(MODEL_CODES))], ...], Each(str, shortest=0)] = Field(
        (), description="Models; those that use annotations need p, m and replicates."
    )
    methods: Annotated[tuple[Method, ...], Each(name_of, shortest=0)] = Field(
        (), description="Methods beside the models: names of shipped ones, and tables of your own."
    )
    restarts: Annotated[int, Whole(1, 10**6)] = Field(
        description="Independent runs of the search for each cell; the best one is kept."
    )

    @property
    def supervised(self) -> tuple[str, ...]:
        """Models and methods that use annotations."""
        models = tuple(model for model in self.models if model not in BASELINES)
        return models + tuple(each.name for each in self.methods if each.uses == "links")

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models and methods that use none."""
        models = tuple(model for model in self.models if model in BASELINES)
        return models + tuple(each.name for each in self.methods if each.uses == "nothing")


class Data(Record):
    """What is done about the data sets."""

    unavailable: Annotated[str, Choice(("error", "skip"))] = Field(
        "error", description="What to do about a data set that is not available."
    )


class SweepSpec(Record):
    """A sweep as it was understood: every default filled in, paths absolute.

    The cube keeps its `dump`; its format version is that of the cube.
    """

    name: Name = Field(description="Names the cube.")
    seed: Annotated[int, Whole(0, 2**63 - 1)] = Field(description="Root of every random stream.")
    grid: Grid = Field(description="What is crossed with what.")
    search: Search = Field(Search(), description="How each solution is searched for.")
    data: Data = Field(
        default_factory=Data, description="How the features are scaled; what is done without a data set."
    )
    stop: Annotated[Stop | None, Given()] = Field(
        None, description="When a cell has had restarts enough; all of them are run where it is left out."
    )

    @property
    def unavailable(self) -> str:
        """What to do about a data set that is not available: `"error"` or `"skip"`."""
        return self.data.unavailable

    def dump(self) -> dict[str, Any]:
        """Plain JSON values that `load` reads back; what the cube keeps, and compares."""
        plain = self.model_dump(mode="json")
        # without what no older cube has: those stay growable
        if self.stop is None:
            del plain["stop"]
        if not self.grid.methods:
            del plain["grid"]["methods"]
        for entry in plain["grid"]["datasets"]:
            if entry.get("annotations", "") is None:
                del entry["annotations"]
        return plain


def load(where: str, dump: object) -> SweepSpec:
    """Read the dump of a sweep again; it may come from anywhere.

    Parameters
    ----------
    where : str
        For messages.
    dump : object
        From `SweepSpec.dump`.

    Raises
    ------
    InputError
        With everything that no sweep would have written.
    """
    return read(SweepSpec, dump, where)
