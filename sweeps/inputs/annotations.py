"""The annotations of a cell whose design draws them, from its coordinates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweeps.annotations.draw import draw_annotations, draw_biased
from sweeps.annotations.pool import draw_from
from sweeps.designs import BIASED, asks
from sweeps.errors import given
from sweeps.plan import Cell
from sweeps.seeds import annotation_seed, order_seed


def cell_annotations(
    seed: int, cell: Cell, labels_true: NDArray[np.int16] | None, pool: NDArray[np.int32] | None
) -> NDArray[np.int32]:
    """Annotations of a cell whose design draws them, a function of its coordinates but the model.

    Parameters
    ----------
    seed : int
        Of the sweep.
    cell : Cell
        Which.
    labels_true : ndarray of shape (n_samples,) or None
        True labels, from which they are drawn.
    pool : ndarray of shape (n_annotations, 3) or None
        Annotations of a file, of which `m` are drawn in place of these. The draw does not depend on `p`:
        cells that are told another accuracy see the same annotations.

    Returns
    -------
    ndarray of shape (m, 3), int32
        Columns i, j and kind; none for a baseline.

    Raises
    ------
    ValueError
        If the design of the cell asks for its pairs: those are the first answers of a path of questions.
    """
    if cell.p is None:
        return np.empty((0, 3), dtype=np.int32)
    if asks(cell.design):
        raise ValueError(f"{cell}: the pairs of the design {cell.design!r} are asked for, not drawn")
    m, replicate = given(cell.m), given(cell.replicate)
    p = cell.p if pool is None else None
    where = annotation_seed(seed, cell.dataset, mixture=cell.mixture, p=p, m=m, replicate=replicate)
    rng = np.random.default_rng(where)
    if pool is not None:
        return draw_from(rng, pool, m)
    labels_true = given(labels_true)
    if cell.design == BIASED:
        of_order = order_seed(seed, cell.dataset, mixture=cell.mixture, replicate=replicate)
        order = np.random.default_rng(of_order).permutation(len(labels_true))
        return draw_biased(rng, labels_true, order, p=cell.p, m=m)
    return draw_annotations(rng, labels_true, p=cell.p, m=m)
