"""The tree of a cube in a notebook shows its data sets, and how much of them is done."""

import re
from pathlib import Path

import xarray as xr
from cubes.small import SPEC, draw_inputs, filled_cube, make_plan

from sweep_clustering import open_cube
from sweep_clustering.storage.cube.growth import create


def rows_of(html: str) -> list[list[str]]:
    """Return the rows of the first table."""
    table = html.partition("</table>")[0]
    return [re.findall(r"<td>(.*)</td>", row) for row in table.split("<tr>")[1:]]


def test_a_notebook_shows_how_much_of_each_data_set_is_done(tmp_path: Path) -> None:
    plan = make_plan("iris")
    create(tmp_path / "empty.zarr", [plan], draw_inputs, SPEC)
    filled_cube(tmp_path / "whole.zarr", [plan])
    for name, share in (("empty", 0), ("whole", 1)):
        tree = open_cube(tmp_path / f"{name}.zarr")
        assert isinstance(tree, xr.DataTree)
        (iris, *_) = rows_of(tree._repr_html_())
        n_cells = tree["iris"]["status"].size
        assert iris[:4] == ["/iris", str(tree["iris"].sizes["sample"]), str(n_cells), str(share * n_cells)]
        assert "replicate" in iris[-1]
        assert rows_of(tree["iris"]._repr_html_())[0] == iris
        assert repr(tree).startswith("<xarray.DataTree>")
