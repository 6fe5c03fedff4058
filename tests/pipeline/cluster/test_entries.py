"""The text of cluster.yaml: keys as written, and everything that takes too much to read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipeline.cluster.entries import MOST_BYTES, read_entries
from pipeline.cluster.profiles import load_profile
from sweeps.errors import InputError

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def read(tmp_path: Path, text: str) -> object:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(text.encode())
    return read_entries(path)


@pytest.mark.parametrize("key", ["on", "8787", "no", "null", "1.5", "2001-01-01", "0x10"])
def test_a_key_is_the_text_that_is_written(tmp_path: Path, key: str) -> None:
    assert read(tmp_path, f"{key}: {{{key}: 3}}") == {key: {key: 3}}
    path = tmp_path / "cluster.yaml"
    path.write_text(f"{key}: {{kind: local, {key}: 3}}")
    with pytest.raises(InputError, match=f"found unknown key '{key}', expected one of dashboard_port"):
        load_profile(key, path)
    with pytest.raises(InputError) as caught:
        load_profile("another", path)
    assert f"no profile 'another', expected one of {', '.join(sorted([key, 'local']))}" in str(caught.value)


def test_anchors_and_merged_tables_are_read(tmp_path: Path) -> None:
    text = "a: &a {kind: local, workers: 2}\nb: {<<: *a, workers: 3}\nc: *a\n"
    assert read(tmp_path, text) == {
        "a": {"kind": "local", "workers": 2},
        "b": {"kind": "local", "workers": 3},
        "c": {"kind": "local", "workers": 2},
    }


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("local: " + "[" * 5000, "nested deeper than 20 levels"),
        ("local: " + "{a: " * 5000, "nested deeper than 20 levels"),
        ("- " * 5000, "nested deeper than 20 levels"),
        ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 99)),
         "line 20: found 21 levels with its aliases"),
        (BOMB, "values with what its aliases repeat, expected at most 10,000"),
        ("local: &a [*a]", "an alias inside of what it stands for"),
        ("local: {workers: " + "9" * 9000 + "}", "a YAML error: Exceeds the limit"),
        ("local: 2001-13-45", "a YAML error: month must be in 1..12"),
        ("a: 1\nb: 2\na: 3\n", "line 3: found the key 'a' again, expected each key once"),
        ("? [a]: 1\n", "line 1: found a table or a list as a key"),
        ("a: \0", "a YAML error"),
        ("#" * (MOST_BYTES + 1), "262,145 bytes, expected at most 262,144"),
    ],
)  # fmt: skip
def test_what_is_refused_at_once(tmp_path: Path, text: str, found: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert found in str(caught.value)
    assert str(tmp_path / "cluster.yaml") in str(caught.value)
    assert time.perf_counter() - begin < 10


def test_a_number_too_long_to_write_is_described(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("local: {kind: local, workers: 0x" + "f" * 9000 + "}")
    with pytest.raises(InputError, match="found a number of thousands of digits, expected a whole number"):
        load_profile("local", path)
