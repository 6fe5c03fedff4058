"""Whether a method keeps its contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.methods import template
from pipeline.methods.check import Report, check, instances, without_links
from pipeline.methods.loading import MethodCall
from sweeps.words import SHIPPED

# Small problems on which a method is tried.


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


HEAD = """
import os, random, sys, time, warnings
import numpy as np
from pipeline import NoSolution, Solution
DRAWS = np.random.default_rng()
STARTED = time.time()
CALLS = []

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
"""
GOOD = "    return np.random.default_rng(random_state).integers(n_clusters, size=len(X))\n"


def report(body: str, uses: Any = "links", time_limit: float = 10.0) -> Report:
    call = MethodCall("mine", "mine.py:cluster", HEAD + body, {}, time_limit)
    return check(call, uses)


def test_a_method_that_keeps_it_has_no_breach() -> None:
    found = report('    warnings.warn("no output of mine")\n' + GOOD)
    assert found.breaches == ()
    assert found.version == ""
    assert {outcome.clusters for outcome in found.outcomes[:3]} == {3}
    assert all(outcome.seconds is not None for outcome in found.outcomes)


@pytest.mark.parametrize(
    ("body", "what", "found"),
    [
        ("    print('hello')\n" + GOOD, "prints", "lines, first 'hello'"),
        ("    sys.stderr.write('progress')\n" + GOOD, "prints", "lines, first 'progress"),
        ("    return DRAWS.integers(n_clusters, size=len(X))\n", "not reproducible", "another answer"),
        (
            "    return Solution([0] * len(X), STARTED)\n",
            "not reproducible",
            "another answer in another process",
        ),
        (
            "    return np.random.randint(n_clusters, size=len(X))\n",
            "draws from global generators",
            "not random_state alone",
        ),
        ("    return [random.randrange(n_clusters) for _ in X]\n", "draws from global generators", "random"),
        (
            "    CALLS.append(random_state)\n    return [(len(set(CALLS)) + 1) % n_clusters] * len(X)\n",
            "keeps something between calls",
            "after a call with another random_state",
        ),
        ("    X -= X.mean(axis=0)\n" + GOOD, "writes into its arguments", "read-only"),
        ("    must_link[:] = 0\n" + GOOD, "writes into its arguments", "read-only"),
        ("    weights[0].sort()\n" + GOOD, "writes into its arguments", "read-only"),
        ("    return [-1] * len(X)\n", "no usable answer", "found -1, expected 0 to"),
        ("    return np.zeros(len(X) + 1)\n", "no usable answer", "found shape (31,), expected (30,)"),
        ("    return Solution([0] * len(X), float('nan'))\n", "no usable answer", "objective: found nan"),
        ("    return must_link[0] * 0 + np.zeros(len(X))[0:0]\n", "fails", "IndexError: index 0 is out of"),
        ("    exit(1)\n", "fails", "SystemExit: 1"),
        ("    os.fork()\n" + GOOD, "forks", "times: a process that the method forked came back"),
        (
            "    if os.fork() == 0:\n        time.sleep(99)\n" + GOOD,
            "leaves processes running",
            "times: processes that a method left",
        ),
        ("    return np.ma.masked_less(np.arange(len(X)) % n_clusters, 1)\n", "no usable answer", "masked"),
    ],
)
def test_a_breach_is_named(body: str, what: str, found: str) -> None:
    breaches = [each for each in report(body).breaches if each.what == what]
    assert breaches
    assert any(found in each.found for each in breaches)


def test_a_failure_comes_with_its_lines_and_its_problems() -> None:
    body = "    if len(must_link) == 0:\n        raise ValueError('no links')\n" + GOOD
    (breach,) = report(body).breaches
    assert (breach.what, breach.where, breach.found) == ("fails", "no links", "ValueError: no links")
    assert 'File "mine.py", line 11, in cluster' in breach.traceback
    (named,) = [each for each in report(body).outcomes if each.instance == "no links"]
    assert (named.clusters, named.note) == (None, "ValueError: no links")


def test_a_slow_method_is_named_and_ended() -> None:
    body = "    if n_clusters == 12:\n        time.sleep(60)\n" + GOOD
    (breach,) = report(body, time_limit=0.3).breaches
    assert (breach.what, breach.where) == ("too slow", "12 clusters")


def test_links_that_it_says_it_does_not_use() -> None:
    body = "    return [min(len(must_link), n_clusters - 1)] * len(X)\n"
    (breach,) = report(body, uses="nothing").breaches
    assert breach.what == "uses links"
    assert report(GOOD, uses="nothing").breaches == ()
    assert report(body).breaches == ()


def test_no_solution_is_no_breach() -> None:
    found = report("    raise NoSolution('never')\n")
    assert found.breaches == ()
    assert {outcome.note for outcome in found.outcomes} == {"never"}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_methods_keep_it(name: str) -> None:
    assert check(MethodCall(name, name), SHIPPED[name].uses).breaches == ()


def test_the_template_keeps_it() -> None:
    with open(template.__file__, encoding="utf-8") as file:
        call = MethodCall("mine", "my_method.py:cluster", file.read(), {"max_iter": 5})
    found = check(call, "links")
    assert found.breaches == ()
    assert found.outcomes[0].clusters == 3
