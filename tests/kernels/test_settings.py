"""Settings of the search that change its method: patience, crossover by labels, relocation of all samples."""

from __future__ import annotations

import numpy as np
import pytest
from solving.oracles import best_partition, draw_case, gain
from solving.tiny import MODELS, same, tiny_case

from kernels.problem.problem import Problem, build_problem
from kernels.search.hgs import Restart, SearchSettings, run_restart


def restart_of(problem: Problem, seed: int = 0, **settings: object) -> Restart:
    return run_restart(problem, SearchSettings(**settings), np.random.default_rng(seed))  # type: ignore[arg-type]


def hard_problem(seed: int) -> Problem:
    return draw_case(seed, n_samples=60, n_clusters=5, m=50).problem()


def test_patience_ends_a_restart_that_gains_nothing() -> None:
    early = 0
    for seed in range(6):
        problem = hard_problem(seed)
        restart = restart_of(problem, population=4, offspring=4, generations=30, patience=3)
        made = (restart.local_searches - 4) // 4
        longer = restart_of(problem, population=4, offspring=4, generations=made)
        assert same(restart, longer)
        if made < 30:
            early += 1
            before = restart_of(problem, population=4, offspring=4, generations=made - 3)
            assert before.objective == pytest.approx(restart.objective, abs=2e-7)
            if made > 3:
                still = restart_of(problem, population=4, offspring=4, generations=made - 4)
                assert still.objective < restart.objective - 5e-8
    assert early >= 3


@pytest.mark.parametrize("model", MODELS)
def test_relocation_of_all_ends_where_no_sample_gains(model: str) -> None:
    """Without it, phase 2 leaves samples whose relocation would raise the objective."""
    left = 0
    for seed in range(4):
        case = draw_case(seed, model=model, n_samples=30, m=12)
        for relocation in ("annotated", "all"):
            restart = restart_of(
                case.problem(), population=1, offspring=0, generations=0, relocation=relocation
            )
            movable = np.flatnonzero(restart.sizes[restart.labels] > 2)
            gains = [gain(case, restart.labels, i, t) for i in movable for t in range(3)]
            if relocation == "all":
                assert max(gains) <= 1e-8
            else:
                left += max(gains) > 1e-6
    assert left > 0


def test_labels_of_parents_are_blended_in_the_search() -> None:
    """Without mutation, offspring of one solution and its equal are that solution: nothing is tried."""
    problem = hard_problem(1)
    start = restart_of(problem, population=2, offspring=0, generations=0)
    blended = restart_of(problem, population=2, offspring=4, generations=4, crossover="labels", mutation=0.0)
    closest = restart_of(problem, population=2, offspring=4, generations=4, mutation=0.0)
    assert blended.objective >= start.objective
    assert not same(blended, closest)
    found = [
        restart_of(problem, crossover="labels", mutation=0.2, relocation="all", seed=seed).objective
        for seed in range(3)
    ]
    assert max(found) >= restart_of(problem).objective - 1e-6


@pytest.mark.parametrize("relocation", ["all", "components"])
@pytest.mark.parametrize("model", MODELS)
def test_every_method_finds_the_best_of_all_partitions(model: str, relocation: str) -> None:
    for seed in range(3):
        case = tiny_case(seed, 3, model, 9)
        restart = restart_of(
            case.problem(),
            seed,
            generations=15,
            crossover="labels",
            mutation=0.3,
            relocation=relocation,
            patience=8,
        )
        assert restart.objective == pytest.approx(best_partition(case), abs=1e-8)


def test_each_setting_out_of_range_is_named() -> None:
    problem = build_problem(np.arange(8.0)[:, None], n_clusters=2, model="unsupervised")
    wrong: list[tuple[str, dict[str, object]]] = [
        ("patience", {"patience": -1}),
        ("crossover", {"crossover": "label"}),
        ("mutation", {"mutation": 1.5}),
        ("mutation", {"mutation": float("nan")}),
        ("less than 1", {"crossover": "labels"}),
        ("relocation", {"relocation": "none"}),
    ]
    for text, settings in wrong:
        with pytest.raises(ValueError, match=text):
            restart_of(problem, **settings)
