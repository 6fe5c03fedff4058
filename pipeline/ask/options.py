"""Reading and checking what `sweep ask` is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.ask.answers import check_answers_file
from pipeline.asking.names import NAMES
from pipeline.fit.inputs import FitInputs, FitOptions, read_inputs
from sweeps.annotations.files import read_answers
from sweeps.errors import InputError, Problem, collecting, not_one_of

COUNT, STRATEGY, RESTARTS = 20, "information", 3
"""Defaults."""

SETTINGS = {"feature_weight": "effective", "proportions": "free"}
"""Settings that are others here than in `sweep fit`."""

CHANCE = 0.5
"""Accuracy of an annotator who guesses."""

ABOVE_CHANCE = f"a number above {CHANCE}, at most 1"


@dataclass(frozen=True)
class AskOptions:
    """What `sweep ask` is given.

    Parameters
    ----------
    fit : FitOptions
        What `sweep fit` has too.
    count : int
        Questions wanted, or those of a batch.
    strategy : str
        One of `NAMES`.
    names : str or None
        Column with the names of rows.
    show : tuple of str
        Columns to show.
    out : Path or None
        File to write the questions to.
    until : float or None
        Share of right labels that is wanted.
    annotator : str
        Who answers.
    interactive : bool
        Whether questions are asked in the terminal.
    as_json : bool
        Whether the questions are printed as JSON.
    """

    fit: FitOptions
    count: int
    strategy: str
    names: str | None
    show: tuple[str, ...]
    out: Path | None
    until: float | None
    annotator: str
    interactive: bool
    as_json: bool

    @property
    def answers_path(self) -> Path:
        """Where a session writes: the last file of answers."""
        return self.fit.annotations[-1]


def aside_of(names: str | None, show: tuple[str, ...], without: tuple[str, ...]) -> tuple[str, ...]:
    """All columns that are no features, each once."""
    return tuple(dict.fromkeys([*([names] if names else []), *show, *without]))


def read_ask(options: AskOptions) -> FitInputs:
    """Read the files of `sweep ask`, and check them with the options.

    Raises
    ------
    InputError
        With the problems of all options and all files.
    """
    problems = list(_option_problems(options))
    if options.out is not None:
        problems += _out_problems(options.out)
    fit = options.fit
    if options.interactive and fit.annotations:
        problems += check_answers_file(options.answers_path)
        if not options.answers_path.exists():
            fit = replace(fit, annotations=fit.annotations[:-1])
    inputs: FitInputs | None = None
    with collecting(problems):
        inputs = read_inputs(fit)
    if problems or inputs is None:
        raise InputError(dict.fromkeys(problems))
    return inputs


def _option_problems(options: AskOptions) -> Iterator[Problem]:
    if options.strategy not in NAMES:
        yield not_one_of("--strategy", options.strategy, NAMES)
    if options.count < 1:
        yield Problem("-n", str(options.count), "1 or more")
    if options.until is not None and not 0 < options.until < 1:
        yield Problem("--until", str(options.until), "a share above 0 and below 1")
    if not options.annotator.strip() or not options.annotator.isprintable():
        yield Problem("--annotator", repr(options.annotator), "a name")
    if options.fit.n_clusters == 1:
        yield Problem("-k", "1", "2 or more", "with one cluster all rows belong together")
    yield from _accuracy_problems(options.fit)
    if not options.interactive:
        return
    if not options.fit.annotations:
        hint = "it is made if it is not there"
        yield Problem("--annotations", "nothing", "a file for the answers of --interactive", hint)
    for option, given in {"--out": options.out is not None, "--json": options.as_json}.items():
        if given:
            expected = "one of the two"
            yield Problem(option, "--interactive as well", expected, "a session writes to --annotations")


def _accuracy_problems(fit: FitOptions) -> Iterator[Problem]:
    hint = "answers that are right no more often than by chance say nothing"
    if fit.accuracy is not None and 0 < fit.accuracy <= CHANCE:
        yield Problem("--accuracy", str(fit.accuracy), ABOVE_CHANCE, hint)


def _out_problems(out: Path) -> Iterator[Problem]:
    """Questions never overwrite answers."""
    folder = out.absolute().parent
    if not folder.is_dir():
        yield Problem("--out", f"no folder {folder}", "a folder to write to")
    elif out.is_dir():
        yield Problem("--out", f"{out}, a folder", "a file")
    elif out.exists():
        try:
            is_unanswered = out.stat().st_size == 0 or not read_answers(out, 10**9)
        except InputError:
            is_unanswered = False
        if not is_unanswered:
            hint = "name another: answers that are there are not overwritten"
            yield Problem("--out", f"{out}, a file with answers or of another kind", "a new file", hint)
