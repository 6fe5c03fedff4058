"""Small problems on which a method is tried."""

from __future__ import annotations

import numpy as np

from pipeline.methods.instances import instances, without_links


def test_links_are_as_a_method_gets_them() -> None:
    for instance in instances():
        for links, weights in zip((instance.must_link, instance.cannot_link), instance.weights, strict=True):
            assert links.dtype == np.int64
            assert links.shape == (len(weights), 2)
            assert (links[:, 0] < links[:, 1]).all()
            assert len(np.unique(links, axis=0)) == len(links)
            assert links.max(initial=0) < len(instance.X)
            assert (weights >= 1).all()


def test_each_is_what_its_name_says() -> None:
    found = {instance.name: instance for instance in instances()}
    pairs = {
        name: [set(map(tuple, links.tolist())) for links in (each.must_link, each.cannot_link)]
        for name, each in found.items()
    }
    assert not set.intersection(*pairs["consistent links"])
    assert set.intersection(*pairs["contradictory links"])
    assert pairs["no links"] == [set(), set()]
    assert len(pairs["must-links that join all samples"][0]) == 29
    assert found["links and an accuracy that is not told"].accuracy is None
    assert found["one cluster"].n_clusters == 1
    repeated = found["repeated rows and a constant feature"].X
    assert 3 <= len(np.unique(repeated, axis=0)) < 30
    assert np.ptp(repeated[:, 1]) == 0


def test_they_are_always_the_same() -> None:
    for one, other in zip(instances(), instances(), strict=True):
        assert np.array_equal(one.X, other.X)
        assert np.array_equal(one.must_link, other.must_link)


def test_without_links_nothing_is_told() -> None:
    bare = without_links(instances()[0])
    assert len(bare.must_link) == len(bare.cannot_link) == 0
    assert bare.accuracy is None
