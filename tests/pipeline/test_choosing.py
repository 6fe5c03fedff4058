"""Several numbers of clusters can be named, and one is chosen by a criterion with its figure."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from solving.answers import answered

from sweep_clustering import AnnotatedClustering
from sweep_clustering.kernels.choice import Criteria, HeldOut, list_annotations
from sweep_clustering.kernels.problem.data import MUST, Layer
from sweep_clustering.kernels.problem.hard import Contradiction
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.kernels.structure import AVERAGE, NONE, Structure
from sweep_clustering.kernels.unions import contest
from sweep_clustering.kernels.unions.contest import Cut
from sweep_clustering.pipeline.fit import counts as module
from sweep_clustering.pipeline.fit.solve import FitResult, fit
from sweep_clustering.pipeline.report.figures import draw_choice, picture


def candidate(
    n_clusters: int,
    bic: float,
    logs: list[float] | None = None,
    solution: object = None,
    icl_of_features: float | None = None,
) -> module.Candidate:
    """Return a candidate with its BIC, log-probabilities of held-out annotations, and ICL of the features."""
    best = SimpleNamespace(objective=-1.0, sizes=np.full(n_clusters, 10))
    scores = {"annotation_agreement": 0.75}
    result: Any = SimpleNamespace(best=best, covariance="full", scores=scores, solution=solution, skill=None)
    sure, values = np.array([0.999, 0.001, 0.999, 0.999]), np.array(logs or [])
    predicted = HeldOut(values, values > -0.7, np.ones(len(values)), sure[: len(values)])
    criteria = Criteria(bic, 7, 0.0, 0.0, 0.5, icl_of_features)
    return module.Candidate(n_clusters, result, criteria, predicted if logs else None)


def solution_of(covariance: str = "full", *, annotated: bool) -> SimpleNamespace:
    """Return a solution whose classes have a structure."""
    return SimpleNamespace(structure=Structure(NONE, 1, covariance, annotated=annotated))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", (5,)), ("0", (0,)), ("2..4", (2, 3, 4)), ("3..3", (3,)), ("5,2,3", (2, 3, 5)),
        ("2..3, 6..7", (2, 3, 6, 7)),
        ("x", ["'x'"]), ("", ["''"]), ("2.5", ["'2.5'"]), ("2..", ["'2..'"]), ("2..3..4", ["'2..3..4'"]),
        ("1..0", ["1..0", "0"]), ("0..2,x, 9..8 ", ["0", "'x'", "9..8"]),
        ("2,3,3,2..2", ["2, 3 more than once"]),
        ("2,32768", ["32768"]), ("-1,2,", ["-1", "'-1,2,'"]), ("2, ", ["'2, '"]),
    ],
)  # fmt: skip
def test_counts_are_read_or_all_that_is_wrong_is_said(text: str, expected: object) -> None:
    counts, problems = module.read_counts(text)
    assert {problem.where for problem in problems} <= {"-k"}
    assert ([problem.value for problem in problems] or counts) == expected
    assert counts == (1,) or not problems


def test_numbers_are_compared_beside_distance_if_one_has_merged_groups() -> None:
    few = candidate(2, 0.0, [-0.5, -0.4, -0.5, -0.4], solution_of(annotated=True))
    many = candidate(5, 0.0, [-0.1] * 4, solution_of(annotated=True))
    for candidate_of_k, logs in ((few, [-0.05] * 4), (many, [-0.1] * 4)):
        score = HeldOut(np.array(logs), np.ones(4, bool), np.ones(4), np.ones(4))
        candidate_of_k.result.skill = SimpleNamespace(with_distance=score, overall=score)
    assert module.choose([few, many]).chosen.n_clusters == 5
    many.result.covariance = AVERAGE
    assert module.choose([few, many]).chosen.n_clusters == 2


def test_numbers_are_compared_on_random_pairs_if_the_answers_are_about_others() -> None:
    few = candidate(2, 0.0, [-0.1] * 4, solution_of(annotated=True))
    more = candidate(5, 0.0, [-0.4] * 4, solution_of(annotated=True))
    for row, loss in ((few, 0.9), (more, 0.7)):
        overall = HeldOut(np.full(4, -loss), np.ones(4, bool), np.ones(4), np.ones(4))
        row.result.skill = SimpleNamespace(with_distance=row.held_out, overall=overall)
    choice = module.choose([few, more])
    assert choice.chosen.n_clusters == 5
    assert choice.values.tolist() == pytest.approx([0.9, 0.7])
    assert choice.reason.endswith(module.RANDOM)
    head, _, five, *_ = choice.lines()
    assert head.split() == ["K", "log", "loss", "with", "random", "pairs"]
    assert five.split() == ["*", "5", "0.4000", "0.7000"]
    rows = choice.to_json()["candidates"]
    assert [row["held_out_log_loss"] for row in rows] == pytest.approx([0.1, 0.4])
    assert [row["overall_log_loss"] for row in rows] == pytest.approx([0.9, 0.7])
    assert "random pairs" in draw_choice(choice).axes[0].get_title()


@pytest.mark.parametrize(
    ("cut", "is_alone"),
    [
        (Cut(60, 80), True),
        (Cut(60, 80, is_clear=False), False),
        (Cut(20, 25), False),
        (Cut(20, 25, is_by_nearest=True), True),
        (Cut(20, 25, is_by_nearest=True, is_clear=False), False),
    ],
)
def test_a_cut_that_random_pairs_alone_ask_for_is_compared_with_few_numbers(
    cut: Cut, is_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_clustering.kernels.unions.contest.choose_cut", lambda *arguments: cut)
    layers = [Layer(MUST, np.array([[0, 1]]))]
    numbers, *_ = module.open_counts(
        np.random.default_rng(0).normal(size=(200, 2)), layers, covariance="any", seed=0, run=map
    )
    assert numbers == ((cut.n_clusters,) if is_alone else (*module.TRIED, cut.n_clusters))


def test_figure_needs_a_name_a_place_and_several_numbers(tmp_path: Path) -> None:
    def problems_of(path: Path | None, counts: tuple[int, ...] = (2, 3), **more: object) -> list[str]:
        options = {"out": None, "overwrite": False} | more
        return [problem.where for problem in module.option_problems(counts, figure=path, **options)]  # type: ignore[arg-type]

    there = tmp_path / "there.svg"
    there.touch()
    assert problems_of(None) == problems_of(tmp_path / "new.PNG") == problems_of(there, overwrite=True) == []
    assert problems_of(there) == problems_of(tmp_path / "new.png", (2,)) == ["--figure"]
    assert problems_of(tmp_path / "no" / "new.jpg") == ["--figure", "--figure"]
    assert problems_of(there, out=there, overwrite=True) == ["--figure"]
    assert problems_of(None, overwrite=True) == ["--force"]


def test_bic_decides_within_one_standard_error_of_the_least_log_loss() -> None:
    """By hand: differences to the best of 0, 0, 1, 1 are 0.5 in the mean, ± ¼ √(4 · 0.25) = 0.25."""
    best = [-0.1, -0.1, -0.1, -0.1]
    uneven, close, far = [-0.1, -0.1, -1.1, -1.1], [-0.1, -0.1, -0.1, -0.5], [-1.0] * 4
    values = [(5.0, far), (4.0, uneven), (1.0, close), (0.0, best)]
    candidates = [candidate(number, bic, logs) for number, (bic, logs) in enumerate(values, start=2)]
    choice = module.choose(candidates)
    assert [error for _, error in module.gains(candidates)] == pytest.approx(
        [0.0, 0.25, 0.25 * np.sqrt(3 * 0.01 + 0.09), 0.0]
    )
    # 4 is 0.1 behind with an error of 0.087, 3 is 0.5 behind with one of 0.25
    assert choice.criterion == module.HELD_OUT
    assert choice.chosen.n_clusters == 5
    assert [within.n_clusters for within in module.finalists_of(candidates, 1.2)] == [4, 5]
    assert [within.n_clusters for within in module.finalists_of(candidates, 2.1)] == [3, 4, 5]
    candidates[2] = candidate(4, 1.0, [-0.05, -0.1, -0.1, -0.3])
    assert module.choose(candidates).chosen.n_clusters == 4


def test_table_and_json_have_every_candidate() -> None:
    choice = module.choose([candidate(3, 5.0, [-0.1] * 4), candidate(10, 4.0, [-3.0] * 4)])
    first, two, ten, accuracy = choice.lines(0.9)
    assert first.split() == ["K", "objective", "parameters", "BIC", "ICL", "log", "loss"]
    assert two.split() == ["*", "3", "-1.00", "7", "5.00", "4.50", "0.1000"]
    assert ten.split() == ["10", "-1.00", "7", "4.00", "3.50", "3.0000"]
    assert accuracy.startswith("accuracy   told 0.9, estimated 0.75")
    assert choice.reason.startswith("3 of 3, 10 tried: the largest BIC among those that predict")
    assert choice.reason.endswith("; 3 is the smallest tried, and the best may lie beyond")
    document = choice.to_json()
    assert document["n_clusters"] == 3
    assert document["criterion"] == module.HELD_OUT
    assert document["accuracy_held_out"] == pytest.approx(0.75, abs=0.01)
    assert [row["bic"] for row in document["candidates"]] == [5.0, 4.0]
    assert document["candidates"][0]["held_out_log_loss"] == pytest.approx(0.1)
    # BIC alone, the smaller number on ties
    choice = module.choose([candidate(2, -9.0), candidate(3, -7.0), candidate(4, -7.0)])
    assert choice.criterion == module.BIC
    assert choice.chosen.n_clusters == 3
    assert choice.values.tolist() == [-9.0, -7.0, -7.0]
    assert choice.reason == f"3 of 2 to 4 tried: the largest BIC; {module.OVERLAP}"
    document = choice.to_json()
    assert document["accuracy_held_out"] is document["candidates"][0]["held_out_log_loss"] is None


def test_icl_of_the_features_compares_classes_of_any_shape() -> None:
    close, solution = [-0.1, -0.1, -0.05, -0.2], solution_of(annotated=True)
    values = [
        ([-1.0] * 4, 40.0),  # is far behind
        (close, None),
        ([-0.1] * 4, None),
        (close, 30.0),
        (close, 10.0),
    ]
    candidates = [
        candidate(number, 50.0 - number, logs, solution, bic) for number, (logs, bic) in enumerate(values, 2)
    ]
    choice = module.choose(candidates)
    assert choice.criterion == module.FEATURES
    assert choice.chosen.n_clusters == 5
    assert [line.split() for line in choice.lines()[:3]] == [
        ["K", "ICL", "of", "features", "log", "loss"],
        ["2", "40.00", "1.0000"],
        ["3", "0.1125"],
    ]
    assert choice.to_json()["candidates"][0]["icl_of_features"] == 40.0
    (axes,) = draw_choice(choice).axes
    assert axes.get_ylabel() == "log loss of an annotation, nats"
    others = module.choose(candidates[:3])
    assert others.criterion == module.FEWEST
    assert others.chosen.n_clusters == 3
    assert others.reason.startswith("3 of 2 to 4 tried: the fewest that predict held-out answers")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Contradiction(2, np.arange(2))])
def test_what_ends_every_fit_ends_the_choice(error: BaseException) -> None:
    with pytest.raises(type(error)):
        module.choose_clusters((2, 3), Mock(side_effect=error), salvage=True)


def test_numbers_that_are_tried_leave_samples_to_spare() -> None:
    assert module.feasible_counts(np.arange(12.0)[:, None], module.TRIED) == (2, 3, 4, 5, 6)
    assert module.feasible_counts(np.arange(3.0)[:, None], module.TRIED) == (2,)


@pytest.mark.parametrize("logs", [None, [-0.3] * 4])
def test_numbers_that_put_too_many_rows_together_take_no_part(logs: list[float] | None) -> None:
    # two, three and four clusters of ten rows put 47 %, 31 % and 23 % of the pairs together
    rows = [candidate(count, 9.0 - count, logs) for count in (2, 3, 4)]
    np.testing.assert_allclose([row.share_together for row in rows], [9 / 19, 9 / 29, 9 / 39])
    assert module.choose(rows).chosen.n_clusters == 2
    assert "allow" not in module.choose(rows).reason
    choice = module.choose(rows, max_share=9 / 29)
    assert choice.chosen.n_clusters == 3
    assert "with 2, more rows are together than answers about random pairs allow" in choice.reason
    too_many = module.choose(rows, max_share=0.1)
    assert too_many.chosen.n_clusters == 4
    assert "; 4 is the largest tried, and the best may lie beyond; with 2 to 4, more rows" in too_many.reason


def test_answers_about_random_pairs_bound_the_share_of_pairs_that_are_together() -> None:
    rng = np.random.default_rng(0)
    labels, X = np.arange(300) % 30, rng.normal(size=(300, 4))
    pairs = (np.arange(300)[:, None] + rng.integers([1, 150], size=(300, 2))) % 300
    layers = answered(pairs, labels, rng, right=0.9)
    share = module.share_allowed(X, layers, seed=0)
    must = layers[0].pairs if layers[0].kind == MUST else layers[1].pairs
    assert len(must) / 300 < share < 0.25
    # answers of one kind are chosen ones
    assert module.share_allowed(X, [layer for layer in layers if layer.kind != MUST], seed=0) == 1.0


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")])
def test_the_mark_is_at_what_is_taken_and_files_are_always_the_same(name: str, start: bytes) -> None:
    figure = draw_choice(module.choose([candidate(2, 5.0, [-0.3] * 4), candidate(3, 4.0, [-0.1] * 4)]))
    assert len(figure.axes) == 2
    (mark,) = (line for line in figure.axes[0].lines if line.get_label() == "taken: K = 3")
    assert mark.get_xydata().tolist() == [[3.0, pytest.approx(0.1)]]  # type: ignore[union-attr]
    without = module.choose([candidate(2, 5.0), candidate(3, 4.0)])
    (axes,) = draw_choice(without).axes
    assert [line.get_label() for line in axes.lines] == ["BIC", "ICL", "taken: K = 2"]
    assert axes.lines[0].get_ydata().tolist() == [5.0, 4.0]  # type: ignore[union-attr]
    first, second = (picture(draw_choice(without), Path(name)) for _ in range(2))
    assert first == second
    assert first.startswith(start)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sweep_clustering.AnnotatedClusteringWarning")
def test_few_answers_take_no_class_away_that_the_features_show() -> None:
    n_pairs, rng = 144, np.random.default_rng(2)
    truth = rng.integers(9, size=240)
    X = rng.normal(0.0, 2.2, (9, 8))[truth] + rng.normal(size=(240, 8))
    pairs = rng.integers(240, size=(n_pairs, 2))
    must = (truth[pairs[:, 0]] == truth[pairs[:, 1]]) == (rng.random(n_pairs) < 0.9)
    fit = AnnotatedClustering(random_state=0).fit(X, must_link=pairs[must], cannot_link=pairs[~must])
    assert adjusted_rand(truth, fit.labels_) > 0.9


def test_a_cut_of_a_tree_says_which_numbers_predict_as_well() -> None:
    cut = candidate(40, -10.0, [-0.5, -0.6, -0.7, -0.8])
    cut.result.best.sizes = np.array([1, 7, 1, 30])
    choice = module.ClusterChoice((cut,), module.CUTS, cut, cut=Cut(28, 40))
    assert choice.reason.startswith("40: the most that predict held-out answers as well as any cut")
    assert choice.reason.endswith("; 28 to 40 predict equally well")
    assert replace(choice, cut=Cut(40, 40)).reason.endswith("; no other cut predicts as well")
    assert choice.lines()[2] == "           clusters of one row: 2"
    assert choice.to_json()["equal"] == [28, 40]
    assert draw_choice(choice).axes


def test_a_share_of_must_links_says_which_numbers_it_rules_out() -> None:
    row = candidate(40, -10.0, [-0.5, -0.6, -0.7, -0.8])
    choice = module.ClusterChoice((row,), module.SHARE, row, cut=Cut(28, 40, is_by_share=True))
    assert choice.reason.startswith("40: the pairs are as far apart as random ones, and so many classes")
    assert choice.reason.endswith("; fewer than 28 are unlikely")


def test_a_number_that_was_fitted_alone_and_predicted_nothing_has_no_table() -> None:
    row = candidate(40, -10.0)
    row.result.best.sizes = np.array([1, 7, 1, 30])
    choice = module.ClusterChoice((row,), module.SHARE, row, cut=Cut(28, 40, is_by_share=True))
    assert choice.lines() == ["           clusters of one row: 2"]


def test_numbers_that_answers_rule_out_are_not_fitted() -> None:
    rng = np.random.default_rng(0)
    labels, X = np.arange(300) % 30, rng.normal(size=(300, 4))
    pairs = rng.integers(300, size=(900, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    layers = answered(pairs, labels, rng, right=0.9, accuracy=0.9)
    counts = module.open_counts(X, layers, covariance="any", seed=0, run=map)
    assert counts.cut is not None
    assert counts.cut.is_by_share
    assert counts.numbers == (counts.cut.n_clusters,)
    assert counts.cut.low > 10

    def fit_once(n_clusters: int) -> FitResult:
        return fit(
            X,
            layers,
            n_clusters=n_clusters,
            model="conditional",
            covariance="any",
            restarts=1,
            settings=settings_of({}),
            seed=0,
            predict_annotations=True,
        )

    chosen = module.choose_clusters(counts.numbers, fit_once, counts.cut)
    assert chosen.criterion == module.SHARE


def test_many_classes_are_found_without_their_number() -> None:
    rng = np.random.default_rng(0)
    sizes = np.unique(np.geomspace(2, 50, 70).astype(int))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(sizes), 10))[labels] + 0.4 * rng.normal(size=(len(labels), 10))
    pairs = rng.integers(len(X), size=(700, 2))
    for row in range(0, 700, 2):
        pairs[row, 1] = rng.choice(np.flatnonzero(labels == labels[pairs[row, 0]]))
    must = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    model = AnnotatedClustering(restarts=2, random_state=0).fit(
        X, must_link=pairs[must], cannot_link=pairs[~must]
    )
    assert abs(model.n_clusters_ - len(sizes)) <= 15
    assert adjusted_rand(labels, model.labels_) > 0.9
    assert "groups of rows merged by" in model.choice_
    assert "; by distance alone it would be " in model.choice_
    assert adjusted_rand(labels, model.predict(X)) > 0.9


@pytest.mark.parametrize(("n_names", "is_kept"), [(80, True), (81, False)])
def test_a_cut_has_as_many_classes_as_labels_have_names_or_more(
    n_names: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(60, 80)
    monkeypatch.setattr("sweep_clustering.kernels.unions.contest.choose_cut", lambda *arguments: cut)
    layers, X = [Layer(MUST, np.array([[0, 1]]))], np.random.default_rng(0).normal(size=(200, 2))
    counts = module.open_counts(X, layers, covariance="any", seed=0, run=map, n_names=n_names)
    assert counts.cut == (cut if is_kept else None)
    assert counts.numbers == (n_names,)


@pytest.mark.parametrize(
    ("n_groups", "numbers"), [(1, (1,)), (2, (2,)), (4, (2, 3, 4)), (12, (*range(2, 11), 12))]
)
def test_there_are_no_more_clusters_than_hard_links_leave_groups(
    n_groups: int, numbers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(12, 12)
    monkeypatch.setattr("sweep_clustering.kernels.unions.contest.choose_cut", lambda *arguments: cut)
    rows = np.arange(60)
    pairs = np.column_stack([rows[:-n_groups], rows[n_groups:]])
    layers, X = [Layer(MUST, pairs, is_hard=True)], np.random.default_rng(0).normal(size=(60, 2))
    counts = module.open_counts(X, layers, covariance="any", seed=0, run=map)
    assert counts.numbers == numbers
    assert counts.cut == (cut if n_groups == 12 else None)
    words = f"there can be no more, as hard links leave {n_groups} group{'s' * (n_groups > 1)} of rows"
    assert counts.bounds == {n_groups: words}
    choice = module.choose([candidate(count, float(count), []) for count in counts.numbers])
    assert words in replace(choice, bounds=counts.bounds).reason
    # soft links join nothing
    soft_counts = module.open_counts(
        X, [replace(layers[0], is_hard=False)], covariance="tied", seed=0, run=map
    )
    assert soft_counts == module.OpenCounts(tuple(range(2, 11)))


@pytest.mark.parametrize(
    ("few", "share", "n_clusters"),
    [
        (0.4, contest.OPEN_SHARE, 30),
        (0.4, contest.Share(0.49, 0.01), 20),
        # two classes predict better, but put all rows together
        (0.95, contest.OPEN_SHARE, None),
        (0.95, contest.Share(0.49, 0.01), None),
        (0.95, contest.Share(0.48, 0.001), 20),
        (0.95, contest.Share(0.2, 0.01, is_bound=True), 30),
    ],
)
def test_a_cut_puts_as_many_pairs_together_as_the_share_of_random_pairs_allows(
    few: float, share: contest.Share, n_clusters: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X, labels, pairs = rng.normal(size=(200, 2)), np.arange(200) % 20, rng.integers(200, size=(100, 2))
    layers = answered(pairs, labels, rng, right=0.9, accuracy=0.9)
    annotations = list_annotations(layers, np.random.SeedSequence(0))

    def score(probability: float, together: float) -> HeldOut:
        logs = np.full(len(annotations.folds), np.log(probability))
        agreements = np.where(annotations.is_must, together, 1.0 - together)
        return HeldOut(logs, logs > -0.7, annotations.weights, agreements)

    # a cut into 30 classes predicts as well as one into 20, but has no pair in one class
    scores = {2: score(few, 1.0), 3: score(0.4, 0.2), 20: score(0.9, 0.48), 30: score(0.9, 0.0)}
    rating = {((NONE, AVERAGE), count): value for count, value in scores.items()}
    monkeypatch.setattr(contest, "rate_cuts", lambda *_: contest.Ratings(rating, rating, {}))
    monkeypatch.setattr(contest, "share_together", lambda *_: share)
    cut = contest.choose_cut(X, layers, np.random.SeedSequence(0), 10)
    assert (cut and cut.n_clusters) == n_clusters
