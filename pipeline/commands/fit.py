"""The `sweep fit` command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernels.settings import AUTO, COVARIANCES, TERMS, method_words
from pipeline.asking.strategies import NAMES
from pipeline.commands.options import OneCount, Word, json_option, reported, show, takes_settings, takes_table
from pipeline.common import INTERNAL, SAME_OPTIMUM, plural
from sweeps.errors import unstyled
from sweeps.words import SCALES

if TYPE_CHECKING:
    from pipeline.ask.summary import AskOptions, Standing
    from pipeline.choosing import ClusterChoice
    from pipeline.fit.inputs import FitInputs, FitOptions, Judgement
    from pipeline.fit.solve import Confidence, FitResult


UNSURE = 0.9
"""Labels of less confidence are counted in the summary."""

file_type = click.Path(path_type=Path)


@click.command()
@click.argument("features", type=file_type)
@click.option("--labels", type=file_type, help="True classes, one for each row: scores are given.")
@click.option("--must-link", type=file_type, help="Lines 'i j weight': pairs said to be together.")
@click.option("--cannot-link", type=file_type, help="Lines 'i j weight': pairs said to be apart.")
@click.option(
    "--annotations",
    type=file_type,
    multiple=True,
    help="Lines 'i j kind weight annotator': pairs said to be together (must) or apart (cannot); or answered"
    " questions of sweep ask; may be repeated.",
)
@click.option(
    "-k",
    "--n-clusters",
    "clusters",
    metavar="K",
    required=True,
    help="Number of clusters; or several, as 2..8 or 2,3,5: each is fitted, and one is chosen.",
)
@click.option(
    "--model",
    type=Word(TERMS),
    help="What to maximise.  [default: posterior with --accuracy, likelihood with links, else unsupervised]",
)
@click.option(
    "--covariance",
    type=Word((*COVARIANCES, AUTO)),
    default="spherical",
    show_default=True,
    help="One variance for each cluster, or for all; one for each cluster and feature; one matrix for all"
    " clusters, or for each; or the shape that held-out annotations speak for.",
)
@click.option(
    "--accuracy", type=float, help="Assumed share of correct annotations, for posterior and conditional."
)
@click.option(
    "--annotator-accuracy",
    multiple=True,
    metavar="NAME=p",
    help="Of one annotator, in place of --accuracy; may be repeated.",
)
@click.option(
    "--held-out/--no-held-out",
    default=True,
    show_default=True,
    help="Predict annotations from fits that did not see them: five short searches.",
)
@click.option("--restarts", default=10, show_default=True, help="Independent runs of the search.")
@takes_settings()
@click.option(
    "--seed", default=0, show_default=True, help="Of all randomness: the same seed, the same result."
)
@click.option(
    "--confidence", is_flag=True, help="Say how sure each label is, by chains from the solution: takes time."
)
@click.option("--scale", type=Word(SCALES), default="none", show_default=True, help="Of the features.")
@click.option(
    "--drop",
    "--without",
    "drop",
    multiple=True,
    metavar="COLUMN",
    help="No feature: a column of FEATURES by its header, or an array; may be repeated.",
)
@takes_table
@click.option(
    "--out",
    type=file_type,
    help="File to write the labels to, as CSV: index, label, and with --confidence that of each label.",
)
@click.option("--figure", type=file_type, help="Picture of the choice among several K: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Overwrite --out and --figure if they are there.")
@json_option
def fit_command(
    as_json: bool,
    confidence: bool,
    out: Path | None,
    figure: Path | None,
    force: bool,
    clusters: str,
    **choices: Any,
) -> None:
    """Cluster the rows of FEATURES, with annotations or without.

    FEATURES are text with comma, semicolon, tab or blank separated cells, packed by gzip or not; an .npz file
    with an array X, or an .npy file; parquet, feather or a sheet of an .xlsx workbook. Columns are told by
    header, or position from 0.

    Link files count rows of FEATURES from 1, or name them by --index-column; a line without weight is one
    annotation, lines of a pair add up, and a self pair carries weight 2 per annotation. Annotation files name
    the kind (must, cannot) and the annotator in every line, and for --model conditional maybe the accuracy of
    that line; link files are the annotations of an annotator called links, answers that name nobody those of
    one called asked. Centroids and variances are those of the scaled features.
    """
    from pipeline.choosing import option_problems, read_counts
    from pipeline.fit.inputs import FitOptions, read_inputs

    counts, wrong = read_counts(clusters)
    wrong += option_problems(() if wrong else counts, figure=figure, out=out, overwrite=force)
    options = FitOptions(n_clusters=counts[-1], **choices)
    with reported():
        inputs = read_inputs(options, out=out, overwrite=force, also=wrong)
    for note in (*inputs.table.notes, *options.without_effect()):
        click.echo(unstyled(f"note: {note}"), err=True)

    # numba is loaded once there is something to solve: bad input is answered at once
    from pipeline.fit.inputs import judge, labels_csv, write_whole
    from pipeline.fit.solve import to_json

    choice = _choose(options, inputs, counts) if len(counts) > 1 else None
    if choice is None or confidence:
        n_clusters = choice.chosen.n_clusters if choice else options.n_clusters
        result = _fit(options, inputs, n_clusters, confidence)
    else:
        result = choice.chosen.result
    judgement = judge(inputs.annotations, result.best.labels, inputs.samples)
    if out is not None:
        with reported():
            write_whole(out, labels_csv(inputs.samples, result))
    if choice is not None and figure is not None:
        from pipeline.choosing import draw_choice, picture

        with reported():
            write_whole(figure, picture(draw_choice(choice), figure))
    if as_json:
        chosen = {"choice": choice.to_json()} if choice else {}
        index = list(map(inputs.samples.told, range(len(inputs.X))))
        names = {"index": index, "features": list(inputs.table.feature_names)}
        click.echo(json.dumps(to_json(result) | names | judgement.to_json() | chosen, allow_nan=False))
    else:
        show([*(choice.lines(options.accuracy) if choice else []), *summary(result, judgement)])
        for what, path in {"labels": out, "figure": figure}.items():
            if path is not None:
                click.echo(f"{what:<11}in {path}")
        _next_questions(options, choice.chosen.n_clusters if choice else options.n_clusters)


def _next_questions(options: FitOptions, n_clusters: int) -> None:
    """Say how the next pairs to annotate are asked for, about the same table, with the settings of asking."""
    from kernels.settings import AUTO
    from pipeline.ask.summary import COUNT, RESTARTS, STRATEGY, AskOptions, ask_command
    from sweeps.annotations.files import ASKED
    from sweeps.data.table import expanded

    ask = AskOptions(
        fit=replace(
            options,
            n_clusters=n_clusters,
            restarts=RESTARTS,
            covariance=AUTO,
            chosen={},
            aside=tuple(map(str, expanded(options.drop, ()))),
            drop=(),
        ),
        count=COUNT,
        strategy=STRATEGY,
        names=None,
        show=(),
        out=None,
        until=None,
        annotator=ASKED,
        interactive=False,
        as_json=False,
    )
    click.echo(f"next:\n{ask_command(ask)}", err=True)


def _fit(options: FitOptions, inputs: FitInputs, n_clusters: int, confidence: bool = False) -> FitResult:
    from pipeline.fit.solve import fit

    return fit(
        inputs.X,
        inputs.layers,
        n_clusters=n_clusters,
        model=options.chosen_model,
        restarts=options.restarts,
        settings=options.settings,
        seed=options.seed,
        labels_true=inputs.labels_true,
        covariance=options.covariance,
        predict_annotations=options.held_out,
        confidence=confidence,
        rounds=_progress_bar,
    )


def _choose(options: FitOptions, inputs: FitInputs, counts: tuple[int, ...]) -> ClusterChoice:
    from pipeline.choosing import choose_clusters

    return choose_clusters(inputs.X, inputs.layers, counts, lambda count: _fit(options, inputs, count))


def summary(result: FitResult, judgement: Judgement) -> list[str]:
    """The result in a few lines, for people."""
    best, objectives, settings = result.best, result.restart_objectives, result.settings
    hits = int((objectives >= best.objective - SAME_OPTIMUM).sum())
    weight = "" if result.feature_weight == 1 else f", features of weight {result.feature_weight:.4g}"
    lines = [
        f"objective  {best.objective:.4f} nats, model {result.model!r}, {result.covariance} covariance"
        f"{weight} (gmm {best.gmm:.4f}, sbm {best.sbm:.4f}, prior {best.prior:.4f})",
        f"search     {method_words(settings)}: population {settings.population},"
        f" {settings.offspring} offspring, {settings.generations} generations, patience {settings.patience}",
        f"restarts   best {result.best_restart} of {len(objectives)}, {hits} as good",
        f"sizes      {' '.join(map(str, best.sizes.tolist()))}",
        f"variances  {' '.join(f'{variance:.4g}' for variance in result.mean_variances)}",
    ]
    scores = {name: value for name, value in vars(result.scores).items() if value is not None}
    if scores:
        lines.append("scores     " + ", ".join(f"{name} {value:.4g}" for name, value in scores.items()))
    lines += [
        f"{'predicted' if number == 0 else '':<11}{each.share_right:.0%} of held-out annotations,"
        f" log loss {each.log_loss:.4f} nats, {shape} covariance"
        for number, (shape, each) in enumerate(result.held_out.items())
    ]
    lines += judgement.lines()
    if result.confidence is not None:
        lines += _confidence_lines(result.confidence)
    lines.append(
        f"solver     {result.seconds:.3f} s, {result.local_searches} local searches,"
        f" {result.evaluations} candidate relocations"
    )
    if result.caps_reached:
        lines.append(f"note       {result.caps_reached} loops ended at their limit of passes")
    lines += [f"note       {note}" for note in result.notes]
    return lines


def _confidence_lines(found: Confidence) -> list[str]:
    unsure = int((found.confidence < UNSURE).sum())
    return [
        f"confidence {found.expected_accuracy:.3f} of the labels expected right, if the model is;"
        f" {unsure} below {UNSURE:g}",
        f"chains     {found.chains} from {plural(found.starts, 'distinct restart')}, R-hat {found.r_hat:.3f},"
        f" agreement {found.chain_agreement:.3f}, {found.seconds:.3f} s",
    ]


def _progress_bar(restarts: Iterable[int]) -> Iterable[int]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(restarts, "restarts", console=console, transient=True, disable=not console.is_terminal)


# The `sweep ask` command.

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
