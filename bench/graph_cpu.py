"""Approximate search by a graph on the CPU beside its peers, all in one process, call by call in turn.

    python3 bench/graph_cpu.py LIBRARY ROWS.npy QUERIES.npy [--parts build,search,single,wide,ood,scaling]
                               [--peers hnswlib,faiss] [--cache FOLDER] [-n ROWS] [-o FILE.jsonl]
    python3 bench/graph_cpu.py LIBRARY - - --parts million,million_scaling [--peers hnswlib] [--seconds S] ...

LIBRARY is libvicinal.so. Every system builds its index of the same float32 rows of unit length (cosine) with all threads,
degree 64 (M = 32, efConstruction = 200), and is then asked for the nearest of all queries at once, at rising beams; each round
times one call of each, so that a machine whose speed drifts drifts for all. Recall is against our exact search, ties counting
as found. Ours is asked over 8-bit and over 4-bit codes. Parts:

    build     the time of all of a build, rows in memory to an index that answers
    search    k = 10, all queries at once: a line a beam, and the rate at recalls of .95, .98 and .995 between the beams
    single    the same with one query a call, on one thread: medians
    wide      k = 100
    ood       queries far from the rows: the middle of two
    scaling   ours alone: building and searching on one thread and on two
    million   1,000,000 x 128 bytes of the manifold of `vicinal gen`, l2: building, searching at .95 and .99
    million_scaling   the same rows on one thread and on two, ours alone

-n takes the first rows only. Built indexes are kept in --cache and serve all later parts and runs, so that each run stays short. hnswlib's million is built in
pieces of --seconds at most: run the part again until it is complete. Appends JSON lines, first the environment (fields:
docs/benchmarks.md).
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

import exact_cpu

BEAMS = {10: (12, 16, 20, 24, 32, 48, 64, 96, 144), 100: (100, 128, 192, 256, 384)}
CODES = {"vicinal": 2, "vicinal, 4-bit": 3}
PLANES_BOTH = 6


class GraphOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("degree", ctypes.c_int32), ("beam", ctypes.c_int32), ("alpha", ctypes.c_float),
                ("force", ctypes.c_int32)]


class BuildOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("metric", ctypes.c_int), ("dtype", ctypes.c_int), ("pointers", ctypes.c_void_p * 7),
                ("planes", ctypes.c_int32), ("reserved", ctypes.c_int32), ("graph", ctypes.c_void_p)]


class DeviceOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("threads", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("rest", ctypes.c_void_p * 5)]


class SearchOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("filter", ctypes.c_void_p), ("path", ctypes.c_int),
                ("reserved", ctypes.c_int32), ("stats", ctypes.c_void_p), ("beam", ctypes.c_int32), ("parents", ctypes.c_int32),
                ("codes", ctypes.c_int32), ("reserved_2", ctypes.c_int32)]


class Vicinal:
    """The library by its C calls. rows: builds, else opens path."""

    def __init__(self, library, path, rows, metric, threads):
        self.lib = ctypes.CDLL(library)
        self.lib.vic_last_error.restype = ctypes.c_char_p
        self.device, self.index, self.codes = ctypes.c_void_p(), ctypes.c_void_p(), 0
        where = DeviceOptions(ctypes.sizeof(DeviceOptions), b"cpu", threads)
        self.check(self.lib.vic_device_open(ctypes.byref(where), ctypes.byref(self.device)))
        if rows is None:
            self.check(self.lib.vic_index_open(self.device, path.encode(), None, ctypes.byref(self.index)))
            return
        graph = GraphOptions(ctypes.sizeof(GraphOptions))
        options = BuildOptions(size=ctypes.sizeof(BuildOptions), metric=exact_cpu.METRICS[metric], graph=ctypes.addressof(graph),
                               planes=PLANES_BOTH if rows.dtype == np.float32 else 0)
        self.check(self.lib.vic_index_build(self.device, ctypes.byref(exact_cpu.matrix_of(rows)), ctypes.byref(options),
                                            ctypes.byref(self.index)))

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.vic_last_error().decode())

    def save(self, path):
        self.check(self.lib.vic_index_save(self.index, path.encode(), None))

    def search(self, queries, beam, k, path=0):
        ids, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        options = SearchOptions(size=ctypes.sizeof(SearchOptions), beam=beam, path=path, codes=0 if path else self.codes)
        hits = exact_cpu.Hits(ids.ctypes.data, scores.ctypes.data, None, 1)
        self.check(self.lib.vic_index_search(self.index, ctypes.byref(exact_cpu.matrix_of(queries)), ctypes.c_int64(k),
                                             ctypes.byref(options), ctypes.byref(hits)))
        return ids, scores

    def over(self, codes):
        """The same index, walked over other codes."""
        other = object.__new__(Vicinal)
        other.lib, other.device, other.index, other.codes = self.lib, self.device, self.index, codes
        return other


class Hnswlib:
    def __init__(self, path, rows, dim, metric, threads):
        import hnswlib
        self.index = hnswlib.Index("l2" if metric == "l2" else "ip", dim)
        if rows is None:
            self.index.load_index(path)
        else:
            self.index.init_index(len(rows), M=32, ef_construction=200)
        self.index.set_num_threads(threads)
        if rows is not None:
            self.index.add_items(rows)

    def save(self, path):
        self.index.save_index(path)

    def search(self, queries, beam, k):
        self.index.set_ef(beam)
        ids, distances = self.index.knn_query(queries, k)
        return ids, distances


class Faiss:
    def __init__(self, path, rows, dim, metric, threads):
        import faiss
        self.faiss = faiss
        faiss.omp_set_num_threads(threads)
        if rows is None:
            self.index = faiss.read_index(path)
            return
        self.index = faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = 200
        self.index.add(rows)

    def save(self, path):
        self.faiss.write_index(self.index, path)

    def search(self, queries, beam, k):
        self.index.hnsw.efSearch = beam
        return self.index.search(queries, k)[::-1]


PEERS = {"hnswlib": Hnswlib, "faiss": Faiss}


class Bench:
    """One data set: its systems, what it measures, where it writes."""

    def __init__(self, arguments, name, rows, queries, metric, record):
        self.library, self.cache, self.name, self.metric, self.record = arguments.library, arguments.cache, name, metric, record
        self.rows, self.queries, self.peers = rows, queries, [peer for peer in arguments.peers.split(",") if peer]
        self.threads = len(os.sched_getaffinity(0))
        self.floats = rows if rows.dtype == np.float32 else rows.astype(np.float32)
        self.shape = {"data": name, "rows": len(rows), "dim": rows.shape[1], "metric": metric,
                      "dtype": {"float32": "f32", "uint8": "u8"}[rows.dtype.name], "device": "cpu"}

    def path(self, system):
        return os.path.join(self.cache, f"{self.name}-{len(self.rows)}.{system}")

    def make(self, system, rows, threads):
        if system == "vicinal":
            return Vicinal(self.library, self.path(system), None if rows is None else self.rows, self.metric, threads)
        return PEERS[system](self.path(system), rows, self.rows.shape[1], self.metric, threads)

    def build(self, system, threads):
        began = time.perf_counter()
        index = self.make(system, self.floats, threads)
        self.record(record="graph build", system=system, degree=64, seconds=round(time.perf_counter() - began, 2), threads=threads,
                    **self.shape)
        index.save(self.path(system))
        return index

    def systems(self, threads):
        systems = {}
        for system in ["vicinal"] + self.peers:
            known = os.path.exists(self.path(system))
            systems[system] = self.make(system, None, threads) if known else self.build(system, threads)
        if self.rows.dtype == np.float32:
            systems = {name: systems["vicinal"].over(codes) for name, codes in CODES.items()} | systems | {
                "vicinal": systems["vicinal"].over(CODES["vicinal"])}
        return systems

    def recall(self, queries, ids, worst):
        found = self.floats[ids.astype(np.int64)]
        if self.metric == "l2":
            return float((np.square(found - queries[:, None].astype(np.float32)).sum(2) <= worst[:, None] * (1 + 1e-6)).mean())
        return float((np.einsum("qkd,qd->qk", found, queries) >= worst[:, None] - 1e-6).mean())

    def curves(self, kind, systems, queries, k, beams, targets, rounds, one=0):
        """A line a system and beam, and a line a system and target; one: single queries in place of all at once."""
        worst = systems["vicinal"].search(queries, 0, k, path=1)[1][:, -1]
        points = {name: [] for name in systems}
        for beam in beams:
            recalls = {name: self.recall(queries, system.search(queries, beam, k)[0], worst) for name, system in systems.items()}
            places = iter(range(10 ** 9))
            calls = {name: (lambda system=system: system.search(queries[(i := next(places) % one):i + 1] if one else queries, beam, k))
                     for name, system in systems.items()}
            for name, times in exact_cpu.times_in_turn(calls, one or rounds, (one or rounds) // rounds).items():
                us, batch = float(times[len(times) // 2]), 1 if one else len(queries)
                points[name].append((recalls[name], us / batch))
                self.record(record=kind, system=name, k=k, beam=beam, batch=batch, recall=round(recalls[name], 4), p50_us=round(us, 1),
                            qps=round(batch / us * 1e6, 1), **self.shape)
        self.targets(kind, points, k, targets)

    def targets(self, kind, points, k, targets):
        """Microseconds a query where a system's curve crosses a recall, between two beams in logarithms."""
        for target in targets:
            us = {}
            for name, curve in points.items():
                missed = [-np.log(max(1 - recall, 1e-9)) for recall, _ in curve]
                if missed[0] <= -np.log(1 - target) <= missed[-1]:
                    us[name] = float(np.exp(np.interp(-np.log(1 - target), missed, [np.log(each) for _, each in curve])))
            best = min((each for name, each in us.items() if not name.startswith("vicinal")), default=None)
            for name, each in us.items():
                self.record(record=kind + " at a recall", system=name, k=k, recall=target, us_a_query=round(each, 1),
                            qps=round(1e6 / each, 1), times_the_best_peer=round(best / each, 2) if best else None, **self.shape)

    def part_build(self):
        for system in ["vicinal"] + self.peers:
            self.build(system, self.threads)

    def part_search(self):
        self.curves("graph", self.systems(self.threads), self.queries[:5000], 10, BEAMS[10], (.95, .98, .995), 3)

    def part_single(self):
        self.curves("graph, one query, one thread", self.systems(1), self.queries[:1000], 10, BEAMS[10][:7], (.95, .98), 4, one=400)

    def part_wide(self):
        self.curves("graph", self.systems(self.threads), self.queries[:1000], 100, BEAMS[100], (.95, .98), 3)

    def part_ood(self):
        mixed = self.queries[:5000] + self.queries[5000:10000]
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        self.curves("graph, far queries", self.systems(self.threads), np.ascontiguousarray(mixed[:2000]), 10, BEAMS[10], (.95, .98), 3)

    def part_scaling(self):
        seconds, us = {}, {}
        for threads in (1, self.threads):
            began = time.perf_counter()
            index = self.make("vicinal", self.floats, threads)
            seconds[threads] = time.perf_counter() - began
            us[threads] = exact_cpu.times_in_turn({"vicinal": lambda: index.search(self.queries, 32, 10)}, 5, 5)["vicinal"][2]
        for what, values in (("build", seconds), ("search, beam 32", us)):
            self.record(record="graph scaling", what=what, threads=self.threads, times=round(float(values[1] / values[self.threads]), 3),
                        **self.shape)

    part_million_scaling = part_scaling

    def part_million(self):
        if "hnswlib" in self.peers and not self.hnswlib_in_pieces():
            return
        self.curves("graph", self.systems(self.threads), self.queries, 10, (10, 12, 16, 24, 32, 48, 64, 96), (.95, .99), 3)

    def hnswlib_in_pieces(self):
        """Adds rows until the time is up; what is there is kept with the seconds that it took. True: it is complete."""
        import hnswlib
        path, state = self.path("hnswlib"), self.path("hnswlib") + ".part"
        if os.path.exists(path):
            return True
        index, spent, began = hnswlib.Index("l2", self.rows.shape[1]), 0, time.perf_counter()
        if os.path.exists(state):
            spent = json.load(open(state + ".json"))
            index.load_index(state, max_elements=len(self.rows))
        else:
            index.init_index(len(self.rows), M=32, ef_construction=200)
        index.set_num_threads(self.threads)
        while index.get_current_count() < len(self.rows) and time.perf_counter() - began < self.seconds:
            first, start = index.get_current_count(), time.perf_counter()
            index.add_items(self.floats[first:first + 20000])
            spent += time.perf_counter() - start
        complete = index.get_current_count() == len(self.rows)
        index.save_index(path if complete else state)
        json.dump(spent, open(state + ".json", "w"))
        if complete:
            self.record(record="graph build", system="hnswlib", degree=64, seconds=round(spent, 2), threads=self.threads, **self.shape)
        else:
            print(f"hnswlib has {index.get_current_count()} of {len(self.rows)} rows: run this part again", file=sys.stderr)
        return complete


def million(arguments, record):
    rows, program = os.path.join(arguments.cache, "manifold.npy"), os.path.join(os.path.dirname(arguments.library), "vicinal")
    queries = os.path.join(arguments.cache, "manifold-queries.npy")
    for path, first, count in ((rows, 0, 1000000), (queries, 1000000, 5000)):
        if not os.path.exists(path):
            subprocess.run([program, "gen", "manifold", path, "--n", str(count), "--dim", "128", "--first", str(first), "--type", "u8"],
                           check=True)
    return Bench(arguments, "manifold", np.load(rows)[:arguments.n or None], np.load(queries), "l2", record)


def unit_rows(arguments):
    rows = np.ascontiguousarray(np.load(arguments.rows)[:arguments.n or None], np.float32)
    queries = np.ascontiguousarray(np.load(arguments.queries), np.float32)
    for vectors in (rows, queries):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows, queries


def main():
    parser = exact_cpu.parser_of(__doc__, "library", "rows", "queries")
    parser.add_argument("--parts", default="build,search,single,wide,ood,scaling")
    parser.add_argument("--peers", default="hnswlib,faiss")
    parser.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "vicinal-graph-bench"))
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("-n", type=int, default=0)
    arguments = parser.parse_args()
    os.makedirs(arguments.cache, exist_ok=True)
    record = exact_cpu.recorder(arguments.output, "a")
    record(**exact_cpu.environment(f"bench/graph_cpu.py --parts {arguments.parts} --peers {arguments.peers}"))
    benches = {}
    for part in arguments.parts.split(","):
        kind = "million" if part.startswith("million") else "rows"
        if kind not in benches:
            benches[kind] = million(arguments, record) if kind == "million" else Bench(
                arguments, os.path.splitext(os.path.basename(arguments.rows))[0], *unit_rows(arguments), "cosine", record)
            benches[kind].seconds = arguments.seconds
        getattr(benches[kind], "part_" + part)()


if __name__ == "__main__":
    main()
