"""Gaussians as rows of numbers give back the same bits, and rows that are none are found."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from solving.same import assert_same_gaussians

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.settings import Settings, settings_of
from sweep_clustering.kernels.structure import DEAREST, LINEAR, SHAPES, Structure, most_components
from sweep_clustering.sweeps.shapes import ROWS, Room, from_rows, room_for, to_rows

N_FEATURES, N_CLASSES = 5, 3
FIRST = Structure("none", 1, "tied")
STRUCTURES = [
    Structure("none", 1, "k-means", annotated=False),
    Structure("none", 2, "full"),
    Structure("none", 1, "tied", proportions="equal"),
    Structure(2, 4, "diagonal"),
    Structure(9, 2, "spherical"),
    Structure("discriminative", 4, "full", first=FIRST),
    Structure("discriminative", 1, "tied", first=FIRST),
]


def draw_gaussians(structure: Structure) -> Gaussians:
    rng, many = np.random.default_rng(7), structure.components * N_CLASSES
    spaces: dict[int | str, int] = {"none": N_FEATURES, "discriminative": N_CLASSES - 1}
    n_dims = min(int(spaces.get(structure.subspace, structure.subspace)), N_FEATURES)
    shape: tuple[int, ...] = (many, n_dims)
    if structure.covariance in ("tied", "full"):
        shape = (1 if structure.covariance == "tied" else many, n_dims, n_dims)
    covariances = rng.random(shape)
    if len(shape) == 3:
        covariances = covariances + covariances.swapaxes(1, 2)
    axes = None if structure.subspace == "none" else rng.normal(size=(N_FEATURES, n_dims))
    means, center = rng.normal(size=(many, n_dims)), rng.normal(size=N_FEATURES)
    classes = rng.permutation(np.arange(many, dtype=np.int16) % N_CLASSES)
    return Gaussians(structure, classes, rng.random(many), means, covariances, center, axes)


def read(rows: dict[str, Any]) -> Gaussians | None:
    return from_rows(rows, N_FEATURES, N_CLASSES)


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
@pytest.mark.parametrize("room", [None, Room(40, 400)])
def test_rows_give_back_the_same_bits(structure: Structure, room: Room | None) -> None:
    gaussians = draw_gaussians(structure)
    rows = to_rows(gaussians, room)
    assert [rows[name].dtype for name in ROWS] == [np.int16, np.float64, np.float64]
    if room is not None:
        assert [len(rows[name]) for name in ROWS] == [40, 40, 400]
    copy = read(rows)
    assert copy is not None
    assert_same_gaussians(copy, gaussians)
    assert copy.matrices.shape == (len(gaussians.means), *[gaussians.means.shape[1]] * 2)


def test_rows_that_a_cube_has_no_room_for_are_named() -> None:
    whole = draw_gaussians(STRUCTURES[1])
    lengths = [len(row) for row in to_rows(whole).values()]
    for room in (Room(lengths[0] - 1, lengths[2]), Room(lengths[0], lengths[2] - 1)):
        with pytest.raises(
            ValueError, match=f"expected at most {room.components} and {room.entries}: a cube"
        ):
            to_rows(whole, room)


def test_fill_values_are_no_gaussians() -> None:
    rows = (np.full(4, -1, np.int16), np.full(4, np.nan), np.full(9, np.nan))
    assert read(dict(zip(ROWS, rows, strict=True))) is None


DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "1 classes": lambda rows: rows["component_class"].__setitem__(2, N_CLASSES),
    "2 classes": lambda rows: rows["component_class"].__setitem__(slice(2), -1),
    "1 proportions": lambda rows: rows["component_weights"].__setitem__(0, np.nan),
    "1 numbers": lambda rows: rows["component_values"].__setitem__(60, np.nan),
    f"codes \\(0, 2, {len(SHAPES)}, ": lambda rows: rows["component_values"].__setitem__(2, len(SHAPES)),
    # linear functions without classes to start from
    f"codes \\(0, 2, {SHAPES.index(LINEAR)}, ": lambda rows: rows["component_values"].__setitem__(
        2, SHAPES.index(LINEAR)
    ),
    "codes \\[nan": lambda rows: rows["component_values"].__setitem__(0, np.nan),
    "codes \\[5.0, inf": lambda rows: rows["component_values"].__setitem__(slice(2), (5.0, np.inf)),
    "1 fill values": lambda rows: rows["component_values"].__setitem__(-1, 0.0),
    "rows of 5": lambda rows: rows.__setitem__("component_class", rows["component_class"][:5]),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_what_cannot_be_is_found(message: str) -> None:
    rows = to_rows(draw_gaussians(STRUCTURES[1]), Room(8, 200))
    DAMAGE[message](rows)
    with pytest.raises(ValueError, match=message):
        read(rows)


@pytest.mark.parametrize(
    ("n_samples", "n_features", "megabytes"), [(3600, 60, 0.15), (60_000, 768, 0.3), (100, 700, 4.0)]
)
def test_rows_are_no_longer_than_what_is_affordable(
    n_samples: int, n_features: int, megabytes: float
) -> None:
    room = room_for("any", Settings(), n_samples, n_features, 10)
    assert (8 + 8 + 2) * room.components + 8 * room.entries < 1e6 * megabytes
    few = 160 * 30 + n_features * 31 + 20 * n_features  # means and axes
    assert room.entries < few + 0.6 * DEAREST / min(n_samples, 4000)  # structures are compared on a part


@pytest.mark.parametrize("n_samples", [30, 400, 60_000])
@pytest.mark.parametrize("n_features", [1, 12, 768])
def test_whatever_may_be_chosen_has_room(n_samples: int, n_features: int) -> None:
    room = room_for("any", Settings(), n_samples, n_features, 4)
    for subspace in (*range(1, min(30, n_features) + 1), "none"):
        n_dims = n_features if subspace == "none" else int(subspace)
        for shape in SHAPES:
            # large tables are compared on 4,000 rows
            many = 4 * most_components(shape, min(n_samples, 4000), n_dims, 4)
            triangle = n_dims * (n_dims + 1) // 2
            numbers = {"full": many * triangle, "tied": (many > 0) * triangle}.get(shape, many * n_dims)
            assert many <= room.components
            assert many * n_dims + numbers < room.entries


def test_named_components_have_the_room_that_they_need() -> None:
    settings = settings_of({"components": 3, "subspace": 2})
    assert room_for("full", settings, 100, 5, 4) == Room(12, 8 + 12 * 2 + 12 * 3 + 5 + 5 * 2)
