"""Guides with files of a user work as they are written: cells of Python share their names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

SAYS = {
    "own-tables.md": (
        r"column 9 \(species\): found no number, first 'Iris",
        r"note: 3 of 150 rows have an empty cell .* plant 003 \(row 4\), plant 017 \(row 18\), plant 060 ",
        r"note: features used: sepal length, sepal width, petal length, petal width \(4\)",
        r"truth +nmi \(min, as in the paper\) 0\.[7-9]",
        r"note: column 1 is another whole number in each row: it tells rows apart",
        r"truth +nmi \(min, as in the paper\) 0\.0",
        "NOTE data set flowers: features used: sepal length, ",
    ),
    "own-annotations.md": (r"results:.* \S*flowers.zarr", "drawn without replacement from the 300 of a file"),
    "own-methods.md": (
        r"keeps the contract",
        r"results:.* \S*quick-own.zarr",
        "pckmeans",
        r"# methods: .*\"own\"",
        r"5 of \d+ cells were computed again, and all are equal\. If 5 % of the cells were wrong",
    ),
}
"""What their commands print, in the order of their cells."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_a_guide_prints_what_it_explains(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tool = tmp_path / "bin" / "sweep"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sweep_clustering "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text, printed, names = (ROOT / "docs" / "guides" / name).read_text(encoding="utf-8"), "", {}
    for cell in re.findall(r"^```\{code-cell\} python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        first, _, code = cell.partition("\n")
        if first.startswith("%%writefile "):
            Path(first.split()[1]).write_text(code, encoding="utf-8")
        elif first.startswith("! "):
            script = re.sub("^! ", "", cell, flags=re.MULTILINE)
            process = subprocess.run(["/bin/sh", "-ec", script], capture_output=True, text=True, check=False)
            assert process.returncode == 0, f"{script}\n{process.stdout}{process.stderr}"
            printed += process.stdout
        else:
            exec(compile(cell, name, "exec"), names)
            printed += capsys.readouterr().out
    for pattern in SAYS[name]:
        match = re.search(pattern, printed)
        assert match, f"{pattern}\n{printed}"
        printed = printed[match.end() :]
