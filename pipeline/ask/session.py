"""A session: questions one after the other, each answer saved before the next one is asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.ask.answers import AnswersFile, ChangedError
from pipeline.ask.options import AskOptions
from pipeline.ask.questions import Question
from pipeline.ask.screen import KEYS, QUESTION, Rows, question_lines
from pipeline.ask.state import Standing
from pipeline.ask.summary import confidence, outlook_words
from pipeline.ask.terminal import Console
from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.files import Annotation, Row, Skip

KINDS = {"y": MUST, "n": CANNOT, "s": None}
NOTHING_LEFT = "no pair is left that was not asked; --strategy again asks those in doubt once more"
SAID = {MUST: "together", CANNOT: "apart", None: "skipped"}

Stand = Callable[[Sequence[Row], int, NDArray[np.int16] | None], Standing]
"""From all answers, the number of the batch, and the solution before it."""


class Session:
    """Asks until somebody quits, or no question is left.

    Parameters
    ----------
    options : AskOptions
        Of the command.
    table : Rows
        What is shown.
    rows : list of Annotation or Skip
        Answers before the session.
    file : AnswersFile
        Where answers go.
    console : Console
        Where questions go, and keys come from.
    stand : callable
        Fits and chooses.
    """

    def __init__(
        self,
        options: AskOptions,
        table: Rows,
        rows: list[Row],
        file: AnswersFile,
        console: Console,
        stand: Stand,
    ) -> None:
        self.options = options
        self.table = table
        self.rows = list(rows)
        self.file = file
        self.console = console
        self.stand = stand
        self.done: list[Question] = []
        self.last = ""

    def run(self) -> None:
        """Ask batch after batch.

        Raises
        ------
        KeyboardInterrupt
            At Ctrl-C.
        OSError
            If the disk, or the terminal, fails; answers that were saved stay.
        """
        start: NDArray[np.int16] | None = None
        batch = 0
        while True:
            self.console.say(f"choosing the next {self.options.count} questions ...")
            standing = self.stand(self.rows, batch, start)
            if not standing.questions:
                self.console.say(NOTHING_LEFT)
                return
            if not self._ask_all(standing):
                return
            start = standing.belief.labels
            batch += 1

    def _ask_all(self, standing: Standing) -> bool:
        """Ask the questions of a batch; whether to go on."""
        queue = deque(standing.questions)
        while queue:
            self._show(queue[0], standing)
            key = self.console.key()
            while key not in ("", *KINDS, "u", "q"):
                self.console.say(f"no such key: {KEYS}")
                key = self.console.key()
            if key in ("", "q"):
                return False
            if key == "u":
                queue.extendleft(self._undo())
            else:
                self._answer(queue.popleft(), KINDS[key])
        return True

    def _show(self, question: Question, standing: Standing) -> None:
        width, height = self.console.size()
        lines = question_lines(self.table, question.first, question.second, width, height)
        self.console.show([*self._progress(standing), "", *lines, "", QUESTION, KEYS])

    def _progress(self, standing: Standing) -> list[str]:
        n_answers = sum(isinstance(row, Annotation) for row in self.rows)
        line = f"expected right: {confidence(standing)} of the labels, at {standing.n_answers} answers"
        if standing.outlook is None:
            left = ""
        elif standing.outlook.high == 0:
            left = f"{self.options.until:.0%} passed: q ends, answers still help"
        else:
            left = f"to {self.options.until:.0%}: {outlook_words(standing.outlook)}"
        first = f"question {len(self.done) + 1}, {n_answers} answers so far{self.last}"
        return [first, line, *([left] if left else [])]

    def _answer(self, question: Question, kind: int | None) -> None:
        first, second = question.first, question.second
        self.file.add(first, second, kind)
        if kind is None:
            self.rows.append(Skip(first, second))
        else:
            who = self.options.annotator
            self.rows.append(Annotation(self.file.path, 0, first, second, kind, 1.0, who))
        self.done.append(question)
        self.last = f"; saved: {self.table.key(first)} and {self.table.key(second)} {SAID[kind]}"

    def _undo(self) -> list[Question]:
        """Take the last answer back; its question, to be asked again."""
        if not self.done:
            self.last = "; nothing of this session to undo"
            return []
        try:
            self.file.undo()
        except (ChangedError, IndexError) as error:
            self.last = f"; not undone: {error}"
            return []
        self.rows.pop()
        question = self.done.pop()
        self.last = f"; taken back: {self.table.key(question.first)} and {self.table.key(question.second)}"
        return [question]
