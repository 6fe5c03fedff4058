"""Guides with code cells, done as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT


def outputs(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the cells of a guide print that runs in a folder, which is to be the working directory.

    Cells of Python share their names, as in a notebook.
    """
    text = (ROOT / "docs" / "guides" / name).read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    printed = []
    for cell in cells:
        first, _, rest = cell.partition("\n")
        if first.startswith("%%writefile "):
            (folder / first.split()[1]).write_text(rest, encoding="utf-8")
        elif first.startswith("! "):
            lines = [line.removeprefix("! ") for line in cell.splitlines()]
            printed.append("".join(_shell(line, folder) for line in lines))
        else:
            exec(compile(cell, name, "exec"), names)
            printed.append(capsys.readouterr().out)
    return printed


def _shell(command: str, folder: Path) -> str:
    """Output of a line of a guide, in which `sweep` is this checkout's."""
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
