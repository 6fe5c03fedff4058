"""Options of `sweep ask`, and the state of the labels after some answers.

`read_ask` checks the options with the files, `assess` fits and chooses the next questions, and
`assessment_lines` shows the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.structure import COVARIANCES
from sweep_clustering.pipeline.ask.answers import check_answers_file
from sweep_clustering.pipeline.fit import inputs as fit_inputs
from sweep_clustering.pipeline.fit.inputs import FitInputs, FitOptions, annotations_of, annotator_layers
from sweep_clustering.sweeps.annotations.draw import MUST
from sweep_clustering.sweeps.annotations.files import read_answers
from sweep_clustering.sweeps.annotations.rows import NO_ANNOTATOR, AnnotationRows, Row
from sweep_clustering.sweeps.errors import InputError, Problem, not_one_of, plural
from sweep_clustering.sweeps.words import STRATEGIES

if TYPE_CHECKING:
    from sweep_clustering.pipeline.ask.questions import Outlook, Question
    from sweep_clustering.pipeline.asking.belief import Belief, Share


@dataclass(frozen=True, kw_only=True)
class AskOptions(FitOptions):
    """Options of `sweep ask`, with those that it shares with `sweep fit`."""

    # The number of questions, or those of a batch.
    count: int = 20
    # One of `STRATEGIES`; None for the one that fits the answers.
    strategy: str | None = None
    # The column with the names of rows, and those to show.
    names: str | None = None
    show: tuple[str, ...] = ()
    # File to write the questions to.
    out: Path | None = None
    # The share of right labels that is the aim.
    until: float | None = None
    # Name of the person who answers.
    annotator: str = NO_ANNOTATOR
    # Whether questions are asked in the terminal; the last of `annotations` then takes the answers.
    interactive: bool = False
    as_json: bool = False
    # Number of fits at a time; None for as many as there are cores.
    jobs: int | None = None


def read_ask(options: AskOptions) -> FitInputs:
    """Read the files of `sweep ask`, or raise one `InputError` with the problems of all options and files."""
    problems = list(_option_problems(options))
    if options.interactive and options.annotations:
        problems += check_answers_file(options.annotations[-1])
        if not options.annotations[-1].exists():
            options = replace(options, annotations=options.annotations[:-1])
    return fit_inputs.read_inputs(options, problems)


def _option_problems(options: AskOptions) -> Iterator[Problem]:
    if options.strategy is not None and options.strategy not in STRATEGIES:
        yield not_one_of("--strategy", options.strategy, STRATEGIES)
    if options.count < 1:
        yield Problem("-n", str(options.count), "1 or more")
    if options.until is not None and not 0 < options.until < 1:
        yield Problem("--until", str(options.until), "a share above 0 and below 1")
    if not (options.annotator.strip() and options.annotator.isprintable()):
        yield Problem("--annotator", repr(options.annotator), "a name")
    if options.n_clusters == 1:
        yield Problem("-k", "1", "2 or more", "with one cluster all rows belong together")
    if options.interactive:
        if not options.annotations:
            expected = "a file for the answers of --interactive"
            yield Problem("--annotations", "nothing", expected, "it is made if it is not there")
        for option, is_set in (("--out", options.out is not None), ("--json", options.as_json)):
            if is_set:
                hint = "a session writes to --annotations"
                yield Problem(option, "--interactive as well", "one of the two", hint)
    yield from fit_inputs.chance_problems("--accuracy", options.accuracy)
    problems = list(fit_inputs.place_problems("--out", options.out, overwrite=True))
    yield from problems
    if options.out is not None and not problems and options.out.exists() and options.out.stat().st_size:
        rows: list[Row] | None = None
        with suppress(InputError):
            rows = read_answers(options.out, 10**9)
        if rows != []:  # questions never overwrite answers
            hint = "name another: answers that are there are not overwritten"
            yield Problem(
                "--out", f"{options.out}, a file with answers or of another kind", "a new file", hint
            )


@dataclass(frozen=True, eq=False)
class Assessment:
    """The state of the labels after some answers, and the next questions."""

    belief: Belief
    # The questions, best first, and the strategy that chose them.
    questions: list[Question]
    strategy: str
    # Share of right labels.
    share: Share
    # Estimate of the questions left, if a share of right labels is the aim.
    outlook: Outlook | None
    # Numbers of answers and skipped pairs.
    n_yes: int
    n_no: int
    n_skipped: int
    # Reason for the number of clusters; empty if it was given.
    why_clusters: str = ""

    @property
    def n_answers(self) -> int:
        """Return the number of answers without skipped pairs."""
        return self.n_yes + self.n_no


Labels = NDArray[np.int16]


def assess(
    options: AskOptions, inputs: FitInputs, rows: Sequence[Row], batch: int = 0, start: Labels | None = None
) -> Assessment:
    """Fit to the answers so far, and choose the next questions.

    The number of the batch in a session is part of the random stream, and `start` has the labels (n_samples,)
    of the batch before. A problem without a solution is a `ValueError`.
    """
    from sweep_clustering.kernels.choice import child_seed
    from sweep_clustering.kernels.interrupt import run_interruptibly
    from sweep_clustering.pipeline.ask.questions import next_questions, questions_left
    from sweep_clustering.pipeline.asking.belief import believe, model_for, shape_to_ask, share_at
    from sweep_clustering.pipeline.asking.strategies import fitting
    from sweep_clustering.pipeline.fit.counts import TRIED
    from sweep_clustering.pipeline.fit.running import choose_count, costs_of, progress, runner

    answers = annotations_of(rows)
    layers = [
        *annotator_layers(AnnotationRows.of(answers), inputs.accuracies, options.accuracy),
        *(layer for layer in inputs.layers if layer.is_of_labels),
    ]
    seed = np.random.SeedSequence(options.seed, spawn_key=(batch,) if batch else ())
    covariance = shape_to_ask(str(options.model_choice.covariance))
    with progress(not options.interactive) as state:  # a session needs the terminal for itself
        n_clusters, why_clusters = options.n_clusters, ""
        if options.has_open_count:
            n_clusters, why_clusters = choose_count(
                inputs.X,
                layers,
                state,
                n_jobs=options.jobs or -1,
                model=model_for(layers),
                covariance=str(options.model_choice.covariance),
                restarts=options.restarts,
                settings=options.settings,
                seed=options.seed,
                n_names=0 if inputs.row_labels is None else len(inputs.row_labels.names),
                check=inputs.check_hard,
            )
            start = start if start is not None and start.max() + 1 == n_clusters else None
        run = runner(options.jobs or -1, state)
        state.expect([costs_of(n_clusters, n_samples=len(inputs.X), layers=layers, covariance=covariance)])
        state.begin_fit()
        belief = run_interruptibly(
            lambda: believe(
                inputs.X,
                layers,
                n_clusters=n_clusters,
                accuracy=inputs.accuracies.get(options.annotator, options.accuracy),
                seed=seed,
                covariance=covariance,
                restarts=options.restarts,
                settings=options.settings,
                start=start,
                most_tried=TRIED[-1] if options.has_open_count else None,
                run=run,
            )
        )
    outlook = None
    if options.until is not None:
        outlook = questions_left(belief, options.until, len(answers), child_seed(seed, 5))
    strategy, question_seed = options.strategy, child_seed(seed, 4)
    questions = next_questions(
        belief, rows, strategy=strategy, count=options.count, seed=question_seed, samples=inputs.samples
    )
    n_yes = sum(answer.kind == MUST for answer in answers)
    n_no, n_skipped = len(answers) - n_yes, len(rows) - len(answers)
    share = share_at(belief.claimed_wrong, len(belief.X), belief.lines)
    return Assessment(
        belief, questions, strategy or fitting(belief), share, outlook, n_yes, n_no, n_skipped, why_clusters
    )


# Two lines of a message.
WHY_CONDITIONAL = (
    "the model is conditional: posterior and likelihood would take",
    "the choice of the pairs, not only the answers, as evidence",
)


# End of a line about questions.
RANDOM_PAIRS = "; one of five is a random pair, because no number of clusters was named"


def assessment_lines(options: AskOptions, assessment: Assessment) -> list[str]:
    """Return the state of the labels for people."""
    belief = assessment.belief
    skip_words = f"; {assessment.n_skipped} skipped" if assessment.n_skipped else ""
    source = "estimated from the answers" if assessment.n_answers else "assumed before there are answers"
    if has_accuracy(options):
        source = "as given"
    sizes = " ".join(str(int((belief.labels == k).sum())) for k in range(belief.n_clusters))
    shape = f"{belief.covariance}{' covariance' if belief.covariance in COVARIANCES else ''}"
    lines = [
        f"answers    {assessment.n_answers}: {assessment.n_yes} yes, {assessment.n_no} no{skip_words}",
        f"accuracy   {belief.accuracy:.2f}, {source}",
        *([f"number     {assessment.why_clusters}"] if assessment.why_clusters else []),
        f"sizes      {sizes}, {shape}",
        f"confidence {confidence(assessment)} of the labels expected right",
    ]
    if options.strategy is None and (belief.has_many_classes or belief.has_open_count):
        random_words = RANDOM_PAIRS if belief.has_random_questions else ""
        lines.append(f"questions  {assessment.strategy}: {STRATEGIES[assessment.strategy]}{random_words}")
    if assessment.outlook is not None:
        lines.append(f"until {options.until:<4g} {outlook_words(assessment.outlook)}")
        if assessment.outlook.high:
            lines.append("           (simulated as if the model were right, widened by a factor of 2)")
    return lines


def confidence(assessment: Assessment) -> str:
    """Return the expected share of right labels with its interval, in words."""
    mean, low, high = assessment.share
    return f"{mean:.0%} ({low:.0%} to {high:.0%})"


def outlook_words(outlook: Outlook) -> str:
    """Return the number of questions left, in words."""
    if outlook.low is None or outlook.high is None:
        return outlook.reason
    # a guess has two digits
    low, high = (round(count, 2 - max(len(str(count)), 2)) for count in (outlook.low, outlook.high))
    if not high:
        return "passed"
    return f"about {f'{low} to ' if low < high else ''}{plural(high, 'more question')}"


def has_accuracy(options: AskOptions) -> bool:
    """Whether the accuracy of the person who answers was given."""
    names = [text.rpartition("=")[0] for text in options.annotator_accuracy]
    return options.accuracy is not None or options.annotator in names


def next_file(path: Path) -> Path:
    """Return a name for the next file of questions: ask2.csv after ask.csv, ask3.csv after ask2.csv."""
    stem = path.stem.rstrip("0123456789")
    number = path.stem[len(stem) :]
    return path.with_name(f"{stem}{int(number) + 1 if number else 2}{path.suffix}")
