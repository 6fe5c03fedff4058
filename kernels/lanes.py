"""Arithmetic on the values of eight clusters at a time.

Clusters are the last axis of the arrays of a search, and its length is a multiple of eight, so no loop over
clusters ends in single steps. Left to itself, the compiler vectorises a loop only where it can prove that
arrays do not overlap. Each lane takes the steps that a single number would take, so the bits are the same.
The functions work on arrays of numpy if nothing is compiled.
"""

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numpy.typing import NDArray

LANES = 8

Floats = NDArray[np.float64]
Vector = Any  # eight numbers, or eight truths
Code = Any  # a type or value of numba, or of LLVM


def load(row: Floats, first: int) -> Vector:
    """Return the eight numbers of a row from a place on."""
    return row[first : first + LANES].copy()


def store(row: Floats, first: int, values: Vector) -> None:
    """Write eight numbers, or one number eight times, from a place of a row on."""
    row[first : first + LANES] = values


def spread(number: float) -> Vector:
    """Return a number eight times."""
    return np.full(LANES, number)


def look_up(table: Floats, places: Vector) -> Vector:
    """Return the numbers at eight places of a table, given as whole numbers."""
    return table[places.astype(np.int64)]


def choose(condition: Vector, first: Vector, second: Vector) -> Vector:
    """Return, lane by lane, the first number where the condition is true, and else the second one."""
    return np.where(condition, first, second)


def are_all(condition: Vector) -> bool:
    """Return whether a condition is true in all lanes."""
    return bool(np.all(condition))


# The same for the compiler: a vector is one value of LLVM.


class _Vector(types.Type):  # type: ignore[misc]  # numba has no types
    """Type of eight values."""

    def __init__(self, name: str, item: ir.Type) -> None:
        self.value = ir.VectorType(item, LANES)
        super().__init__(name)


@extending.register_model(_Vector)
class _Model(extending.models.PrimitiveModel):  # type: ignore[misc]  # numba has no types
    """One value of LLVM."""

    def __init__(self, manager: Code, kind: _Vector) -> None:
        super().__init__(manager, kind, kind.value)


NUMBERS = _Vector("numbers", ir.DoubleType())
TRUTHS = _Vector("truths", ir.IntType(1))
ROW = types.float64[::1]


def _define(function: Code, result: Code, *kinds: Code) -> Callable[[Code], Code]:
    """Return a decorator of the code of a function, which may get a number in place of a vector.

    The operators are left alone where all are numbers.
    """
    choices = [(kind, types.float64) if kind is NUMBERS else (kind,) for kind in kinds]
    cases = list(itertools.product(*choices))
    if function is not spread:
        cases = [case for case in cases if set(case) != {types.float64}]
    signatures = [signature(result, *case) for case in cases]
    infer_global(function)(type("_Function", (ConcreteTemplate,), {"cases": signatures}))

    def decorate(lower: Code) -> Code:
        def lowered(context: Code, builder: Code, kind: Code, values: Code) -> Code:
            pairs = zip(kind.args, kinds, values, strict=True)
            return lower(builder, *(_converted(context, builder, *pair) for pair in pairs))

        for case in cases:
            extending.lower_builtin(function, *case)(lowered)
        return lower

    return decorate


def _converted(context: Code, builder: Code, kind: Code, expected: Code, value: Code) -> Code:
    """Return a number as a vector that has it in all lanes, and a row as the address of its first number."""
    if expected is ROW:
        return context.make_array(kind)(context, builder, value).data
    if kind is expected:
        return value
    single = builder.insert_element(NUMBERS.value(ir.Undefined), value, ir.IntType(32)(0))
    places = ir.VectorType(ir.IntType(32), LANES)([0] * LANES)
    return builder.shuffle_vector(single, NUMBERS.value(ir.Undefined), places)


def _address(builder: Code, row: Code, first: Code) -> Code:
    return builder.bitcast(builder.gep(row, (first,), inbounds=True), NUMBERS.value.as_pointer())


for symbols, name in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv,), "fdiv"),
):
    for symbol in symbols:
        _define(symbol, NUMBERS, NUMBERS, NUMBERS)(getattr(ir.IRBuilder, name))

for symbol, name in ((operator.lt, "<"), (operator.le, "<="), (operator.eq, "==")):
    _define(symbol, TRUTHS, NUMBERS, NUMBERS)(
        lambda builder, first, second, name=name: builder.fcmp_ordered(name, first, second)
    )


@_define(load, NUMBERS, ROW, types.int64)
def _(builder: Code, row: Code, first: Code) -> Code:
    return builder.load(_address(builder, row, first), align=8)


@_define(store, types.void, ROW, types.int64, NUMBERS)
def _(builder: Code, row: Code, first: Code, values: Code) -> Code:
    return builder.store(values, _address(builder, row, first), align=8)


@_define(spread, NUMBERS, NUMBERS)
def _(builder: Code, values: Code) -> Code:
    return values


@_define(look_up, NUMBERS, ROW, NUMBERS)
def _(builder: Code, table: Code, places: Code) -> Code:
    integers = builder.fptosi(places, ir.VectorType(ir.IntType(64), LANES))
    values = NUMBERS.value(ir.Undefined)
    for lane in range(LANES):
        place = builder.extract_element(integers, ir.IntType(32)(lane))
        value = builder.load(builder.gep(table, (place,), inbounds=True))
        values = builder.insert_element(values, value, ir.IntType(32)(lane))
    return values


@_define(choose, NUMBERS, TRUTHS, NUMBERS, NUMBERS)
def _(builder: Code, condition: Code, first: Code, second: Code) -> Code:
    return builder.select(condition, first, second)


@_define(are_all, types.boolean, TRUTHS)
def _(builder: Code, condition: Code) -> Code:
    return builder.icmp_unsigned("==", builder.bitcast(condition, ir.IntType(LANES)), ir.IntType(LANES)(-1))
