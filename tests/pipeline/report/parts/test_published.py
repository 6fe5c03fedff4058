"""Published means: a table that somebody typed, and the verdicts on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.report.parts.published import Published, read_published
from sweeps.errors import InputError

HEAD = "p,n_clusters,m,model,metric,value"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "theirs.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_table_is_read_whatever_the_order_of_its_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "value,metric,model,m,n_clusters,p", "0.4808,kl,likelihood,100,2,0.9")
    assert read_published(path) == [Published(0.9, 2, 100, "likelihood", "goldberger_kl", 0.4808, 4)]


def test_every_problem_is_said_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        HEAD,
        "0.8,2,100,posterior,nmi,0.5",
        "1.8,2,100,posterior,nmi,0.5",
        "0.8,two,100.5,posterior,nmi,0.5",
        "0.8,2,100,posteriour,nmy,nan",
        "0.8,2,0,posterior,nmi,0.5",
        "0.8,2,100,unsupervised,nmi,0.5",
        "0.8,2,100,posterior,nmi",
        "0.80,2,100,posterior,nmi,0.6",
    )
    with pytest.raises(InputError) as caught:
        read_published(path)
    found = [str(problem).removeprefix(f"{path}, ") for problem in caught.value.problems]
    assert [text.split(":")[0] for text in found] == [
        "line 3, p", "line 4, n_clusters", "line 4, m", "line 5, value", "line 5, model", "line 5, metric",
        "line 6", "line 7", "line 8", "line 9",
    ]  # fmt: skip
    assert "did you mean 'posterior'?" in found[4]
    assert "line 2 again" in found[-1]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((), "nothing"),
        ((HEAD,), "no values"),
        (("p,n_clusters,m,model,score,value", "0.8,2,100,posterior,nmi,0.5"), "0 columns 'metric'"),
        ((HEAD + ",p", "0.8,2,100,posterior,nmi,0.5,0.8"), "2 columns 'p'"),
    ],
)
def test_a_table_without_its_columns_or_values_is_refused(
    tmp_path: Path, lines: tuple[str, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        read_published(written(tmp_path, *lines))


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="readable file"):
        read_published(tmp_path / "none.csv")
