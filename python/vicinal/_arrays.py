"""The caller's vectors, whatever holds them, as a matrix that the library reads in place.

Types are taken as they are: float32, float16, bfloat16, int8, uint8. One rule for all others: float64 and other integers
are refused, or, when the caller asks for it, each value becomes the nearest float32. Plain Python numbers have no type of
their own and become float32. Bits are never read as another type.

A copy is made only where the library cannot read: elements of a row that are not adjacent, rows that go backwards, a
foreign byte order, a type that must be converted.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _dlpack, _lib
from ._arrow import from_arrow
from ._errors import ArgumentError, DimensionError, ElementTypeError, IdError

Array = npt.NDArray[Any]
Path = Union[str, "os.PathLike[str]"]

FLOAT32 = np.dtype(np.float32)
INT64 = np.dtype(np.int64)
NAMES = {_lib.F32: "f32", _lib.F16: "f16", _lib.BF16: "bf16", _lib.I8: "i8", _lib.U8: "u8"}
METRICS = {_lib.DOT: "dot", _lib.COSINE: "cosine", _lib.L2: "l2"}
CODES: dict[Any, int] = {FLOAT32: _lib.F32, np.dtype(np.float16): _lib.F16, np.dtype(np.int8): _lib.I8, np.dtype(np.uint8): _lib.U8}
FROM_DLPACK = {(2, 32): _lib.F32, (2, 16): _lib.F16, (4, 16): _lib.BF16, (0, 8): _lib.I8, (1, 8): _lib.U8}
DTYPES: dict[int, Any] = {code: dtype for dtype, code in CODES.items()}


def bfloat16() -> Optional[Any]:
    """ml_dtypes' bfloat16 where that package is; NumPy has none of its own."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return np.dtype(ml_dtypes.bfloat16)


def address_of(array: Array) -> int:
    return int(array.ctypes.data)


def code_of(dtype: Any) -> int:
    """The library's number of a NumPy type in this machine's byte order; 0 for all others."""
    code = CODES.get(dtype, 0)
    if not code and dtype.name == "bfloat16" and dtype.itemsize == 2:
        code = CODES[dtype] = _lib.BF16
    return code


def widened(array: Array) -> Array:
    """bfloat16 values, as their bits, to float32: exact, since they are its upper halves."""
    return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def parse(kind: str, name: Any) -> int:
    """The number of a metric's or an element type's name, aliases included; the library's hint for a near miss."""
    if kind == "dtype" and not isinstance(name, str):
        try:
            name = np.dtype(name).name
        except TypeError:
            raise ArgumentError(f"expected a dtype (f32, f16, bf16, i8, u8), found {name!r}") from None
    if not isinstance(name, str):
        raise ArgumentError(f"expected the name of a {kind}, found {name!r}")
    value = ctypes.c_int()
    _lib.check(getattr(_lib.LIB, f"vic_{kind}_parse")(name.encode(), ctypes.byref(value)))
    return value.value


def path_bytes(path: Path) -> bytes:
    return os.fsencode(path)


def _plain_numbers(values: Any) -> bool:
    """Whether a list, or list of lists, holds Python's own numbers."""
    while isinstance(values, (list, tuple)) and len(values):
        values = values[0]
    return type(values) in (int, float) or isinstance(values, (list, tuple))


def _from_tensor(tensor: _dlpack.Tensor) -> tuple[Array, int]:
    """Host memory of another library as an array over the same bytes; bfloat16 as its bits."""
    code = FROM_DLPACK.get(tensor.element, 0)
    kinds = {0: "int", 1: "uint", 2: "float", 4: "uint", 6: "bool"}
    name = f"{kinds[tensor.element[0]]}{tensor.element[1]}" if tensor.element[0] in kinds else ""
    try:
        dtype = np.dtype("bool" if name == "bool8" else name or "?!")
    except TypeError:
        raise ElementTypeError(f"expected numbers, found DLPack type code {tensor.element[0]} of {tensor.element[1]} bits") from None
    if 0 in tensor.shape:
        return np.empty(tensor.shape, dtype), code
    low = sum(min(0, (length - 1) * step) for length, step in zip(tensor.shape, tensor.strides))
    high = sum(max(0, (length - 1) * step) for length, step in zip(tensor.shape, tensor.strides))
    memory: Any = (ctypes.c_char * (high - low + dtype.itemsize)).from_address(tensor.data + low)
    memory._keep = tensor
    array: Array = np.ndarray(tensor.shape, dtype, memory, -low, tensor.strides)
    return array, code


def host_array(values: Any, role: str) -> tuple[Array, int]:
    """Anything in host memory as an array of any shape, and the library's number of its type (0: not one of ours)."""
    if not isinstance(values, np.ndarray):
        boxed = getattr(values, "dtype", None) == object
        column = None if boxed else from_arrow(values)
        if column is not None:
            return column, code_of(column.dtype)
        if _dlpack.speaks_dlpack(values):
            return _from_tensor(_dlpack.from_dlpack(values))
        if values is None or isinstance(values, (str, bytes)):
            raise ElementTypeError(f"expected {role} as numbers, found {type(values).__name__}")
        plain = _plain_numbers(values)
        try:
            values = np.asarray(values)
        except ValueError as error:
            raise DimensionError(f"expected {role} of one length each, found others: {error}") from None
        if plain and values.dtype.kind in "iuf":
            values = values.astype(FLOAT32)
    if values.dtype == object and values.ndim == 1 and len(values) and all(hasattr(v, "__len__") for v in values):
        if len({len(v) for v in values}) != 1:
            raise DimensionError(f"expected {role} of one length each, found lengths {min(map(len, values))} to {max(map(len, values))}")
        return host_array([*values], role)
    if isinstance(values, np.ma.MaskedArray):
        raise ElementTypeError(f"expected {role} without a mask, found a masked array; fill it first")
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    return values, code_of(values.dtype)


def to_float32(array: Array, code: int, role: str, convert: bool) -> Array:
    """Values as float32: exactly for the library's own types, to nearest for others if the caller asked for that."""
    if code == _lib.F32:
        return array
    if code == _lib.BF16:
        return widened(array)
    if not code and (array.dtype.kind not in "iuf" or not convert):
        hint = "; convert=True takes each value to the nearest float32" if array.dtype.kind in "iuf" else ""
        raise ElementTypeError(f"expected {role} of float32, float16, bfloat16, int8 or uint8, found {array.dtype.name}{hint}")
    with np.errstate(over="ignore"):  # what overflows is refused by the library, naming row and column
        return array.astype(FLOAT32)


def settled(array: Array) -> Array:
    """The array itself where the library can read it in place, else a packed copy."""
    (n, dim), (row, element) = array.shape, array.strides
    item = array.itemsize
    if (dim <= 1 or element == item) and (n <= 1 or (row > 0 and row % item == 0)) and array.flags.aligned:
        return array
    return np.ascontiguousarray(array)


def matrix_of(array: Array, code: int) -> _lib.Matrix:
    """Describes a settled array; it must outlive the matrix."""
    n, dim = array.shape
    return _lib.Matrix(address_of(array) if array.size else None, n, dim, array.strides[0] if n > 1 else 0, code, _lib.HOST)


def rows_of(values: Any, convert: bool) -> tuple[_lib.Matrix, Array]:
    """Rows for an index: their matrix, and the array that keeps its memory."""
    refuse_device(values, "rows")
    array, code = host_array(values, "rows")
    if array.ndim != 2:
        raise DimensionError(f"expected rows of shape (n, dim), found {array.shape}")
    if not code:
        array, code = to_float32(array, code, "rows", convert), _lib.F32
    array = settled(array)
    return matrix_of(array, code), array


def queries_of(values: Any, index_code: int, convert: bool) -> tuple[_lib.Matrix, Array, bool]:
    """Queries for an index of a type: their matrix, the array that keeps its memory, and whether it was a single vector.
    They become float32 unless they have the integer index's own type."""
    array, code = host_array(values, "queries")
    if array.ndim not in (1, 2):
        raise DimensionError(f"expected queries of shape (nq, dim) or (dim,), found {array.shape}")
    if code != index_code or code in (_lib.F16, _lib.BF16):
        array, code = to_float32(array, code, "queries", convert), _lib.F32
    single = array.ndim == 1
    array = settled(array.reshape(1, -1) if single else array)
    return matrix_of(array, code), array, single


def refuse_device(values: Any, role: str) -> None:
    """Raises for an array on a GPU where host memory is needed."""
    if isinstance(values, (np.ndarray, list, tuple)):
        return
    place = _dlpack.device_of(values)
    if place is not None and place[0] not in (_dlpack.CPU, _dlpack.CUDA_HOST):
        where = f"{_dlpack.DEVICE_TYPES.get(place[0], f'device type {place[0]}')}{'' if place[1] is None else f':{place[1]}'}"
        raise ArgumentError(f"expected {role} in host memory, found {type(values).__module__.split('.')[0]} memory on {where}; "
                            "move it first (.cpu() in PyTorch, .get() in CuPy)")


def ids_of(values: Any, role: str = "ids") -> Array:
    """Ids of any integer type as packed int64, in the shape they have."""
    refuse_device(values, role)
    array: Array = np.asarray(values)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(INT64)
    if array.dtype.kind not in "iu":
        raise ElementTypeError(f"expected {role} of an integer type, found {array.dtype.name}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size and int(array.max()) > 2**63 - 1:
        raise IdError(f"expected {role} below 2^63, found {int(array.max())}")
    return np.ascontiguousarray(array, INT64)


def output_array(array: Any, name: str, dtype: Any, shape: tuple[int, ...]) -> Array:
    """A caller's array for results: of exactly this type and shape, packed and writable."""
    if not isinstance(array, np.ndarray):
        raise ElementTypeError(f"expected out.{name} as a NumPy array of {dtype.name}, found {type(array).__name__}")
    if array.dtype != dtype:
        raise ElementTypeError(f"expected out.{name} of {dtype.name}, found {array.dtype.name}")
    if array.shape != shape:
        raise DimensionError(f"expected out.{name} of shape {shape} (queries, k), found {array.shape}")
    if not array.flags.c_contiguous or not array.flags.writeable or not array.flags.aligned:
        raise ArgumentError(f"expected out.{name} packed in C order and writable, found strides {array.strides}, "
                            f"{'writable' if array.flags.writeable else 'read-only'}")
    return array
