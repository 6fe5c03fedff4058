"""How kernels hand tuples of arrays to each other by pointer.

numba hands over a tuple by value, an array as seven words: `Data` and `State` were some four hundred
arguments, unpacked by each function and pushed by each call. The first start took 1.7 times as long.
"""

from __future__ import annotations

import hashlib
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.core.types.containers import BaseTuple
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    register_model,
    typeof_impl,
    unbox,
)


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


def register(cls: type) -> None:
    """Have numba take instances of a named tuple for a `Pointer`."""
    typeof_impl.register(cls, _typeof)


def _typeof(value: Any, context: Any) -> Pointer | None:
    found = [typeof_impl(each, context) for each in value]
    return None if None in found else Pointer(BaseTuple.from_types(found, type(value)))


@register_model(Pointer)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    """An address alone: the type of what lies there is kilobytes of text, which each use would repeat."""

    def __init__(self, manager: Any, pointer: Pointer) -> None:
        super().__init__(manager, pointer, cgutils.voidptr_t)


@unbox(Pointer)
def _unbox(pointer: Pointer, value: Any, c: Any) -> NativeValue:
    """Lay the tuple in the frame of the way in from Python, which outlives the call."""
    laid, is_error = c.context.get_value_type(pointer.fields), cgutils.false_bit
    tuple_ = cgutils.alloca_once(c.builder, laid)
    for place, kind in enumerate(pointer.fields.types):
        item = c.pyapi.tuple_getitem(value, place)
        failed = _read(kind, item, cgutils.gep_inbounds(c.builder, tuple_, 0, place), c)
        is_error = c.builder.or_(is_error, failed)
    address = c.builder.bitcast(tuple_, cgutils.voidptr_t)
    return NativeValue(c.builder.call(_through(c.builder.module), (address,)), is_error)


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


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Pointer

    def generic_resolve(self, pointer: Pointer, name: str) -> Any:
        """Type of a field."""
        fields = pointer.fields
        return fields.types[fields.fields.index(name)] if name in fields.fields else None


@lower_getattr_generic(Pointer)
def _field(context: Any, builder: Any, pointer: Pointer, value: Any, name: str) -> Any:
    place = pointer.fields.fields.index(name)
    kind = pointer.fields.types[place]
    held = context.get_value_type(kind)
    offset = ir.Constant(ir.IntType(64), _offsets(pointer, context)[place])
    address = builder.bitcast(builder.gep(value, (offset,), inbounds=True), held.as_pointer())
    return impl_ret_borrowed(context, builder, kind, _load(builder, address, held))


def _offsets(pointer: Pointer, context: Any) -> list[int]:
    """Bytes from the start of a tuple to each of its fields."""
    if pointer not in _known_offsets:
        laid, data = context.get_value_type(pointer.fields), context.target_data
        places = range(len(pointer.fields.types))
        if isinstance(laid, ir.ArrayType):  # of a tuple whose fields are all of one type
            size = laid.element.get_abi_size(data)
            _known_offsets[pointer] = [place * size for place in places]
        else:
            _known_offsets[pointer] = [laid.get_element_offset(data, place) for place in places]
    return _known_offsets[pointer]


_known_offsets: dict[Pointer, list[int]] = {}


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
