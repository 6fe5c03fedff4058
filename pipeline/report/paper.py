"""The tables and figures of a report as the source of a paper: LaTeX with the rules of booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from sweep_clustering.pipeline.common import ESCAPES
from sweep_clustering.pipeline.report.elements import Chapter, Table

LATEX = ESCAPES | str.maketrans(
    {"<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "−": "$-$", "±": r"$\pm$"}
)
LATEX |= str.maketrans({"≤": r"$\le$", "≥": r"$\ge$", "×": r"$\times$", "√": r"$\surd$", "π": r"$\pi$"})
NEGATIVE = re.compile(r"(?<!\S)-(?=\d)")

# How entries of a kind are marked, and the words for it in notes.
MARKUP = {"best": r"\textbf{%s}", "good": r"\textit{%s}"}
WORDS = {"underlined": "bold", "coloured": "in italics"}

# Sections that say what ran, and nothing of results.
LEFT_OUT = ("failures", "head")

HEAD = r"""% Tables and figures of sweep report --paper. Copy what a paper needs, with these packages.
\documentclass{article}
\usepackage{booktabs,graphicx}
\usepackage[textwidth=7.16in,textheight=9.5in]{geometry}
\graphicspath{{figures/}}
% no wider than the page
\newcommand\fitted[1]{\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{#1}}
\begin{document}
"""


def write_paper(folder: Path, chapters: Iterable[Chapter]) -> list[Path]:
    """Write `paper.tex`, whose figures are in the same folder, and return the files."""
    parts, files = [HEAD], [folder / "paper.tex"]
    for chapter in chapters:
        if chapter.key in LEFT_OUT or not (chapter.tables or chapter.pictures):
            continue
        parts.append(rf"\section*{{{escaped(chapter.title)}}}")
        for number, table in enumerate(chapter.tables, start=1):
            label = f"tab:{chapter.key}-{number}"
            parts.append(floating("table", table.title, label, latex(table), table.note))
        for picture in chapter.pictures:
            body = rf"\fitted{{\includegraphics{{{picture.name}.pdf}}}}"
            parts.append(floating("figure", picture.caption, f"fig:{picture.name}", body))
            files.append(folder / "figures" / f"{picture.name}.pdf")
    files[0].write_text("\n".join([*parts, "\\end{document}\n"]), encoding="utf-8")
    return files


def escaped(text: str) -> str:
    """Return a text in which LaTeX sees letters alone."""
    return NEGATIVE.sub("−", text).translate(LATEX)


def floating(kind: str, caption: str, label: str, body: str, note: str = "") -> str:
    """Return a table or a figure with its caption, over both columns of a page that has two."""
    lines = [rf"\begin{{{kind}*}}[!htbp]", r"\centering"]
    text = rf"\caption{{{escaped(caption)}}}\label{{{label}}}"
    lines += [text, body] if kind == "table" else [body, text]
    for word, in_print in WORDS.items():
        note = note.replace(word, in_print)
    lines += [rf"\par\smallskip{{\footnotesize {escaped(note)}}}"] if note else []
    return "\n".join([*lines, rf"\end{{{kind}*}}", ""])


def latex(table: Table) -> str:
    """Return the rows of a table with the rules of booktabs."""
    first_row = table.rows[0] if table.rows else ()
    columns = "".join("l" if isinstance(cell.order, str) else "r" for cell in first_row)
    columns = columns or "l" * len(table.columns)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    for group in table.groups:
        cells, rules, first = [], "", 1
        for text, span in group:
            cells.append(rf"\multicolumn{{{span}}}{{c}}{{{escaped(text)}}}")
            rules += rf"\cmidrule(lr){{{first}-{first + span - 1}}}" if text else ""
            first += span
        lines += [" & ".join(cells) + r" \\", rules]
    lines += [" & ".join(map(escaped, table.columns)) + r" \\", r"\midrule"]
    for row in table.rows:
        lines.append(" & ".join(MARKUP.get(cell.kind, "%s") % escaped(cell.text) for cell in row) + r" \\")
    return "\n".join([r"\fitted{%", *filter(None, lines), r"\bottomrule", r"\end{tabular}}"])
