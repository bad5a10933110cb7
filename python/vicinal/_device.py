"""Devices: where the arithmetic runs. Opened once for each set of options and shared by all indexes that live at a time.

The key holds the process id: a child after fork() opens a device of its own, because threads do not survive the fork.
"""
from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any, NamedTuple, Optional, Union

from . import _lib
from ._errors import ArgumentError


class Shared:
    """A handle of the library, freed when its last holder lets go, and then its parent let go of.

    The garbage collector finalises the objects of a cycle in any order, so an index cannot rely on Python keeping its device
    alive. Each holder has one entry in a list, whose append and pop are atomic; who pops the first one frees. The pointer is
    cleared then: a use by another finaliser gets the library's refusal of NULL."""

    __slots__ = ("pointer", "_free", "_parent", "_holders")

    def __init__(self, pointer: ctypes.c_void_p, free: Any, parent: Optional["Shared"] = None) -> None:
        self.pointer, self._free, self._parent = pointer, free, parent and parent.hold()
        self._holders = [True]

    def hold(self) -> "Shared":
        self._holders.append(False)
        return self

    def release(self) -> None:
        if self._holders.pop():
            self._free(self.pointer)
            self.pointer.value = None
            if self._parent is not None:
                self._parent.release()


class DeviceInfo(NamedTuple):
    """What a device is. `sentence` says why it cannot be used; bytes are the budget, what is held and the most ever held."""

    name: str
    model: str
    kernels: str
    usable: bool
    sentence: str
    threads: int
    host_bytes: int
    host_used: int
    host_peak: int
    device_bytes: int
    device_used: int
    device_peak: int


class Calibration(NamedTuple):
    """Bytes a second that a scan reads, that searches on 8-bit and 4-bit codes read; the cost of a row read here and there
    over that of one that streams by; microseconds of a search on planes over nothing; seconds of measuring."""

    scan_bytes_s: float
    plane_8_bytes_s: float
    plane_4_bytes_s: float
    rescore_cost: float
    handover_us: float
    seconds: float


def _info(raw: _lib.DeviceInfo) -> DeviceInfo:
    values: Any = [getattr(raw, name) for name in DeviceInfo._fields]
    info = DeviceInfo._make(value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values)
    return info._replace(usable=bool(raw.usable))


class Device:
    """The CPU or one GPU: threads, workspaces and a memory budget.

    name: "auto" (the best that is here), "cpu", "cuda", "cuda:1". threads: 0 means one a core. host_bytes, device_bytes:
    budgets, 0 for what the machine has. Raises UnavailableError, with what is missing, and ArgumentError.

    >>> Device("cpu", threads=2).info.threads
    2
    """

    __slots__ = ("shared", "name", "__weakref__")

    def __init__(self, name: str = "auto", threads: int = 0, host_bytes: int = 0, device_bytes: int = 0) -> None:
        handle = ctypes.c_void_p()
        options = _lib.DeviceOptions(name=name.encode(), threads=threads, host_bytes=host_bytes, device_bytes=device_bytes)
        _lib.check(_lib.LIB.vic_device_open(ctypes.byref(options), ctypes.byref(handle)))
        self.shared = Shared(handle, _lib.LIB.vic_device_free)
        # Not in __del__: until that has returned, another thread can still get the object from the table of open devices.
        setattr(weakref.finalize(self, self.shared.release), "atexit", False)  # an attribute that some type stubs do not know
        self.name = self.info.name

    @property
    def info(self) -> DeviceInfo:
        """What the device is and holds now."""
        raw = _lib.DeviceInfo()
        _lib.check(_lib.LIB.vic_device_info(self.shared.pointer, ctypes.byref(raw)))
        return _info(raw)

    @property
    def ordinal(self) -> Optional[int]:
        """Which GPU; None on the CPU."""
        kind, _, number = self.name.partition(":")
        return None if kind == "cpu" else int(number or 0)

    def calibrate(self, path: Optional[str] = None) -> Calibration:
        """Measures this CPU in about two seconds and keeps the result in a small file (None: vicinal/calibration.json in the
        user's cache folder, which every later device reads); it decides when planes pay, never an answer. Nothing else may
        use the device meanwhile. Raises NotFoundError when the folder is not there; what was measured is used all the same."""
        raw = _lib.Calibration()
        _lib.check(_lib.LIB.vic_device_calibrate(self.shared.pointer, None if path is None else os.fsencode(path), ctypes.byref(raw)))
        return Calibration(*(getattr(raw, name) for name in Calibration._fields))

    def __repr__(self) -> str:
        info = self.info
        return f"<vicinal.Device {info.name}: {info.model}, {info.threads} threads>"


_open: "weakref.WeakValueDictionary[tuple[int, str, int], Device]" = weakref.WeakValueDictionary()
_lock = threading.Lock()
os.register_at_fork(after_in_child=lambda: globals().__setitem__("_lock", threading.Lock()))


def device_for(device: Union[str, Device], threads: Optional[int]) -> Device:
    """The device of a name, shared with everything that is open on it, or the caller's own."""
    if isinstance(device, Device):
        if threads is not None:
            raise ArgumentError("expected threads to be said where the Device was made, found threads beside a Device")
        return device
    if not isinstance(device, str):
        raise ArgumentError(f"expected a device as a name or a vicinal.Device, found {device!r}")
    key = (os.getpid(), device, int(threads or 0))
    with _lock:
        found = _open.get(key)
        if found is None:
            made = Device(device, int(threads or 0))
            found = _open.setdefault((key[0], made.name, key[2]), made)
            _open[key] = found
        return found


def devices() -> list[DeviceInfo]:
    """Every device this build knows of, usable or not.

    >>> [device.name for device in devices() if device.name == "cpu"]
    ['cpu']
    """
    count = ctypes.c_int64()
    _lib.check(_lib.LIB.vic_device_list(None, 0, ctypes.byref(count)))
    infos = (_lib.DeviceInfo * count.value)()
    for info in infos:
        info.size = ctypes.sizeof(_lib.DeviceInfo)
    _lib.check(_lib.LIB.vic_device_list(infos, count.value, ctypes.byref(count)))
    return [_info(info) for info in infos[:count.value]]
