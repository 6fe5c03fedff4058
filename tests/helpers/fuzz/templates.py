"""Good files of every kind, which the trials damage: made once, by the product itself."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from processes.sweeping import run

from storage.runfolder.folder import RunFolder
from storage.runfolder.records import (
    FailedWork,
    FailureRecord,
    JobList,
    JobRecord,
    LostJob,
    Submission,
    append_failure,
)

SWEEP = """
name = "tiny"
seed = 5
[grid]
datasets = [{name = "own", path = "own.csv", label_column = "kind"},
            {mixture = {n_clusters = [2], count = 2, n_samples = 12, n_features = 2}}]
p = [0.9]
m = [6, "1N"]
replicates = 2
models = ["unsupervised", "likelihood"]
restarts = 2
[search]
population = 2
offspring = 2
generations = 1
"""
FULL = (
    SWEEP.replace(
        'models = ["unsupervised", "likelihood"]',
        'models = ["conditional-auto", "posterior-full"]\n'
        'methods = ["k-means", {name = "mine", call = "own.py:cluster", '
        "options = {a = 1.5}, time_limit = 2.0}]",
    ).replace("restarts = 2", "restarts = 3")
    + """
method = "published"
crossover = "labels"
mutation = 0.2
held_out = true
variance_prior = 0.5
feature_weight = "effective"
proportions = "free"
[data]
scale = "standard"
unavailable = "skip"
[stop]
risk = 0.1
r_min = 2
"""
)
CELL = "own/p=0.9/m=6/replicate=0/likelihood"
LATER = "own/p=0.9/m=6/replicate=1/likelihood"

CLUSTER = """
local: {kind: local, workers: 2, dashboard_port: 0, memory_limit: 2GiB}
other:
  kind: address
  address: "tls://scheduler.example.org:8786"
  tls: {ca: ca.pem, cert: cert.pem, key: key.pem}
slurm:
  kind: slurm
  cores: 2
  memory: 4GB
  walltime: "10:00:00"
  queue: long
  workers: 3
  start_timeout: 12h
  job_extra_directives: ["--exclusive"]
  head: {cores: 1, memory: 2GiB, walltime: "1-00:00:00"}
pbs: &jobs {kind: pbs, cores: 1, memory: 2GB, walltime: "01:00:00"}
again: {<<: *jobs, kind: sge}
"""


@dataclass(frozen=True)
class Templates:
    """Folders to copy from.

    Parameters
    ----------
    inputs : Path
        Sweep files, a table as text and as .npz, labels, links, annotations, cluster.yaml.
    finished : Path
        Results of a whole run: cube, and run folder with every record.
    begun : Path
        Results of a run that was left with a journal that is not empty.
    """

    inputs: Path
    finished: Path
    begun: Path


def make_templates(folder: Path) -> Templates:
    """Write inputs, and run sweeps on them."""
    inputs = folder / "inputs"
    inputs.mkdir(parents=True)
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(5, 2)), rng.normal(4, 1, (4, 2))])
    kinds = ["a"] * 5 + ["b"] * 4
    rows = [f"{x!r},{y!r},{kind}" for (x, y), kind in zip(X.tolist(), kinds, strict=True)]
    (inputs / "own.csv").write_text("\n".join(["x,y,kind", *rows, ""]))
    (inputs / "plain.csv").write_text("\n".join([*(row[:-2] for row in rows), ""]))
    np.savez(inputs / "own.npz", X=X, y=np.array(kinds), notes=np.arange(3))
    (inputs / "labels").write_text("\n".join([*kinds, ""]))
    (inputs / "links").write_text("1,2,1\n3,4,0.5\n5,5,2\n# more\n1,6\n")
    (inputs / "annotations").write_text("1,2,must,1,ann\n3,9,cannot,2,bob,0.9\n5,5,m,2,ann\n")
    (inputs / "tiny.toml").write_text(SWEEP)
    (inputs / "full.toml").write_text(FULL)
    (inputs / "cluster.yaml").write_text(CLUSTER)
    (inputs / "own.py").write_text("def cluster(X, n_clusters, **options):\n    return [0] * len(X)\n")
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (inputs / name).touch()
    finished, begun = folder / "finished", folder / "begun"
    level = logging.getLogger("pipeline").level
    assert run(inputs / "tiny.toml", finished) == 0
    # the second redraw alone: what it has waits in the journal for the first
    assert run(inputs / "tiny.toml", begun, only=(LATER,)) == 0
    logging.getLogger("pipeline").setLevel(level)
    assert RunFolder(begun / "tiny.zarr").last_run.journal.stat().st_size > 1000
    for results in (finished, begun):
        _complete(RunFolder(results / "tiny.zarr"))
    return Templates(inputs, finished, begun)


def _complete(run: RunFolder) -> None:
    """Records that only a detached head, worker jobs and failures leave; and a holder of another machine.

    So no trial can take this process for the head of a run, and end it.
    """
    work = FailedWork(start=0, stop=2, known=(1.0,))
    append_failure(
        run.last_run.failures,
        FailureRecord(
            work=work, cause="ValueError: no", node="n1", job="7", traceback="a\nb", cell=LATER, at="now"
        ),
    )
    Submission(system="slurm", job="12", host="login", at=1.0).write(run.submission)
    job = JobRecord(name="j-0", job="7", node="n1", state="running", workers=1)
    lost = LostJob(name="j-1", job="8", node="n2", how="FAILED", at=2.0)
    JobList(wanted=2, jobs=(job,), n_lost=1, lost=(lost,), at=3.0).write(run.last_run.jobs)
    run.job_logs.mkdir(exist_ok=True)
    (run.job_logs / "j-0-7.out").write_text("started\n")
    run.head_log.write_text("head\n")
    for number in run.lease_numbers():
        lease = run.lease(number)
        record = json.loads(lease.read_bytes())
        record["process"].update(boot_id="another", host="elsewhere", pid=2**22)
        lease.write_text(json.dumps(record))
