"""Published values beside those of the cube: means with a verdict for each, and scores that enter the ranks.

`read_published` reads a table of either kind, and `compare` sets means beside those of the cube.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures, winners
from sweep_clustering.pipeline.report.content import Content, Part
from sweep_clustering.pipeline.report.elements import WORDS, Reading, Table, Value, number, words
from sweep_clustering.pipeline.scoring.kinds import MOST_PUBLISHED, PublishedRanking
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.sweeps.data.lines import Line, read_lines, shortened, split_cells, to_number
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, present
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.records import Choice, Real, Record, Text, Whole, read
from sweep_clustering.sweeps.words import BASELINES, MODEL_CODES

# Scores of the cube by their names in a table of published values.
METRICS = {"nmi": "nmi", "kl": "goldberger_kl"}
# Digits of a value that is not printed as a decimal.
EXACT = 15

# Values of z up to which a mean agrees.
Z_LIMIT = 2.0
# The same in standard errors of the cube's mean, because the published mean is taken to have an equal error.
LIMIT = Z_LIMIT * math.sqrt(2)
WITHIN = "within"
ABOVE = "above"
BELOW = "below"
NO_ERROR = "no standard error"
NOT_DONE = "not done"
ABSENT = "not in this cube"
JUDGED = (WITHIN, ABOVE, BELOW)
KINDS = {WITHIN: "good", ABOVE: "bad", BELOW: "bad"}

# Width and height of a panel in inches.
PANEL = (3.0, 2.3)
# The axis is linear up to this z. If an error is tiny, z may be anything.
LINEAR = 4.0
TICKS = (-1000, -100, -30, -10, -6, -4, -2, 0, 2, 4, 6, 10, 30, 100, 1000)
# Distance between the models at one number of annotations, as a share of the step to the next.
APART = 0.36


class PublishedMean(Record):
    """A line of a table of published values, with a column for each key."""

    p: Annotated[float, Real("a number from 0 to 1", ge=0, le=1)]
    n_clusters: Annotated[int, Whole(1)]
    m: Annotated[int, Whole(0)]
    model: Annotated[str, Choice(tuple(MODEL_CODES))]
    metric: Annotated[str, Choice(tuple(METRICS))]
    value: Annotated[float, Real("a number, 0 or more", ge=0)]


class PublishedScore(Record):
    """A line of a table of scores of published labels, on data sets of the benchmark suite."""

    battery: Annotated[str, Text("the battery of a data set", min_length=1)]
    dataset: Annotated[str, Text("the name of a data set in its battery", min_length=1)]
    method: Annotated[str, Text("a method, with its settings", min_length=1)]
    ari: Annotated[float, Real("a number from -1 to 1", ge=-1, le=1)]


# Records of lines. A table is of the kind with which it shares most columns.
FORMS: tuple[type[Record], ...] = (PublishedMean, PublishedScore)
# Columns of a published score.
SCORED = ("battery", "name", "method", "ari")
# Columns of a published mean: `score` as the cube calls it, and the digits behind the point in print.
PUBLISHED = ("p", "n_clusters", "m", "model", "score", "published", "digits")
PLACE = ("of_p", "of_m")
BESIDE = ("dataset", "n_clusters", "p", "m", "model", "score", "mean", "se", "n")


class Row(NamedTuple):
    """A row of a table of published values, and the key that must be there once."""

    key: tuple[Any, ...]
    values: tuple[Any, ...]


def read_published(path: Path) -> pd.DataFrame:
    """Read a table of published means, or of scores of published labels.

    Parameters
    ----------
    path : Path
        CSV with the columns of `PublishedMean` or of `PublishedScore`, in any order, and perhaps others.
        Metrics are those of `METRICS`.

    Returns
    -------
    pandas.DataFrame
        Columns `PUBLISHED` of means, where m is 0 for a model without annotations, or `SCORED` of scores.

    Raises
    ------
    InputError
        With every line that is wrong.
    """
    lines = list(read_lines(path))
    if not lines:
        heads = " or ".join(",".join(form.model_fields) for form in FORMS)
        raise InputError([Problem(str(path), "nothing", f"a line of columns: {heads}")])
    names = split_cells(lines[0].text)
    form = max(FORMS, key=lambda form: len(form.model_fields.keys() & set(names)))
    row_of, columns = (_mean, PUBLISHED) if form is PublishedMean else (_score, SCORED)
    header = ", ".join(map(repr, names))
    problems = [
        Problem(
            lines[0].where,
            f"{plural(n, 'column')} {name!r} of {header}",
            f"one column {name!r}",
            did_you_mean(name, names),
        )
        for name in form.model_fields
        if (n := names.count(name)) != 1
    ]
    if not problems and len(lines) == 1:
        problems.append(Problem(str(path), "no values", "a line for each published value"))
    if problems:
        raise InputError(problems)
    places: dict[tuple[Any, ...], str] = {}
    rows = []
    for line in lines[1:]:
        with collecting(problems):
            cells = split_cells(line.text)
            if len(cells) != len(names):
                expected = f"{len(names)}, one for each column"
                raise InputError([Problem(line.where, plural(len(cells), "cell"), expected)])
            entries = dict(zip(names, cells, strict=True))
            row = row_of(line, {name: entries[name] for name in form.model_fields})
            if row.key in places:
                again = f"the value of {places[row.key]} again"
                raise InputError([Problem(line.where, again, "each value once")])
            places[row.key] = line.where
            rows.append(row.values)
    if problems:
        raise InputError(shortened(path, problems))
    return pd.DataFrame(rows, columns=list(columns))


def _score(line: Line, cells: dict[str, str]) -> Row:
    score = read(PublishedScore, cells | {"ari": _value(cells["ari"])}, f"{line.where},")
    key = score.battery, score.dataset, score.method
    return Row(key, (*key, score.ari))


def _mean(line: Line, cells: dict[str, str]) -> Row:
    mean = read(PublishedMean, {name: _value(cell) for name, cell in cells.items()}, f"{line.where},")
    if (mean.m == 0) != (mean.model in BASELINES):
        expected = "m = 0 for a model without annotations, and for no other"
        raise InputError([Problem(line.where, f"m = {mean.m} for {mean.model}", expected)])
    text = cells["value"]
    digits = EXACT if "e" in text.lower() else len(text.partition(".")[2])
    place = mean.n_clusters, mean.m, mean.model, METRICS[mean.metric]
    return Row((round(mean.p, 9), *place), (mean.p, *place, mean.value, digits))


def _value(cell: str) -> float | str:
    """Return a cell as a number, whole if it can be, or as its text."""
    number = to_number(cell)
    if number is None:
        return cell
    return int(number) if number.is_integer() else number


def compare(summary: pd.DataFrame, plans: Mapping[str, DatasetPlan], published: pd.DataFrame) -> pd.DataFrame:
    """Set published means beside those of the mixtures of a cube.

    Parameters
    ----------
    summary : pandas.DataFrame
        Table of `pipeline.scoring.tables.summary_table`.
    plans : mapping of str to DatasetPlan
        Grid of each data set.
    published : pandas.DataFrame
        Means of `read_published`.

    Returns
    -------
    pandas.DataFrame
        A row per value, and per set of mixtures of that K if there are several: `dataset`, `n_clusters`, `p`,
        `m`, `model`, `score`, `mean`, `se`, `n`, `published`, `difference` (cube minus published), `z`
        (difference by √2 standard errors, 0 where both print alike), `verdict`.
    """
    mixtures = [(plan.name, plan.n_clusters) for plan in plans.values() if plan.mixtures is not None]
    rows = published.merge(pd.DataFrame(mixtures, columns=["dataset", "n_clusters"]), "left", "n_clusters")
    means = _with_place(summary).drop(columns=["p", "m"])
    means = means[["dataset", "model", "score", *PLACE, "mean", "se", "n"]]
    keys = ["dataset", "model", "score", *PLACE]
    table = _with_place(rows.fillna({"dataset": ""})).merge(means, "left", keys, indicator=True)
    mean, se, value = table["mean"], table["se"], table["published"]
    difference = mean - value
    # a mean that equals the published value in its printed digits needs no error
    is_alike = value == [round(x, digits) for x, digits in zip(mean, table["digits"], strict=True)]
    verdicts = {
        ABSENT: table["_merge"] == "left_only",
        NOT_DONE: mean.isna(),
        WITHIN: is_alike | (difference.abs() <= LIMIT * se),
        NO_ERROR: se.isna(),
        ABOVE: difference > 0,
    }
    return table.assign(n=table["n"].fillna(0).astype(int))[[*BESIDE, "published"]].assign(
        difference=difference,
        z=(difference / (math.sqrt(2) * se)).where(se > 0).mask(is_alike, 0.0),
        verdict=np.select(list(verdicts.values()), list(verdicts), BELOW),
    )


def _with_place(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with `PLACE`, in which a model without annotations has one value for all p and m."""
    is_alone = rows["model"].isin(BASELINES)
    columns = {f"of_{key}": rows[key].astype(float).round(9).mask(is_alone) for key in ("p", "m")}
    return rows.assign(**columns)


def summarise(compared: pd.DataFrame) -> str:
    """Say in a sentence how many published values agree."""
    counts = compared["verdict"].value_counts()
    within, above, below = (int(counts.get(word, 0)) for word in JUDGED)
    n_judged = within + above + below
    means = f"{plural(above, 'mean')} of this cube {'lies' if above == 1 else 'lie'} above, {below:,} below"
    text = (
        f"{within:,} of {plural(n_judged, 'published value')} {'lies' if within == 1 else 'lie'} within 2√2"
        f" standard errors of the mean in this cube ({means})"
        if n_judged
        else "No published value has a mean with a standard error in this cube to be judged by"
    )
    rest = [f"{counts[word]} {word}" for word in (NO_ERROR, NOT_DONE, ABSENT) if word in counts]
    return f"{text}; of {len(compared)} in the table {', '.join(rest)}." if rest else f"{text}."


def label_lines(published: PublishedRanking | None, width: int) -> Iterator[str]:
    """Yield for a terminal who ranks best among models and published labels, if there are any."""
    if published is None:
        return
    yield "among published labels"
    for paragraph in winners.findings([published.ranking]):
        yield from elements.paragraph_lines(paragraph, width, first="  ", others="    ")


def ranks_beside_labels(content: Content) -> Iterator[Part]:
    """Yield who ranks best among models and published labels, all of them by mean rank, and the diagram."""
    texts, published = WORDS["labels"], present(content.published)
    ranking, methods = published.ranking, published.methods
    n_ranked = int(methods["ranked"].sum())
    if not n_ranked or not ranking.datasets:
        yield texts["none"]
    else:
        yield from winners.findings([ranking])
        yield Reading(texts["reading"].format(ranked=n_ranked, n=len(methods), most=MOST_PUBLISHED))
        yield elements.declared_table("ranked_beside", ranking.table())
        text = texts["diagram"].format(datasets=plural(len(ranking.datasets), "data set"))
        yield "ranks-published", winners.draw_ranks(ranking), text
    marks = ["yes" if is_ranked else "" for is_ranked in methods["ranked"]]
    yield elements.declared_table("labels", methods.assign(ranked=marks))


def beside(content: Content) -> Iterator[Part]:
    """Yield how many values agree and how that is judged, verdicts by score, K and p, then every value."""
    texts, compared = WORDS["against"], present(content.compared)
    yield summarise(compared)
    yield Reading(texts["reading"])
    rows = []
    for (score, clusters, p), group in compared.groupby(["score", "n_clusters", "p"]):
        counts, z = group["verdict"].value_counts(), group.loc[group["verdict"].isin(JUDGED), "z"]
        place = words(LABELS[str(score)].short), number(clusters), number(p, "g"), number(len(group))
        means = number(z.mean(), "+.2f"), number(np.sqrt((z**2).mean()), ".2f")
        rows.append((*place, *(number(counts.get(word, 0)) for word in JUDGED), *means))
    rows.sort(key=lambda row: tuple(str(value.order) for value in row[:3]))
    heads = ("score", "K", "p", "values", *JUDGED, "mean z", "root mean square z")
    yield Table("Verdicts", heads, tuple(rows))
    verdicts = [Value(verdict, verdict, KINDS.get(verdict, "")) for verdict in compared["verdict"]]
    names, scores = compared["dataset"].replace("", "-"), [LABELS[score].short for score in compared["score"]]
    yield elements.declared_table("against", compared.assign(dataset=names, score=scores, verdict=verdicts))
    yield "z", draw_verdicts(compared), texts["points"]


def draw_verdicts(compared: pd.DataFrame) -> Figure | None:
    """Draw every z of `compare` as the digit of its K: a row of panels per score, a column per accuracy."""
    rows = compared[compared["z"].notna()]
    models = list(rows["model"].unique())
    supervised = [model for model in models if model not in BASELINES]

    def panel(axes: Axes, score: str, p: float) -> None:
        points_there = rows[(rows["score"] == score) & (rows["p"] == p)]
        axes.axhspan(-Z_LIMIT, Z_LIMIT, color=looks.GREY, alpha=0.14, linewidth=0)
        axes.axhline(0, color=looks.GREY, linewidth=1)
        step = min(np.diff(sorted(points_there["m"].unique())), default=1)
        for (model, clusters), points in points_there.groupby(["model", "n_clusters"], sort=True):
            place = supervised.index(str(model)) - (len(supervised) - 1) / 2 if model in supervised else 0
            across = points["m"].to_numpy(dtype=float) + place * APART * step
            color, z = looks.mark(str(model)).color, points["z"]
            axes.plot(across, z, "o", markersize=9, markerfacecolor=looks.PAPER, markeredgecolor=color)
            for x, y in zip(across, z, strict=True):
                axes.text(x, y, str(clusters), color=color, fontsize=7.5, ha="center", va="center_baseline")
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axes.tick_params(labelbottom=True, labelleft=True)

    def up(score: str) -> str:
        return f"{LABELS[score].short.partition(',')[0]}: z, this cube less published"

    also = [
        Line2D([], [], color=looks.mark(model).color, label=model, marker="s", linestyle="")
        for model in models
    ]
    scores = list(rows["score"].unique())
    figure = figures.facets(scores, rows["p"], panel, PANEL, up, share="all", also=also)
    if figure is not None:
        first, most = figure.axes[0], max(LINEAR, rows["z"].abs().max())
        first.set_yscale("symlog", linthresh=LINEAR)
        ticks = [z for z in TICKS if abs(z) <= most]
        first.set_yticks(ticks, [f"{z:g}" for z in ticks])
        first.minorticks_off()
    return figure
