"""vicinal: which k of n stored vectors are nearest, answered exactly and bit for bit the same on every path.

>>> import numpy as np, vicinal
>>> rows = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], np.float32)
>>> index = vicinal.build(rows, texts=["east", "north", "up", "north-east"])
>>> hits = index.search(np.array([0.75, 0.5, 0], np.float32), k=2)
>>> hits.texts()
['north-east', 'east']
>>> ids, scores = hits
"""
from ._build import Plan, build, open, plan
from ._device import Calibration, Device, DeviceInfo, devices
from ._errors import (ArgumentError, BudgetError, CancelledError, CapacityError, ChecksumError, DeviceError, DimensionError, ElementTypeError,
                      Error, ForkedError, FormatError, IdError, InternalError, LockedError, MissingFileError, NotFiniteError, NotFoundError,
                      OutOfMemoryError, StorageError, UnavailableError, UnsupportedError, VersionError)
from ._files import FileInfo, Truth, generate, info, read, read_truth, recall, truth, write, write_truth
from ._hits import Hits, Ranges, Stats
from ._index import Filter, Graph, GraphReport, Index, Memory
from ._lib import LIB as _LIB

__version__: str = _LIB.vic_version().decode()

__all__ = [
    "ArgumentError", "BudgetError", "Calibration", "CancelledError", "CapacityError", "ChecksumError", "Device", "DeviceError", "DeviceInfo",
    "DimensionError", "ElementTypeError", "Error", "FileInfo", "Filter", "ForkedError", "FormatError", "Graph", "GraphReport", "Hits",
    "IdError", "Index", "InternalError", "LockedError", "Memory", "MissingFileError", "NotFiniteError", "NotFoundError", "OutOfMemoryError",
    "Plan", "Ranges", "Stats", "StorageError", "Truth", "UnavailableError", "UnsupportedError", "VersionError", "build", "devices",
    "generate", "info", "open", "plan", "read", "read_truth", "recall", "truth", "write", "write_truth",
]
