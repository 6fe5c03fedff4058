"""Annotation files: what a line means, and everything that is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.files import read_annotations
from sweeps.annotations.links import Annotation, read_links
from sweeps.errors import InputError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "all.annotations"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "1 2 must 1 ann\n3 3 cannot 4 bob 0.9\n",
        "1,2,m,1,ann\n3, 3, C, 4, bob, .9\n",
        "1\t2\t+\t1\tann\t\r\n3\t3\t-\t4\tbob\t9e-1\r\n",
        "1  2 Must 1.0 ann # sure\n3 3 CANNOT 4 bob 0.9\n# i j kind\n\n",
        "1,2,m,1,ann,\n3,3,c,4,bob,0.9\n",
    ],
)
def test_formats(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    assert read_annotations(path, 3) == [
        Annotation(path, 1, 0, 1, MUST, 1.0, "ann", None),
        Annotation(path, 2, 2, 2, CANNOT, 2.0, "bob", 0.9),
    ]


def test_names_are_any_word(tmp_path: Path) -> None:
    found = read_annotations(write(tmp_path, '1,2,m,1,Ann B.\n1,2,m,1,7\n1,2,m,1,"x, y"\n1,2,m,1,a=b\n'), 2)
    assert [annotation.annotator for annotation in found] == ["Ann B.", "7", "x, y", "a=b"]


def test_lines_say_the_same_as_link_files(tmp_path: Path) -> None:
    lines = ["1 2 1", "2 1 0.5", "3 3 6", "1 3 2"]
    (tmp_path / "links").write_text("\n".join(lines))
    links = read_links(tmp_path / "links", 3, MUST)
    path = write(tmp_path, "\n".join("{} {} must {} links".format(*line.split()) for line in lines))
    for link, annotation in zip(links, read_annotations(path, 3), strict=True):
        assert (link.first, link.second, link.kind, link.count, link.weight, link.annotator) == (
            annotation.first, annotation.second, annotation.kind,
            annotation.count, annotation.weight, annotation.annotator,
        )  # fmt: skip


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n"])
def test_empty_file_is_an_empty_annotation_graph(text: str, tmp_path: Path) -> None:
    assert read_annotations(write(tmp_path, text), 3) == []


def test_every_problem_of_every_line_is_said(tmp_path: Path) -> None:
    lines = {
        "1 2 must 1 ann": (),
        "0 2 must 1 ann": ("sample 0",),
        "1 6 must 1 ann": ("sample 6",),
        "1 b must 1 ann": ("sample 'b'",),
        "1.0 2 must 1 ann": ("sample '1.0'",),
        "1 2 mus 1 ann": ("kind 'mus'",),
        "1 2 must-link 1 ann": ("kind 'must-link'",),
        "1 2 must 0 ann": ("weight 0",),
        "1 2 must x ann": ("weight x",),
        "1 2 must nan ann": ("weight nan",),
        "1,2,must,,ann": ("weight ",),
        "4 4 cannot 3 ann": ("weight 3 for the self pair of sample 4",),
        "1,2,must,1,": ("no annotator",),
        "1 2 must 1 ann 0": ("accuracy 0",),
        "1 2 must 1 ann 1.1": ("accuracy 1.1",),
        "1 2 must 1 ann nan": ("accuracy nan",),
        "1 2 must 1 ann sure": ("accuracy sure",),
        "1 2 must 1": ("'1 2 must 1'",),
        "1 2 must 1 ann 0.5 x": ("'1 2 must 1 ann 0.5 x'",),
        "9 x what -1 ann 2": ("sample 9", "kind 'what'", "weight -1", "accuracy 2"),
    }
    path = write(tmp_path, "\n".join(lines))
    with pytest.raises(InputError) as caught:
        read_annotations(path, 5)
    expected = [
        (f"{path}, line {number}", found) for number, many in enumerate(lines.values(), 1) for found in many
    ]
    expected = [*expected[:20], (str(path), f"{len(expected) - 20} more problems like these")]
    assert [(problem.where, problem.found) for problem in caught.value.problems] == expected


def test_kind_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'cannot'"):
        read_annotations(write(tmp_path, "1 2 canot 1 ann"), 3)


def test_unreadable_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        read_annotations(tmp_path / "absent", 3)
