"""`sweep fit` of tables as people have them, and labels that go to a file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from click.testing import CliRunner
from processes.commandline import sweep

from pipeline.commands.fit import fit_command

MESSY = """\
,plant,nr,width,height,kind
0,Ann B.,1,0.1,2,one kind
1,Bob,2,,3,one kind
2,Eve,3,0.2,2.1,one kind
3,Kim,4,9.5,8,another
4,Lee,5,9.4,8.1,another
5,Zoe,6,9.6,8.2,another
"""
TOLD = "--index-column", "plant", "--label-column", "kind", "--missing", "drop", "--drop", "0,nr"


def test_a_messy_table_in_one_command(tmp_path: Path) -> None:
    table, links, out = tmp_path / "x.csv", tmp_path / "a.csv", tmp_path / "labels.csv"
    table.write_text(MESSY)
    links.write_text("Ann B.,Eve,must,1,ann\nKim,1,must,1,ann\n")
    command = [
        str(table),
        "-k",
        "2",
        "--restarts",
        "2",
        *TOLD,
        "--annotations",
        str(links),
        "--accuracy",
        "0.9",
    ]
    result = CliRunner().invoke(fit_command, [*command, "--json", "--out", str(out), "--confidence"])
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "note: 1 of 6 rows have an empty cell and are left out (--missing drop): Bob (row 2)",
        "note: features used: width, height (2)",
    ]
    found = json.loads(result.stdout)
    assert found["scores"]["nmi"] == 1
    assert [(each["i"], each["j"]) for each in found["contradictions"]] == [("Kim", "Ann B.")]
    header, *rows = out.read_text().splitlines()
    assert header == "index,label,confidence"
    assert [row.split(",")[0] for row in rows] == ["Ann B.", "Eve", "Kim", "Lee", "Zoe"]
    assert found["index"] == ["Ann B.", "Eve", "Kim", "Lee", "Zoe"]
    assert found["features"] == ["width", "height"]
    assert [int(row.split(",")[1]) for row in rows] == found["labels"]
    again = CliRunner().invoke(fit_command, [*command, "--out", str(out)])
    assert again.exit_code == 2
    assert "which is there already, expected a new file (--force overwrites it)" in again.stderr
    assert CliRunner().invoke(fit_command, [*command, "--out", str(out), "--force"]).exit_code == 0
    assert out.read_text().startswith("index,label\n")


def test_rows_that_are_left_out_are_not_annotated(tmp_path: Path) -> None:
    table, links = tmp_path / "x.csv", tmp_path / "a.csv"
    table.write_text(MESSY)
    links.write_text("Ann B.,Bob,must,1,ann\nEve,2,must,1,ann\n")
    result = CliRunner().invoke(fit_command, [str(table), "-k", "2", *TOLD, "--annotations", str(links)])
    assert result.exit_code == 2
    expected = 'expected a row that is used (it has an empty cell, and missing = "drop" leaves it out)'
    assert f"line 1: found sample 'Bob', {expected}" in result.stderr
    assert f"line 2: found sample '2', {expected}" in result.stderr


def test_the_next_command_asks_about_the_same_table(tmp_path: Path) -> None:
    table = tmp_path / "x.csv"
    table.write_text(MESSY)
    fitted = sweep("fit", table, "-k", 2, "--restarts", 2, *TOLD)
    assert fitted.exit_code == 0, fitted.output
    _, line = fitted.stderr.split("next:\n")
    program, *arguments = shlex.split(line.replace("\\\n", " "))
    assert (program, arguments[:4]) == ("sweep", ["ask", str(table), "-k", "2"])
    asked = sweep(*arguments, "-n", 2)
    assert asked.exit_code == 0, asked.output
    assert "features used: width, height (2)" in asked.stderr
