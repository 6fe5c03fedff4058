"""The one place that decides how kernels are compiled.

`nogil`, so that a worker's heartbeat continues during a restart. `error_model="numpy"`, because the checks
for a division by zero cost branches in inner loops; kernels guard their divisors instead, and so behave the
same with NUMBA_DISABLE_JIT=1. `parallel` off: the unit of parallel work is the restart. `fastmath` off: sums
keep their order, compiled or not.
"""

import functools
import hashlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np

from sweep_clustering.installation import unsupported_numpy

try:
    import numba
except ImportError as error:
    if "NumPy" not in str(error):
        raise
    raise unsupported_numpy(np.__version__, str(error)) from None

import numba.core.config
from llvmlite import ir
from numba import extending
from numba.core import cgutils, typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.core.registry import CPUDispatcher
from numba.core.types.containers import NamedTuple
from numba.core.typing.templates import AttributeTemplate

from sweep_clustering.kernels.cache import KernelCache, OwnFolder, cache_folder, compile_alone
from sweep_clustering.kernels.interrupt import call

# The doors: which kernels Python calls, and which are parts of those.

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

FOLDER: OwnFolder | None = None if numba.core.config.DISABLE_JIT else cache_folder()


def jit(function: F) -> F:
    """Compile a kernel on its first call; keep the machine code in the project's own folder.

    Kernels allocate nothing, not even by copying one slice onto another: without numba's runtime (`_nrt`) no
    array is reference counted, and counting the arrays of a search took four fifths of its time. Memory comes
    from Python: `state.new_state` and its like.
    """
    compiled = _njit(function)
    kernel = cast(Any, compiled)
    if not numba.core.config.DISABLE_JIT:
        kernel.__class__ = Entry
    if FOLDER is not None:
        kernel._cache = KernelCache(function, FOLDER)
        compile_alone(kernel, FOLDER)
    return compiled


def jit_inner(function: F) -> F:
    """As `jit`, for a kernel that other kernels alone call: it has no way in from Python."""
    # Said, as numba hands the options of a caller down to what is compiled on its behalf.
    return _njit(function, no_cpython_wrapper=True, pipeline_class=InnerCompiler, forceinline=False)


def jit_part(function: F) -> F:
    """As `jit_inner`, for a part of another kernel: always joined to it, for speed of a few percent.

    By LLVM: numba's own joining gives the same machine code, but types the part again at each place.
    """
    return _njit(function, no_cpython_wrapper=True, pipeline_class=InnerCompiler, forceinline=True)


def _njit(function: F, **options: Any) -> F:
    fixed = {"nogil": True, "error_model": "numpy", "fastmath": False, "parallel": False}
    compiled = numba.njit(no_cfunc_wrapper=True, _nrt=False, **fixed, **options)(function)
    return cast(F, compiled)


class Entry(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A kernel that Python calls: Ctrl-C ends it."""

    def __call__(self, *arguments: Any) -> Any:
        """Compile it if needed, and run it."""
        return call(super().__call__, arguments)


def by_pointer(cls: C) -> C:
    """Have kernels hand over instances of a named tuple by pointer; they read its fields, by name alone."""
    extending.typeof_impl.register(cls, _typeof)
    return cls


# How kernels hand tuples of arrays to each other by pointer.
#
# numba hands over a tuple by value, an array as seven words: `Data` and `State` were some four hundred
# arguments, unpacked by each function and pushed by each call. The first start took 1.7 times as long.


class Pointer(types.Type):
    """Type of a named tuple that is handed over by pointer.

    Parameters
    ----------
    fields : numba.types.BaseNamedTuple
        Type of the tuple.
    """

    def __init__(self, fields: Any) -> None:
        self.fields = fields
        # Not the types of all fields: the name of each kernel repeats it, in each module, for each call.
        digest = hashlib.sha256(str(fields).encode()).hexdigest()[:16]
        super().__init__(name=f"{fields.instance_class.__name__}*{digest}")


def _typeof(value: Any, context: Any) -> Pointer | None:
    found = [extending.typeof_impl(each, context) for each in value]
    # Also where all fields are of one type: as a structure, so that there is one way to find a field.
    return None if None in found else Pointer(NamedTuple(found, type(value)))


@extending.register_model(Pointer)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    """An address alone: the type of what lies there is kilobytes of text, which each use would repeat."""

    def __init__(self, manager: Any, pointer: Pointer) -> None:
        super().__init__(manager, pointer, cgutils.voidptr_t)


@extending.unbox(Pointer)
def _unbox(pointer: Pointer, value: Any, c: Any) -> extending.NativeValue:
    """Lay the tuple in the frame of the way in from Python, which outlives the call."""
    laid, is_error = c.context.get_value_type(pointer.fields), cgutils.false_bit
    tuple_ = cgutils.alloca_once(c.builder, laid)
    for place, kind in enumerate(pointer.fields.types):
        item = c.pyapi.tuple_getitem(value, place)
        failed = _read(kind, item, cgutils.gep_inbounds(c.builder, tuple_, 0, place), c)
        is_error = c.builder.or_(is_error, failed)
    address = c.builder.bitcast(tuple_, cgutils.voidptr_t)
    return extending.NativeValue(c.builder.call(_through(c.builder.module), (address,)), is_error)


def _read(kind: Any, value: Any, address: Any, c: Any) -> Any:
    """Lay a Python object at an address as a value of one type; whether that could not be done.

    By one function for all fields of the type: this code for each array was a sixth of that of the search.
    """
    if isinstance(kind, Pointer):  # it has to be laid in this frame, not in that of a function that is over
        native = c.unbox(kind, value)
        c.builder.store(native.value, address)
        return native.is_error
    module, name = c.builder.module, f"read {kind}"
    if name not in module.globals:
        reader = _function(module, name, ir.IntType(1), (c.pyapi.pyobj, address.type))
        builder = ir.IRBuilder(reader.append_basic_block())
        native = c.context.get_python_api(builder).to_native_value(kind, reader.args[0])
        builder.store(native.value, reader.args[1])
        builder.ret(native.is_error)
    return c.builder.call(module.globals[name], (value, address))


def _through(module: Any) -> Any:
    """Function that returns an address, which the compiler does not see through.

    So nothing is read there before all is laid, though each word is said to be the same at all times.
    """
    if "laid" not in module.globals:
        function = _function(module, "laid", cgutils.voidptr_t, (cgutils.voidptr_t,))
        function.attributes.add("optnone")
        ir.IRBuilder(function.append_basic_block()).ret(function.args[0])
    return module.globals["laid"]


def _function(module: Any, name: str, result: Any, arguments: tuple[Any, ...]) -> Any:
    function = ir.Function(module, ir.FunctionType(result, arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function


@extending.infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Pointer

    def generic_resolve(self, pointer: Pointer, name: str) -> Any:
        """Type of a field."""
        fields = pointer.fields
        return fields.types[fields.fields.index(name)] if name in fields.fields else None


@extending.lower_getattr_generic(Pointer)
def _field(context: Any, builder: Any, pointer: Pointer, value: Any, name: str) -> Any:
    place = pointer.fields.fields.index(name)
    kind = pointer.fields.types[place]
    held = context.get_value_type(kind)
    offset = ir.Constant(ir.IntType(64), _offsets(pointer, context)[place])
    address = builder.bitcast(builder.gep(value, (offset,), inbounds=True), held.as_pointer())
    return impl_ret_borrowed(context, builder, kind, _load(builder, address, held))


@functools.cache
def _offsets(pointer: Pointer, context: Any) -> list[int]:
    """Bytes from the start of a tuple to each of its fields."""
    laid = context.get_value_type(pointer.fields)
    return [laid.get_element_offset(context.target_data, place) for place in range(len(laid.elements))]


def _load(builder: Any, address: Any, kind: Any) -> Any:
    """What is at an address, word by word: none changes while kernels run, so none need be read twice."""
    if isinstance(kind, ir.types.Aggregate):
        loaded = ir.Constant(kind, ir.Undefined)
        for place, element in enumerate(kind.elements):
            part = _load(builder, cgutils.gep_inbounds(builder, address, 0, place), element)
            loaded = builder.insert_value(loaded, part, place)
        return loaded
    word = builder.load(address)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


# Kernels that become machine code inside of those that Python calls, and nowhere else.
#
# numba makes machine code of a function when it compiles it, and again, together with all that it calls, for
# each of its callers: on the way to the search every kernel was optimised and translated half a dozen times.
# Nothing runs those copies. Here a kernel that kernels alone call stays LLVM's intermediate code.

# What numba does to a kernel, in this order: of its own list, what changes the kernels there are.
# Each pass costs an analysis of the whole function. Left out are closures, comprehensions, expressions of
# whole arrays, `literally`, `literal_unroll`, `with` and numba's own joining: what needs one of them is not
# compiled.
PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    untyped_passes.DeadBranchPrune,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.NoPythonSupportedFeatureValidation,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class InnerCompiler(Compiler):  # type: ignore[misc]  # numba has no types
    """numba's compiler, with fewer passes, and an `InnerLibrary` in the place of machine code."""

    def define_pipelines(self) -> list[PassManager]:
        """The one list of passes."""
        manager = PassManager("kernels")
        manager.passes[:] = [(each, each.__name__) for each in PASSES]
        manager.finalize()
        return [manager]

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """Compile a kernel as far as its callers need it."""
        library = InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library = library
        return super().compile_extra(function)


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Intermediate code of one kernel and of all that it calls; its callers optimise it with their own."""

    # Stands for numba's generator of code, which is asked to give each function its environment: kernels make
    # no Python objects, and so read none. Its address would be looked up among machine code.
    codegen = SimpleNamespace(set_env=lambda name, environment: None)

    def _optimize_final_module(self) -> None:
        """Nothing is optimised before the whole is there."""

    def _finalize_final_module(self) -> None:
        """Nor made machine code of: what the kernel calls is linked, and that is all."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Address of the way in from Python: 0, there is none."""
        self._ensure_finalized()
        return 0
