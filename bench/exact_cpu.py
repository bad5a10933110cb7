"""Exact search on the CPU beside its peers, all in one process, in turn.

    python3 bench/exact_cpu.py LIBRARY ROWS.npy QUERIES.npy [-o bench/results/cpu-MACHINE.jsonl]

LIBRARY is libvicinal.so. Peers: NumPy, FAISS flat, usearch exact, those that are installed. Every system answers the same
float32 inner-product question over the same rows; the systems take turns of a few calls, so that a machine whose speed drifts
drifts for all. Before anything is timed our ids and scores are held against a float64 product. Prints JSON lines, first
the environment (fields: docs/benchmarks.md).
"""
import argparse
import ctypes
import datetime
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np


class Matrix(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("dim", ctypes.c_int64), ("stride_bytes", ctypes.c_int64),
                ("dtype", ctypes.c_int), ("place", ctypes.c_int)]


class Hits(ctypes.Structure):
    _fields_ = [("ids", ctypes.c_void_p), ("scores", ctypes.c_void_p), ("counts", ctypes.c_void_p), ("place", ctypes.c_int)]


DTYPES = {"float32": 1, "float16": 2, "int8": 4, "uint8": 5}
PLANES_AT, PLANES_NONE = 72, 1  # in vic_build_options: this benchmark is of the scan, bench/certified_cpu.py of planes
METRICS = {"dot": 1, "cosine": 2, "l2": 3}


def matrix_of(array):
    return Matrix(array.ctypes.data, array.shape[0], array.shape[1], 0, DTYPES[array.dtype.name], 1)


class Vicinal:
    """The library by its C calls: what a C program would pay, plus one foreign call."""

    def __init__(self, path, rows, metric):
        self.lib = ctypes.CDLL(path)
        self.lib.vic_last_error.restype = ctypes.c_char_p
        self.device = ctypes.c_void_p()
        self.index = ctypes.c_void_p()
        self.check(self.lib.vic_device_open(None, ctypes.byref(self.device)))
        if rows is None:
            return
        options = (ctypes.c_char * 512)()  # vic_build_options: size, metric; larger than any, the rest zero
        ctypes.memmove(options, (ctypes.c_size_t * 1)(512), 8)
        ctypes.memmove(ctypes.byref(options, 8), (ctypes.c_int * 1)(METRICS[metric]), 4)
        ctypes.memmove(ctypes.byref(options, PLANES_AT), (ctypes.c_int * 1)(PLANES_NONE), 4)
        self.check(self.lib.vic_index_build(self.device, ctypes.byref(matrix_of(rows)), options, ctypes.byref(self.index)))

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.vic_last_error().decode())

    def open_ms(self, path):
        """Milliseconds to open an index file, least of five, and to let it go."""
        times = []
        for _ in range(5):
            index = ctypes.c_void_p()
            start = time.perf_counter()
            self.check(self.lib.vic_index_open(self.device, path.encode(), None, ctypes.byref(index)))
            times.append((time.perf_counter() - start) * 1e3)
            self.lib.vic_index_free(index)
        return min(times)

    def save(self, path):
        self.check(self.lib.vic_index_save(self.index, path.encode(), None))

    def searcher(self, queries, k):
        ids = np.empty((len(queries), k), np.int64)
        scores = np.empty((len(queries), k), np.float32)
        matrix, hits = matrix_of(queries), Hits(ids.ctypes.data, scores.ctypes.data, None, 1)

        def call():
            self.check(self.lib.vic_index_search(self.index, ctypes.byref(matrix), ctypes.c_int64(k), None, ctypes.byref(hits)))
            return ids, scores

        return call


def numpy_searcher(rows, queries, k):
    def call():
        scores = queries @ rows.T
        if k < rows.shape[0]:
            part = np.argpartition(-scores, k, axis=1)[:, :k]
            return np.take_along_axis(part, np.argsort(-np.take_along_axis(scores, part, 1), axis=1), 1)
        return np.argsort(-scores, axis=1)

    return call


def peers_of(rows, threads):
    """name -> function(queries, k) -> callable; peers that are not installed are left out."""
    peers = {"numpy": lambda queries, k: numpy_searcher(rows, queries, k)}
    try:
        import faiss
        faiss.omp_set_num_threads(threads)
        flat = faiss.IndexFlatIP(rows.shape[1])
        flat.add(rows)
        peers["faiss_flat"] = lambda queries, k: lambda: flat.search(queries, k)
    except ImportError:
        pass
    try:
        from usearch.index import MetricKind, search as usearch_search
        peers["usearch_exact"] = lambda queries, k: lambda: usearch_search(rows, queries, k, MetricKind.IP, exact=True, threads=threads)
    except ImportError:
        pass
    return peers


def verify(rows, queries, ids, scores):
    """Scores right to float32 rounding, order by (score, id), and nothing better left out."""
    exact = queries.astype(np.float64) @ rows.astype(np.float64).T
    for j in range(len(queries)):
        got = exact[j, ids[j]]
        slack = 1e-5 * np.abs(queries[j]).astype(np.float64).sum()
        assert np.allclose(got, scores[j], atol=slack), "a score is wrong"
        assert all((scores[j, i], -ids[j, i]) > (scores[j, i + 1], -ids[j, i + 1]) for i in range(ids.shape[1] - 1)), "order"
        rest = np.delete(exact[j], ids[j])
        assert rest.size == 0 or rest.max() <= scores[j, -1] + slack, "a better row was left out"


def times_in_turn(calls, repeats, in_a_row=1):
    """Each system's turn: a pause in which the idle threads of the one before stop spinning for work that does not come (an
    OpenMP runtime's do for up to 200 ms, on the cores that the next one needs), a call that is not timed, then those that
    are."""
    times = {name: [] for name in calls}
    for _ in range((repeats + in_a_row - 1) // in_a_row):
        for name, call in calls.items():
            time.sleep(0.25)
            call()
            for _ in range(in_a_row):
                start = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - start) * 1e6)
    return {name: np.sort(values) for name, values in times.items()}


def environment(command):
    listing = subprocess.run(["git", "ls-files", "-s", "include", "src", "cli"], capture_output=True, text=True,
                             cwd=os.path.dirname(os.path.abspath(__file__)) + "/..").stdout
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return {"record": "environment", "date": datetime.date.today().isoformat(), "source": hashlib.sha256(listing.encode()).hexdigest()[:16],
            "gpu": None, "cpu": cpu, "cores": len(os.sched_getaffinity(0)), "clocks_locked": False, "command": command}


def shapes(n):
    """(rows, batch, k, repeats)"""
    small = min(10000, n)
    return ((n, 1, 10, 40), (n, 1, 100, 30), (n, 1, 1000, 15), (n, 1, n, 7), (n, 16, 10, 10), (n, 256, 10, 5), (small, 1, 10, 300))


def record_truth(record, library, threads):
    """Ground truth of a million bytes rows, ours on bytes, FAISS flat on the same values as float32; and opening a file."""
    random = np.random.default_rng(1)
    rows = random.integers(0, 256, (1000000, 128), np.uint8)
    queries = random.integers(0, 256, (1000, 128), np.uint8)
    ours = Vicinal(library, rows, "l2")
    calls = {"vicinal": ours.searcher(queries, 100)}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.vic")
        ours.save(path)
        record(record="limit", what="open an index file of bytes", bytes=os.path.getsize(path), value=round(ours.open_ms(path), 3), unit="ms")
    try:
        import faiss
        flat, float_queries = faiss.IndexFlatL2(128), queries.astype(np.float32)
        flat.add(rows.astype(np.float32))
        calls["faiss_flat"] = lambda: flat.search(float_queries, 100)
        assert np.array_equal(flat.search(float_queries[:4], 1)[0][:, 0], calls["vicinal"]()[1][:4, 0]), "best distances differ"
    except ImportError:
        pass
    record_times(record, calls, 3, rows=1000000, dim=128, k=100, batch=1000, metric="l2", dtype="u8", threads=threads)


def record_times(record, calls, repeats, **shape):
    for name, sorted_us in times_in_turn(calls, repeats, max(1, repeats // 6)).items():
        m = len(sorted_us)
        record(record="exact", system=name, **shape, device="cpu", p50_us=round(float(sorted_us[m // 2]), 1),
               p99_us=round(float(sorted_us[int(m * 0.99)]), 1), max_us=round(float(sorted_us[-1]), 1), repeats=m,
               qps=round(shape["batch"] / sorted_us[m // 2] * 1e6, 1), verified=name == "vicinal")


def parser_of(text, *operands):
    """A command line of these operands and of -o, with what the program says of itself."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for operand in operands:
        parser.add_argument(operand)
    parser.add_argument("-o", "--output", default="-")
    return parser


def recorder(path, mode="w"):
    """A function that writes its arguments as a JSON line to the file (-: to where the program prints)."""
    out = sys.stdout if path == "-" else open(path, mode)

    def record(**fields):
        print(json.dumps(fields), file=out, flush=True)

    return record


def main():
    arguments = parser_of(__doc__, "library", "rows", "queries").parse_args()
    record = recorder(arguments.output)
    rows, queries = (np.ascontiguousarray(np.load(path), np.float32) for path in (arguments.rows, arguments.queries))
    threads = len(os.sched_getaffinity(0))
    record(**environment("bench/exact_cpu.py " + " ".join(os.path.basename(a) for a in sys.argv[1:4])))
    systems = {}
    for n, batch, k, repeats in shapes(len(rows)):
        if n not in systems:
            used = np.ascontiguousarray(rows[:n])
            systems = {n: (used, Vicinal(arguments.library, used, "dot"), peers_of(used, threads))}
        used, ours, peers = systems[n]
        block = np.ascontiguousarray(queries[:batch])
        calls = {"vicinal": ours.searcher(block, k), **{name: make(block, k) for name, make in peers.items()}}
        verify(used, block[:4], *[array[:4] for array in calls["vicinal"]()])
        record_times(record, calls, repeats, rows=n, dim=used.shape[1], k=k, batch=batch, metric="dot", dtype="f32", threads=threads)
    systems.clear()
    record_truth(record, arguments.library, threads)


if __name__ == "__main__":
    main()
