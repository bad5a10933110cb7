"""Queries on a GPU, hits on the same GPU: in the caller's kind of array, ordered on the caller's stream, no wait, no byte
over PCIe.

Which stream: the one given, else the current one of PyTorch or CuPy, else the one that a CUDA array interface names, else
the legacy default. PyTorch tensors on their current stream are taken by address, which is cheaper than a capsule; all others
by DLPack, whose producer orders our stream after its own, or by the CUDA array interface, where we do.

A search that is like an earlier one (shape, k, beam, codes; packed float32 of PyTorch or CuPy on the current stream) runs through a
slot, as on the CPU: three addresses and a stream are written into prepared structs. What is left is mostly the two
allocations of the results, or with out= the look at the caller's.
"""
from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Any, Callable, NamedTuple, Optional

from . import _arrays, _dlpack, _lib
from ._errors import ArgumentError, DimensionError, ElementTypeError


TORCH_ELEMENTS = {"torch.float32": (2, 32), "torch.float16": (2, 16), "torch.bfloat16": (4, 16), "torch.int8": (0, 8),
                  "torch.uint8": (1, 8), "torch.float64": (2, 64), "torch.int64": (0, 64), "torch.int32": (0, 32)}


class Library(NamedTuple):
    """What slots need of an array library: whether an array can be taken by its address on the index's GPU, whether results
    can go into one in place of another, an array's address, the current stream, and a fresh array like another."""

    ready: Callable[[Any, int], bool]
    fits: Callable[[Any, Any, int], bool]
    address: Callable[[Any], int]
    stream: Callable[[int], int]
    like: Callable[[Any], Any]


def _torch(torch: Any) -> tuple[Any, Library]:
    float32 = torch.float32
    # The raw getter costs a tenth of a Stream object; it is what PyTorch's own compiled code calls.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return torch.Tensor, Library(lambda array, gpu: array.dtype is float32 and array.get_device() == gpu and array.is_contiguous(),
                                 lambda array, other, gpu: (array.dtype is other.dtype and array.shape == other.shape
                                                            and array.get_device() == gpu and array.is_contiguous()),
                                 torch.Tensor.data_ptr, raw or (lambda gpu: torch.cuda.current_stream(gpu).cuda_stream),
                                 torch.empty_like)


def _cupy(cupy: Any) -> tuple[Any, Library]:
    float32, here, kind = _arrays.FLOAT32, cupy.cuda.runtime.getDevice, cupy.ndarray
    return kind, Library(lambda array, gpu: array.dtype == float32 and array.data.device_id == gpu == here() and array.flags.c_contiguous,
                         lambda array, other, gpu: (array.dtype == other.dtype and array.shape == other.shape
                                                    and array.data.device_id == gpu and array.flags.c_contiguous),
                         lambda array: int(array.data.ptr), lambda gpu: int(cupy.cuda.get_current_stream().ptr),
                         lambda array: kind(array.shape, array.dtype))


_MAKERS = {"torch": _torch, "cupy": _cupy}
LIBRARIES: dict[Any, Library] = {}  # by the type of array, filled when the first array of a library is searched for


class Slot:
    """One search of queries of a shape for a k, beam and codes: the arguments of the foreign call, and arrays like its results."""

    __slots__ = ("matrix", "hits", "options", "stats", "ids", "scores", "arguments", "keep")

    def __init__(self, handle: Any, matrix: _lib.Matrix, k: int, walk: dict[str, int], ids: Any, scores: Any) -> None:
        stats = _lib.SearchStats()
        self.stats = (ctypes.c_char * ctypes.sizeof(stats)).from_buffer(stats)
        self.matrix, self.ids, self.scores = matrix, ids, scores
        self.hits = _lib.HitsArrays(None, None, None, _lib.DEVICE)
        self.options = _lib.SearchOptions(stats=ctypes.addressof(stats), **walk)
        self.keep = (handle, stats)
        self.arguments = (handle.pointer, ctypes.byref(matrix), ctypes.c_int64(k), ctypes.byref(self.options), ctypes.byref(self.hits))


def again(slots: dict[Any, list[Slot]], queries: Any, how: tuple[Any, ...], out: Any, ordinal: int) -> Optional[tuple[Any, Any, bytes]]:
    """Ids, scores and stats of a search that is like an earlier one; None for one that is not. how: k, beam and codes."""
    library = LIBRARIES.get(type(queries))
    if library is None or not library.ready(queries, ordinal) or (out is not None and (type(out) is not tuple or len(out) != 2)):
        return None
    key = (type(queries), queries.shape, *how)
    try:
        waiting = slots[key]
        slot = waiting.pop()
    except (KeyError, IndexError):
        return None
    if out is None:
        ids, scores = library.like(slot.ids), library.like(slot.scores)
    else:
        ids, scores = out
        if not (type(ids) is type(scores) is type(queries) and library.fits(ids, slot.ids, ordinal)
                and library.fits(scores, slot.scores, ordinal)):
            waiting.append(slot)
            return None
    slot.matrix.data, slot.hits.ids, slot.hits.scores = library.address(queries), library.address(ids), library.address(scores)
    slot.options.stream = library.stream(ordinal) or _dlpack.LEGACY_STREAM
    status = _lib.RAW_SEARCH(*slot.arguments)
    stats = slot.stats.raw
    waiting.append(slot)
    _lib.check(status)
    return ids, scores, stats


def slot_for(handle: Any, queries: Any, matrix: _lib.Matrix, k: int, walk: dict[str, int], ids: Any, scores: Any) -> Optional[Slot]:
    """What the next search like this one runs through; None where slots do not know the arrays."""
    make = _MAKERS.get(library_of(queries))
    if make is None or matrix.dtype != _lib.F32:
        return None
    if type(queries) not in LIBRARIES:
        kind, found = make(sys.modules[library_of(queries)])
        LIBRARIES[kind] = found
    library, kind = LIBRARIES.get(type(queries)), type(queries)
    if library is None or not library.ready(queries, handle.device.ordinal) or type(ids) is not kind or type(scores) is not kind:
        return None
    return Slot(handle, matrix, k, walk, library.like(ids), library.like(scores))


def library_of(array: Any) -> str:
    return type(array).__module__.split(".")[0]


def current_stream(kind: str, ordinal: Optional[int]) -> Optional[int]:
    """The current stream of an array library; None where it has no such thing."""
    if kind == "torch":
        return int(sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream) or _dlpack.LEGACY_STREAM
    if kind == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr) or _dlpack.LEGACY_STREAM
    return None


def take(array: Any, stream: Any) -> tuple[_dlpack.Tensor, int]:
    """An array on a GPU as a tensor, and the stream in which it may be read."""
    kind, place = library_of(array), _dlpack.device_of(array)
    given = _dlpack.stream_number(stream, "stream=")
    ordinal = place[1] if place else None
    current = current_stream(kind, ordinal)
    wanted = given or current
    if kind == "torch" and wanted == current and str(array.dtype) in TORCH_ELEMENTS:
        element = TORCH_ELEMENTS[str(array.dtype)]
        strides = tuple(step * (element[1] // 8) for step in array.stride())
        return _dlpack.Tensor(array.data_ptr(), tuple(array.shape), strides, element, _dlpack.CUDA, ordinal, True, array), wanted or _dlpack.LEGACY_STREAM
    if hasattr(array, "__dlpack__"):
        wanted = wanted or _dlpack.LEGACY_STREAM
        return _dlpack.from_dlpack(array, wanted), wanted
    tensor = _dlpack.from_cuda_interface(array)
    wanted = wanted or tensor.stream or _dlpack.LEGACY_STREAM
    if tensor.stream is not None and tensor.stream != wanted:
        _dlpack.stream_wait(wanted, tensor.stream)
    return tensor, wanted


def check_place(tensor: _dlpack.Tensor, name: str, ordinal: Optional[int], role: str) -> None:
    """Raises unless a tensor lies on the index's own GPU."""
    where = _dlpack.DEVICE_TYPES.get(tensor.device_type, f"device type {tensor.device_type}")
    if tensor.ordinal is not None:
        where = f"{where}:{tensor.ordinal}"
    if ordinal is None:
        raise ArgumentError(f"expected {role} in host memory for an index on {name}, found them on {where}; open the index on that device, "
                            "or move them (.cpu() in PyTorch, .get() in CuPy)")
    if tensor.device_type not in (_dlpack.CUDA, _dlpack.CUDA_MANAGED) or (tensor.ordinal is not None and tensor.ordinal != ordinal):
        raise ArgumentError(f"expected {role} on {name} where the index is, found them on {where}")


def matrix_of(tensor: _dlpack.Tensor, index_code: int) -> tuple[_lib.Matrix, bool]:
    """Describes queries on a GPU, which must be readable as they are; also whether it was a single vector."""
    code, shape, strides = _arrays.FROM_DLPACK.get(tensor.element, 0), tensor.shape, tensor.strides
    if code != _lib.F32 and (code != index_code or code not in (_lib.I8, _lib.U8)):
        raise ElementTypeError("expected float32 queries on a GPU, or an integer index's own type, found DLPack type "
                               f"{tensor.element}; convert them there (.float() in PyTorch)")
    single = len(shape) == 1
    if single:
        shape, strides = (1, *shape), (0, *strides)
    if len(shape) != 2:
        raise DimensionError(f"expected queries of shape (nq, dim) or (dim,), found {tensor.shape}")
    item = tensor.element[1] // 8
    if (shape[1] > 1 and strides[1] != item) or (shape[0] > 1 and (strides[0] <= 0 or strides[0] % item)):
        raise ArgumentError(f"expected queries on a GPU with adjacent elements, found strides of {tensor.strides} bytes; make them contiguous")
    return _lib.Matrix(tensor.data, shape[0], shape[1], strides[0] if shape[0] > 1 else 0, code, _lib.DEVICE), single


def _in_order(array: Any, stream: Optional[int]) -> Any:
    """A context in which PyTorch or CuPy works on an array's GPU in the order of a stream; None: the current one."""
    kind = library_of(array)
    if kind == "torch":
        torch = sys.modules["torch"]
        if stream is None or stream == current_stream(kind, array.device.index):
            return contextlib.nullcontext()
        return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=array.device))
    cupy, stack = sys.modules["cupy"], contextlib.ExitStack()
    stack.enter_context(array.device)
    if stream is not None and stream != current_stream(kind, None):
        stack.enter_context(cupy.cuda.ExternalStream(stream))
    return stack


def widened(array: Any, stream: Any) -> Any:
    """float16 and bfloat16 queries as float32, exactly, by their own library on the stream; all others as they are."""
    if library_of(array) not in _MAKERS or str(array.dtype).split(".")[-1] not in ("float16", "bfloat16"):
        return array
    with _in_order(array, _dlpack.stream_number(stream, "stream=")):
        return array.float() if hasattr(array, "float") else array.astype(_arrays.FLOAT32)


def empty(array: Any, shape: tuple[int, ...], stream: int) -> tuple[Any, Any]:
    """Fresh ids and scores of the caller's kind on its GPU, allocated in the order of the stream."""
    kind = library_of(array)
    if kind not in _MAKERS:
        raise ArgumentError(f"expected out=(ids, scores) beside queries of {kind}: its arrays cannot be made here and filled in place")
    with _in_order(array, stream):
        if kind == "torch":
            torch = sys.modules["torch"]
            return torch.empty(shape, dtype=torch.int64, device=array.device), torch.empty(shape, dtype=torch.float32, device=array.device)
        cupy = sys.modules["cupy"]
        return cupy.empty(shape, cupy.int64), cupy.empty(shape, cupy.float32)


def output_address(array: Any, name: str, element: tuple[int, int], shape: tuple[int, ...], stream: int, device: str,
                   ordinal: Optional[int]) -> tuple[int, _dlpack.Tensor]:
    """The address of a caller's array for results on the GPU, and what keeps it."""
    tensor, _ = take(array, stream)
    check_place(tensor, device, ordinal, f"out.{name}")
    if tensor.element != element:
        raise ElementTypeError(f"expected out.{name} of {'int64' if element[0] == 0 else 'float32'}, found DLPack type {tensor.element}")
    if tensor.shape != shape:
        raise DimensionError(f"expected out.{name} of shape {shape} (queries, k), found {tensor.shape}")
    if not tensor.writable or tensor.strides != _dlpack.packed(shape, element[1] // 8):
        raise ArgumentError(f"expected out.{name} packed in C order and writable, found strides of {tensor.strides} bytes, "
                            f"{'writable' if tensor.writable else 'read-only'}")
    return tensor.data, tensor
