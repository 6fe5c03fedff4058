"""The registry's own promises, and how a raw file becomes a table."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from raw_files import iris_file

from sweeps.data.registry import BUILTIN, REGISTRY, Entry, parse_raw


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=BUILTIN)
def test_every_entry_is_complete(entry: Entry) -> None:
    assert REGISTRY[entry.name] is entry
    assert re.fullmatch("[0-9a-f]{64}", entry.sha256)
    assert re.fullmatch("[0-9a-f]{64}", entry.checksum)
    for address in (entry.url, entry.landing_page):
        assert address.startswith("https://")
    assert entry.licence
    start, stop = entry.features
    assert entry.n_features == stop - start > 0
    assert not start <= entry.class_column < stop, "the class is no feature"
    assert 2 <= entry.n_clusters == len(set(entry.class_names)) < entry.n_samples
    numeric = all(name.isdecimal() for name in entry.class_names)
    assert list(entry.class_names) == sorted(entry.class_names, key=int if numeric else str)


def test_names_files_and_tables_are_distinct() -> None:
    assert len({entry.sha256 for entry in REGISTRY.values()}) == len(BUILTIN)
    assert len({entry.checksum for entry in REGISTRY.values()}) == len(BUILTIN)


ENTRY = replace(
    REGISTRY["iris"],
    features=(1, 3),
    class_column=0,
    class_names=("a", "b"),
    header_lines=1,
    comment="%@",
    missing="?",
)


def test_a_raw_file_by_hand() -> None:
    content = (
        "header,that,is,skipped\n"
        "% a comment\n"
        "@data\n"
        "\n"
        "b, 1.5 , 2,9\n"
        "c,1,1,9\n"  # not one of the classes
        "a,?,3,9\n"  # a feature is missing
        "a,-1e3,4,?\n"  # missing, but in no feature
    )
    table = parse_raw(content.encode(), ENTRY)
    assert table.X.tolist() == [[1.5, 2.0], [-1000.0, 4.0]]
    assert table.labels_true is not None
    assert table.labels_true.tolist() == [1, 0]
    assert table.class_names == ("a", "b")


def test_runs_of_blanks_separate_cells() -> None:
    entry = replace(ENTRY, separator="", header_lines=0)
    assert parse_raw(b"a  1 \t 2\n  b 3   4\n", entry).X.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_real_file_has_the_registered_checksum() -> None:
    table = parse_raw(iris_file(), REGISTRY["iris"])
    assert table.X.shape == (150, 4)
    assert table.checksum() == REGISTRY["iris"].checksum
