"""Exact search on planes (docs/certified.md) beside a scan of all rows and the peers, all in one process, in turn.

    python3 bench/certified_cpu.py LIBRARY ROWS.npy QUERIES.npy [-o bench/results/certified-MACHINE.jsonl] [--million]
                                   [--hnsw INDEX]

Ids and scores of every path are compared byte by byte with the scan's before anything is timed. Prints JSON lines: the
environment, a record for each plane that was built, what a plain read of its bytes takes with as many threads (plane_read:
what bounds one query), then the searches; p50 and, for machines that do other things meanwhile, the fastest. A system's turn is
one call that is not timed and up to ten that are: codes that fit the last-level cache are found there by the second query, as they
would be by a program that asks one query after another; the plain read finds them there as well. --million adds the rows
repeated to a million with small fresh noise, which no cache holds. --hnsw adds hnswlib (M = 32, efConstruction = 200) at the
least ef with a recall@10 of .998; its index is read from the file INDEX, which is written when it is not there.
"""
import ctypes
import os
import sys
import threading
import time

import numpy as np

from exact_cpu import Hits, METRICS, environment, matrix_of, parser_of, peers_of, recorder, times_in_turn

PLANES = {"none": 1, "8": 2, "4": 4}
PATHS = {1: "scan", 2: "select", 3: "certified"}


class BuildOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("metric", ctypes.c_int), ("dtype", ctypes.c_int), ("ids", ctypes.c_void_p),
                ("texts", ctypes.c_void_p), ("metadata", ctypes.c_void_p), ("path", ctypes.c_void_p), ("reader", ctypes.c_void_p),
                ("report", ctypes.c_void_p), ("user", ctypes.c_void_p), ("planes", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("path", ctypes.c_int), ("threads", ctypes.c_int32), ("queries", ctypes.c_int64),
                ("rows_scored", ctypes.c_int64), ("rows_rescored", ctypes.c_int64), ("bytes_read", ctypes.c_int64),
                ("rows_coded", ctypes.c_int64 * 2), ("fallbacks", ctypes.c_int64), ("fallback", ctypes.c_int), ("reserved", ctypes.c_int32)]


class SearchOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("filter", ctypes.c_void_p), ("path", ctypes.c_int),
                ("reserved", ctypes.c_int32), ("stats", ctypes.POINTER(Stats))]


class Index:
    def __init__(self, lib, device, rows, planes):
        self.lib, self.index = lib, ctypes.c_void_p()
        options = BuildOptions(size=ctypes.sizeof(BuildOptions), metric=METRICS["dot"], planes=PLANES[planes])
        start = time.perf_counter()
        self.check(lib.vic_index_build(device, ctypes.byref(matrix_of(rows)), ctypes.byref(options), ctypes.byref(self.index)))
        self.build_s = time.perf_counter() - start

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.vic_last_error().decode())

    def searcher(self, queries, k, one_by_one=False):
        """One call for all queries, or for the next one each time it is called."""
        blocks = [queries[i:i + 1] for i in range(len(queries))] if one_by_one else [queries]
        calls = []
        for block in blocks:
            ids, scores = np.empty((len(block), k), np.int64), np.empty((len(block), k), np.float32)
            calls.append((matrix_of(block), Hits(ids.ctypes.data, scores.ctypes.data, None, 1), ids, scores))
        state = {"next": 0}

        def call(stats=None):
            options = SearchOptions(size=ctypes.sizeof(SearchOptions), stats=ctypes.pointer(stats)) if stats else None
            matrix, hits, ids, scores = calls[state["next"] % len(calls)]
            state["next"] += 1
            self.check(self.lib.vic_index_search(self.index, ctypes.byref(matrix), ctypes.c_int64(k),
                                                 ctypes.byref(options) if options else None, ctypes.byref(hits)))
            return ids, scores

        return call

    def free(self):
        self.lib.vic_index_free(self.index)


def read_us(bytes_read, threads, passes=8):
    """Microseconds of a plain read of so many bytes by all threads (libc's memchr for a byte that is not there): the median
    of some rounds, each of several passes over the same bytes."""
    memchr = ctypes.CDLL(None).memchr
    memchr.restype, memchr.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    memory = np.ones(bytes_read, np.uint8)
    each, times = bytes_read // threads, []
    barrier = threading.Barrier(threads + 1)

    def reader(part):
        for _ in range(9):
            barrier.wait()
            for _ in range(passes):
                memchr(memory.ctypes.data + part * each, 0, each)
            barrier.wait()

    readers = [threading.Thread(target=reader, args=(part,)) for part in range(threads)]
    for thread in readers:
        thread.start()
    for _ in range(9):
        barrier.wait()
        start = time.perf_counter()
        barrier.wait()
        times.append((time.perf_counter() - start) * 1e6 / passes)
    for thread in readers:
        thread.join()
    return sorted(times)[4]


def plane_bytes(rows, planes):
    """Bytes that a pass reads: codes in whole cache lines, scale and error of each row; or the rows."""
    n, dim = rows.shape
    return n * {"none": 4 * dim, "8": (dim + 63) // 64 * 64 + 8, "4": (dim + 127) // 128 * 64 + 8}[planes]


def hnsw_of(path, rows, threads):
    import hnswlib
    graph = hnswlib.Index("ip", rows.shape[1])
    if os.path.exists(path):
        graph.load_index(path, max_elements=len(rows))
    else:
        graph.init_index(len(rows), M=32, ef_construction=200)
        graph.set_num_threads(threads)
        graph.add_items(rows)
        graph.save_index(path)
    return graph


def measure_hnsw(record, lib, device, path, rows, queries, threads):
    """Exact answers a second beside hnswlib's at recall .998: one query at a time, and all of them in one call."""
    asked, k = np.ascontiguousarray(queries[:1000]), 10
    indexes = {planes: Index(lib, device, rows, planes) for planes in ("8", "4")}
    least = indexes["8"].searcher(asked, k)()[1][:, -1]
    graph = hnsw_of(path, rows, threads)
    graph.set_num_threads(threads)
    for ef in (32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024):
        graph.set_ef(ef)
        found = np.einsum("qkd,qd->qk", rows[graph.knn_query(asked, k)[0]], asked)
        recall = float((found >= least[:, None] - 1e-6).mean())
        if recall >= 0.998:
            break
    turn = {"next": 0}

    def hnsw_one():
        turn["next"] = (turn["next"] + 1) % len(asked)
        return graph.knn_query(asked[turn["next"]:turn["next"] + 1], k, num_threads=1)

    one = {planes: index.searcher(asked, k, one_by_one=True) for planes, index in indexes.items()}
    many = {planes: index.searcher(asked, k) for planes, index in indexes.items()}
    one_us = times_in_turn({**one, "hnswlib": hnsw_one}, 200, 20)
    many_us = times_in_turn({**many, "hnswlib": lambda: graph.knn_query(asked, k)}, 3)
    for system, us in one_us.items():
        ours = system in PLANES
        record(record="exact_and_graph", system="vicinal" if ours else system, planes=system if ours else None, rows=len(rows), dim=rows.shape[1],
               k=k, threads=threads, recall=1.0 if ours else round(recall, 4), ef=None if ours else ef, one_p50_us=round(float(np.median(us)), 1),
               one_qps=round(1e6 / float(np.median(us)), 1), batch=len(asked), qps=round(len(asked) / float(np.median(many_us[system])) * 1e6, 1))
    for index in indexes.values():
        index.free()


def measure(record, lib, device, name, rows, queries, threads, shapes, with_peers):
    indexes = {}
    for planes in PLANES:
        indexes[planes] = Index(lib, device, rows, planes)
        record(record="certified_build", data=name, rows=len(rows), dim=rows.shape[1], planes=planes, build_s=round(indexes[planes].build_s, 3))
    roofs = {}
    for planes in PLANES:
        read = plane_bytes(rows, planes)
        roofs[planes] = read_us(read, threads)
        record(record="plane_read", data=name, planes=planes, bytes=read, threads=threads, us=round(roofs[planes], 1), gbps=round(read / roofs[planes] * 1e-3, 1))
    peers = peers_of(rows, threads) if with_peers else {"numpy": peers_of(rows, threads)["numpy"]}
    for batch, k, repeats in shapes:
        block = np.ascontiguousarray(queries[:batch if batch > 1 else 64])
        calls, facts = {}, {}
        right = indexes["none"].searcher(block, k)()
        for planes, index in indexes.items():
            found, stats = index.searcher(block, k)(), Stats(size=ctypes.sizeof(Stats))
            assert all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(found, right)), "an answer differs"
            calls[planes] = index.searcher(block, k, batch == 1)
            calls[planes](stats)
            facts[planes] = {"path": PATHS[stats.path], "rescored": stats.rows_rescored // max(1, stats.queries), "fallbacks": stats.fallbacks}
            if batch == 1 and stats.path in (1, 3):
                facts[planes]["read_us"] = round(roofs["none" if stats.path == 1 else planes], 1)
        for peer, make in peers.items():
            calls[peer] = make(block[:1] if batch == 1 else block, k)
        for system, us in times_in_turn(calls, repeats, min(10, repeats)).items():
            record(record="certified", data=name, system="vicinal" if system in PLANES else system, planes=system if system in PLANES else None,
                   rows=len(rows), dim=rows.shape[1], k=k, batch=batch, threads=threads, p50_us=round(float(us[len(us) // 2]), 1),
                   min_us=round(float(us[0]), 1), repeats=len(us), qps=round(batch / us[len(us) // 2] * 1e6, 1), **facts.get(system, {}))
    for index in indexes.values():
        index.free()


def main():
    parser = parser_of(__doc__, "library", "rows", "queries")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--hnsw", metavar="INDEX")
    arguments = parser.parse_args()
    record = recorder(arguments.output)
    rows, queries = (np.ascontiguousarray(np.load(path), np.float32) for path in (arguments.rows, arguments.queries))
    threads = len(os.sched_getaffinity(0))
    lib, device = ctypes.CDLL(arguments.library), ctypes.c_void_p()
    lib.vic_last_error.restype = ctypes.c_char_p
    if lib.vic_device_open(None, ctypes.byref(device)):
        raise RuntimeError(lib.vic_last_error().decode())
    record(**environment("bench/certified_cpu.py " + " ".join(os.path.basename(a) for a in sys.argv[1:4])))
    name = os.path.basename(arguments.rows)
    measure(record, lib, device, name, rows, queries, threads, ((1, 10, 60), (1, 100, 40), (16, 10, 12), (256, 10, 4)), True)
    if arguments.hnsw:
        measure_hnsw(record, lib, device, arguments.hnsw, rows, queries, threads)
    noise = np.random.default_rng(1)
    measure(record, lib, device, "gauss", noise.standard_normal((100000, 1024), np.float32), noise.standard_normal((256, 1024), np.float32),
            threads, ((1, 10, 28), (256, 10, 4)), False)
    if arguments.million:
        many = np.empty((1000000, rows.shape[1]), np.float32)
        for start in range(0, len(many), len(rows)):
            part = many[start:start + len(rows)]
            part[:] = rows[:len(part)] + 0.01 * rows.std() * noise.standard_normal(part.shape, np.float32)
        measure(record, lib, device, name + " to a million", many, queries, threads, ((1, 10, 30),), False)


if __name__ == "__main__":
    main()
