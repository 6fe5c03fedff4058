"""Build `docs/repeat.md` from the scores in the repository: `python docs/repeat/build/page.py [TABLE.csv]`.

The scores come from `run.py`, `truth.py` and `direction.py`. If a table of published means is given (columns
p, n_clusters, m, model, metric, value), the program sets them beside the repeated ones, and writes the
comparison to `against.csv`, which later calls read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pandas as pd
from claims import FUNCTIONS, MODELS
from files import COSTS, REPEAT, SCORES, cells_file, sweeps_with_scores
from reweighting import reweigh
from scaling import PUBLISHED as PUBLISHED_NMI
from scaling import count_near, ways_to_scale, ways_to_show
from why import (
    by_direction,
    changes,
    draw_indices,
    draw_searches,
    three_ways,
    values_elsewhere,
    wins_of_truth,
)

from sweep_clustering.pipeline.report.figures import house_style, save
from sweep_clustering.pipeline.report.scores import (
    compare,
    draw_boxes,
    draw_curves,
    read_published,
    summarise,
)
from sweep_clustering.pipeline.scoring.tables import KEYS, summary_table
from sweep_clustering.sweeps.errors import InputError

ACCURACIES = ("p08", "p09", "p10")
EVALUATIONS = ("mixtures", "uci", "uci-unscaled", "stronger")
OTHER_MIXTURES = ("others-k2", "others-k4", "others-k6")
# Sweeps that are no part of the evaluation, but may explain its results.
TESTS = (*OTHER_MIXTURES, "one-restart", "uci-one-restart", "uci-minmax", "uci-stronger")


def load(evaluation: str) -> pd.DataFrame:
    """Return the cells of one evaluation over all accuracies at hand, with baselines once."""
    return join_sweeps(f"{evaluation}-{accuracy}" for accuracy in ACCURACIES)


def join_sweeps(names: Iterable[str]) -> pd.DataFrame:
    """Return the cells of the sweeps that have been run, with common cells once."""
    paths = [cells_file(name) for name in names]
    cells = pd.concat([pd.read_csv(path) for path in paths if path.exists()], ignore_index=True)
    integers = ("n_clusters", "mixture", "m", "replicate", "restarts_done", "best_restart", "hits")
    return cells.drop_duplicates(list(KEYS)).astype(dict.fromkeys(integers, "Int64")).reset_index(drop=True)


def costs() -> Iterator[dict[str, Any]]:
    """Yield the predicted and the measured cost of each sweep."""
    parts = [f"{evaluation}-{accuracy}" for evaluation in EVALUATIONS for accuracy in ACCURACIES]
    records = json.loads(COSTS.read_text(encoding="utf-8"))
    for name in (*parts, *TESTS):
        if name in records:
            cells = pd.read_csv(cells_file(name))
            yield {
                "sweep": name,
                "note": "",
                **records[name],
                "core_hours": cells["seconds"].sum() / 3600,
                "restarts": int(cells["restarts_done"].sum()),
                "early": (cells["restarts_done"] < cells["restarts_done"].max()).mean(),
                "cells": len(cells),
            }


def compare_published(mixtures: pd.DataFrame, summary: pd.DataFrame, table: str | None) -> pd.DataFrame:
    """Return published means beside the repeated ones, from a table or from the file of an earlier call."""
    path = SCORES / "against.csv"
    if table is None:
        return pd.read_csv(path)
    plans: Any = {
        name: SimpleNamespace(name=name, mixtures=50, n_clusters=int(rows["n_clusters"].iloc[0]))
        for name, rows in mixtures.groupby("dataset")
    }
    comparison = compare(summary, plans, read_published(Path(table))).round(5)
    comparison.to_csv(path, index=False)
    return comparison


def draw(cells: dict[str, pd.DataFrame], summaries: dict[str, pd.DataFrame], against: pd.DataFrame) -> None:
    """Draw the figures of the page, as PNG."""
    mixtures, uci, summary = cells["mixtures"], cells["uci"], summaries["mixtures"]
    six = sorted(mixtures.loc[mixtures["n_clusters"] == 6, "dataset"].unique())
    figures: dict[str, Any] = {
        "nmi": draw_curves(summary, "nmi", against),
        "kl": draw_curves(summary, "goldberger_kl", against),
        "agreement": draw_curves(summary, "annotation_agreement"),
        "centroid-index": draw_indices(mixtures[mixtures["dataset"].isin(six)], 0.9),
        "searches": draw_searches(summary, summaries["stronger"], against),
    }
    for p in sorted(uci["p"].dropna().unique()):
        figures[f"relative-nmi-p{p:g}"] = draw_boxes(uci, p, written_counts(uci))
    for name, figure in figures.items():
        save(figure, REPEAT / "figures", name, "", ("svg", "png"))
        (REPEAT / "figures" / f"{name}.svg").unlink()


def written_counts(cells: pd.DataFrame) -> dict[tuple[str, int], str]:
    """Return numbers of annotations as the sweep files of the real data write them."""
    rows = cells[cells["m"].notna()].drop_duplicates(["dataset", "m"])
    shares = (2 * rows["m_over_n"] + 0.05).floordiv(1) / 2
    return {
        (str(dataset), int(m)): f"{share:g}N"
        for dataset, m, share in zip(rows["dataset"], rows["m"], shares, strict=True)
    }


def main(table: str | None = None) -> None:
    """Write the page, its figures, and the summary of each evaluation."""
    cells = {name: load(name) for name in EVALUATIONS}
    summaries = {name: summary_table(rows) for name, rows in cells.items()}
    for name, summary in summaries.items():
        summary.round(5).to_csv(SCORES / f"{name}-summary.csv", index=False)
    mixtures = cells["mixtures"]
    against = compare_published(mixtures, summaries["mixtures"], table)
    with house_style():
        draw(cells, summaries, against)
    harder = reweigh(against, {"mixtures-p10": mixtures, "others-k2": join_sweeps(["others-k2"])})
    harder.values.round(5).to_csv(SCORES / "reweighted-summary.csv", index=False)
    minmax = join_sweeps(["uci-minmax"])
    ways = ways_to_scale({"standard": cells["uci"], "minmax": minmax, "none": cells["uci-unscaled"]})
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_name("page.md").read_text(encoding="utf-8"))
    single, uci_stronger = join_sweeps(["one-restart"]), join_sweeps(["uci-stronger"])
    text = template.render(
        mixtures=mixtures,
        uci=cells["uci"],
        unscaled=cells["uci-unscaled"],
        minmax=minmax,
        published_nmi=PUBLISHED_NMI,
        some_ways=ways_to_show(ways),
        near=count_near(ways),
        harder=harder,
        uci_stronger=uci_stronger,
        against=against,
        costs=list(costs()),
        models=MODELS,
        beaten=list(wins_of_truth(pd.read_csv(SCORES / "truth.csv"))),
        stronger_changes={
            **{
                name: list(changes(mixtures, join_sweeps([name])))
                for name in sweeps_with_scores("stronger-p[01][0-9]")
            },
            "uci-stronger": list(changes(cells["uci"], uci_stronger)),
        },
        direction=by_direction(against, pd.read_csv(SCORES / "direction.csv")),
        three_ways=list(three_ways(against, cells["stronger"])),
        elsewhere=list(values_elsewhere(against, join_sweeps(OTHER_MIXTURES), single)),
        weaker=[
            *changes(mixtures, single),
            *changes(cells["uci"], join_sweeps(["uci-one-restart"])),
        ],
        summarise=summarise,
        **FUNCTIONS,
    )
    REPEAT.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
