"""A user's own files: written as text, and everything that is said about one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.data.reading import read_table
from sweeps.errors import InputError


def write(tmp_path: Path, text: str, name: str = "own.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def problems(path: Path, label_column: str | int | None = None) -> list[str]:
    """Problems of a table that is refused, with FILE in place of its path."""
    with pytest.raises(InputError) as caught:
        read_table(path, label_column=label_column)
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]
