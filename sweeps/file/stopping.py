"""The adaptive stop of restarts, as the sweep file states it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sweeps.file import toml as tomlcheck
from sweeps.file.toml import Bad, Table, choice, whole

RULES = ("boender-rinnooy-kan", "good-turing")


@dataclass(frozen=True)
class Stop:
    """When a cell has had restarts enough.

    Parameters
    ----------
    rule : str
        One of `RULES`: how the probability that a restart finds something new is estimated.
    risk : float
        A cell stops when the estimate is below.
    r_min, step : int
        The rule is tested after `r_min`, `r_min + step`, ... restarts.
    """

    rule: str = RULES[0]
    risk: float = 0.05
    r_min: int = 10
    step: int = 5

    def to_dict(self) -> dict[str, Any]:
        """Values by key."""
        return asdict(self)


def read_stop(table: Table, restarts: int) -> Stop:
    """Read the table `[stop]` of a sweep whose cells have at most `restarts` restarts."""
    default = Stop()
    stop = Stop(
        rule=table.optional("rule", choice(RULES), default.rule),
        risk=table.required("risk", _risk, default.risk),
        r_min=table.optional("r_min", whole(2, 10**6), default.r_min),
        step=table.optional("step", whole(1, 10**6), default.step),
    )
    if stop.r_min >= restarts > 1:
        found = f"{stop.r_min} of at most {restarts} restarts"
        table.problem("r_min", found, "fewer than restarts of [grid]", "no cell could stop early")
    table.close()
    return stop


def _risk(value: Any) -> float:
    number = tomlcheck.real(value)
    if not 0 < number < 1:
        raise Bad("a probability between 0 and 1")
    return number
