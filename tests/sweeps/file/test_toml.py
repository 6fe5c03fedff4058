"""The text of a sweep file: what takes too much to read is refused at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sweeps.errors import InputError
from sweeps.file.reading import load_sweep
from sweeps.file.toml import LONG_KEY, MOST_BYTES, MOST_NESTED, read_toml

DEEP = f"tables or lists nested deeper than {MOST_NESTED} levels"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("name = " + "[" * 5000, DEEP),
        ("name = " + "[" * 21 + "]" * 21, DEEP),
        ("name = " + "{a=" * 5000, DEEP),
        ("name = " + "{a=" * 100 + "1" + "}" * 100, DEEP),
        ("seed" + ".a" * 100_000 + " = 1", "line 1: found a key of more than 20 parts"),
        ("\n[a" + " . 'a'" * 100_000 + "]", "line 2: found a key of more than 20 parts"),
        ("seed = " + "9" * 9000, "a TOML error: Exceeds the limit (4300 digits)"),
        ("#" * (MOST_BYTES + 1), "1,048,577 bytes, expected at most 1,048,576"),
        ("a" * MOST_BYTES, "a TOML error"),
        ("=" * MOST_BYTES, "a TOML error"),
        ('"' * MOST_BYTES, "a TOML error"),
    ],
)
def test_what_is_refused_at_once(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    begin = time.perf_counter()
    with pytest.raises(InputError) as caught:
        load_sweep(path)
    assert found in str(caught.value)
    assert str(path) in str(caught.value)
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize("text", ["[search]\n[[search]]\n", "[[search]]\na = 1\n [ search ]\n"])
def test_searches_in_both_forms_are_explained(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"tables \[\[search\]\] are several: write one or the other"):
        read_toml(path)
    path.write_text("[[search]]\n= 1")
    with pytest.raises(InputError) as caught:
        read_toml(path)
    assert "write one or the other" not in str(caught.value)


def test_a_number_too_long_to_write_is_described(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("seed = 0x" + "f" * 9000)
    with pytest.raises(InputError, match="seed: found a number of thousands of digits, expected a whole"):
        load_sweep(path)


def test_lists_of_fractions_are_no_long_key(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("p = [" + ", ".join(f"0.{n}" for n in range(1, 500)) + "]\n[a.b.c]\nd.e = 1\n")
    assert len(read_toml(path)["p"]) == 499
    assert LONG_KEY.search("a" + ".a" * MOST_NESTED)
