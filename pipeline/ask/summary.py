"""What `sweep ask` says beside the questions: where the labels stand, and which command comes next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.settings import AUTO, OFFERED
from pipeline.ask.options import COUNT, RESTARTS, SETTINGS, STRATEGY, AskOptions
from pipeline.ask.outlook import WHAT, Outlook
from pipeline.ask.state import Standing

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
