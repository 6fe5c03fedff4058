"""Questions without K: `python -m benchmarks asking_open [--write]`, 20 minutes on two cores.

There are five batches of N / 10 questions each. Nine of ten answers are right, and this accuracy is given;
K is not. `query` asks one path of questions as for an open K, and one as if the K that each fit takes had
been named. The questions were chosen on sets that were looked at, iris and wine of scikit-learn among them.
They are judged on every second of the other sets of the clustering suite (../shared/data/suite beside the
checkout) with at most 400 rows, and on drawn tables of 5 and 10 classes.
"""

import warnings
from collections.abc import Iterator
from multiprocessing import Pool
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from open_clusters import MOST_ROWS, drawn_classes
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale
from suite import SUITE, best_published, read
from tables import Table, show

from sweep_clustering import AnnotatedClustering
from sweep_clustering.kernels.scores import adjusted_rand

ACCURACY = 0.9
BATCHES = 5
DRAWS = 2
STEP = 2
FALL = 0.03

CHOSEN_ON = {"iris": load_iris, "wine": load_wine}
LOOKED_AT = ("other/iris", "uci/wine", "uci/ecoli", "uci/glass", "sipu/flame", "fcps/hepta", "graves/zigzag")
DRAWN = ("5", "10")
OPEN = "as for an open K"
NAMED = "as if K were named"
QUESTIONS = (NAMED, OPEN)
COLUMNS = ("0", "N / 10", "N / 5", "3 N / 10", "2 N / 5", "N / 2", f"falls by more than {FALL}", "largest")
PATHS = Table("asking_open/ari", ("tables", "paths", "questions", *COLUMNS))
TABLES = (PATHS,)


class Job(NamedTuple):
    """A table by its name or the number of its classes, the questions, and a draw."""

    name: str
    questions: str
    draw: int

    @property
    def kind(self) -> str:
        """The line of the table that the job counts in."""
        if self.name in CHOSEN_ON:
            return self.name
        return "suite" if "/" in self.name else "drawn"


def read_table(job: Job) -> tuple[NDArray[np.float64], NDArray[np.integer]]:
    """Return the features and the classes of a table."""
    if job.kind == "suite":
        return read(SUITE, job.name)
    if job.kind == "drawn":
        return drawn_classes(np.random.default_rng([52, job.draw]), int(job.name))
    table = CHOSEN_ON[job.name]()
    return scale(table.data), table.target


def measure_path(job: Job) -> list[float]:
    """Return the ARI before and after each batch of a path."""
    warnings.simplefilter("ignore")
    X, truth = read_table(job)
    rng, pairs, is_must = np.random.default_rng([53, job.draw]), np.empty((0, 2), int), np.empty(0, bool)
    estimator = AnnotatedClustering(accuracy=ACCURACY, random_state=job.draw, n_jobs=1).fit(X)
    aris = [float(adjusted_rand(truth, estimator.labels_))]
    for _ in range(BATCHES):
        estimator.set_params(n_clusters=None if job.questions == OPEN else estimator.n_clusters_)
        batch = estimator.query(len(X) // 2 // BATCHES).positions
        is_same = truth[batch[:, 0]] == truth[batch[:, 1]]
        pairs = np.concatenate([pairs, batch])
        is_must = np.concatenate([is_must, is_same == (rng.random(len(batch)) < ACCURACY)])
        estimator.set_params(n_clusters=None)
        estimator.fit(X, must_link=pairs[is_must], cannot_link=pairs[~is_must])
        aris.append(float(adjusted_rand(truth, estimator.labels_)))
    return aris


def rows(jobs: list[Job], outcomes: list[list[float]]) -> Iterator[tuple[str, ...]]:
    """Yield the mean ARI of each kind of tables and questions, and how often a batch lowers it."""
    for kind, questions in dict.fromkeys((job.kind, job.questions) for job in jobs):
        paths = np.array(
            [
                aris
                for job, aris in zip(jobs, outcomes, strict=True)
                if (job.kind, job.questions) == (kind, questions)
            ]
        )
        falls = np.maximum(-np.diff(paths, axis=1), 0.0)
        n_falls, means = int((falls > FALL).sum()), [f"{mean:.3f}" for mean in paths.mean(axis=0)]
        yield kind, str(len(paths)), questions, *means, f"{n_falls} of {falls.size}", f"{falls.max():.3f}"


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="Put the table into the documents.")
def main(write: bool) -> None:
    """See above."""
    names = [name for name in best_published(SUITE) if len(read(SUITE, name)[0]) <= MOST_ROWS]
    judges = [name for name in names if name not in LOOKED_AT][::STEP]
    jobs = [
        Job(name, questions, draw)
        for name in (*CHOSEN_ON, *judges, *DRAWN)
        for questions in QUESTIONS
        for draw in range(1 if name in judges else DRAWS)
    ]
    with Pool() as pool:
        outcomes = pool.map(measure_path, jobs, chunksize=1)
    show({PATHS.name: PATHS.markdown(rows(jobs, outcomes))}, write=write)
