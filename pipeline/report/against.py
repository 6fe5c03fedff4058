"""Published values beside those of the cube: means with a verdict for each, and scores that enter the ranks.

`read_published` reads a table of either; `compare` sets means beside those of the cube.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures, look, winners
from sweep_clustering.pipeline.report.content import Content, Part
from sweep_clustering.pipeline.report.elements import WORDS, Reading, Table, Value, number, words
from sweep_clustering.pipeline.scoring.kinds import MOST_PUBLISHED, PublishedRanking
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.sweeps.data.lines import Line, read_lines, shortened, split_cells, to_number
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, present
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.records import Choice, Real, Record, Text, Whole, read
from sweep_clustering.sweeps.words import BASELINES, MODEL_CODES

# Scores by their names in a table of published values.
METRICS = {"nmi": "nmi", "kl": "goldberger_kl"}
# Digits of a value that is not printed as a decimal.
EXACT = 15

# Values of z up to which a mean agrees.
Z_LIMIT = 2.0
# The same in standard errors of the cube's mean: the published mean is taken to have an equal error.
LIMIT = Z_LIMIT * math.sqrt(2)
WITHIN, ABOVE, BELOW = "within", "above", "below"
NO_ERROR, NOT_DONE, ABSENT = "no standard error", "not done", "not in this cube"
JUDGED = (WITHIN, ABOVE, BELOW)
KINDS = {WITHIN: "good", ABOVE: "bad", BELOW: "bad"}

PANEL = (3.0, 2.3)
# Up to this z the axis is linear; where an error is tiny, z may be anything.
LINEAR, TICKS = 4.0, (-1000, -100, -30, -10, -6, -4, -2, 0, 2, 4, 6, 10, 30, 100, 1000)
# Distance between the models at one number of annotations, as a share of the step to the next.
APART = 0.36


class PublishedMean(Record):
    """A line of a table of published values; a column for each key."""

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


# What a table may have in its lines; the one that shares most columns with it is meant.
LINES: tuple[type[Record], ...] = (PublishedMean, PublishedScore)
# Of one published score.
SCORED = ("battery", "name", "method", "ari")
# Of one published mean: `score` as the cube calls it, and digits behind the point in print.
PUBLISHED = ("p", "n_clusters", "m", "model", "score", "published", "digits")
PLACE = ("of_p", "of_m")
BESIDE = ("dataset", "n_clusters", "p", "m", "model", "score", "mean", "se", "n")


def read_published(path: Path) -> pd.DataFrame:
    """Read a table of published means, or of scores of published labels.

    Parameters
    ----------
    path : Path
        CSV with the columns of `PublishedMean` or of `PublishedScore`, in any order, others among them;
        metrics are those of `METRICS`.

    Returns
    -------
    pandas.DataFrame
        Of means columns `PUBLISHED`, where m is 0 for a model without annotations; of scores `SCORED`.

    Raises
    ------
    InputError
        With every line that is wrong.
    """
    lines = list(read_lines(path))
    if not lines:
        heads = " or ".join(",".join(form.model_fields) for form in LINES)
        raise InputError([Problem(str(path), "nothing", f"a line of columns: {heads}")])
    names = split_cells(lines[0].text)
    form = max(LINES, key=lambda form: len(form.model_fields.keys() & set(names)))
    values, columns = (_mean, PUBLISHED) if form is PublishedMean else (_score, SCORED)
    listed = ", ".join(map(repr, names))
    problems: list[Problem] = []
    for name in form.model_fields:
        if (n := names.count(name)) != 1:
            said = (
                f"{plural(n, 'column')} {name!r} of {listed}",
                f"one column {name!r}",
                did_you_mean(name, names),
            )
            problems.append(Problem(lines[0].where, *said))
    if not problems and len(lines) == 1:
        problems.append(Problem(str(path), "no values", "a line for each published value"))
    if problems:
        raise InputError(problems)
    found: dict[tuple[Any, ...], str] = {}
    rows = []
    for line in lines[1:]:
        with collecting(problems):
            cells = split_cells(line.text)
            if len(cells) != len(names):
                expected = f"{len(names)}, one for each column"
                raise InputError([Problem(line.where, plural(len(cells), "cell"), expected)])
            row = {name: cell for name, cell in zip(names, cells, strict=True) if name in form.model_fields}
            key, value = values(line, row)
            if key in found:
                raise InputError([Problem(line.where, f"the value of {found[key]} again", "each value once")])
            found[key] = line.where
            rows.append(value)
    if problems:
        raise InputError(shortened(path, problems))
    return pd.DataFrame(rows, columns=list(columns))


def _score(line: Line, row: dict[str, str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What must be there once, and `SCORED` of a line."""
    typed = {name: _value(cell) if name == "ari" else cell for name, cell in row.items()}
    found = read(PublishedScore, typed, f"{line.where},")
    place = found.battery, found.dataset, found.method
    return place, (*place, found.ari)


def _mean(line: Line, row: dict[str, str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What must be there once, and `PUBLISHED` of a line."""
    mean = read(PublishedMean, {name: _value(cell) for name, cell in row.items()}, f"{line.where},")
    if (mean.m == 0) != (mean.model in BASELINES):
        expected = "m = 0 for a model without annotations, and for no other"
        raise InputError([Problem(line.where, f"m = {mean.m} for {mean.model}", expected)])
    digits = EXACT if "e" in row["value"].lower() else len(row["value"].partition(".")[2])
    place = mean.n_clusters, mean.m, mean.model, METRICS[mean.metric]
    return (round(mean.p, 9), *place), (mean.p, *place, mean.value, digits)


def _value(cell: str) -> float | str:
    """A cell as a number, whole if it can be, where it is one."""
    number = to_number(cell)
    if number is None:
        return cell
    return int(number) if number.is_integer() else number


def compare(summary: pd.DataFrame, plans: Mapping[str, DatasetPlan], published: pd.DataFrame) -> pd.DataFrame:
    """Set published means beside those of the mixtures of a cube.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `pipeline.scoring.tables.summary_table`.
    plans : mapping of str to DatasetPlan
        Grid of each data set.
    published : pandas.DataFrame
        From `read_published`.

    Returns
    -------
    pandas.DataFrame
        A row per value, and per set of mixtures of that K if there are several: `dataset`, `n_clusters`, `p`,
        `m`, `model`, `score`, `mean`, `se`, `n`, `published`, `difference` (cube minus published), `z`
        (difference by √2 standard errors, 0 where both print alike), `verdict`.
    """
    mixtures = [(plan.name, plan.n_clusters) for plan in plans.values() if plan.mixtures is not None]
    rows = published.merge(pd.DataFrame(mixtures, columns=["dataset", "n_clusters"]), "left", "n_clusters")
    theirs, ours = _placed(rows.fillna({"dataset": ""})), _placed(summary).drop(columns=["p", "m"])
    ours = ours[["dataset", "model", "score", *PLACE, "mean", "se", "n"]]
    found = theirs.merge(ours, "left", ["dataset", "model", "score", *PLACE], indicator=True)
    mean, se, value = found["mean"], found["se"], found["published"]
    difference = mean - value
    # rounded to the digits of the published value it equals it: then no error is needed
    printed = zip(mean, found["digits"], strict=True)
    alike = value == [round(number, digits) for number, digits in printed]
    verdicts = {
        ABSENT: found["_merge"] == "left_only",
        NOT_DONE: mean.isna(),
        WITHIN: alike | (difference.abs() <= LIMIT * se),
        NO_ERROR: se.isna(),
        ABOVE: difference > 0,
    }
    return found.assign(n=found["n"].fillna(0).astype(int))[[*BESIDE, "published"]].assign(
        difference=difference,
        z=(difference / (math.sqrt(2) * se)).where(se > 0).mask(alike, 0.0),
        verdict=np.select(list(verdicts.values()), list(verdicts), BELOW),
    )


def _placed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with `PLACE`: a model without annotations has one value for all p and m."""
    alone = rows["model"].isin(BASELINES)
    columns = {f"of_{key}": rows[key].astype(float).round(9).mask(alone) for key in ("p", "m")}
    return rows.assign(**columns)


def summarise(compared: pd.DataFrame) -> str:
    """One sentence: how many published values agree."""
    counts = compared["verdict"].value_counts()
    judged = int(sum(counts.get(word, 0) for word in JUDGED))
    within, above, below = (int(counts.get(word, 0)) for word in JUDGED)
    means = f"{plural(above, 'mean')} of this cube {'lies' if above == 1 else 'lie'} above, {below:,} below"
    text = (
        f"{within:,} of {plural(judged, 'published value')} {'lies' if within == 1 else 'lie'} within 2√2"
        f" standard errors of the mean in this cube ({means})"
        if judged
        else "No published value has a mean with a standard error in this cube to be judged by"
    )
    rest = [f"{counts[word]} {word}" for word in (NO_ERROR, NOT_DONE, ABSENT) if word in counts]
    return f"{text}; of {len(compared)} in the table {', '.join(rest)}." if rest else f"{text}."


def label_lines(found: PublishedRanking | None, width: int) -> Iterator[str]:
    """For a terminal: who ranks best among models and published labels, where there are any."""
    if found is None:
        return
    yield "among published labels"
    for paragraph in winners.findings([found.ranking]):
        yield from elements.wrapped(paragraph, width, first="  ", others="    ")


def labels_beside(content: Content) -> Iterator[Part]:
    """Who ranks best among models and published labels, all of them by mean rank, and the diagram."""
    said, found = WORDS["labels"], present(content.published)
    ranking, methods = found.ranking, found.methods
    ranked = int(methods["ranked"].sum())
    if not ranked or not ranking.datasets:
        yield said["none"]
    else:
        yield from winners.findings([ranking])
        yield Reading(said["reading"].format(ranked=ranked, n=len(methods), most=MOST_PUBLISHED))
        yield elements.declared("ranked_beside", ranking.table())
        yield (
            "ranks-published",
            winners.draw_ranks(ranking),
            said["diagram"].format(datasets=plural(len(ranking.datasets), "data set")),
        )
    yield elements.declared(
        "labels", methods.assign(ranked=["yes" if each else "" for each in methods["ranked"]])
    )


def beside(content: Content) -> Iterator[Part]:
    """How many values agree and how that is judged, verdicts by score, K and p, then every value."""
    said, compared = WORDS["against"], present(content.compared)
    yield summarise(compared)
    yield Reading(said["reading"])
    rows = []
    for (score, clusters, p), group in compared.groupby(["score", "n_clusters", "p"]):
        counts, z = group["verdict"].value_counts(), group.loc[group["verdict"].isin(JUDGED), "z"]
        place = words(LABELS[str(score)].short), number(clusters), number(p, "g"), number(len(group))
        means = number(z.mean(), "+.2f"), number(np.sqrt((z**2).mean()), ".2f")
        rows.append((*place, *(number(counts.get(word, 0)) for word in JUDGED), *means))
    rows.sort(key=lambda row: tuple(str(value.order) for value in row[:3]))
    head = ("score", "K", "p", "values", *JUDGED, "mean z", "root mean square z")
    yield Table("Verdicts", head, tuple(rows))
    verdicts = [Value(verdict, verdict, KINDS.get(verdict, "")) for verdict in compared["verdict"]]
    names, scores = compared["dataset"].replace("", "-"), [LABELS[score].short for score in compared["score"]]
    yield elements.declared("against", compared.assign(dataset=names, score=scores, verdict=verdicts))
    yield "z", draw_verdicts(compared), said["points"]


def draw_verdicts(compared: pd.DataFrame) -> Figure | None:
    """Draw z of every value: a row of panels per score, a column per accuracy, the digit of K in each point.

    Parameters
    ----------
    compared : pandas.DataFrame
        From `compare`.

    Returns
    -------
    Figure or None
        None if no value has a z.
    """
    rows = compared[compared["z"].notna()]
    models = list(rows["model"].unique())
    supervised = [model for model in models if model not in BASELINES]

    def panel(axes: Axes, score: str, p: float) -> None:
        there = rows[(rows["score"] == score) & (rows["p"] == p)]
        axes.axhspan(-Z_LIMIT, Z_LIMIT, color=look.GREY, alpha=0.14, linewidth=0)
        axes.axhline(0, color=look.GREY, linewidth=1)
        step = min(np.diff(sorted(there["m"].unique())), default=1)
        for (model, clusters), points in there.groupby(["model", "n_clusters"], sort=True):
            place = supervised.index(str(model)) - (len(supervised) - 1) / 2 if model in supervised else 0
            across = points["m"].to_numpy(dtype=float) + place * APART * step
            color, z = look.mark(str(model)).color, points["z"]
            axes.plot(across, z, "o", markersize=9, markerfacecolor=look.PAPER, markeredgecolor=color)
            for x, y in zip(across, z, strict=True):
                axes.text(x, y, str(clusters), color=color, fontsize=7.5, ha="center", va="center_baseline")
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axes.tick_params(labelbottom=True, labelleft=True)

    def up(score: str) -> str:
        return f"{LABELS[score].short.partition(',')[0]}: z, this cube less published"

    square: dict[str, Any] = {"marker": "s", "linestyle": ""}
    also = [Line2D([], [], color=look.mark(model).color, label=model, **square) for model in models]
    scores = list(rows["score"].unique())
    figure = figures.facets(scores, rows["p"], panel, PANEL, up, share="all", also=also)
    if figure is not None:
        first, most = figure.axes[0], max(LINEAR, rows["z"].abs().max())
        first.set_yscale("symlog", linthresh=LINEAR)
        ticks = [z for z in TICKS if abs(z) <= most]
        first.set_yticks(ticks, [f"{z:g}" for z in ticks])
        first.minorticks_off()
    return figure
