"""The text of a sweep file as plain values, within bounds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from sweeps.errors import InputError, Problem
from sweeps.files import read_file

MOST_BYTES = 2**20
"""Of a file; the shipped ones have less than 2,000."""

MOST_NESTED = 20
"""Levels of tables and lists; a sweep file has five."""

# Before anything is parsed: the time tomllib takes grows with the square of the parts of a key.
LONG_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_NESTED}}}"""
)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    InputError
        If it cannot be read, is no TOML, or is larger or nested deeper than a sweep file needs.
    """
    content = read_file(path, MOST_BYTES, "a readable sweep file", pipe=True)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise _refused(path, "bytes that are not UTF-8", "a TOML file") from error
    long_key = LONG_KEY.search(text)
    if long_key is not None:
        line = text.count("\n", 0, long_key.start()) + 1
        raise _refused(f"{path}, line {line}", f"a key of more than {MOST_NESTED} parts", "a short key")
    try:
        values = tomllib.loads(text)
        nested = _is_nested(values)
    except RecursionError:
        nested = True
    except ValueError as error:  # a whole number of more than 4,300 digits is no TOMLDecodeError
        raise _refused(path, f"a TOML error: {error}", "a TOML file", _of_searches(text)) from error
    if nested:
        raise _refused(path, f"tables or lists nested deeper than {MOST_NESTED} levels", "a sweep file")
    return values


def _is_nested(values: object) -> bool:
    """Whether tables and lists are too deep, without recursion."""
    level = [values]
    for _ in range(MOST_NESTED):
        level = [
            child
            for value in level
            if isinstance(value, (dict, list))
            for child in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(level)


def _of_searches(text: str) -> str:
    """What to do about searches in both forms, of which the error of TOML says nothing to the point."""
    forms = set(re.findall(r"^[ \t]*(\[{1,2})[ \t]*search[ \t]*\]", text, flags=re.MULTILINE))
    return (
        "[search] is one search, and tables [[search]] are several: write one or the other"
        if len(forms) > 1
        else ""
    )


def _refused(where: object, found: str, expected: str, hint: str = "") -> InputError:
    return InputError([Problem(str(where), found, expected, hint)])
