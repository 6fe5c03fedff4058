"""Raw files of built-in data sets, made without a download."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from sklearn.datasets import load_iris


def iris_file() -> bytes:
    """bezdekIris.data, byte for byte, from scikit-learn's copy of the table."""
    iris = load_iris()
    rows = [
        ",".join(f"{value:.1f}" for value in x) + f",Iris-{iris.target_names[label]}\n"
        for x, label in zip(iris.data, iris.target, strict=True)
    ]
    return ("".join(rows) + "\n").encode()


def iris_uci_file() -> bytes:
    """iris.data, byte for byte: two of its rows deviate from Fisher's table."""
    lines = iris_file().split(b"\n")
    lines[34] = lines[37] = b"4.9,3.1,1.5,0.1,Iris-setosa"
    return b"\n".join(lines)


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def folder(path: Path, files: dict[str, bytes]) -> Path:
    path.mkdir()
    for name, content in files.items():
        (path / name).write_bytes(content)
    return path
