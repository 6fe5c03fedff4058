"""The `sweep methods` commands."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from processes.commandline import sweep

from sweeps.words import SHIPPED


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty working directory with the template in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_method.py").write_text(sweep("methods", "template").stdout)
    return tmp_path


def test_all_methods_are_listed() -> None:
    rows = json.loads(sweep("methods", "list", "--json").stdout)
    assert [row["name"] for row in rows] == list(SHIPPED)
    assert rows[0] == {"name": "k-means", **asdict(SHIPPED["k-means"])}
    text = sweep("methods", "list").stdout
    assert all(name in text and shipped.text in text for name, shipped in SHIPPED.items())


def test_the_template_keeps_the_contract(folder: Path) -> None:
    checked = sweep("methods", "check", "my_method.py:cluster", "--options", '{"max_iter": 20}')
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.splitlines()[0] == "my_method.py:cluster"
    assert "3 clusters" in checked.stdout.splitlines()[1]
    assert checked.stdout.splitlines()[-1] == "keeps the contract"


def test_breaches_are_shown_and_end_with_3(folder: Path) -> None:
    source = (folder / "my_method.py").read_text()
    (folder / "mine.py").write_text(
        source.replace("    rng = ", '    print("here")\n    X -= 1\n    rng = ', 1)
    )
    checked = sweep("methods", "check", "mine.py:cluster")
    assert checked.exit_code == 3
    assert "3 breaches of the contract:" in checked.stdout
    assert "  fails: ValueError: output array is read-only (links)" in checked.stdout
    assert "    X -= 1\n" in checked.stdout
    assert "first 'here'" in checked.stdout
    found = json.loads(sweep("methods", "check", "mine.py:cluster", "--json").stdout)
    assert (found["method"], found["uses"], found["version"]) == ("mine.py:cluster", "links", "")
    assert [breach["what"] for breach in found["breaches"]] == ["fails", "fails", "prints"]
    assert found["outcomes"][0]["instance"] == "links"


def test_a_shipped_method_goes_by_what_it_uses() -> None:
    found = json.loads(sweep("methods", "check", "ward", "--json").stdout)
    assert found["uses"] == "nothing"
    assert found["version"].startswith("scikit-learn ")
    assert found["breaches"] == []


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        (("my_metod.py:cluster",), ["found no my_metod.py", "did you mean 'my_method.py'?"]),
        (("my_method.py:",), ["expected a shipped method, package.module:function, or file.py:function"]),
        (("nowhere.module:cluster",), ["found no module 'nowhere'"]),
        (
            ("my_method.py:cluster", "--options", '{"max_itr": 2}'),
            ["found option 'max_itr', expected one of max_iter (did you mean 'max_iter'?)"],
        ),
        (
            ("my_method.py:clustr", "--options", "[]", "--uses", "lnks"),
            ["3 problems", "no 'clustr'", "--options", "--uses"],
        ),
    ],
)
def test_bad_input_is_reported_at_once(folder: Path, arguments: tuple[str, ...], problems: list[str]) -> None:
    checked = sweep("methods", "check", *arguments)
    assert checked.exit_code == 2
    assert checked.stdout == ""
    assert [problem for problem in problems if problem not in checked.stderr] == []


def test_a_file_that_cannot_be_imported(folder: Path) -> None:
    (folder / "broken.py").write_text("def cluster(:\n")
    checked = sweep("methods", "check", "broken.py:cluster")
    assert checked.exit_code == 2
    assert 'File "broken.py", line 1' in checked.stderr
    assert "expected what can be imported" in checked.stderr
