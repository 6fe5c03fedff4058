"""Published means: a table that somebody typed, and the verdicts on it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cubes import toy
from cubes.reported import content, texts, titles

from pipeline.report.against import (
    ABSENT,
    BELOW,
    NO_ERROR,
    NOT_DONE,
    WITHIN,
    Published,
    against_tables,
    compare,
    draw_verdicts,
    read_published,
    summarise,
)
from sweeps.errors import InputError

HEAD = "p,n_clusters,m,model,metric,value"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "theirs.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_table_is_read_whatever_the_order_of_its_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "value,metric,model,m,n_clusters,p", "0.4808,kl,likelihood,100,2,0.9")
    assert read_published(path) == [Published(2, 0.9, 100, "likelihood", "goldberger_kl", 0.4808, 4)]
    with pytest.raises(InputError, match="readable file"):
        read_published(tmp_path / "none.csv")


def test_every_problem_is_said_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        HEAD,
        "0.8,2,100,posterior,nmi,0.5",
        "1.8,2,100,posterior,nmi,0.5",
        "0.8,two,100.5,posterior,nmi,0.5",
        "0.8,2,100,posteriour,nmy,nan",
        "0.8,2,0,posterior,nmi,0.5",
        "0.8,2,100,unsupervised,nmi,0.5",
        "0.8,2,100,posterior,nmi",
        "0.80,2,100,posterior,nmi,0.6",
    )
    with pytest.raises(InputError) as caught:
        read_published(path)
    found = [str(problem).removeprefix(f"{path}, ") for problem in caught.value.problems]
    assert [text.split(":")[0] for text in found] == [
        "line 3, p", "line 4, n_clusters", "line 4, m", "line 5, value", "line 5, model", "line 5, metric",
        "line 6", "line 7", "line 8", "line 9",
    ]  # fmt: skip
    assert "did you mean 'posterior'?" in found[4]
    assert "line 2 again" in found[-1]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((), "nothing"),
        ((HEAD,), "no values"),
        (("p,n_clusters,m,model,score,value", "0.8,2,100,posterior,nmi,0.5"), "0 columns 'metric'"),
        ((HEAD + ",p", "0.8,2,100,posterior,nmi,0.5,0.8"), "2 columns 'p'"),
    ],
)
def test_a_table_without_its_columns_or_values_is_refused(
    tmp_path: Path, lines: tuple[str, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        read_published(written(tmp_path, *lines))


def test_every_value_with_a_z_is_a_digit_at_its_place() -> None:
    rows = [("nmi", 2, 100, 1.5), ("nmi", 4, 200, -3.0), ("goldberger_kl", 2, 100, np.nan)]
    compared = pd.DataFrame(rows, columns=["score", "n_clusters", "m", "z"]).assign(p=0.8, model="posterior")
    figure = draw_verdicts(compared)
    assert figure is not None
    assert titles(figure) == ["accuracy p = 0.8"]
    drawn = [(text.get_text(), text.get_position()) for text in figure.axes[0].texts]
    assert drawn == [("2", (100.0, 1.5)), ("4", (200.0, -3.0))]
    assert draw_verdicts(compared.assign(z=np.nan)) is None


def summary(*rows: tuple[str, float | None, int | None, str, float, float]) -> pd.DataFrame:
    """Means of NMI: data set, p, m, model, mean, s.e."""
    columns = ["dataset", "p", "m", "model", "mean", "se"]
    table = pd.DataFrame(rows, columns=columns).astype({"m": "Int64", "p": float})
    return table.assign(score="nmi", n=5)


PLANS = {"mix_k3": toy.plan("mix_k3", mixtures=5)}


def value(printed: str, *, m: int = 10, model: str = "posterior", p: float = 0.8) -> Published:
    digits = len(printed.partition(".")[2])
    return Published(3, p, m, model, "nmi", float(printed), digits)


@pytest.mark.parametrize(
    ("mean", "se", "printed", "verdict"),
    [
        (0.50, 0.01, "0.5282", WITHIN),  # 2·√2·0.01 = 0.02828
        (0.50, 0.01, "0.5283", BELOW),
        (0.99999, 0.0, "1.0000", WITHIN),  # equal as printed
        (0.00004, 0.00001, "0.0000", WITHIN),
        (0.99, 0.0, "1.0000", BELOW),
        (0.50, math.nan, "0.5000", WITHIN),
        (0.50, math.nan, "0.5100", NO_ERROR),
        (math.nan, math.nan, "0.5", NOT_DONE),
    ],
)
def test_verdicts(mean: float, se: float, printed: str, verdict: str) -> None:
    ours = summary(("mix_k3", 0.8, 10, "posterior", mean, se))
    (row,) = compare(ours, PLANS, [value(printed)]).itertuples()
    assert row.verdict == verdict
    if round(mean, len(printed) - 2) == float(printed):
        assert row.z == 0
    elif se > 0:
        assert row.z == pytest.approx((mean - float(printed)) / (math.sqrt(2) * se))


def test_what_the_cube_has_not_is_said_and_not_judged() -> None:
    ours = summary(
        ("mix_k3", 0.8, 10, "posterior", 0.5, 0.1), ("mix_k3", None, None, "unsupervised", 0.4, 0.1)
    )
    theirs = [value("0.5"), value("0.45", m=0, model="unsupervised"), value("0.5", m=20), value("0.5", p=0.9)]
    compared = compare(ours, PLANS, theirs)
    assert compared["verdict"].tolist() == [WITHIN, WITHIN, ABSENT, ABSENT]
    assert summarise(compared).startswith("2 of 2 published values lie within")
    assert "of 4 in the table 2 not in this cube" in summarise(compared)
    totals, every = against_tables(content(compared=compared))
    assert len(every.rows) == 4
    assert texts(totals)[0][:7] == ["NMI", "3", "0.8", "3", "2", "0", "0"]


def test_only_mixtures_are_compared_and_each_set_of_them() -> None:
    plans = {
        "iris": toy.plan("iris"),
        "a": toy.plan("a", mixtures=5),
        "b": toy.plan("b", mixtures=5),
    }
    ours = summary(*((name, 0.8, 10, "posterior", 0.5, 0.1) for name in plans))
    assert compare(ours, plans, [value("0.5")])["dataset"].tolist() == ["a", "b"]
