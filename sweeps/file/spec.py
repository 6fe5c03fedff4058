"""The sweep file: parsed once into frozen records, all of its problems reported together."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from sweeps.designs import DEFAULT, DESIGNS, asked_of
from sweeps.file.asking import Ask
from sweeps.file.counts import Count, annotation_count
from sweeps.file.datasets import LATER, Dataset
from sweeps.file.methods import Method, name_of
from sweeps.file.search import Search
from sweeps.file.searches import Kept
from sweeps.file.stopping import Stop
from sweeps.keytypes import Choice, Each, Given, Whole
from sweeps.models import BASELINES, MODEL_CODES
from sweeps.plan import Accuracy, Name
from sweeps.seeds import accuracy_code
from sweeps.validation import Record, read


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
    design: Annotated[tuple[Annotated[str, Choice(DESIGNS)], ...], Each(str)] = Field(
        DEFAULT, description="How the annotated pairs are chosen: drawn, or asked for batch after batch."
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

    @property
    def n_cells(self) -> int:
        """Cells of one real data set, whatever its size."""
        graphs = len(self.p) * len(self.m) * len(self.design) * self.replicates
        return graphs * len(self.supervised) + len(self.baselines)


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
    search: Annotated[tuple[Search, ...], Kept()] = Field(
        (Search(),), description="How each solution is searched for: one search, or several by name."
    )
    data: Data = Field(
        default_factory=Data, description="How the features are scaled; what is done without a data set."
    )
    ask: Ask = Field(Ask(), description="How designs whose pairs are asked for choose them.")
    stop: Annotated[Stop | None, Given()] = Field(
        None, description="When a cell has had restarts enough; all of them are run where it is left out."
    )

    @property
    def unavailable(self) -> str:
        """What to do about a data set that is not available: `"error"` or `"skip"`."""
        return self.data.unavailable

    @property
    def search_names(self) -> tuple[str, ...]:
        """Names of the searches where there are several; none where there is one."""
        return tuple(each.name for each in self.search if each.name is not None)

    def search_of(self, name: str | None) -> Search:
        """The search of a name; the first one for None, which is that of a sweep of one search."""
        return self.search[0] if name is None else next(each for each in self.search if each.name == name)

    @property
    def held_out(self) -> bool:
        """Whether every model with annotations predicts those that it has not seen, in all searches."""
        return self.search[0].held_out

    def dump(self) -> dict[str, Any]:
        """Plain JSON values that `load` reads back; what the cube keeps, and compares."""
        plain = self.model_dump(mode="json")
        # without what no older cube has: those stay growable
        if self.stop is None:
            del plain["stop"]
        if not self.grid.methods:
            del plain["grid"]["methods"]
        for entry in plain["grid"]["datasets"]:
            for key, default in LATER.items():
                if key in entry and entry[key] == default:
                    del entry[key]
        if self.grid.design == DEFAULT:
            del plain["grid"]["design"]
        if not asked_of(self.grid.design):
            del plain["ask"]
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
