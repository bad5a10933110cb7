"""What Python adds to a search: one query of 384 numbers over k rows, so that little but the call is timed.

    python3 bench/python_overhead.py [--dim 384] [-k 1] [-o bench/results/python-MACHINE.jsonl]

For each system that is installed (vicinal, FAISS, usearch, hnswlib), turn by turn in one process: the call that a user
makes (`whole_us`), and the innermost one that Python can reach with arguments prepared beforehand (`inner_us`: ctypes' for
vicinal, SWIG's for FAISS, the bound method for usearch, which still makes its result arrays). Their difference is
`overhead_us`. For vicinal a C loop over the same call is compiled and timed as well (`c_us`), and `over_c_us` is what all of
Python adds to that. Prints JSON lines, first the environment. Each figure is the median of rounds, each round a mean of many calls; `best_...`
is the lowest round, which other work on the machine disturbs least.
"""
import ctypes
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
from exact_cpu import environment, parser_of, recorder  # noqa: E402

C_LOOP = r"""
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include "vicinal.h"
double loop(int (*search)(const void *, const void *, int64_t, const void *, const void *), const void *index, const void *queries,
            int64_t k, const void *options, const void *hits, int calls) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < calls; i++)
        if (search(index, queries, k, options, hits)) return -1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / calls / 1e3;
}
"""


def vicinal_calls(rows, k):
    """The user's call, the prepared foreign call, and the loop in C."""
    import vicinal
    from vicinal import _lib
    index = vicinal.build(rows, "dot", device=vicinal.Device("cpu", threads=1), planes="none")
    query = rows[0].copy()
    index.search(query, k)
    slot = index._slots[query.shape, k, None, None][0]
    inner, arguments = _lib.RAW_SEARCH, slot.arguments
    calls = {"whole": lambda: index.search(query, k), "inner": lambda: inner(*arguments)}
    if shutil.which("cc"):
        folder = tempfile.mkdtemp()
        source = pathlib.Path(folder) / "loop.c"
        source.write_text(C_LOOP)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", str(ROOT / "include"), str(source), "-o", folder + "/loop.so"], check=True)
        loop = ctypes.CDLL(folder + "/loop.so").loop
        loop.restype = ctypes.c_double
        calls["c"] = lambda count: loop(inner, *arguments, ctypes.c_int(count))
    return calls


def faiss_calls(rows, k):
    import faiss
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    row = rows[:1].copy()
    scores, ids = np.empty((1, k), np.float32), np.empty((1, k), np.int64)
    prepared = (1, faiss.swig_ptr(row), k, faiss.swig_ptr(scores), faiss.swig_ptr(ids))
    return {"whole": lambda: index.search(row, k), "inner": lambda: index.search_c(*prepared)}


def usearch_calls(rows, k):
    from usearch.index import Index, ScalarKind
    index = Index(ndim=rows.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(k), rows)
    row, query, kind, inner = rows[:1].copy(), rows[0].copy(), ScalarKind.Unknown, index._compiled.search_many
    return {"whole": lambda: index.search(query, k, threads=1),
            "inner": lambda: inner(row, dtype=kind, count=k, exact=False, threads=1)}


def hnswlib_calls(rows, k):
    import hnswlib
    index = hnswlib.Index("ip", rows.shape[1])
    index.init_index(k)
    index.add_items(rows)
    index.set_ef(2 * k)
    query = rows[0].copy()
    return {"whole": lambda: index.knn_query(query, k, num_threads=1)}


def mean_us(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count * 1e6


def measure(systems, rounds, count):
    """system -> what -> microseconds of each round, the first left out."""
    times = {name: {what: [] for what in calls} for name, calls in systems.items()}
    for _ in range(rounds):
        for name, calls in systems.items():
            for what, call in calls.items():
                times[name][what].append(call(count) if what == "c" else mean_us(call, count))
    return {name: {what: values[1:] for what, values in whats.items()} for name, whats in times.items()}


def record_of(name, whats, **shape):
    """One line: medians, and the differences of medians and of lowest rounds."""
    record = {"record": "python_overhead", "system": name, **shape}
    for prefix, choose in (("", statistics.median), ("best_", min)):
        chosen = {what: choose(values) for what, values in whats.items()}
        record.update({f"{prefix}{what}_us": round(value, 2) for what, value in chosen.items()})
        for what, key in (("inner", "overhead_us"), ("c", "over_c_us")):
            if what in chosen:
                record[prefix + key] = round(chosen["whole"] - chosen[what], 2)
    return record


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("-k", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--count", type=int, default=300)
    arguments = parser.parse_args()
    record = recorder(arguments.output)
    rows, systems = np.random.default_rng(1).standard_normal((arguments.k, arguments.dim), np.float32), {}
    for name, make in (("vicinal", vicinal_calls), ("faiss_flat", faiss_calls), ("usearch", usearch_calls), ("hnswlib", hnswlib_calls)):
        try:
            systems[name] = make(rows, arguments.k)
        except ImportError as error:
            print(f"without {name}: {error}", file=sys.stderr)
    command = f"bench/python_overhead.py --dim {arguments.dim} -k {arguments.k}"
    record(**environment(command), python=sys.version.split()[0], numpy=np.__version__, load=round(os.getloadavg()[0], 1))
    for name, whats in measure(systems, arguments.rounds, arguments.count).items():
        record(**record_of(name, whats, dim=arguments.dim, k=arguments.k, rows=arguments.k))


if __name__ == "__main__":
    main()
