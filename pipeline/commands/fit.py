"""The commands on one table: `sweep fit` clusters it, `sweep ask` chooses what to ask about it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweep_clustering.installation import check_numpy
from sweep_clustering.kernels.settings import ObjectiveSettings, SearchSettings, settings_of
from sweep_clustering.kernels.structure import ANY, kind_of
from sweep_clustering.pipeline.commands import arguments as shared
from sweep_clustering.pipeline.commands.arguments import declared, flag, path_option, repeatable
from sweep_clustering.pipeline.commands.output import STDOUT, put_file, reported, show, typed
from sweep_clustering.sweeps.errors import plural, unstyled
from sweep_clustering.sweeps.words import STRATEGIES

if TYPE_CHECKING:
    from sweep_clustering.pipeline.ask.summary import AskOptions
    from sweep_clustering.pipeline.fit.inputs import FitInputs

takes_links = shared.stacked(
    path_option(
        "--must-link", help="Pairs that belong together: lines 'i j weight', or parquet, feather or .npz."
    ),
    path_option("--cannot-link", help="Pairs that do not belong together: files as for --must-link."),
)
takes_accuracies = repeatable(
    "--annotator-accuracy",
    metavar="NAME=p",
    help="Accuracy of one annotator, in place of --accuracy; may be repeated.",
)
takes_labels = shared.stacked(
    path_option(
        "--row-labels",
        help="Labels of some rows, which may be wrong: one for each row of FEATURES, or two columns, row and"
        " label; empty, NA, ? or -1 is none.",
    ),
    declared("label_accuracy"),
)
takes_columns = partial(repeatable, metavar="COLUMN")

# Options that help shows, and the titles that the others have with --help-all.
MAIN_NAMES = (
    *("clusters", "annotations", "must_link", "cannot_link", "row_labels", "accuracy", "model", "labels"),
    "out",
    *("help_all", "help"),
)
TABLE = (
    *("columns", "index_column", "first_row", "label_column", "missing", "links_outside"),
    *("categories", "sheet"),
)
GROUPS = {
    "Table": ["scale", *TABLE, "drop"],
    "Annotations": ["annotator_accuracy", "label_accuracy", "held_out"],
    "Model": ["covariance", *ObjectiveSettings.__dataclass_fields__],
    "Search": ["jobs", "restarts", "seed", "method", *SearchSettings.__dataclass_fields__],
    "Output": [],
}
# Options of a table that both commands have.
ANNOTATIONS = ("features", "must_link", "cannot_link", "annotations", "accuracy", "annotator_accuracy")
SHARED_NAMES = [*ANNOTATIONS, "row_labels", "label_accuracy", *TABLE, "scale", "seed"]

takes_jobs = click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    metavar="N",
    help="Fits that run at a time, on threads. Results do not depend on it.  [default: all cores]",
)


@click.command("fit", cls=shared.GroupedCommand, main_names=MAIN_NAMES, groups=GROUPS)
@click.argument("features", type=shared.PATH)
@click.option(
    "-k",
    "--n-clusters",
    "clusters",
    metavar="K",
    help="Number of clusters; or several, as 2..8 or 2,3,5: one is chosen.  [default: what the answers speak"
    " for, from 2 to thousands; from 2 to 10 without answers]",
)
@path_option(
    "--labels", help="File of the true classes, one for each row, with which the clusters are scored."
)
@takes_links
@repeatable(
    "--annotations",
    type=shared.PATH,
    help="Pairs with their kind: lines 'i j kind [weight] [annotator]', in which kind is must (together) or"
    " cannot (apart), with ! if it has to hold; or parquet, feather or .npz; or answered questions of"
    " sweep ask. May be repeated.",
)
@takes_labels
@declared("model")
@declared("covariance")
@declared("accuracy")
@takes_accuracies
@click.option(
    "--held-out/--no-held-out",
    default=True,
    help="Predict annotations from fits that did not see them: five short searches.",
)
@declared("restarts")
@takes_jobs
@shared.takes_settings()
@declared("seed")
@flag(
    "--confidence",
    help="Also estimate how sure each label is, by sampling around the solution. This takes time.",
)
@declared("scale")
@takes_columns(
    "--drop",
    "--without",
    "drop",
    help="Column of FEATURES that is not a feature, by header or position, or an array; may be repeated.",
)
@shared.takes_table
@path_option(
    "--out",
    help="File to write the labels to, as CSV: index, label, and with --confidence that of each label.",
)
@path_option("--figure", help="Picture of the choice among several K: .svg, .png or .pdf.")
@flag("--force", help="Overwrite --out and --figure if they are there.")
@shared.json_option
def fit_command(
    as_json: bool,
    confidence: bool,
    out: Path | None,
    figure: Path | None,
    force: bool,
    clusters: str | None,
    jobs: int | None,
    **choices: Any,
) -> None:
    """Cluster the rows of FEATURES, with annotations or without.

    FEATURES and annotations are enough: the fit chooses what classes are made of by how well it predicts
    annotations that were held out, and prints its choice. --model posterior is the source paper's model.

    FEATURES are text with comma, semicolon, tab or blank separated cells, packed by gzip or not; an .npz file
    with an array X, or an .npy file; parquet, feather or a sheet of an .xlsx workbook. A column is its
    header, or its position from 0.

    Link files count rows of FEATURES (from 0 or 1: --first-row), or name them by --index-column; a line
    without weight is one annotation, lines of a pair add up, and a self pair carries weight 2 per annotation.
    Text files may have a header line, with columns in any order; links and annotations may also be parquet,
    feather or .npz files with these columns. Annotation files name the kind (must, cannot) and
    the annotator in every line, and maybe the accuracy of that line, which the models posterior and
    likelihood do not take. The annotator of link files, and of annotations without a name in a file without
    a header, is called links; that of answers without a name below a header is called asked. Centroids and
    variances are those of the scaled features.
    """
    from sweep_clustering.pipeline.fit import inputs as room
    from sweep_clustering.pipeline.fit.counts import TRIED, option_problems, read_counts
    from sweep_clustering.sweeps.data.table import expanded

    check_numpy()
    counts, problems = (TRIED, []) if clusters is None else read_counts(clusters)
    problems += option_problems(() if problems else counts, figure=figure, out=out, overwrite=force)
    options = room.FitOptions(
        n_clusters=counts[-1], has_open_count=clusters is None, chosen=shared.settings_in(choices), **choices
    )
    problems += list(room.input_problems("--out", out, options)) or room.place_problems("--out", out, force)
    problems += room.input_problems("--figure", figure, options)
    with reported():
        inputs = room.read_inputs(options, problems)
    _show_notes(*inputs.table.notes, *options.without_effect())
    inputs = replace(inputs, table=inputs.table._replace(X=inputs.X))  # frees the features before scaling

    # numba takes seconds to load, and bad input should be reported at once
    from sweep_clustering.pipeline.fit.confidence import below_chance, estimate, estimates_json, judge_unsure
    from sweep_clustering.pipeline.fit.running import fit_table, progress
    from sweep_clustering.pipeline.fit.solve import to_json, unannotated
    from sweep_clustering.pipeline.fit.summary import FitSummary, paragraph

    model, covariance, _ = options.model_choice

    def check(n_clusters: int) -> None:
        with reported():
            inputs.check_hard(n_clusters)

    with progress() as state:
        result, n_clusters, choice = fit_table(
            inputs.X,
            inputs.layers,
            () if clusters is None else counts,
            state,
            n_jobs=jobs or -1,
            covariance=covariance,
            seed=options.seed,
            confidence=confidence,
            n_names=0 if inputs.row_labels is None else len(inputs.row_labels.names),
            check=check,
            salvage=True,
            model=model,
            restarts=options.restarts,
            settings=options.settings,
            labels_true=inputs.labels_true,
            predict_annotations=options.held_out,
            names=inputs.table.feature_names,
        )
    limit = None if as_json else room.MOST_SHOWN
    judgement = room.judge(inputs.rows.answers, result.best.labels, inputs.samples, limit)
    unsure, unsure_lines = judge_unsure([inputs.rows], inputs.samples.identifier)
    naming = None
    if inputs.row_labels is not None:
        naming = room.Naming.of(inputs.row_labels, result.best.labels, n_clusters)
    of_pairs = [layer for layer in inputs.layers if not layer.is_of_labels]
    names, estimates = inputs.rows.annotators, estimate(of_pairs, result.best)
    accuracies = estimates_json(estimates, names)
    warned, noted = below_chance(estimates, names, result.best)
    result = replace(result, alarms=(*result.alarms, *warned), notes=(*result.notes, *noted))
    is_interrupted = result.interrupted or (choice is not None and choice.interrupted)
    labels_true = None if is_interrupted else inputs.labels_true
    baselines = unannotated(inputs.X, labels_true, n_clusters, options.seed)
    with reported():
        if out is not None:
            put_file(out, room.labels_csv(inputs.samples, result, naming))
        if choice and figure is not None:
            # matplotlib takes a second to load
            from sweep_clustering.pipeline.report.figures import draw_choice, picture

            put_file(figure, picture(draw_choice(choice), figure))
    if as_json:
        document = to_json(result)
        document["index"] = list(map(inputs.samples.identifier, range(len(inputs.X))))
        document["features"] = list(inputs.table.feature_names)
        document |= judgement.document | {"unsure": unsure} | inputs.numbering.to_json()
        document["annotator_estimates"] = accuracies
        document["links_dropped"] = inputs.rows.n_outside
        if naming is not None:
            document["row_labels"] = naming.to_json(document["index"])
        if choice:
            document["choice"] = choice.to_json()
        if baselines:
            document["unsupervised"] = {baseline.key: baseline.to_json() for baseline in baselines}
        click.echo(json.dumps(document, allow_nan=False))
        if is_interrupted:
            raise KeyboardInterrupt
        return
    summary = FitSummary(result, inputs, judgement, choice, naming, baselines, unsure_lines, accuracies)
    lines = [*summary.result_lines(), *(f"warning    {alarm}" for alarm in result.alarms)]
    lines += [f"note       {note}" for note in result.notes]
    for title, path in {"labels": out, "figure": figure}.items():
        lines += [f"{title:<11}in {path}"] if path is not None else []
    if out is None:
        lines.append("labels     none were written: --out labels.csv writes them, --json prints everything")
    if click.get_current_context().find_root().obj:
        lines += ["", *summary.detail_lines(options.accuracy)]
    else:
        answers_text = "contradicted answers, " if inputs.layers else ""
        lines.append(f"more       -v lists {answers_text}other models, restarts and the objective")
    # in a pipe, a line can be searched for
    show([part for line in lines for part in paragraph(line)] if sys.stdout.isatty() else lines)
    if n_clusters > 1:  # the next pairs to annotate are chosen with the settings of sweep ask
        columns = tuple(map(str, expanded(options.drop, ())))
        count = None if clusters is None else n_clusters
        click.echo(f"next:\n{_for_this_table(ask, n_clusters=count, drop=columns)}", err=True)
    if is_interrupted:  # the results so far are there, and the command ends as after any Ctrl-C
        raise KeyboardInterrupt


def _for_this_table(command: click.Command, **values: Any) -> str:
    """Return the other command, to type, for the table of this one."""
    params = click.get_current_context().params
    return typed(command, {name: params[name] for name in SHARED_NAMES} | values)


def _show_notes(*notes: str) -> None:
    lines = [f"note: {note}" for note in notes]
    if sys.stderr.isatty():
        from sweep_clustering.pipeline.fit.summary import paragraph

        lines = [part for line in lines for part in paragraph(line, sys.stderr)]
    for line in lines:
        click.echo(unstyled(line), err=True)


@click.command()
@click.argument("features", type=shared.PATH)
@click.option(
    "-k",
    "--n-clusters",
    type=int,
    help="Number of clusters.  [default: chosen again for each batch, as sweep fit chooses it]",
)
@click.option(
    "-n", "count", type=int, default=20, help="Number of questions, with --interactive those of a batch."
)
@repeatable(
    "--annotations",
    type=shared.PATH,
    help="Answers so far: files of questions that were filled in, or lines 'i j kind weight annotator'; may"
    " be repeated. --interactive adds to the last one, and makes it.",
)
@takes_links
@takes_labels
@declared("accuracy", help="Share of answers that are right.  [default: estimated from the answers]")
@takes_accuracies
@click.option("--annotator", default="asked", metavar="NAME", help="Name of the annotator who answers.")
@click.option(
    "--strategy",
    type=shared.Word(tuple(STRATEGIES)),
    help="Which pairs: "
    + "; ".join(f"{name}: {meaning}" for name, meaning in STRATEGIES.items())
    + ".  [default: merges if answers speak for merged groups, or for nothing yet and classes may be many;"
    " else overall]",
)
@path_option("--out", help="File to write the questions to, to be filled in.")
@click.option(
    "--until",
    type=float,
    metavar="SHARE",
    help="Say whether this share of the labels is expected right, and about how many questions are left.",
)
@flag("--interactive", help="Ask in the terminal; each answer is saved at once.")
@click.option(
    "--names", metavar="COLUMN", help="Column with the names of the rows, by its header, or an array."
)
@takes_columns(
    "--show",
    help="Column that is shown with a question and is no feature, such as texts or paths; may be repeated.",
)
@takes_columns(
    "--drop", "--without", "drop", help="Column that is neither shown nor a feature; may be repeated."
)
@declared("covariance", default=ANY, help="Shape of the clusters, as in sweep fit.")
@declared("restarts", default=3)
@takes_jobs
@shared.takes_settings(feature_weight="effective", proportions="free")
@declared("seed", help="Seed of all random numbers: the same seed gives the same questions.")
@declared("scale")
@shared.takes_table
@shared.json_option
def ask(**choices: Any) -> None:
    """Choose the pairs of rows of FEATURES whose answers help most.

    Questions go to --out, best first, with a blank column to fill in: yes or no (must or cannot, y or n, 1 or
    0, + or -), or skip. Hand the file back with --annotations, here for the next questions and to sweep fit
    for the clusters. Answers may be wrong, contradict each other and repeat. A pair that was answered is not
    asked again (except with --strategy again), one that was skipped not before 100 further answers.

    Pairs that were chosen say something by being chosen, which --model posterior and likelihood take as
    evidence on the clusters. The annotation term here is therefore always conditional: it only models whether
    the answer of each pair is right. sweep fit without options fits the answers.
    """
    from sweep_clustering.pipeline.ask import answers, summary
    from sweep_clustering.pipeline.fit.counts import TRIED

    check_numpy()
    settings, columns = _take_settings(choices), _other_columns(choices)
    del choices["drop"]
    is_open = choices["n_clusters"] is None
    choices |= {"has_open_count": is_open, "n_clusters": TRIED[-1] if is_open else choices["n_clusters"]}
    options = summary.AskOptions(model="conditional", chosen=settings, aside=columns, **choices)
    with reported(answers.HeldError, answers.NotSavedError):
        inputs = summary.read_ask(options)
        _show_notes(*inputs.table.notes)
        if options.interactive:
            _ask_in_terminal(options, inputs)
        else:
            _write_questions(options, inputs)


def _take_settings(choices: dict[str, Any]) -> dict[str, Any]:
    """Take the method and the settings out of the values of the command."""
    settings, weight = shared.settings_in(choices), "feature_weight"
    source = click.get_current_context().get_parameter_source(weight)
    is_default = source == click.core.ParameterSource.DEFAULT
    if is_default and weight in kind_of(str(choices["covariance"]), settings_of(settings)).unused:
        settings[weight] = 1.0  # the default of the command has no place there
    return settings


def _other_columns(choices: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that are no features, each once."""
    names = [choices["names"]] if choices["names"] else []
    return tuple(dict.fromkeys([*names, *choices["show"], *choices["drop"]]))


def _write_questions(options: AskOptions, inputs: FitInputs) -> None:
    """Choose one batch of questions, and write or print it."""
    from sweep_clustering.pipeline.ask import session, summary

    rows = session.rows_of(options, inputs)
    assessment = summary.assess(options, inputs, list(inputs.rows))
    questions = session.csv_text(assessment.questions, rows, options.annotator)
    if options.out is not None and assessment.questions:
        put_file(options.out, questions)
    if options.as_json:
        document = session.to_json(options, assessment, inputs.samples) | inputs.numbering.to_json()
        document["links_dropped"] = inputs.rows.n_outside
        document["fit"] = shlex.split(_fit_of_answers().replace("\\\n", ""))
        click.echo(json.dumps(document, allow_nan=False))
        return
    is_piped = options.out is None and not sys.stdout.isatty()
    if is_piped:
        click.echo(questions, nl=False)
    elif options.out is None:
        show(list(session.table_lines(assessment.questions, rows)))
    n_asked = plural(len(assessment.questions), "question")
    lines = [*inputs.lines(), *summary.assessment_lines(options, assessment)]
    if 0 < len(assessment.questions) < options.count:
        lines.append(f"note       {n_asked}: every other pair was already asked")
    lines += [f"{'' if number else 'note':<11}{line}" for number, line in enumerate(summary.WHY_CONDITIONAL)]
    if not assessment.questions:
        lines.append(session.NOTHING_LEFT)
    elif options.out is None:
        lines += ["to fill in the answers:", _ask_again(out=Path("ask.csv"))]
        lines += ["or to be asked here:", _ask_again(Path("answers.csv"), interactive=True)]
    else:
        lines.append(f"{n_asked} in {options.out}: fill in the column answer, then for more")
        lines.append(_ask_again(options.out, out=summary.next_file(options.out)))
        lines += ["and for the clusters", _fit_of_answers(options.out)]
    click.echo(unstyled("\n".join(lines)), err=is_piped)


def _ask_again(*answers: Path, **changes: Any) -> str:
    """Return the `sweep ask` for the questions after these answers, to type."""
    params = click.get_current_context().params
    files = {"annotations": tuple(dict.fromkeys([*params["annotations"], *answers]))}
    return typed(ask, params | {"out": None, "as_json": False} | files | changes)


def _fit_of_answers(*answers: Path) -> str:
    """Return the `sweep fit` that takes all answers, to type."""
    params = click.get_current_context().params
    model: dict[str, Any] = {}
    if params["covariance"] != ANY:  # which sweep fit takes without options
        model = {"model": "conditional", "covariance": params["covariance"], **_take_settings(dict(params))}
    # with --columns, other columns are no features anyway
    drop = () if params["columns"] else _other_columns(params)
    files = tuple(dict.fromkeys([*params["annotations"], *answers]))
    return _for_this_table(fit_command, clusters=params["n_clusters"], annotations=files, drop=drop, **model)


def _ask_in_terminal(options: AskOptions, inputs: FitInputs) -> None:
    """Ask questions in the terminal until somebody quits."""
    from sweep_clustering.pipeline.ask import answers, session, summary

    path = options.annotations[-1]
    file = answers.AnswersFile(path, options.annotator, inputs.numbering.samples_of(path, inputs.samples))
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    console = session.Terminal() if is_terminal else session.Pipe()
    rows, assess = session.rows_of(options, inputs), partial(summary.assess, options, inputs)
    asking = session.Session(options, rows, list(inputs.rows), file, console, assess)
    try:
        with closing(file), console.single_keys():
            try:
                asking.run()
            except OSError as error:  # nobody is there to see a question
                if error.filename != STDOUT:
                    raise
            finally:
                answer_count = plural(len(asking.finished_questions), "answer or skip", "answers and skips")
                are = "is" if len(asking.finished_questions) == 1 else "are"
                click.echo(f"\n{answer_count} of this session {are} in {path}\nto go on:\n{_ask_again()}")
                click.echo(f"for the clusters:\n{_fit_of_answers()}")
                click.echo("\n".join(summary.WHY_CONDITIONAL))
    except OSError:
        if not is_terminal:  # stdout was closed at a question
            raise
