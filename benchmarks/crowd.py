"""The gain of two accuracies for each annotator of a crowd: `python -m benchmarks crowd`.

Answers of workers about three breeds of dogs are read from ../shared/data/crowd beside the checkout, if they
are there. The other answers are drawn as the design "crowd" of a sweep draws them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from checkout import ROOT
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine
from tables import Table

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import DEFAULT
from sweep_clustering.kernels.unions.soft import fit_components
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.sweeps.annotations.draw import draw_accuracies, draw_crowd
from sweep_clustering.sweeps.file.spec import Crowd

DOGS = Table("crowd/dogs", ("classes", "two accuracies each", "one for all"))
DESIGNED = Table(
    "crowd/drawn",
    ("table", "annotators", "two accuracies each", "one for all", "differences"),
)
TABLES = (DOGS, DESIGNED)

ANSWERS = ROOT.parent / "shared" / "data" / "crowd" / "dogs3.npz"
STRUCTURES = ((1, "spherical"), (1, "tied"), (1, "full"), (4, "spherical"), (2, "diagonal"))
STARTS = 4
COMPONENTS = 10
CROWD = Crowd()


def layers_of(pairs: NDArray[np.integer], kinds: NDArray[np.integer], workers: Sequence[int]) -> list[Layer]:
    """Return two layers of each worker, whose accuracies are not given, without unsure answers."""
    numbers = np.asarray(workers)
    return [
        Layer(kind, pairs[is_used], None, None, annotator=worker)
        for worker in np.unique(numbers).tolist()
        for kind in (MUST, CANNOT)
        if (is_used := (numbers == worker) & (kinds == kind)).any()
    ]


def pool(layers: Sequence[Layer]) -> list[Layer]:
    """Return the same answers as those of one annotator."""
    return [replace(layer, annotator=0) for layer in layers]


def information_lost(labels: NDArray[np.integer], truth: NDArray[np.integer]) -> float:
    """Return the variation of information of two partitions in nats."""
    joint = np.zeros((labels.max() + 1, truth.max() + 1))
    np.add.at(joint, (labels, truth), 1.0 / len(labels))

    def entropy(shares: NDArray[np.float64]) -> float:
        return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())

    return 2.0 * entropy(joint.ravel()) - entropy(joint.sum(axis=0)) - entropy(joint.sum(axis=1))


def best_labels(
    X: NDArray[np.float64], layers: Sequence[Layer], n_components: int, shape: str
) -> NDArray[np.int64]:
    """Return the labels of the fit with the largest bound from several starts."""
    fits = [
        fit_components(
            X,
            layers,
            n_classes=3,
            components=n_components,
            covariance=shape,
            rng=np.random.default_rng(start),
        )
        for start in range(STARTS)
    ]
    return np.asarray(max(fits, key=lambda union: union.bound).classes.argmax(axis=1))


def standardise(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each feature with mean 0 and standard deviation 1."""
    return np.asarray((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12))


def dog_table() -> str:
    """Return the variation of information of the fits to the true breeds for each structure."""
    data = np.load(ANSWERS)
    answers, truth = data["answers"].astype(np.int64), data["y"].astype(np.int64)
    directions, values, _ = np.linalg.svd(standardise(data["X"].astype(np.float64)), full_matrices=False)
    X = directions[:, :COMPONENTS] * values[:COMPONENTS]
    kinds = np.where(answers[:, 2] == 1, MUST, CANNOT)
    layers = layers_of(answers[:, :2], kinds, answers[:, 3].tolist())
    rows = []
    for n_components, shape in STRUCTURES:
        losses = [
            information_lost(best_labels(X, crowd, n_components, shape), truth)
            for crowd in (layers, pool(layers))
        ]
        rows.append((f"{n_components} {shape}", *(f"{loss:.3f}" for loss in losses)))
    losses_of_choice = [
        information_lost(
            fit(
                X,
                crowd,
                n_clusters=3,
                model="conditional-any",
                covariance="any",
                restarts=STARTS,
                settings=DEFAULT,
                seed=0,
            ).best.labels.astype(np.int64),
            truth,
        )
        for crowd in (layers, pool(layers))
    ]
    rows.append(("as held-out answers choose", *(f"{loss:.3f}" for loss in losses_of_choice)))
    return DOGS.markdown(rows)


def designed_table(draws: int) -> str:
    """Return the mean adjusted Rand index of one tied Gaussian a class, over draws of a crowd."""
    rows = []
    for name, load in (("irises", load_iris), ("wines", load_wine)):
        X, truth = load(return_X_y=True)
        X = standardise(X)
        for count in (10, 30, 60):
            scores = np.empty((draws, 2))
            for draw in range(draws):
                rng = np.random.default_rng([draw, count])
                accuracies = draw_accuracies(
                    rng, count, quantiles=CROWD.accuracies, leaning=CROWD.leaning, p=0.7
                )
                m = count * CROWD.answers
                table = draw_crowd(rng, truth, accuracies, answers=CROWD.answers, unsure=0.05, m=m)
                layers = layers_of(table[:, :2], table[:, 2], (np.arange(m) // CROWD.answers).tolist())
                for side, crowd in enumerate((layers, pool(layers))):
                    scores[draw, side] = adjusted_rand(truth, best_labels(X, crowd, 1, "tied"))
            gains = scores[:, 0] - scores[:, 1]
            means = (f"{mean:.3f}" for mean in scores.mean(axis=0))
            rows.append((name, count, *means, f"{gains.min():+.3f}, {gains.max():+.3f}"))
    return DESIGNED.markdown(rows)


def measure(draws: int = 10) -> dict[str, str]:
    """Return both tables, or one if the answers of the workers are not at hand."""
    texts = {DESIGNED.name: designed_table(draws)}
    return texts | ({DOGS.name: dog_table()} if ANSWERS.exists() else {})
