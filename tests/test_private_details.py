"""Undocumented details of libraries that the product needs are there, and have an upper bound.

A release of a library may drop such a detail without a word. So the newest release that was tested bounds the
library in pyproject.toml. Whoever raises the bound learns here what is gone, and which module needs it.
"""

import ast
import inspect
import re
import tomllib
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from checkout import ROOT
from packaging.requirements import Requirement

PACKAGES = ("pipeline", "storage", "sweeps", "kernels")

# The library, and the module of ours that rests on its details.
NUMBA, DISTRIBUTED, JOBQUEUE = "numba", "distributed", "dask-jobqueue"
JIT, CACHE, LANES, JOBS = "kernels/jit.py", "kernels/cache.py", "kernels/lanes.py", "pipeline/jobs/cluster.py"
PAGES, WORKER = "pipeline/cluster/pages.py", "pipeline/cluster/executor.py"
CONNECT, EXECUTOR = "pipeline/cluster/connect.py", "pipeline/cluster/executor.py"

# Names that are looked up: the library, the user of the name, the module, and the path of the name in it.
NAMES = [
    (NUMBA, JIT, "numba.core.config", "DISABLE_JIT"),
    *((NUMBA, JIT, "numba.core.options", f"DefaultOptions.{name}") for name in ("_nrt", "no_cfunc_wrapper")),
    (NUMBA, JIT, "numba.core.options", "DefaultOptions.no_cpython_wrapper"),
    (NUMBA, JIT, "numba.core.registry", "CPUDispatcher.compile"),
    (NUMBA, JIT, "numba.core.compiler", "Compiler.compile_extra"),
    (NUMBA, JIT, "numba.core.compiler", "Compiler.define_pipelines"),
    (NUMBA, JIT, "numba.core.compiler_machinery", "PassManager.finalize"),
    (NUMBA, JIT, "numba.core.codegen", "JITCodeLibrary._optimize_final_module"),
    (NUMBA, JIT, "numba.core.codegen", "JITCodeLibrary._finalize_final_module"),
    (NUMBA, JIT, "numba.core.codegen", "JITCodeLibrary._ensure_finalized"),
    (NUMBA, JIT, "numba.core.codegen", "JITCodeLibrary.get_pointer_to_function"),
    (NUMBA, JIT, "numba.core.datamodel.models", "PrimitiveModel"),
    (NUMBA, JIT, "numba.core.imputils", "impl_ret_borrowed"),
    (NUMBA, JIT, "numba.core.types.containers", "NamedTuple"),
    (NUMBA, JIT, "numba.core.typing.templates", "AttributeTemplate"),
    *(
        (NUMBA, LANES, "numba.core.typing.templates", name)
        for name in ("ConcreteTemplate", "infer_global", "signature")
    ),
    *((NUMBA, JIT, "numba.core.cgutils", name) for name in ("alloca_once", "gep_inbounds", "voidptr_t")),
    (NUMBA, CACHE, "numba.core.compiler", "CompileResult._rebuild"),
    (NUMBA, CACHE, "numba.core.compiler", "CompileResult._reduce"),
    (NUMBA, CACHE, "numba.core.compiler_lock", "global_compiler_lock"),
    (NUMBA, CACHE, "numba.core.codegen", "CPUCodegen.magic_tuple"),
    (NUMBA, CACHE, "numba.core.serialize", "dumps"),
    (DISTRIBUTED, JOBS, "distributed.deploy", "Cluster._update_worker_status"),
    (DISTRIBUTED, JOBS, "distributed.deploy", "SpecCluster._close"),
    (DISTRIBUTED, JOBS, "distributed.core", "Server.listen"),
    (DISTRIBUTED, PAGES, "distributed.node", "RoutingApplication.find_handler"),
    (DISTRIBUTED, PAGES, "distributed.http.utils", "RequestHandler"),
    (DISTRIBUTED, PAGES, "distributed.http.scheduler.prometheus", "routes"),
    (DISTRIBUTED, PAGES, "distributed.http.scheduler.info", "routes"),
    (DISTRIBUTED, PAGES, "distributed.http.scheduler.json", "routes"),
    (DISTRIBUTED, PAGES, "distributed.http.health", "routes"),
    (DISTRIBUTED, PAGES, "distributed.http.statics", "routes"),
    (DISTRIBUTED, WORKER, "distributed.core", "Status.closing_gracefully"),
    (DISTRIBUTED, WORKER, "distributed.worker_state_machine", "WorkerState.executing_count"),
    (DISTRIBUTED, WORKER, "distributed.batched", "BatchedSend.closed"),
    (DISTRIBUTED, WORKER, "distributed.scheduler", "Scheduler.retire_workers"),
    (DISTRIBUTED, CONNECT, "distributed.system", "MEMORY_LIMIT"),
    (JOBQUEUE, JOBS, "dask_jobqueue.core", "Job._submit_job"),
    (JOBQUEUE, JOBS, "dask_jobqueue.core", "Job._close_job"),
]

# Text of the source: attributes that exist at run time alone, keys of events, and messages.
TEXTS = [
    (NUMBA, JIT, "numba", "Numba needs NumPy "),
    (NUMBA, JIT, "numba.core.codegen", "self._finalized = True"),
    (NUMBA, CACHE, "numba.core.dispatcher", "self._cache.load_overload("),
    (NUMBA, CACHE, "numba.core.dispatcher", "self._cache.save_overload("),
    (JOBQUEUE, JOBS, "dask_jobqueue.core", "self.job_cls = default_job_cls"),
    (JOBQUEUE, JOBS, "dask_jobqueue.core", '"job_header": self.job_header'),
    (DISTRIBUTED, JOBS, "distributed.deploy.spec", "async with self._lock:"),
    (DISTRIBUTED, JOBS, "distributed.core", "self.listeners = []"),
    (DISTRIBUTED, PAGES, "distributed.node", "self.http_application = RoutingApplication("),
    (DISTRIBUTED, WORKER, "distributed.worker", "self.batched_stream = "),
    (DISTRIBUTED, WORKER, "distributed.worker", "self.lifetime = "),
    (DISTRIBUTED, WORKER, "distributed.worker", "self.lifetime_restart = "),
    (DISTRIBUTED, WORKER, "distributed.batched", "self.buffer = []"),
    (DISTRIBUTED, WORKER, "distributed.batched", "self.interval = "),
    (DISTRIBUTED, EXECUTOR, "distributed.scheduler", '"action": "remove-worker"'),
    (DISTRIBUTED, EXECUTOR, "distributed.scheduler", '"processing-tasks": '),
    (DISTRIBUTED, EXECUTOR, "distributed.scheduler", '"expected": '),
    (DISTRIBUTED, EXECUTOR, "distributed.worker_memory", 'log_event("worker-restart-memory"'),
    (DISTRIBUTED, CONNECT, "distributed.worker", "Failed to communicate with scheduler during heartbeat."),
    (DISTRIBUTED, CONNECT, "distributed.worker", "failed during get data with %s -> %s"),
    (DISTRIBUTED, CONNECT, "distributed.worker", "Worker stream died during communication: %s"),
    (DISTRIBUTED, CONNECT, "distributed.nanny", "Worker process died unexpectedly"),
]

# Names with an underscore that the standard library documents.
DOCUMENTED = {"_asdict", "_replace", "_fields", "_exit"}
# Of CPython, which is tested with every minor version that is supported.
OF_PYTHON = {"_run_exitfuncs"}


def demand(library: str, user: str) -> str:
    return f"{user} rests on it, and has to change before the bound of {library} is raised"


@pytest.mark.parametrize(("library", "user", "module", "name"), NAMES, ids=lambda value: str(value))
def test_a_name_that_a_library_does_not_document_is_there(
    library: str, user: str, module: str, name: str
) -> None:
    place: Any = import_module(module)
    for part in name.split("."):
        assert hasattr(place, part), f"{module} has no {name}: {demand(library, user)}"
        place = getattr(place, part)


@pytest.mark.parametrize(("library", "user", "module", "text"), TEXTS, ids=lambda value: str(value))
def test_a_text_that_a_library_does_not_promise_is_in_its_source(
    library: str, user: str, module: str, text: str
) -> None:
    source = inspect.getsource(import_module(module))
    assert text in source, f"the source of {module} lacks {text!r}: {demand(library, user)}"


def bounds(package: str) -> set[str]:
    """Return the operators of what pyproject.toml demands of a package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = {requirement.name: requirement for requirement in map(Requirement, project["dependencies"])}
    return {specifier.operator for specifier in lines[package].specifier}


# dask and distributed demand the same release of each other.
@pytest.mark.parametrize("package", sorted({library for library, *_ in (*NAMES, *TEXTS)} | {"dask"}))
def test_a_library_whose_details_are_used_has_an_upper_bound(package: str) -> None:
    assert "<" in bounds(package), f"{package} has no upper bound, and the product rests on its details"


@cache
def sources() -> dict[str, ast.Module]:
    """Return the syntax trees of the product, by path."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


def own_names(tree: ast.AST) -> set[str]:
    """Return the names that a module defines or assigns, also those of attributes of `self`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def test_no_other_private_name_of_a_library_is_used() -> None:
    ours = set().union(*map(own_names, sources().values()))
    known_names = {part for *_, path in NAMES for part in path.split(".")} | DOCUMENTED | OF_PYTHON | ours
    known_names |= {name for *_, text in TEXTS for name in re.findall(r"\b_\w+", text)}
    strange = []
    for place, tree in sources().items():
        for node in ast.walk(tree):
            names = [node.attr] if isinstance(node, ast.Attribute) else []
            if isinstance(node, ast.ImportFrom):
                names = [
                    part for alias in node.names for part in (*(node.module or "").split("."), alias.name)
                ]
            private = [name for name in names if re.fullmatch(r"_[a-z]\w*", name) and name not in known_names]
            strange += [f"{place}:{node.lineno} {name}" for name in private]
    assert not strange, "private names of libraries: do without them, or add them to NAMES"


# Parts of libraries that say themselves that they are internal.
INTERNAL = {"numba.core": {JIT, CACHE, LANES}, "zarr.core": set(), "pandas.core": set(), "dask._": set()}


@pytest.mark.parametrize("internal", INTERNAL)
def test_internal_modules_are_imported_only_where_their_details_are_tested(internal: str) -> None:
    users = set()
    for place, tree in sources().items():
        for node in ast.walk(tree):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(module.startswith(internal) for module in modules):
                users.add(place)
    assert users <= INTERNAL[internal]
