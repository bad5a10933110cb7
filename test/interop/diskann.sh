#!/bin/sh
# DiskANN as the judge (diskannpy 0.7.0, NumPy below 2): it builds indexes in memory and on disk of real rows; we open them,
# search them at its own beam and must find as much; we write them again and it must find the same neighbours in ours.
# VICINAL_BIN: the folder of the program; PYTHON: an interpreter that has diskannpy. Without it: exit code 77.
set -eu
vicinal=${VICINAL_BIN:?the folder of the program vicinal}/vicinal
python=${PYTHON:-python3}
tree=$(cd "$(dirname "$0")/../.." && pwd)
script=$tree/test/interop/diskann.py
work=$(mktemp -d "${TMPDIR:-/tmp}/vicinal-interop.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
cd "$work"

judge() { "$python" "$script" "$@" >judge.log 2>&1; }
if ! "$python" -c 'import diskannpy' 2>/dev/null; then
    echo "skipped: diskannpy is not here"
    exit 77
fi

# recall HITS: the share of the ten nearest that it has
recall() { "$vicinal" eval "$1" truth.bin -k 10 | grep -o '[01]\.[0-9]*' | head -n 1; }
# no_less OURS THEIRS WHAT: but for a hundredth, which walking over codes of 8 bits may cost
no_less() {
    awk -v ours="$1" -v theirs="$2" 'BEGIN { exit !(ours + 0.01 >= theirs + 0) }' || {
        echo "FAILED: $3: recall $1 where DiskANN has $2"
        exit 1
    }
    echo "$3: recall $1, DiskANN $2"
}

"$vicinal" convert "$tree/examples/senses/senses_f16.npy" rows.npy --type f32 >/dev/null
mkdir theirs ours
judge build rows.npy theirs || { tail judge.log; exit 1; }
mv theirs/queries.fbin .
"$vicinal" truth rows.npy queries.fbin -o truth.bin --metric l2 -k 10 >/dev/null

for beam in 20 80; do
    judge search theirs mem memory queries.fbin 10 $beam theirs.bin
    "$vicinal" search theirs/mem queries.fbin -k 10 --beam $beam -o ours.bin >/dev/null
    no_less "$(recall ours.bin)" "$(recall theirs.bin)" "its graph in memory, beam $beam"
    judge search theirs disk disk queries.fbin 10 $beam theirs.bin
    "$vicinal" search theirs/disk_disk.index queries.fbin -k 10 --beam $beam -o ours.bin >/dev/null
    no_less "$(recall ours.bin)" "$(recall theirs.bin)" "its index on disk, beam $beam"
done

# Out again as they came, and found the same in.
"$vicinal" convert theirs/mem ours/mem.vic >/dev/null
"$vicinal" convert ours/mem.vic ours/mem --to diskann
for end in '' .data _metadata.bin; do
    cmp "theirs/mem$end" "ours/mem$end" || { echo "FAILED: mem$end came out otherwise"; exit 1; }
done
"$vicinal" build rows.npy -o ours/built.vic --metric l2 --graph degree=32,beam=64 >/dev/null
"$vicinal" convert ours/built.vic ours/built --to diskann
for beam in 20 80; do
    judge search ours built memory queries.fbin 10 $beam theirs.bin
    "$vicinal" search ours/built.vic queries.fbin -k 10 --beam $beam -o ours.bin >/dev/null
    echo "our graph, beam $beam: DiskANN finds $(recall theirs.bin), we find $(recall ours.bin)"
    no_less "$(recall theirs.bin)" 0.9 "our graph in DiskANN, beam $beam"
done
echo "DiskANN reads what we write, and we read what it writes"
