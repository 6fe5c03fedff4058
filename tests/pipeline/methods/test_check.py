"""Whether a method keeps its contract."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.methods import template
from pipeline.methods.check import Report, check
from pipeline.methods.loading import MethodCall
from sweeps.words import SHIPPED

HEAD = """
import os, sys, time, warnings
import numpy as np
from pipeline import NoSolution, Solution
DRAWS = np.random.default_rng()
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
    assert [(each.instance, each.clusters) for each in found.outcomes] == [("links", 3), ("no links", 3)]
    assert all(outcome.seconds is not None for outcome in found.outcomes)


@pytest.mark.parametrize(
    ("body", "what", "found"),
    [
        ("    print('hello')\n" + GOOD, "prints", "lines, first 'hello'"),
        ("    sys.stderr.write('progress')\n" + GOOD, "prints", "lines, first 'progress"),
        ("    return DRAWS.integers(n_clusters, size=len(X))\n", "not reproducible", "another answer"),
        (
            "    CALLS.append(0)\n    return Solution([0] * len(X), float(len(CALLS)))\n",
            "not reproducible",
            "another answer",
        ),
        ("    X -= X.mean(axis=0)\n" + GOOD, "fails", "read-only"),
        ("    must_link[:] = 0\n" + GOOD, "fails", "read-only"),
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
    assert 'File "mine.py", line 10, in cluster' in breach.traceback
    (named,) = [each for each in report(body).outcomes if each.instance == "no links"]
    assert (named.clusters, named.note) == (None, "ValueError: no links")


def test_a_slow_method_is_named_and_ended() -> None:
    body = "    if len(must_link) == 0:\n        time.sleep(60)\n" + GOOD
    (breach,) = report(body, time_limit=0.3).breaches
    assert (breach.what, breach.where) == ("too slow", "no links")


def test_a_method_that_uses_nothing_gets_nothing() -> None:
    body = "    return Solution([0] * len(X), float(len(must_link) + (accuracy is not None)))\n"
    (outcome,) = report(body, uses="nothing").outcomes
    assert (outcome.instance, outcome.objective) == ("no links", 0.0)
    assert [each.objective for each in report(body).outcomes] == [10.0, 1.0]


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
