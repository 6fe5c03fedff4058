"""Words on what means are over, and on numbers of annotations: the same on the page, in text and in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.scoring.tables import MIXTURES, REDRAWS
from pipeline.text import plural

KINDS = {MIXTURES: "mixtures", REDRAWS: "redraws of the annotations"}
BOTH = "mixtures, and of a real data set redraws of the annotations"
SINGULAR = {MIXTURES: "mixture", REDRAWS: "redraw"}


def units(kinds: Iterable[object]) -> str:
    """What means are over, of a column `unit`, in which models that nothing draws again have none.

    Parameters
    ----------
    kinds : iterable of object
        `MIXTURES`, `REDRAWS`, or missing.
    """
    found = [kind for kind in KINDS if kind in set(kinds)]
    return BOTH if len(found) > 1 else KINDS[found[0]] if found else "nothing that is drawn"


def names(kinds: Iterable[object]) -> str:
    """The same in one word each."""
    return " and ".join(kind for kind in KINDS if kind in set(kinds)) or "nothing"


def drawn(number: int, kind: object) -> str:
    """A number of units: `"3 mixtures"`, `"1 redraw"`; `"1 cell"` of what nothing draws again."""
    return plural(number, SINGULAR.get(str(kind), "cell"))


def count_of(written: Mapping[tuple[str, int], str], dataset: str, m: int) -> str:
    """A number of annotations as the sweep file writes it: `"1.5N"`, or a number."""
    return written.get((dataset, m), str(m))
