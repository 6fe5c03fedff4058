"""The `sweep ask` command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernels.settings import AUTO, COVARIANCES
from pipeline.asking.strategies import NAMES
from pipeline.commands.options import OneCount, Word, json_option, reported, takes_table
from pipeline.commands.settings import takes_settings
from pipeline.common import INTERNAL
from sweeps.errors import unstyled
from sweeps.words import SCALES

if TYPE_CHECKING:
    from pipeline.ask.summary import AskOptions, Standing
    from pipeline.fit.inputs import FitInputs

file_type = click.Path(path_type=Path)
INTERRUPTED = 130
"""Exit code after Ctrl-C."""


@click.command()
@click.argument("features", type=file_type)
@click.option("-k", "--n-clusters", type=OneCount(), required=True, help="Number of clusters.")
@click.option("-n", "count", type=int, default=20, show_default=True, help="Questions, or those of a batch.")
@click.option(
    "--annotations",
    type=file_type,
    multiple=True,
    help="Answers so far: files of questions that were filled in, or lines 'i j kind weight annotator'; may"
    " be repeated. --interactive adds to the last one, and makes it.",
)
@click.option("--must-link", type=file_type, help="Lines 'i j weight': pairs said to be together.")
@click.option("--cannot-link", type=file_type, help="Lines 'i j weight': pairs said to be apart.")
@click.option(
    "--accuracy", type=float, help="Share of answers that are right.  [default: estimated from the answers]"
)
@click.option(
    "--annotator-accuracy",
    multiple=True,
    metavar="NAME=p",
    help="Of one annotator, in place of --accuracy; may be repeated.",
)
@click.option("--annotator", metavar="NAME", help="Who answers.  [default: asked]")
@click.option(
    "--strategy",
    type=Word(tuple(NAMES)),
    default="information",
    show_default=True,
    help="Which pairs: " + "; ".join(f"{name}: {meaning}" for name, meaning in NAMES.items()) + ".",
)
@click.option("--out", type=file_type, help="File to write the questions to, to be filled in.")
@click.option(
    "--until",
    type=float,
    metavar="SHARE",
    help="Say whether this share of the labels is expected right, and about how many questions are left.",
)
@click.option("--interactive", is_flag=True, help="Ask in the terminal; each answer is saved at once.")
@click.option("--names", metavar="COLUMN", help="Names of the rows: a column by its header, or an array.")
@click.option(
    "--show", multiple=True, metavar="COLUMN", help="Shown, and no feature: texts, paths; may be repeated."
)
@click.option(
    "--drop",
    "--without",
    "without",
    multiple=True,
    metavar="COLUMN",
    help="Neither shown nor a feature; may be repeated.",
)
@click.option(
    "--covariance",
    type=Word((*COVARIANCES, AUTO)),
    default=AUTO,
    show_default=True,
    help="As of sweep fit.",
)
@click.option("--restarts", default=3, show_default=True, help="Independent runs of the search.")
@takes_settings(feature_weight="effective", proportions="free")
@click.option(
    "--seed", default=0, show_default=True, help="Of all randomness: the same seed, the same questions."
)
@click.option("--scale", type=Word(SCALES), default="none", show_default=True, help="Of the features.")
@takes_table
@json_option
def ask(**given: Any) -> None:
    """Choose the pairs of rows of FEATURES whose answers help most.

    Questions go to --out, best first, with a blank column to fill in: yes or no (must or cannot, y or n, 1 or
    0, + or -), or skip. Hand the file back with --annotations, here for the next questions and to sweep fit
    for the clusters. Answers may be wrong, contradict each other and repeat. A pair that was answered is not
    asked again (but by --strategy again), one that was skipped not before 100 further answers.

    Pairs that were chosen say something by being chosen, which --model posterior and likelihood take as
    evidence on the clusters. The annotation term here is therefore always conditional: it asks of the pairs
    alone whether their answers are right. Fit the answers with sweep fit --model conditional --covariance
    auto --feature-weight effective --proportions free.
    """
    from pipeline.ask.summary import read_ask

    options = _options(given)
    with reported():
        inputs = read_ask(options)
    try:
        with reported():
            if options.interactive:
                _interactive(options, inputs)
            else:
                _once(options, inputs)
    except OSError as error:
        click.echo(f"output: {error.strerror or error}", err=True)
        sys.exit(INTERNAL)


def _options(given: dict[str, Any]) -> AskOptions:
    from dataclasses import fields

    from pipeline.ask.summary import AskOptions, aside_of
    from pipeline.fit.inputs import FitOptions
    from sweeps.annotations.files import ASKED

    if given["annotator"] is None:
        given["annotator"] = ASKED
    own = {each.name: given.pop(each.name) for each in fields(AskOptions) if each.name != "fit"}
    aside = aside_of(own["names"], own["show"], given.pop("without"))
    fit = FitOptions(labels=None, model="conditional", held_out=False, aside=aside, **given)
    return AskOptions(fit=fit, **own)


def _once(options: AskOptions, inputs: FitInputs) -> None:
    """Choose one batch, and write or print it."""
    from pipeline.ask.session import csv_text, rows_of, to_json
    from pipeline.ask.summary import stand
    from pipeline.fit.inputs import write_whole

    _say_notes(inputs)
    rows = rows_of(inputs, options.names, options.show, options.fit.aside)
    standing = stand(options, inputs, inputs.rows)
    if options.out is not None:
        write_whole(options.out, csv_text(standing.questions, rows, options.annotator))
    if options.as_json:
        click.echo(json.dumps(to_json(options, standing, inputs.samples), allow_nan=False))
    elif options.out is not None:
        click.echo(unstyled("\n".join(_words(options, standing))))
    elif sys.stdout.isatty():
        from rich.console import Console

        from pipeline.ask.session import question_table

        Console().print(question_table(standing.questions, rows))
        click.echo(unstyled("\n".join(_words(options, standing))))
    else:
        click.echo(csv_text(standing.questions, rows, options.annotator), nl=False)
        click.echo("\n".join(_words(options, standing)), err=True)


def _words(options: AskOptions, standing: Standing) -> list[str]:
    """Where the labels stand, and what comes next."""
    from dataclasses import replace

    from pipeline.ask.summary import WHY_CONDITIONAL, ask_command, fit_command, following, standing_lines

    lines = standing_lines(options, standing)
    n_asked = len(standing.questions)
    if n_asked < options.count:
        lines.append(f"note       {n_asked} questions, as no other pair is left that was not asked")
    lines += [f"{'' if number else 'note':<11}{line}" for number, line in enumerate(WHY_CONDITIONAL)]
    if options.out is None:
        filled = Path("ask.csv")
        lines += ["to fill in the answers:", ask_command(options, out=filled)]
        session = replace(options, interactive=True)
        lines += ["or to be asked here:", ask_command(session, answers=Path("answers.csv"))]
        return lines
    out = options.out
    return [
        *lines,
        f"{n_asked} questions in {out}: fill in the column answer, then for more of them",
        ask_command(options, answers=out, out=following(out)),
        "and for the clusters",
        fit_command(options, answers=out),
    ]


def _say_notes(inputs: FitInputs) -> None:
    for note in inputs.table.notes:
        click.echo(unstyled(f"note: {note}"), err=True)


def _interactive(options: AskOptions, inputs: FitInputs) -> None:
    """Ask in the terminal until somebody quits."""
    from pipeline.ask.answers import AnswersFile, HeldError, NotSavedError
    from pipeline.ask.session import ClosedError, Console, Pipe, Session, Terminal, drop_output, rows_of
    from pipeline.ask.summary import WHY_CONDITIONAL, ask_command, fit_command, stand

    try:
        file = AnswersFile(options.answers_path, options.annotator, inputs.samples)
    except HeldError as error:
        click.echo(str(error), err=True)
        sys.exit(INTERNAL)
    console: Console = Terminal() if sys.stdin.isatty() and sys.stdout.isatty() else Pipe()
    _say_notes(inputs)
    rows = rows_of(inputs, options.names, options.show, options.fit.aside)
    session = Session(
        options,
        rows,
        inputs.rows,
        file,
        console,
        lambda answers, batch, start: stand(options, inputs, answers, batch=batch, start=start),
    )
    try:
        with console.opened():
            session.run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ClosedError:
        drop_output()
        sys.exit(0)
    except NotSavedError as error:
        click.echo(f"\n{error}", err=True)
        click.echo(f"{len(session.done)} answers and skips of this session were saved", err=True)
        sys.exit(INTERNAL)
    else:
        code = 0
    finally:
        file.close()
    try:
        click.echo(f"\n{len(session.done)} answers and skips of this session are in {options.answers_path}")
        click.echo(f"to go on:\n{ask_command(options)}\nfor the clusters:\n{fit_command(options)}")
        click.echo("\n".join(WHY_CONDITIONAL))
    except OSError:
        if not isinstance(console, Terminal):
            raise
        drop_output()  # it was closed at a question
    sys.exit(code)
