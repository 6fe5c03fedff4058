"""The commands on cubes and on methods: where they write, what they print, and how they end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from urllib.request import urlopen

import pytest
from processes.commandline import sweep

from sweeps.errors import InputError, Problem
from sweeps.words import SHIPPED


def test_files_are_beside_the_cube_unless_told_otherwise(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube, asked = finished / "tiny.zarr", []

    def refuse(*arguments: object, **options: object) -> None:
        asked.append((*arguments, *options.values()))
        raise InputError([Problem("--cell", "'x'", "a cell of the cube")])

    for place in ("write.write_report", "export.write_export", "compare.write_comparison"):
        monkeypatch.setattr(f"pipeline.report.{place}", refuse)
    for words, expected in [
        (("report", finished / "tiny.toml", "--cell", "x"), (cube, finished / "tiny.report", None, "x")),
        (("report", cube, "--out", "elsewhere"), (cube, Path("elsewhere"), None, None)),
        (("export", cube, "--force"), (cube, finished / "tiny.export", "csv", True)),
        (
            ("compare", cube, cube, "--score", "nmi"),
            (cube, cube, finished / "tiny-against-tiny.compare", ("nmi",)),
        ),
    ]:
        result = sweep(*words, "--results", finished)
        assert (result.exit_code, result.stdout, asked.pop()) == (2, "", expected)
        assert "1 problem, nothing was started:\n  --cell: found 'x'" in result.stderr
    assert all(name in sweep("compare", "--help").stdout for name in ("nmi", "goldberger_kl", "seconds"))


def test_open_serves_the_page_until_it_is_interrupted(finished: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "open", str(finished / "tiny.zarr"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            (address,) = re.findall(r"^page: (http://127\.0\.0\.1:\d+/sweep) \(from elsewhere: ssh -L ", line)
            with urlopen(f"{address}/state.json", timeout=30) as answer:
                assert json.load(answer)["head"]["who"] == "complete"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
    missing = sweep("open", tmp_path / "none.zarr", "--no-browser")
    assert (missing.exit_code, "none.zarr: found no such directory" in missing.stderr) == (2, True)


# `sweep methods`.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty working directory with the template in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_method.py").write_text(sweep("methods", "template").stdout)
    return tmp_path


def test_methods_are_listed_and_a_shipped_one_goes_by_what_it_uses() -> None:
    rows = json.loads(sweep("methods", "list", "--json").stdout)
    assert rows == [{"name": name, **asdict(shipped)} for name, shipped in SHIPPED.items()]
    text = sweep("methods", "list").stdout
    assert all(name in text and shipped.text in text for name, shipped in SHIPPED.items())
    found = json.loads(sweep("methods", "check", "k-means", "--json").stdout)
    assert (found["uses"], found["breaches"]) == ("nothing", [])
    assert found["version"].startswith("scikit-learn ")


def test_the_template_keeps_the_contract_and_breaches_end_with_3(folder: Path) -> None:
    checked = sweep("methods", "check", "my_method.py:cluster", "--options", '{"max_iter": 20}')
    assert checked.exit_code == 0, checked.output
    first, second, *_, last = checked.stdout.splitlines()
    assert (first, "3 clusters" in second, last) == ("my_method.py:cluster", True, "keeps the contract")
    source = (folder / "my_method.py").read_text()
    wrong = source.replace("    rng = ", '    print("here")\n    X -= 1\n    rng = ', 1)
    (folder / "mine.py").write_text(wrong)
    checked = sweep("methods", "check", "mine.py:cluster")
    assert checked.exit_code == 3
    for words in ("3 breaches of the", "  fails: ValueError: output", " (links)", "    X -= 1\n", "'here'"):
        assert words in checked.stdout
    found = json.loads(sweep("methods", "check", "mine.py:cluster", "--json").stdout)
    assert (found["method"], found["uses"], found["version"]) == ("mine.py:cluster", "links", "")
    assert [breach["what"] for breach in found["breaches"]] == ["fails", "fails", "prints"]


@pytest.mark.parametrize(
    ("line", "problems"),
    [
        ("my_metod.py:cluster", ["my_metod.py: found No such file or directory"]),
        ("my_method.py:", ["expected a shipped method, package.module:function, or file.py:function"]),
        ("nowhere.module:cluster", ["found no module 'nowhere'"]),
        (
            'my_method.py:cluster --options {"max_itr":2}',
            ["found option 'max_itr', expected one of max_iter"],
        ),
        ("my_method.py:clustr", ["found no 'clustr'"]),
        ("my_method.py:cluster --uses lnks", ["'lnks' is not one of 'links', 'nothing'"]),
        ("broken.py:cluster", ['File "broken.py", line 1', "expected what can be imported"]),
    ],
)
def test_bad_methods_are_reported_at_once(folder: Path, line: str, problems: list[str]) -> None:
    (folder / "broken.py").write_text("def cluster(:\n")
    checked = sweep("methods", "check", *line.split())
    assert (checked.exit_code, checked.stdout) == (2, "")
    assert [problem for problem in problems if problem not in checked.stderr] == []
