"""Whether a method keeps its contract."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.methods import template
from pipeline.methods.check import Report, check
from pipeline.methods.loading import MethodCall

HEAD = """
import os, sys, time, warnings
import numpy as np
from pipeline import NoSolution, Solution
DRAWS = np.random.default_rng()

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
"""
GOOD = "    return np.random.default_rng(random_state).integers(n_clusters, size=len(X))\n"
LINKLESS = "    if len(must_link) == 0:\n        "


def report(body: str, uses: Any = "links", time_limit: float = 10.0) -> Report:
    return check(MethodCall("mine", "mine.py:cluster", HEAD + body, {}, time_limit), uses)


def test_a_method_that_keeps_it_has_no_breach() -> None:
    found = report('    warnings.warn("no output of mine")\n' + GOOD)
    assert (found.breaches, found.version) == ((), "")
    assert [(each.instance, each.clusters) for each in found.outcomes] == [("links", 3), ("no links", 3)]
    assert all(outcome.seconds is not None for outcome in found.outcomes)
    found = report("    raise NoSolution('never')\n")
    assert (found.breaches, {outcome.note for outcome in found.outcomes}) == ((), {"never"})


@pytest.mark.parametrize(
    ("body", "what", "found"),
    [
        ("    print('hello')\n" + GOOD, "prints", "lines, first 'hello'"),
        ("    return DRAWS.integers(n_clusters, size=len(X))\n", "not reproducible", "another"),
        ("    X -= X.mean(axis=0)\n" + GOOD, "fails", "read-only"),
        ("    return np.zeros(len(X) + 1)\n", "no usable answer", "found shape (31,), expected (30,)"),
        ("    os.fork()\n" + GOOD, "forks", "times: a process that the method forked came back"),
        (
            "    if os.fork() == 0:\n        time.sleep(99)\n" + GOOD,
            "leaves processes running",
            "times: processes that a method left",
        ),
        (f"{LINKLESS}time.sleep(60)\n{GOOD}", "too slow", "longer than its time limit of 0.3 s"),
    ],
)
def test_a_breach_is_named(body: str, what: str, found: str) -> None:
    assert any(found in each.found for each in report(body, time_limit=0.3).breaches if each.what == what)


def test_a_failure_comes_with_its_lines_and_its_problems() -> None:
    found = report(f"{LINKLESS}raise ValueError('no links')\n{GOOD}")
    (breach,) = found.breaches
    assert (breach.what, breach.where, breach.found) == ("fails", "no links", "ValueError: no links")
    assert 'File "mine.py", line 9, in cluster' in breach.traceback
    (named,) = [each for each in found.outcomes if each.instance == "no links"]
    assert (named.clusters, named.note) == (None, "ValueError: no links")
    # a method that uses nothing gets nothing
    body = "    return Solution([0] * len(X), float(len(must_link) + (accuracy is not None)))\n"
    (outcome,) = report(body, uses="nothing").outcomes
    assert (outcome.instance, outcome.objective) == ("no links", 0.0)
    assert [each.objective for each in report(body).outcomes] == [10.0, 1.0]


def test_shipped_methods_and_the_template_keep_it() -> None:
    with open(template.__file__, encoding="utf-8") as file:
        mine = MethodCall("mine", "my_method.py:cluster", file.read(), {"max_iter": 5})
    for call in (MethodCall("a", "spectral-links"), MethodCall("a", "correlation-clustering"), mine):
        found = check(call, "links")
        assert (found.breaches, found.outcomes[0].clusters) == ((), 3)
