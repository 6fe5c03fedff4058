"""What `sweep ask` is given, where the labels stand, and which command comes next.

`read_ask` checks the options with the files, `stand` fits and chooses the next questions, `standing_lines`
says what came out, and `ask_command` and `fit_command` are what to type next.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernels.settings import AUTO, OFFERED, PARAMETERS
from pipeline.ask.answers import check_answers_file
from pipeline.fit.inputs import (
    FitInputs,
    FitOptions,
    annotator_layers,
    answered,
    place_problems,
    read_accuracies,
    read_inputs,
)
from sweeps.annotations.draw import MUST
from sweeps.annotations.files import ASKED, Row, read_answers
from sweeps.errors import InputError, Problem, collecting, not_one_of
from sweeps.words import STRATEGIES

if TYPE_CHECKING:
    from pipeline.ask.questions import Outlook, Question
    from pipeline.asking.belief import Belief, Share

# Reading and checking what `sweep ask` is given: bad input is answered before a compiler is loaded.

RESTARTS = 3
"""Default."""

SETTINGS = {"feature_weight": "effective", "proportions": "free"}
"""Settings that are others here than in `sweep fit`."""

CHANCE = 0.5
"""Accuracy of an annotator who guesses."""


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
        One of `STRATEGIES`.
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
    count: int = 20
    strategy: str = "information"
    names: str | None = None
    show: tuple[str, ...] = ()
    out: Path | None = None
    until: float | None = None
    annotator: str = ASKED
    interactive: bool = False
    as_json: bool = False

    @property
    def answers_path(self) -> Path:
        """Where a session writes: the last file of answers."""
        return self.fit.annotations[-1]


def read_ask(options: AskOptions) -> FitInputs:
    """Read the files of `sweep ask`, and check them with the options.

    Raises
    ------
    InputError
        With the problems of all options and all files.
    """
    problems = list(_option_problems(options))
    fit = options.fit
    if options.interactive and fit.annotations:
        problems += check_answers_file(options.answers_path)
        if not options.answers_path.exists():
            fit = replace(fit, annotations=fit.annotations[:-1])
    with collecting(problems):
        inputs = read_inputs(fit)
    if problems:
        raise InputError(dict.fromkeys(problems))
    return inputs


def _option_problems(options: AskOptions) -> Iterator[Problem]:
    if options.strategy not in STRATEGIES:
        yield not_one_of("--strategy", options.strategy, STRATEGIES)
    if options.count < 1:
        yield Problem("-n", str(options.count), "1 or more")
    if options.until is not None and not 0 < options.until < 1:
        yield Problem("--until", str(options.until), "a share above 0 and below 1")
    if not options.annotator.strip() or not options.annotator.isprintable():
        yield Problem("--annotator", repr(options.annotator), "a name")
    if options.fit.n_clusters == 1:
        yield Problem("-k", "1", "2 or more", "with one cluster all rows belong together")
    if options.fit.accuracy is not None and 0 < options.fit.accuracy <= CHANCE:
        hint = "answers that are right no more often than by chance say nothing"
        yield Problem("--accuracy", str(options.fit.accuracy), f"a number above {CHANCE}, at most 1", hint)
    if options.interactive and not options.fit.annotations:
        hint = "it is made if it is not there"
        yield Problem("--annotations", "nothing", "a file for the answers of --interactive", hint)
    for option, is_given in {"--out": options.out is not None, "--json": options.as_json}.items():
        if options.interactive and is_given:
            hint = "a session writes to --annotations"
            yield Problem(option, "--interactive as well", "one of the two", hint)
    wrong = list(place_problems("--out", options.out, overwrite=True))
    yield from wrong
    if options.out is not None and not wrong and options.out.exists():
        # questions never overwrite answers
        try:
            is_unanswered = options.out.stat().st_size == 0 or not read_answers(options.out, 10**9)
        except InputError:
            is_unanswered = False
        if not is_unanswered:
            hint = "name another: answers that are there are not overwritten"
            found = f"{options.out}, a file with answers or of another kind"
            yield Problem("--out", found, "a new file", hint)


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
    from kernels.choice.held_out import below
    from pipeline.ask.questions import next_questions, questions_left
    from pipeline.asking.belief import believe, expected_share

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
    questions = next_questions(
        belief,
        rows,
        strategy=options.strategy,
        count=options.count,
        seed=below(seed, 4),
        samples=inputs.samples,
    )
    n_yes = sum(each.kind == MUST for each in answers)
    n_no, n_skipped = len(answers) - n_yes, len(rows) - len(answers)
    return Standing(belief, questions, expected_share(belief), outlook, n_yes, n_no, n_skipped)


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
    source = "estimated from the answers" if standing.n_answers else "assumed before there are answers"
    if accuracy_given(options):
        source = "as given"
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
            lines.append("           (simulated as if the model were right, widened by a factor of 2)")
    return lines


def confidence(standing: Standing) -> str:
    """Expected share of right labels with its interval."""
    mean, low, high = standing.share
    return f"{mean:.0%} ({low:.0%} to {high:.0%})"


def outlook_words(outlook: Outlook) -> str:
    """How many questions are left, in words."""
    if outlook.low is None or outlook.high is None:
        return outlook.reason
    if not outlook.high:
        return "passed"
    return f"about {rounded(outlook.low)} to {rounded(outlook.high)} more questions"


def rounded(count: int) -> int:
    """A count with two digits that say something."""
    digits = int(10 ** max(len(str(count)) - 2, 0))
    return round(count / digits) * digits


def accuracy_given(options: AskOptions) -> bool:
    """Whether the accuracy of who answers was told."""
    names = [text.rpartition("=")[0] for text in options.fit.annotator_accuracy]
    return options.fit.accuracy is not None or options.annotator in names


def fit_command(options: AskOptions, answers: Path | None = None) -> str:
    """The `sweep fit` that takes all answers, as to be typed."""
    words = _shared(options, "fit", answers)
    words += ["--model", "conditional", "--covariance", options.fit.covariance, *_settings(options, {})]
    return broken([*words, *_typed(("--without", options.fit.aside))])


def ask_command(options: AskOptions, answers: Path | None = None, out: Path | None = None) -> str:
    """The `sweep ask` for the questions after these, as to be typed."""
    fit, own = options.fit, AskOptions(options.fit)
    left = [column for column in fit.aside if column in options.show or column != options.names]
    words = [
        *_shared(options, "ask", answers),
        *_typed(
            ("-n", options.count, own.count),
            ("--strategy", options.strategy, own.strategy),
            ("--covariance", fit.covariance, AUTO),
            ("--restarts", fit.restarts, RESTARTS),
            ("--names", options.names),
            ("--until", options.until),
            *(("--show" if column in options.show else "--without", column) for column in left),
        ),
        *_settings(options, SETTINGS),
        *(["--interactive"] if options.interactive else []),
    ]
    return broken([*words, *_typed(("--out", out))])


def _shared(options: AskOptions, command: str, answers: Path | None) -> list[str]:
    """What both commands begin with."""
    fit = options.fit
    files = tuple(dict.fromkeys([*fit.annotations, *([answers] if answers else [])]))
    shared = ("missing", "categories", "sheet", "scale", "seed")
    usual = {name: PARAMETERS[name].default for name in shared if name in PARAMETERS}
    given = _typed(
        ("--must-link", fit.must_link),
        ("--cannot-link", fit.cannot_link),
        ("--annotations", files),
        ("--accuracy", fit.accuracy),
        ("--annotator-accuracy", fit.annotator_accuracy),
        ("--columns", fit.columns),
        ("--index-column", fit.index_column),
        ("--label-column", fit.label_column),
        *((f"--{name}", getattr(fit, name), usual.get(name)) for name in shared),
    )
    return ["sweep", command, str(fit.features), "-k", str(fit.n_clusters), *given]


def _settings(options: AskOptions, usual: dict[str, Any]) -> list[str]:
    """Settings that are not the usual ones, as options."""
    chosen = ((each, options.fit.chosen.get(each.name)) for each in OFFERED)
    known = ((each, found) for each, found in chosen if found is not None)
    return _typed(*((each.option, found, usual.get(each.name, each.offered)) for each, found in known))


def _typed(*options: tuple[Any, ...]) -> list[str]:
    """Options with their values, as (option, value, usual one) each, but those that are the usual ones."""
    words = []
    for option, found, *usual in options:
        if found == (usual[0] if usual else None):
            continue
        for value in found if isinstance(found, tuple) else (found,):
            words += [option, str(value)]
    return words


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
