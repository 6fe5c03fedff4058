"""The guide to one's own method is done as it is written, from the template to the scores."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

GUIDE = (ROOT / "docs" / "guides" / "own-methods.md").read_text(encoding="utf-8")
CELLS = re.findall(r"^```\{code-cell\} python\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)


def shell(command: str, folder: Path) -> str:
    """Output of a line of the guide, in which `sweep` is this checkout's."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "sweep").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipeline "$@"\n')
    (tools / "sweep").chmod(0o755)
    search = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", command],
        cwd=folder,
        env={**os.environ, **search},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = []
    for cell in CELLS:
        first, _, rest = cell.partition("\n")
        if first.startswith("%%writefile "):
            (tmp_path / first.split()[1]).write_text(rest, encoding="utf-8")
        elif first.startswith("! "):
            lines = [line.removeprefix("! ") for line in cell.splitlines()]
            outputs.append("".join(shell(line, tmp_path) for line in lines))
        else:
            exec(compile(cell, "own-methods.md", "exec"), {})
            outputs.append(capsys.readouterr().out)
    checked, careless, submitted, scored = (
        next(each for each in outputs if word in each)
        for word in ("keeps the contract", "breaches of the contract", "results:", "without annotations")
    )
    assert "consistent links" in checked
    assert careless.startswith("careless.py:cluster")
    assert "4 breaches" in careless
    assert careless.rstrip().endswith("exit code 3")
    assert "mine.zarr" in submitted
    assert "pckmeans" in scored
    assert "mine" in scored
