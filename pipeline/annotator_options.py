"""What the options of `sweep fit` say about annotators, checked against their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sweeps.errors import InputError, Problem, did_you_mean
from sweeps.links import Annotation
from sweeps.textfiles import to_number

OPTION = "--annotator-accuracy"
ACCURACY = "a number above 0, at most 1"


def read_accuracies(texts: Sequence[str]) -> dict[str, float]:
    """Accuracies of `NAME=p` texts; the name ends at the last equals sign.

    Raises
    ------
    InputError
        With every text that is none, and every name that comes twice.
    """
    accuracies: dict[str, float] = {}
    problems = []
    for text in texts:
        name, equals, cell = text.rpartition("=")
        accuracy = to_number(cell)
        if not (equals and name):
            problems.append(Problem(OPTION, repr(text), "NAME=p"))
        elif accuracy is None or not 0 < accuracy <= 1:
            problems.append(Problem(f"{OPTION} {name}", repr(cell), ACCURACY))
        elif name in accuracies:
            problems.append(Problem(f"{OPTION} {name}", "a second accuracy", "one for each annotator"))
        else:
            accuracies[name] = accuracy
    if problems:
        raise InputError(problems)
    return accuracies


def name_problems(accuracies: Mapping[str, float], names: Sequence[str]) -> Iterator[Problem]:
    """Accuracies of annotators that no file has."""
    for name in accuracies:
        if name not in names:
            expected = f"one of {', '.join(names[:20])}" if names else "no name, as there are no annotations"
            yield Problem(OPTION, f"annotator {name!r}", expected, did_you_mean(name, names))


def missing_problems(accuracies: Mapping[str, float], names: Sequence[str]) -> Iterator[Problem]:
    """Annotators without an accuracy, where the model needs one of each."""
    for name in names:
        if name not in accuracies:
            found = f"nothing for annotator {name!r}"
            yield Problem(OPTION, found, ACCURACY, "or --accuracy for all that have none of their own")


def column_problems(annotations: Sequence[Annotation], model: str) -> Iterator[Problem]:
    """Accuracies of single lines, where the model has no place for them; one problem for each file."""
    if model == "conditional":
        return
    with_accuracy = [annotation for annotation in annotations if annotation.accuracy is not None]
    for file in dict.fromkeys(annotation.file for annotation in with_accuracy):
        lines = [annotation.line for annotation in with_accuracy if annotation.file == file]
        others = f", and {len(lines) - 1} more such lines" if len(lines) > 1 else ""
        found = f"an accuracy in the sixth column{others}"
        expected = f"none with the model {model!r}"
        yield Problem(f"{file}, line {lines[0]}", found, expected, "--model conditional takes it")
