"""Labels of a fit as a table: one row for each sample."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from pipeline.fit.solve import FitResult
from sweeps.annotations.files import Samples

INDEX, LABEL, CONFIDENCE = "index", "label", "confidence"


def labels_csv(samples: Samples, result: FitResult) -> str:
    """Labels as CSV: what the sample is called, its label from 0, and how sure it is if that was asked for.

    A sample without a name is called by the number of its row from 1.

    Parameters
    ----------
    samples : Samples
        What the samples are called.
    result : FitResult
        The fit.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    found = result.confidence
    writer.writerow([INDEX, LABEL, *([CONFIDENCE] if found else [])])
    for position, label in enumerate(result.best.labels.tolist()):
        sure = [f"{found.confidence[position]:.4f}"] if found else []
        writer.writerow([samples.cell(position), label, *sure])
    return text.getvalue()


def write_whole(path: Path, content: str | bytes) -> None:
    """Put a file in place in one step: a reader sees the old one or the new one.

    Raises
    ------
    OSError
        With its name, if it cannot be written; what was there stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno or 0, error.strerror or str(error), str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
