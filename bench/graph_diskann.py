"""DiskANN's own index in memory, searched by DiskANN and, opened from its files, by us: the same graph, call by call in turn.

    python3 bench/graph_diskann.py LIBRARY ROWS.npy [-n ROWS] [-o FILE.jsonl]

LIBRARY is libvicinal.so; wants diskannpy 0.7.0 (and with it NumPy below 2). Its graph of degree 64 over float32 rows, squared
l2, all threads; queries lie halfway between two rows, drawn with a seed. Recall is against our exact search, ties counting as
found. Prints JSON lines, first the environment (fields: docs/benchmarks.md).
"""
import ctypes
import os
import sys
import tempfile
import time

import diskannpy
import numpy as np

import exact_cpu
import graph_cpu

K = graph_cpu.K
BEAMS = (10, 16, 24, 32, 48, 64, 96, 128, 192)


class Opened(graph_cpu.Vicinal):
    """Ours, from files."""

    def __init__(self, path, index):
        self.lib = ctypes.CDLL(path)
        self.lib.vic_last_error.restype = ctypes.c_char_p
        self.device, self.index = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.vic_device_open(None, ctypes.byref(self.device)))
        self.check(self.lib.vic_index_open(self.device, index.encode(), None, ctypes.byref(self.index)))


class DiskANN:
    def __init__(self, folder, threads):
        self.threads = threads
        self.index = diskannpy.StaticMemoryIndex(index_directory=folder, num_threads=threads, initial_search_complexity=max(BEAMS),
                                                 index_prefix="mem")

    def search(self, queries, beam):
        found = self.index.batch_search(queries, k_neighbors=K, complexity=beam, num_threads=self.threads)
        return found.identifiers, found.distances


def recall_of(rows, queries, ids, most):
    distances = ((rows[ids].astype(np.float64) - queries[:, None]) ** 2).sum(2)
    return float((distances <= most[:, None] * (1 + 1e-5) + 1e-6).mean())


def main():
    parser = exact_cpu.parser_of(__doc__, "library", "rows")
    parser.add_argument("-n", type=int, default=0)
    arguments = parser.parse_args()
    rows = np.ascontiguousarray(np.load(arguments.rows)[:arguments.n or None], np.float32)
    pairs = np.random.default_rng(7).integers(0, len(rows), (2, 2000))
    queries = np.ascontiguousarray((rows[pairs[0]] + rows[pairs[1]]) / 2, np.float32)
    threads = len(os.sched_getaffinity(0))
    common = {"rows": len(rows), "dim": rows.shape[1], "metric": "l2", "dtype": "f32", "device": "cpu", "threads": threads}
    record = exact_cpu.recorder(arguments.output)
    record(**exact_cpu.environment("bench/graph_diskann.py " + " ".join(os.path.basename(a) for a in sys.argv[1:3])))
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        diskannpy.build_memory_index(data=rows, distance_metric="l2", index_directory=folder, complexity=100, graph_degree=64,
                                     alpha=1.2, num_threads=threads, use_pq_build=False, num_pq_bytes=0, use_opq=False,
                                     index_prefix="mem")
        record(record="graph build", system="diskann", degree=64, seconds=round(time.perf_counter() - began, 2), **common)
        began = time.perf_counter()
        systems = {"vicinal": Opened(arguments.library, os.path.join(folder, "mem"))}
        record(record="graph open", system="vicinal", degree=64, seconds=round(time.perf_counter() - began, 2), **common)
        systems["diskann"] = DiskANN(folder, threads)
    most = systems["vicinal"].search(queries, 0, path=1)[1][:, -1].astype(np.float64)
    for beam in BEAMS:
        recalls = {name: recall_of(rows, queries, system.search(queries, beam)[0].astype(np.int64), most)
                   for name, system in systems.items()}
        times = exact_cpu.times_in_turn({name: lambda system=system: system.search(queries, beam) for name, system in systems.items()}, 5)
        for name in systems:
            record(record="graph", system=name, k=K, beam=beam, batch=len(queries), recall=round(recalls[name], 4),
                   qps=round(len(queries) / float(times[name][len(times[name]) // 2]) * 1e6, 1),
                   best_qps=round(len(queries) / float(times[name][0]) * 1e6, 1), **common)


if __name__ == "__main__":
    main()
