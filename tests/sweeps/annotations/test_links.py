"""Link files: what they mean, and every line that means nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.links import LINKS, Annotation, read_links
from sweeps.errors import InputError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "must.link"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text", ["1 2 1\n2 4 0.5\n", "1,2,1\n2, 4, .5", "1\t2\t1\r\n2\t4\t5e-1\r\n", "1 2\n 2 4 0.5 # y\n# x\n\n"]
)
def test_formats(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    assert read_links(path, 4, CANNOT) == [
        Annotation(path, 1, 0, 1, CANNOT, 1.0, LINKS, None),
        Annotation(path, 2, 1, 3, CANNOT, 0.5, LINKS, None),
    ]


def test_lines_are_kept_apart_and_numbered(tmp_path: Path) -> None:
    links = read_links(write(tmp_path, "3 1 1\n\n# none\n1 3 2.5\n3 1\n"), 3, MUST)
    assert [(link.line, link.first, link.second, link.count) for link in links] == [
        (1, 2, 0, 1),
        (4, 0, 2, 2.5),
        (5, 2, 0, 1),
    ]


def test_self_pair_carries_two_per_annotation(tmp_path: Path) -> None:
    links = read_links(write(tmp_path, "2 2 2\n2 2 4\n3 3\n1 1 1.5\n1 2 3\n"), 3, MUST)
    assert [link.count for link in links] == [1, 2, 1, 0.75, 3]
    assert [link.weight for link in links] == [2, 4, 2, 1.5, 3]
    assert [link.is_self_pair for link in links] == [True] * 4 + [False]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n"])
def test_empty_file_is_an_empty_annotation_graph(text: str, tmp_path: Path) -> None:
    assert read_links(write(tmp_path, text), 3, MUST) == []


def test_every_bad_line_is_said(tmp_path: Path) -> None:
    lines = {
        "1 2 1": None,
        "0 2 1": "sample 0",
        "1 6 1": "sample 6",
        "-1 2 1": "sample -1",
        "1 2 0": "weight 0",
        "1 2 -3": "weight -3",
        "1 2 nan": "weight nan",
        "1 2 inf": "weight inf",
        "1 2 1e12": None,
        "1 2 1e13": "weight 1e13",
        "1 2 x": "weight x",
        "1 2 ": None,
        "1": "'1'",
        "1 2 3 4": "'1 2 3 4'",
        "one two": "'one two'",
        "1.0 2": "'1.0 2'",
        "1,,2": "'1,,2'",
        "1_0 2": "'1_0 2'",
        "9" * 5000 + " 1": repr("9" * 60),
        "2 2 1": "weight 1 for the self pair of sample 2",
        "2 2 3": "weight 3 for the self pair of sample 2",
        "² 1": "'² 1'",
    }
    path = write(tmp_path, "\n".join(lines))
    with pytest.raises(InputError) as caught:
        read_links(path, 5, MUST)
    expected = [(f"{path}, line {n}", found) for n, found in enumerate(lines.values(), start=1) if found]
    assert [(problem.where, problem.found) for problem in caught.value.problems] == expected


def test_unreadable_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        read_links(tmp_path / "absent.link", 3, MUST)


def test_published_instance(shared_data: Path) -> None:
    folder = shared_data / "reference-vertebral"
    must = read_links(folder / "vertebral-must.link", 310, MUST)
    cannot = read_links(folder / "vertebral-cannot.link", 310, CANNOT)
    assert Counter(link.kind for link in [*must, *cannot]) == {MUST: 104, CANNOT: 206}
    assert Counter(link.count for link in [*must, *cannot]) == {1.0: 310}
    assert [link.first for link in must if link.is_self_pair] == [132, 181]
    labels = np.loadtxt(folder / "vertebral.label", dtype=int)
    assert all(labels[link.first] == labels[link.second] for link in must)
    assert all(labels[link.first] != labels[link.second] for link in cannot)
