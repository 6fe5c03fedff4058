"""Every variable of the cube, declared once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from sweeps.plan import DatasetPlan
from sweeps.shapes import CANDIDATES, CODES, SCORED, widest_dims
from sweeps.words import DEFAULT, chooses, holds_out, shape_of

PENDING, DONE, FAILED, NO_SOLUTION = 0, 1, 2, 3
"""Values of the variable `status`. No solution is an answer of a method, and no failure."""

ANSWERED = (DONE, NO_SOLUTION)
"""Values of the cells that were computed to the end, and whose results never change."""

STATUS_WORDS = {PENDING: "pending", DONE: "done", FAILED: "failed", NO_SOLUTION: "no solution"}
"""What `status` means, for people."""

FIELDS = ("i", "j", "kind")


class Role(Enum):
    """Kind of a variable: it decides the leading dimensions and the nodes that have it."""

    RESULT = "result"
    ANNOTATION = "annotation"
    INPUT = "input"
    COORDINATE = "coordinate"


@dataclass(frozen=True)
class Variable:
    """One variable of the cube.

    Parameters
    ----------
    name : str
        Name in the cube.
    role : Role
        Results lead with the cell dimensions, annotations with those but the model, inputs with the mixture.
    dims : tuple of str
        Dimensions after the leading ones.
    dtype : str
        zarr data type.
    fill : float, int or str
        Value of what is not written yet.
    text : str
        For people; attribute `long_name`.
    units : str
        Attribute `units`, where there is one.
    adaptive : bool
        Only in sweeps whose cells may end before their last restart.
    choice : bool
        Only of models that choose their shape of covariances.
    prediction : bool
        Only of models that predict held-out annotations: those that choose, or all that the sweep asks.
    """

    name: str
    role: Role
    dims: tuple[str, ...]
    dtype: str
    fill: float | int | str
    text: str
    units: str = ""
    adaptive: bool = False
    choice: bool = False
    prediction: bool = False

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes in the cube."""
        attributes: dict[str, Any] = {"long_name": self.text}
        if self.units:
            attributes["units"] = self.units
        if self.name == "status":
            meanings = " ".join(word.replace(" ", "_") for word in STATUS_WORDS.values())
            attributes |= {"flag_values": list(STATUS_WORDS), "flag_meanings": meanings}
        if self.name == "covariance_shape":
            attributes |= {"flag_values": list(CODES.values()), "flag_meanings": " ".join(CODES)}
        return attributes


VARIABLES = {
    variable.name: variable
    for variable in (
        Variable(
            "log_likelihood",
            Role.RESULT,
            ("restart",),
            "float64",
            math.nan,
            "objective of each restart: log-likelihood or log-posterior",
            "nats",
        ),
        Variable("labels", Role.RESULT, ("sample",), "int16", -1, "cluster of each sample, best restart"),
        Variable(
            "centroids",
            Role.RESULT,
            ("cluster", "feature"),
            "float64",
            math.nan,
            "cluster means, best restart",
        ),
        Variable(
            "covariances",
            Role.RESULT,
            ("cluster",),
            "float64",
            math.nan,
            "variance of each cluster, best restart",
        ),
        Variable("best_restart", Role.RESULT, (), "int32", -1, "restart of the highest objective"),
        Variable("restarts_done", Role.RESULT, (), "int32", 0, "restarts that were run"),
        Variable("seconds", Role.RESULT, (), "float64", math.nan, "time in kernels, all restarts", "s"),
        Variable(
            "cpu_seconds",
            Role.RESULT,
            (),
            "float64",
            math.nan,
            "CPU time of the thread in kernels, all restarts",
            "s",
        ),
        Variable(
            "unseen_mass",
            Role.RESULT,
            (),
            "float64",
            math.nan,
            "estimated probability that a restart finds a new optimum",
            adaptive=True,
        ),
        Variable(
            "covariance_shape",
            Role.RESULT,
            (),
            "int8",
            -1,
            "shape of covariances that the cell chose, or -1",
            choice=True,
        ),
        Variable(
            "held_out",
            Role.RESULT,
            ("candidate",),
            "float64",
            math.nan,
            "log loss of held-out annotations, by shape",
            "nats",
            prediction=True,
        ),
        Variable(
            "held_out_right",
            Role.RESULT,
            ("candidate",),
            "float64",
            math.nan,
            "share of held-out annotations predicted, by shape",
            prediction=True,
        ),
        Variable("status", Role.RESULT, (), "int8", PENDING, "state of the cell"),
        Variable(
            "annotations",
            Role.ANNOTATION,
            ("annotation", "field"),
            "int32",
            -1,
            "pairs of samples i and j, kind 0 must-link, 1 cannot-link",
        ),
        Variable("X", Role.INPUT, ("sample", "feature"), "float64", math.nan, "features as used"),
        Variable("labels_true", Role.INPUT, ("sample",), "int16", -1, "true class of each sample"),
        Variable(
            "annotation_pool",
            Role.INPUT,
            ("pooled", "field"),
            "int32",
            -1,
            "annotations of a file that those of cells are drawn from",
        ),
        Variable("p", Role.COORDINATE, ("p",), "float64", math.nan, "accuracy of the annotations"),
        Variable("m", Role.COORDINATE, ("m",), "int64", -1, "number of annotations"),
        Variable("m_over_n", Role.COORDINATE, ("m",), "float64", math.nan, "annotations per sample"),
        Variable("design", Role.COORDINATE, ("design",), "string", "", "how annotated pairs were chosen"),
        Variable("search", Role.COORDINATE, ("search",), "string", "", "how solutions were searched for"),
        Variable("replicate", Role.COORDINATE, ("replicate",), "int64", -1, "redraw of the annotations"),
        Variable("mixture", Role.COORDINATE, ("mixture",), "int64", -1, "draw of the data"),
        Variable("feature", Role.COORDINATE, ("feature",), "string", "", "name of each feature"),
        Variable("sample", Role.INPUT, ("sample",), "string", "", "name of each sample"),
        Variable("model", Role.COORDINATE, ("model",), "string", "", "what is maximised"),
        Variable("field", Role.COORDINATE, ("field",), "string", "", "column of an annotation"),
        Variable(
            "candidate",
            Role.COORDINATE,
            ("candidate",),
            "string",
            "",
            "shape of covariances that a cell can choose",
            prediction=True,
        ),
    )
}

COVARIANCE_TEXTS = {
    ("feature",): "variances of each cluster by feature, best restart",
    ("feature", "feature_2"): "covariance matrix of each cluster, best restart",
}
"""Attribute `long_name` of covariances that are wider than declared, by dimensions beside the cluster."""

TOLD_TEXT = "accuracy the models are told; annotations of a file"
"""Attribute `long_name` of p where annotations are not drawn from true labels."""

SCORED_TEXT = "shape of covariances that a cell can choose, or has"
"""Attribute `long_name` of candidates where every model holds annotations out."""

ALL_RESULTS = tuple(name for name, variable in VARIABLES.items() if variable.role is Role.RESULT)
"""Variables that a cell can have, status last: the order of writing."""

OPTIONAL = ("adaptive", "choice", "prediction")
RESULTS = tuple(name for name in ALL_RESULTS if not any(getattr(VARIABLES[name], kind) for kind in OPTIONAL))
"""Variables that every cell has."""

INPUTS = ("X", "labels_true", "annotation_pool", "sample")
"""Variables that a node may have been given, in the order in which they are handed over."""


def input_names(plan: DatasetPlan) -> tuple[str, ...]:
    """Inputs that the node of a data set has."""
    has = {"labels_true": plan.has_labels, "sample": bool(plan.sample_names)}
    has["annotation_pool"] = plan.n_annotations > 0
    return tuple(name for name in INPUTS if has.get(name, True))


def result_names(plan: DatasetPlan, models: Iterable[str]) -> tuple[str, ...]:
    """Variables that a node, or a block, of some models of a data set has, in the order of writing.

    A block without a model that chooses its shape has no files of what was chosen: so a cube of other models
    can grow by one that does.
    """
    of = tuple(models)
    has = {
        "adaptive": plan.adaptive,
        "choice": any(map(chooses, of)),
        "prediction": any(holds_out(model, plan.held_out) for model in of),
    }
    return tuple(
        name
        for name in ALL_RESULTS
        if all(has[kind] or not getattr(VARIABLES[name], kind) for kind in OPTIONAL)
    )


def scored_shapes(plan: DatasetPlan) -> tuple[str, ...]:
    """Shapes on the dimension `candidate`; none if nothing is held out."""
    of_choice = CANDIDATES if any(map(chooses, plan.models)) else ()
    return SCORED if plan.held_out and plan.supervised else of_choice


@dataclass(frozen=True)
class ArraySpec:
    """One array of the cube: a variable as a node has it, with its dimensions and lengths."""

    node: str
    variable: Variable
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]

    @property
    def path(self) -> str:
        """Path below the root of the cube."""
        return f"{self.node}/{self.variable.name}"


def baseline_node(dataset: str, baseline: str) -> str:
    """Path of the node of a baseline."""
    return f"{dataset}/{baseline}"


def graph_dims(plan: DatasetPlan) -> tuple[str, ...]:
    """Dimensions of an annotation graph, beside the mixture."""
    return ("p", "m", *(("design",) if plan.has_designs else ()), "replicate")


def grid_dims(plan: DatasetPlan) -> tuple[str, ...]:
    """Dimensions of the cell, of a data set with models that use annotations, beside the mixture."""
    return (*graph_dims(plan), *search_dims(plan.cell_searches), "model")


def search_dims(searches: tuple[str | None, ...]) -> tuple[str, ...]:
    """Dimension of the searches of a cell: none where the sweep has one alone."""
    return () if searches == (None,) else ("search",)


def array_specs(plan: DatasetPlan) -> list[ArraySpec]:
    """All arrays of one data set, those of its baselines included.

    Parameters
    ----------
    plan : DatasetPlan
        Its chunk lengths are used as they are. Chunks of annotations hold the largest `m` of the plan.

    Returns
    -------
    list of ArraySpec
        Coordinates first, then inputs, then results.
    """
    mixture, (p, m, *others) = ("mixture",) if plan.mixtures is not None else (), graph_dims(plan)
    coordinates = (*mixture, *((p, m, "m_over_n", *others, "model", "field") if plan.supervised else ()))
    coordinates += search_dims(plan.cell_searches)
    coordinates += ("candidate",) if scored_shapes(plan) else ()
    coordinates += ("feature",) if plan.feature_names else ()
    specs = [_array_spec(plan, plan.name, _coordinate(name, plan), ()) for name in coordinates]
    specs += [_array_spec(plan, plan.name, VARIABLES[name], mixture) for name in input_names(plan)]
    if plan.supervised:
        specs += [
            _array_spec(plan, plan.name, result_variable(name, plan.models), mixture + grid_dims(plan))
            for name in result_names(plan, plan.models)
        ]
        specs.append(_array_spec(plan, plan.name, VARIABLES["annotations"], mixture + graph_dims(plan)))
    for baseline in plan.baselines:
        node, cell = baseline_node(plan.name, baseline), mixture + search_dims(plan.searches_of(baseline))
        specs += [
            _array_spec(plan, node, result_variable(name, [baseline]), cell)
            for name in result_names(plan, [baseline])
        ]
    return specs


def result_variable(name: str, models: Iterable[str]) -> Variable:
    """A result as a node of some models has it: covariances have the form of the widest of their shapes."""
    variable = VARIABLES[name]
    dims = widest_dims(map(shape_of, models)) if name == "covariances" else ()
    return replace(variable, dims=variable.dims + dims, text=COVARIANCE_TEXTS[dims]) if dims else variable


def group_attributes(plan: DatasetPlan) -> dict[str, object]:
    """Attributes of the node of a data set: sizes are dimensions, so only what they do not say."""
    attributes: dict[str, object] = {"source": plan.source, "checksum": plan.checksum}
    if plan.class_names:
        attributes["class_names"] = list(plan.class_names)
    if plan.n_annotations:
        attributes["annotations"] = f"drawn without replacement from the {plan.n_annotations} of a file"
        attributes["annotations_checksum"] = plan.annotations_checksum
    if plan.supervised:
        attributes["coordinates"] = "m_over_n"
        if not plan.has_designs and plan.designs != DEFAULT:
            attributes["design"] = plan.designs[0]
    return attributes


def node_paths(plan: DatasetPlan) -> list[str]:
    """Groups of one data set: its own, and one for each baseline."""
    return [plan.name, *(baseline_node(plan.name, baseline) for baseline in plan.baselines)]


def _coordinate(name: str, plan: DatasetPlan) -> Variable:
    texts = {"candidate": SCORED_TEXT} if plan.held_out else {}
    texts |= {"p": TOLD_TEXT} if plan.n_annotations else {}
    variable = VARIABLES[name]
    return replace(variable, text=texts[name]) if name in texts else variable


def _array_spec(plan: DatasetPlan, node: str, variable: Variable, leading: tuple[str, ...]) -> ArraySpec:
    dims = leading + variable.dims
    lengths = _dim_lengths(plan)
    chunks = lengths if variable.role is Role.COORDINATE else lengths | _chunk_lengths(plan)
    return ArraySpec(node, variable, dims, tuple(lengths[d] for d in dims), tuple(chunks[d] for d in dims))


def _dim_lengths(plan: DatasetPlan) -> dict[str, int]:
    return {
        "mixture": plan.mixtures or 0,
        "p": len(plan.p),
        "m": len(plan.m),
        "design": len(plan.designs),
        "replicate": plan.replicates,
        "search": len(plan.cell_searches),
        "model": len(plan.models),
        "restart": plan.restarts,
        "sample": plan.n_samples,
        "cluster": plan.n_clusters,
        "feature": plan.n_features,
        "feature_2": plan.n_features,
        "annotation": max(plan.m, default=0),
        "pooled": plan.n_annotations,
        "field": len(FIELDS),
        "candidate": len(scored_shapes(plan)),
    }


def _chunk_lengths(plan: DatasetPlan) -> dict[str, int]:
    chunks = {"mixture": plan.mixture_chunk, "replicate": plan.replicate_chunk, "model": plan.model_chunk}
    return chunks | dict.fromkeys(("p", "m", "design", "search"), 1)
