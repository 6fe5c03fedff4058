"""The progress of a fit has one total that does not grow, and a time left that is about right."""

import io
import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.settings import DEFAULT
from sweep_clustering.kernels.structure import ANY, MANY_CLASSES, MOST_ROWS, part_size
from sweep_clustering.kernels.unions.contest import Cut
from sweep_clustering.pipeline.fit import running
from sweep_clustering.pipeline.fit.counts import OpenCounts
from sweep_clustering.pipeline.fit.running import CUTS, FitProgress, costs_of, progress, runner
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.sweeps.annotations.draw import draw_annotations

# Calls and seconds of each round of a fit, with its number of clusters and of rows, as measured on two cores.
MEASURED = {
    "digits": (
        (10, 1797),
        (
            *((15, 0.43), (45, 0.81), (7, 0.17), (4, 0.09), (8, 0.22), (4, 0.26), (0, 0.0), (0, 0.0)),
            *((1, 0.08), (3, 0.04), (3, 0.34), (3, 0.43), (0, 0.0), (3, 0.19), (3, 0.28), (0, 0.0)),
            *((9, 0.39), (9, 0.56), (1, 0.04), (9, 0.42), (0, 0.0), (6, 1.24), (9, 0.59), (4, 0.48)),
            *((3, 0.12), (4, 0.09), (6, 0.13), (10, 0.78)),
        ),
    ),
    "5,000 drawn rows": (
        (5, 5000),
        (
            *((12, 0.28), (33, 0.92), (10, 0.21), (3, 0.07), (5, 0.07), (4, 0.08), (0, 0.0), (0, 0.0)),
            *((1, 0.05), (6, 0.06), (5, 0.1), (5, 0.18), (0, 0.0), (6, 0.39), (5, 0.44), (0, 0.0)),
            *((9, 0.15), (6, 0.17), (0, 0.0), (9, 0.11), (0, 0.0), (6, 1.0), (9, 0.31), (4, 0.29)),
            *((3, 0.22), (2, 0.13), (3, 0.18), (10, 0.29)),
        ),
    ),
    "20,000 drawn rows": (
        (4, 20000),
        (
            *((12, 0.19), (33, 0.61), (10, 0.09), (2, 0.04), (4, 0.07), (4, 0.05), (0, 0.0), (0, 0.0)),
            *((0, 0.0), (4, 0.05), (5, 0.08), (5, 0.1), (0, 0.0), (6, 0.27), (2, 0.08), (0, 0.0)),
            *((9, 0.12), (6, 0.11), (0, 0.0), (9, 0.07), (0, 0.0), (6, 3.49), (9, 0.31), (4, 0.23)),
            *((3, 0.19), (2, 0.09), (0, 0.01), (10, 0.2), (2, 0.16)),
        ),
    ),
    "89 classes": (
        (89, 1500),
        (
            *((2, 0.11), (9, 1.42), (6, 2.98), (9, 3.34), (4, 1.51), (6, 2.29), (2, 0.15), (3, 0.23)),
            (10, 2.6),
        ),
    ),
}
ANSWERS = [SimpleNamespace(pairs=range(100))]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def costs(n_clusters: int, n_samples: int = 150, pairs: object = ANSWERS) -> tuple[float, ...]:
    return costs_of(n_clusters, n_samples=n_samples, layers=pairs, covariance=ANY)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MEASURED)
def test_the_time_left_is_right_within_a_factor_of_two(name: str) -> None:
    (n_clusters, n_samples), rounds = MEASURED[name]
    clock, whole = Clock(), sum(seconds for _, seconds in rounds)
    state = FitProgress(clock)
    state.expect([costs(n_clusters, n_samples)])
    state.begin_fit()
    shares, ratios = [0.0], []
    for n_calls, seconds in rounds:
        advance = state.begin_round(n_calls)
        for _ in range(n_calls):
            clock.now += seconds / n_calls
            advance()
            shares.append(state.share)
            if 0.2 * whole < clock.now < 0.8 * whole:
                assert state.seconds_left is not None
                ratios.append(state.seconds_left / (whole - clock.now))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert min(ratios) > 0.5
    assert max(ratios) < 2.0


def test_the_share_never_falls_when_other_fits_come_than_were_expected() -> None:
    state = FitProgress(Clock())
    state.expect([(CUTS,), *map(costs, range(2, 11))])
    state.begin_fit()
    state.begin_round(1)()
    after_cuts = state.share
    assert 0.0 < after_cuts < 0.1
    state.expect([costs(3), costs(89)])
    assert state.share == after_cuts
    shares = []
    for n_rounds in (2, 40):  # the first fit ends early, and the second has rounds that nobody expected
        state.begin_fit()
        for _ in range(n_rounds):
            state.begin_round(1)()
            shares.append(state.share)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("n_answers", [0, 60])
def test_fits_have_as_many_rounds_as_are_expected(n_answers: int) -> None:
    X, labels = (values[::3] for values in load_iris(return_X_y=True))
    layers = []
    if n_answers:
        drawn = draw_annotations(np.random.default_rng(4), labels, p=0.9, m=n_answers)
        layers = [Layer(kind, drawn[drawn[:, 2] == kind, :2].astype(np.int64)) for kind in (MUST, CANNOT)]
    rounds = []

    def run(function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        rounds.append(function)
        return list(map(function, arguments))

    model = "conditional-any" if n_answers else "unsupervised"
    fit(X, layers, n_clusters=3, model=model, covariance=ANY, restarts=2, settings=DEFAULT, seed=0, run=run)
    assert len(rounds) == len(costs(3, len(X), layers))


def test_a_pipe_and_a_notebook_get_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stderr = Clock(), io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setattr(running, "FitProgress", lambda: FitProgress(clock))
    with progress(has_lines=True) as state:
        state.expect([(1.0,)])
        state.begin_fit()

        def call(number: int) -> int:
            clock.now += 2.0
            return number

        assert runner(1, state)(call, range(10)) == list(range(10))
    lines = stderr.getvalue().splitlines()
    assert lines[0] == "fit: 10% done, about 18 seconds left"
    assert lines[-1] == "fit: done, about 20 seconds"
    assert all(re.fullmatch(r"fit: \d+% done, about \d+ seconds? left", line) for line in lines[:-1])
    assert 5 <= len(lines) <= 11


def test_nothing_is_shown_without_being_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for options in ({}, {"is_shown": False, "has_lines": True}):
        with progress(**options) as state:
            state.expect([(1.0,)])
            runner(1, state)(abs, [1])
    assert capsys.readouterr() == ("", "")


def test_costs_are_classes_in_as_many_rounds_as_answers_rows_and_classes_ask_for() -> None:
    few, enough = (
        [SimpleNamespace(pairs=range(19))],
        [SimpleNamespace(pairs=range(19)), SimpleNamespace(pairs=[0])],
    )
    assert costs_of(3, n_samples=150, layers=few, covariance="full") == (11.0,)
    assert costs(2, pairs=few) == pytest.approx((0.4, 5.0, 4.6))
    assert len(costs(2, pairs=enough)) == 28
    assert len(costs(MANY_CLASSES)) == 28
    assert len(costs(MANY_CLASSES + 1)) == 9
    assert sum(costs(MANY_CLASSES + 1)) == pytest.approx(39.0)
    # trees of single rows come on top, up to the most rows, of which a large table has a part
    for n_samples, n_rows in ((1000, 1000), (4000, 4000), (4001, 0), (1999, 1999), (20_000, part_size(2))):
        of_trees = 7.7 * (n_rows / MOST_ROWS) ** 2
        assert sum(costs(2, n_samples)) == pytest.approx(10.0 + of_trees, rel=0.02), n_samples


def test_a_sure_cut_is_the_number_that_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    open_counts, check = Mock(return_value=OpenCounts((40,), Cut(28, 40))), Mock()
    monkeypatch.setattr(running, "open_counts", open_counts)
    options: Any = {"n_jobs": 1, "model": "conditional", "restarts": 1, "settings": DEFAULT}
    names = {"covariance": ANY, "seed": 7, "n_names": 5}
    count, words = running.choose_count(np.eye(3), [], FitProgress(), check=check, **options, **names)
    assert count == 40
    assert words.endswith("; 28 to 40 predict equally well")
    assert {name: open_counts.call_args.kwargs[name] for name in names} == names
    check.assert_called_once_with(40)
