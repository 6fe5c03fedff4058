"""Seeds: a contract. A changed value here means that no old cube can be grown or checked any more."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from sweeps.seeds import (
    ABSENT,
    accuracy_code,
    annotation_seed,
    choice_seed,
    data_seed,
    method_seed,
    name_words,
    order_seed,
    path_seed,
    search_seed,
)

GOLDEN = [428326032, 1138173014, 2586226629]
GOLDEN_CHOICE = 666539417
GOLDEN_DESIGNS = [3771447780, 1251116577]


def test_golden_values() -> None:
    data = data_seed(20210405, "mixtures_k2", 7)
    annotations = annotation_seed(20210405, "iris", mixture=None, p=0.9, m=150, replicate=3)
    search = search_seed(
        20210405, "iris", mixture=None, p=0.9, m=150, replicate=3, model="posterior", restart=49
    )
    assert data.spawn_key == (0, *name_words("mixtures_k2"), 7, *[ABSENT] * 5)
    assert annotations.spawn_key == (1, 1197550385, 1979633159, ABSENT, 900_000_000, 150, 3, ABSENT, ABSENT)
    assert search.spawn_key == (2, 1197550385, 1979633159, ABSENT, 900_000_000, 150, 3, 2, 49)
    assert [int(seed.generate_state(1)[0]) for seed in (data, annotations, search)] == GOLDEN


def test_the_golden_value_of_a_choice() -> None:
    choice = choice_seed(20210405, "iris", mixture=None, p=0.9, m=150, replicate=3, model="posterior-auto")
    assert choice.spawn_key == (3, 1197550385, 1979633159, ABSENT, 900_000_000, 150, 3, 82, ABSENT)
    assert int(choice.generate_state(1)[0]) == GOLDEN_CHOICE


def test_the_words_of_a_name_are_the_first_eight_bytes_of_its_sha256() -> None:
    # The sha256 of abc is the standard's own example.
    assert name_words("abc") == (0xBA7816BF, 0x8F01CFEA)


def test_streams_of_neighbouring_coordinates_differ() -> None:
    base = {"mixture": 0, "p": 0.8, "m": 100, "replicate": 0, "model": "likelihood", "restart": 0}
    changes = [{}, {"mixture": 1}, {"p": 0.8 + 1e-9}, {"m": 101}, {"replicate": 1}, {"model": "posterior"}]
    changes += [{"restart": 1}, {"mixture": None}, {"replicate": None}]
    seeds = [search_seed(1, "a", **{**base, **change}) for change in changes]  # type: ignore[arg-type]
    seeds += [search_seed(1, "b", **base), search_seed(2, "a", **base)]  # type: ignore[arg-type]
    states = [tuple(seed.generate_state(4)) for seed in seeds]
    assert all(one != other for one, other in combinations(states, 2))


def test_an_accuracy_has_one_code_however_it_was_computed() -> None:
    for p in np.linspace(0.001, 1, 1000).tolist():
        assert accuracy_code(p) == accuracy_code(p * 3 / 3) == accuracy_code(float(np.nextafter(p, 1)))


def test_the_golden_values_of_methods() -> None:
    grid = {"mixture": None, "p": 0.9, "m": 150, "replicate": 3}
    assert method_seed(20210405, "iris", **grid, method="pckmeans", restart=4) == 3825817567
    alone = {"mixture": 7, "p": None, "m": None, "replicate": None}
    assert method_seed(20210405, "mixtures_k2", **alone, method="mine", restart=0) == 1067877883


def test_the_golden_values_of_paths_and_of_the_order_of_a_biased_design() -> None:
    where = {"mixture": None, "p": 0.9, "replicate": 3}
    path = path_seed(20210405, "iris", **where, design="active", start=36)
    words = name_words("active")
    assert path.spawn_key == (5, 1197550385, 1979633159, ABSENT, 900_000_000, ABSENT, 3, *words, 36)
    order = order_seed(20210405, "mixtures_k2", mixture=7, replicate=3)
    assert order.spawn_key == (1, *name_words("mixtures_k2"), 7, ABSENT, ABSENT, 3, ABSENT, ABSENT)
    assert [int(seed.generate_state(1)[0]) for seed in (path, order)] == GOLDEN_DESIGNS


def test_streams_of_paths_differ_by_design_and_start() -> None:
    where = {"mixture": None, "p": 0.9, "replicate": 0}
    seeds = [
        path_seed(1, "iris", **where, design=name, start=s) for name in ("active", "again") for s in (0, 8)
    ]
    assert len({int(seed.generate_state(1)[0]) for seed in seeds}) == 4


def test_seeds_of_methods_differ_by_name_and_restart() -> None:
    grid = {"mixture": None, "p": 0.9, "m": 150, "replicate": 3}
    names = ("a", "b", "posterior")
    seeds = {method_seed(1, "iris", **grid, method=name, restart=r) for name in names for r in range(9)}
    assert len(seeds) == 27
