"""Cells that failed, and why."""

from __future__ import annotations

from pipeline.common import plural
from pipeline.report.parts.parts import Section, Table, words
from pipeline.report.sections.content import Content
from pipeline.scoring.tables import row_cell
from sweeps.plan import AskedPath
from sweeps.words import asks

MOST_FAILURES = 200
"""Rows of the table, which keeps the page small; cells.csv has all of them."""


def section(content: Content) -> Section | None:
    """Cells that failed with their last record; None if there are none."""
    failed = content.all_cells[content.all_cells["status"] == "failed"]
    if failed.empty:
        return None
    last = {record.cell: record for record in content.failures}
    rows = []
    for _, row in failed.head(MOST_FAILURES).iterrows():
        cell = row_cell(row)
        record = last.get(str(cell)) or (last.get(str(AskedPath.of(cell))) if asks(cell.design) else None)
        known = (record.cause, record.node, record.at) if record else ("no record beside the cube", "", "")
        rows.append(tuple(words(text) for text in (str(cell), *known)))
    beyond = len(failed) - len(rows)
    note = f"{beyond:,} more {'is' if beyond == 1 else 'are'} in cells.csv." if beyond else ""
    table = Table("Failed cells", ("cell", "cause", "node", "when"), tuple(rows), note=note)
    return Section("failures", "Failures", (f"{plural(len(failed), 'cell')} failed.",), (table,))
