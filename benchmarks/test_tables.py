"""Documents and benchmarks agree on what is measured; small runs of the benchmarks give their tables."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from checkout import ROOT
from tables import Sentence, Table, blocks, replaced

from kernels.settings import SearchSettings

END = "<!-- /benchmark -->"
TEXT = f"a\n<!-- benchmark: x/y -->\n| old |\n{END}\nb\n<!-- benchmark: z -->\n1\n{END}\n"


def test_every_block_has_a_benchmark_and_every_table_a_block() -> None:
    command = [sys.executable, "-W", "error", "-m", "benchmarks", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_stands_between_other_markers_stays() -> None:
    assert list(blocks(TEXT)) == [("x/y", "| old |"), ("z", "1")]
    assert replaced(TEXT, {"x/y": "| new |"}) == TEXT.replace("old", "new")
    assert replaced(TEXT, {"other": "| new |"}) == TEXT


def test_a_table_is_markdown() -> None:
    table = Table("t", ("", "m"))
    assert table.markdown([("a", 1), ("b", 2.5)]) == "| | m |\n|---|---|\n| a | 1 |\n| b | 2.5 |"


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("annotators", {"mixtures": 2, "counts": (30,), "restarts": 1}),
        ("biased_pairs", {"mixtures": 2, "counts": (30,), "restarts": 1}),
        ("strong", {"draws": (0,), "restarts": 1, "mixtures": 1, "every": 4, "real": False}),
        ("speed", {"mixtures": 1, "restarts": 1, "real": False}),
    ],
)
def test_a_small_run_fills_the_tables(name: str, sizes: dict[str, object]) -> None:
    benchmark = importlib.import_module(name)
    measured = benchmark.measure(**sizes)
    assert {table.name for table in benchmark.TABLES} <= set(measured)
    for table in benchmark.TABLES:
        assert "nan" not in measured[table.name]
        if isinstance(table, Sentence):
            assert table.fits(measured[table.name])
            continue
        head, rule, *rows = measured[table.name].splitlines()
        assert (head, rule) == (table.form, "|---" * len(table.columns) + "|")
        assert rows
        assert {row.count("|") for row in rows} == {len(table.columns) + 1}


def test_of_two_searches_the_better_for_its_time_has_the_smaller_ratio() -> None:
    strong = importlib.import_module("strong")
    slow, quick = strong.Trial(np.array([1.0, 2.0]), 4.0), strong.Trial(np.array([2.0, 2.0]), 1.0)
    assert (slow.hits(2.0), quick.hits(2.0)) == (0.5, 1.0)
    assert slow.seconds_to_best(2.0) == 4.0 * 2.5 / 1.5
    assert quick.seconds_to_best(2.0) == 1.0
    assert strong.ratio([quick, quick], [slow, slow], [2.0, 2.0]) == "0.150 ×/÷ 1.00"
    assert strong.cpu_ratio([quick], [slow]) == "0.25"
    poor = strong.Trial(np.array([0.5, -1.0]), 1.0)
    assert strong.falls_short([quick, poor], [slow, slow]).tolist() == [1.5]


def test_a_ratio_is_of_two_times_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    speed = importlib.import_module("speed")
    clock = {"now": 0.0}
    seconds = {"annotated": 3.0, "components": 1.5}
    counts = SimpleNamespace(local_searches=100, evaluations=400_000)

    def restart(problem: object, settings: SearchSettings, rng: object) -> SimpleNamespace:
        clock["now"] += seconds[settings.relocation]
        return counts

    monkeypatch.setattr(speed, "run_restart", restart)
    monkeypatch.setattr(speed.time, "process_time", lambda: clock["now"])
    row = speed.search_row("K = 2", [None, None], 2)
    assert row == ("K = 2", "30.00", "4,000", "7500", "0.50")


def test_tables_of_asking_from_made_up_scores() -> None:
    asking = importlib.import_module("asking")
    gains = {asking.UNIFORM: 0.0, asking.ACTIVE: 0.1, "farthest-first": -0.05, "committee": 0.05}
    found = {
        asking.Task(name, p, path, strategy): asking.Found(
            {share: (0.4 + 0.1 * share + gain, 0.3 + 0.1 * share + gain) for share in asking.LONG_UNIFORM},
            [(share, 0.8, 0.7, 0.9, 0.75) for share in (0.0, 0.5, 1.0, 1.5)],
        )
        for strategy, gain in gains.items()
        for name, p, path in itertools.product(("iris", "wine"), asking.ACCURACIES, range(2))
    }
    names = ["iris", "wine"]
    gain = asking.GAIN.markdown(asking.gain_rows(found, names)).splitlines()
    assert gain[2].startswith("| information | 0.8 | +0.100 ± 0.000 ")
    assert "| farthest-first | 1 | -0.050 ± 0.000 " in gain[7]
    # uniform pairs gain 0.1 for N: those that were chosen are ahead by as much as N more of them
    budget = asking.BUDGET.markdown(asking.budget_rows(found, names)).splitlines()
    assert budget[2] == "| 0.8 | 0.5 N | 0.550 | 1.50 N | 0.33 | 0.450 | 1.50 N | 0.33 |"
    assert asking.ratio(1.0, 0.9, [0.1] * len(asking.LONG_UNIFORM)) == ("over 3 N", "under 0.33")
    share = asking.SHARE.markdown(asking.share_rows(found)).splitlines()
    assert share[2] == "| none | 12 | 0.800 | 0.750 | 100% | 0.200 |"
    assert len(asking.draw(found, names).axes) == 6


def test_paths_of_asking_are_as_long_as_the_largest_share() -> None:
    asking = importlib.import_module("asking")
    task = asking.Task("mixture, K = 3", 0.9, 0, asking.ACTIVE, (0.2,))
    found = asking.run(task)
    assert list(found.scores) == [0.2]
    assert [round(each[0], 3) for each in found.beliefs] == [0.0, 0.125]
    assert asking.share_right(np.array([1, 1, 0, 0]), np.array([0, 0, 0, 1])) == 0.75
