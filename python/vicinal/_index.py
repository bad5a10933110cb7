"""Index: rows that can be searched; `build` and `open` make one.

The C handle lives in a small object that every running call holds: closing an index while another thread searches it only
means that the last of them frees it. A search of one float32 vector on the CPU runs through a slot, the arguments of one
foreign call prepared once for a k, beam and codes: copying 384 numbers costs less than asking NumPy for an address. Slots wait in
a list, whose pop and append are atomic, so any number of threads finds one or makes one. On a GPU _gpu.py has the like.
"""
from __future__ import annotations

import asyncio
import ctypes
import functools
import json
import operator
import os
import tempfile
from types import TracebackType
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from . import _arrays, _dlpack, _gpu, _lib
from ._arrays import FLOAT32, INT64, Array, Path
from ._device import Device, Shared
from ._errors import ArgumentError, DimensionError, NotFoundError
from ._hits import CODES, PATHS, Hits, Ranges
from ._progress import Reporter, Watch

PATH_NUMBERS = {name: number for number, name in PATHS.items() if number}
CODE_NUMBERS: dict[Any, int] = {**{name: number for number, name in CODES.items() if number}, 8: _lib.CODES_8, 4: _lib.CODES_4}
SLOT_HITS, SLOT_KINDS = 4096, 64  # largest k and most (shape, k, beam, codes) that slots are kept for
PLAIN = frozenset((type(None), int, str))  # types of arguments that slots are found by
Codes = Union[None, str, int]
ASK_FIRST = 1 << 27               # result slots beyond which the library is asked whether they can exist


class Memory(NamedTuple):
    """Bytes: held beside what is mapped, mapped from the file, on the GPU, and of the first the search workspaces."""

    host: int
    mapped: int
    device: int
    workspace: int


class Graph(NamedTuple):
    """A graph over the rows: the most neighbours of a row, the rows at which walks begin, the rows that its build had to tie
    in by hand; the beam and alpha that it was built with and what built it (0 and "" where a file does not
    say); bytes of a row's product codes (0: none) and their mean squared error."""

    degree: int
    entries: int
    repairs: int
    beam: int
    alpha: float
    builder: str
    pq_chunks: int
    pq_error: float


class GraphReport(NamedTuple):
    """What a graph looks like. edges; symmetric: those whose other direction is there too; unreached: rows that no walk can
    come to; least, most: neighbours of a row; histogram: rows by their number of neighbours d, each at d * 16 // (degree + 1)."""

    rows: int
    edges: int
    symmetric: int
    unreached: int
    degree: int
    entries: int
    least: int
    most: int
    histogram: tuple[int, ...]


class Handle:
    """An index of the library, held by the `Index`, by every call that runs on it, and by its filters."""

    __slots__ = ("pointer", "device", "shared")

    def __init__(self, pointer: ctypes.c_void_p, device: Device) -> None:
        self.pointer, self.device = pointer, device
        self.shared = Shared(pointer, _lib.LIB.vic_index_free, device.shared)

    def __del__(self) -> None:
        self.shared.release()


class Filter:
    """Which rows of one index may answer; made by `Index.filter`. len() says how many pass."""

    __slots__ = ("pointer", "shared")

    def __init__(self, pointer: ctypes.c_void_p, handle: Handle) -> None:
        self.pointer = pointer
        self.shared = Shared(pointer, _lib.LIB.vic_filter_free, handle.shared)

    def __len__(self) -> int:
        return int(_lib.LIB.vic_filter_count(self.pointer))

    def __repr__(self) -> str:
        return f"<vicinal.Filter: {len(self)} rows pass>"

    def __del__(self) -> None:
        self.shared.release()


class _Slot:
    """One search of one float32 vector for a k, beam and codes: its memory and the arguments of the foreign call."""

    __slots__ = ("query", "ids", "scores", "stats", "arguments", "keep")

    def __init__(self, handle: Handle, shape: tuple[int, ...], k: int, walk: dict[str, int]) -> None:
        results = (*shape[:-1], k)
        self.query = np.zeros(shape, FLOAT32)
        self.ids, self.scores = np.empty(results, INT64), np.empty(results, FLOAT32)
        stats = _lib.SearchStats()
        self.stats = (ctypes.c_char * ctypes.sizeof(stats)).from_buffer(stats)
        options = _lib.SearchOptions(stats=ctypes.addressof(stats), **walk)
        matrix = _lib.Matrix(self.query.ctypes.data, 1, shape[-1], 0, _lib.F32, _lib.HOST)
        hits = _lib.HitsArrays(self.ids.ctypes.data, self.scores.ctypes.data, None, _lib.HOST)
        self.keep = (handle, stats, options, matrix, hits)
        self.arguments = (handle.pointer, ctypes.byref(matrix), ctypes.c_int64(k), ctypes.byref(options), ctypes.byref(hits))


def _number_of(name: str, value: Any, numbers: dict[Any, int]) -> int:
    """The library's number of a choice; 0 for None."""
    try:
        return 0 if value is None else numbers[value]
    except (KeyError, TypeError):
        raise ArgumentError(f"expected {name} None, {', '.join(map(repr, numbers))}, found {value!r}") from None


def _walk(path: Optional[str], beam: Optional[int] = None, parents: Optional[int] = None, codes: Codes = None) -> dict[str, int]:
    """How to search, as fields of the library's options; what is None is the library's choice."""
    fields = {"path": _number_of("path", path, PATH_NUMBERS), "codes": _number_of("codes", codes, CODE_NUMBERS)}
    for name, value in (("beam", beam), ("parents", parents)):
        if value is not None:
            fields[name] = operator.index(value)
            if not 1 <= fields[name] < 2**31:
                raise ArgumentError(f"expected {name} from 1 to {2**31 - 1}, or None, found {value}")
    return fields


class Index:
    """Rows that can be searched, exactly or by a graph. Made by `vicinal.build` and `vicinal.open`; unchangeable, usable from any thread.

    >>> import numpy as np, vicinal
    >>> index = vicinal.build(np.eye(3, dtype="float32"), texts=["x", "y", "z"])
    >>> ids, scores = index.search([0.9, 0.1, 0.0], k=2)
    >>> ids
    array([0, 1])
    >>> index.search([0.9, 0.1, 0.0], k=2).texts()
    ['x', 'y']
    """

    def __init__(self, handle: Handle, path: Optional[str] = None, threads: Optional[int] = None, more: Optional[dict[str, Any]] = None) -> None:
        self._handle: Optional[Handle] = handle
        self._path = path
        self._slots: dict[Any, list[Any]] = {}
        self._wanted = (handle.device.name, threads)
        self._more = more  # what else `open` was given to read the file again; None: the file alone is not this index
        info = self._info()
        self._rows: int = info.rows
        self._dim: int = info.dim
        self._dtype_code: int = info.dtype
        self._metric_code: int = info.metric
        self._ordinal = handle.device.ordinal

    # ---------------------------------------------------------------- what it is

    def _live(self) -> Handle:
        if self._handle is None:
            raise ArgumentError("expected an open index, found one that was closed")
        return self._handle

    def _info(self) -> _lib.IndexInfo:
        info = _lib.IndexInfo()
        _lib.check(_lib.LIB.vic_index_info(self._live().pointer, ctypes.byref(info)))
        return info

    def __len__(self) -> int:
        return self._rows

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self._dim

    @property
    def metric(self) -> str:
        """"dot" and "cosine": larger is better; "l2": squared distance, smaller is better."""
        return _arrays.METRICS[self._metric_code]

    @property
    def dtype(self) -> str:
        """How rows are stored: "f32", "f16", "bf16", "i8" or "u8"."""
        return _arrays.NAMES[self._dtype_code]

    @property
    def device(self) -> str:
        """The name of the device that answers."""
        return self._live().device.name

    @property
    def path(self) -> Optional[str]:
        """The file that was opened or built into; None for an index in memory."""
        return self._path

    @property
    def memory(self) -> Memory:
        """Bytes that the index holds."""
        info = self._info()
        return Memory(info.host_bytes, info.mapped_bytes, info.device_bytes, info.workspace_bytes)

    @property
    def has_texts(self) -> bool:
        """Whether rows carry texts."""
        return bool(self._info().has_texts)

    @property
    def planes(self) -> tuple[int, ...]:
        """Bits a dimension of the codes that let exact searches leave rows unread: (), (8,), (4,) or (8, 4)."""
        planes = self._info().planes
        return tuple(bits for bits, flag in ((8, _lib.PLANES_8), (4, _lib.PLANES_4)) if planes & flag)

    @property
    def graph(self) -> Optional[Graph]:
        """What is known of its graph; None for an index that always searches exactly."""
        info = self._info()
        if not info.degree:
            return None
        return Graph(info.degree, info.entries, info.repairs, info.graph_beam, round(info.graph_alpha, 6), info.graph_builder.decode(),
                     info.pq_chunks, info.pq_error)

    def graph_report(self) -> GraphReport:
        """Looks at every edge of the graph: milliseconds for a hundred thousand rows. UnsupportedError: there is none."""
        raw = _lib.GraphReport()
        _lib.check(_lib.LIB.vic_index_graph(self._live().pointer, ctypes.byref(raw)))
        report = GraphReport._make(getattr(raw, name) for name in GraphReport._fields)
        return report._replace(histogram=tuple(report.histogram))

    @property
    def metadata(self) -> Any:
        """The JSON object kept with the index."""
        return json.loads(self._info().metadata)

    @property
    def ids(self) -> Array:
        """All ids, ascending: int64, shape (n,)."""
        ids = np.empty(self._rows, INT64)
        _lib.check(_lib.LIB.vic_index_ids(self._live().pointer, 0, self._rows, ids.ctypes.data))
        return ids

    def __contains__(self, id: int) -> bool:
        try:
            self.vector(id)
        except NotFoundError:
            return False
        return True

    def _facts(self) -> list[tuple[str, str]]:
        memory, info, graph = self.memory, self._info(), self.graph
        return [("rows", f"{self._rows:,}"), ("dim", f"{self._dim}"), ("dtype", self.dtype), ("metric", self.metric),
                ("device", self.device), ("ids", "given" if info.has_ids else "row numbers"),
                ("texts", "yes" if info.has_texts else "no"),
                ("planes", ", ".join(f"{bits} bits" for bits in self.planes) or "none"),
                ("graph", f"degree {graph.degree}, {graph.entries} entries, {graph.repairs} repairs" if graph else "none"),
                ("memory", f"{(memory.host + memory.mapped + memory.device) / 1e6:,.1f} MB"), ("file", self._path or "none")]

    def __repr__(self) -> str:
        if self._handle is None:
            return "<vicinal.Index, closed>"
        facts = dict(self._facts())
        more = ((f", graph of {facts['graph'].split(',')[0]}" if facts["graph"] != "none" else "") + (", texts" if facts["texts"] == "yes" else "")
                + (f", {facts['file']}" if self._path else ""))
        return (f"<vicinal.Index: {facts['rows']} rows of {facts['dim']} x {facts['dtype']}, {facts['metric']}, on {facts['device']}, "
                f"{facts['memory']}{more}>")

    def _repr_html_(self) -> str:
        from html import escape
        if self._handle is None:
            return escape(repr(self))
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self._facts())
        return f"<table><caption>vicinal.Index</caption>{cells}</table>"

    # ---------------------------------------------------------------- searching

    def search(self, queries: Any, k: int = 10, beam: Optional[int] = None, filter: Any = None, out: Any = None, stream: Any = None,
               path: Optional[str] = None, convert: bool = False, parents: Optional[int] = None, codes: Codes = None) -> Hits:
        """The k best rows for each query: best first, equal scores by the smaller id; exactly, or by the index's graph.

        queries: shape (nq, dim), or (dim,) for one; NumPy or anything that shares its memory; float32, or exactly widened to
            it, or an integer index's own type. Others are refused, or with convert=True taken to the nearest float32.
            Tensors on the index's own GPU give hits there.
        k: from 1. Beyond the rows there are, ids are -1 and scores the worst.
        beam: rows that a walk through the graph keeps in sight, from 1; None: 64; at least k are kept. More find more.
        filter: a `Filter`, or ids of rows that may answer; they are searched exactly.
        out: (ids, scores) to write into, int64 and float32 of shape (nq, k), packed; scores may be None. Or earlier hits.
        stream: for queries on a GPU: 1, 2, a handle, or a stream object; None takes the caller's current one.
        path: None: by the graph where there is one. "graph"; or exactly: "scan", "select" or "certified", whose answers are
            the same bytes.
        parents: rows of the graph that are expanded at once, 1 to 8; None: 1.
        codes: what a walk looks at to find its way: "rows" themselves, 8 or 4 bits a dimension, "pq"; None: 8 where they are,
            else the rows, which integer ones also are when asked for 8.

        An index without a graph searches exactly, whatever the beam. A hit's score is exact either way, and `stats` says what
        was done. Raises DimensionError (both numbers), NotFiniteError (query and column), ElementTypeError, ArgumentError,
        UnsupportedError (path="graph" without one).
        """
        plain = (type(k) is int and type(beam) in PLAIN and type(codes) in PLAIN and filter is None and stream is None and path is None
                 and parents is None)
        if plain and out is None and type(queries) is np.ndarray and queries.dtype is FLOAT32:
            try:
                slots = self._slots[queries.shape, k, beam, codes]
                slot = slots.pop()
            except (KeyError, IndexError):
                return self._search(queries, k, _walk(path, beam, parents, codes), filter, out, stream, convert, (k, beam, codes))
            slot.query[...] = queries
            status = _lib.RAW_SEARCH(*slot.arguments)
            if status:
                slots.append(slot)
                _lib.check(status)
            hits = Hits(slot.ids.copy(), slot.scores.copy(), self, slot.stats.raw)
            slots.append(slot)
            return hits
        if plain and self._ordinal is not None:
            found = _gpu.again(self, queries, k, beam, codes, out, self._ordinal)
            if found is not None:
                return found
        return self._search(queries, k, _walk(path, beam, parents, codes), filter, out, stream, convert,
                            (k, beam, codes) if plain else None)

    def _search(self, queries: Any, k: int, walk: dict[str, int], filter: Any, out: Any, stream: Any, convert: bool,
                repeats: Optional[tuple[Any, ...]]) -> Hits:
        """A search through arguments made for it alone; `repeats`: the key, beside the shape, under which the next one like it
        finds a slot; None when it will not look for one."""
        handle, k = self._live(), int(operator.index(k))
        if not isinstance(queries, (np.ndarray, list, tuple)):
            place = _dlpack.device_of(queries)
            if place is not None and place[0] not in (_dlpack.CPU, _dlpack.CUDA_HOST):
                return self._search_gpu(handle, queries, k, walk, filter, out, stream, repeats)
        if stream is not None:
            raise ArgumentError("expected no stream beside queries in host memory, found one")
        matrix, array, single = _arrays.queries_of(queries, self._dtype_code, convert)
        if k < 1 or matrix.rows * k > ASK_FIRST:
            self._ask(handle, matrix, k)
        shape = (k,) if single else (len(array), k)
        ids, scores = _host_outputs(out, shape)
        hits = _lib.HitsArrays(ids.ctypes.data, None if scores is None else scores.ctypes.data, None, _lib.HOST)
        stats = _lib.SearchStats()
        options, kept = self._options(handle, filter, walk, stats)
        _lib.check(_lib.LIB.vic_index_search(handle.pointer, ctypes.byref(matrix), k, ctypes.byref(options), ctypes.byref(hits)))
        if repeats is not None and out is None and self._ordinal is None and k <= SLOT_HITS and len(array) == 1 and matrix.dtype == _lib.F32:
            asked = (self._dim,) if single else (1, self._dim)
            self._keep_slot(handle, (asked, *repeats), _Slot(handle, asked, k, walk))
        del kept
        return Hits(ids, scores, self, bytes(stats))

    def _keep_slot(self, handle: Handle, key: Any, slot: Any) -> None:
        """Keeps what the next search like this one runs through."""
        slots = self._slots  # before the handle: a close between the two leaves the slot in a table that nobody has
        if handle is self._handle:
            if len(slots) >= SLOT_KINDS:
                slots.clear()
            slots.setdefault(key, []).append(slot)

    def _ask(self, handle: Handle, matrix: _lib.Matrix, k: int) -> None:
        """Raises the library's refusal of a k before memory for its hits is asked of NumPy. Without arrays for the hits the
        call never starts to search; that sentence about them is the only one that is not about k or the queries."""
        status = _lib.LIB.vic_index_search(handle.pointer, ctypes.byref(matrix), max(min(k, 2**63 - 1), -2**63), None, None)
        if k < 1 or status != _lib.ARGUMENT:
            _lib.check(status)

    def _options(self, handle: Handle, filter: Any, walk: dict[str, int], stats: _lib.SearchStats) -> tuple[_lib.SearchOptions, Any]:
        """Options of a search, and what must live as long as it runs."""
        if filter is not None and not isinstance(filter, Filter):
            filter = self.filter(filter)
        options = _lib.SearchOptions(filter=None if filter is None else filter.pointer, stats=ctypes.addressof(stats), **walk)
        return options, (filter, stats)

    def _search_gpu(self, handle: Handle, queries: Any, k: int, walk: dict[str, int], filter: Any, out: Any, stream: Any,
                    repeats: Optional[tuple[Any, ...]]) -> Hits:
        """Queries on a GPU: enqueued on the stream, hits valid in its order."""
        device = handle.device
        if device.ordinal is None:  # before any capsule is made
            place = _dlpack.device_of(queries) or (_dlpack.CUDA, None)
            _gpu.check_place(_dlpack.Tensor(0, (), (), (2, 32), place[0], place[1], False, None), device.name, None, "queries")
        given, queries = queries, _gpu.widened(queries, stream)
        tensor, number = _gpu.take(queries, stream)
        _gpu.check_place(tensor, device.name, device.ordinal, "queries")
        matrix, single = _gpu.matrix_of(tensor, self._dtype_code)
        if k < 1 or matrix.rows * k > ASK_FIRST:
            self._ask(handle, matrix, k)
        shape = (k,) if single else (int(matrix.rows), k)
        ids, scores = _gpu.empty(queries, shape, number) if out is None else _pair(out)
        ids_address, ids_kept = _gpu.output_address(ids, "ids", (0, 64), shape, number, device.name, device.ordinal)
        scores_address, scores_kept = (None, None) if scores is None else _gpu.output_address(
            scores, "scores", (2, 32), shape, number, device.name, device.ordinal)
        hits = _lib.HitsArrays(ids_address, scores_address, None, _lib.DEVICE)
        stats = _lib.SearchStats()
        options, kept = self._options(handle, filter, walk, stats)
        options.stream = number
        _lib.check(_lib.LIB.vic_index_search(handle.pointer, ctypes.byref(matrix), k, ctypes.byref(options), ctypes.byref(hits)))
        del kept, ids_kept, scores_kept
        if repeats is not None and queries is given and matrix.rows * k <= SLOT_HITS:
            prepared = _gpu.slot_for(handle, queries, matrix, k, walk, ids, scores)
            if prepared is not None:
                self._keep_slot(handle, (type(queries), queries.shape, *repeats), prepared)
        return Hits(ids, scores, self, bytes(stats))

    async def asearch(self, queries: Any, k: int = 10, **options: Any) -> Hits:
        """`search` in the event loop's thread pool: the loop stays free, since the library runs without Python's lock."""
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(self.search, queries, k, **options))

    def within(self, queries: Any, score: float, filter: Any = None, path: Optional[str] = None, convert: bool = False) -> Ranges:
        """Every row whose score is at least `score` (dot, cosine) or at most `score` (l2), equality included.

        queries, filter, path, convert: as for `search`, in host memory. A second pass is made when there are more answers
        than were expected.
        """
        handle = self._live()
        _arrays.refuse_device(queries, "queries")
        matrix, array, _ = _arrays.queries_of(queries, self._dtype_code, convert)
        offsets, stats = np.zeros(len(array) + 1, INT64), _lib.SearchStats()
        options, kept = self._options(handle, filter, _walk(path), stats)
        capacity = min(len(self), 1024) * len(array)
        while True:
            ids, scores = np.empty(capacity, INT64), np.empty(capacity, FLOAT32)
            ranges = _lib.RangesArrays(offsets.ctypes.data, ids.ctypes.data, scores.ctypes.data, capacity)
            status = _lib.LIB.vic_index_within(handle.pointer, ctypes.byref(matrix), score, ctypes.byref(options), ctypes.byref(ranges))
            if status != _lib.CAPACITY:
                break
            capacity = int(offsets[-1])
        _lib.check(status)
        del kept
        return Ranges(offsets, ids[:offsets[-1]].copy(), scores[:offsets[-1]].copy(), bytes(stats))

    def score(self, queries: Any, ids: Any, convert: bool = False) -> Array:
        """Canonical scores of given rows: float32, shape of ids, which is (nq, count), or (count,) for every query alike.

        Id -1 gets the worst score. Raises NotFoundError for an id that the index does not have."""
        handle = self._live()
        _arrays.refuse_device(queries, "queries")
        matrix, array, single = _arrays.queries_of(queries, self._dtype_code, convert)
        wanted = _arrays.ids_of(ids)
        if wanted.ndim == 1:
            wanted = np.ascontiguousarray(np.broadcast_to(wanted, (len(array), len(wanted))))
        if wanted.ndim != 2 or len(wanted) != len(array):
            raise DimensionError(f"expected ids of shape (count,) or ({len(array)}, count), found {wanted.shape}")
        scores = np.empty(wanted.shape, FLOAT32)
        if wanted.shape[1]:
            _lib.check(_lib.LIB.vic_index_score(handle.pointer, ctypes.byref(matrix), wanted.ctypes.data, wanted.shape[1], None,
                                                scores.ctypes.data))
        return scores[0] if single else scores

    def filter(self, ids: Any, exclude: bool = False) -> Filter:
        """Rows that may answer (exclude=True: that may not), for any number of searches. Ids that the index does not have are
        ignored; a boolean array of len(index) chooses rows in the order of `ids`."""
        handle = self._live()
        array: Array = np.asarray(ids)
        if array.dtype == bool:
            if array.shape != (self._rows,):
                raise DimensionError(f"expected a mask of shape ({self._rows},), one a row, found {array.shape}")
            array = self.ids[array]
        chosen = _arrays.ids_of(array, "ids of a filter").reshape(-1)
        pointer, options = ctypes.c_void_p(), _lib.FilterOptions(exclude=int(exclude))
        _lib.check(_lib.LIB.vic_filter_create(handle.pointer, chosen.ctypes.data, len(chosen), ctypes.byref(options), ctypes.byref(pointer)))
        return Filter(pointer, handle)

    # ---------------------------------------------------------------- rows

    def _text_bytes(self, id: int) -> bytes:
        handle, text, length = self._live(), ctypes.c_void_p(), ctypes.c_size_t()
        _lib.check(_lib.LIB.vic_index_text(handle.pointer, operator.index(id), ctypes.byref(text), ctypes.byref(length)))
        return ctypes.string_at(text, length.value) if length.value else b""

    def text(self, id: int, raw: bool = False) -> Any:
        """The text of a row as str, bytes that are no UTF-8 replaced; raw=True: the bytes as they are. NotFoundError: no such
        id, or no texts."""
        text = self._text_bytes(id)
        return text if raw else text.decode("utf-8", "replace")

    def vector(self, id: int) -> Array:
        """The row of an id as it is stored, shape (dim,). bfloat16 needs ml_dtypes, else it comes as float32, exactly."""
        row: Array = self.vectors([id])[0]
        return row

    def vectors(self, ids: Any = None) -> Array:
        """The rows of ids (None: all, in the order of `ids`), shape (len(ids), dim)."""
        handle = self._live()
        wanted = self.ids if ids is None else _arrays.ids_of(ids).reshape(-1)
        bfloat16 = self._dtype_code == _lib.BF16
        rows = np.empty((len(wanted), self._dim), np.uint16 if bfloat16 else _arrays.DTYPES[self._dtype_code])
        address, step = rows.ctypes.data, self._dim * rows.itemsize
        for row, id in enumerate(wanted.tolist()):
            _lib.check(_lib.LIB.vic_index_vector(handle.pointer, id, address + row * step))
        if bfloat16:
            dtype = _arrays.bfloat16()
            return _arrays.widened(rows) if dtype is None else rows.view(dtype)
        return rows

    # ---------------------------------------------------------------- files and lifetime

    def save(self, path: Path, progress: Union[bool, Reporter] = False, *, format: Optional[str] = None) -> None:
        """Writes the index to a file, atomically: after a crash or on a full disk the old file is whole.

        format: "diskann" writes PATH, PATH.data and PATH_metadata.bin as DiskANN loads them, "diskann-disk" a PATH that ends in
        _disk.index and what lies beside it; of an index with a graph and without ids of the caller's (UnsupportedError). Texts,
        metadata and planes stay behind."""
        with Watch(progress) as watch:
            options = _lib.SaveOptions(progress=watch.hook, format=None if format is None else format.encode())
            _lib.check_file(_lib.LIB.vic_index_save(self._live().pointer, _arrays.path_bytes(path), ctypes.byref(options)))

    def check(self, progress: Union[bool, Reporter] = False) -> None:
        """Verifies every checksum of the file and the invariants of its contents; raises ChecksumError or FormatError."""
        with Watch(progress) as watch:
            _lib.check(_lib.LIB.vic_index_check(self._live().pointer, ctypes.byref(watch.hook)))

    def close(self) -> None:
        """Lets go of the memory and the file; searches that run in other threads end first. May be called twice."""
        self._handle = None
        self._slots = {}

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __reduce__(self) -> Any:
        """By path for an index of a file, else by its bytes; the copy is opened on a device of the same name."""
        from ._build import open_bytes, open_path
        device, threads = self._wanted
        if self._path is not None and self._more is not None:
            return open_path, (os.path.abspath(self._path), device, threads, self._more)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "index.vic")
            self.save(path)
            with open(path, "rb") as file:
                return open_bytes, (file.read(), device, threads)


def _pair(out: Any) -> tuple[Any, Any]:
    """The caller's arrays for results."""
    try:
        ids, scores = out
    except (TypeError, ValueError):
        raise ArgumentError(f"expected out as (ids, scores) or earlier hits, found {type(out).__name__}") from None
    return ids, scores


def _host_outputs(out: Any, shape: tuple[int, ...]) -> tuple[Array, Optional[Array]]:
    """Fresh arrays for hits, or the caller's, held against their shape and type."""
    if out is None:
        return np.empty(shape, INT64), np.empty(shape, FLOAT32)
    ids, scores = _pair(out)
    return (_arrays.output_array(ids, "ids", INT64, shape),
            None if scores is None else _arrays.output_array(scores, "scores", FLOAT32, shape))
