#!/bin/sh
# The report: a small run gives the figures that follow from it, and README.md holds those of bench/results and no others.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/cpu-here.jsonl" <<'END'
{"record": "environment", "date": "2026-11-30", "cpu": "a processor", "cores": 2, "source": "0123456789abcdef"}
{"record": "limit", "what": "plain read", "gbps": 20.0}
{"record": "exact", "system": "vicinal", "rows": 100000, "dim": 100, "k": 10, "batch": 1, "dtype": "f32", "p50_us": 2500.0, "verified": true}
{"record": "exact", "system": "slow", "rows": 100000, "dim": 100, "k": 10, "batch": 1, "dtype": "f32", "p50_us": 20000.0}
{"record": "exact", "system": "fast", "rows": 100000, "dim": 100, "k": 10, "batch": 1, "dtype": "f32", "p50_us": 5000.0}
{"record": "exact", "system": "vicinal", "rows": 100000, "dim": 100, "k": 10, "batch": 16, "dtype": "f32", "p50_us": 9000.0, "verified": false}
END
cat >"$scratch/expected" <<'END'
**cpu-here** · 2026-11-30 · a processor · 2 cores · source 0123456789ab

| rows | queries | k | vicinal | fast | slow | against the best peer | share of a plain read |
|---|---:|---:|---:|---:|---:|---:|---:|
| 100,000 × 100 f32 | 1 | 10 | 2,500 µs | 5,000 µs | 20.0 ms | 2.0× | 80% |
| 100,000 × 100 f32 | 16 | 10 | 9,000 µs (not verified) |  |  |  |  |
END
python3 bench/report.py "$scratch/cpu-here.jsonl" >"$scratch/all"
head -n 6 "$scratch/all" >"$scratch/found"
diff "$scratch/expected" "$scratch/found"

# Planes: the share is that of the bytes which the fastest path reads; exact answers beside a graph's are a table of their own.
cat >"$scratch/certified-here.jsonl" <<'END'
{"record": "environment", "date": "2026-11-30", "cpu": "a processor", "cores": 2, "source": "0123456789abcdef"}
{"record": "certified", "data": "made", "system": "vicinal", "planes": "none", "rows": 1000, "dim": 10, "k": 10, "batch": 1, "p50_us": 800.0, "read_us": 780.0}
{"record": "certified", "data": "made", "system": "vicinal", "planes": "4", "rows": 1000, "dim": 10, "k": 10, "batch": 1, "p50_us": 100.0, "read_us": 75.0}
{"record": "certified", "data": "made", "system": "numpy", "planes": null, "rows": 1000, "dim": 10, "k": 10, "batch": 1, "p50_us": 900.0}
{"record": "exact_and_graph", "system": "vicinal", "planes": "4", "recall": 1.0, "one_p50_us": 100.0, "one_qps": 10000.0, "qps": 20000.0}
{"record": "exact_and_graph", "system": "hnswlib", "planes": null, "recall": 0.9981, "one_p50_us": 125.0, "one_qps": 8000.0, "qps": 15000.0}
END
cat >"$scratch/expected" <<'END'
**certified-here** · 2026-11-30 · a processor · 2 cores · source 0123456789ab

| rows | queries | k | vicinal | vicinal, 4-bit plane | numpy | against the best peer | share of a plain read |
|---|---:|---:|---:|---:|---:|---:|---:|
| 1,000 × 10, made | 1 | 10 | 800 µs | 100 µs | 900 µs | 9.0× | 75% |

|  | recall@10 | one query | queries a second, one by one | all in one call |
|---|---:|---:|---:|---:|
| vicinal, 4-bit plane | 1.0000 | 100 µs | 10,000 | 20,000 |
| hnswlib | 0.9981 | 125 µs | 8,000 | 15,000 |

END
python3 bench/report.py "$scratch/certified-here.jsonl" >"$scratch/found"
diff "$scratch/expected" "$scratch/found"

# Graphs: rates at a recall, side by side.
cat >"$scratch/graph-here.jsonl" <<'END'
{"record": "environment", "date": "2026-11-30", "cpu": "a processor", "cores": 2, "source": "0123456789abcdef"}
{"record": "graph at a recall", "system": "vicinal", "k": 10, "recall": 0.95, "qps": 3000.4, "data": "rows", "rows": 1000, "dim": 10, "dtype": "f32"}
{"record": "graph at a recall", "system": "vicinal, 4-bit", "k": 10, "recall": 0.95, "qps": 3600.0, "data": "rows", "rows": 1000, "dim": 10, "dtype": "f32"}
{"record": "graph at a recall", "system": "slow", "k": 10, "recall": 0.95, "qps": 1200.0, "data": "rows", "rows": 1000, "dim": 10, "dtype": "f32"}
{"record": "graph at a recall", "system": "vicinal", "k": 10, "recall": 0.99, "qps": 1000.0, "data": "far", "rows": 1000, "dim": 10, "dtype": "f32"}
END
cat >"$scratch/expected" <<'END'
**graph-here** · 2026-11-30 · a processor · 2 cores · source 0123456789ab

| queries a second | recall | k | vicinal | vicinal, 4-bit | slow | against the best peer |
|---|---:|---:|---:|---:|---:|---:|
| 1,000 × 10 f32 | 0.95 | 10 | 3,000 | 3,600 | 1,200 | 3.0× |
| 1,000 × 10 f32, far | 0.99 | 10 | 1,000 |  |  |  |

END
python3 bench/report.py "$scratch/graph-here.jsonl" >"$scratch/found"
diff "$scratch/expected" "$scratch/found"

echo 'not JSON' >"$scratch/broken.jsonl"
if python3 bench/report.py "$scratch/broken.jsonl" 2>"$scratch/error" || ! grep -q 'broken.jsonl:1: expected a JSON object' "$scratch/error"; then
    echo "a broken line was not named:" && cat "$scratch/error" && exit 1
fi

python3 bench/report.py --check
echo "README.md holds what bench/results says"
