"""Labels as a table, put in place whole: `sweep fit --out` is tested with its command."""

from __future__ import annotations

import numpy as np
from solving.blobs import far_clusters

from kernels.settings import Settings
from pipeline.fit.labels import labels_csv
from pipeline.fit.solve import fit
from sweeps.annotations.files import Samples
from sweeps.data.table import SampleRows


def test_a_row_for_each_sample_by_what_it_is_called() -> None:
    X, labels = far_clusters()
    n = len(X)
    result = fit(X, [], n_clusters=3, model="unsupervised", restarts=2, settings=Settings(), seed=0)
    kept = np.arange(0, 2 * n, 2)
    header, *rows = labels_csv(Samples(SampleRows(2 * n, kept)), result).splitlines()
    assert header == "index,label"
    assert [int(row.split(",")[0]) for row in rows] == (kept + 1).tolist()
    assert [int(row.split(",")[1]) for row in rows] == result.best.labels.tolist()
    names = tuple(f'"{i}", of {n}' for i in range(n))
    quoted = labels_csv(Samples(SampleRows(n, None, names)), result).splitlines()[1]
    assert quoted == f'"""0"", of {n}",{result.best.labels[0]}'
    assert len(labels) == n
