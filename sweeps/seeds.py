"""From the coordinates of a piece of work to its random stream.

A stream is a function of coordinates alone, and not of orders, positions in a list or Python's `hash`:
a grown or reordered sweep file draws the same numbers for the cells it shares with the old one. The layout
of the spawn key is a contract, pinned by golden values in the tests.
"""

import hashlib
from typing import TypedDict, Unpack

import numpy as np

from sweep_clustering.sweeps.words import MODEL_CODES

# In place of a coordinate that a stream does not depend on: the largest uint32, which no coordinate is.
NO_VALUE = 2**32 - 1

# Purposes of streams.
DATA = 0  # draw of a mixture
ANNOTATIONS = 1
SEARCH = 2  # one restart
CHOICE = 3  # choice of a shape
METHOD = 4
PATH = 5  # a batch of questions


def accuracy_code(p: float) -> int:
    """Return an accuracy as a whole number of 1e-9, the resolution at which accuracies are distinct."""
    return round(p * 1e9)


def name_words(name: str) -> tuple[int, int]:
    """Return two uint32 for a name: the first eight bytes of its sha256, big-endian."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")


class Place(TypedDict):
    """Coordinates of a cell on which its streams may depend; a coordinate that it lacks is None."""

    mixture: int | None
    p: float | None
    m: int | None
    replicate: int | None


def _stream(
    seed: int,
    purpose: int,
    dataset: str,
    *,
    subject: tuple[int, ...] = (NO_VALUE,),
    last: int = NO_VALUE,
    **place: Unpack[Place],
) -> np.random.SeedSequence:
    """Return the seed of one stream.

    Its `spawn_key` is `(purpose, name, name, mixture, p·1e9, m, replicate, *subject, last)`. `subject` is
    the code of a model, or the two words of a name; `last` is the restart, or the number of answers before a
    batch.
    """
    p, m = place["p"], place["m"]
    values = place["mixture"], None if p is None else accuracy_code(p), m, place["replicate"]
    codes = (NO_VALUE if value is None else value for value in values)
    return np.random.SeedSequence(seed, spawn_key=(purpose, *name_words(dataset), *codes, *subject, last))


def data_seed(seed: int, dataset: str, mixture: int) -> np.random.SeedSequence:
    """Return the seed of the draw of one mixture."""
    return _stream(seed, DATA, dataset, mixture=mixture, p=None, m=None, replicate=None)


def annotation_seed(seed: int, dataset: str, **place: Unpack[Place]) -> np.random.SeedSequence:
    """Return the seed of one annotation graph: every model of a cell sees the same annotations.

    Annotations from a user's file do not depend on `p`, which is only an input of the models.
    """
    return _stream(seed, ANNOTATIONS, dataset, **place)


def order_seed(seed: int, dataset: str, *, mixture: int | None, replicate: int) -> np.random.SeedSequence:
    """Return the seed of the order of samples of a biased design, and of the annotators of a crowd.

    It depends on neither `p` nor `m`, in contrast to the seed of an annotation graph.
    """
    return _stream(seed, ANNOTATIONS, dataset, mixture=mixture, p=None, m=None, replicate=replicate)


def path_seed(
    seed: int, dataset: str, *, mixture: int | None, p: float, replicate: int, design: str, start: int
) -> np.random.SeedSequence:
    """Return the seed of one batch of a path of questions, the one after `start` answers.

    It does not depend on `m`: a path is drawn once, and each m has a prefix of it.
    """
    place: Place = {"mixture": mixture, "p": p, "m": None, "replicate": replicate}
    return _stream(seed, PATH, dataset, **place, subject=name_words(design), last=start)


def search_seed(
    seed: int, dataset: str, *, model: str, restart: int, **place: Unpack[Place]
) -> np.random.SeedSequence:
    """Return the seed of one restart of the search."""
    return _stream(seed, SEARCH, dataset, **place, subject=(MODEL_CODES[model],), last=restart)


def choice_seed(seed: int, dataset: str, *, model: str, **place: Unpack[Place]) -> np.random.SeedSequence:
    """Return the seed of the folds and the searches by which a cell chooses its shape of covariances."""
    return _stream(seed, CHOICE, dataset, **place, subject=(MODEL_CODES[model],))


def method_seed(seed: int, dataset: str, *, method: str, restart: int, **place: Unpack[Place]) -> int:
    """Return the seed of one call of a method, a whole number of 32 bits for `random_state`."""
    stream = _stream(seed, METHOD, dataset, **place, subject=name_words(method), last=restart)
    return int(stream.generate_state(1)[0])
