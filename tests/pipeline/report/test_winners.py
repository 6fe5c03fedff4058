"""Which model wins: costs by hand, and names in figures of few and many models."""

from itertools import combinations

import numpy as np
import pytest
from contests import cell, table
from matplotlib.text import Text

from sweep_clustering.pipeline.report import winners
from sweep_clustering.pipeline.report.figures import house_style
from sweep_clustering.pipeline.scoring.ranking import rank
from sweep_clustering.sweeps.words import MODEL_CODES


def test_time_is_a_geometric_mean_over_data_sets_and_what_is_beaten_is_not_marked() -> None:
    times = {"quick": (0.1, 10.0), "good": (1.0, 100.0), "beaten": (2.0, 200.0), "instant": (0.0, 0.0)}
    levels = {"quick": 0.4, "good": 0.8, "beaten": 0.7, "instant": 0.2}
    cells = table(
        cell(f"d{number}", model, levels[model], p=0.9, cpu_seconds=times[model][number])
        for number in range(2)
        for model in times
    )
    found = winners.cost_table(rank(cells, "nmi"), cells).set_index("model")
    assert found["cpu_seconds"].to_dict() == pytest.approx({"quick": 1.0, "good": 10.0, "beaten": 20.0})
    assert found["mean"].to_dict() == pytest.approx({name: levels[name] for name in found.index})
    assert found["best"].to_dict() == {"quick": True, "good": True, "beaten": False}
    assert winners.cost_table(rank(cells, "nmi"), cells.assign(cpu_seconds=0.0)).empty


def test_names_and_bars_are_moved_apart_and_stay_in_order() -> None:
    for places, moved in (
        ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9]),
        ([0.5, 0.5, 0.95, 0.99, 1.0], [0.45, 0.55, 0.8, 0.9, 1.0]),
        ([0.0, 0.0, 0.3], [0.0, 0.1, 0.3]),
    ):
        assert winners.apart(np.array(places), 0.1) == pytest.approx(moved)
    assert winners.bar_levels([(0, 2), (1, 3), (3, 4)]) == [0, 1, 0]


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (("pending", "pending"), "2 cells are pending."),
        (("failed",), "1 cell failed."),
        (("pending", "failed", "pending"), "1 cell failed and 2 cells are pending."),
    ],
)
def test_counts_of_cells_that_are_missing_say_why(states: tuple[str, ...], sentence: str) -> None:
    rows = [cell("d", name, 0.5, p=0.9, replicate=draw) for name in "ab" for draw in range(2)]
    rows += [cell("d", "a", 0.5, p=0.9, replicate=2 + at, status=state) for at, state in enumerate(states)]
    findings = " ".join(winners.findings([rank(table(rows), "nmi")]))
    assert f"On data sets with a score {sentence}" in findings


@pytest.mark.parametrize(("n_models", "n_datasets"), [(2, 1), (25, 12)])
def test_no_name_is_cut_off_or_stands_on_another(n_models: int, n_datasets: int) -> None:
    rng = np.random.default_rng(n_models)
    names = [*MODEL_CODES, "k-means", "a-method-with-a-name-of-some-length"][-n_models:]
    rows = []
    for number, (place, model) in (
        (number, each) for number in range(n_datasets) for each in enumerate(names)
    ):
        level = rng.uniform(0.3, 0.6) + 0.01 * place
        rows.append(cell(f"d{number}", model, level, p=0.9, cpu_seconds=10**level))
    cells = table(rows)
    found = rank(cells, "nmi")
    with house_style():
        for figure in (
            winners.draw_ranks(found),
            winners.draw_costs(winners.cost_table(found, cells), "nmi"),
        ):
            assert figure is not None
            figure.draw_without_rendering()
            boxes = [Text.get_window_extent(text) for text in figure.axes[0].texts]  # without arrows
            assert len(boxes) == n_models
            whole = figure.bbox.padded(1)
            assert all(whole.containsx(x) and whole.containsy(y) for box in boxes for x, y in box.corners())
            for one, other in combinations(boxes, 2):
                across = min(one.x1, other.x1) - max(one.x0, other.x0)
                assert min(across, min(one.y1, other.y1) - max(one.y0, other.y0)) < 2.5
