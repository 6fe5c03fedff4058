"""A cube that grows in stages, and what a driver does that finds it at any of them."""

from dataclasses import replace
from pathlib import Path

from cubes.small import SPEC, draw_inputs, fill, make_plan
from cubes.writer import next_files

from storage.cube.growth import create, grow

FIRST = make_plan("a", models=("likelihood", "posterior"))


STAGES = [
    [FIRST],
    [replace(FIRST, p=(0.9, 0.85))],
    [replace(FIRST, p=(0.9, 0.85), m=(4, 7))],
    [replace(FIRST, p=(0.9, 0.85), m=(4, 7)), make_plan("b", mixtures=2)],
    [replace(FIRST, p=(0.9, 0.85), m=(4, 7), replicates=4), make_plan("b", mixtures=4, mixture_chunk=2)],
]


LARGEST = {plan.name: plan for plan in STAGES[-1]}


def resume(path: Path) -> None:
    """What a driver does that finds a cube, whatever the last one was doing when it died."""
    (create, grow)[path.exists()](path, STAGES[-1], draw_inputs, SPEC, next_files(path))
    fill(path, STAGES[-1])
