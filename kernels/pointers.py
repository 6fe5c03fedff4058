"""How kernels hand tuples of arrays to each other by pointer.

numba hands over a tuple by value, an array as seven words: `Data` and `State` were some four hundred
arguments, unpacked by each function and pushed by each call. The first start took 1.7 times as long.
"""

from __future__ import annotations

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
        super().__init__(name=f"Pointer({fields})")


def register(cls: type) -> None:
    """Have numba take instances of a named tuple for a `Pointer`."""
    typeof_impl.register(cls, _typeof)


def _typeof(value: Any, context: Any) -> Pointer | None:
    found = [typeof_impl(each, context) for each in value]
    return None if None in found else Pointer(BaseTuple.from_types(found, type(value)))


@register_model(Pointer)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, pointer: Pointer) -> None:
        super().__init__(manager, pointer, manager.lookup(pointer.fields).get_value_type().as_pointer())


@unbox(Pointer)
def _unbox(pointer: Pointer, value: Any, c: Any) -> NativeValue:
    """Lay the tuple in the frame of the way in from Python, which outlives the call."""
    native = c.unbox(pointer.fields, value)
    return NativeValue(cgutils.alloca_once_value(c.builder, native.value), native.is_error, native.cleanup)


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
    loaded = _load(builder, cgutils.gep_inbounds(builder, value, 0, place), context.get_value_type(kind))
    return impl_ret_borrowed(context, builder, kind, loaded)


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
