"""Exact search on planes (docs/certified.md) beside a scan of all rows and the peers, all in one process, in turn.

    python3 bench/certified_cpu.py LIBRARY ROWS.npy QUERIES.npy [-o bench/results/certified-MACHINE.jsonl] [--million]

Ids and scores of every path are compared byte by byte with the scan's before anything is timed. Prints JSON lines: the
environment, a record for each plane that was built, then the searches; p50 and, for machines that do other things meanwhile,
the fastest. A system's turn is one call that is not timed and four that are: codes that fit the last-level cache are found
there by the second query, as they would be by a program that asks one query after another. --million adds the rows repeated to a million with small fresh noise, which no cache holds.
"""
import argparse
import ctypes
import json
import os
import sys
import time

import numpy as np

from exact_cpu import Hits, METRICS, environment, matrix_of, peers_of

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


def times_in_groups(calls, repeats, group=4):
    times = {name: [] for name in calls}
    for _ in range((repeats + group - 1) // group):
        for name, call in calls.items():
            call()
            for _ in range(group):
                start = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - start) * 1e6)
    return {name: np.sort(values) for name, values in times.items()}


def measure(record, lib, device, name, rows, queries, threads, shapes, with_peers):
    indexes = {}
    for planes in PLANES:
        indexes[planes] = Index(lib, device, rows, planes)
        record(record="certified_build", data=name, rows=len(rows), dim=rows.shape[1], planes=planes, build_s=round(indexes[planes].build_s, 3))
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
        for peer, make in peers.items():
            calls[peer] = make(block[:1] if batch == 1 else block, k)
        for system, us in times_in_groups(calls, repeats).items():
            record(record="certified", data=name, system="vicinal" if system in PLANES else system, planes=system if system in PLANES else None,
                   rows=len(rows), dim=rows.shape[1], k=k, batch=batch, threads=threads, p50_us=round(float(us[len(us) // 2]), 1),
                   min_us=round(float(us[0]), 1), repeats=len(us), qps=round(batch / us[len(us) // 2] * 1e6, 1), **facts.get(system, {}))
    for index in indexes.values():
        index.free()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("rows")
    parser.add_argument("queries")
    parser.add_argument("-o", "--output", default="-")
    parser.add_argument("--million", action="store_true")
    arguments = parser.parse_args()
    out = sys.stdout if arguments.output == "-" else open(arguments.output, "w")
    rows = np.ascontiguousarray(np.load(arguments.rows), np.float32)
    queries = np.ascontiguousarray(np.load(arguments.queries), np.float32)
    threads = len(os.sched_getaffinity(0))

    def record(**fields):
        print(json.dumps(fields), file=out, flush=True)

    lib, device = ctypes.CDLL(arguments.library), ctypes.c_void_p()
    lib.vic_last_error.restype = ctypes.c_char_p
    if lib.vic_device_open(None, ctypes.byref(device)):
        raise RuntimeError(lib.vic_last_error().decode())
    record(**environment("bench/certified_cpu.py " + " ".join(os.path.basename(a) for a in sys.argv[1:4])))
    name = os.path.basename(arguments.rows)
    measure(record, lib, device, name, rows, queries, threads, ((1, 10, 100), (1, 100, 60), (16, 10, 12), (256, 10, 4)), True)
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
