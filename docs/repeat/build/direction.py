"""KL in the other direction: `python docs/repeat/build/direction.py`, seconds, on the cubes of `run.py`.

The program writes `direction.csv`: means over mixtures of the divergence of the solution from the truth, as
the scores have it, and of the truth from the solution.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from claims import MODELS
from files import CHECKOUT, SCORES

from sweep_clustering.kernels.scores import cluster_gaussians, goldberger_kl, total_variance
from sweep_clustering.storage.cube.growth import open_cube

KEYS = ["n_clusters", "p", "m", "model"]


def divergences(cube: Path) -> Iterator[dict[str, Any]]:
    """Yield both directions in nats for every cell with annotations."""
    for name, node in open_cube(cube).children.items():
        n_clusters = int(name.removeprefix("mixtures_k"))
        data = node.to_dataset(inherit=False).squeeze(["p", "replicate"]).load()
        for mixture in data["mixture"].values:
            instance = data.sel(mixture=mixture)
            X = instance["X"].values
            truth = cluster_gaussians(X, instance["labels_true"].values, n_clusters)
            for m in instance["m"].values:
                for model in MODELS:
                    labels = instance["labels"].sel(m=m, model=model).values
                    gaussians = cluster_gaussians(X, labels, n_clusters)
                    yield {
                        "n_clusters": n_clusters,
                        "p": float(instance["p"]),
                        "m": m,
                        "model": model,
                        "of_solution": goldberger_kl(*gaussians, *truth, total_variance(X)),
                        "of_truth": goldberger_kl(*truth, *gaussians, total_variance(X)),
                    }


def main() -> None:
    """Write the means."""
    cubes = sorted((CHECKOUT / "results").glob("mixtures-p[01][0-9].zarr"))
    table = pd.DataFrame(row for cube in cubes for row in divergences(cube))
    table.groupby(KEYS).agg(["mean", "sem"]).round(5).pipe(flatten).to_csv(
        SCORES / "direction.csv", index=False
    )


def flatten(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with columns of one level, and the groups among them."""
    table.columns = ["_".join(column) for column in table.columns]
    return table.reset_index()


if __name__ == "__main__":
    main()
