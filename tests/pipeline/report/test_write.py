"""Sections made by hand leave out parts of a large grid and refuse bad input; see `shown`.

Pairs of cubes, through the command, and tables and grids for other programs come last.
"""

import io
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from contests import cell, table
from cubes import toy
from cubes.reported import content, make, tables
from processes.commandline import refuse, succeed

from sweep_clustering.pipeline.report import cell as cell_room
from sweep_clustering.pipeline.report import compare as compare_room
from sweep_clustering.pipeline.report import effort, elements, scores, write
from sweep_clustering.pipeline.report.cell import CellFigure, choose_cell, draw_matrix, named_cell, read_cell
from sweep_clustering.pipeline.report.figures import house_style, save
from sweep_clustering.pipeline.scoring.ranking import rank_published
from sweep_clustering.pipeline.scoring.scores import score_datasets
from sweep_clustering.pipeline.scoring.tables import cell_table, row_cell, summary_table
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.plan import AskedPath


@pytest.mark.usefixtures("undrawn")
def test_somebody_else_sees_a_page_without_true_labels_and_without_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("sweep_clustering.pipeline.report.write.read_failures", refuse)
    monkeypatch.setattr("sweep_clustering.pipeline.report.write.read_lease", refuse)
    plan = toy.plan("own", has_labels=False, replicates=1, replicate_chunk=1)
    report = write.write_report(make(tmp_path, plan), tmp_path / "out")
    figures = {file.stem for file in report.files if file.parent.name == "figures"}
    assert figures == {"agreement", "cell-unsupervised", "cell-annotated", "gaps", "restarts", "seconds"}


def test_every_bad_input_is_said_at_once_with_exit_code_2(tmp_path: Path) -> None:
    cube = make(tmp_path, toy.plan("iris", models=(), p=(), m=()))
    table = tmp_path / "theirs.csv"
    table.write_text("p,m\n")
    options = ["--against", table, "--cell", "irys/unsupervised", "--out", table]
    problems = refuse("report", cube, *options)
    for words in ("a folder to write to", "one column 'metric'", "did you mean 'iris'?"):
        assert words in problems
    with pytest.raises(InputError, match="found a file, expected a folder"):
        write.write_report(cube, table / "below")
    with pytest.raises(InputError):
        write.write_report(tmp_path / "none.zarr", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_cell_of_a_path_of_questions_has_the_failure_of_the_path() -> None:
    row = {"dataset": "iris", "p": 0.9, "m": 12, "design": "active", "replicate": 0, "model": "posterior"}
    cells = pd.DataFrame([row | {"status": "failed"}])
    path = str(AskedPath.of(row_cell(cells.iloc[0])))
    failure = SimpleNamespace(cell=path, cause="broken", node="n1", at="now")
    sentence, table = effort.failures(content(cells, failures=(failure,)))
    assert sentence == "1 cell failed."
    assert [value.text for value in table.rows[0][1:]] == ["broken", "n1", "now"]  # type: ignore[union-attr]


def test_a_large_grid_is_drawn_in_part_and_says_so() -> None:
    many = "Curves show the mean over 30 data sets against m / N, and 3 of the data sets as examples"
    for datasets, accuracies, first in (
        (30, 6, f"{many}. summary.csv has all."),
        (1, 7, "Figures show 6 of 7 accuracies; summary.csv and cells.csv hold all."),
    ):
        cells = pd.DataFrame({"dataset": np.arange(210) % datasets, "p": np.arange(210) % accuracies})
        assert next(scores.curves(content(cells))) == first
        accuracies_shown = content(cells).accuracies
        assert len(accuracies_shown) == 6
        assert accuracies_shown[-1] == accuracies - 1


def test_curves_of_many_data_sets_begin_with_their_mean_where_m_is_written_alike() -> None:
    names = [f"d{number}" for number in range(10)]
    row = {"p": 0.9, "model": "posterior", "score": "nmi", "n": 3, "se": 0.1}
    rows = [
        {**row, "dataset": name, "m": 50 * share + at, "m_over_n": share / 2, "mean": 0.05 * at + 0.1 * share}
        for at, name in enumerate(names)
        for share in (1, 2)
    ]
    texts = {(name, 50 * share + at): f"{share / 2:g}N" for at, name in enumerate(names) for share in (1, 2)}
    figure = scores.draw_curves(pd.DataFrame(rows), "nmi", m_texts=texts)
    assert figure is not None
    labels = [axes.get_ylabel().splitlines()[0] for axes in figure.axes]
    assert labels == ["mean of 10 data sets", "d0", "d4", "d9"]
    (line,) = (line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 2)
    assert line.get_xdata().tolist() == [0.5, 1.0]
    assert line.get_ydata() == pytest.approx([0.325, 0.425])  # 0.05 · 4.5, and 0.1 or 0.2
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0.5N", "1N"]


def test_published_labels_are_ranked_with_a_star_and_all_are_listed() -> None:
    names = [f"suite/uci/{name}" for name in ("glass", "wine")]
    cells = table(cell(name, "posterior", 0.6, p=p) for name in names for p in (0.8, 1.0))
    rows = [
        ("uci", name, method, ari) for name in ("glass", "wine") for method, ari in (("a", 0.9), ("b", 0.1))
    ]
    theirs = pd.DataFrame(rows, columns=list(scores.SCORE_COLUMNS))
    ranks = rank_published(cells, theirs)
    *words, first, (name, figure, _), every = scores.ranks_beside_labels(content(cells, published=ranks))
    assert [row[0].text for row in first.rows] == ["a*", "posterior", "b*"]  # type: ignore[union-attr]
    assert name == "ranks-published"
    assert figure is not None
    assert [row[-1].text for row in every.rows] == ["yes", "yes"]  # type: ignore[union-attr]
    assert "2 of 2 published methods" in str(words[-1])
    assert str(words[0]).startswith("ARI: a* has the best mean rank, 1.00 of 3")
    none = rank_published(cells, theirs.assign(battery="wut"))
    sentence, nothing = scores.ranks_beside_labels(content(cells, published=none))
    assert str(sentence).startswith("No data set")
    assert nothing.rows == ()  # type: ignore[union-attr]


def test_the_first_screen_ends_with_a_part_and_says_how_much_follows() -> None:
    lines = [f"line {at}" if at % 10 else "" for at in range(1, 101)]
    lines_shown = write.first_screen("\n".join(lines)).splitlines()
    assert lines_shown == [*lines[:29], "", "70 more lines in report.txt, or with --full"]
    assert write.first_screen("a\nb\n") == "a\nb\n"
    unbroken = write.first_screen("\n".join("x" for _ in range(80))).splitlines()
    assert unbroken == ["x"] * write.SCREEN + ["", "44 more lines in report.txt, or with --full"]
    warned = ["warning"] * (2 * write.SCREEN)
    lines_shown = write.first_screen("\n".join([*warned, "", "Who wins", "a"])).splitlines()
    assert lines_shown == [*warned, "", "3 more lines in report.txt, or with --full"]


def test_a_long_table_is_folded_and_ends_where_a_file_has_the_rest() -> None:
    rows = tuple((elements.number(at),) for at in range(120))
    whole = elements.Table("t", ("n",), rows, note="A note.")
    assert whole.on_page().folded
    assert len(whole.on_page().rows) == 120
    capped = replace(whole, full_file="all.csv").on_page()
    assert len(capped.rows) == 100
    assert capped.note == "A note. The first 100 of 120 rows; all.csv has all."
    assert not replace(whole, rows=rows[:20], full_file="all.csv").on_page().folded


def test_a_table_of_scores_that_are_all_zero_is_folded_and_its_title_says_so() -> None:
    zero, place = elements.words("0.000 ± 0.000"), (elements.words("iris"), elements.number(0.8, "g"))
    table = elements.Table("CI", ("data set", "p", "a", "b"), ((*place, zero, elements.number(0.0, ".3f")),))
    assert table.on_page().folded
    assert table.on_page().title == "CI: all 0"
    for text in ("0.001 ± 0.000", "0.000 ± 0.001", "-0.100 ± 0.000"):
        second = replace(table, rows=(*table.rows, (*place, zero, elements.words(text)))).on_page()
        assert not second.folded
        assert second.title == "CI"
    assert not replace(table, rows=((*place, elements.words("-"), elements.words("-")),)).on_page().folded


def test_a_share_is_over_mixtures_each_over_its_redraws_first() -> None:
    cells = table(
        cell("mix", "posterior", 0.5, p=0.9, mixture=place // 2, replicate=place % 2, centroid_index=index)
        for place, index in enumerate((0, 0, 2, 0, 5, 1))
    )
    (row,) = scores.share_table(cells).itertuples()
    assert row.score == "centroid_index"
    assert row.n == 3
    assert row.n_values == 6
    assert row.mean == pytest.approx(0.5)  # this is the mean of 1, 0.5 and 0
    assert row.se == pytest.approx(0.5 / np.sqrt(3))
    shares, _ = scores.index(content(cells, m_texts={}))
    assert [value.text for value in shares.rows[0]] == ["mix", "posterior", "6", "50", "17", "17", "17"]
    (figure,) = scores.index(content(cells.assign(centroid_index=np.nan), m_texts={}))
    assert figure[1] is None
    # a panel in which all cells have the index 0 is a sentence
    _, sentence, figure = scores.index(content(cells.assign(centroid_index=0), m_texts={}))
    assert sentence == "All cells of mix have the centroid index 0."
    assert figure[1] is None


def test_boxes_are_quartiles_with_whiskers_of_one_and_a_half() -> None:
    values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.9] * 2
    usual = {"dataset": "iris", "p": 0.9, "m": 75, "model": "posterior", "mixture": pd.NA}
    cells = pd.DataFrame([{**usual, "relative_nmi": value} for value in values])
    for rows, beyond in ((cells, [0.9, 0.9]), (cells.head(6), values[:6]), (cells.head(4), values[:4])):
        # quartiles 0.1 and 0.4: whiskers reach to 0.85; of fewer than ten cells each is a point, and fewer
        # than five have no box
        with house_style():
            figure = scores.draw_boxes(rows, 0.9, {("iris", 75): "0.5N"})
        (axes,) = figure.axes  # type: ignore[union-attr]
        (points,) = (line for line in axes.get_lines() if line.get_marker() not in ("", "None"))
        assert points.get_ydata().tolist() == beyond
        heights = {round(float(y), 6) for line in axes.get_lines() for y in line.get_ydata()}
        assert ({0.1, 0.25, 0.4} <= heights and bool(axes.patches)) == (len(rows) > 4)
    assert scores.draw_boxes(cells, 0.8, {}) is None


def test_labels_take_the_colours_of_the_truth_and_features_that_tell_it_are_drawn() -> None:
    for labels, guide, expected in (
        ([2, 2, 0, 0, 1, 0], [0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 1]),
        ([1, -1, 0, 0], [0, 0, 1, -1], [0, -1, 1, 1]),
        ([3, 3, 3, 0], [0, 0, 0, 0], [0, 0, 0]),
    ):
        assert cell_room.match(np.array(labels), np.array(guide)).tolist()[: len(expected)] == expected
    classes = np.repeat([0, 1], 50)
    X = np.random.default_rng(5).normal(size=(100, 9))
    X[:, [1, 3, 4, 5, 7, 8]] += 4 * classes[:, None]
    X[:, 0] = 1.0
    assert cell_room.most_separating(X, classes) == (1, 3, 4, 5, 7, 8)


def test_the_shown_cell_is_the_published_one_or_that_of_the_user_and_marked_is_what_scores_count() -> None:
    more = {"baselines": ("unsupervised-full", "unsupervised"), "feature_names": ("width", "length")}
    iris = toy.plan("iris", class_names=("a", "b", "c"), **more)
    cells, _, plans = tables(iris, toy.plan("vertebral"), toy.plan("mix_k3", mixtures=2))
    assert str(choose_cell(cells, None)).startswith("vertebral/p=0.9/m=24/")
    remaining = cells[cells["dataset"] != "vertebral"]
    assert str(choose_cell(remaining, None)) == "iris/p=0.9/m=24/replicate=0/posterior"
    assert choose_cell(cells.assign(status="pending"), None) is None
    with pytest.raises(InputError, match="expected a cell with annotations"):
        named_cell(plans, "iris/unsupervised")
    named = named_cell(plans, "iris/p=0.9/m=12/replicate=2/posterior")
    assert choose_cell(cells, named) == named
    (share,) = (row["annotation_agreement"] for _, row in cells.iterrows() if row_cell(row) == named)
    tree = toy.tree(*plans.values())
    tree["iris"].attrs["class_names"] = ["a", "b", "c"]
    panel = read_cell(tree, named)
    assert len(panel.links) == 12
    assert panel.links.min() == 0
    assert len(panel.contradicted("annotated")) == round(12 * (1 - share))
    assert panel.class_names == ("a", "b", "c")
    assert panel.feature(1) == "length"
    # the baseline of the same shape, and the truth of the mixture
    truth, alone = tree["iris"]["labels_true"].values, tree["iris/unsupervised"]["labels"].values
    np.testing.assert_array_equal(panel.partitions["unsupervised"], cell_room.match(alone, truth))
    panel = read_cell(tree, named_cell(plans, "mix_k3/mixture=0/p=0.9/m=12/replicate=2/posterior"))
    assert list(panel.partitions) == ["unsupervised", "annotated", "true"]
    np.testing.assert_array_equal(panel.partitions["true"], tree["mix_k3"]["labels_true"].sel(mixture=0))


def test_many_samples_are_an_image_of_see_through_points(tmp_path: Path) -> None:
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(4), 500)
    labels = np.where(rng.random(2000) < 0.1, (truth + 1) % 4, truth)
    points = rng.normal(size=(2000, 3)) + truth[:, None]
    links = np.column_stack([rng.integers(0, 2000, size=(3000, 2)), rng.integers(0, 2, size=3000)])
    cell_figure = CellFigure("large", points, (0, 1, 2), {"annotated": labels, "true": truth}, links)
    with house_style():
        figure = draw_matrix(cell_figure, "annotated", "s.d.")
        drawn = [line for axes in figure.axes for line in axes.lines]
        assert all(line.get_rasterized() and float(line.get_alpha() or 1) < 0.9 for line in drawn)
        gaps = sum(np.isnan(line.get_xdata()).sum() for line in figure.axes[0].lines)  # type: ignore[arg-type]
        assert gaps == cell_room.MOST_LINKS
        picture = save(figure, tmp_path, "cell", cell_figure.caption("annotated"))
    assert f"; {(labels != truth).sum()} of 2,000 samples are wrong" in picture.caption
    assert picture.caption.endswith("links are contradicted, marked by a line (60 of them).")
    # three panels of 2,000 points, which as elements would be five times as much
    assert len(picture.svg) < 300_000
    assert picture.svg.count("<use") < 300


def test_a_table_that_is_wider_than_a_line_goes_on_below_with_its_first_columns() -> None:
    heads = ("data set", "p", *(f"model-{at}" for at in range(20)))
    rows = tuple(
        (
            elements.words(name),
            elements.number(0.8, "g"),
            *(elements.number(at + 0.5, ".3f") for at in range(20)),
        )
        for name in ("iris", "a-name-of-so-many-letters-that-it-takes-more-than-one-line-of-its-column")
    )
    groups = ((("", 2), ("K = 2", 10), ("K = 3", 10)),)
    lines = elements.text_lines(elements.Table("t", heads, rows, groups, n_lead=2))
    assert max(map(len, lines)) <= elements.WIDTH
    n_parts = sum(line.startswith("data set") for line in lines)
    assert n_parts > 1
    assert sum(line.startswith("iris") for line in lines) == n_parts
    words = " ".join(lines).split()
    for at in range(20):
        assert words.count(f"model-{at}") == 1
        assert words.count(f"{at}.500") == len(rows)


def test_no_column_of_a_wide_table_stands_alone() -> None:
    heads = ("data set", *(f"a head of letters {at}" for at in range(6)))
    table = elements.Table("t", heads, (tuple(map(elements.words, heads)),), n_lead=1)
    first, _, second, _ = elements.text_lines(table)
    assert first.count("letters") == 3
    assert second.count("letters") == 3


def test_names_with_hyphens_stay_whole_at_the_end_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "solver of conditional-any: 1 (runs 1 to 2), 2 (run 3)"
    for width in range(20, 60):
        monkeypatch.setattr(elements, "WIDTH", width)
        assert " ".join(elements.paragraph_lines(sentence)) == sentence


def test_the_folder_of_a_table_is_no_difference() -> None:
    def differences(*paths: str) -> list[str]:
        grids = [{"datasets": [{"name": "own", "path": path}]} for path in paths]
        specs = [toy.sweep({"name": "a", "seed": 7, "grid": grid}) for grid in grids]
        cubes: list[Any] = [SimpleNamespace(spec=spec, plans={}) for spec in specs]
        return list(compare_room.differences(*cubes))

    assert differences("/data/x.csv", "x.csv") == []
    assert differences("/data/x.csv", "y.csv") == ["own.path: A x.csv, B y.csv"]


def test_differences_are_of_the_cells_in_both(tmp_path: Path) -> None:
    for name, plans, scale in (
        ("first", [toy.plan("iris"), toy.plan("wine")], "none"),
        ("second", [toy.plan("iris"), toy.plan("mix_k3", mixtures=2)], "standard"),
    ):
        entries = [{"name": plan.name, "scale": scale} for plan in plans]
        grid = {"datasets": entries, "m": ["12", "1N"]}
        toy.write(tmp_path / f"{name}.zarr", *plans, spec={"name": name, "seed": 7, "grid": grid})
    cubes = [tmp_path / f"{name}.zarr" for name in ("first", "second")]
    options = ("--score", "seconds", "--score", "nmi", "--out", tmp_path / "out")
    text = succeed("compare", *cubes, *options).stdout
    assert {"  iris.scale: A none, B standard", "23 cells are done in both"} < set(text.splitlines())
    assert "  25 cells only in A: " in text
    assert " and 20 more." in text
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 100
    pairs, table = (pd.read_csv(tmp_path / "out" / f"{name}.csv") for name in ("pairs", "differences"))
    assert len(pairs) == 2 * 23
    for row in table[table["p"].notna()].itertuples():
        same = (pairs["score"] == row.score) & (pairs["p"] == row.p) & (pairs["m"] == row.m)
        rows = pairs[same & (pairs["model"] == row.model)]
        assert row.difference == pytest.approx((rows["b"] - rows["a"]).mean())
    html = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    sections = ["by-seconds", "by-nmi", "unpaired", "settings"]
    assert re.findall(r'<section id="([\w-]+)">', html) == sections


def test_both_wrong_cubes_are_named_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    errors = refuse("compare", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out")
    assert all(str(tmp_path / name) in errors for name in ("a", "b"))
    assert not (tmp_path / "out").exists()


def test_cubes_without_a_common_cell_are_compared_by_their_settings(tmp_path: Path) -> None:
    for name in ("iris", "wine"):
        spec = {"name": name, "seed": 7, "grid": {"datasets": [{"name": name, "scale": "none"}]}}
        toy.write(tmp_path / f"{name}.zarr", toy.plan(name, models=(), p=(), m=()), spec=spec)
    cubes = (tmp_path / "iris.zarr", tmp_path / "wine.zarr")
    text = succeed("compare", *cubes, "--out", tmp_path / "out").stdout
    assert {"  data set wine: only in B", "0 cells are done in both"} < set(text.splitlines())
    assert (tmp_path / "out" / "compare.html").is_file()


CELL = ["mixture", "p", "m", "replicate", "model"]


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    drawn = toy.plan("drawn", mixtures=2, replicates=1, replicate_chunk=1)
    return make(tmp_path_factory.mktemp("exported"), toy.plan("iris", replicates=1, replicate_chunk=1), drawn)


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


@pytest.mark.parametrize("how", ["csv", "parquet"])
def test_tables_are_those_of_the_cube(how: str, cube: Path, tmp_path: Path) -> None:
    tree, plans = open_cube(cube), read_manifest(cube).plans
    paths = write.write_export(cube, tmp_path / "out", how)
    assert sorted(paths) == sorted((tmp_path / "out").iterdir())
    names = ("cells", "summary", *(f"labels-{name}" for name in plans))
    assert [path.name for path in paths] == [f"{name}.{how}" for name in names]
    cells = cell_table(tree, plans)
    for path, expected in zip(paths, (cells, summary_table(cells)), strict=False):
        pd.testing.assert_frame_equal(read(path), expected, check_dtype=False, check_exact=True)
    for path, plan in zip(paths[2:], plans.values(), strict=True):
        labels, data = read(path), tree[plan.name]
        n_done = int((cells["dataset"].eq(plan.name) & cells["status"].eq("done")).sum())
        assert len(labels) == n_done * plan.n_samples
        for place, rows in labels.groupby(CELL, dropna=False):
            there = {key: value for key, value in zip(CELL, place, strict=True) if pd.notna(value)}
            mixture = {key: there[key] for key in ("mixture",) if key in there}
            node = data if "p" in there else data[there.pop("model")]
            assert rows["label"].tolist() == node["labels"].sel(there).values.tolist()
            assert rows["label_true"].tolist() == data["labels_true"].sel(mixture).values.tolist()
            assert rows["sample"].tolist() == list(range(1, plan.n_samples + 1))


def test_grids_open_without_this_package(cube: Path, tmp_path: Path) -> None:
    tree, plans = open_cube(cube), read_manifest(cube).plans
    write.write_export(cube, tmp_path / "out", "netcdf")
    for name in plans:
        for path, expected in score_datasets(tree, name).items():
            file = tmp_path / "out" / f"{path.replace('/', '-')}.nc"
            with xr.open_dataset(file, engine="scipy") as grid:
                assert set(grid) == {*expected, "labels", "status"}
                for score, values in expected.items():
                    assert np.array_equal(grid[score].values, values.values, equal_nan=True)
                assert np.array_equal(grid["labels"].values, tree[path]["labels"].values)


def test_nothing_is_overwritten_unasked(cube: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "file"
    out.mkdir()
    for path in (out / "cells.csv", file):
        path.write_text("mine")
    for folder, how, message in (
        (out, "csv", "found files, expected an empty folder, or none"),
        (file, "csv", "found a file, expected a folder to write to"),
    ):
        with pytest.raises(InputError, match=message):
            write.write_export(cube, folder, how)
    assert (out / "cells.csv").read_text() == file.read_text() == "mine"
    assert str(out / "cells.csv") in succeed("export", cube, "--out", out, "--force").stdout
    assert (out / "cells.csv").read_text() != "mine"
    assert not list(tmp_path.glob(".*"))
    problems = refuse("export", cube, "--scores", "--force")
    assert "--force: found --scores as well, expected one of them" in problems


def test_parts_with_and_without_a_name_are_one_table(tmp_path: Path) -> None:
    # a method among the baselines has no search, and a baseline no design
    parts = [
        pd.DataFrame({"design": pd.NA, "search": pd.NA, "label": [0, 1]}, dtype=object),
        pd.DataFrame({"design": "active", "search": "quick", "label": [0, 1]}, dtype=object),
    ]
    for kind in ("csv", "parquet"):
        write.write_rows(tmp_path / f"labels.{kind}", iter(parts))
        rows = read(tmp_path / f"labels.{kind}")
        assert rows[["design", "search"]].isna().all(axis=1).tolist() == [True, True, False, False]
        assert rows["search"][2:].tolist() == ["quick", "quick"]


def test_texts_are_no_formulas() -> None:
    table = pd.DataFrame({"sample": ["=1+2", "-3", "@x", "a\x1b[2J", "b"], "p": [-0.5, 1, 2, 3, 4]})
    rows = pd.read_csv(io.StringIO(elements.spreadsheet(table).to_csv(index=False)), dtype=str)
    assert rows["sample"].tolist() == ["'=1+2", "-3", "'@x", "a [2J", "b"]
    assert rows["p"].tolist() == ["-0.5", "1.0", "2.0", "3.0", "4.0"]
