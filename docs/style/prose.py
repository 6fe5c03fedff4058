"""Check the prose of pages and of messages: `python docs/style/prose.py [FILE ...]`.

The linter is proselint. `rules.toml` beside this file names its checks that are of use here, and adds the
rules of this project. Only sentences are checked: code, tables, formulas, addresses and the blocks that
benchmarks write are left out. The exit code is 0, and nothing is printed, when nothing was found.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin
from proselint.checks import __register__ as OF_PROSELINT
from proselint.config import Config
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckFlags, types
from proselint.registry.checks.engine import Fancy, RegexOptions
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parents[2]
RULES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))
OWN: dict[str, dict[str, Any]] = {rule["name"]: rule for rule in RULES["rule"]}

MARKDOWN = MarkdownIt("commonmark").enable("table")
for plugin in (dollarmath_plugin, front_matter_plugin, myst_block_plugin):
    MARKDOWN.use(plugin)
BENCHMARK = re.compile(r"<!-- benchmark: \S+ -->.*?<!-- /benchmark -->", re.DOTALL)
NOUN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)|\$[^$]+\$", re.DOTALL)  # code or a formula in a sentence
NO_PROSE = re.compile(
    r"<!--.*?-->|\]\([^)]*\)|<?https?:[^\s>]*>?|</?[a-z][^>]*>|\*+|(?<!\w)_|_(?!\w)|!?\[|\]", re.DOTALL
)
MARKER = re.compile(r"^[ \t]*(?:(?:[-*+>]|\d+[.)]|#+)[ \t]+)+", re.MULTILINE)
END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z0-9])")


class Finding(NamedTuple):
    file: str
    line: int
    rule: str
    text: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text!r}: {self.message}"


def check_of(rule: dict[str, Any]) -> Check:
    """The check of proselint that a rule with patterns is."""
    return Check(
        check_type=types.ExistenceSimple("|".join(f"(?:{pattern})" for pattern in rule["find"])),
        engine=Fancy(RegexOptions(case_insensitive=not rule.get("case", False), multi_line=True)),
        path=rule["name"],
        message=rule["say"].replace("{", "{{").replace("}", "}}"),
        flags=CheckFlags(allow_quotes=True),
    )


CheckRegistry().register_many((*OF_PROSELINT, *(check_of(rule) for rule in OWN.values() if "find" in rule)))
ENABLED = dict.fromkeys([*RULES["proselint"], *(name for name, rule in OWN.items() if "find" in rule)], True)


def sentences(text: str, line: int) -> Iterator[tuple[int, str, bool]]:
    """Line, words and whether it is the first, for each sentence of a paragraph; X is code or a formula."""
    text = NOUN.sub(lambda match: "X" + "\n" * match[0].count("\n"), text)
    text = MARKER.sub("", NO_PROSE.sub(lambda match: "\n" * match[0].count("\n"), text))
    start = 0
    for end in [*(gap.end() for gap in END.finditer(text)), len(text)]:
        if sentence := " ".join(text[start:end].split()):
            yield line + text[:start].count("\n"), sentence, start == 0
        start = end


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Line and source of each paragraph, heading and item of a page in Markdown."""
    page = BENCHMARK.sub(lambda match: "\n" * match[0].count("\n"), page)
    lines = page.splitlines(keepends=True)
    in_table = False
    for token in MARKDOWN.parse(page):
        in_table = token.type == "table_open" or (in_table and token.type != "table_close")
        if token.type == "inline" and token.map and not in_table:
            yield token.map[0] + 1, "".join(lines[slice(*token.map)])


def messages(code: str) -> Iterator[tuple[int, str]]:
    """Line and words of each text of Python code that is longer than a line, with X for what it fills in."""
    skipped = set()
    for node in ast.walk(tree := ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node) if part is not node}
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))  # a docstring
        if isinstance(node, ast.FunctionDef) and ".command(" in "".join(
            map(ast.unparse, node.decorator_list)
        ):
            yield node.body[0].lineno, ast.get_docstring(node) or ""  # help
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if id(node) not in skipped and len(text.split()) >= RULES["code"]["words"]:
            yield node.lineno, text


def applies(rule: str, file: str) -> bool:
    return any(fnmatch(file, pattern) for pattern in OWN.get(rule, {}).get("only", ["*"]))


def check_text(text: str, file: str) -> list[Finding]:
    """What the rules find in a page or in a file of code, whose name says which rules apply."""
    found = []
    config = Config(max_errors=1000, checks={name: True for name in ENABLED if applies(name, file)})
    for first_line, paragraph in messages(text) if file.endswith(".py") else paragraphs(text):
        for line, sentence, opens in sentences(paragraph, first_line):
            marked = f"¶ {sentence}" if opens and not MARKER.match(paragraph) else sentence
            for result in LintFile(file, marked).lint(config):
                start, end = result.check_result.span
                words = f"\n{marked}\n"[start:end].strip("¶ \n")
                found.append(
                    Finding(file, line, result.check_result.check_path, words, result.check_result.message)
                )
            for name, rule in OWN.items():
                count = len(sentence.split())
                if "sentence_words" in rule and applies(name, file) and count > rule["sentence_words"]:
                    found.append(
                        Finding(file, line, name, f"{sentence[:50]}...", f"{count} words: {rule['say']}")
                    )
    for name, rule in OWN.items():
        count = len(text.split())
        if "page_words" in rule and applies(name, file) and count > rule["page_words"]:
            found.append(Finding(file, 1, name, f"{count} words", rule["say"]))
    return found


def files() -> list[str]:
    """All that is checked, as paths from the top of the repository."""
    return sorted(
        {
            str(path.relative_to(ROOT))
            for pattern in (*RULES["pages"]["check"], *RULES["code"]["check"])
            for path in ROOT.glob(pattern)
        }
    )


def main(names: list[str]) -> int:
    """Print what is found in all files, or in those named."""
    failed = False
    for name in names or files():
        for finding in check_text((ROOT / name).read_text("utf-8"), name):
            print(finding)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
