"""Where a method is found."""

from __future__ import annotations

import pickle
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.methods import shipped
from pipeline.methods.loading import ON_SCIKIT_LEARN, PLACES, MethodCall, load, version_of
from sweeps.errors import InputError
from sweeps.words import SHIPPED

SOURCE = '''
import pickle
from dataclasses import dataclass

@dataclass
class State:
    """Dataclasses look for their module."""
    value: int

class Holder:
    @staticmethod
    def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, shift=0):
        state = pickle.loads(pickle.dumps(State(shift)))
        return [state.value] * len(X)

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, shift=0):
    return Holder.cluster(X, 0, 0, 0, weights=0, accuracy=0, random_state=0, shift=shift)

def fails(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    raise KeyError("here")

number = 3
'''


def mine(attribute: str, **options: Any) -> MethodCall:
    return MethodCall("mine", f"folder/mine.py:{attribute}", SOURCE, options)


def answer(call: MethodCall) -> Any:
    empty = np.empty((0, 2), dtype=np.int64)
    weights = (np.empty(0), np.empty(0))
    return load(call)(np.zeros((2, 1)), 2, empty, empty, weights=weights, accuracy=None, random_state=0)


def test_every_shipped_method_is_there_and_takes_its_arguments() -> None:
    assert list(PLACES) == [name for name in PLACES if name in SHIPPED]
    assert set(PLACES) == set(SHIPPED)
    for name in SHIPPED:
        assert callable(load(MethodCall(name, name)))


def test_a_file_is_a_module_of_its_own() -> None:
    before = set(sys.modules)
    another = MethodCall("mine", "mine.py:cluster", f"{SOURCE}\n# not loaded yet\n")
    assert answer(another) == [0, 0]
    (private,) = set(sys.modules) - before
    assert answer(mine("cluster", shift=1)) == [1, 1]
    assert answer(mine("Holder.cluster", shift=1)) == [1, 1]
    load(another)
    assert len([name for name in set(sys.modules) - before if name.startswith(private[:14])]) <= 2


def test_a_traceback_shows_the_lines_of_the_file() -> None:
    with pytest.raises(KeyError) as failed:
        answer(mine("fails"))
    text = "".join(traceback.format_exception(failed.value))
    assert 'File "folder/mine.py", line 20, in fails\n    raise KeyError("here")' in text


def test_a_file_that_fails_is_no_module() -> None:
    broken = MethodCall("mine", "broken.py:cluster", "import sys\nraise OSError('no licence')\n")
    before = set(sys.modules)
    with pytest.raises(OSError, match="no licence"):
        load(broken)
    assert set(sys.modules) == before
    with pytest.raises(SyntaxError, match=r"broken.py, line 1"):
        load(MethodCall("mine", "broken.py:cluster", "def cluster(:\n"))


def test_a_call_travels() -> None:
    call = mine("cluster", shift=1)
    assert pickle.loads(pickle.dumps(call)) == call


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (MethodCall("a", "k-mean"), "found 'k-mean', expected a shipped method, package.module:function, or"),
        (MethodCall("a", "k-mean"), "did you mean 'k-means'?"),
        (MethodCall("a", "numpy:"), "found 'numpy:', expected a shipped method"),
        (MethodCall("a", "numpy:1st"), "found 'numpy:1st'"),
        (MethodCall("a", "numpi.linalg:eig"), "found no module 'numpi', expected one that is installed"),
        (MethodCall("a", "numpy.linalk:eig"), "found no module 'numpy.linalk'"),
        (MethodCall("a", "mine.py:cluster"), "found mine.py without its text, expected a file that was read"),
        (
            mine("clustr"),
            "found no 'clustr' in folder/mine.py, expected a function or a class (did you mean",
        ),
        (mine("number"), "found number, of type int, expected a function or a class"),
        (mine("cluster", shft=1), "found option 'shft', expected one of shift (did you mean 'shift'?)"),
        (mine("State"), "class State"),
    ],
)
def test_what_is_no_method_is_said(call: MethodCall, found: str) -> None:
    with pytest.raises(InputError) as refused:
        load(call)
    assert found in str(refused.value)
    assert str(refused.value).startswith(f"method {call.name!r}: ")


def test_a_module_that_something_installed_lacks_is_passed_on(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lacking_module.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        load(MethodCall("a", "lacking_module:cluster"))


def test_versions() -> None:
    assert version_of(mine("cluster")) == ""
    assert version_of(MethodCall("a", "sklearn.cluster:KMeans")) == f"scikit-learn {version('scikit-learn')}"
    assert version_of(MethodCall("k-means", "k-means")) == f"scikit-learn {version('scikit-learn')}"
    assert version_of(MethodCall("a", "pckmeans")) == f"sweep-clustering {version('sweep-clustering')}"
    assert version_of(MethodCall("a", "json:loads")) == ""


def test_what_is_said_to_be_computed_by_scikit_learn_imports_it() -> None:
    folder = Path(shipped.__file__).parent
    modules = {place.partition(":")[0] for place in PLACES.values()}
    using = {name for name in modules if "sklearn" in (folder / f"{name}.py").read_text()}
    assert using == set(ON_SCIKIT_LEARN)
