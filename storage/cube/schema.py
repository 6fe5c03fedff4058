"""Every variable of the cube, declared once: `VARIABLES`.

The arrays of a data set (`array_specs`) follow from that table and from the nodes of its plan: results have
the dimensions of their node, annotations those that they depend on, inputs the mixture. The template of a new
cube, the check of an existing one and the writing of blocks all go by these.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep_clustering.sweeps import shapes
from sweep_clustering.sweeps.plan import DatasetPlan, UnionPlan
from sweep_clustering.sweeps.words import DEFAULT, chooses, has_groups, holds_out, is_any, shape_of

# Values of the variable `status`. No solution is an answer of a method, and no failure.
PENDING = 0
DONE = 1
FAILED = 2
NO_SOLUTION = 3

# Values of cells that were computed to the end, so that their results never change.
ANSWERED = (DONE, NO_SOLUTION)

# Words for each status.
STATUS_WORDS = {PENDING: "pending", DONE: "done", FAILED: "failed", NO_SOLUTION: "no solution"}

ANSWERED_WORDS = tuple(STATUS_WORDS[state] for state in ANSWERED)
STATUS_FLAGS = {word.replace(" ", "_"): value for value, word in STATUS_WORDS.items()}
FIELDS = ("i", "j", "kind")


class Role(Enum):
    """Kind of a variable, which decides its leading dimensions and the nodes that have it."""

    RESULT = "result"
    ANNOTATION = "annotation"
    INPUT = "input"
    COORDINATE = "coordinate"


@dataclass(frozen=True)
class Variable:
    """One variable of the cube."""

    name: str
    role: Role
    dims: tuple[str, ...]  # after the leading ones
    dtype: str
    fill: float | int | str  # a value that is not written yet
    text: str  # attribute `long_name`
    units: str = ""

    @property
    def attributes(self) -> dict[str, Any]:
        attributes: dict[str, Any] = {"long_name": self.text}
        if self.units:
            attributes["units"] = self.units
        if flags := {"status": STATUS_FLAGS, "covariance_shape": shapes.CODES}.get(self.name):
            attributes |= {"flag_values": list(flags.values()), "flag_meanings": " ".join(flags)}
        return attributes


OBJECTIVE_TEXT = "objective of each restart: log-likelihood or log-posterior"
PAIRS_TEXT = "pairs of samples i and j, kind 0 must-link, 1 cannot-link"
CROWD_TEXT = f"{PAIRS_TEXT}, 2 unsure"


def _structure_text(codes: Mapping[str, Mapping[str, int]]) -> str:
    texts = [f"{part} {', '.join(f'{code} {word}' for word, code in codes[part].items())}" for part in codes]
    return "; ".join(["structure of the classes", *texts])


STRUCTURE_TEXT = _structure_text(shapes.STRUCTURE_CODES)
# Attribute `long_name` of structures if merged groups are among them.
GROUPS_TEXT = _structure_text(shapes.GROUP_CODES)
BASE_RATE_TEXT = "log loss of held-out annotations where all that is known is how often they are must-links"
DISTANCE_TEXT = "log loss of held-out annotations where all that is known is how far apart their samples are"
MACHINE_TEXT = "code of the class of machine that computed the cell: the attribute machines of the root"
VALUES_TEXT = "structure, means, covariances, centre and axes of the Gaussians: see pipeline.components"
POOL_TEXT = "annotations of a file that those of cells are drawn from"

# Fill values by the first letter of the type; variables in `zero` have 0.
_FILLS: dict[str, float | int | str] = {"f": math.nan, "i": -1, "s": ""}


def _variables(role: Role, *rows: tuple[str, ...], zero: tuple[str, ...] = ()) -> dict[str, Variable]:
    """Return variables from rows of name, dimensions after the leading ones, type, meaning and units."""
    return {
        name: Variable(
            name, role, tuple(dims.split()), dtype, 0 if name in zero else _FILLS[dtype[0]], *texts
        )
        for name, dims, dtype, *texts in rows
    }


# Every variable by name, results in the order of writing.
VARIABLES = {
    **_variables(
        Role.RESULT,
        ("log_likelihood", "restart", "float64", OBJECTIVE_TEXT, "nats"),
        ("labels", "sample", "int16", "cluster of each sample, best restart"),
        ("centroids", "cluster feature", "float64", "cluster means, best restart"),
        ("covariances", "cluster", "float64", "variance of each cluster, best restart"),
        ("best_restart", "", "int32", "restart of the highest objective"),
        ("restarts_done", "", "int32", "restarts that were run"),
        ("seconds", "", "float64", "time in kernels, all restarts", "s"),
        ("cpu_seconds", "", "float64", "CPU time of the thread in kernels, all restarts", "s"),
        ("unseen_mass", "", "float64", "estimated probability that a restart finds a new optimum"),
        ("covariance_shape", "", "int8", "shape of covariances that the cell chose, or -1"),
        ("structure", "part", "int32", STRUCTURE_TEXT),
        ("held_out", "candidate", "float64", "log loss of held-out annotations, by shape", "nats"),
        ("held_out_right", "candidate", "float64", "share of held-out annotations predicted, by shape"),
        ("base_rate", "", "float64", BASE_RATE_TEXT, "nats"),
        ("distance_rate", "", "float64", DISTANCE_TEXT, "nats"),
        ("component_class", "component", "int16", "class of each Gaussian, best restart"),
        ("component_weights", "component", "float64", "proportion of each Gaussian, best restart"),
        ("component_values", "entry", "float64", VALUES_TEXT),
        ("machine", "", "int32", MACHINE_TEXT),
        ("status", "", "int8", "state of the cell"),
        zero=("restarts_done", "status"),
    ),
    **_variables(Role.ANNOTATION, ("annotations", "annotation field", "int32", PAIRS_TEXT)),
    **_variables(
        Role.INPUT,
        ("X", "sample feature", "float64", "features as used"),
        ("labels_true", "sample", "int16", "true class of each sample"),
        ("annotation_pool", "pooled field", "int32", POOL_TEXT),
        ("sample", "sample", "string", "name of each sample"),
    ),
    **_variables(
        Role.COORDINATE,
        ("p", "p", "float64", "accuracy of the annotations"),
        ("m", "m", "int64", "number of annotations"),
        ("m_over_n", "m", "float64", "annotations per sample"),
        ("design", "design", "string", "how annotated pairs were chosen"),
        ("search", "search", "string", "how solutions were searched for"),
        ("replicate", "replicate", "int64", "redraw of the annotations"),
        ("mixture", "mixture", "int64", "draw of the data"),
        ("feature", "feature", "string", "name of each feature"),
        ("model", "model", "string", "what is maximised"),
        ("field", "field", "string", "column of an annotation"),
        ("annotator", "annotation", "int64", "annotator of each annotation of the design crowd"),
        ("candidate", "candidate", "string", "shape of covariances that a cell can choose"),
        ("part", "part", "string", "part of what classes are made of"),
    ),
}

# Attribute `long_name` of covariances that are wider than declared, by dimensions beside the cluster.
COVARIANCE_TEXTS = {
    ("feature",): "variances of each cluster by feature, best restart",
    ("feature", "feature_2"): "covariance matrix of each cluster, best restart",
}

# Attribute `long_name` of p if annotations are not drawn from true labels.
TOLD_TEXT = "accuracy that the models assume; annotations of a file"

# Scaling of the features, for the attribute `long_name` of X.
SCALE_TEXTS = {
    "none": "not scaled",
    "standard": "each scaled to mean 0 and standard deviation 1",
    "minmax": "each scaled to the range from 0 to 1",
}

# Attribute `long_name` of candidates if every model holds annotations out.
SCORED_TEXT = "shape of covariances that a cell can choose, or has"

# Input variables, in the order in which callers pass them.
INPUTS = tuple(name for name, variable in VARIABLES.items() if variable.role is Role.INPUT)

# Results and inputs that only some nodes and blocks have, with a condition on their plan and models.
#
# A block without a choice of shapes has no files of choices, and a block without Gaussians none of those. So
# a cube of other models and searches can grow by one with them.
CONDITIONS: dict[str, Callable[[DatasetPlan, Sequence[str], Sequence[UnionPlan]], bool]] = {
    "unseen_mass": lambda plan, models, unions: plan.adaptive,
    "covariance_shape": lambda plan, models, unions: any(map(chooses, models)),
    "structure": lambda plan, models, unions: any(map(is_any, models)),
    "held_out": lambda plan, models, unions: _hold_out(plan, models),
    "held_out_right": lambda plan, models, unions: _hold_out(plan, models),
    "base_rate": lambda plan, models, unions: _hold_out(plan, [union.model for union in unions]),
    "distance_rate": lambda plan, models, unions: any(map(has_groups, models)),
    **dict.fromkeys(shapes.ROWS, lambda plan, models, unions: bool(unions)),
    "X": lambda plan, models, unions: not plan.left_out,
    "machine": lambda plan, models, unions: plan.machines,
    "labels_true": lambda plan, models, unions: plan.has_labels and not plan.left_out,
    "annotation_pool": lambda plan, models, unions: plan.n_annotations > 0 and not plan.left_out,
    "sample": lambda plan, models, unions: bool(plan.sample_names) and not plan.left_out,
}


def _hold_out(plan: DatasetPlan, models: Iterable[str]) -> bool:
    return any(holds_out(model, plan.held_out) for model in models)


def result_names(
    plan: DatasetPlan, models: Iterable[str], searches: Iterable[str | None] | None = None
) -> tuple[str, ...]:
    """Return the variables of a node, or of a block with some of its searches, in the order of writing."""
    models, searches = tuple(models), plan.searches or (None,) if searches is None else searches
    return _names(Role.RESULT, plan, models, plan.unions_of(models, searches))


def _names(
    role: Role, plan: DatasetPlan, models: Sequence[str] = (), unions: Sequence[UnionPlan] = ()
) -> tuple[str, ...]:
    of_role = (name for name, variable in VARIABLES.items() if variable.role is role)
    return tuple(name for name in of_role if name not in CONDITIONS or CONDITIONS[name](plan, models, unions))


def scored_shapes(plan: DatasetPlan) -> tuple[str, ...]:
    """Return the shapes on the dimension `candidate`; none if nothing is held out."""
    of_choice = shapes.CANDIDATES if any(map(chooses, plan.models)) else ()
    return shapes.SCORED if plan.held_out and plan.supervised else of_choice


def room(plan: DatasetPlan) -> shapes.Room:
    """Return the lengths of the dimensions `component` and `entry`, which bound the memory of a block.

    With 3,600 samples, 60 features and 10 classes a cell of any shape takes 0.14 MB, with 60,000 samples and
    768 features 0.3 MB (`sweeps.shapes.room_for`), which is at most half of the size of full covariances.
    """
    lengths = [(union.components, union.entries) for union in plan.unions]
    return shapes.Room(*map(max, zip(*lengths, strict=True))) if lengths else shapes.Room(0, 0)


def _coordinates(plan: DatasetPlan) -> dict[str, Sequence[Any]]:
    """Return the values of every coordinate lazily: a plan may declare more than fits into memory."""
    values: dict[str, Sequence[Any]] = {dim.name: dim.values for dim in plan.dims if dim.stored}
    if plan.supervised:
        values |= {"m_over_n": [m / plan.n_samples for m in plan.m], "field": FIELDS}
    values |= {"annotator": range(max(plan.m, default=0) if plan.answers_each else 0)}
    values |= {"feature": plan.feature_names, "candidate": scored_shapes(plan)}
    values |= {"part": shapes.STRUCTURE if any(map(is_any, plan.models)) else ()}
    return {name: value for name, value in values.items() if len(value)}


def coordinate_values(plan: DatasetPlan) -> dict[str, npt.NDArray[Any]]:
    """Return the values of every coordinate of a data set's node, in order of arrival."""
    values = {
        name: np.array(value, dtype=VARIABLES[name].dtype.replace("string", "O"))
        for name, value in _coordinates(plan).items()
    }
    if plan.answers_each:
        values["annotator"] //= plan.answers_each
    return values


@dataclass(frozen=True)
class ArraySpec:
    """One array of the cube: a variable of a node, with its dimensions and lengths."""

    node: str
    variable: Variable
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]

    @property
    def path(self) -> str:
        return f"{self.node}/{self.variable.name}"


def array_specs(plan: DatasetPlan) -> list[ArraySpec]:
    """Return all arrays of a data set and its baselines: coordinates first, then inputs, then results.

    Chunk lengths are those of the plan. Chunks of annotations hold the largest `m` of the plan.
    """
    dims = {dim.name: dim for dim in plan.dims if dim.stored}
    lengths = {
        "restart": plan.restarts,
        "sample": plan.n_samples,
        "cluster": plan.n_clusters,
        "feature": plan.n_features,
        "feature_2": plan.n_features,
        "annotation": max(plan.m, default=0),
        "pooled": plan.n_annotations,
        "field": len(FIELDS),
        "candidate": len(scored_shapes(plan)),
        "part": len(shapes.STRUCTURE),
        "component": room(plan).components,
        "entry": room(plan).entries,
    } | {name: len(dim.values) for name, dim in dims.items()}
    chunks = lengths | {name: dim.chunk for name, dim in dims.items()}

    def spec(node: str, name: str, leading_dims: Sequence[str] = (), models: Sequence[str] = ()) -> ArraySpec:
        variable = _variable(name, plan, models)
        names = (*leading_dims, *variable.dims)
        # a coordinate is never written in part: its chunk is as long as the coordinate was at first
        parts = lengths if variable.role is Role.COORDINATE else chunks
        return ArraySpec(
            node, variable, names, tuple(lengths[d] for d in names), tuple(parts[d] for d in names)
        )

    mixture = [name for name in ("mixture",) if name in dims]
    specs = [spec(plan.name, name) for name in _coordinates(plan)]
    specs += [spec(plan.name, name, mixture) for name in _names(Role.INPUT, plan)]
    for node in plan.nodes:
        leading_dims, models = [dim.name for dim in node.stored], node.dims[-1].values
        specs += [spec(node.path, name, leading_dims, models) for name in result_names(plan, models)]
        if not node.baseline:
            specs.append(spec(node.path, "annotations", [dim.name for dim in node.stored if dim.of_graph]))
    return specs


def _variable(name: str, plan: DatasetPlan, models: Iterable[str]) -> Variable:
    """Return a variable as a node has it: covariances have the form of the widest shape of its models."""
    variable = VARIABLES[name]
    if name == "covariances":
        dims = shapes.widest_dims(map(shape_of, models))
        return replace(variable, dims=variable.dims + dims, text=COVARIANCE_TEXTS.get(dims, variable.text))
    texts = {"candidate": SCORED_TEXT} if plan.held_out else {}
    texts |= {"p": TOLD_TEXT} if plan.n_annotations else {}
    texts |= {"structure": GROUPS_TEXT} if any(map(has_groups, models)) else {}
    texts |= {"annotations": CROWD_TEXT} if plan.answers_each else {}
    texts |= {"X": f"{variable.text}, {SCALE_TEXTS[plan.scale]}"} if plan.scale in SCALE_TEXTS else {}
    dtype = "float32" if name == "X" and plan.short else variable.dtype
    return replace(variable, dtype=dtype, text=texts.get(name, variable.text))


def groups(plan: DatasetPlan) -> dict[str, dict[str, Any]]:
    """Return the attributes of the groups of a data set by path: parents, itself, and one for each baseline.

    Sizes are dimensions, so they are no attributes.
    """
    attributes: dict[str, object] = {"source": plan.source, "checksum": plan.checksum}
    if plan.class_names:
        attributes["class_names"] = list(plan.class_names)
    if plan.n_annotations:
        attributes["annotations"] = f"drawn without replacement from the {plan.n_annotations} of a file"
        attributes["annotations_checksum"] = plan.annotations_checksum
    if plan.supervised:
        attributes["coordinates"] = "m_over_n annotator" if plan.answers_each else "m_over_n"
        if len(plan.designs) == 1 and plan.designs != DEFAULT:
            attributes["design"] = plan.designs[0]
    parents: dict[str, dict[str, Any]] = {
        str(parent): {} for parent in PurePosixPath(plan.name).parents if parent.name
    }
    return parents | {plan.name: attributes} | {node.path: {} for node in plan.nodes if node.baseline}
