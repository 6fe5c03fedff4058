"""What `sweep ask` says beside the questions: where the labels stand, and which command comes next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.choice.held_out import below
from kernels.settings import AUTO, OFFERED
from pipeline.ask.answers import check_answers_file
from pipeline.ask.questions import WHAT, Outlook, Question, next_questions, questions_left
from pipeline.asking.belief import Belief, Share, believe, expected_share
from pipeline.asking.strategies import NAMES
from pipeline.fit.inputs import (
    FitInputs,
    FitOptions,
    annotator_layers,
    answered,
    read_accuracies,
    read_inputs,
)
from sweeps.annotations.draw import MUST
from sweeps.annotations.files import Row, read_answers
from sweeps.errors import InputError, Problem, collecting, not_one_of

# Reading and checking what `sweep ask` is given.

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


# Where a course of questions stands: answers so far, what they say, and what to ask next.


@dataclass(frozen=True, eq=False)
class Standing:
    """What features and answers say, and the questions that follow from it.

    Parameters
    ----------
    belief : Belief
        Given all answers.
    questions : list of Question
        Best first.
    share : Share
        Of labels that are right.
    outlook : Outlook or None
        Questions left to the level, if one was named.
    n_yes, n_no, n_skipped : int
        Answers so far.
    """

    belief: Belief
    questions: list[Question]
    share: Share
    outlook: Outlook | None
    n_yes: int
    n_no: int
    n_skipped: int

    @property
    def n_answers(self) -> int:
        """Answers that say something."""
        return self.n_yes + self.n_no


def stand(
    options: AskOptions,
    inputs: FitInputs,
    rows: Sequence[Row],
    *,
    batch: int = 0,
    start: NDArray[np.int16] | None = None,
) -> Standing:
    """Fit, and choose the next questions.

    Parameters
    ----------
    options : AskOptions
        Of the command.
    inputs : FitInputs
        Features.
    rows : sequence of Annotation or Skip
        All answers so far.
    batch : int
        Number of the batch in a session: part of the random stream.
    start : ndarray of shape (n_samples,), int16, optional
        Solution of the batch before.

    Raises
    ------
    ValueError
        If the problem admits no solution.
    """
    fit, answers = options.fit, answered(rows)
    accuracies, _ = read_accuracies(fit.annotator_accuracy)
    seed = np.random.SeedSequence(fit.seed, spawn_key=(batch,) if batch else ())
    belief = believe(
        inputs.X,
        annotator_layers(answers, accuracies, fit.accuracy),
        n_clusters=fit.n_clusters,
        accuracy=accuracies.get(options.annotator, fit.accuracy),
        seed=seed,
        covariance=fit.covariance,
        restarts=fit.restarts,
        settings=fit.settings,
        start=start,
    )
    outlook = None
    if options.until is not None:
        outlook = questions_left(belief, options.until, len(answers), below(seed, 5))
    n_yes = sum(each.kind == MUST for each in answers)
    return Standing(
        belief=belief,
        questions=next_questions(
            belief,
            rows,
            strategy=options.strategy,
            count=options.count,
            seed=below(seed, 4),
            samples=inputs.samples,
        ),
        share=expected_share(belief),
        outlook=outlook,
        n_yes=n_yes,
        n_no=len(answers) - n_yes,
        n_skipped=len(rows) - len(answers),
    )


WHY_CONDITIONAL = (
    "the model is conditional: posterior and likelihood would take",
    "the choice of the pairs, not only the answers, as evidence",
)
"""In two lines."""

WIDTH = 78
"""Of a command, in characters."""

LONGEST_VALUE = 24
"""Room that is kept for what follows an option, which stays in its line."""


def standing_lines(options: AskOptions, standing: Standing) -> list[str]:
    """Where the labels stand, for people."""
    belief = standing.belief
    skipped = f"; {standing.n_skipped} skipped" if standing.n_skipped else ""
    is_given = belief_accuracy_given(options)
    source = "as given" if is_given else "estimated from the answers"
    if not is_given and standing.n_answers == 0:
        source = "assumed before there are answers"
    sizes = " ".join(str(int((belief.labels == k).sum())) for k in range(belief.n_clusters))
    lines = [
        f"answers    {standing.n_answers}: {standing.n_yes} yes, {standing.n_no} no{skipped}",
        f"accuracy   {belief.accuracy:.2f}, {source}",
        f"sizes      {sizes}, {belief.covariance} covariance",
        f"confidence {confidence(standing)} of the labels expected right",
    ]
    if standing.outlook is not None:
        lines.append(f"until {options.until:<4g} {outlook_words(standing.outlook)}")
        if standing.outlook.high:
            lines.append(f"           ({WHAT})")
    return lines


def confidence(standing: Standing) -> str:
    """Expected share of right labels with its interval."""
    mean, low, high = standing.share
    return f"{mean:.0%} ({low:.0%} to {high:.0%})"


def outlook_words(outlook: Outlook) -> str:
    """How many questions are left, in words."""
    if outlook.low is None:
        return outlook.reason
    if not outlook.high:
        return "passed"
    return f"about {rounded(outlook.low)} to {rounded(outlook.high)} more questions"


def rounded(count: int | None) -> int:
    """A count with two digits that say something."""
    count = count or 0
    digits = int(10 ** max(len(str(count)) - 2, 0))
    return round(count / digits) * digits


def belief_accuracy_given(options: AskOptions) -> bool:
    """Whether the accuracy of who answers was told."""
    names = [text.rpartition("=")[0] for text in options.fit.annotator_accuracy]
    return options.fit.accuracy is not None or options.annotator in names


def fit_command(options: AskOptions, answers: Path | None = None) -> str:
    """The `sweep fit` that takes all answers, as to be typed."""
    words = [
        *_shared(options, "fit", answers),
        "--model",
        "conditional",
        "--covariance",
        options.fit.covariance,
    ]
    aside = [part for column in options.fit.aside for part in ("--without", column)]
    return broken([*words, *_settings(options), *aside])


def ask_command(options: AskOptions, answers: Path | None = None, out: Path | None = None) -> str:
    """The `sweep ask` for the questions after these, as to be typed."""
    words = _shared(options, "ask", answers)
    given: dict[str, tuple[Any, Any]] = {
        "-n": (options.count, COUNT),
        "--strategy": (options.strategy, STRATEGY),
        "--covariance": (options.fit.covariance, AUTO),
        "--restarts": (options.fit.restarts, RESTARTS),
        "--names": (options.names, None),
        "--until": (options.until, None),
    }
    words += [part for name, (found, usual) in given.items() if found != usual for part in (name, str(found))]
    for column in options.fit.aside:
        if column in options.show:
            words += ["--show", column]
        elif column != options.names:
            words += ["--without", column]
    words += _settings(options, SETTINGS)
    if options.interactive:
        words.append("--interactive")
    return broken([*words, *(["--out", str(out)] if out else [])])


def broken(words: Sequence[str]) -> str:
    """A command in lines that can be typed as they are, broken before options."""
    lines = ["  " + words[0]]
    for word, before in zip(words[1:], words, strict=False):
        quoted = shlex.quote(word)
        is_option = word.startswith("-") and not before.startswith("-")
        if is_option and len(lines[-1]) + len(quoted) + LONGEST_VALUE > WIDTH:
            lines[-1] += " \\"
            lines.append("    " + quoted)
        else:
            lines[-1] += " " + quoted
    return "\n".join(lines)


def following(out: Path) -> Path:
    """A name for the next file of questions: ask2.csv after ask.csv, ask3.csv after ask2.csv."""
    stem = out.stem.rstrip("0123456789")
    number = out.stem[len(stem) :]
    return out.with_name(f"{stem}{int(number) + 1 if number else 2}{out.suffix}")


def _shared(options: AskOptions, command: str, answers: Path | None) -> list[str]:
    fit = options.fit
    words = ["sweep", command, str(fit.features), "-k", str(fit.n_clusters)]
    files = [*fit.annotations, *([answers] if answers else [])]
    given: list[tuple[str, Any, Any]] = [
        ("--must-link", fit.must_link, None),
        ("--cannot-link", fit.cannot_link, None),
        *(("--annotations", path, None) for path in dict.fromkeys(files)),
        ("--accuracy", fit.accuracy, None),
        *(("--annotator-accuracy", text, None) for text in fit.annotator_accuracy),
        *(("--columns", text, None) for text in fit.columns),
        ("--index-column", fit.index_column, None),
        ("--label-column", fit.label_column, None),
        ("--missing", fit.missing, "error"),
        ("--categories", fit.categories, "error"),
        ("--sheet", fit.sheet, None),
        ("--scale", fit.scale, "none"),
        ("--seed", fit.seed, 0),
    ]
    return words + [part for name, found, usual in given if found != usual for part in (name, str(found))]


def _settings(options: AskOptions, usual: dict[str, Any] | None = None) -> list[str]:
    """Settings that are not the usual ones, as options."""
    words = []
    for each in OFFERED:
        found = options.fit.chosen.get(each.name)
        if found is not None and found != (usual or {}).get(each.name, each.offered):
            words += [each.option, str(found)]
    return words
