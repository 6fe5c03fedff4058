"""Files of a user are written and read here, and the problems of a wrong one are listed."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweep_clustering.sweeps.annotations.files import PairFile
from sweep_clustering.sweeps.annotations.rows import Annotation, Samples
from sweep_clustering.sweeps.data.reading import read_table
from sweep_clustering.sweeps.data.table import LabelledTable, TableChoice
from sweep_clustering.sweeps.errors import InputError


def write(folder: Path, content: str | bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_frame(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table of a user in the format that the suffix of the file names."""
    if path.suffix in (".parquet", ".feather"):
        getattr(frame, f"to_{path.suffix[1:]}")(path)
    elif path.suffix == ".npz":
        texts = [name for name in frame if frame[name].dtype.kind == "O"]
        np.savez(path, **{name: frame[name].to_numpy(str if name in texts else None) for name in frame})
    elif path.suffix == ".xlsx":
        frame.replace({True: 1, False: 0}).to_excel(path, index=False)
    else:
        frame.replace({True: 1, False: 0}).to_csv(
            path, index=False, sep="\t" if path.suffix == ".tsv" else ","
        )
    return path


def read(path: Path, **choice: Any) -> LabelledTable:
    return read_table(path, TableChoice(**choice))


def problems(path: Path, **choice: Any) -> list[str]:
    """Return the problems of a table that is refused, with FILE in place of its path."""
    with pytest.raises(InputError) as caught:
        read(path, **choice)
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


def read_annotations(path: Path, samples: Samples | int, kind: int | None = None) -> list[Annotation]:
    """Return the annotations of a file one by one; all of them are of the kind, if there is one."""
    rows = PairFile.of(path, kind).table(Samples.of(samples)).answers
    return [row for row in rows if isinstance(row, Annotation)]
