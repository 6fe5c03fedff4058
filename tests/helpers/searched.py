"""Cells of made-up sweeps with several searches serve the tests of the words about them."""

import pandas as pd
from contests import cell, table

from sweep_clustering.sweeps.file.search import Search

SEARCHES = (
    Search(name="first"),
    Search(name="second", generations=3),
    Search(name="prior", variance_prior=1.0),
)
MORE = ("objective", "hits", "search", "design", "covariance_shape")


def search_draws(
    names: tuple[str, ...] = ("first", "second"), *, datasets: tuple[str, ...] = ("a", "b")
) -> pd.DataFrame:
    """Return four redraws of a model and a baseline, and a method.

    On the first data set the second search is 1 nat better in redraw 0, 2 nats worse in redraw 1 and the same
    in the others, takes half the CPU time, and finds its best twice as often; NMI is 0.1 higher in redraw 0.
    On others the two find the same.
    """
    rows: list[dict[str, object]] = []
    for dataset in datasets:
        for name in names:
            is_second = name == "second"
            more = {"search": name, "restarts_done": 4, "hits": 4 if is_second else 2}
            more["cpu_seconds"] = 1.0 if is_second else 2.0
            for redraw, moved in enumerate((1.0, -2.0, 0.0, 0.0)):
                moved *= is_second and dataset == "a"
                more |= {"p": 0.9, "replicate": redraw}
                nmi, objective = 0.5 + 0.1 * (moved > 0), -100.0 + moved
                rows.append(cell(dataset, "posterior", nmi, objective=objective, **more))
                rows.append(cell(dataset, "pckmeans", 0.3, objective=-9.0, **more))
            alone = {key: value for key, value in more.items() if key not in ("p", "replicate")}
            rows.append(cell(dataset, "unsupervised", 0.4, objective=-90.0, **alone))
        rows.append(cell(dataset, "k-means", 0.2, objective=-8.0, hits=1))
    cells = table(rows).assign(**{key: [row.get(key) for row in rows] for key in MORE})
    return cells.astype({"hits": "Int64", "objective": float})


def other_shapes() -> pd.DataFrame:
    """Return cells of a model that chooses its shape; the second search chose another one in redraw 1."""
    cells = search_draws()
    is_changed = (cells["search"] == "second") & (cells["replicate"] == 1) & (cells["model"] == "posterior")
    shapes = cells["covariance_shape"].where(cells["model"] != "posterior", "full").mask(is_changed, "tied")
    return cells.assign(covariance_shape=shapes)
