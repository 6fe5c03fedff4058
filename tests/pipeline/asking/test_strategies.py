"""Beliefs equal sums over all partitions, and strategies equal slow ones and keep common rules."""

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from beliefs import NO_ANSWERS, made_up, random_belief
from numpy.typing import NDArray
from solving.oracles import draw_case, objective, partitions

from sweep_clustering.kernels.choice import HeldOut
from sweep_clustering.kernels.groups.fit import answers_of
from sweep_clustering.kernels.problem.data import HARD, MUST, Layer, layers_from_annotations, link
from sweep_clustering.kernels.search import genetic
from sweep_clustering.kernels.settings import Settings
from sweep_clustering.kernels.solver import prepare
from sweep_clustering.kernels.solver.contract import Choice
from sweep_clustering.kernels.structure import AVERAGE
from sweep_clustering.kernels.unions import race
from sweep_clustering.pipeline.asking import belief as beliefs
from sweep_clustering.pipeline.asking import strategies
from sweep_clustering.pipeline.asking.belief import OF_CHAINS, Belief, believe, share_at
from sweep_clustering.sweeps.annotations.draw import N_NEIGHBOURS, nearest_neighbours

SEED = np.random.SeedSequence(5)
CLASSES = np.repeat([0, 1], 20)
X = np.random.default_rng(0).normal(size=(40, 2)) + 6.0 * CLASSES[:, None]


def test_shares_are_those_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beliefs, "EFFORT", beliefs.EFFORT._replace(n_draws=16_000))
    sizes: Any = {"n_samples": 8, "n_features": 2, "n_clusters": 2, "m": 8}
    case = draw_case(1, model="conditional", accuracies=(0.8, 0.8), **sizes)
    case = replace(case, kappa=1.0, feature_weight=0.5)
    settings = Settings(variance_prior=1.0, feature_weight=0.5)
    how: Any = {"covariance": "spherical", "settings": settings}
    belief = believe(case.X, case.layers, n_clusters=2, accuracy=0.8, seed=SEED, **how)
    every = np.array(list(partitions(8, 2, case.min_size)))
    weights = np.exp([objective(case, labels) for labels in every])
    pairs = strategies.all_pairs(8)
    exact = np.average(every[:, pairs[:, 0]] == every[:, pairs[:, 1]], axis=0, weights=weights)
    np.testing.assert_allclose(belief.share_together(pairs), exact, atol=0.03)
    np.testing.assert_allclose(belief.membership.sum(axis=1), 1.0)


def test_the_seed_is_all_that_counts_and_the_first_restart_has_the_start() -> None:
    layers = layers_from_annotations(np.array([[0, 1, 0], [0, 30, 1]]), 0.9)
    near, start = X - 4.5 * CLASSES[:, None], CLASSES.astype(np.int16)
    how: Any = {"n_clusters": 2, "accuracy": 0.9, "restarts": 2, "start": start}
    with mock.patch.object(genetic, "run_restart", wraps=genetic.run_restart) as run:
        first, again, third = (
            believe(near, layers, seed=seed, **how).draws for seed in (SEED, SEED, np.random.SeedSequence(6))
        )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, third)
    assert SEED.n_children_spawned == 0
    assert [any(item is start for item in call.args) for call in run.call_args_list] == [True, False] * 3


def test_an_unknown_accuracy_is_the_share_of_answers_that_agree() -> None:
    rng = np.random.default_rng(1)
    pairs, wrong = rng.integers(0, 40, size=(200, 2)), rng.random(200) < 0.3
    kinds = (CLASSES[pairs[:, 0]] != CLASSES[pairs[:, 1]]) ^ wrong
    layers = layers_from_annotations(np.column_stack([pairs, kinds]), None)
    hard = Layer(MUST, np.array([[0, 1], [2, 3]]), accuracy=HARD, is_hard=True)  # nobody's answers
    share = (9.0 + (~wrong).sum()) / 210.0
    for answers, accuracy in ((layers, share), ([*layers, hard], share), ([], 0.9)):
        belief = believe(X, answers, n_clusters=2, accuracy=None, seed=SEED, covariance="spherical")
        assert belief.accuracy == pytest.approx(accuracy)


def test_classes_of_any_shape_are_chosen_from_some_rows_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beliefs, "MOST_ROWS", 30)
    pairs = np.random.default_rng(1).choice(strategies.all_pairs(40), size=60, replace=False)
    layers = layers_from_annotations(
        np.column_stack([pairs, CLASSES[pairs[:, 0]] != CLASSES[pairs[:, 1]]]), 0.9
    )
    with mock.patch.object(race, "choose_structure", wraps=race.choose_structure) as chosen:
        belief = believe(X, layers, n_clusters=2, accuracy=0.9, seed=SEED, covariance="any")
    table, between = chosen.call_args.args
    assert table.X.shape == (30, 2)
    assert 20 <= sum(len(layer.pairs) for layer in between) < 60
    assert len(belief.labels) == belief.draws.shape[1] == 40


def test_features_that_say_nothing_leave_classes_of_any_shape_in_doubt() -> None:
    rng = np.random.default_rng(0)
    noise, classes = rng.normal(size=(60, 10)), rng.integers(0, 2, size=60)
    pairs = rng.choice(strategies.all_pairs(60), size=60, replace=False)
    answers = np.column_stack([pairs, classes[pairs[:, 0]] != classes[pairs[:, 1]]])
    layers = layers_from_annotations(answers, 0.9)
    how: Any = {"n_clusters": 2, "accuracy": 0.9, "seed": SEED, "covariance": "any"}
    belief = believe(noise, layers, **how)
    assert belief.claimed_wrong > 0.2  # k-means, which is chosen, claims nothing
    assert belief.draws.shape == (200, 60)
    assert belief.draws.dtype == np.int16
    np.testing.assert_array_equal(belief.draws, believe(noise, layers, **how).draws)
    sure = believe(X, layers_from_annotations(np.array([[0, 1, 0], [0, 30, 1]]), 0.9), **how)
    assert sure.claimed_wrong < 0.02


def test_a_shape_is_chosen_from_some_rows_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beliefs, "MOST_ROWS", 30)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 5.0])
    pairs = rng.integers(0, 200, size=(300, 2))
    kinds = (pairs[:, 0] < 100) != (pairs[:, 1] < 100)
    layers = layers_from_annotations(np.column_stack([pairs, kinds]), 0.9)
    layers = [replace(layer, weights=np.arange(1.0, len(layer.pairs) + 1)) for layer in layers]
    choose = prepare.choose_covariance
    with mock.patch.object(prepare, "choose_covariance", wraps=choose) as chosen:
        believe(X, layers, n_clusters=2, accuracy=0.9, seed=SEED)

    def annotations_of(X: np.ndarray, layers: list[Any]) -> set[object]:
        rows = ((layer.kind, *of) for layer in layers for of in zip(layer.pairs, layer.weights, strict=True))
        return {(tuple(X[i]), tuple(X[j]), weight, kind) for kind, (i, j), weight in rows}

    some, of_some = chosen.call_args.args
    assert some.shape == (30, 2)
    assert all(len(layer.pairs) for layer in of_some)
    assert annotations_of(some, of_some) < annotations_of(X, layers)


def test_share_of_right_labels_by_hand() -> None:
    # 9 of 10 draws agree everywhere, one differs in 5 of 10 labels: 0.05 of the labels claimed wrong
    draws = np.zeros((10, 10), dtype=int)
    draws[:, 0] = 1
    draws[9, 5:] = 1
    share = share_at(made_up(draws).claimed_wrong, 10)
    wrong = (10 * 0.05 + 0.5) / 11
    mean, low, high = (
        1 - (11 * odds / (1 + odds) - 0.5) / 10
        for intercept, slope in OF_CHAINS
        for odds in [math.exp(intercept) * (wrong / (1 - wrong)) ** slope]
    )
    assert share == (pytest.approx(mean), math.floor(10 * low) / 10, math.ceil(10 * high) / 10)
    assert share.low < share.mean < share.high


def test_a_sample_of_many_pairs_has_doubtful_samples_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "LARGEST", 400)
    draws = np.zeros((20, 200), dtype=int)
    draws[:, 100:] = 1
    draws[:10, :5] = 1  # five samples that may be in either cluster
    answers = np.array([[7, 3, 0], [150, 199, 1]])
    pairs = strategies.draw_pool(made_up(draws), answers, np.random.default_rng(1))
    distinct = {tuple(pair) for pair in pairs.tolist()}
    assert len(distinct) == len(pairs) <= 402
    assert distinct >= {(3, 7), (150, 199)}
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert (pairs < 5).any(axis=1).mean() > 0.3  # the share is one in twenty of all pairs
    assert len(np.unique(pairs)) > 100  # sure samples come too


@pytest.mark.parametrize(("together", "p"), [(0.01, 0.6), (0.3, 0.8), (0.5, 1.0), (0.9, 0.8)])
def test_information_is_that_of_the_joint_table(together: float, p: float) -> None:
    joint = np.array([[together * p, together * (1 - p)], [(1 - together) * (1 - p), (1 - together) * p]])
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    expected = float((joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])).sum())
    information = strategies.answer_information(np.array([together * (1 - together)]), p)
    assert information[0] == pytest.approx(expected, abs=1e-12)


def test_questions_come_in_cliques_of_three_samples_far_from_each_other() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0], [10.0], [20.0]], 30, axis=0) + rng.normal(size=(90, 1)) * 0.1
    pairs = strategies.cold_start(made_up(np.zeros((3, 90), dtype=int), X=X), 30, rng).pairs
    cliques = [np.unique(pairs[start : start + 3]) for start in range(0, 30, 3)]
    assert [len(clique) for clique in cliques] == [3] * 10
    assert np.mean([len(set(clique // 30)) for clique in cliques]) > 2.9


def test_the_farthest_sample_is_asked_against_its_nearest_of_each_group() -> None:
    X = np.array([[0.0], [1.0], [10.0], [11.0], [30.0], [5.0]])
    answers = np.array([[0, 1, 0], [2, 3, 0], [1, 2, 1]])
    belief = made_up(np.tile([0, 0, 1, 1, 1, 0], (3, 1)), X=X)
    choice = strategies.farthest_first(belief, answers, 3, np.random.default_rng(0))
    # 30 is the farthest: against 11 of one group, against 1 of the other; then 5, which is 4 away from 1
    np.testing.assert_array_equal(choice.pairs, [[3, 4], [1, 4], [1, 5]])


def test_a_committee_asks_where_resampled_answers_divide_it() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-6.0, 0.5, (20, 1)), rng.normal(6.0, 0.5, (20, 1)), [[0.0]]])
    # the sample in the middle is said to be with either side once
    answers = np.array([[40, 1, 0], [40, 30, 0], [0, 1, 0], [20, 21, 0]])
    choice = strategies.committee(made_up(np.tile([0] * 20 + [1] * 21, (3, 1)), X=X), answers, 10, rng)
    assert (choice.pairs == 40).any(axis=1).all()


# Questions of a strategy, without those that were asked before.


def test_more_are_asked_for_until_enough_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = np.array([(0, j) for j in range(1, 40)])
    counts: list[int] = []

    def in_order(
        belief: Belief, answers: strategies.Pairs, count: int, rng: np.random.Generator
    ) -> strategies.ScoredPairs:
        counts.append(count)
        return strategies.ScoredPairs(pairs[:count], -np.arange(len(pairs[:count]), dtype=float))

    monkeypatch.setitem(strategies.STRATEGIES, "in order", in_order)
    answers = np.array([(j, 0, 1) for j in range(1, 10)])
    how: Any = {"strategy": "in order", "count": 5, "seed": SEED}
    for last, expected in ((20, [20, 21, 22, 23, 24]), (38, [38, 39])):
        left_out = {(0, j) for j in range(10, last)}
        choice = strategies.choose(random_belief(0), answers, left_out=left_out, **how)
        assert choice.pairs[:, 1].tolist() == expected
        assert choice.scores.tolist() == [1 - place for place in expected]
    assert counts[:3] == [5, 15, 35]
    counts.clear()
    strategies.choose(random_belief(0), NO_ANSWERS, strategy="in order", count=1000, seed=SEED)
    assert counts == [66]  # all pairs of 12 samples


def test_one_question_of_five_is_random_where_the_number_of_classes_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asking(first: int) -> strategies.Strategy:
        pairs = np.array([(first, j) for j in range(20, 60)])
        return lambda belief, answers, count, rng: strategies.ScoredPairs(
            pairs[:count], pairs[:count, 1].astype(float)
        )

    monkeypatch.setitem(strategies.STRATEGIES, "in order", asking(0))
    monkeypatch.setitem(strategies.STRATEGIES, "uniform", asking(1))
    monkeypatch.setattr(strategies, "fitting", lambda belief: "in order")
    belief = replace(random_belief(0), has_open_count=True)
    how: Any = {"answers": NO_ANSWERS, "strategy": None}
    pairs, scores = strategies.choose(belief, count=10, seed=SEED, **how)
    assert pairs[:, 0].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert pairs[:, 1].tolist() == [20, 21, 22, 23, 20, 24, 25, 26, 27, 21]
    assert scores.tolist() == pairs[:, 1].tolist()
    for count in (1, 7):
        seeds = [np.random.SeedSequence(entropy) for entropy in range(300)]
        choices = [strategies.choose(belief, count=count, seed=seed, **how) for seed in seeds]
        assert {len(choice.pairs) for choice in choices} == {count}
        n_random = [int(choice.pairs[:, 0].sum()) for choice in choices]
        assert np.mean(n_random) == pytest.approx(count / 5, abs=0.07)
        assert max(n_random) - min(n_random) == 1
    # no question is random if the number is named, if classes are many, or if the strategy is named
    for changes in ({"has_open_count": False}, {"has_many_classes": True}):
        pairs, _ = strategies.choose(replace(belief, **changes), count=10, seed=SEED, **how)
        assert not pairs[:, 0].any()
    pairs, _ = strategies.choose(belief, NO_ANSWERS, strategy="in order", count=10, seed=SEED)
    assert not pairs[:, 0].any()


def test_random_questions_leave_out_what_was_asked_and_end_with_the_pairs() -> None:
    belief, left_out = replace(random_belief(2), has_open_count=True), {(0, 5), (3, 7)}
    pairs = strategies.choose(belief, ANSWERS, strategy=None, count=80, seed=SEED, left_out=left_out).pairs
    assert left_out == {(0, 5), (3, 7)}
    asked = {tuple(pair) for pair in np.sort(ANSWERS[:, :2], axis=1).tolist()} | left_out
    assert not asked & {tuple(pair) for pair in pairs.tolist()}
    assert len(pairs) == 66 - len({pair for pair in asked if pair[0] != pair[1]})


ANSWERS = np.array([[0, 1, 0], [2, 5, 1], [5, 2, 0], [3, 3, 0], [1, 4, 0]])
ONE = np.array([[0, 1, 0]])  # so that it is no cold start


@pytest.mark.parametrize("strategy", strategies.STRATEGIES)
@pytest.mark.parametrize("answers", [NO_ANSWERS, ANSWERS], ids=["cold", "answers"])
def test_pairs_come_once_and_are_as_many_as_asked(strategy: str, answers: NDArray[np.int_]) -> None:
    for count in (1, 20, 66, 100):
        choice = strategies.STRATEGIES[strategy](random_belief(2), answers, count, np.random.default_rng(0))
        assert len(choice.pairs) == len(choice.scores) == min(count, 66)  # 12 samples have 66 pairs
        assert (choice.pairs[:, 0] < choice.pairs[:, 1]).all()
        assert len({tuple(pair) for pair in choice.pairs.tolist()}) == len(choice.pairs)
        assert (choice.scores >= 0).all()


@pytest.mark.parametrize(("seed", "accuracy"), [(0, 0.7), (1, 0.9), (2, 1.0)])
def test_information_is_the_greedy_choice_by_remaining_variance(
    seed: int, accuracy: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    belief = random_belief(seed, accuracy=accuracy)
    count, noise = 8, max(accuracy * (1 - accuracy) / (2 * accuracy - 1) ** 2, strategies.LEAST_NOISE)
    choice = strategies.information(belief, ONE, count, np.random.default_rng(0))
    every = strategies.all_pairs(12)
    together = np.array([[draw[i] == draw[j] for i, j in every] for draw in belief.draws], dtype=float)
    covariance = np.cov(together, rowvar=False, bias=True)
    place = {tuple(pair): number for number, pair in enumerate(every.tolist())}
    before: list[int] = []
    for pair, score in zip(choice.pairs.tolist(), choice.scores, strict=True):
        inner = covariance[np.ix_(before, before)] + noise * np.eye(len(before))
        reduction = covariance[:, before] @ np.linalg.solve(inner, covariance[before])
        remaining = np.diag(covariance - reduction).copy()
        remaining[before] = -1.0
        at = place[tuple(pair)]
        assert remaining[at] == pytest.approx(remaining.max(), abs=1e-9)
        assert score == pytest.approx(strategies.answer_information(remaining[[at]], accuracy)[0], abs=1e-9)
        before.append(at)
    monkeypatch.setattr(strategies, "WIDEST", 1)  # only pairs of the largest variance take part
    widest = strategies.information(belief, ONE, 1, np.random.default_rng(0)).pairs[0]
    assert covariance[place[tuple(widest)], place[tuple(widest)]] == pytest.approx(np.diag(covariance).max())


@pytest.mark.parametrize(("seed", "accuracy"), [(0, 0.7), (1, 0.9), (2, 1.0)])
def test_overall_is_the_greedy_choice_by_what_is_left_of_all_pairs(seed: int, accuracy: float) -> None:
    belief = random_belief(seed, accuracy=accuracy)
    noise = max(accuracy * (1 - accuracy) / (2 * accuracy - 1) ** 2, strategies.LEAST_NOISE)
    choice = strategies.overall(belief, ONE, 8, np.random.default_rng(0))
    every = strategies.all_pairs(12)
    together = np.array([[draw[i] == draw[j] for i, j in every] for draw in belief.draws], dtype=float)
    covariance = np.cov(together, rowvar=False, bias=True)
    place = {tuple(pair): number for number, pair in enumerate(every.tolist())}
    before: list[int] = []
    for pair, score in zip(choice.pairs.tolist(), choice.scores, strict=True):
        at = place[tuple(pair)]
        after = [
            np.trace(covariance - np.outer(column, column) / (column[number] + noise))
            for number, column in enumerate(covariance)
        ]
        assert after[at] == pytest.approx(np.delete(after, before).min(), abs=1e-9)
        assert score == pytest.approx(
            strategies.answer_information(covariance[[at], at], accuracy)[0], abs=1e-9
        )
        covariance = covariance - np.outer(covariance[at], covariance[at]) / (covariance[at, at] + noise)
        before.append(at)


def test_overall_decides_on_many_before_one() -> None:
    draws = np.zeros((40, 12), dtype=int)
    draws[:, 6:] = 1
    draws[::2, 3:6] = 1  # three that go together
    draws[1::4, 0], draws[2::4, 0] = 1, 1  # and one goes by itself
    choice = strategies.overall(made_up(draws, accuracy=0.9), ONE, 1, np.random.default_rng(0))
    assert set(choice.pairs[0].tolist()) & {3, 4, 5}
    assert 0 not in choice.pairs[0]


def test_beliefs_about_few_classes_are_those_without_merged_groups() -> None:
    pairs = np.random.default_rng(1).choice(strategies.all_pairs(40), size=60, replace=False)
    kinds = CLASSES[pairs[:, 0]] != CLASSES[pairs[:, 1]]
    layers = layers_from_annotations(np.column_stack([pairs, kinds]), 0.9)
    how: Any = {"n_clusters": 2, "accuracy": 0.9, "seed": SEED, "restarts": 1}
    plain, beside = (believe(X, layers, covariance=shape, **how) for shape in ("any", "groups"))
    assert not beside.has_many_classes
    np.testing.assert_array_equal(beside.draws, plain.draws)
    assert beside.covariance == plain.covariance


def test_merges_asks_near_pairs_in_turn_with_parts_of_clusters() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 3))
    belief = made_up(np.tile(np.arange(200) % 12, (3, 1)), X=Z)
    near = nearest_neighbours(Z, np.arange(200), N_NEIGHBOURS)
    answers = np.column_stack([np.arange(40), np.arange(40) + 60, np.arange(40) % 2])
    pairs = strategies.STRATEGIES["merges"](belief, NO_ANSWERS, 60, np.random.default_rng(1)).pairs
    assert all(j in near[i] or i in near[j] for i, j in pairs)
    pairs = strategies.STRATEGIES["merges"](belief, answers, 60, np.random.default_rng(1)).pairs
    assert len(pairs) == 60
    assert all(j in near[i] or i in near[j] for i, j in pairs[::2])
    layers = layers_from_annotations(answers, belief.accuracy)
    with mock.patch.object(strategies, "unsure_pairs", wraps=strategies.unsure_pairs) as unsure:
        strategies.STRATEGIES["merges"](replace(belief, Z=2.0 * Z), answers, 60, np.random.default_rng(1))
    coordinates, labels, so_far = unsure.call_args.args[:3]
    np.testing.assert_array_equal(coordinates, 2.0 * Z)
    np.testing.assert_array_equal(labels, belief.labels)
    np.testing.assert_array_equal(so_far.odds, answers_of(link(layers, 200)).odds)


@pytest.mark.parametrize(
    ("name", "shape", "n_clusters", "expected"),
    [
        ("average linkage, 3 a class", AVERAGE, 2, True),  # answers speak for merged groups
        ("1 full", "full", 30, False),  # for a structure
        ("k-means", "k-means", 30, True),  # for nothing yet
        ("k-means", "k-means", 14, False),
    ],
)
def test_answers_and_else_the_root_of_the_rows_say_whether_classes_are_many(
    name: str, shape: str, n_clusters: int, expected: bool
) -> None:
    logs = np.zeros(3)
    skills = {"average linkage, 3 a class": HeldOut(logs, logs > -1.0, logs + 1.0, logs)}
    skills["1 full"] = skills["average linkage, 3 a class"]
    choice = Choice(name, name, shape, "spherical", skills)
    assert beliefs.has_many_classes(choice, n_clusters, 200, is_least=False) is expected
    without_skill = replace(choice, has_no_skill=True)
    assert beliefs.has_many_classes(without_skill, n_clusters, 200, is_least=False) is (n_clusters > 14)
    assert beliefs.has_many_classes(without_skill, n_clusters, 200, is_least=True)
    belief = replace(random_belief(0), has_many_classes=expected)
    assert strategies.fitting(belief) == ("merges" if expected else "overall")


def test_many_classes_are_asked_for_merges_and_the_old_designs_never_compare_groups() -> None:
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(16), 8)
    Z = 6.0 * rng.normal(size=(16, 4))[classes] + rng.normal(size=(128, 4))
    how: Any = {"n_clusters": 16, "accuracy": 0.9, "seed": SEED}
    cold = believe(Z, [], covariance="groups", **how)
    assert cold.has_many_classes  # 16² is above 128
    old_belief = believe(Z, [], covariance="any", most_tried=16, **how)
    assert not old_belief.has_many_classes
    assert old_belief.has_random_questions
    assert not cold.has_open_count
    assert cold.Z is not None
    assert cold.draws.shape == (200, 128)
    path: Any = {"p": 0.9, "count": 30, "seed": SEED, "n_clusters": 16, "restarts": 1}
    for strategy, covariance, shape in (("merges", "auto", "groups"), ("uniform", "auto", "auto")):
        with mock.patch.object(strategies, "believe", return_value=cold) as believe_mock:
            answers = strategies.next_answers(
                Z, classes, NO_ANSWERS, strategy=strategy, covariance=covariance, **path
            )
        assert len(answers) == 30
        assert believe_mock.call_args.kwargs == {
            "n_clusters": 16,
            "accuracy": 0.9,
            "seed": SEED,
            "covariance": shape,
            "restarts": 1,
        }


def test_doubtful_samples_come_against_sure_ones_and_doubtful_answers_again() -> None:
    draws = np.repeat([[0, 0, 0, 1, 1, 1]], 10, axis=0)
    draws[:4, 2] = 1
    choice = strategies.STRATEGIES["anchors"](made_up(draws), NO_ANSWERS, 2, np.random.default_rng(0))
    assert choice.pairs[0].tolist() in ([0, 2], [1, 2])  # the partner is of the likeliest cluster of 2
    # pairs that are surely together or apart are not asked again
    answers = np.array([[0, 1, 0], [4, 2, 1], [0, 5, 1], [3, 4, 0]])
    choice = strategies.STRATEGIES["again"](made_up(draws), answers, 3, np.random.default_rng(0))
    assert choice.pairs[0].tolist() == [2, 4]
    assert (choice.pairs == 2).any(axis=1).all()
