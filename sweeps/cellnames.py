"""Names of cells, `iris/p=0.8/m=75/replicate=0/posterior`, read back into cells of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sweeps.errors import InputError, Problem, collecting, did_you_mean
from sweeps.plan import ACCURACY, Cell, DatasetPlan
from sweeps.seeds import accuracy_code

WORDS = {"p": "ACCURACY", "design": "DESIGN", "search": "SEARCH"}
"""What stands for a value of a coordinate; for a number of others."""


def find_cells(names: Iterable[str], plans: Sequence[DatasetPlan]) -> frozenset[Cell]:
    """Cells of several names, as `find_cell` finds one.

    Raises
    ------
    InputError
        With the problems of all names.
    """
    cells: set[Cell] = set()
    problems: list[Problem] = []
    for name in names:
        with collecting(problems):
            cells.add(find_cell(name, plans))
    if problems:
        raise InputError(problems)
    return frozenset(cells)


def find_cell(name: str, plans: Iterable[DatasetPlan]) -> Cell:
    """The cell of a sweep that `str(cell)` names.

    Parameters
    ----------
    name : str
        Data set, coordinates in any order, model; mixtures have `mixture=NUMBER` as well, the cells of a
        sweep that names another design than "uniform" have `design=DESIGN`, and those of a sweep of several
        searches `search=SEARCH`.
    plans : iterable of DatasetPlan
        All data sets of the sweep.

    Returns
    -------
    Cell

    Raises
    ------
    InputError
        With all problems of the name, and the coordinates the sweep has.
    """
    dataset, *pairs, model = [part.strip() for part in name.strip().split("/")] if "/" in name else [name, ""]
    known = {plan.name: plan for plan in plans}
    if dataset not in known:
        expected = "a data set: " + ", ".join(known)
        raise InputError([Problem(f"cell {name!r}", repr(dataset), expected, did_you_mean(dataset, known))])
    reader = _Reader(name, known[dataset])
    cell = reader.cell(model, pairs)
    if reader.problems:
        raise InputError(reader.problems)
    return cell


class _Reader:
    """Reads the coordinates of one name, and collects its problems."""

    def __init__(self, name: str, plan: DatasetPlan) -> None:
        self.problems: list[Problem] = []
        self._name = name
        self._plan = plan

    def cell(self, model: str, pairs: list[str]) -> Cell:
        """The cell; valid only if no problem was found."""
        plan = self._plan
        models = (*plan.models, *plan.baselines)
        if model not in models:
            expected = f"a model of {plan.name}: {', '.join(models)}"
            self._problem(repr(model), expected, did_you_mean(model, models) or f"the form is {_form(plan)}")
            return Cell(plan.name, None, None, None, None, model)
        is_baseline = model in plan.baselines
        wanted = [] if plan.mixtures is None else ["mixture"]
        if not is_baseline:
            wanted += ["p", "m", *(["design"] if plan.cell_designs != (None,) else []), "replicate"]
        searches = plan.searches_of(model) if is_baseline else plan.cell_searches
        wanted += ["search"] if searches != (None,) else []
        texts = self._texts(pairs, wanted, model)
        mixture = self._number("mixture", texts, range(plan.mixtures or 0))
        m = self._number("m", texts, plan.m)
        replicate = self._number("replicate", texts, range(plan.replicates))
        design = self._word("design", texts, plan.designs)
        search = self._word("search", texts, plan.searches)
        return Cell(plan.name, mixture, self._accuracy(texts), m, replicate, model, design, search)

    def _texts(self, pairs: list[str], wanted: list[str], model: str) -> dict[str, str]:
        """Coordinates by name as they are written; each of `wanted` once, and no other."""
        texts: dict[str, str] = {}
        for pair in pairs:
            key, equals, text = pair.partition("=")
            if not equals or key not in wanted or key in texts:
                found = f"{key!r} again" if key in texts else repr(pair)
                expected = f"each of {', '.join(wanted)} once" if wanted else "no coordinate"
                self._problem(found, expected, f"the form is {_written(wanted, model)}")
            texts.setdefault(key, text)
        for key in wanted:
            if key not in texts:
                self._problem(f"no {key}", f"{key}={self._values(key)}")
        return {key: text for key, text in texts.items() if key in wanted}

    def _number(self, key: str, texts: dict[str, str], values: Iterable[int]) -> int | None:
        if key not in texts:
            return None
        number = int(texts[key]) if texts[key].isdecimal() else -1
        if number not in values:
            self._problem(f"{key}={texts[key]}", f"{key}={self._values(key)}")
        return number

    def _word(self, key: str, texts: dict[str, str], words: Sequence[str]) -> str | None:
        word = texts.get(key)
        if word is not None and word not in words:
            self._problem(f"{key}={word}", f"{key}={self._values(key)}", did_you_mean(word, words))
        return word

    def _accuracy(self, texts: dict[str, str]) -> float | None:
        if "p" not in texts:
            return None
        codes = {accuracy_code(p): p for p in self._plan.p}
        try:
            return codes[accuracy_code(float(texts["p"]))]
        except (ValueError, OverflowError, KeyError):
            self._problem(f"p={texts['p']}", f"p={self._values('p')}")
            return None

    def _values(self, key: str) -> str:
        plan = self._plan
        if key == "p":
            return " | ".join(f"{p:{ACCURACY}}" for p in plan.p)
        lists: dict[str, Sequence[object]] = {"m": plan.m, "design": plan.designs, "search": plan.searches}
        if key in lists:
            return " | ".join(map(str, lists[key]))
        return f"0..{((plan.mixtures or 0) if key == 'mixture' else plan.replicates) - 1}"

    def _problem(self, found: str, expected: str, hint: str = "") -> None:
        self.problems.append(Problem(f"cell {self._name!r}", found, expected, hint))


def _form(plan: DatasetPlan) -> str:
    """The form of both kinds of names; a method among the baselines has no search."""
    drawn = [] if plan.mixtures is None else ["mixture"]
    search = ["search"] if plan.searches else []
    design = ["design"] if plan.cell_designs != (None,) else []
    supervised = _written([*drawn, "p", "m", *design, "replicate", *search], "MODEL")
    return f"{supervised}, or {_written([*drawn, *search], 'BASELINE')}"


def _written(keys: list[str], model: str) -> str:
    """A name of these coordinates."""
    return "/".join(["DATASET", *(f"{key}={WORDS.get(key, 'NUMBER')}" for key in keys), model])
