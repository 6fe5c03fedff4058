"""Each rule of the linter of prose finds its fault, and nothing in a good sentence or outside prose."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "style" / "prose.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", SCRIPT)
    assert spec
    assert spec.loader
    module = sys.modules["prose"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prose = load()
GUIDE = "docs/guides/example.md"


def names(text: str, file: str = GUIDE) -> set[str]:
    return {finding.rule for finding in prose.check_text(text, file)}


@pytest.fixture
def plain_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(prose.RULES["plain"], "rooms", ["pipeline/example.py"])


def docstring(sentence: str) -> set[str]:
    return names(f'def example():\n    """{sentence}"""\n', "pipeline/example.py")


@pytest.mark.parametrize("name", [name for name, rule in prose.RULES_BY_NAME.items() if "find" in rule])
@pytest.mark.usefixtures("plain_rooms")
def test_a_rule_finds_its_bad_sentence_and_not_the_mended_one(name: str) -> None:
    rule = prose.RULES_BY_NAME[name]
    check = docstring if rule.get("only") == ["docstring"] else names
    assert name in check(rule["bad"])
    assert check(rule["good"]) == set()


CODE = '''"""What there is in a table."""
LEAST, MOST = 1, 2

def rows(X, each):
    """How many rows a table has.

    Parameters
    ----------
    X
        Of shape (n, d).
    each
        Names of rows, wherein
        nothing is twice.

    Examples
    --------
    >>> "what there is"
    """
    found = len(X)  # of the table
    # The table
    # is told of it.
    # noqa: what there is
    return found
'''


@pytest.mark.usefixtures("plain_rooms")
def test_docstrings_comments_and_names_are_checked_in_plain_rooms() -> None:
    findings = [(finding.line, finding.rule) for finding in prose.check_text(CODE, "pipeline/example.py")]
    assert sorted(findings) == [
        (1, "what-first"),
        (1, "what-there-is"),
        (2, "constants"),
        (4, "name"),
        (5, "question-first"),
        (10, "of-first"),
        (12, "archaic"),
        (19, "name"),
        (19, "of-first"),
        (20, "told"),
    ]


def test_docstrings_comments_and_names_of_other_rooms_are_not_checked() -> None:
    assert prose.check_text(CODE, "tests/example.py") == []


def test_a_room_is_a_folder_without_the_folders_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(prose.RULES["plain"], "rooms", ["storage"])
    assert prose.is_plain("storage/files.py")
    assert not prose.is_plain("storage/cube/chunks.py")


def test_plain_rooms_are_there() -> None:
    assert [room for room in prose.RULES["plain"]["rooms"] if not (prose.ROOT / room).exists()] == []


def test_every_module_stands_in_a_plain_room() -> None:
    modules = [
        str(path.relative_to(prose.ROOT))
        for pattern in prose.RULES["code"]["check"]
        for path in prose.ROOT.glob(pattern)
    ]
    assert "pipeline/check.py" in modules
    assert [module for module in modules if not prose.is_plain(module)] == []


BAD = {
    "Of all randomness: each stream is a function of its coordinates.": "of-first",
    "A bucket is told as every program of its kind is told.": "told",
    "The reason is said in the log.": "told",
    "What a first try says is all there is to say of the table, and nothing is started.": "what-first",
    "It keeps what there is in the folder.": "what-there-is",
    "The pages have all that is to be said of speed.": "told",
    "Nobody knows of the units, nor can the fit tell of them.": "of-without-noun",
    "The first line: found nothing, expected this key.": "found-nothing",
    "The folder is made anew.": "archaic",
    "No file is left, save for the log.": "archaic",
    "Belike the run is over.": "archaism",  # proselint itself finds this
    "The two parts are merged together.": "redundancy.misc.after_the_deadline",
    "Where no K is named, 2 to 10 are tried.": "where-first",
    "Five restarts are enough, as they agree.": "as-because",
    "The log is in run folder.": "bare-noun",
    "Measured with 20 seeds, it takes a minute.": "measured",
}


@pytest.mark.parametrize("sentence", BAD)
def test_sentences_that_were_in_pages_are_found(sentence: str) -> None:
    assert BAD[sentence] in names(sentence)
    assert BAD[sentence] in names(f"A good sentence\nstands before. {sentence.replace(' ', chr(10), 2)}\n")


def test_a_paragraph_begins_with_a_sentence_and_an_item_need_not() -> None:
    assert names("Two ways: a file, or a pipe.") == {"label-first"}
    assert names("- Two ways: a file, or a pipe.\n- They are good. Two ways: a file, or a pipe.") == set()


def test_code_tables_formulas_comments_and_benchmarks_are_no_prose() -> None:
    bad = "It is told of what there is."
    page = f"""# Title

A sentence with `is told` and $is told$ in it.

    {bad}

```console
{bad}
```

$$
{bad}
$$

<!-- {bad} -->

| a | b |
|---|---|
| {bad} | {bad} |

<!-- benchmark: example -->
{bad}
<!-- /benchmark -->

[Words](is-told.md "is told").
"""
    assert names(page) == set()
    assert names(f"{page}\n{bad}\n") == {"told", "what-there-is"}


def test_a_finding_names_the_line_on_which_its_sentence_begins() -> None:
    page = "# Title\n\nOne line\nand `code\nof two`. It is\ntold.\n\n- an item\n- an item that is told\n"
    assert [(finding.line, finding.text) for finding in prose.check_text(page, GUIDE)] == [
        (5, "is told"),
        (9, "is told"),
    ]


def test_long_sentences_and_long_guides_are_counted() -> None:
    forty = " ".join(["word"] * 39) + " end."
    assert names(forty) == set()
    assert names(f"And {forty}") == {"long-sentence"}
    assert names(f"And {forty}", "docs/model.md") == set()  # no guide
    page = "A sentence of five words.\n\n" * 300
    assert names(page) == set()
    assert names(f"{page}More.\n") == {"long-guide"}
    assert names(f"{page}More.\n", "docs/design.md") == set()


def test_messages_and_help_of_code_are_checked_and_docstrings_are_not() -> None:
    code = '''"""It is told of what there is, and of other things that nobody needs here."""
def example(name):
    """It is told of what there is, and of other things that nobody needs here."""
    print("short: is told")
    raise ValueError(
        f"{name}: the address of the bucket is told "
        "as every program of its kind wants to have it"
    )

@main.command("fit")
def fit():
    """Fit a table whose rows are told apart by what is said of them in a file."""
'''
    findings = prose.check_text(code, "tests/example.py")
    assert [(finding.line, finding.rule) for finding in findings] == [
        (12, "told"), (12, "told"), (12, "of-without-noun"), (6, "told")
    ]  # fmt: skip


def test_the_command_fails_on_findings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("A good sentence.\n")
    (tmp_path / "CHANGELOG.md").write_text("It is told.\n")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setitem(prose.RULES, "pages", {"check": ["*.md"]})
    assert prose.main([]) == 1
    assert capsys.readouterr().out.startswith("CHANGELOG.md:1: told: 'is told': ")
    assert prose.main(["README.md"]) == 0
