"""Reading the raw file of a built-in data set by its recipe."""

from __future__ import annotations

import numpy as np

from sweeps.registry import Entry
from sweeps.tables import LabelledTable


def parse_raw(content: bytes, entry: Entry) -> LabelledTable:
    """Features and classes of a raw file whose checksum was verified, in file order.

    Parameters
    ----------
    content : bytes
        The raw file.
    entry : Entry
        Its recipe.
    """
    codes = {class_name: code for code, class_name in enumerate(entry.class_names)}
    start, stop = entry.features
    rows: list[list[float]] = []
    labels: list[int] = []
    for cells in _rows(content, entry):
        features = cells[start:stop]
        label = cells[entry.class_column]
        if label not in codes or entry.missing in features:
            continue
        rows.append([float(cell) for cell in features])
        labels.append(codes[label])
    return LabelledTable(np.array(rows), np.array(labels, dtype=np.int16), entry.class_names)


def _rows(content: bytes, entry: Entry) -> list[list[str]]:
    lines = content.decode("utf-8").splitlines()[entry.header_lines :]
    kept = (line for line in lines if line.strip() and line[0] not in entry.comment)
    return [[cell.strip() for cell in line.split(entry.separator)] for line in kept]
