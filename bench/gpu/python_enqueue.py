"""What Python adds to a search between tensors on a GPU: time until the call is back, the search itself only enqueued.

    python3 bench/gpu/python_enqueue.py [-o bench/results/python-MACHINE.jsonl]

For PyTorch and CuPy, those that are installed, turn by turn: `whole` is index.search(queries, k), which allocates its results;
`out` the same into results of the caller's; `inner` the foreign call alone with arguments prepared beforehand; `alloc` the
two allocations alone. The peer is PyTorch's own exact search, a matrix product and topk, which enqueues as well. The GPU
is let finish after each burst, outside the times, so that no call waits for a full queue. Answers are compared with the
CPU's first. Prints JSON lines, first the environment. Exit code 77: there is no CUDA device.
"""
import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
import vicinal  # noqa: E402
from exact_cpu import environment  # noqa: E402

BURST = 16


def prepared(index, queries, k, ids, scores, stream, address):
    """The foreign call with all its arguments made."""
    from vicinal import _lib
    stats = _lib.SearchStats()
    options = _lib.SearchOptions(stream=stream, stats=ctypes.addressof(stats))
    matrix = _lib.Matrix(address(queries), *queries.shape, 0, _lib.F32, _lib.DEVICE)
    hits = _lib.HitsArrays(address(ids), address(scores), None, _lib.DEVICE)
    arguments = (index._handle.pointer, ctypes.byref(matrix), ctypes.c_int64(k), ctypes.byref(options), ctypes.byref(hits))

    def call(search=_lib.RAW_SEARCH, kept=(stats, options, matrix, hits)):
        if search(*arguments):
            raise RuntimeError(_lib.LIB.vic_last_error().decode())

    return call


def torch_calls(index, rows, asked, k):
    import torch
    queries, corpus = torch.from_numpy(asked).cuda(), torch.from_numpy(rows).cuda()
    ids, scores = (torch.empty((len(asked), k), dtype=kind, device="cuda") for kind in (torch.int64, torch.float32))
    calls = {"whole": lambda: index.search(queries, k), "out": lambda: index.search(queries, k, out=(ids, scores)),
             "inner": prepared(index, queries, k, ids, scores, 1, lambda tensor: tensor.data_ptr()),
             "alloc": lambda: (torch.empty_like(ids), torch.empty_like(scores))}
    return {"vicinal": calls, "torch": {"whole": lambda: torch.topk(queries @ corpus.T, k)}}, torch.cuda.synchronize, torch.__version__


def cupy_calls(index, rows, asked, k):
    import cupy
    queries = cupy.asarray(asked)
    ids, scores = cupy.empty((len(asked), k), cupy.int64), cupy.empty((len(asked), k), cupy.float32)
    calls = {"whole": lambda: index.search(queries, k), "out": lambda: index.search(queries, k, out=(ids, scores)),
             "inner": prepared(index, queries, k, ids, scores, 1, lambda array: array.data.ptr),
             "alloc": lambda: (cupy.empty_like(ids), cupy.empty_like(scores))}
    return {"vicinal": calls}, cupy.cuda.Device().synchronize, cupy.__version__


def measure(systems, synchronize, bursts):
    """(system, what) -> microseconds of each call."""
    times = {(name, what): [] for name, calls in systems.items() for what in calls}
    for burst in range(bursts + 5):
        for (name, what), found in times.items():
            call, marks = systems[name][what], [time.perf_counter_ns()]
            for _ in range(BURST):
                call()
                marks.append(time.perf_counter_ns())
            synchronize()
            if burst >= 5:
                found += [(end - start) / 1e3 for start, end in zip(marks, marks[1:])]
    return times


def records(library, make, index, expected, rows, asked, k, bursts):
    """One record a system, and the library's version."""
    systems, synchronize, version = make(index, rows, asked, k)
    hits = systems["vicinal"]["whole"]()
    verified = np.array_equal(np.array(hits.ids.tolist()), expected.ids) and np.array_equal(np.float32(hits.scores.tolist()), expected.scores)
    times, made = measure(systems, synchronize, bursts), []
    for name, calls in systems.items():
        record = {"record": "python_enqueue", "system": name, "library": library, "rows": len(rows), "dim": rows.shape[1], "k": k, "batch": len(asked),
                  "device": "cuda", "repeats": bursts * BURST}
        for what in calls:
            p50, p99, best = np.percentile(times[name, what], (50, 99, 0))
            prefix = "" if what == "whole" else what + "_"
            record.update({f"{prefix}p50_us": round(p50, 2), f"{prefix}p99_us": round(p99, 2), f"{prefix}best_us": round(best, 2)})
        made.append({**record, "verified": verified} if name == "vicinal" else record)
    return made, version


def source():
    """What test/gpu/python.sh keeps in its receipt: the package's own files count as well."""
    listing = subprocess.run(["git", "ls-files", "-s", "include", "src", "cli", "python"], capture_output=True, cwd=ROOT).stdout
    return os.environ.get("SOURCE") or hashlib.sha256(listing).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--bursts", type=int, default=200)
    parser.add_argument("-o", "--output", default="-")
    arguments = parser.parse_args()
    gpus = [device for device in vicinal.devices() if device.name.startswith("cuda")]
    if not any(device.usable for device in gpus):
        print("no CUDA device: " + (gpus[0].sentence if gpus else "this build knows of none"), file=sys.stderr)
        sys.exit(77)
    rows = vicinal.generate("gauss", arguments.rows, arguments.dim, seed=1)
    index, oracle = (vicinal.build(rows, "dot", device=device) for device in ("cuda", "cpu"))
    lines, versions = [], {}
    for batch in (1, 64):
        asked = vicinal.generate("gauss", batch, arguments.dim, seed=1, first=arguments.rows)
        expected = oracle.search(asked, arguments.k)
        for library, make in (("torch", torch_calls), ("cupy", cupy_calls)):
            try:
                made, versions[library] = records(library, make, index, expected, rows, asked, arguments.k, arguments.bursts)
                lines += made
            except ImportError as error:
                print(f"without {library}: {error}", file=sys.stderr)
    smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout
    gpu, _, driver = (smi.splitlines() or [""])[0].partition(", ")
    about = {**environment("bench/gpu/python_enqueue.py"), "source": source(), "gpu": gpu, "driver": driver, "python": sys.version.split()[0], "numpy": np.__version__, **versions}
    with (open(arguments.output, "w") if arguments.output != "-" else sys.stdout) as out:
        for line in (about, *lines):
            print(json.dumps(line), file=out)


if __name__ == "__main__":
    main()
