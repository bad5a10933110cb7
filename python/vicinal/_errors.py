"""The exceptions: one tree, each also a built-in that a Python programmer would catch.

The text is the library's sentence: what was expected, what was found, where. `error.status` is the number of
include/vicinal.h, `error.name` its constant ("VIC_BUDGET").
"""
from __future__ import annotations


class Error(Exception):
    """Everything that vicinal raises of its own."""

    status = 21
    name = "VIC_INTERNAL"


class ArgumentError(Error, ValueError):
    """An argument is out of range or contradicts another."""


class DimensionError(Error, ValueError):
    """Two dimensions or counts that must agree do not."""


class ElementTypeError(Error, TypeError):
    """The element type does not fit here."""


class NotFiniteError(Error, ValueError):
    """A vector holds NaN or infinity."""


class IdError(Error, ValueError):
    """An id is negative, repeated or already in use."""


class NotFoundError(Error, LookupError):
    """No such id or device."""


class MissingFileError(NotFoundError, FileNotFoundError):
    """No such file."""


class OutOfMemoryError(Error, MemoryError):
    """Memory could not be had."""


class BudgetError(OutOfMemoryError):
    """The plan needs more memory than the budget allows."""


class StorageError(Error, OSError):
    """The operating system refused a file operation, or the file system is full."""


class LockedError(StorageError):
    """Another writer holds the file."""


class FormatError(Error, ValueError):
    """The file is not what it should be."""


class VersionError(FormatError):
    """The file needs a newer library."""


class ChecksumError(FormatError):
    """Bytes of the file were changed after they were written."""


class UnsupportedError(Error, NotImplementedError):
    """This build or this index cannot do that."""


class DeviceError(Error, RuntimeError):
    """The device is not here, reported an error, or belongs to the process before a fork."""


class UnavailableError(DeviceError):
    """The device, its driver or its backend is not here."""


class ForkedError(DeviceError):
    """The handle was opened before fork() and cannot be used in a child."""


class CancelledError(Error):
    """The progress callback asked to stop."""


class CapacityError(Error, ValueError):
    """The caller's arrays are too small for the answer."""


class InternalError(Error, RuntimeError):
    """A promise inside the library was broken; please report it."""


# By number: the constant's name and the class.
BY_STATUS: dict[int, tuple[str, type[Error]]] = {
    1: ("VIC_ARGUMENT", ArgumentError), 2: ("VIC_DIMENSION", DimensionError), 3: ("VIC_TYPE", ElementTypeError),
    4: ("VIC_NOT_FINITE", NotFiniteError), 5: ("VIC_ID", IdError), 6: ("VIC_NOT_FOUND", NotFoundError),
    7: ("VIC_NO_MEMORY", OutOfMemoryError), 8: ("VIC_BUDGET", BudgetError), 9: ("VIC_IO", StorageError),
    10: ("VIC_NO_SPACE", StorageError), 11: ("VIC_FORMAT", FormatError), 12: ("VIC_VERSION", VersionError),
    13: ("VIC_CHECKSUM", ChecksumError), 14: ("VIC_LOCKED", LockedError), 15: ("VIC_UNSUPPORTED", UnsupportedError),
    16: ("VIC_UNAVAILABLE", UnavailableError), 17: ("VIC_CANCELLED", CancelledError), 18: ("VIC_CAPACITY", CapacityError),
    19: ("VIC_DEVICE_ERROR", DeviceError), 20: ("VIC_FORKED", ForkedError), 21: ("VIC_INTERNAL", InternalError),
}
for _number, (_name, _class) in BY_STATUS.items():
    if "status" not in vars(_class):
        _class.status, _class.name = _number, _name
MissingFileError.status, MissingFileError.name = NotFoundError.status, NotFoundError.name


def failure(status: int, sentence: str) -> Error:
    """The exception of a status."""
    name, kind = BY_STATUS.get(status, ("unknown status", InternalError))
    error = kind(sentence)
    error.status, error.name = status, name
    return error
