"""A report is the source of a paper: its LaTeX is complete, and publishers take its figures."""

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from cubes import toy
from cubes.reported import make

from sweep_clustering.pipeline.report.elements import Table, Value, escaped, latex
from sweep_clustering.pipeline.report.write import write_report


def test_a_table_has_rules_groups_and_letters_alone() -> None:
    rows = ((Value("a_b & 50 %", "a"), Value("-0.5 ± 0.1", -0.5, "best"), Value("-", None, "good")),)
    table = Table("t", ("data set", "x", "y"), rows, groups=((("", 1), ("K = 2", 2)),))
    assert latex(table).splitlines() == [
        r"\fitted{%",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"\multicolumn{1}{c}{} & \multicolumn{2}{c}{K = 2} \\",
        r"\cmidrule(lr){2-3}",
        r"data set & x & y \\",
        r"\midrule",
        r"a\_b \& 50 \% & \textbf{$-$0.5 $\pm$ 0.1} & \textit{-} \\",
        r"\bottomrule",
        r"\end{tabular}}",
    ]
    assert escaped("$x^2$ {\\a} ~ 1–2 <3") == (
        r"\$x\textasciicircum{}2\$ \{\textbackslash{}a\} \textasciitilde{} 1--2 \textless{}3"
    )


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the paper of a cube of two kinds of data, and return its folder."""
    folder = tmp_path_factory.mktemp("paper")
    once = {"replicates": 2, "replicate_chunk": 1}
    cube = make(
        folder, toy.plan("iris"), toy.plan("mix_k2", n_clusters=2, mixtures=2, mixture_chunk=2, **once)
    )
    write_report(cube, folder / "out", for_paper=True)
    return folder / "out" / "paper"


@pytest.mark.slow
def test_the_paper_has_every_figure_and_nothing_else(paper: Path) -> None:
    text = (paper / "paper.tex").read_text(encoding="utf-8")
    for kind in ("table*", "figure*", "tabular", "document"):
        assert text.count(rf"\begin{{{kind}}}") == text.count(rf"\end{{{kind}}}") > 0
    included = re.findall(r"\\includegraphics\{(.+?)\}", text)
    assert sorted(included) == sorted(file.name for file in (paper / "figures").iterdir())
    assert all(name.endswith(".pdf") for name in included)
    labels = re.findall(r"\\label\{(.+?)\}", text)
    assert len(labels) == len(set(labels))
    for table in re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        columns, body = table
        rows = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(columns)}


@pytest.mark.slow
def test_figures_of_a_paper_fit_its_page_and_have_fonts_that_publishers_take(paper: Path) -> None:
    for file in (paper / "figures").iterdir():
        content = file.read_bytes()
        parts = [content]
        for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL):
            try:
                parts.append(zlib.decompress(stream))
            except zlib.error:
                continue
        whole = b"".join(parts)
        assert b"/FontFile2" in whole, file.name
        assert b"/Type3" not in whole, file.name
        (width,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+)", whole)[:1]
        assert float(width) <= 72 * 7.6, file.name


@pytest.mark.slow
def test_latex_sets_the_paper(paper: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed here")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    process = subprocess.run(command, cwd=paper, capture_output=True, text=True, errors="replace")
    assert process.returncode == 0, process.stdout[-2000:]
    assert (paper / "paper.pdf").stat().st_size > 10_000
    assert "Overfull \\hbox" not in process.stdout
