"""Queries on a GPU, hits on the same GPU: in the caller's kind of array, ordered on the caller's stream, no wait, no byte
over PCIe.

Which stream: the one given, else the current one of PyTorch or CuPy, else the one that a CUDA array interface names, else
the legacy default. PyTorch tensors on their current stream are taken by address, which is cheaper than a capsule; all others
by DLPack, whose producer orders our stream after its own, or by the CUDA array interface, where we do.
"""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Optional

from . import _arrays, _dlpack, _lib
from ._errors import ArgumentError, DimensionError, ElementTypeError


TORCH_ELEMENTS = {"torch.float32": (2, 32), "torch.float16": (2, 16), "torch.bfloat16": (4, 16), "torch.int8": (0, 8),
                  "torch.uint8": (1, 8), "torch.float64": (2, 64), "torch.int64": (0, 64), "torch.int32": (0, 32)}


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


def empty(array: Any, shape: tuple[int, ...], stream: int) -> tuple[Any, Any]:
    """Fresh ids and scores of the caller's kind on its GPU, allocated in the order of the stream."""
    kind = library_of(array)
    if kind == "torch":
        torch = sys.modules["torch"]
        current = stream == current_stream(kind, array.device.index)
        with contextlib.nullcontext() if current else torch.cuda.stream(torch.cuda.ExternalStream(stream, device=array.device)):
            return torch.empty(shape, dtype=torch.int64, device=array.device), torch.empty(shape, dtype=torch.float32, device=array.device)
    if kind == "cupy":
        cupy = sys.modules["cupy"]
        with array.device, contextlib.nullcontext() if stream == current_stream(kind, None) else cupy.cuda.ExternalStream(stream):
            return cupy.empty(shape, cupy.int64), cupy.empty(shape, cupy.float32)
    raise ArgumentError(f"expected out=(ids, scores) beside queries of {kind}: its arrays cannot be made here and filled in place")


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
