"""`build` and `open`: from rows, or from a file of rows, to an index; from an index file to an index."""
from __future__ import annotations

import ctypes
import json
import operator
import os
import tempfile
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional, Union

import numpy as np

from . import _arrays, _lib
from ._arrays import INT64, Path
from ._device import Device, device_for
from ._errors import ArgumentError, DimensionError
from ._index import Handle, Index
from ._progress import Reporter, Watch

Planes = Union[None, str, int, Iterable[int]]
GraphChoice = Union[None, bool, Mapping[str, Any]]
Texts = Union[Path, Iterable[Union[str, bytes]]]

GRAPH_FIELDS: dict[str, Callable[[Any], Any]] = {"degree": operator.index, "beam": operator.index, "alpha": float, "force": bool,
                                                   "pq_chunks": operator.index}


def _planes(planes: Planes) -> int:
    """The enum's sum: None is 0 (the library decides), "none" no planes, 8, 4, or both."""
    if planes is None:
        return 0
    if planes == "none":
        return _lib.PLANES_NONE
    chosen = {planes} if isinstance(planes, (int, str)) else set(planes)
    if not chosen or not chosen <= {8, 4}:
        raise ArgumentError(f"expected planes None, 'none', 8, 4 or (8, 4), found {planes!r}")
    return sum({8: _lib.PLANES_8, 4: _lib.PLANES_4}[int(bits)] for bits in chosen)


def _graph(graph: GraphChoice) -> Optional[_lib.GraphOptions]:
    """Options of a graph to build, or None for no graph. The library holds their values against their ranges, where 0 stands
    for its default."""
    if graph is None or graph is False:
        return None
    given = {} if graph is True else graph
    if not isinstance(given, Mapping) or not set(given) <= set(GRAPH_FIELDS):
        raise ArgumentError(f"expected graph True, False or a dict of {', '.join(GRAPH_FIELDS)}, found {graph!r}")
    options = _lib.GraphOptions()
    for name, value in given.items():
        if value is None:
            continue
        if name != "force" and not 1 <= value < 2**31:
            raise ArgumentError(f"expected a graph's {name} from 1 to {2**31 - 1}, or None, found {value!r}")
        setattr(options, name, GRAPH_FIELDS[name](value))
    return options


def _texts(texts: Texts) -> tuple[_lib.Texts, Any]:
    """One text a row from a file of lines or from Python's strings: the struct, and what keeps its memory."""
    struct = _lib.Texts()
    if isinstance(texts, (str, os.PathLike)):
        _lib.check(_lib.LIB.vic_texts_read(_arrays.path_bytes(texts), ctypes.byref(struct)))
        return struct, _TextsFile(struct)
    listed = getattr(texts, "to_pylist", getattr(texts, "tolist", None))  # Arrow; NumPy, pandas
    encoded = []
    for row, text in enumerate(listed() if listed else texts):
        if not isinstance(text, (str, bytes)):
            raise ArgumentError(f"expected texts of str or bytes, found {type(text).__name__} for row {row}")
        encoded.append(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    offsets = np.zeros(len(encoded) + 1, INT64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    joined = b"".join(encoded)
    struct.bytes = ctypes.cast(ctypes.c_char_p(joined), ctypes.c_void_p)
    struct.offsets, struct.count = offsets.ctypes.data, len(encoded)
    return struct, (joined, offsets)


class _TextsFile:
    """Texts that the library read and must free."""

    def __init__(self, struct: _lib.Texts) -> None:
        self._struct = struct

    def __del__(self, free: Any = _lib.LIB.vic_texts_free) -> None:
        free(ctypes.byref(self._struct))


class Plan(NamedTuple):
    """Bytes that an index would need: the rows, what lies beside them, workspaces; on the host, on the GPU, in a file. Of what
    lies beside them, codes and a graph; of the workspaces, what is given back when the graph is built."""

    row_bytes: int
    extra_bytes: int
    workspace_bytes: int
    host_bytes: int
    device_bytes: int
    file_bytes: int
    code_bytes: int
    graph_bytes: int
    build_bytes: int


def plan(rows: int, dim: int, metric: str = "cosine", dtype: str = "f32", planes: Planes = None, device: Union[str, Device] = "auto",
         threads: Optional[int] = None, graph: GraphChoice = None) -> Plan:
    """What an index of `rows` rows of `dim` numbers would need; allocates nothing. Arguments as for `build`.

    >>> plan(1_000_000, 384, dtype="f16", planes="none").row_bytes
    768000000
    """
    options = _lib.BuildOptions(metric=_arrays.parse("metric", metric), dtype=_arrays.parse("dtype", dtype), planes=_planes(planes))
    walked = _graph(graph)
    options.graph = walked and ctypes.addressof(walked)
    filled, chosen = _lib.Plan(), device_for(device, threads)
    _lib.check(_lib.LIB.vic_index_plan(chosen.shared.pointer, rows, dim, ctypes.byref(options), ctypes.byref(filled)))
    return Plan(*(getattr(filled, name) for name in Plan._fields))


def build(rows: Any, metric: str = "cosine", *, ids: Any = None, texts: Optional[Texts] = None, dtype: Any = None, convert: bool = False,
          planes: Planes = None, metadata: Optional[Mapping[str, Any]] = None, path: Optional[Path] = None,
          device: Union[str, Device] = "auto", threads: Optional[int] = None, progress: Union[bool, Reporter] = False,
          format: Optional[str] = None, dataset: Optional[str] = None, graph: GraphChoice = None) -> Index:
    """An index over rows, which are copied.

    rows: shape (n, dim): an array of float32, float16, bfloat16, int8 or uint8, of any strides; a list of lists; a column of
        fixed-size lists; or the path of a vector file (`format`, `dataset`: how to read it), which is read in blocks.
    metric: "cosine", "dot" ("ip", "inner_product") or "l2" ("euclidean").
    ids: integers, one a row, unique, at least 0; None: 0, 1, 2 ...
    texts: str or bytes, one a row, or the path of a file of lines.
    dtype: type in which rows are stored ("f16", numpy.int8 ...); None: as they come.
    convert: take float64 and wider integers to the nearest float32, as a given dtype does too; else they are refused.
    planes: codes for faster exact search: None (the library decides), "none", 8, 4 or (8, 4). A graph is built over those of 8
        bits and brings them, also with "none".
    graph: True, or a dict of degree (64), beam (100), alpha (1.1), force and pq_chunks (none; bytes of a row's product codes):
        approximate searches that look at a small part of the rows. Fewer than 4096 rows get none unless force is true. The same
        rows give the same graph, byte for byte.
    path: build straight into this index file. metadata: a JSON object to keep. device: "auto", "cpu", "cuda:0", a `Device`.
    progress: True for a bar, or a function of (stage, done, total, seconds) whose true answer cancels.

    All or nothing. Raises NotFiniteError (row and column), IdError, DimensionError, ElementTypeError, BudgetError (both byte
    counts); KeyboardInterrupt stops it.

    >>> import numpy as np
    >>> build(np.eye(4, dtype="float32"), metric="ip")
    <vicinal.Index: 4 rows of 4 x f32, dot, on cpu, ...
    """
    chosen, walked = device_for(device, threads), _graph(graph)
    options = _lib.BuildOptions(metric=_arrays.parse("metric", metric), planes=_planes(planes), graph=walked and ctypes.addressof(walked))
    kept: list[Any] = [walked]
    if dtype is not None:
        options.dtype = _arrays.parse("dtype", dtype)
    if metadata is not None:
        options.metadata = json.dumps(dict(metadata)).encode()
    if path is not None:
        options.path = _arrays.path_bytes(path)
    if texts is not None:
        struct, memory = _texts(texts)
        options.texts = ctypes.addressof(struct)
        kept += [struct, memory]
    pointer = ctypes.c_void_p()
    if isinstance(rows, (str, os.PathLike)):
        facts = file_facts(rows)
        reader = reader_options(dtype if not facts.dtype else None, format, dataset)
        if facts.element == b"f64" and (convert or dtype is not None):
            reader.dtype = _lib.F32
        options.reader = ctypes.addressof(reader)
        call: Any = _lib.LIB.vic_index_build_file
        source: Any = _arrays.path_bytes(rows)
        count = reader_rows(rows, reader) if ids is not None else 0
    else:
        matrix, array = _arrays.rows_of(rows, convert or dtype is not None)
        kept.append(array)
        call, source, count = _lib.LIB.vic_index_build, ctypes.byref(matrix), len(array)
    if ids is not None:
        numbers = _arrays.ids_of(ids).reshape(-1)
        if len(numbers) != count:
            raise DimensionError(f"expected one id a row, {count}, found {len(numbers)}")
        options.ids = numbers.ctypes.data
        kept.append(numbers)
    with Watch(progress) as watch:
        options.progress = watch.hook
        _lib.check_file(call(chosen.shared.pointer, source, ctypes.byref(options), ctypes.byref(pointer)))
        handle = Handle(pointer, chosen)
    return Index(handle, None if path is None else os.fspath(path), threads, {})


def reader_options(dtype: Any, format: Optional[str], dataset: Optional[str]) -> _lib.ReaderOptions:
    return _lib.ReaderOptions(dtype=0 if dtype is None else _arrays.parse("dtype", dtype), format=format.encode() if format else None,
                              dataset=dataset.encode() if dataset else None)


def reader_rows(path: Path, options: _lib.ReaderOptions) -> int:
    """How many rows a file gives when it is read with these options."""
    reader, info = ctypes.c_void_p(), _lib.FileInfo()
    _lib.check_file(_lib.LIB.vic_reader_open(_arrays.path_bytes(path), ctypes.byref(options), ctypes.byref(reader)))
    try:
        _lib.check(_lib.LIB.vic_reader_info(reader, ctypes.byref(info)))
        return int(info.rows)
    finally:
        _lib.LIB.vic_reader_close(reader)


def file_facts(path: Path) -> _lib.FileInfo:
    """What a file is, as the library says it."""
    info = _lib.FileInfo()
    _lib.check_file(_lib.LIB.vic_file_info(_arrays.path_bytes(path), ctypes.byref(info)))
    return info


def open(path: Path, device: Union[str, Device] = "auto", *, threads: Optional[int] = None, check: bool = False, planes: Planes = None,
         progress: Union[bool, Reporter] = False, graph: GraphChoice = None, metric: Optional[str] = None, dtype: Any = None) -> Index:
    """Opens an index file; its rows are read when they are searched, and stay in the file. An index of DiskANN (PREFIX with
    PREFIX.data beside it, or PREFIX_disk.index) is read into memory.

    check: verify every checksum first. planes: codes to make now in memory where the file has none.
    graph: True or a dict as for `build`: a graph to build now in place of the one that there may be; the rows are not copied.
    metric, dtype: what a file of DiskANN does not say; None: what lies beside it says, else "l2" and what can be found.
    Raises MissingFileError, FormatError (what the file looks like instead), VersionError, ChecksumError, UnavailableError,
    ElementTypeError (the dtype must be given).
    """
    chosen, walked = device_for(device, threads), _graph(graph)
    options = _lib.OpenOptions(check=int(check), planes=_planes(planes), graph=walked and ctypes.addressof(walked),
                               metric=0 if metric is None else _arrays.parse("metric", metric), dtype=0 if dtype is None else _arrays.parse("dtype", dtype))
    return _opened(path, chosen, threads, options, progress, walked is None)


def _opened(path: Path, chosen: Device, threads: Optional[int], options: _lib.OpenOptions, progress: Union[bool, Reporter], again: bool) -> Index:
    """again: whether the file and these options make this index once more."""
    pointer = ctypes.c_void_p()
    with Watch(progress) as watch:
        options.progress = watch.hook
        _lib.check_file(_lib.LIB.vic_index_open(chosen.shared.pointer, _arrays.path_bytes(path), ctypes.byref(options), ctypes.byref(pointer)))
        handle = Handle(pointer, chosen)
    return Index(handle, os.fspath(path), threads, {name: getattr(options, name) for name in ("planes", "metric", "dtype")} if again else None)


def open_path(path: str, device: str, threads: Optional[int], more: Mapping[str, int]) -> Index:
    """An unpickled index of a file."""
    return _opened(path, device_for(device, threads), threads, _lib.OpenOptions(**more), False, True)


def open_bytes(contents: bytes, device: str, threads: Optional[int]) -> Index:
    """An unpickled index of a built one's bytes: mapped from a file that has no name any more."""
    with tempfile.NamedTemporaryFile(suffix=".vic") as file:
        file.write(contents)
        file.flush()
        index = open(file.name, device, threads=threads)
    index._path = None
    return index
