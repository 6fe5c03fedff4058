"""Colours of models on the page: those that the report has, without what draws its figures."""

from __future__ import annotations

import zlib

from sweeps.words import BASELINES, SHIPPED, is_model, split_model

TERMS = {"posterior": "var(--blue)", "likelihood": "var(--vermillion)", "conditional": "var(--green)"}
"""Variables of the style sheet, of each annotation term."""

ALONE = "var(--grey)"
METHODS = ("#a6761d", "#cc79a7", "#b0605a", "#4d9bc7", "#7a6fb0")
SHAPES = {
    "spherical": "",
    "common": "1.5 3",
    "diagonal": "8 2",
    "tied": "6 2 1.5 2",
    "full": "5 1.5 1 1.5 1 1.5",
}
"""Dashes of a line, by shape of covariances; others as `auto`."""

AUTO = "1 1.5 1 1.5 1 4"


def look(model: str) -> dict[str, str]:
    """Colour and dashes of a model's line, or of a method's."""
    if not is_model(model):
        names = list(SHIPPED)
        place = names.index(model) if model in names else zlib.crc32(model.encode())
        return {"color": METHODS[place % len(METHODS)], "dash": ("", "6 3", "1.5 3")[place % 3]}
    term, shape = split_model(model)
    if model in BASELINES:
        return {"color": ALONE, "dash": SHAPES.get(shape, AUTO) or "6 3"}
    return {"color": TERMS[term], "dash": SHAPES.get(shape, AUTO)}
