"""These are the plans of a cube that grows in stages."""

from dataclasses import replace

from cubes.small import make_plan

FIRST = make_plan("a", models=("likelihood", "posterior"))

STAGES = [
    [FIRST],
    [replace(FIRST, p=(0.9, 0.85))],
    [replace(FIRST, p=(0.9, 0.85), m=(4, 7))],
    [replace(FIRST, p=(0.9, 0.85), m=(4, 7)), make_plan("b", mixtures=2)],
    [replace(FIRST, p=(0.9, 0.85), m=(4, 7), replicates=4), make_plan("b", mixtures=4, mixture_chunk=2)],
]

LARGEST = {plan.name: plan for plan in STAGES[-1]}
