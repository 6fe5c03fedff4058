"""Check the prose of pages and of code: `python docs/style/prose.py [FILE ...]`.

The linter is proselint. `rules.toml` beside this file names its checks that are of use here, and adds the
rules of this project. In pages only sentences are checked, in tables the cells with several: code, formulas,
addresses and the blocks that benchmarks write are left out. In the packages the messages are checked, and in
the rooms that `rules.toml` lists docstrings, comments and names. The exit code is 0, and nothing is printed,
if there is no finding.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
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
RULES_BY_NAME: dict[str, dict[str, Any]] = {rule["name"]: rule for rule in RULES["rule"]}

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
    """Return a rule with patterns as a check of proselint."""
    return Check(
        check_type=types.ExistenceSimple("|".join(f"(?:{pattern})" for pattern in rule["find"])),
        engine=Fancy(RegexOptions(case_insensitive=not rule.get("case", False), multi_line=True)),
        path=rule["name"],
        message=rule["say"].replace("{", "{{").replace("}", "}}"),
        flags=CheckFlags(allow_quotes=True),
    )


CheckRegistry().register_many(
    (*OF_PROSELINT, *(check_of(rule) for rule in RULES_BY_NAME.values() if "find" in rule))
)
ENABLED = dict.fromkeys(
    [*RULES["proselint"], *(name for name, rule in RULES_BY_NAME.items() if "find" in rule)], True
)


def sentences(text: str, line: int) -> Iterator[tuple[int, str, bool]]:
    """Yield line, words and whether it is the first, for each sentence; X stands for code or a formula."""
    text = NOUN.sub(lambda match: "X" + "\n" * match[0].count("\n"), text)
    text = MARKER.sub("", NO_PROSE.sub(lambda match: "\n" * match[0].count("\n"), text))
    start = 0
    for end in [*(gap.end() for gap in END.finditer(text)), len(text)]:
        if sentence := " ".join(text[start:end].split()):
            yield line + text[:start].count("\n"), sentence, start == 0
        start = end


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Yield line and source of each paragraph, heading and item of a page in Markdown."""
    page = BENCHMARK.sub(lambda match: "\n" * match[0].count("\n"), page)
    lines = page.splitlines(keepends=True)
    in_table = False
    for token in MARKDOWN.parse(page):
        in_table = token.type == "table_open" or (in_table and token.type != "table_close")
        if token.type == "inline" and token.map and not in_table:
            yield token.map[0] + 1, "".join(lines[slice(*token.map)])
        elif token.type == "inline" and token.map and END.search(token.content):  # a cell of sentences
            yield token.map[0] + 1, token.content


def messages(code: str) -> Iterator[tuple[int, str]]:
    """Yield line and words of each longer text in Python code, with X for the values that are filled in."""
    ids_to_skip = set()
    for node in ast.walk(tree := ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            ids_to_skip |= {id(part) for part in ast.walk(node) if part is not node}
        if isinstance(node, ast.Expr):
            ids_to_skip.add(id(node.value))  # a docstring
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
        if id(node) not in ids_to_skip and len(text.split()) >= RULES["code"]["words"]:
            yield node.lineno, text


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
UNDERLINE = re.compile(r"-{3,}$")
ENTRIES = {"Parameters", "Returns", "Yields", "Raises", "Attributes", "Warns", "Methods", "Other Parameters"}
UNREAD = {"Examples", "References", "See Also"}
DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:|pragma|mypy:|ruff:|pyright:|!|-\*-)")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and words of each paragraph and description of docstrings, without entries and examples."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, *DEFINITIONS)) or ast.get_docstring(node) is None:
            continue
        expression = node.body[0]
        lines = [line.rstrip() for line in (ast.get_docstring(node, clean=False) or "").splitlines()]
        margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line), default=0)
        lines = [lines[0].strip(), *(line[margin:] for line in lines[1:]), ""]
        section, start, paragraph = "", 0, ""
        for number, line in enumerate(lines):
            next_line = lines[number + 1] if number + 1 < len(lines) else ""
            is_header = bool(UNDERLINE.match(next_line)) and line and not line.startswith(" ")
            is_entry = section in ENTRIES and not line.startswith(" ")
            is_break = not line or is_header or is_entry or section in UNREAD or UNDERLINE.match(line)
            if is_break or line.startswith((">>>", "..")) or (line.startswith("    ") and not section):
                if paragraph:
                    yield expression.lineno + start, paragraph
                paragraph = ""
            else:
                start, paragraph = (start, f"{paragraph}\n{line}") if paragraph else (number, line)
            if is_header:
                section = line


def comments(code: str) -> Iterator[tuple[int, str]]:
    """Yield line and words of each comment; lines that follow each other are one comment."""
    start, end, words = 0, -1, ""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type != tokenize.COMMENT or DIRECTIVE.match(token.string):
            continue
        is_whole_line = token.line.lstrip().startswith("#")
        is_next = token.start[0] == end + 1 and is_whole_line
        if words and not is_next:
            yield start, words
        text = token.string.lstrip("#:").strip()
        start, words = (start, f"{words}\n{text}") if words and is_next else (token.start[0], text)
        end = token.start[0] if is_whole_line else -1
    if words:
        yield start, words


def new_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name for each variable, parameter, attribute, function and class of a file."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name


def check_names(tree: ast.Module, file: str) -> Iterator[Finding]:
    """Yield names that do not say what a value is, and statements with several constants."""
    for line, name in new_names(tree):
        if name.strip("_") in RULES["plain"]["names"]:
            yield Finding(file, line, "name", name, RULES["plain"]["say"])
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            names = [target.id for target in node.targets[0].elts if isinstance(target, ast.Name)]
            if len(names) > 1 and all(name.isupper() for name in names):
                yield Finding(file, node.lineno, "constants", ", ".join(names), "one constant a statement")


def is_plain(file: str) -> bool:
    """Whether a file stands in a room whose docstrings, comments and names are checked."""
    return bool({file, str(Path(file).parent)} & set(RULES["plain"]["rooms"]))


def applies(rule: str, file: str) -> bool:
    """Whether a rule is for a file."""
    return any(fnmatch(file, pattern) for pattern in RULES_BY_NAME.get(rule, {}).get("only", ["*"]))


def prose_of(text: str, file: str) -> Iterator[tuple[str, Iterator[tuple[int, str]]]]:
    """Yield each kind of prose in a file, to which a rule may be limited, with its lines and their text."""
    if not file.endswith(".py"):
        yield file, paragraphs(text)
        return
    if Path(file).parts[0] not in RULES["code"]["titles"]:
        yield file, messages(text)
    if is_plain(file):
        yield "docstring", docstrings(ast.parse(text))
        # As items of a list, which need not begin with a whole sentence.
        yield "comment", ((line, f"- {words}") for line, words in comments(text))


def check_text(text: str, file: str) -> list[Finding]:
    """Return the findings in a page or in a file of code, whose name says which rules apply."""
    findings = []
    for kind, pieces in prose_of(text, file):
        config = Config(max_errors=1000, checks={name: True for name in ENABLED if applies(name, kind)})
        limits = {
            name: rule
            for name, rule in RULES_BY_NAME.items()
            if "sentence_words" in rule and applies(name, kind)
        }
        for first_line, piece in pieces:
            for line, sentence, opens in sentences(piece, first_line):
                marked_text = f"¶ {sentence}" if opens and not MARKER.match(piece) else sentence
                for result in LintFile(file, marked_text).lint(config):
                    start, end = result.check_result.span
                    words = f"\n{marked_text}\n"[start:end].strip("¶ \n")
                    check = result.check_result
                    findings.append(Finding(file, line, check.check_path, words, check.message))
                count = len(sentence.split())
                findings.extend(
                    Finding(file, line, name, f"{sentence[:50]}...", f"{count} words: {rule['say']}")
                    for name, rule in limits.items()
                    if count > rule["sentence_words"]
                )
    for name, rule in RULES_BY_NAME.items():
        count = len(text.split())
        if "page_words" in rule and applies(name, file) and count > rule["page_words"]:
            findings.append(Finding(file, 1, name, f"{count} words", rule["say"]))
    if file.endswith(".py") and is_plain(file):
        findings.extend(check_names(ast.parse(text), file))
    return findings


def files() -> list[str]:
    """Return the files to check, as paths from the top of the repository."""
    return sorted(
        {
            str(path.relative_to(ROOT))
            for pattern in (
                *RULES["pages"]["check"],
                *RULES["code"]["check"],
                *(f"{room}/*.py" for room in RULES["plain"]["rooms"]),
            )
            for path in ROOT.glob(pattern)
        }
    )


def main(names: list[str]) -> int:
    """Print the findings in all files, or in the files of the command line, and return the exit code."""
    has_findings = False
    for name in names or files():
        for finding in check_text((ROOT / name).read_text("utf-8"), name):
            print(finding)
            has_findings = True
    return int(has_findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
