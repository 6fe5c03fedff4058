"""Seeds are a contract: with a changed value here no old cube can be grown or checked any more."""

from itertools import combinations

import numpy as np

from sweep_clustering.sweeps import seeds


def test_golden_values() -> None:
    iris = (1197550385, 1979633159)
    assert seeds.name_words("iris") == iris
    # The sha256 of abc is the example of the standard.
    assert seeds.name_words("abc") == (0xBA7816BF, 0x8F01CFEA)
    grid = {"mixture": None, "p": 0.9, "m": 150, "replicate": 3}
    path = {"mixture": None, "p": 0.9, "replicate": 3, "design": "active", "start": 36}
    at, mixtures = (seeds.NO_VALUE, 900_000_000), seeds.name_words("mixtures_k2")
    order = seeds.order_seed(20210405, "mixtures_k2", mixture=7, replicate=3)
    for seed, key, golden in (
        (seeds.data_seed(20210405, "mixtures_k2", 7), (0, *mixtures, 7, *[seeds.NO_VALUE] * 5), 428326032),
        (seeds.annotation_seed(20210405, "iris", **grid),
         (1, *iris, *at, 150, 3, seeds.NO_VALUE, seeds.NO_VALUE), 1138173014),
        (seeds.search_seed(20210405, "iris", **grid, model="posterior", restart=49),
         (2, *iris, *at, 150, 3, 2, 49), 2586226629),
        (seeds.choice_seed(20210405, "iris", **grid, model="posterior-auto"),
         (3, *iris, *at, 150, 3, 82, seeds.NO_VALUE), 666539417),
        (seeds.path_seed(20210405, "iris", **path),
         (5, *iris, *at, seeds.NO_VALUE, 3, *seeds.name_words("active"), 36), 3771447780),
        (order, (1, *mixtures, 7, *[seeds.NO_VALUE] * 2, 3, *[seeds.NO_VALUE] * 2), 1251116577),
    ):  # fmt: skip
        assert seed.spawn_key == key
        assert int(seed.generate_state(1)[0]) == golden
    assert seeds.method_seed(20210405, "iris", **grid, method="pckmeans", restart=4) == 3825817567
    alone = {"mixture": 7, "p": None, "m": None, "replicate": None}
    assert seeds.method_seed(20210405, "mixtures_k2", **alone, method="mine", restart=0) == 1067877883


def test_streams_of_neighbouring_coordinates_differ() -> None:
    base = {"mixture": 0, "p": 0.8, "m": 100, "replicate": 0, "model": "likelihood", "restart": 0}
    changes = [{}, {"mixture": 1}, {"p": 0.8 + 1e-9}, {"m": 101}, {"replicate": 1}, {"model": "posterior"}]
    changes += [{"restart": 1}, {"mixture": None}, {"replicate": None}]
    roots = [seeds.search_seed(1, "a", **{**base, **change}) for change in changes]  # type: ignore[arg-type]
    roots += [seeds.search_seed(1, "b", **base), seeds.search_seed(2, "a", **base)]  # type: ignore[arg-type]
    states = [tuple(seed.generate_state(4)) for seed in roots]
    assert all(first != second for first, second in combinations(states, 2))


def test_an_accuracy_has_one_code_however_it_was_computed() -> None:
    for p in np.linspace(0.001, 1, 1000).tolist():
        assert (
            seeds.accuracy_code(p)
            == seeds.accuracy_code(p * 3 / 3)
            == seeds.accuracy_code(float(np.nextafter(p, 1)))
        )
