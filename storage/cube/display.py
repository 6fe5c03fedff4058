"""The tree of a cube, which a notebook shows with the data sets and how much of them is done."""

from html import escape

import pandas as pd
import xarray as xr

from sweep_clustering.storage.cube.schema import ANSWERED, FAILED
from sweep_clustering.sweeps.plan import AXES


class DataTree(xr.DataTree):  # type: ignore[no-untyped-call]
    """The tree that `open_cube` returns: one of xarray, which shows itself in another way in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        nodes = sorted(
            (node for node in self.subtree if "status" in node.data_vars), key=lambda node: node.path
        )
        table = pd.DataFrame(map(_row, nodes)).to_html(index=False, border=0, justify="left") if nodes else ""
        title = escape(str(self.attrs.get("title", self.path)))
        return f"<div><p>{title}</p>{table}</div>{super()._repr_html_()}"  # type: ignore[no-untyped-call]


def _row(node: xr.DataTree) -> dict[str, object]:
    """Return the sizes of a node, and the states of its cells if they were read when it was opened."""
    status = node["status"]
    axes = " × ".join(f"{node.sizes[dim]} {dim}" for dim in AXES if dim in status.dims)
    row = {"node": node.path, "samples": node.sizes["sample"], "cells": status.size}
    if status.chunks is None:  # at an address the states would be a request each
        row |= {"done": int(status.isin(ANSWERED).sum()), "failed": int((status == FAILED).sum())}
    return row | {"axes": axes}
