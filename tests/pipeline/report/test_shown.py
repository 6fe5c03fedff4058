"""Sections of sweeps made by hand show the words, tables, lines, files and figures in `shown`.

`pytest tests/pipeline/report/test_shown.py -n 0 --golden` records them again; read the difference. Each case
is one that the whole runs of `tests/golden` do not have.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from contests import BASE, OFFSETS, cell, contest, table
from cubes import toy
from cubes.reported import content, make, tables
from designed import designed_cells, rising_curve, written_m
from golden import figure_text, stable_text
from matplotlib.figure import Figure
from searched import SEARCHES, other_shapes, search_draws

from sweep_clustering.pipeline.report import compare, effort, scores, variants, winners, write
from sweep_clustering.pipeline.report.cell import CellFigure, draw_matrix
from sweep_clustering.pipeline.report.elements import Content, Part, Table
from sweep_clustering.pipeline.report.figures import house_style
from sweep_clustering.pipeline.scoring.pairs import compared_searches
from sweep_clustering.pipeline.scoring.tables import cell_table, summary_table, written_counts
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE, NO_SOLUTION
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.spec import AnnotationCount
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES
from sweep_clustering.sweeps.words import SHIPPED

SHOWN = Path(__file__).with_name("shown")
STANDING = ("winners", "duels", "cost", "robustness")
LONG = "a-very-long-name-of-a-method"
CURVES = {"uniform": (0.2, 0.4, 0.6), "active": (0.4, 0.5, 0.7), "biased": (0.1, 0.2, 0.4)}
CROSSING = {"uniform": (0.2, 0.4, 0.6), "active": (0.4, 0.5, 0.5), "biased": (0.1, 0.2, 0.6)}


def section_lines(section: str, view: Content) -> Iterator[str]:
    """Yield words, tables and figures of a section; it is empty where it has no place."""
    (declared,) = (candidate for candidate in write.sections(view) if candidate.key == section)
    parts = list(declared.parts)
    lines = [*section_words(parts)]
    for name, figure, caption in (part for part in parts if isinstance(part, tuple)):
        lines += [f"## {name}: {caption}", drawing(figure)]
    yield f"# {declared.title}" if lines else f"no {section}"
    yield from lines


def section_words(parts: Iterable[Part]) -> Iterator[str]:
    """Yield words of a section, then its tables, as a page has them."""
    parts = list(parts)
    yield from (part for part in parts if isinstance(part, str))
    for part_table in (part for part in parts if isinstance(part, Table)):
        yield f"## {part_table.title}{' (folded)' if part_table.folded else ''}"
        yield from (" | ".join(f"{name} × {span}" for name, span in group) for group in part_table.groups)
        yield " | ".join(part_table.columns)
        for row in part_table.rows:
            yield " | ".join(value.text + (f" [{value.kind}]" if value.kind else "") for value in row)
        yield part_table.note


def drawing(figure: Figure | None) -> str:
    return "no figure" if figure is None else figure_text(figure)


def narrow_lines(lines: Iterator[str], width: int) -> Iterator[str]:
    for line in lines:
        assert len(line) <= width
        yield line


def files(tables_by_name: dict[str, pd.DataFrame]) -> Iterator[str]:
    for name, rows in tables_by_name.items():
        yield f"## {name}.csv"
        yield rows.to_csv(index=False)


def ranks(cells: pd.DataFrame, *sections: str) -> Iterator[str]:
    view = content(cells)
    yield from winners.headline(view.full_rankings)
    yield from (line for section in sections or ("winners",) for line in section_lines(section, view))


def permute(values: np.ndarray, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(values)


def twins() -> pd.DataFrame:
    """Return two pairs of models; models of different pairs alone are told apart."""
    base, wobble = np.linspace(0.2, 0.6, 12), 0.001 * np.tile([1, -1], 6) * np.arange(1, 13)
    low = base - 0.05 * np.arange(1, 13)
    return contest({"a": base, "b": base + wobble, "c": low, "d": low + wobble})


def gaps() -> pd.DataFrame:
    rows = [cell(name, model, 0.5, p=0.9) for name in ("d0", "d1") for model in ("a", "b")]
    rows += [cell("d0", "a", 0.5, p=0.9, replicate=1, status="pending")]
    rows += [cell("d0", "b", 0.5, p=0.9, replicate=1, status="no solution")]
    rows += [cell("d2", "a", 0.5, p=0.9), cell("d2", "b", 0.5, p=0.9, status="failed")]
    return table([*rows, cell("d0", "c", 0.5, p=0.9, status="failed")])


def some_left(*levels: tuple[str, float, float]) -> pd.DataFrame:
    """Return models with scores on two data sets, and pending cells there and on a third."""
    rows = [
        cell(name, model, scores[number] + 0.01 * draw, p=0.9, replicate=draw)
        for model, *scores in levels
        for number, name in enumerate(("d0", "d1"))
        for draw in range(2)
    ]
    pending = [("d0", 2), ("d2", 0)]
    rows += [
        cell(name, model, 0.5, p=0.9, replicate=k, status="pending")
        for name, k in pending
        for model, *_ in levels
    ]
    return table(rows)


def robust(second: str, accuracies: tuple[float, ...] = (0.7, 1.0)) -> pd.DataFrame:
    """Return two data sets, a method without annotations, and two models that rise with p."""
    rows = [cell(f"d{number}", "k-means", 0.5) for number in range(2)]
    for name, (model, slope), p in (
        (f"d{number}", model_slope, p)
        for number in range(2)
        for model_slope in (("posterior", 1.0), (second, 0.5))
        for p in accuracies
    ):
        more = {"p": p, "cpu_seconds": 10.0 * p}
        rows += [cell(name, model, slope * p - 0.2 + 0.1 * draw, replicate=draw, **more) for draw in (0, 1)]
    return table(rows)


def design(cells: pd.DataFrame, *names: str) -> Iterator[str]:
    view = content(cells, m_texts=written_m(*names))
    yield from variants.design_headline(view.designs)
    yield from (*section_lines("designs", view), *files(variants.design_files(view.designs)))


def crossing_curves() -> pd.DataFrame:
    cells = designed_cells(
        lambda design, x, unit: CROSSING[design][round(2 * x) - 1],
        accuracies=(0.8, 0.9),
        designs=tuple(CROSSING),
    )
    cells.loc[(cells["p"] == 0.9) & (cells["design"] == "active"), ["nmi"]] += 0.3
    return cells


def level(design: str, x: float, unit: int) -> float:
    """Return a score: active pairs are worth twice as many, biased ones fewer, the same in every unit."""
    return CURVES[design][round(2 * x) - 1]


def noisy(design: str, x: float, unit: int) -> float:
    return level(design, x, unit) + 0.02 * (unit - 1.5) * (design == "active")


def search(cells: pd.DataFrame) -> Iterator[str]:
    view = content(cells)
    view.__dict__["searches"] = compared_searches(cells, SEARCHES)
    yield from section_lines("searches", view)


def score_lines(*plans: DatasetPlan, sections: tuple[str, ...]) -> Iterator[str]:
    cells, summary, named = tables(*plans)
    manifest = SimpleNamespace(plans=named)
    parts = {"m_texts": written_counts(named, [AnnotationCount("0.5N"), AnnotationCount("1N")])}
    view = content(cells, summary=summary, manifest=manifest, tree=toy.tree(*plans), **parts)
    yield from (line for section in sections for line in section_lines(section, view))


def held_out() -> Iterator[str]:
    usual = {"dataset": "iris", "p": 0.9, "m_over_n": 0.5, "model": "posterior-auto", "status": "done"}
    values = (
        (12, (2, 1, 0, 1), 1, 0.8, 0.5),
        (24, (0, 0, 0, 2), 0, 0.9, 0.3),
        (5, (2, 0, 0, 0), 2, 0.0, 0.0),
    )
    rows: list[dict[str, Any]] = []
    for m, counts, few, share, loss in values:
        for k, shape in enumerate(np.repeat(CANDIDATES, counts)):
            rows.append(usual | {"m": m, "covariance_shape": shape})
            if k >= few:  # the first ones had too few annotations
                rows[-1] |= {"predicted": share, "log_loss": loss}
    plans = {"iris": toy.plan("iris", held_out=True)}
    view = content(pd.DataFrame(rows), manifest=SimpleNamespace(plans=plans), m_texts={("iris", 12): "0.5N"})
    # the order is that of these rows, and not that of m
    choices = view.choices.set_index("m").loc[[12, 24, 5]].reset_index()
    view.__dict__.update(choices=choices, predictions=choices.assign(model="posterior"))
    yield from section_lines("choices", view)
    (axes,) = scores.draw_choices(choices, view.m_texts).axes  # type: ignore[union-attr]
    for bars in axes.containers:
        yield f"{bars.get_label()}: {[float(bar.get_height()) for bar in bars.patches]}"


def comparisons() -> Iterator[str]:
    usual = {"score": "nmi", "dataset": "iris", "p": 0.9, "m": 10, "model": "posterior", "n_cells": 3}
    usual |= {"n": 3, "difference": 0.25, "se": 0.05}
    baseline = {"p": np.nan, "m": pd.NA, "model": "unsupervised", "difference": -0.5, "se": np.nan}
    several = [{}, {"m": 20, "difference": 0.5}, {"p": 0.8}, baseline]
    shapes = [{"model": model} for model in ("posterior", "posterior-full", "unsupervised-diagonal")]
    for changes in (several, [baseline], shapes, [{"n_cells": 0}], [{**baseline, "n_cells": 0}]):
        rows = pd.DataFrame([usual | change for change in changes]).astype({"m": "Int64"})
        yield drawing(compare.draw_differences(rows, "NMI", {("iris", 20): "1N"}))


THEIRS = """p,n_clusters,m,model,metric,value
0.8,2,100,posterior,nmi,0.5
1.8,2,100,posterior,nmi,0.5
0.8,two,100.5,posterior,nmi,0.5
0.8,2,100,posteriour,nmy,nan
0.8,2,0,posterior,nmi,0.5
0.8,2,100,unsupervised,nmi,0.5
0.8,2,100,posterior,nmi
0.80,2,100,posterior,nmi,0.6
"""
SCORES = """battery,dataset,n,method,ari
uci,wine,178,plain,1.5
uci,wine,178,,none
uci,wine,178,plain,0.5
uci,wine,178,plain,0.5
uci,wine
"""
GOOD = "0.8,2,100,posterior,nmi,0.5"


def input_problems() -> Iterator[str]:
    """Yield the problems of wrong tables of published values."""
    head = THEIRS.split("\n")[0]
    for text in (
        THEIRS,
        "",
        head,
        f"p,n_clusters,m,model,score,value\n{GOOD}",
        f"{head},p\n{GOOD},0.8",
        SCORES,
        "battery,dataset,ari\nuci,wine,0.5",
        None,
    ):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "theirs.csv"
            if text is not None:
                path.write_text(text, encoding="utf-8")
            with pytest.raises(InputError) as caught:
                scores.read_published(path)
            yield from (str(problem).replace(folder, "FOLDER") for problem in caught.value.problems)


def verdicts() -> Iterator[str]:
    """Yield verdicts at and beyond 2·√2 standard errors, of values equal as printed, and of missing ones."""
    cases = [(0.50, 0.01, "0.5282"), (0.50, 0.01, "0.5283"), (0.50, 0.01, "0.4717"), (0.99999, 0.0, "1.0000")]
    cases += [(0.00004, 0.00001, "0.0000"), (0.99, 0.0, "1.0000"), (0.50, np.nan, "0.5000")]
    cases += [(0.50, np.nan, "0.5100"), (np.nan, np.nan, "0.5"), (0.4, 0.1, "0.45")]
    names = [f"mix{number}" for number in range(len(cases))]
    rows = [("iris", 0.8, 10, "posterior", 0.5, 0.1), *zip(names, *zip(*cases, strict=True), strict=True)]
    rows[1:] = [(name, 0.8, 10, "posterior", mean, se) for name, mean, se, _ in rows[1:]]
    rows.append((names[-1], np.nan, pd.NA, "unsupervised", 0.4, 0.1))
    summary = pd.DataFrame(rows, columns=["dataset", "p", "m", "model", "mean", "se"])
    summary = summary.assign(score="nmi", n=5).astype({"m": "Int64"})
    plans = {name: toy.plan(name, mixtures=5, n_clusters=k) for k, name in enumerate(names, start=2)}
    places = [(k, 0.8, 10, "posterior", text) for k, (*_, text) in enumerate(cases, start=2)]
    last = places[-1][0]
    places += [(last, 0.8, 0, "unsupervised", "0.45"), (last, 0.8, 20, "posterior", "0.5")]
    places.append((99, 0.9, 10, "posterior", "1"))
    printed = [(p, k, m, model, "nmi", float(text), len(text[2:])) for k, p, m, model, text in places]
    theirs = pd.DataFrame(printed, columns=list(scores.MEAN_COLUMNS))
    plans |= {"iris": toy.plan("iris", n_clusters=last), "again": replace(plans[names[-1]], name="again")}
    yield from section_lines("against", content(comparison=scores.compare(summary, plans, theirs)))


def manifest_of(**more: object) -> Any:
    """Return a stand-in for the manifest of a cube whose sweep file has other tables."""
    grid = {"datasets": [{"name": "iris", "scale": "none"}]}
    spec = toy.sweep({"name": "a", "seed": 7, "grid": grid, "search": {"generations": 3}, **more})
    return SimpleNamespace(spec=spec, plans={"iris": toy.plan("iris", checksum=str(spec.seed) * 64)})


def settings() -> Iterator[str]:
    """Yield differences of sweep files: defaults, absent tables, data sets, searches, seeds and data."""

    def search_draws(**searches: dict[str, object]) -> Any:
        return manifest_of(search=[{"name": name, **keys} for name, keys in searches.items()])

    first, grid = manifest_of(), {"datasets": [{"name": "wine", "scale": "none"}]}
    short, long = {"generations": 3}, {"generations": 9}
    several = search_draws(short=short, far=long)
    for a, b in (
        (first, first),
        (first, manifest_of(search={"generations": 3, "proportions": "free", "feature_weight": 0.5})),
        (first, manifest_of(stop={"risk": 0.05})),
        (first, manifest_of(seed=8)),
        (first, manifest_of(grid=grid)),
        (first, several),
        (several, first),
        (search_draws(short=short, long=long), search_draws(short={**short, "offspring": 4}, longer=long)),
    ):
        yield from ("---", *compare.differences(a, b))


def time_lines() -> Iterator[str]:
    """Yield restarts, times and gaps of cells that a rule ended, of one restart, and of a method."""
    row = {"dataset": "d", "model": "posterior", "status": "done", "restarts_done": 4, "unseen_mass": np.nan}
    row |= {"search": np.nan}
    seconds = pd.Series([1.0, 2.0, 3.0, np.nan])
    cells = pd.DataFrame([row | {"hits": hits} for hits in (4, 1, 0, 0)])
    # 12 restarts in 6 s, 3 s of the processor; one of four cells took no time
    cells = cells.assign(seconds=seconds, cpu_seconds=0.5 * seconds)
    searches = pd.concat([cells.assign(search="quick"), cells.assign(search="long")])
    nothing: dict[str, Any] = {"manifest": SimpleNamespace(plans={}), "tree": toy.tree()}
    for view in (
        content(cells, **nothing),
        content(cells.assign(unseen_mass=0.02), **nothing),
        content(cells.assign(restarts_done=1, hits=1), **nothing),
        content(cells.assign(hits=0, seconds=np.nan), **nothing),
        content(cells, all_cells=searches, variants={"search": "quick"}, **nothing),
    ):
        yield from (*section_words(effort.restarts(view)), *section_words(effort.times(view)))
    for some_cells in (cells, cells.assign(hits=0, seconds=np.nan)):
        yield from (drawing(effort.draw_chances(some_cells)), drawing(effort.draw_times(some_cells)))
    many = pd.DataFrame([row | {"restarts_done": 40, "hits": 10}])
    gaps = pd.DataFrame([{"dataset": "d", "gap": 1.0, "model": "posterior", "share": 0.5}])
    gaps = pd.concat([gaps, gaps.assign(model="mine", share=0.0)])
    for figure in (effort.draw_chances(many), effort.draw_gaps(gaps), effort.draw_gaps(gaps.tail(1))):
        yield drawing(figure)


X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [5.0, 5.0], [5.0, 6.0], [6.0, 5.0]])
TRUTH, FOUND = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
SIX = CellFigure(
    name="six",
    X=X,
    features=(0, 1),
    partitions={"unsupervised": TRUTH, "annotated": FOUND, "true": TRUTH},
    links=np.array([[0, 1, 0], [1, 2, 0], [0, 5, 1]]),
    feature_names=("width", "a name that is longer than a panel"),
    class_names=("red", "blue"),
)
"""Sample 2 is in the wrong cluster, away from sample 1, to which it must link."""


def partitions() -> Iterator[str]:
    """Yield figures with a wrong sample, a contradicted link, no truth, no cluster, and sample names."""
    unknown = {"annotated": np.array([0, 0, -1, 1, 1, 1]), "true": np.array([0, 0, 0, 1, 1, -1])}
    for figure, key in (
        *((SIX, key) for key in SIX.partitions),
        (replace(SIX, links=np.array([[3, 4, 1], [0, 1, 0]])), "annotated"),
        (replace(SIX, partitions={"annotated": FOUND}, links=SIX.links[:0]), "annotated"),
        (replace(SIX, partitions=unknown), "annotated"),
        (replace(SIX, sample_names=tuple("abcdef")), "annotated"),
    ):
        yield from (figure.caption(key), figure_text(draw_matrix(figure, key, "s.d.")))


def terminal_lines() -> Iterator[str]:
    """Yield lines for a terminal about many models, and then about cells without solutions."""
    baselines = ("unsupervised", "unsupervised-common")
    models = tuple(f"{term}{shape}" for shape in ("", "-common") for term in TERMS)
    grid = {"p": (0.9,), "m": (12, 24), "replicates": 1, "replicate_chunk": 1, "model_chunk": 6}
    plans = [toy.plan(name, models=models, baselines=baselines, **grid) for name in ("iris", "thyroid")]
    with tempfile.TemporaryDirectory() as folder:
        cube = make(Path(folder), *plans, scales=("standard", "none"))
        for holder in ("process 7", None):
            manifest = read_manifest(cube)
            cells = cell_table(open_cube(cube), manifest.plans)
            view = content(cells, manifest=manifest, summary=summary_table(cells), holder=holder)
            yield from effort.state(view)
            yield from (line.replace(folder, "FOLDER") for line in section_words(effort.head(view)))
            declared = (section for section in write.sections(view) if section.n_in_text is not None)
            text = write.render(view, write.write_figures(Path(folder), declared, ()))
            yield from narrow_lines(iter(text.replace(folder, "FOLDER").splitlines()), 100)
            for name in ("iris", "thyroid"):
                status = zarr.open_array(cube / name / "status", mode="r+")
                status[...] = np.where(np.asarray(status[...]) == DONE, DONE, NO_SOLUTION)


TERMS = ("conditional", "likelihood", "posterior")
SHAPES = tuple(f"{term}{shape}" for term in TERMS for shape in ("", "-full", "-tied"))
FAMILY = (toy.plan("mix_k4", n_clusters=4, mixtures=3), toy.plan("mix_k2", n_clusters=2, mixtures=3))
CASES: dict[str, Callable[[], Iterator[str]]] = {
    "clear": lambda: ranks(contest({"b": BASE, "a": BASE + OFFSETS, "c": BASE - OFFSETS}), *STANDING),
    "equal": lambda: ranks(contest({"a": BASE, "b": BASE})),
    "close": lambda: ranks(
        contest({"a": BASE, "b": BASE + permute(np.linspace(-0.004, 0.005, 10)), "c": BASE - 0.1})
    ),
    "alike": lambda: ranks(
        contest({name: permute(BASE, seed) for seed, name in enumerate("abcd")}), "winners"
    ),
    "few": lambda: ranks(contest({f"m{k}": BASE[:7] + k * OFFSETS[:7] for k in range(4)}), "winners"),
    "untested": lambda: ranks(
        contest({"c": (0.45, 0.9), "a": (0.6, 0.5), "b": (0.5, 0.5)}, spread=0.1, draws=2), "winners", "duels"
    ),
    "gaps": lambda: ranks(gaps(), "winners"),
    "apart": lambda: ranks(table([cell("d0", "a", 0.5, p=0.9), cell("d1", "b", 0.5, p=0.9)]), "winners"),
    "one": lambda: ranks(contest({"posterior": (0.5, 0.6)}), *STANDING),
    "none": lambda: ranks(table([cell("own", "posterior", np.nan, p=0.9)]), *STANDING),
    "drawn-once": lambda: ranks(contest({"a": (0.6, 0.7), "b": (0.5, 0.7)}, draws=1), *STANDING),
    "drawn-once-tested": lambda: ranks(contest({"b": BASE, "a": BASE + OFFSETS}, draws=1), "winners"),
    # the second by rank has the higher mean, the third the same mean as the first
    "runner-up": lambda: ranks(some_left(("a", 0.6, 0.7), ("b", 0.59, 0.9), ("c", 0.5, 0.8)), "winners"),
    "one-data-set": lambda: ranks(contest({"a": (0.845,), "b": (0.1,), "c": (0.846,)}), "winners", "duels"),
    "long": lambda: ranks(contest({f"{LONG}-{place}": BASE[:8] + 0.01 * place for place in range(12)})),
    "robust": lambda: ranks(robust("conditional"), "robustness", "cost"),
    "robust-shapes": lambda: ranks(robust("conditional-full"), "robustness"),
    "robust-one": lambda: ranks(robust("conditional", (0.9,)), "robustness"),
    "bars": lambda: ranks(twins(), "winners"),
    "designs": lambda: design(designed_cells(level, datasets=("a", "b"), designs=tuple(CURVES)), "a", "b"),
    "designs-noisy": lambda: design(designed_cells(noisy, baseline=0.0, accuracies=(0.8, 1.0)), "a"),
    "designs-beyond": lambda: design(designed_cells(rising_curve, baseline=0.0), "a"),
    "designs-worse": lambda: design(
        designed_cells(lambda design, x, unit: x / 2 * (design != "active"), baseline=0.1), "a"
    ),
    "designs-crossing": lambda: design(crossing_curves(), "a"),
    "designs-alone": lambda: design(designed_cells(level, draws=1), "a"),
    "designs-models": lambda: design(
        designed_cells(level, models=("posterior", max(SHIPPED, key=len)), datasets=("a", "b"))
    ),
    "designs-none": lambda: design(designed_cells(level, designs=("uniform",)), "a"),
    "searches": lambda: search(search_draws(("first", "second", "prior"))),
    "searches-shapes": lambda: search(other_shapes()),
    "searches-none": lambda: search(search_draws(("first",))),
    "mixtures": lambda: score_lines(
        *FAMILY, toy.plan("alone_k3", mixtures=2, models=(), p=(), m=()), sections=("scores",)
    ),
    "shapes": lambda: score_lines(
        *(toy.plan(name, models=SHAPES, model_chunk=9, replicates=1, replicate_chunk=1) for name in "ab"),
        sections=("scores", "curves"),
    ),
    "held-out": held_out,
    "compared": comparisons,
    "typed": input_problems,
    "judged": verdicts,
    "settings": settings,
    "took": time_lines,
    "partitions": partitions,
    "ran": terminal_lines,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_shown_is_as_recorded(name: str, pytestconfig: pytest.Config) -> None:
    with house_style():
        text = "".join(f"{line}\n" for line in CASES[name]())
    text, path = stable_text(text, SHOWN), SHOWN / f"{name}.txt"
    if pytestconfig.getoption("golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_record_is_of_a_case() -> None:
    assert {path.stem for path in SHOWN.iterdir()} == set(CASES)
