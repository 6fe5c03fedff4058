"""Scores by how the annotated pairs were chosen, paired by what was drawn: a curve over m for each design."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.scoring.units import NAMES, by_unit, unit_level
from pipeline.scoring.winners.common import solved_values
from sweeps.words import UNIFORM, baseline_of

MEAN = "mean of all"
"""Stands for a data set where it is the mean over data sets."""
Curves = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """One data set at one accuracy, of one model.

    Parameters
    ----------
    dataset : str
        Its name.
    unit : str
        What was drawn independently: mixtures, or of a real data set redraws of the annotations.
    m : tuple of int
        Numbers of annotations, ascending, that every design has.
    x : ndarray of shape (n_m,)
        The same per sample, m / N.
    values : mapping of str to ndarray of shape (n_units, n_m)
        Of each design the score of each unit, a mean over its places. A place, which is a mixture and
        replicate, where any design lacks a score at any m is left out for all of them.
    start : ndarray of shape (n_units,) or None
        Score of the baseline of the same shape, which has no annotations; None without one.
    """

    dataset: str
    unit: str
    m: tuple[int, ...]
    x: NDArray[np.float64]
    values: Mapping[str, Curves]
    start: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class Group:
    """What one line of a figure is drawn from: a data set, or several in equal shares.

    Parameters
    ----------
    dataset : str
        Its name, or `MEAN`.
    p : float
        Accuracy of the annotations.
    model : str
        Which.
    counts : tuple of str
        Each m, as the sweep file writes it.
    parts : tuple of Part
        The data sets, all with these counts and the same designs.
    """

    dataset: str
    p: float
    model: str
    counts: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def chosen(self) -> tuple[str, ...]:
        """Designs beside uniform pairs."""
        return tuple(design for design in self.parts[0].values if design != UNIFORM)

    @property
    def title(self) -> str:
        """Its name, or how many data sets it is a mean of."""
        return f"mean of {len(self.parts)} data sets" if self.dataset == MEAN else self.dataset

    @cached_property
    def x(self) -> NDArray[np.float64]:
        """Annotations per sample, of shape (n_m,)."""
        return np.asarray(np.mean([part.x for part in self.parts], axis=0))

    @property
    def n(self) -> int:
        """Units of a data set, or data sets."""
        return len(self.parts) if self.dataset == MEAN else len(self.parts[0].values[UNIFORM])

    @property
    def unit(self) -> str:
        """What `n` counts."""
        return "data sets" if self.dataset == MEAN else self.parts[0].unit

    def mean(self, design: str) -> NDArray[np.float64]:
        """Mean score at each m, of shape (n_m,)."""
        return _mean([part.values[design] for part in self.parts])

    def error(self, design: str) -> NDArray[np.float64]:
        """Standard error of the mean over units, of shape (n_m,); the data sets are given."""
        return _error([part.values[design] for part in self.parts])

    def difference(self, design: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard error of a design less uniform pairs, paired by unit, each of shape (n_m,)."""
        pairs = [part.values[design] - part.values[UNIFORM] for part in self.parts]
        return _mean(pairs), _error(pairs)


def _mean(values: Sequence[Curves]) -> NDArray[np.float64]:
    return np.asarray(np.mean([each.mean(axis=0) for each in values], axis=0))


def _error(values: Sequence[Curves]) -> NDArray[np.float64]:
    """Of a mean over data sets the error of its draws; a data set that has one unit alone adds nothing."""
    squares = [each.var(axis=0, ddof=1) / len(each) for each in values if len(each) > 1]
    if not squares:
        return np.full(values[0].shape[1], np.nan)
    return np.asarray(np.sqrt(np.sum(squares, axis=0)) / len(values))


def design_groups(cells: pd.DataFrame, score: str, written: Mapping[tuple[str, int], str]) -> list[Group]:
    """Curves of every model at every accuracy: over the data sets first, where there are several.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    score : str
        More is better; 0 for a cell without a solution.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    list of Group
        Empty without uniform pairs and another design. The means are over data sets that have all designs
        and, as the file writes them, all counts.
    """
    names = set(cells["design"].dropna()) if "design" in cells else set()
    if UNIFORM not in names or len(names) < 2:
        return []
    marked = cells.assign(value=solved_values(cells, score))
    groups = [
        group for _, rows in marked.groupby("dataset", sort=False) for group in _of_dataset(rows, written)
    ]
    return [*_means(groups), *groups]


def design_table(groups: Sequence[Group]) -> pd.DataFrame:
    """Scores of every design, and how far they are from those of uniform pairs.

    Parameters
    ----------
    groups : sequence of Group
        Of one score.

    Returns
    -------
    pandas.DataFrame
        `dataset`, `p`, `model`, `design`, `m` (as written), `m_over_n`, `n`, `unit`, `mean`, `se`,
        `difference` to uniform pairs and its `difference_se`, both missing for these themselves. Errors are
        missing where there is one unit.
    """
    frames = []
    for group in groups:
        for design in (UNIFORM, *group.chosen):
            frame = pd.DataFrame({"m": group.counts, "m_over_n": group.x})
            frame = frame.assign(n=group.n, unit=group.unit, mean=group.mean(design), se=group.error(design))
            less, error = group.difference(design) if design != UNIFORM else (np.nan, np.nan)
            frame = frame.assign(difference=less, difference_se=error)
            names = {"dataset": group.dataset, "p": group.p, "model": group.model, "design": design}
            for place, (key, value) in enumerate(names.items()):
                frame.insert(place, key, value)
            frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _of_dataset(rows: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> Iterator[Group]:
    dataset = str(rows["dataset"].iloc[0])
    keyed = rows.assign(mixture=rows["mixture"].fillna(-1).astype(int))
    drawn, alone = keyed[keyed["p"].notna()], keyed[keyed["p"].isna()]
    for (p, model), found in drawn.groupby(["p", "model"], sort=False):
        part = _part(dataset, found, alone[alone["model"] == baseline_of(str(model))])
        if part is not None:
            texts = tuple(written.get((dataset, m), str(m)) for m in part.m)
            yield Group(dataset, float(p), str(model), texts, (part,))


def _part(dataset: str, rows: pd.DataFrame, baseline: pd.DataFrame) -> Part | None:
    """None without uniform pairs, or another design, that has a score where all others do."""
    whole = rows.astype({"m": int, "replicate": int})
    wide = whole.pivot(index=["mixture", "replicate"], columns=["design", "m"], values="value")
    complete = wide.dropna(axis="columns", how="all").dropna(axis="index")
    designs = [
        name for name in whole["design"].unique() if name in complete.columns.get_level_values("design")
    ]
    if UNIFORM not in designs or len(designs) < 2 or complete.empty:
        return None
    in_common = sorted(set.intersection(*(set(complete[name].columns) for name in designs)))
    per_sample = whole.drop_duplicates("m").set_index("m")["m_over_n"]
    level, units = unit_level(complete.index), by_unit(complete)
    values = {name: units[name][in_common].to_numpy(dtype=float) for name in designs}
    levels = baseline.set_index("mixture")["value"]
    start = levels.reindex(units.index if level == "mixture" else [-1] * len(units)).to_numpy(dtype=float)
    known = start if len(levels) and not np.isnan(start).any() else None
    x = per_sample[in_common].to_numpy(dtype=float)
    return Part(dataset, NAMES[level], tuple(map(int, in_common)), x, values, known) if in_common else None


def _means(groups: Sequence[Group]) -> Iterator[Group]:
    """Over the data sets with the same counts and designs as the first one, where there are several."""
    keys = dict.fromkeys((group.p, group.model) for group in groups)
    for p, model in keys:
        alike = [group for group in groups if (group.p, group.model) == (p, model)]
        alike = [g for g in alike if (g.counts, {*g.chosen}) == (alike[0].counts, {*alike[0].chosen})]
        if len(alike) > 1:
            yield Group(MEAN, p, model, alike[0].counts, tuple(group.parts[0] for group in alike))
