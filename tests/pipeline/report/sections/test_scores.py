"""Tables of scores."""

from __future__ import annotations

from cubes import toy
from cubes.reported import tables

from pipeline.report.sections.scores import MOST_MODELS, families, score_tables
from pipeline.scoring.tables import written_counts
from sweeps.file.spec import AnnotationCount

SHAPES = ("", "-diagonal", "-full", "-tied")


def test_tables_have_the_published_layout() -> None:
    _, summary, plans = tables(*(toy.plan(f"mix_k{k}", n_clusters=k, mixtures=3) for k in (2, 4)))
    found = score_tables(summary, plans, {})
    scores = ("NMI", "ARI", "KL, nats")
    titles = [f"{score}: mix, p = {p}" for score in scores for p in (0.8, 0.9)]
    assert sorted(table.title for table in found) == sorted([*titles, "Without annotations"])
    first = next(table for table in found if table.title == "NMI: mix, p = 0.8")
    assert first.columns == ("m", *("likelihood", "posterior") * 2)
    assert first.groups == ((("", 1), ("K = 2", 2), ("K = 4", 2)),)
    assert [row[0].text for row in first.rows] == ["0", "12", "24"]
    row = summary[
        (summary["dataset"] == "mix_k4") & (summary["p"] == 0.8) & (summary["m"] == 12)
        & (summary["model"] == "posterior") & (summary["score"] == "nmi")
    ].iloc[0]  # fmt: skip
    assert first.rows[1][4].text == f"{row['mean']:.4f} ± {row['se']:.4f}"
    baseline = summary[(summary["dataset"] == "mix_k4") & summary["p"].isna() & (summary["score"] == "nmi")]
    assert first.rows[0][3].order == first.rows[0][4].order == baseline["mean"].iloc[0]


def test_real_data_sets_stand_in_one_table_for_each_score() -> None:
    _, summary, plans = tables(toy.plan("iris"), toy.plan("wine"))
    found = score_tables(
        summary, plans, written_counts(plans, [AnnotationCount("0.5N"), AnnotationCount("1N")])
    )
    named = {table.title: table for table in found}
    real = named["NMI: real data sets"]
    assert [tuple(value.text for value in row[:3]) for row in real.rows] == [
        (name, p, m) for name in ("iris", "wine") for p in ("0.8", "0.9") for m in ("0.5N", "1N")
    ]
    assert real.columns == ("data set", "p", "m", "unsupervised", "likelihood", "posterior")
    # which a baseline does not have
    assert "unsupervised" not in named["relative NMI: real data sets"].columns
    folded = {table.title.partition(":")[0] for table in found if table.folded}
    assert not folded & {"NMI", "ARI", "Without annotations"}
    assert "relative NMI" in folded


def test_many_models_go_on_in_a_table_that_fits_the_page() -> None:
    models = [f"{term}{shape}" for term in ("conditional", "likelihood", "posterior") for shape in SHAPES]
    _, summary, plans = tables(toy.plan("iris", models=tuple(models), model_chunk=len(models)))
    found = [table for table in score_tables(summary, plans, {}) if table.title.startswith("NMI: real data")]
    assert len(found) == 2
    assert all(len(table.columns) <= 3 + MOST_MODELS for table in found)
    assert [model for table in found for model in table.columns[3:]] == ["unsupervised", *sorted(models)]
    assert all(len(row) == len(table.columns) for table in found for row in table.rows)
    row = summary[
        (summary["p"] == 0.8) & (summary["m"] == 24) & (summary["model"] == "posterior-full")
        & (summary["score"] == "nmi")
    ].iloc[0]  # fmt: skip
    assert found[1].rows[1][found[1].columns.index("posterior-full")].order == row["mean"]


def test_mixtures_that_differ_in_k_alone_are_a_family() -> None:
    plans = {
        plan.name: plan
        for plan in (
            toy.plan("mix_k4", n_clusters=4, mixtures=2),
            toy.plan("iris"),
            toy.plan("mix_k2", n_clusters=2, mixtures=2),
            toy.plan("alone_k3", mixtures=2, models=(), p=(), m=()),
        )
    }
    assert {name: [plan.name for plan in group] for name, group in families(plans).items()} == {
        "mix": ["mix_k2", "mix_k4"]
    }
