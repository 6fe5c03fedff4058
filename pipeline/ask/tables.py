"""Questions as a file to fill in, as JSON, and as a table for a terminal."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from pipeline.ask.options import AskOptions
from pipeline.ask.questions import Question
from pipeline.ask.screen import Rows, one_line
from pipeline.ask.state import Standing
from pipeline.ask.summary import belief_accuracy_given, fit_command
from sweeps.annotations.files import ANNOTATOR, ASKED, Samples
from sweeps.data.lines import as_cell


def csv_text(questions: Sequence[Question], rows: Rows, annotator: str = ASKED) -> str:
    """A question file: one row for each question, best first, the last column to be filled in.

    Parameters
    ----------
    questions : sequence of Question
        What to ask.
    rows : Rows
        Names and texts that stand beside the numbers of the two samples.
    annotator : str
        Who will answer; named in a column unless it is `ASKED`.
    """
    texts = {**({"name": rows.names} if rows.names else {}), **rows.columns}
    beside = [f"{column}_{side}" for column in texts for side in "ij"]
    named = [ANNOTATOR] if annotator != ASKED else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["i", "j", "together", "information", "settles", *map(as_cell, beside), *named, "answer"])
    for each in questions:
        numbers = (
            rows.cell(each.first),
            rows.cell(each.second),
            f"{each.together:.3f}",
            f"{each.information:.4f}",
        )
        cells = [
            as_cell(one_line(column[sample]))
            for column in texts.values()
            for sample in (each.first, each.second)
        ]
        writer.writerow(
            [*numbers, as_cell(each.settles), *cells, *([as_cell(annotator)] if named else []), ""]
        )
    return text.getvalue()


def to_json(options: AskOptions, standing: Standing, samples: Samples) -> dict[str, Any]:
    """Questions and where the labels stand, as plain values.

    Samples are numbers of rows from 1, or their names where they have names; labels count from 0.
    """
    belief, outlook = standing.belief, standing.outlook
    until = None
    if outlook is not None:
        until = {
            "level": options.until,
            "passed": outlook.high == 0,
            "questions_low": outlook.low,
            "questions_high": outlook.high,
            "reason": outlook.reason,
        }
    return {
        "questions": [
            {
                "i": samples.told(each.first),
                "j": samples.told(each.second),
                "together": each.together,
                "information": each.information,
                "settles": each.settles,
            }
            for each in standing.questions
        ],
        "strategy": options.strategy,
        "model": "conditional",
        "covariance": belief.covariance,
        "answers": {"yes": standing.n_yes, "no": standing.n_no, "skipped": standing.n_skipped},
        "accuracy": belief.accuracy,
        "accuracy_given": belief_accuracy_given(options),
        "confidence": standing.share._asdict(),
        "until": until,
        "labels": belief.labels.tolist(),
        "index": list(map(samples.told, range(len(belief.labels)))),
        "fit": shlex.split(fit_command(options).replace("\\\n", "")),
    }


def question_table(questions: Sequence[Question], rows: Rows) -> Table:
    """Questions for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column(
        "i", justify="right" if rows.names is None else "left", overflow="ellipsis", no_wrap=True
    )
    table.add_column(
        "j", justify="right" if rows.names is None else "left", overflow="ellipsis", no_wrap=True
    )
    table.add_column("together", justify="right", no_wrap=True)
    table.add_column("nats", justify="right", no_wrap=True)
    table.add_column("what the answer would settle", ratio=1, overflow="fold")
    for each in questions:
        i, j = (rows.title(sample).removeprefix("row ")[:16] for sample in (each.first, each.second))
        table.add_row(i, j, f"{each.together:.2f}", f"{each.information:.3f}", each.settles)
    return table
