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

echo 'not JSON' >"$scratch/broken.jsonl"
if python3 bench/report.py "$scratch/broken.jsonl" 2>"$scratch/error" || ! grep -q 'broken.jsonl:1: expected a JSON object' "$scratch/error"; then
    echo "a broken line was not named:" && cat "$scratch/error" && exit 1
fi

python3 bench/report.py --check
echo "README.md holds what bench/results says"
