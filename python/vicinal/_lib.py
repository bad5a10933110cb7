"""include/vicinal.h as ctypes: every struct, constant and function, and where the library is found.

Fields that are pointers to anything but a string are `c_void_p`, so that an address costs no object. A test compiles a C
program against the header and compares sizes, offsets, constants and signatures with what stands here.

`ctypes.CDLL` releases the interpreter's lock for each call; `RAW_SEARCH` is the search once more without declared argument
types, for callers that prepare their arguments once (converting five of them costs as much as the foreign call itself).
"""
from __future__ import annotations

import ctypes
import glob
import os
from ctypes import c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from ._errors import MissingFileError, failure

OK, ARGUMENT, DIMENSION, TYPE, NOT_FINITE, ID, NOT_FOUND, NO_MEMORY, BUDGET, IO, NO_SPACE = range(11)
FORMAT, VERSION, CHECKSUM, LOCKED, UNSUPPORTED, UNAVAILABLE, CANCELLED, CAPACITY, DEVICE_ERROR, FORKED, INTERNAL = range(11, 22)

F32, F16, BF16, I8, U8 = range(1, 6)
DOT, COSINE, L2 = range(1, 4)
HOST, DEVICE = 1, 2
PLANES_NONE, PLANES_8, PLANES_4 = 1, 2, 4
PATH_SCAN, PATH_SELECT, PATH_CERTIFIED, PATH_GRAPH = range(1, 5)
CODES_ROWS, CODES_8, CODES_4, CODES_PQ = range(1, 5)
FALLBACK_NONE, FALLBACK_PLANES, FALLBACK_K, FALLBACK_QUERY, FALLBACK_SURVIVORS, FALLBACK_COST, FALLBACK_FILTER, FALLBACK_BEAM = range(8)


class Sized(ctypes.Structure):
    """A struct that begins with its own size: filled in when it is made."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.size = ctypes.sizeof(self)


class Matrix(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("rows", c_int64), ("dim", c_int64), ("stride_bytes", c_int64), ("dtype", c_int), ("place", c_int)]


class Allocator(ctypes.Structure):
    _fields_ = [("allocate", c_void_p), ("release", c_void_p), ("user", c_void_p)]


class ProgressState(ctypes.Structure):
    _fields_ = [("stage", c_char_p), ("done", c_int64), ("total", c_int64), ("seconds", c_double)]


REPORT = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(ProgressState))


class Progress(ctypes.Structure):
    _fields_ = [("report", REPORT), ("user", c_void_p)]


class DeviceOptions(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("threads", c_int32), ("reserved", c_int32), ("host_bytes", c_uint64),
                ("device_bytes", c_uint64), ("allocator", Allocator)]


class DeviceInfo(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 32), ("model", c_char * 96), ("kernels", c_char * 64), ("sentence", c_char * 256),
                ("usable", c_int32), ("threads", c_int32), ("host_bytes", c_uint64), ("host_used", c_uint64), ("host_peak", c_uint64),
                ("device_bytes", c_uint64), ("device_used", c_uint64), ("device_peak", c_uint64)]


class Calibration(Sized):
    _fields_ = [("size", c_size_t), ("scan_bytes_s", c_double), ("plane_8_bytes_s", c_double), ("plane_4_bytes_s", c_double),
                ("rescore_cost", c_double), ("handover_us", c_double), ("seconds", c_double)]


class Texts(ctypes.Structure):
    _fields_ = [("bytes", c_void_p), ("offsets", c_void_p), ("count", c_int64)]


class ReaderOptions(Sized):
    _fields_ = [("size", c_size_t), ("dtype", c_int), ("reserved", c_int32), ("format", c_char_p), ("dataset", c_char_p)]


class SectionInfo(ctypes.Structure):
    _fields_ = [("name", c_char * 24), ("offset", c_uint64), ("bytes", c_uint64)]


class FileInfo(Sized):
    _fields_ = [("size", c_size_t), ("format", c_char * 24), ("element", c_char * 16), ("note", c_char * 256), ("dtype", c_int),
                ("metric", c_int), ("rows", c_int64), ("dim", c_int64), ("bytes", c_uint64), ("version", c_int32),
                ("section_count", c_int32), ("sections", SectionInfo * 32), ("pq_chunks", c_int32), ("pq_centres", c_int32),
                ("pq_note", c_char * 128)]


class WriterOptions(Sized):
    _fields_ = [("size", c_size_t), ("format", c_char_p)]


class HitsArrays(ctypes.Structure):
    _fields_ = [("ids", c_void_p), ("scores", c_void_p), ("counts", c_void_p), ("place", c_int)]


class TruthArrays(ctypes.Structure):
    _fields_ = [("nq", c_int64), ("k", c_int64), ("ids", c_void_p), ("distances", c_void_p)]


class GenerateOptions(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_char_p), ("seed", c_uint64), ("norm_sigma", c_double), ("clusters", c_int64),
                ("spread", c_double), ("latent_dim", c_int64), ("duplicate_share", c_double)]


class GraphOptions(Sized):
    _fields_ = [("size", c_size_t), ("degree", c_int32), ("beam", c_int32), ("alpha", c_float), ("force", c_int32),
                ("pq_chunks", c_int32), ("reserved", c_int32)]


class BuildOptions(Sized):
    _fields_ = [("size", c_size_t), ("metric", c_int), ("dtype", c_int), ("ids", c_void_p), ("texts", c_void_p), ("metadata", c_char_p),
                ("path", c_char_p), ("reader", c_void_p), ("progress", Progress), ("planes", c_int32), ("reserved", c_int32),
                ("graph", c_void_p)]


class Plan(Sized):
    _fields_ = [("size", c_size_t), ("row_bytes", c_uint64), ("extra_bytes", c_uint64), ("workspace_bytes", c_uint64),
                ("host_bytes", c_uint64), ("device_bytes", c_uint64), ("file_bytes", c_uint64), ("code_bytes", c_uint64),
                ("graph_bytes", c_uint64), ("build_bytes", c_uint64)]


class OpenOptions(Sized):
    _fields_ = [("size", c_size_t), ("check", c_int32), ("planes", c_int32), ("progress", Progress),
                ("metric", c_int), ("dtype", c_int), ("graph", c_void_p)]


class SaveOptions(Sized):
    _fields_ = [("size", c_size_t), ("progress", Progress), ("format", c_char_p)]


class IndexInfo(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_char * 16), ("metric", c_int), ("dtype", c_int), ("rows", c_int64), ("dim", c_int64),
                ("next_id", c_int64), ("has_texts", c_int32), ("has_ids", c_int32), ("host_bytes", c_uint64), ("mapped_bytes", c_uint64),
                ("device_bytes", c_uint64), ("workspace_bytes", c_uint64), ("metadata", c_char_p), ("planes", c_int32),
                ("reserved", c_int32), ("degree", c_int32), ("entries", c_int32), ("repairs", c_int64), ("graph_beam", c_int32),
                ("graph_alpha", c_float), ("graph_builder", c_char * 32), ("pq_chunks", c_int32), ("pq_centres", c_int32),
                ("pq_error", c_double), ("pq_error_largest", c_double)]


class GraphReport(Sized):
    _fields_ = [("size", c_size_t), ("rows", c_int64), ("edges", c_int64), ("symmetric", c_int64), ("unreached", c_int64),
                ("degree", c_int32), ("entries", c_int32), ("least", c_int32), ("most", c_int32), ("histogram", c_int64 * 16)]


class FilterOptions(Sized):
    _fields_ = [("size", c_size_t), ("exclude", c_int32), ("reserved", c_int32)]


class SearchStats(Sized):
    _fields_ = [("size", c_size_t), ("path", c_int), ("threads", c_int32), ("queries", c_int64), ("rows_scored", c_int64),
                ("rows_rescored", c_int64), ("bytes_read", c_int64), ("rows_coded", c_int64 * 2), ("fallbacks", c_int64),
                ("fallback", c_int), ("reserved", c_int32), ("hops", c_int64), ("distances", c_int64), ("beam", c_int32),
                ("parents", c_int32), ("codes", c_int), ("reserved_2", c_int32)]


class SearchOptions(Sized):
    _fields_ = [("size", c_size_t), ("stream", c_void_p), ("filter", c_void_p), ("path", c_int), ("reserved", c_int32),
                ("stats", c_void_p), ("beam", c_int32), ("parents", c_int32), ("codes", c_int), ("reserved_2", c_int32)]


class RangesArrays(ctypes.Structure):
    _fields_ = [("offsets", c_void_p), ("ids", c_void_p), ("scores", c_void_p), ("capacity", c_int64)]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "vic_matrix": Matrix, "vic_allocator": Allocator, "vic_progress_state": ProgressState, "vic_progress": Progress,
    "vic_device_options": DeviceOptions, "vic_device_info": DeviceInfo, "vic_texts": Texts, "vic_reader_options": ReaderOptions,
    "vic_section_info": SectionInfo, "vic_file_info": FileInfo, "vic_writer_options": WriterOptions, "vic_hits": HitsArrays,
    "vic_truth": TruthArrays, "vic_generate_options": GenerateOptions, "vic_graph_options": GraphOptions,
    "vic_build_options": BuildOptions, "vic_plan": Plan,
    "vic_open_options": OpenOptions, "vic_save_options": SaveOptions, "vic_index_info": IndexInfo, "vic_graph_report": GraphReport,
    "vic_filter_options": FilterOptions, "vic_search_stats": SearchStats, "vic_search_options": SearchOptions,
    "vic_ranges": RangesArrays, "vic_calibration": Calibration,
}

_p, _s, _i, _l, _z, _f = c_void_p, c_char_p, c_int, c_int64, c_size_t, c_float

# name -> what it returns, what it takes; enums are C ints, every pointer but a string is an address.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "vic_status_name": (_s, (_i,)), "vic_status_meaning": (_s, (_i,)), "vic_last_error": (_s, ()), "vic_version": (_s, ()),
    "vic_metric_parse": (_i, (_s, _p)), "vic_dtype_parse": (_i, (_s, _p)),
    "vic_metric_name": (_s, (_i,)), "vic_dtype_name": (_s, (_i,)), "vic_dtype_bytes": (_z, (_i,)),
    "vic_device_open": (_i, (_p, _p)), "vic_device_info": (_i, (_p, _p)), "vic_device_list": (_i, (_p, _l, _p)),
    "vic_device_calibrate": (_i, (_p, _s, _p)), "vic_device_free": (None, (_p,)),
    "vic_texts_read": (_i, (_s, _p)), "vic_texts_free": (None, (_p,)),
    "vic_file_info": (_i, (_s, _p)),
    "vic_reader_open": (_i, (_s, _p, _p)), "vic_reader_info": (_i, (_p, _p)), "vic_reader_read": (_i, (_p, _l, _l, _p)),
    "vic_reader_close": (None, (_p,)),
    "vic_writer_open": (_i, (_s, _l, _l, _i, _p, _p)), "vic_writer_write": (_i, (_p, _p)), "vic_writer_finish": (_i, (_p,)),
    "vic_writer_free": (None, (_p,)),
    "vic_matrix_read": (_i, (_s, _p, _p)), "vic_matrix_write": (_i, (_s, _p, _p)), "vic_matrix_free": (None, (_p,)),
    "vic_truth_read": (_i, (_s, _p)), "vic_truth_write": (_i, (_s, _p)), "vic_truth_free": (None, (_p,)),
    "vic_recall": (_i, (_p, _p, _l, _l, _p)),
    "vic_generate": (_i, (_p, _l, c_int32, _p)),
    "vic_index_plan": (_i, (_p, _l, _l, _p, _p)), "vic_index_build": (_i, (_p, _p, _p, _p)),
    "vic_index_build_file": (_i, (_p, _s, _p, _p)), "vic_index_open": (_i, (_p, _s, _p, _p)),
    "vic_index_save": (_i, (_p, _s, _p)), "vic_index_info": (_i, (_p, _p)), "vic_index_check": (_i, (_p, _p)), "vic_index_graph": (_i, (_p, _p)),
    "vic_index_text": (_i, (_p, _l, _p, _p)), "vic_index_vector": (_i, (_p, _l, _p)), "vic_index_ids": (_i, (_p, _l, _l, _p)),
    "vic_index_free": (None, (_p,)),
    "vic_filter_create": (_i, (_p, _p, _l, _p, _p)), "vic_filter_count": (_l, (_p,)), "vic_filter_free": (None, (_p,)),
    "vic_index_search": (_i, (_p, _p, _l, _p, _p)), "vic_index_within": (_i, (_p, _p, _f, _p, _p)),
    "vic_index_score": (_i, (_p, _p, _p, _l, _p, _p)),
}

VERSION_WANTED = "0.1."


def candidates() -> list[str]:
    """Where the library may be, first to last: what VICINAL_LIBRARY names (then nowhere else), beside this package, in the
    build folders of a clone that this package lies in (the release build, then the newest), and what the loader finds."""
    named = os.environ.get("VICINAL_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    built = [path for path in glob.glob(os.path.join(glob.escape(root), "build", "*", "libvicinal.so")) if os.path.isfile(path)]
    built.sort(key=lambda path: (os.path.basename(os.path.dirname(path)) != "release", -os.path.getmtime(path)))
    return [path for path in [os.path.join(here, "libvicinal.so"), *built] if os.path.isfile(path)] + ["libvicinal.so.0"]


def load() -> ctypes.CDLL:
    """The library with every function declared, or ImportError with all places that were tried."""
    tried = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{path} ({error})")
            continue
        try:
            for name, (returns, takes) in FUNCTIONS.items():
                function = getattr(library, name)
                function.restype, function.argtypes = returns, takes
        except AttributeError as error:
            raise ImportError(f"expected a vicinal library {VERSION_WANTED}x, found {path} without a function of it: {error}") from None
        version: str = library.vic_version().decode()
        if not version.startswith(VERSION_WANTED):
            raise ImportError(f"expected a vicinal library {VERSION_WANTED}x, found {version} in {path}")
        return library
    raise ImportError("libvicinal.so is not here; tried " + "; ".join(tried) + ". VICINAL_LIBRARY can name it.")


LIB = load()
RAW_SEARCH = LIB["vic_index_search"]
RAW_SEARCH.restype = c_int


def check(status: int) -> None:
    """Raises the exception of a status with the library's sentence; success costs one comparison."""
    if status:
        raise failure(status, LIB.vic_last_error().decode("utf-8", "replace"))


def check_file(status: int) -> None:
    """As `check`, for a call whose VIC_NOT_FOUND is about a file or folder."""
    if status == NOT_FOUND:
        raise MissingFileError(LIB.vic_last_error().decode("utf-8", "replace"))
    check(status)
