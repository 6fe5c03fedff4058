"""Numbers of annotations as the sweep file states them: whole numbers, or shares of the samples."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import PlainSerializer

from sweeps.keytypes import Checked
from sweeps.validation import refusal

COUNT = r"\s*(\d+(?:\.\d*)?|\.\d+)?\s*N\s*"


@dataclass(frozen=True)
class AnnotationCount:
    """Number of annotations: a whole number, or a share of the number of samples (`"1.5N"`)."""

    text: str

    def resolve(self, n_samples: int) -> int:
        """Return the whole number for `n_samples`: floor(f·N), exact for the decimal digits written."""
        if self.text.endswith("N"):
            return math.floor(Fraction(self.text[:-1] or "1") * n_samples)
        return int(self.text)


def annotation_count(value: Any) -> AnnotationCount:
    """Number of annotations as a file, or the text kept in a cube, has it."""
    if isinstance(value, AnnotationCount):
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, str):
        match = re.fullmatch(COUNT, value)
        if match is not None and (match[1] is None or Fraction(match[1]) > 0):
            return AnnotationCount(f"{match[1] or '1'}N")
    elif isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31:
        return AnnotationCount(str(value))
    raise refusal('a whole number of at least 1, or a text such as "1.5N"')


Count = Annotated[
    AnnotationCount,
    Checked(
        annotation_count,
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": rf"^{COUNT}$|^\d+$"}]},
    ),
    PlainSerializer(lambda count: count.text),
]
