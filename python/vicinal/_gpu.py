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
import operator
import sys
from typing import Any, Callable, NamedTuple, Optional

from . import _arrays, _dlpack, _lib
from ._dlpack import LEGACY_STREAM, PER_THREAD_STREAM
from ._errors import ArgumentError, DimensionError, ElementTypeError
from ._hits import Hits


TORCH_ELEMENTS = {"torch.float32": (2, 32), "torch.float16": (2, 16), "torch.bfloat16": (4, 16), "torch.int8": (0, 8),
                  "torch.uint8": (1, 8), "torch.float64": (2, 64), "torch.int64": (0, 64), "torch.int32": (0, 32)}


class Library(NamedTuple):
    """What slots need of an array library: an array's address; the current stream of a GPU, None where another GPU is current; a
    fresh packed array, and its arguments for one like another; whether an array is packed on a GPU; and, where there is one, a
    quick look that says whether other arrays can take the place of three that were good."""

    address: Callable[[Any], int]
    stream: Callable[[int], Optional[int]]
    fresh: Callable[..., Any]
    like: Callable[[Any], tuple[Any, ...]]
    ready: Callable[[Any, int], bool]
    look: Callable[[Any, Any, Any], Optional[Callable[[Any, Any, Any], bool]]]


def _torch(torch: Any) -> tuple[Any, Library]:
    """PyTorch's own compiled code needs the same in a hurry: a stream's handle without an object, a packed tensor without the
    dispatcher, one look at all that is known of several tensors. None of them is public: each is taken only where it is, and
    where the look says no, the tensors themselves are asked."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (lambda gpu: torch.cuda.current_stream(gpu).cuda_stream)
    hidden: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    packed = getattr(hidden, "_empty_strided_cuda", None)

    def like(array: Any) -> tuple[Any, ...]:
        return (tuple(array.shape), array.stride(), array.dtype) if packed else (torch.empty_like(array),)

    def look(queries: Any, ids: Any, scores: Any) -> Optional[Callable[[Any, Any, Any], bool]]:
        try:
            check: Callable[[Any, Any, Any], bool] = hidden.TensorGuards(queries, ids, scores, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
            return check if check(queries, ids, scores) is True else None
        except Exception:  # not in this version, or of another form
            return None

    return torch.Tensor, Library(torch.Tensor.data_ptr, raw, packed or torch.empty_like, like,
                                 lambda array, gpu: array.get_device() == gpu and array.is_contiguous(), look)


def _cupy(cupy: Any) -> tuple[Any, Library]:
    here, kind, current = cupy.cuda.runtime.getDevice, cupy.ndarray, cupy.cuda.get_current_stream
    facts = operator.attrgetter("data.device_id", "_c_contiguous" if hasattr(kind, "_c_contiguous") else "flags.c_contiguous")
    return kind, Library(operator.attrgetter("data.ptr"), lambda gpu: current().ptr if here() == gpu else None, kind,
                         lambda array: (array.shape, array.dtype), lambda array, gpu: facts(array) == (gpu, True), lambda *arrays: None)


_MAKERS = {"torch": _torch, "cupy": _cupy}
LIBRARIES: dict[Any, Library] = {}  # by the type of array, filled when the first array of a library is searched for


class Slot:
    """One search of queries of a shape for a k, beam and codes: the arguments of the foreign call, and what it takes to look at
    the caller's arrays and to make others."""

    __slots__ = ("address", "stream", "fresh", "ids", "scores", "look", "ask", "matrix", "hits", "options", "stats", "arguments", "keep")

    def __init__(self, handle: Any, library: Library, matrix: _lib.Matrix, k: int, walk: dict[str, int], arrays: tuple[Any, Any, Any]) -> None:
        stats = _lib.SearchStats()
        self.stats = (ctypes.c_char * ctypes.sizeof(stats)).from_buffer(stats)
        self.address, self.stream, self.fresh = library.address, library.stream, library.fresh
        self.ids, self.scores = library.like(arrays[1]), library.like(arrays[2])
        self.ask = _asking(library.ready, *arrays, handle.device.ordinal)
        self.look = library.look(*arrays) or self.ask
        self.matrix = matrix
        self.hits = _lib.HitsArrays(None, None, None, _lib.DEVICE)
        self.options = _lib.SearchOptions(stats=ctypes.addressof(stats), **walk)
        self.keep = (handle, stats)
        self.arguments = (handle.pointer, ctypes.byref(matrix), ctypes.c_int64(k), ctypes.byref(self.options), ctypes.byref(self.hits))


def _asking(ready: Callable[[Any, int], bool], queries: Any, ids: Any, scores: Any, gpu: int) -> Callable[[Any, Any, Any], bool]:
    """Whether arrays, the first of them of this type and shape, can take the place of these three."""
    kind, ids_shape, scores_shape = type(queries), ids.shape, scores.shape
    queries_type, ids_type, scores_type = queries.dtype, ids.dtype, scores.dtype
    return lambda queries, ids, scores: (
        type(ids) is kind and type(scores) is kind and queries.dtype == queries_type and ids.dtype == ids_type and scores.dtype == scores_type
        and ids.shape == ids_shape and scores.shape == scores_shape and ready(queries, gpu) and ready(ids, gpu) and ready(scores, gpu))


def again(index: Any, queries: Any, k: int, beam: Any, codes: Any, out: Any, gpu: int) -> Optional[Hits]:
    """The hits of a search that is like an earlier one; None for one that is not.

    A slot that does not fit is dropped: the search that goes the general way leaves one that does."""
    try:
        waiting = index._slots[type(queries), queries.shape, k, beam, codes]
        slot = waiting.pop()
    except (KeyError, IndexError, AttributeError, TypeError):
        return None
    if out is None:
        fresh = slot.fresh
        ids, scores = fresh(*slot.ids), fresh(*slot.scores)
    elif type(out) is tuple and len(out) == 2:
        ids, scores = out
    else:
        return None
    if not slot.look(queries, ids, scores) and not slot.ask(queries, ids, scores):
        return None
    stream = slot.stream(gpu)
    if stream is None:
        return None
    address, hits = slot.address, slot.hits
    slot.matrix.data = address(queries)
    hits.ids = address(ids)
    hits.scores = address(scores)
    slot.options.stream = stream or LEGACY_STREAM
    status = _lib.RAW_SEARCH(*slot.arguments)
    stats = slot.stats.raw
    waiting.append(slot)
    if status:
        _lib.check(status)
    return Hits(ids, scores, index, stats)


def slot_for(handle: Any, queries: Any, matrix: _lib.Matrix, k: int, walk: dict[str, int], ids: Any, scores: Any) -> Optional[Slot]:
    """What the next search like this one runs through; None where slots do not know the arrays."""
    kind, make = type(queries), _MAKERS.get(library_of(queries))
    if make is None or matrix.dtype != _lib.F32:
        return None
    if kind not in LIBRARIES:
        found, library = make(sys.modules[library_of(queries)])
        LIBRARIES[found] = library
    if kind not in LIBRARIES or type(ids) is not kind or type(scores) is not kind:
        return None
    library = LIBRARIES[kind]
    if not all(library.ready(array, handle.device.ordinal) for array in (queries, ids, scores)):
        return None
    return Slot(handle, library, matrix, k, walk, (queries, ids, scores))


def library_of(array: Any) -> str:
    return type(array).__module__.split(".")[0]


def current_stream(kind: str, ordinal: Optional[int]) -> Optional[int]:
    """The current stream of an array library; None where it has no such thing."""
    if kind == "torch":
        return int(sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream) or LEGACY_STREAM
    if kind == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr) or LEGACY_STREAM
    return None


def take(array: Any, stream: Any) -> tuple[_dlpack.Tensor, int]:
    """An array on a GPU as a tensor, and the stream in which it may be read."""
    kind, place = library_of(array), _dlpack.device_of(array)
    given = _dlpack.stream_number(stream, "stream=")
    ordinal = place[1] if place else None
    current = current_stream(kind, ordinal)
    wanted = given or current
    if kind == "torch" and wanted in (current, PER_THREAD_STREAM) and str(array.dtype) in TORCH_ELEMENTS:
        if given is not None and given != current:  # PyTorch's capsules refuse this stream
            _dlpack.stream_wait(given, current or LEGACY_STREAM)
        element = TORCH_ELEMENTS[str(array.dtype)]
        strides = tuple(step * (element[1] // 8) for step in array.stride())
        return _dlpack.Tensor(array.data_ptr(), tuple(array.shape), strides, element, _dlpack.CUDA, ordinal, True, array), wanted or LEGACY_STREAM
    if hasattr(array, "__dlpack__"):
        wanted = wanted or LEGACY_STREAM
        return _dlpack.from_dlpack(array, wanted), wanted
    tensor = _dlpack.from_cuda_interface(array)
    wanted = wanted or tensor.stream or LEGACY_STREAM
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
        if stream == LEGACY_STREAM:
            return torch.cuda.stream(torch.cuda.default_stream(array.device))
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
    given, place = _dlpack.stream_number(stream, "stream="), _dlpack.device_of(array)
    current = current_stream(library_of(array), place[1] if place else None)
    if given is not None and given != current:
        _dlpack.stream_wait(given, current or LEGACY_STREAM)
    with _in_order(array, given):
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
