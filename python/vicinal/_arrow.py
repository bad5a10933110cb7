"""Columns of fixed-size lists from Arrow, polars and pandas, by the Arrow C data interface, read by ctypes.

Such a column is a matrix already: one buffer of numbers, rows of equal length. It is taken without a copy when it comes in
one piece; the structs stay owned by their capsules, which are kept as long as the array.
"""
from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_int64, c_void_p
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ._errors import ElementTypeError

Array = npt.NDArray[Any]


class ArrowSchema(ctypes.Structure):
    _fields_ = [("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64), ("n_children", c_int64),
                ("children", c_void_p), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p)]


class ArrowArray(ctypes.Structure):
    _fields_ = [("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64), ("n_children", c_int64),
                ("buffers", c_void_p), ("children", c_void_p), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p)]


class ArrowStream(ctypes.Structure):
    _fields_ = [("get_schema", c_void_p), ("get_next", c_void_p), ("get_last_error", c_void_p), ("release", c_void_p),
                ("private_data", c_void_p)]


RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
STEP = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
ELEMENTS = {b"e": "float16", b"f": "float32", b"g": "float64", b"c": "int8", b"C": "uint8", b"s": "int16", b"S": "uint16",
            b"i": "int32", b"I": "uint32", b"l": "int64", b"L": "uint64"}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, (ctypes.py_object, c_char_p)


class Owned:
    """An Arrow struct that was filled for us, and is released with us."""

    __slots__ = ("struct", "_keep")

    def __init__(self, struct: Any, keep: Any) -> None:
        self.struct, self._keep = struct, keep

    def __del__(self) -> None:
        if self.struct.release:
            RELEASE(self.struct.release)(ctypes.addressof(self.struct))


def _child(struct: Any, kind: Any) -> Any:
    return kind.from_address(c_void_p.from_address(struct.children).value)


def _has_nulls(array: Any, first: int, count: int) -> bool:
    if array.null_count == 0:
        return False
    bits = c_void_p.from_address(array.buffers).value if array.n_buffers else None
    if not bits or count == 0:
        return False
    memory: Any = (ctypes.c_char * ((first + count + 7) // 8)).from_address(bits)
    packed = np.frombuffer(memory, np.uint8)
    return not np.unpackbits(packed, bitorder="little")[first:first + count].all()


def _matrix(array: Any, dim: int, dtype: Any, keep: Any) -> Array:
    """The numbers of one piece of a column."""
    values = _child(array, ArrowArray)
    n, first = array.length, values.offset + array.offset * dim
    if _has_nulls(array, array.offset, n) or _has_nulls(values, first, n * dim):
        raise ElementTypeError("expected a column of vectors without nulls, found nulls in it")
    if n == 0:
        return np.empty((0, dim), dtype)
    address = c_void_p.from_address(values.buffers + ctypes.sizeof(c_void_p)).value + first * dtype.itemsize
    memory: Any = (ctypes.c_char * (n * dim * dtype.itemsize)).from_address(address)
    memory._keep = keep
    return np.frombuffer(memory, dtype).reshape(n, dim)


def _shape(schema: Any) -> Optional[tuple[int, Any]]:
    """(dim, dtype) of a column of fixed-size lists of numbers; None for other columns."""
    kind: bytes = schema.format
    if not kind.startswith(b"+w:"):
        if kind in (b"+l", b"+L", b"+vl", b"+vL"):
            raise ElementTypeError("expected a column of lists of one fixed size, found lists of any size; cast it, in polars to "
                                   "pl.Array(pl.Float32, dim), in Arrow to pa.list_(pa.float32(), dim)")
        return None
    element = ELEMENTS.get(_child(schema, ArrowSchema).format)
    if element is None:
        raise ElementTypeError(f"expected lists of numbers, found Arrow type {_child(schema, ArrowSchema).format.decode()!r} in them")
    return int(kind[3:]), np.dtype(element)


def _pieces(capsule: Any) -> Optional[list[Array]]:
    stream = ArrowStream.from_address(_pointer(capsule, b"arrow_array_stream"))
    address = ctypes.addressof(stream)
    schema = Owned(ArrowSchema(), capsule)
    if STEP(stream.get_schema)(address, ctypes.addressof(schema.struct)):
        raise ElementTypeError("expected an Arrow stream with a schema, found one that gives none")
    shape = _shape(schema.struct)
    if shape is None:
        return None
    pieces: list[Array] = []
    while True:
        piece = Owned(ArrowArray(), capsule)
        if STEP(stream.get_next)(address, ctypes.addressof(piece.struct)):
            raise ElementTypeError("expected an Arrow stream that can be read, found one that fails")
        if not piece.struct.release:
            return pieces or [np.empty((0, shape[0]), shape[1])]
        pieces.append(_matrix(piece.struct, *shape, piece))


def from_arrow(column: Any) -> Optional[Array]:
    """A column of fixed-size lists as (rows, dim); None when the object is no such column. Raises ElementTypeError for
    lists of any size, for nulls, and for lists of what is no number."""
    if hasattr(column, "__arrow_c_array__"):
        schema, array = column.__arrow_c_array__()
        shape = _shape(ArrowSchema.from_address(_pointer(schema, b"arrow_schema")))
        return None if shape is None else _matrix(ArrowArray.from_address(_pointer(array, b"arrow_array")), *shape, (schema, array))
    if hasattr(column, "__arrow_c_stream__"):
        pieces = _pieces(column.__arrow_c_stream__())
        if pieces is None:
            return None
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    return None
