"""Other libraries' arrays without a copy: DLPack capsules and the CUDA array interface, read by ctypes.

NumPy's own reader knows neither bfloat16 nor device memory, so capsules are taken apart here: versioned ones where the
producer has them, read-only ones as well, since queries and rows are only read. A capsule that was consumed is renamed and
its deleter called when the `Tensor` goes; one that was refused is left to its own destructor.

Streams, as both standards have them: 1 is the legacy default stream, 2 the per-thread one, larger numbers are handles, and
0 is refused because it does not say which default is meant.
"""
from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Optional

from ._errors import ArgumentError, DeviceError, ElementTypeError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
DEVICE_TYPES = {1: "cpu", 2: "cuda", 3: "pinned host memory", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 11: "pinned rocm host memory",
                13: "cuda managed memory", 14: "oneapi", 15: "webgpu"}
READ_ONLY = 1
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", c_void_p), ("strides", c_void_p), ("byte_offset", c_uint64)]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", c_void_p), ("deleter", c_void_p)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", DLTensor)]


# Capsules keep the address of their name: these two live as long as the module.
USED, USED_VERSIONED = b"used_dltensor", b"used_dltensor_versioned"
DELETER = ctypes.CFUNCTYPE(None, c_void_p)

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c_int, (ctypes.py_object, c_char_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, (ctypes.py_object, c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = c_int, (ctypes.py_object, c_char_p)


class Tensor:
    """An array of any library: address, shape, strides in bytes, type; keeps its memory alive.

    `element` is DLPack's (code, bits): (2, 32) float32, (2, 16) float16, (4, 16) bfloat16, (0, 8) int8, (1, 8) uint8."""

    __slots__ = ("data", "shape", "strides", "element", "device_type", "ordinal", "writable", "stream", "owner", "_release")

    def __init__(self, data: int, shape: tuple[int, ...], strides: tuple[int, ...], element: tuple[int, int], device_type: int,
                 ordinal: Optional[int], writable: bool, owner: Any, release: Optional[Callable[[], None]] = None) -> None:
        self.data, self.shape, self.strides, self.element = data, shape, strides, element
        self.device_type, self.ordinal, self.writable, self.owner = device_type, ordinal, writable, owner
        self.stream: Optional[int] = None
        self._release = release

    def __del__(self) -> None:
        release = getattr(self, "_release", None)
        if release is not None:
            release()


def packed(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Strides in bytes of an array in C order without gaps."""
    strides, step = [], item
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def _request(array: Any, stream: Optional[int]) -> Any:
    """The producer's capsule: versioned if it can, unversioned if it never heard of versions."""
    keywords = {} if stream is None else {"stream": stream}
    if getattr(array, "requires_grad", False):  # PyTorch lends no tensor that a gradient is kept for; here it is only read
        array = array.detach()
    try:
        return array.__dlpack__(max_version=(1, 1), **keywords)
    except TypeError:
        return array.__dlpack__(**keywords)


def from_dlpack(array: Any, stream: Optional[int] = None) -> Tensor:
    """An array by its `__dlpack__`. `stream`: the one that will read it, which the producer makes wait for its own work."""
    capsule = _request(array, stream)
    if _is_valid(capsule, b"dltensor_versioned"):
        address = _pointer(capsule, b"dltensor_versioned")
        versioned = DLManagedTensorVersioned.from_address(address)
        if versioned.major > 1:
            raise ElementTypeError(f"expected a DLPack capsule of version 1, found {versioned.major}.{versioned.minor}")
        tensor, deleter, used, writable = versioned.tensor, versioned.deleter, USED_VERSIONED, not versioned.flags & READ_ONLY
    elif _is_valid(capsule, b"dltensor"):
        address = _pointer(capsule, b"dltensor")
        managed = DLManagedTensor.from_address(address)
        tensor, deleter, used, writable = managed.tensor, managed.deleter, USED, True
    else:
        raise ElementTypeError(f"expected a DLPack capsule from __dlpack__, found {capsule!r}")
    if tensor.lanes != 1:
        raise ElementTypeError(f"expected one number an element, found vectors of {tensor.lanes} (DLPack lanes)")
    ndim, item = tensor.ndim, tensor.bits // 8
    shape = tuple((c_int64 * ndim).from_address(tensor.shape)) if ndim else ()
    strides = tuple(step * item for step in (c_int64 * ndim).from_address(tensor.strides)) if ndim and tensor.strides else packed(shape, item)
    _rename(capsule, used)
    return Tensor((tensor.data or 0) + tensor.byte_offset, shape, strides, (tensor.code, tensor.bits), tensor.device_type,
                  tensor.device_id, writable, array, lambda: DELETER(deleter)(address) if deleter else None)


CAI_ELEMENTS = {"f2": (2, 16), "f4": (2, 32), "f8": (2, 64), "i1": (0, 8), "u1": (1, 8), "i2": (0, 16), "i4": (0, 32), "i8": (0, 64),
                "u2": (1, 16), "u4": (1, 32), "u8": (1, 64)}


def from_cuda_interface(array: Any) -> Tensor:
    """An array by its `__cuda_array_interface__`; `.stream` is the one that its producer says it is written on."""
    facts = array.__cuda_array_interface__
    if facts.get("mask") is not None:
        raise ElementTypeError("expected an array without a mask, found one in its __cuda_array_interface__")
    kind = facts["typestr"]
    if kind[0] == ">" or kind[1:] not in CAI_ELEMENTS:
        raise ElementTypeError(f"expected numbers in the GPU's own byte order, found typestr {kind!r}")
    element, (data, read_only) = CAI_ELEMENTS[kind[1:]], facts["data"]
    shape = tuple(facts["shape"])
    strides = facts.get("strides")
    tensor = Tensor(data or 0, shape, tuple(strides) if strides is not None else packed(shape, element[1] // 8), element, CUDA, None,
                    not read_only, array)
    tensor.stream = stream_number(facts.get("stream"), "the __cuda_array_interface__ of an array")
    return tensor


def speaks_dlpack(array: Any) -> bool:
    return hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__")


def device_of(array: Any) -> Optional[tuple[int, Optional[int]]]:
    """(DLPack device type, ordinal) of an array that says where it lies; None for one that does not."""
    if speaks_dlpack(array):
        try:
            device_type, ordinal = array.__dlpack_device__()
        except (TypeError, ValueError, BufferError):  # has the method, not for this array: Arrow columns of lists
            return None
        return int(device_type), int(ordinal)
    if hasattr(array, "__cuda_array_interface__"):
        return CUDA, None
    return None


def stream_number(stream: Any, where: str) -> Optional[int]:
    """A stream of any library as a handle; None for None. 0 as a plain number is refused, as both standards say; a stream
    object whose handle is 0 is the legacy default stream."""
    if stream is None:
        return None
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1]) or LEGACY_STREAM
    for attribute in ("cuda_stream", "ptr", "handle"):  # PyTorch, CuPy, others
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute)) or LEGACY_STREAM
    if not isinstance(stream, int) or isinstance(stream, bool):
        raise ArgumentError(f"expected a stream (1 legacy default, 2 per-thread default, a handle, or a stream object), found {stream!r} in {where}")
    if stream <= 0:
        raise ArgumentError(f"expected a stream of 1 (legacy default), 2 (per-thread default) or a handle, found {stream} in {where}: "
                            "0 does not say which default is meant")
    return int(stream)


def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"expected the CUDA driver for an array on a GPU, found none: {error}") from None


def stream_wait(waiting: int, producing: int) -> None:
    """Orders stream `waiting` after the work that is in stream `producing` now; returns at once."""
    cuda, event = _driver(), c_void_p()

    def call(name: str, *arguments: Any) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            raise DeviceError(f"expected one stream to wait for another, found error {code} from {name}")

    call("cuEventCreate", ctypes.byref(event), c_int(2))  # without timing
    try:
        call("cuEventRecord", event, c_void_p(producing))
        call("cuStreamWaitEvent", c_void_p(waiting), event, c_int(0))
    finally:
        cuda.cuEventDestroy_v2(event)
