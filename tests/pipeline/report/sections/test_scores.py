"""Tables of scores."""

from __future__ import annotations

from cubes import toy
from cubes.reported import tables

from pipeline.report.sections.scores import families, score_tables
from pipeline.scoring.catalogue import QUALITIES
from pipeline.scoring.tables import written_counts
from sweeps.file.counts import AnnotationCount

MANY = ("likelihood-full", "posterior-full", "posterior-diagonal", "conditional-common")


def test_tables_have_the_published_layout() -> None:
    _, summary, plans = tables(*(toy.plan(f"mix_k{k}", n_clusters=k, mixtures=3) for k in (2, 4)))
    first, second, alone = score_tables(summary, plans, {})
    assert [first.title, second.title, alone.title] == ["mix, p = 0.8", "mix, p = 0.9", "Without annotations"]
    assert first.columns == ("m", *("likelihood", "posterior") * 6)
    assert first.groups[0] == (("", 1), ("NMI", 4), ("ARI", 4), ("KL, nats", 4))
    assert first.groups[1] == (("", 1), *(("K = 2", 2), ("K = 4", 2)) * 3)
    assert [row[0].text for row in first.rows] == ["0", "12", "24"]
    row = summary[
        (summary["dataset"] == "mix_k4") & (summary["p"] == 0.8) & (summary["m"] == 12)
        & (summary["model"] == "posterior") & (summary["score"] == "nmi")
    ].iloc[0]  # fmt: skip
    assert first.rows[1][4].text == f"{row['mean']:.4f} ± {row['se']:.4f}"
    baseline = summary[(summary["dataset"] == "mix_k4") & summary["p"].isna() & (summary["score"] == "nmi")]
    assert first.rows[0][3].order == first.rows[0][4].order == baseline["mean"].iloc[0]


def test_real_data_sets_stand_in_one_table_for_each_accuracy() -> None:
    _, summary, plans = tables(toy.plan("iris"), toy.plan("wine"))
    found = score_tables(
        summary, plans, written_counts(plans, [AnnotationCount("0.5N"), AnnotationCount("1N")])
    )
    real = {table.title: table for table in found}["Real data sets, p = 0.9"]
    assert [(row[0].text, row[1].text) for row in real.rows] == [
        (name, m) for name in ("iris", "wine") for m in ("12 (0.5N)", "24 (1N)")
    ]
    supervised = {"relative_nmi", "annotation_agreement"}  # which a baseline does not have
    spans = [2 if name in supervised else 3 for name in QUALITIES]
    assert [span for _, span in real.groups[0]] == [2, *spans]


def test_each_of_many_shapes_has_tables_of_its_own() -> None:
    _, summary, plans = tables(
        toy.plan("iris", models=MANY, model_chunk=4, baselines=("unsupervised-full",)),
        toy.plan("mix_k3", mixtures=2, models=MANY, model_chunk=4, baselines=("unsupervised-full",)),
    )
    found = {table.title: table for table in score_tables(summary, plans, {})}
    for title in ("Real data sets, p = 0.8", "mix, p = 0.8"):
        shapes = {
            "diagonal": {"posterior-diagonal"},
            "full": {"likelihood-full", "posterior-full"},
            "common": {"conditional-common"},
        }
        for shape, models in shapes.items():
            table = found[f"{title}, {shape} covariances"]
            assert set(table.columns) - {"data set", "m", "unsupervised-full"} == models
            assert all(len(row) == len(table.columns) for row in table.rows)
            assert all(sum(n for _, n in line) == len(table.columns) for line in table.groups)
        assert title not in found
    row = summary[
        (summary["dataset"] == "iris") & (summary["p"] == 0.8) & (summary["m"] == 24)
        & (summary["model"] == "posterior-full") & (summary["score"] == "nmi")
    ].iloc[0]  # fmt: skip
    full = found["Real data sets, p = 0.8, full covariances"]
    assert full.rows[1][full.columns.index("posterior-full")].order == row["mean"]


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
