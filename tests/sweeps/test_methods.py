"""Shipped methods as a sweep knows them."""

from __future__ import annotations

import re

from sweeps.methods import SHIPPED
from sweeps.models import MODEL_CODES


def test_names_can_stand_beside_models() -> None:
    assert not SHIPPED.keys() & MODEL_CODES.keys()
    assert all(re.fullmatch(r"[a-z][a-z-]*", name) for name in SHIPPED)


def test_each_says_what_it_is_with_a_year_and_how_often_it_is_called() -> None:
    for name, shipped in SHIPPED.items():
        assert re.search(r"\b(19|20)\d\d\b", shipped.text), name
        assert shipped.uses in ("links", "nothing")
        assert shipped.restarts >= 1
        assert shipped.package in ("", "sklearn")
