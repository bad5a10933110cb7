"""Approximate search by a graph on the CPU beside its peers, all in one process, call by call in turn.

    python3 bench/graph_cpu.py LIBRARY ROWS.npy QUERIES.npy [--peers hnswlib,faiss] [-n ROWS] [-o FILE.jsonl]

LIBRARY is libvicinal.so. Every system builds its index of the same float32 rows of unit length (cosine) with all threads,
degree 64 (M = 32), and is then asked for the 10 nearest of all queries at once, at rising beams; each round times one call of
each, so that a machine whose speed drifts drifts for all. Recall is against our exact search, ties counting as found. Prints
JSON lines, first the environment (fields: docs/benchmarks.md).
"""
import argparse
import ctypes
import json
import os
import sys
import time

import numpy as np

import exact_cpu

K = 10
BEAMS = (10, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256)


class GraphOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("degree", ctypes.c_int32), ("beam", ctypes.c_int32), ("alpha", ctypes.c_float),
                ("force", ctypes.c_int32)]


class BuildOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("metric", ctypes.c_int), ("dtype", ctypes.c_int), ("pointers", ctypes.c_void_p * 7),
                ("planes", ctypes.c_int32), ("reserved", ctypes.c_int32), ("graph", ctypes.c_void_p)]


class SearchOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("filter", ctypes.c_void_p), ("path", ctypes.c_int),
                ("reserved", ctypes.c_int32), ("stats", ctypes.c_void_p), ("beam", ctypes.c_int32), ("parents", ctypes.c_int32)]


class Vicinal:
    def __init__(self, path, rows):
        self.lib = ctypes.CDLL(path)
        self.lib.vic_last_error.restype = ctypes.c_char_p
        self.device, self.index = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.vic_device_open(None, ctypes.byref(self.device)))
        graph = GraphOptions(ctypes.sizeof(GraphOptions))
        options = BuildOptions(size=ctypes.sizeof(BuildOptions), metric=exact_cpu.METRICS["cosine"], graph=ctypes.addressof(graph))
        self.check(self.lib.vic_index_build(self.device, ctypes.byref(exact_cpu.matrix_of(rows)), ctypes.byref(options),
                                            ctypes.byref(self.index)))

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.vic_last_error().decode())

    def search(self, queries, beam, path=0):
        ids, scores = np.empty((len(queries), K), np.int64), np.empty((len(queries), K), np.float32)
        options = SearchOptions(size=ctypes.sizeof(SearchOptions), beam=beam, path=path)
        hits = exact_cpu.Hits(ids.ctypes.data, scores.ctypes.data, None, 1)
        self.check(self.lib.vic_index_search(self.index, ctypes.byref(exact_cpu.matrix_of(queries)), ctypes.c_int64(K),
                                             ctypes.byref(options), ctypes.byref(hits)))
        return ids, scores


class Hnswlib:
    def __init__(self, rows, threads):
        import hnswlib
        self.index = hnswlib.Index("ip", rows.shape[1])
        self.index.init_index(len(rows), M=32, ef_construction=200)
        self.index.set_num_threads(threads)
        self.index.add_items(rows)

    def search(self, queries, beam):
        self.index.set_ef(beam)
        return self.index.knn_query(queries, K)


class Faiss:
    def __init__(self, rows, threads):
        import faiss
        faiss.omp_set_num_threads(threads)
        self.index = faiss.IndexHNSWFlat(rows.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = 200
        self.index.add(rows)

    def search(self, queries, beam):
        self.index.hnsw.efSearch = beam
        return self.index.search(queries, K)[::-1]


PEERS = {"hnswlib": Hnswlib, "faiss": Faiss}


def recall_of(rows, queries, ids, least):
    scores = np.einsum("qkd,qd->qk", rows[ids], queries)
    return float((scores >= least[:, None] - 1e-6).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("rows")
    parser.add_argument("queries")
    parser.add_argument("--peers", default="hnswlib,faiss")
    parser.add_argument("-n", type=int, default=0)
    parser.add_argument("-o", "--output", default="-")
    arguments = parser.parse_args()
    out = sys.stdout if arguments.output == "-" else open(arguments.output, "w")
    rows = np.ascontiguousarray(np.load(arguments.rows)[:arguments.n or None], np.float32)
    queries = np.ascontiguousarray(np.load(arguments.queries), np.float32)
    for vectors in (rows, queries):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    threads = len(os.sched_getaffinity(0))
    common = {"rows": len(rows), "dim": rows.shape[1], "metric": "cosine", "dtype": "f32", "device": "cpu", "threads": threads}

    def record(**fields):
        print(json.dumps(fields), file=out, flush=True)

    record(**exact_cpu.environment("bench/graph_cpu.py " + " ".join(os.path.basename(a) for a in sys.argv[1:4])))
    systems = {}
    for name in ["vicinal"] + [peer for peer in arguments.peers.split(",") if peer]:
        began = time.perf_counter()
        systems[name] = Vicinal(arguments.library, rows) if name == "vicinal" else PEERS[name](rows, threads)
        record(record="graph build", system=name, degree=64, seconds=round(time.perf_counter() - began, 2), **common)
    least = systems["vicinal"].search(queries, 0, path=1)[1][:, -1]
    for beam in BEAMS:
        recalls = {name: recall_of(rows, queries, system.search(queries, beam)[0].astype(np.int64), least)
                   for name, system in systems.items()}
        times = exact_cpu.times_in_turn({name: lambda system=system: system.search(queries, beam) for name, system in systems.items()},
                                        5)
        ones = exact_cpu.times_in_turn({name: lambda system=system: system.search(queries[:1], beam) for name, system in systems.items()},
                                       200, 10)
        for name in systems:
            record(record="graph", system=name, k=K, beam=beam, batch=len(queries), recall=round(recalls[name], 4),
                   qps=round(len(queries) / float(times[name][len(times[name]) // 2]) * 1e6, 1),
                   best_qps=round(len(queries) / float(times[name][0]) * 1e6, 1),
                   one_p50_us=round(float(ones[name][len(ones[name]) // 2]), 1), **common)


if __name__ == "__main__":
    main()
