"""What `sweep ask` is given, and where the labels stand.

`read_ask` checks the options with the files, `stand` fits and chooses the next questions, and
`standing_lines` says what came out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.structure import COVARIANCES
from sweep_clustering.pipeline.ask.answers import check_answers_file
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.fit import inputs as fit_inputs
from sweep_clustering.pipeline.fit.inputs import FitInputs, FitOptions, answered
from sweep_clustering.sweeps.annotations.draw import MUST
from sweep_clustering.sweeps.annotations.files import ASKED, read_answers
from sweep_clustering.sweeps.annotations.rows import AnnotationRows, Row
from sweep_clustering.sweeps.errors import InputError, Problem, not_one_of
from sweep_clustering.sweeps.words import STRATEGIES

if TYPE_CHECKING:
    from sweep_clustering.pipeline.ask.questions import Outlook, Question
    from sweep_clustering.pipeline.asking.belief import Belief, Share

# Reading and checking what `sweep ask` is given: bad input is answered before a compiler is loaded.


@dataclass(frozen=True, kw_only=True)
class AskOptions(FitOptions):
    """What `sweep ask` is given, beside what `sweep fit` has too.

    Parameters
    ----------
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
        Whether questions are asked in the terminal; the last of `annotations` then takes the answers.
    as_json : bool
        Whether the questions are printed as JSON.
    jobs : int or None
        Fits at a time; None for as many as there are cores.
    """

    count: int = 20
    strategy: str = "overall"
    names: str | None = None
    show: tuple[str, ...] = ()
    out: Path | None = None
    until: float | None = None
    annotator: str = ASKED
    interactive: bool = False
    as_json: bool = False
    jobs: int | None = None


def read_ask(options: AskOptions) -> FitInputs:
    """Read the files of `sweep ask`, and check them with the options.

    Raises
    ------
    InputError
        With the problems of all options and all files.
    """
    problems = list(_option_problems(options))
    if options.interactive and options.annotations:
        problems += check_answers_file(options.annotations[-1])
        if not options.annotations[-1].exists():
            options = replace(options, annotations=options.annotations[:-1])
    return fit_inputs.read_inputs(options, problems)


def _option_problems(options: AskOptions) -> Iterator[Problem]:
    count, until, who = options.count, options.until, options.annotator
    made, writes = "it is made if it is not there", "a session writes to --annotations"
    both, session = ("--interactive as well", "one of the two", writes), options.interactive
    file, joined = "a file for the answers of --interactive", "with one cluster all rows belong together"
    for is_wrong, problem in (
        (options.strategy not in STRATEGIES, not_one_of("--strategy", options.strategy, STRATEGIES)),
        (count < 1, Problem("-n", str(count), "1 or more")),
        (
            until is not None and not 0 < until < 1,
            Problem("--until", str(until), "a share above 0 and below 1"),
        ),
        (not (who.strip() and who.isprintable()), Problem("--annotator", repr(who), "a name")),
        (options.n_clusters == 1, Problem("-k", "1", "2 or more", joined)),
        (session and not options.annotations, Problem("--annotations", "nothing", file, made)),
        (session and options.out is not None, Problem("--out", *both)),
        (session and options.as_json, Problem("--json", *both)),
    ):
        if is_wrong:
            yield problem
    yield from fit_inputs.chance_problems("--accuracy", options.accuracy)
    wrong = list(fit_inputs.place_problems("--out", options.out, overwrite=True))
    yield from wrong
    if options.out is not None and not wrong and options.out.exists() and options.out.stat().st_size:
        rows: list[Row] | None = None
        with suppress(InputError):
            rows = read_answers(options.out, 10**9)
        if rows != []:  # questions never overwrite answers
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
    from sweep_clustering.kernels.choice.held_out import below
    from sweep_clustering.kernels.interrupt import run_interruptibly
    from sweep_clustering.pipeline.ask.questions import next_questions, questions_left
    from sweep_clustering.pipeline.asking.belief import believe, share_at
    from sweep_clustering.pipeline.fit.running import progress, runner

    answers = answered(rows)
    seed = np.random.SeedSequence(options.seed, spawn_key=(batch,) if batch else ())
    with progress(not options.interactive) as bar:  # a session has the terminal to itself
        run = runner(options.jobs or -1, bar)
        belief = run_interruptibly(
            lambda: believe(
                inputs.X,
                fit_inputs.annotator_layers(AnnotationRows.of(answers), inputs.accuracies, options.accuracy),
                n_clusters=options.n_clusters,
                accuracy=inputs.accuracies.get(options.annotator, options.accuracy),
                seed=seed,
                covariance=str(options.taken.covariance),
                restarts=options.restarts,
                settings=options.settings,
                start=start,
                run=run,
            )
        )
    outlook = None
    if options.until is not None:
        outlook = questions_left(belief, options.until, len(answers), below(seed, 5))
    wanted: Any = {"strategy": options.strategy, "count": options.count, "samples": inputs.samples}
    questions = next_questions(belief, rows, seed=below(seed, 4), **wanted)
    n_yes = sum(each.kind == MUST for each in answers)
    n_no, n_skipped = len(answers) - n_yes, len(rows) - len(answers)
    share = share_at(belief.claimed_wrong, len(belief.X), belief.lines)
    return Standing(belief, questions, share, outlook, n_yes, n_no, n_skipped)


# In two lines.
WHY_CONDITIONAL = (
    "the model is conditional: posterior and likelihood would take",
    "the choice of the pairs, not only the answers, as evidence",
)


def standing_lines(options: AskOptions, standing: Standing) -> list[str]:
    """Where the labels stand, for people."""
    belief = standing.belief
    skipped = f"; {standing.n_skipped} skipped" if standing.n_skipped else ""
    source = "estimated from the answers" if standing.n_answers else "assumed before there are answers"
    if accuracy_given(options):
        source = "as given"
    sizes = " ".join(str(int((belief.labels == k).sum())) for k in range(belief.n_clusters))
    made_of = f"{belief.covariance}{' covariance' if belief.covariance in COVARIANCES else ''}"
    lines = [
        f"answers    {standing.n_answers}: {standing.n_yes} yes, {standing.n_no} no{skipped}",
        f"accuracy   {belief.accuracy:.2f}, {source}",
        f"sizes      {sizes}, {made_of}",
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
    # two digits of a guess say something
    low, high = (round(count, 2 - max(len(str(count)), 2)) for count in (outlook.low, outlook.high))
    if not high:
        return "passed"
    return f"about {f'{low} to ' if low < high else ''}{plural(high, 'more question')}"


def accuracy_given(options: AskOptions) -> bool:
    """Whether the accuracy of who answers was told."""
    names = [text.rpartition("=")[0] for text in options.annotator_accuracy]
    return options.accuracy is not None or options.annotator in names


def following(out: Path) -> Path:
    """A name for the next file of questions: ask2.csv after ask.csv, ask3.csv after ask2.csv."""
    stem = out.stem.rstrip("0123456789")
    number = out.stem[len(stem) :]
    return out.with_name(f"{stem}{int(number) + 1 if number else 2}{out.suffix}")
