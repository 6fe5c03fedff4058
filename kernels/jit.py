"""The compilation of kernels.

`nogil` is on, so that a worker's heartbeat continues during a restart. `error_model` is "numpy", because
checks for a division by zero cost branches in inner loops; kernels guard their divisors instead, and so
behave the same with NUMBA_DISABLE_JIT=1. `parallel` is off, as restarts run in parallel. `fastmath` is off,
so that sums keep their order, compiled or not.
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
from numba.core import cgutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.core.registry import CPUDispatcher
from numba.core.types.containers import NamedTuple
from numba.core.typing.templates import AttributeTemplate

from sweep_clustering.kernels.cache import KernelCache, OwnFolder, cache_folder, compile_alone
from sweep_clustering.kernels.interrupt import call

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

FOLDER: OwnFolder | None = None if numba.core.config.DISABLE_JIT else cache_folder()


def jit(function: F) -> F:
    """Compile a kernel that Python calls on its first call, and keep the machine code on disk.

    Kernels allocate nothing, not even by copying one slice onto another. Without numba's runtime (`_nrt`) no
    array is reference counted; counting the arrays of a search took four fifths of its time. Memory comes
    from Python, as from `state.new_state`.
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
    """Compile a kernel that other kernels alone call: Python cannot call it."""
    # `forceinline` is explicit, as numba passes the options of a caller down to the kernels it calls.
    return _njit(function, no_cpython_wrapper=True, pipeline_class=InnerCompiler, forceinline=False)


def jit_part(function: F) -> F:
    """Compile a kernel that LLVM inlines in its callers, which makes them a few percent faster.

    numba's own inlining gives the same machine code, but types the kernel again for every call.
    """
    return _njit(function, no_cpython_wrapper=True, pipeline_class=InnerCompiler, forceinline=True)


def _njit(function: F, **options: Any) -> F:
    defaults = {"nogil": True, "error_model": "numpy", "fastmath": False, "parallel": False}
    compiled = numba.njit(no_cfunc_wrapper=True, _nrt=False, **defaults, **options)(function)
    return cast(F, compiled)


class Entry(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A kernel that Python calls: Ctrl-C ends it."""

    def __call__(self, *arguments: Any) -> Any:
        """Compile the kernel if needed, and run it."""
        return call(super().__call__, arguments)


def by_pointer(cls: C) -> C:
    """Have kernels pass instances of a named tuple by pointer; they read its fields by name."""
    extending.typeof_impl.register(cls, _typeof)
    return cls


# Tuples of arrays that kernels pass by pointer.
#
# numba passes a tuple by value, and an array in it as seven words: `Data` and `State` were some four hundred
# arguments, unpacked by each function and pushed by each call. The first start took 1.7 times as long.


class Pointer(types.Type):
    """Type of a named tuple that is passed by pointer; `fields` is numba's type of the tuple."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields
        # The name is short, as the names of kernels repeat it in every module and for every call.
        digest = hashlib.sha256(str(fields).encode()).hexdigest()[:16]
        super().__init__(name=f"{fields.instance_class.__name__}*{digest}")


def _typeof(value: Any, context: Any) -> Pointer | None:
    kinds = [extending.typeof_impl(field, context) for field in value]
    # A structure even if all fields have one type, so that fields are found in one way.
    return None if None in kinds else Pointer(NamedTuple(kinds, type(value)))


@extending.register_model(Pointer)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    """An address alone: the type of its tuple is kilobytes of text, which every use would repeat."""

    def __init__(self, manager: Any, pointer: Pointer) -> None:
        super().__init__(manager, pointer, cgutils.voidptr_t)


@extending.unbox(Pointer)
def _unbox(pointer: Pointer, value: Any, c: Any) -> extending.NativeValue:
    """Store the tuple in the frame of the entry from Python, which outlives the call."""
    structure, is_error = c.context.get_value_type(pointer.fields), cgutils.false_bit
    tuple_ = cgutils.alloca_once(c.builder, structure)
    for place, kind in enumerate(pointer.fields.types):
        item = c.pyapi.tuple_getitem(value, place)
        has_failed = _store(kind, item, cgutils.gep_inbounds(c.builder, tuple_, 0, place), c)
        is_error = c.builder.or_(is_error, has_failed)
    address = c.builder.bitcast(tuple_, cgutils.voidptr_t)
    return extending.NativeValue(c.builder.call(_opaque(c.builder.module), (address,)), is_error)


def _store(kind: Any, value: Any, address: Any, c: Any) -> Any:
    """Store a Python object at an address as a value of one type; return whether that failed.

    One function stores all fields of a type: this code for each array was a sixth of the code of the search.
    """
    if isinstance(kind, Pointer):  # it must be stored in this frame, as that of a function would end
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


def _opaque(module: Any) -> Any:
    """Return a function that returns an address, and that the compiler cannot look into.

    So nothing is read there before everything is stored, although loads are declared invariant.
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
        """Return the type of a field."""
        fields = pointer.fields
        return fields.types[fields.fields.index(name)] if name in fields.fields else None


@extending.lower_getattr_generic(Pointer)
def _field(context: Any, builder: Any, pointer: Pointer, value: Any, name: str) -> Any:
    place = pointer.fields.fields.index(name)
    kind = pointer.fields.types[place]
    field = context.get_value_type(kind)
    offset = ir.Constant(ir.IntType(64), _offsets(pointer, context)[place])
    address = builder.bitcast(builder.gep(value, (offset,), inbounds=True), field.as_pointer())
    return impl_ret_borrowed(context, builder, kind, _load(builder, address, field))


@functools.cache
def _offsets(pointer: Pointer, context: Any) -> list[int]:
    """Return the bytes from the start of a tuple to each of its fields."""
    structure = context.get_value_type(pointer.fields)
    places = range(len(structure.elements))
    return [structure.get_element_offset(context.target_data, place) for place in places]


def _load(builder: Any, address: Any, kind: Any) -> Any:
    """Load a value word by word: none changes while kernels run, so none need be read twice."""
    if isinstance(kind, ir.types.Aggregate):
        value = ir.Constant(kind, ir.Undefined)
        for place, element in enumerate(kind.elements):
            part = _load(builder, cgutils.gep_inbounds(builder, address, 0, place), element)
            value = builder.insert_value(value, part, place)
        return value
    word = builder.load(address)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


# Kernels that become machine code as parts of kernels that Python calls, and nowhere else.
#
# numba makes machine code of a function when it compiles it, and again, together with all functions that it
# calls, for each of its callers: every kernel of the search was optimised and translated half a dozen times.
# Nothing runs those copies. Here a kernel that kernels alone call stays LLVM's intermediate code.


class InnerCompiler(Compiler):  # type: ignore[misc]  # numba has no types
    """numba's compiler, which makes an `InnerLibrary` instead of machine code."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """Compile a kernel as far as its callers need it."""
        library = InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library = library
        return super().compile_extra(function)


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Intermediate code of a kernel and of all kernels that it calls, which its callers optimise."""

    # Replaces numba's code generator, which would look up the address of each function's environment among
    # machine code. Kernels make no Python objects, and so read no environment.
    codegen = SimpleNamespace(set_env=lambda name, environment: None)

    def _optimize_final_module(self) -> None:
        """Optimise nothing before the whole is there."""

    def _finalize_final_module(self) -> None:
        """Make no machine code: the kernels that this one calls are only linked."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0 as the address of the entry from Python, which does not exist."""
        self._ensure_finalized()
        return 0
