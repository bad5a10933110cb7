"""Vectors and neighbours in files, recall, ground truth, and data that is the same everywhere."""
from __future__ import annotations

import ctypes
import operator
import os
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from . import _arrays, _lib
from ._arrays import FLOAT32, INT64, Array, Path
from ._build import build, file_facts, reader_options
from ._device import Device
from ._errors import DimensionError, ElementTypeError
from ._hits import Hits
from ._progress import Reporter

BLOCK_BYTES = 64 << 20  # read and written at a time: between two blocks Ctrl-C is heard


class FileInfo(NamedTuple):
    """What a file is, from its bytes: format ("vicinal", "fvecs", "npy", "bin", "hdf5", "truth", "ivecs", "text", "unknown"),
    the file's element type, the type that `read` gives (None: none of ours), a sentence for a person, and for an index
    its format version and sections as (name, offset, bytes)."""

    format: str
    element: str
    dtype: Optional[str]
    metric: Optional[str]
    rows: int
    dim: int
    bytes: int
    version: int
    sections: tuple[tuple[str, int, int], ...]
    note: str


class Truth(NamedTuple):
    """Neighbours, best first: ids int64 and distances float32 (None where a file has none), shape (nq, k)."""

    ids: Array
    distances: Optional[Array]


def _file_info(raw: _lib.FileInfo) -> FileInfo:
    sections = tuple((part.name.decode(), part.offset, part.bytes) for part in raw.sections[:raw.section_count])
    return FileInfo(raw.format.decode(), raw.element.decode(), _arrays.NAMES.get(raw.dtype), _arrays.METRICS.get(raw.metric), raw.rows,
                    raw.dim, raw.bytes, raw.version, sections, raw.note.decode("utf-8", "replace"))


def info(path: Path) -> FileInfo:
    """What a file is. A file of no known kind is no error: format "unknown" and a note. Raises MissingFileError."""
    return _file_info(file_facts(path))


def read(path: Path, first: int = 0, count: Optional[int] = None, *, dtype: Any = None, format: Optional[str] = None,
         dataset: Optional[str] = None) -> Array:
    """Vectors of a file (fvecs, bvecs, fbin, u8bin, i8bin, f16bin, npy, HDF5), shape (rows, dim), read into place.

    first, count: which rows. dtype: needed for a .bin; "f32" takes float64 to nearest. format: forces the reader.
    dataset: which one of an HDF5 file. Raises MissingFileError, FormatError with what the file looks like instead."""
    reader, raw, options = ctypes.c_void_p(), _lib.FileInfo(), reader_options(dtype, format, dataset)
    _lib.check_file(_lib.LIB.vic_reader_open(_arrays.path_bytes(path), ctypes.byref(options), ctypes.byref(reader)))
    try:
        _lib.check(_lib.LIB.vic_reader_info(reader, ctypes.byref(raw)))
        wanted = raw.rows - first if count is None else count
        if first < 0 or wanted < 0 or first + wanted > raw.rows:
            raise DimensionError(f"expected rows within 0 to {raw.rows}, found {wanted} from row {first} in {os.fspath(path)}")
        rows = np.empty((wanted, raw.dim), _arrays.DTYPES.get(raw.dtype, np.uint16))
        step = max(1, BLOCK_BYTES // max(1, raw.dim * rows.itemsize))
        for row in range(0, wanted, step):
            part = rows[row:row + step]
            matrix = _arrays.matrix_of(part, raw.dtype)
            _lib.check(_lib.LIB.vic_reader_read(reader, first + row, len(part), ctypes.byref(matrix)))
    finally:
        _lib.LIB.vic_reader_close(reader)
    if raw.dtype == _lib.BF16:
        bfloat16 = _arrays.bfloat16()
        return _arrays.widened(rows) if bfloat16 is None else rows.view(bfloat16)
    return rows


def write(path: Path, rows: Any, *, format: Optional[str] = None, convert: bool = False) -> None:
    """Vectors into a file, atomically, in the format of its ending (.fvecs .bvecs .fbin .u8bin .i8bin .f16bin .bin .npy).
    Raises ElementTypeError when the format has no such element type."""
    matrix, array = _arrays.rows_of(rows, convert)
    writer, options = ctypes.c_void_p(), _lib.WriterOptions(format=format.encode() if format else None)
    _lib.check_file(_lib.LIB.vic_writer_open(_arrays.path_bytes(path), matrix.rows, matrix.dim, matrix.dtype, ctypes.byref(options),
                                        ctypes.byref(writer)))
    try:
        step = max(1, BLOCK_BYTES // max(1, matrix.dim * array.itemsize))
        for row in range(0, len(array), step):
            part = _arrays.matrix_of(array[row:row + step], matrix.dtype)
            _lib.check(_lib.LIB.vic_writer_write(writer, ctypes.byref(part)))
        _lib.check_file(_lib.LIB.vic_writer_finish(writer))
    finally:
        _lib.LIB.vic_writer_free(writer)


def truth(rows: Any, queries: Any, k: int = 100, metric: str = "cosine", *, device: Union[str, Device] = "auto",
          threads: Optional[int] = None, convert: bool = False, progress: Union[bool, Reporter] = False) -> Truth:
    """The exact neighbours of queries among rows, for judging an approximate index: `recall(hits, truth)`.

    rows, queries: arrays as for `build` and `Index.search`, or paths of vector files."""
    if isinstance(queries, (str, os.PathLike)):
        queries = read(queries)
    with build(rows, metric, convert=convert, device=device, threads=threads, progress=progress) as index:
        ids, scores = index.search(queries, k, convert=convert)
    return Truth(ids, scores)


def _arrays_of(neighbours: Any, role: str) -> tuple[_lib.TruthArrays, Any]:
    """Hits, Truth, (ids, distances), ids alone, or a path: the struct, and what keeps its memory."""
    if isinstance(neighbours, (str, os.PathLike)):
        neighbours = read_truth(neighbours)
    ids, distances = neighbours if isinstance(neighbours, (Hits, tuple)) else (neighbours, None)
    numbers = _arrays.ids_of(ids if isinstance(ids, np.ndarray) or not hasattr(ids, "tolist") else ids.tolist(), f"{role}.ids")
    numbers = numbers.reshape(1, -1) if numbers.ndim == 1 else numbers
    if numbers.ndim != 2:
        raise DimensionError(f"expected {role}.ids of shape (nq, k), found {numbers.shape}")
    scores = None
    if distances is not None:
        scores = np.asarray(distances if isinstance(distances, np.ndarray) or not hasattr(distances, "tolist") else distances.tolist())
        if scores.dtype.kind != "f":
            raise ElementTypeError(f"expected {role}.distances of float32, found {scores.dtype.name}")
        scores = np.ascontiguousarray(scores, FLOAT32).reshape(1, -1) if scores.ndim == 1 else np.ascontiguousarray(scores, FLOAT32)
        if scores.shape != numbers.shape:
            raise DimensionError(f"expected {role}.distances of the ids' shape {numbers.shape}, found {scores.shape}")
    return (_lib.TruthArrays(numbers.shape[0], numbers.shape[1], numbers.ctypes.data, None if scores is None else scores.ctypes.data),
            (numbers, scores))


def recall(hits: Any, truth: Any, k: Optional[int] = None, n: int = 0) -> float:
    """The share of the k true neighbours found among the first k hits, averaged over queries; ties count as found where
    both sides carry distances.

    hits, truth: `Hits`, `Truth`, (ids, distances), ids, or a path. k: None for the smaller of both. n: ids must be below it.

    >>> recall([[1, 2, 3]], [[1, 3, 9]])
    0.6666666666666666
    """
    found, kept_found = _arrays_of(hits, "hits")
    true, kept_true = _arrays_of(truth, "truth")
    result = ctypes.c_double()
    wanted = min(found.k, true.k) if k is None else operator.index(k)
    _lib.check(_lib.LIB.vic_recall(ctypes.byref(found), ctypes.byref(true), wanted, n, ctypes.byref(result)))
    del kept_found, kept_true
    return result.value


def read_truth(path: Path) -> Truth:
    """Ground truth or saved hits: .bin, .ivecs, .npy of integers, HDF5 `neighbors` and `distances`."""
    raw = _lib.TruthArrays()
    _lib.check_file(_lib.LIB.vic_truth_read(_arrays.path_bytes(path), ctypes.byref(raw)))
    try:
        ids, distances = np.empty((raw.nq, raw.k), INT64), np.empty((raw.nq, raw.k), FLOAT32) if raw.distances else None
        if ids.size:
            ctypes.memmove(ids.ctypes.data, raw.ids, ids.nbytes)
        if distances is not None and distances.size:
            ctypes.memmove(distances.ctypes.data, raw.distances, distances.nbytes)
        return Truth(ids, distances)
    finally:
        _lib.LIB.vic_truth_free(ctypes.byref(raw))


def write_truth(path: Path, neighbours: Any) -> None:
    """Neighbours into a file, atomically: .bin (ids and distances), .ivecs, .npy (ids). Raises IdError beyond 32 bits."""
    raw, kept = _arrays_of(neighbours, "neighbours")
    _lib.check_file(_lib.LIB.vic_truth_write(_arrays.path_bytes(path), ctypes.byref(raw)))
    del kept


def generate(kind: str, rows: int, dim: int, *, seed: int = 0, first: int = 0, dtype: Any = "f32", threads: int = 0, norm_sigma: float = 0.0,
             clusters: int = 0, spread: float = 0.0, latent_dim: int = 0, duplicate_share: float = 0.0) -> Array:
    """Rows [first, first + rows) of an endless deterministic data set: "gauss", "clusters", "manifold" or "duplicates". A row
    depends on the options, dim and its number alone: the same bytes on every machine, for any thread count.

    >>> generate("gauss", 2, 3, seed=1).shape
    (2, 3)
    """
    code = _arrays.parse("dtype", dtype)
    out = np.empty((rows, dim), _arrays.DTYPES.get(code, np.uint16))
    options = _lib.GenerateOptions(kind=kind.encode(), seed=seed, norm_sigma=norm_sigma, clusters=clusters, spread=spread,
                                   latent_dim=latent_dim, duplicate_share=duplicate_share)
    matrix = _arrays.matrix_of(out, code)
    _lib.check(_lib.LIB.vic_generate(ctypes.byref(options), first, threads, ctypes.byref(matrix)))
    if code == _lib.BF16:
        bfloat16 = _arrays.bfloat16()
        return _arrays.widened(out) if bfloat16 is None else out.view(bfloat16)
    return out
