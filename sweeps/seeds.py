"""From the coordinates of a piece of work to its random stream.

A stream is a function of coordinates alone, never of order, of positions in a list or of Python's `hash`:
a grown or reordered sweep file draws the same numbers for the cells it shares with the old one. The layout
of the spawn key is a contract, pinned by golden values in the tests.
"""

import hashlib
from typing import TypedDict, Unpack

import numpy as np

from sweep_clustering.sweeps.words import MODEL_CODES

# In place of a coordinate that a stream does not depend on: the largest uint32, which no coordinate is.
ABSENT = 2**32 - 1

# Purposes: drawing a mixture, drawing annotations, one restart of the search, choosing a shape, a method, a
# batch of a path of questions.
DATA, ANNOTATIONS, SEARCH, CHOICE, METHOD, PATH = 0, 1, 2, 3, 4, 5


def accuracy_code(p: float) -> int:
    """Accuracy as a whole number of 1e-9, the resolution at which accuracies are distinct."""
    return round(p * 1e9)


def name_words(name: str) -> tuple[int, int]:
    """Two uint32 of a data set's name: the first eight bytes of its sha256, big-endian."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")


class Where(TypedDict):
    """Coordinates of a cell that its streams may depend on; None of those that it does not have."""

    mixture: int | None
    p: float | None
    m: int | None
    replicate: int | None


def _stream(
    seed: int,
    purpose: int,
    dataset: str,
    *,
    what: tuple[int, ...] = (ABSENT,),
    last: int = ABSENT,
    **where: Unpack[Where],
) -> np.random.SeedSequence:
    """Seed of one stream.

    Parameters
    ----------
    seed : int
        The sweep's own seed.
    purpose : int
        `DATA`, `ANNOTATIONS`, `SEARCH`, `CHOICE`, `METHOD` or `PATH`.
    dataset : str
        Name of the data set.
    what : tuple of int
        What draws: the code of a model, or the two words of a name.
    last : int
        The restart, or the number of answers before a batch of questions.
    **where
        The coordinates; None where the stream does not depend on one.

    Returns
    -------
    numpy.random.SeedSequence
        With `spawn_key = (purpose, name, name, mixture, p·1e9, m, replicate, *what, last)`.
    """
    p = where["p"]
    codes = where["mixture"], None if p is None else accuracy_code(p), where["m"], where["replicate"]
    key = (purpose, *name_words(dataset), *(ABSENT if code is None else code for code in codes), *what, last)
    return np.random.SeedSequence(seed, spawn_key=key)


def data_seed(seed: int, dataset: str, mixture: int) -> np.random.SeedSequence:
    """Seed of the draw of one mixture."""
    return _stream(seed, DATA, dataset, mixture=mixture, p=None, m=None, replicate=None)


def annotation_seed(seed: int, dataset: str, **where: Unpack[Where]) -> np.random.SeedSequence:
    """Seed of one annotation graph: every model of a cell sees the same annotations.

    Annotations of one's own do not depend on `p`, which is only what the models are told.
    """
    return _stream(seed, ANNOTATIONS, dataset, **where)


def order_seed(seed: int, dataset: str, *, mixture: int | None, replicate: int) -> np.random.SeedSequence:
    """Seed of the order of the samples that says which of them a biased design draws more often.

    It depends on neither `p` nor `m`, which the seed of an annotation graph always does.
    """
    return _stream(seed, ANNOTATIONS, dataset, mixture=mixture, p=None, m=None, replicate=replicate)


def path_seed(
    seed: int, dataset: str, *, mixture: int | None, p: float, replicate: int, design: str, start: int
) -> np.random.SeedSequence:
    """Seed of one batch of a path of questions, the one after `start` answers.

    The two words of the design's name stand in the place of a model's code. It is without `m`: a path is
    drawn once, and each m has a prefix of it.
    """
    where: Where = {"mixture": mixture, "p": p, "m": None, "replicate": replicate}
    return _stream(seed, PATH, dataset, **where, what=name_words(design), last=start)


def search_seed(
    seed: int, dataset: str, *, model: str, restart: int, **where: Unpack[Where]
) -> np.random.SeedSequence:
    """Seed of one restart of the search."""
    return _stream(seed, SEARCH, dataset, **where, what=(MODEL_CODES[model],), last=restart)


def choice_seed(seed: int, dataset: str, *, model: str, **where: Unpack[Where]) -> np.random.SeedSequence:
    """Seed of the folds and the searches by which a cell chooses its shape of covariances."""
    return _stream(seed, CHOICE, dataset, **where, what=(MODEL_CODES[model],))


def method_seed(seed: int, dataset: str, *, method: str, restart: int, **where: Unpack[Where]) -> int:
    """Seed of one call of a method, from its name: a whole number of 32 bits, `random_state`.

    The two words of the name stand in the place of a model's code.
    """
    stream = _stream(seed, METHOD, dataset, **where, what=name_words(method), last=restart)
    return int(stream.generate_state(1)[0])
