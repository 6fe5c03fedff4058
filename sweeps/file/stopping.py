"""The adaptive stop of restarts, as the sweep file states it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sweeps.keytypes import Choice, Real, Whole
from sweeps.validation import Record

RULES = ("boender-rinnooy-kan", "good-turing")


class Stop(Record):
    """When a cell has had restarts enough."""

    rule: Annotated[str, Choice(RULES)] = Field(
        RULES[0], description="How the probability that a restart finds something new is estimated."
    )
    risk: Annotated[float, Real("a probability between 0 and 1", gt=0, lt=1)] = Field(
        description="A cell stops when the estimate is below."
    )
    r_min: Annotated[int, Whole(2, 10**6)] = Field(
        10, description="Restarts before the rule is first tested."
    )
    step: Annotated[int, Whole(1, 10**6)] = Field(5, description="Restarts between one test and the next.")
