"""What a report of a cube is made from. Its text is in `shown`, its files are looked at with the page."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner
from cubes import toy
from cubes.reported import content, make, texts
from matplotlib.figure import Figure

from pipeline.commands.main import main
from pipeline.report import effort
from pipeline.report.content import Section
from pipeline.report.write import write_report
from pipeline.scoring.tables import row_cell
from sweeps.errors import InputError
from sweeps.plan import AskedPath

NOTHING = "Nothing to show: no cell that is done has what this needs."


@pytest.mark.usefixtures("page_alone")
def test_somebody_else_sees_a_page_without_true_labels_and_without_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pipeline.report.write.read_failures", refused)
    monkeypatch.setattr("pipeline.report.write.read_lease", refused)
    report = write_report(
        make(tmp_path, toy.plan("own", has_labels=False, replicates=1, replicate_chunk=1)), tmp_path / "out"
    )
    figures = {file.stem for file in report.files if file.parent.name == "figures"}
    assert figures == {"agreement", "cell-unsupervised", "cell-annotated", "gaps", "restarts", "seconds"}


def test_every_bad_input_is_said_at_once_with_exit_code_2(tmp_path: Path) -> None:
    cube = make(tmp_path, toy.plan("iris", models=(), p=(), m=()))
    table = tmp_path / "theirs.csv"
    table.write_text("p,m\n")
    options = ["--against", str(table), "--cell", "irys/unsupervised", "--out", str(table)]
    result = CliRunner().invoke(main, ["report", str(cube), *options])
    assert result.exit_code == 2
    for words in ("a folder to write to", "one column 'metric'", "did you mean 'iris'?"):
        assert words in result.stderr
    with pytest.raises(InputError, match="found a file, expected a folder"):
        write_report(cube, table / "below")
    with pytest.raises(InputError):
        write_report(tmp_path / "none.zarr", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_cell_of_a_path_of_questions_has_the_failure_of_the_path() -> None:
    row = {"dataset": "iris", "p": 0.9, "m": 12, "design": "active", "replicate": 0, "model": "posterior"}
    cells = pd.DataFrame([row | {"status": "failed"}])
    path = str(AskedPath.of(row_cell(cells.iloc[0])))
    failure = SimpleNamespace(cell=path, cause="broken", node="n1", at="now")
    said, table = effort.failures(content(cells, failures=(failure,)))
    assert said == "1 cell failed."
    assert texts(table)[0][1:] == ["broken", "n1", "now"]  # type: ignore[arg-type]


def test_sections_show_some_of_many_accuracies_and_say_why_nothing_is_drawn(tmp_path: Path) -> None:
    shown = content(pd.DataFrame({"p": [0.5 + 0.05 * step for step in range(9)]})).accuracies
    assert (len(shown), shown[0], shown[-1]) == (6, 0.5, 0.9)
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1])
    drawn = [("none", None, ""), ("line", figure, "A line.")]
    for figures, text in ((drawn, ("more",)), (drawn[:1], (NOTHING, "more"))):
        section = Section("k", "Title", (lambda _, of=figures: [*of, "more"],), says_why=True)
        chapter = section.chapter(content(figures=tmp_path / "figures"))
        assert chapter is not None
        assert chapter.text == text
        assert [(each.name, each.caption) for each in chapter.pictures] == [each[::2] for each in figures[1:]]
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"line.svg", "line.png", "line.pdf"}
    assert Section("k", "Title", (lambda _: ["more"],), needs=lambda _: False).chapter(content()) is None
