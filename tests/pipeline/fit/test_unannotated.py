"""Scores by true classes in the words of scikit-learn's users, and what is found without annotations."""

import json

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from solving.blobs import far_clusters

from sweep_clustering.pipeline.fit import unannotated as module
from sweep_clustering.pipeline.fit.unannotated import AGREEMENT, score_words, unannotated, with_truth

BLOBS, CLASSES = far_clusters()


def test_scores_are_those_of_scikit_learn_and_nmi_names_its_normaliser() -> None:
    # ten clusters of two classes: the normalisers are far apart
    truth = np.repeat([0, 1], 50)
    labels = np.where(np.arange(100) % 7 == 0, 9, 5 * truth + np.arange(100) % 5)
    found = with_truth(truth, labels)
    assert list(found) == list(AGREEMENT)
    assert found["nmi_arithmetic"] == pytest.approx(normalized_mutual_info_score(truth, labels))
    assert found["nmi"] == pytest.approx(normalized_mutual_info_score(truth, labels, average_method="min"))
    assert found["ari"] == pytest.approx(adjusted_rand_score(truth, labels))
    assert found["nmi"] > 1.5 * found["nmi_arithmetic"]
    values = {"nmi": 0.788, "nmi_arithmetic": 0.649, "ari": 0.5, "goldberger_kl": None, "centroid_index": 0}
    assert score_words(values) == (
        "nmi (min, as in the paper) 0.788, nmi (arithmetic, as scikit-learn) 0.649, ari 0.5, centroid_index 0"
    )


def test_k_means_and_a_mixture_are_scored_where_classes_are_known() -> None:
    assert unannotated(BLOBS, None, 3, 0) == ()
    found = unannotated(BLOBS, CLASSES, 3, 0)
    assert [(each.key, each.starts) for each in found] == [("k_means", 10), ("gaussian_mixture_full", 10)]
    for each in found:
        assert each.scores == pytest.approx({"nmi": 1, "nmi_arithmetic": 1, "ari": 1})
        assert json.dumps(each.to_json(), allow_nan=False)
    assert str(found[0]) == (
        "k-means, without annotations, best of 10: nmi (min) 1, nmi (arithmetic) 1, ari 1"
    )
    # more clusters than there are: the best of some starts, which follow from the seed
    rng = np.random.default_rng(1)
    X, truth = rng.normal(size=(80, 3)), rng.integers(2, size=80)
    first, again = unannotated(X, truth, 6, 5), unannotated(X, truth, 6, 5)
    assert first == again != unannotated(X, truth, 6, 6)
    starts = np.random.SeedSequence(5).generate_state(10).tolist()
    fits = [KMeans(6, n_init=1, random_state=state).fit(X) for state in starts]
    best = min(fits, key=lambda each: each.inertia_)
    assert first[0].scores["ari"] == pytest.approx(adjusted_rand_score(truth, best.labels_))


@pytest.mark.parametrize(
    ("X", "n_clusters", "reason"),
    [
        (np.arange(6.0).reshape(3, 2), 4, "3 samples for 4 Gaussians"),
        (np.array([[1e200, 0.0], [0.0, 1e200], [-1e200, 1.0]]), 2, ""),
        (np.zeros((4, 2)), 2, None),
    ],
)
def test_small_and_degenerate_tables_end_in_words(X: np.ndarray, n_clusters: int, reason: str | None) -> None:
    k_means, mixture = unannotated(X, np.arange(len(X)) % 2, n_clusters, 0)
    assert json.dumps([k_means.to_json(), mixture.to_json()], allow_nan=False)
    if reason is None:
        assert not mixture.reason
        return
    assert reason in mixture.reason
    assert set(mixture.scores.values()) == {None}
    assert str(mixture).startswith("mixture of full Gaussians, without annotations: none, ")


def test_fewer_starts_of_a_large_table_and_none_of_a_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    step = float(BLOBS.shape[0] * 3 * BLOBS.shape[1])
    monkeypatch.setattr(module, "WORK", 4 * step)
    monkeypatch.setattr(module, "MOST", step)
    k_means, mixture = unannotated(BLOBS, CLASSES, 3, 0)
    assert k_means.starts == 4
    assert mixture.reason == "the table is too large to try it here"
