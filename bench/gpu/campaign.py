"""The campaign: 45 configurations of one query, batches, narrow types and the roofs, beside the peers that are installed.

    python3 bench/gpu/campaign.py BUILD [-o bench/results/exact-h200.jsonl] [--quick]

BUILD holds bench_exact_gpu, bench_roof and libvicinal_cuda.so. Rows are unit Gaussians, seed 1, the same file for all
systems. Peers: PyTorch, FAISS-GPU flat and cuVS brute force, those that can be imported; float32, query in ordinary host
memory to ids and scores there. Writes JSON lines (fields: docs/benchmarks.md), the environment first, and the same records
as a CSV beside them.
"""
import argparse
import csv
import datetime
import hashlib
import json
import os
import subprocess
import time

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
SCRATCH = "/dev/shm/vicinal-campaign"
CAMPAIGN = [(n, dim) for n in (10_000, 50_000, 100_000, 500_000, 1_000_000) for dim in (384, 768, 1024)]
KS = (8, 32, 100)


def environment(command):
    listing = subprocess.run(["git", "ls-files", "-s", "include", "src", "cli"], capture_output=True, text=True, cwd=HERE + "/../..").stdout
    source = os.environ.get("SOURCE") or hashlib.sha256(listing.encode()).hexdigest()[:16]
    query = "name,driver_version,clocks.applications.graphics,clocks.max.graphics"
    name, driver, *clocks = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"], capture_output=True,
                                           text=True).stdout.strip().split(", ")
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    return {"record": "environment", "date": datetime.date.today().isoformat(), "source": source, "gpu": name, "driver": driver,
            "cuda": torch.version.cuda, "cpu": cpu, "cores": len(os.sched_getaffinity(0)), "isa": "", "clocks_locked": False,
            "clocks": clocks, "command": command, "torch": torch.__version__}


def peers_here():
    """Name to a function (rows on the device) -> function (block of queries, k) -> call."""

    def with_torch(rows):
        def searcher(block, k):
            def call():
                scores, ids = torch.topk(torch.from_numpy(block).cuda() @ rows.T, k)
                return ids.cpu(), scores.cpu()
            return call
        return searcher

    found = {"torch": with_torch}
    try:
        import faiss
        import faiss.contrib.torch_utils  # noqa: F401

        resources = faiss.StandardGpuResources()

        def with_faiss(rows):
            flat = faiss.GpuIndexFlatIP(resources, rows.shape[1])
            flat.add(rows)
            return lambda block, k: lambda: flat.search(block, k)
        found["faiss_gpu"] = with_faiss
    except ImportError:
        pass
    try:
        import cupy
        from cuvs.neighbors import brute_force

        def with_cuvs(rows):
            index = brute_force.build(rows, metric="inner_product")

            def searcher(block, k):
                def call():
                    scores, ids = brute_force.search(index, torch.from_numpy(block).cuda(), k)
                    return cupy.asarray(ids).get(), cupy.asarray(scores).get()
                return call
            return searcher
        found["cuvs_brute_force"] = with_cuvs
    except ImportError:
        pass
    return found


def timed(call, repeats, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return np.sort(times)


class Campaign:
    def __init__(self, build, output, quick):
        self.build, self.quick, self.records = build, quick, []
        self.output = open(output, "w")
        self.peers = peers_here()

    def record(self, fields):
        self.records.append(fields)
        self.output.write(json.dumps(fields) + "\n")
        self.output.flush()

    def ours(self, *arguments):
        command = [os.path.join(self.build, arguments[0]), *map(str, arguments[1:])]
        result = subprocess.run(command, capture_output=True, text=True)
        for line in result.stdout.splitlines():
            self.record(json.loads(line))
        if result.returncode:
            print("failed:", " ".join(command), result.stderr, flush=True)

    def shape(self, n, dim, ks, batches, repeats, *words):
        generator = torch.Generator(device="cuda").manual_seed(1)
        rows = torch.randn(n, dim, generator=generator, device="cuda")
        rows /= rows.norm(dim=1, keepdim=True)
        queries = torch.randn(max(256, *batches), dim, generator=generator, device="cuda")
        queries = (queries / queries.norm(dim=1, keepdim=True)).cpu().numpy()
        rows.cpu().numpy().tofile(SCRATCH + ".rows")
        queries.tofile(SCRATCH + ".queries")
        self.ours("bench_exact_gpu", SCRATCH + ".rows", n, dim, SCRATCH + ".queries", "f32", "dot", ",".join(map(str, ks)),
                  ",".join(map(str, batches)), repeats, *words)
        for name, make in self.peers.items():
            searcher = make(rows)
            for batch in batches:
                for k in ks:
                    count = 300 if batch == 1 else 2000 // batch + 5
                    times = timed(searcher(np.ascontiguousarray(queries[:batch]), k), 20 if self.quick else count, 20 if batch == 1 else 3)
                    self.record({"record": "exact", "system": name, "rows": n, "dim": dim, "k": k, "batch": batch, "metric": "dot",
                                 "dtype": "f32", "device": "cuda", "p50_us": round(float(times[len(times) // 2]), 2),
                                 "p99_us": round(float(times[int(len(times) * 0.99)]), 2), "max_us": round(float(times[-1]), 2),
                                 "repeats": len(times), "qps": round(batch / float(times[len(times) // 2]) * 1e6)})
            del searcher
        del rows
        torch.cuda.empty_cache()

    def finish(self, csv_path):
        fields = ["system", "rows", "dim", "k", "batch", "metric", "dtype", "device", "place", "timed", "p50_us", "p99_us", "p999_us",
                  "max_us", "repeats", "qps", "gpu_us", "verified"]
        with open(csv_path, "w", newline="") as file:
            writer = csv.DictWriter(file, fields, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(record for record in self.records if record["record"] == "exact")
        for suffix in (".rows", ".queries"):
            os.unlink(SCRATCH + suffix)
        self.output.close()

    def verdict(self):
        """Of the 45: how many where we are faster than every peer measured here."""
        best = {}
        for record in self.records:
            if record["record"] == "exact" and record["batch"] == 1 and record["dtype"] == "f32" and record["device"] == "cuda" and "timed" not in record:
                key = (record["rows"], record["dim"], record["k"], record["system"] == "vicinal")
                best[key] = min(best.get(key, 1e30), record["p50_us"])
        shapes = [key[:3] for key in best if key[3] and (*key[:3], False) in best and key[:2] in CAMPAIGN and key[2] in KS]
        return sum(best[(*shape, True)] < best[(*shape, False)] for shape in shapes), len(shapes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("-o", "--output", default="bench/results/exact-gpu.jsonl")
    parser.add_argument("--quick", action="store_true", help="few repeats, small shapes: to see that everything runs")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    campaign = Campaign(arguments.build, arguments.output, arguments.quick)
    campaign.record(environment("bench/gpu/campaign.py"))
    repeats = 100 if arguments.quick else 1000
    campaign.ours("bench_roof")
    for n, dim in CAMPAIGN[:6] if arguments.quick else CAMPAIGN:
        campaign.shape(n, dim, KS, (1,), repeats, *(["cpu"] if (n, dim) == (100_000, 384) else []))
    large = 131_072 if arguments.quick else 1_048_576
    campaign.shape(large, 1024, (8, 32, 100, 1000), (1,), repeats, "cpu")
    campaign.shape(large, 1024, (32,), (16, 128, 1024), repeats, "questions")
    campaign.shape(100_000, 384, (10,), (1,), 10 * repeats, "questions")
    for dtype in ("f16", "bf16", "i8"):
        campaign.ours("bench_exact_gpu", "-", large, 1024, "-", dtype, "dot", "32", "1,128", repeats)
    campaign.ours("bench_exact_gpu", "-", large, 1024, "-", "f32", "dot", "10000", "64", repeats)
    campaign.ours("bench_exact_gpu", "-", 3 * large, 1024, "-", "f32", "dot", "8", "1", repeats // 50, "cpu")  # rows long on their way up
    campaign.finish(os.path.splitext(arguments.output)[0] + ".csv")
    print("faster than every peer measured here in %d of %d configurations" % campaign.verdict())


main()
