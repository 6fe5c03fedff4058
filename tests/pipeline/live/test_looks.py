"""The page has the colours of the report."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from pipeline.live.looks import look
from pipeline.report.parts import ink
from sweeps.words import BASELINES, MODEL_CODES, SHIPPED


@pytest.mark.parametrize("model", [*MODEL_CODES, *BASELINES, *SHIPPED, "one-of-mine"])
def test_a_model_has_the_colour_that_it_has_in_the_report(model: str) -> None:
    color = ink.mark(model).color
    variable = ink.VARIABLES.get(color)
    assert look(model)["color"] == (f"var({variable})" if variable else color)


def test_models_of_one_term_differ_in_their_lines() -> None:
    looks = [tuple(look(model).values()) for model in MODEL_CODES if model not in BASELINES]
    assert len(set(looks)) == len(looks)


def test_light_and_dark_are_those_of_the_report() -> None:
    def shades(package: str) -> list[dict[str, str]]:
        text = files(package).joinpath("page.css").read_text(encoding="utf-8")
        blocks = re.findall(r"\{([^{}]*--ink: [^{}]*)\}", text)
        return [dict(re.findall(r"(--\w+): (#\w+);", block)) for block in blocks]

    ours, theirs = shades("pipeline.live"), shades("pipeline.report.parts")
    assert len(ours) == len(theirs) == 3
    for mine, other in zip(ours, theirs, strict=True):
        assert other.items() <= mine.items()
