"""Where a course of questions stands: answers so far, what they say, and what to ask next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.rng import below
from pipeline.ask.options import AskOptions
from pipeline.ask.outlook import Outlook, questions_left
from pipeline.ask.questions import Question, next_questions
from pipeline.asking.belief import Belief, believe
from pipeline.asking.estimate import Share, expected_share
from pipeline.fit.annotators import annotator_layers
from pipeline.fit.inputs import FitInputs, answered, read_accuracies
from sweeps.annotations.draw import MUST
from sweeps.annotations.files import Row


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
