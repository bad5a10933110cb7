#!/bin/sh
# DiskANN as the judge (diskannpy 0.7.0, NumPy below 2): for each of its metrics it builds indexes in memory and on disk of real
# rows; we open them, search them at its own beam and must find as much; we write them again and it must find the same
# neighbours in ours. It has no disk index for cosine; there it opens ours as one of l2, which orders unit vectors alike.
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
# no_less OURS THEIRS WHAT
no_less() {
    awk -v ours="$1" -v theirs="$2" 'BEGIN { exit !(ours + 0 >= theirs + 0) }' || {
        echo "FAILED: $3: recall $1, expected at least $2"
        exit 1
    }
    echo "$3: recall $1, at least $2"
}
less() { awk -v from="$1" -v by="$2" 'BEGIN { print from - by }'; }
# ask INDEX BEAM: our search over the rows themselves, as its own in memory is
ask() { "$vicinal" search "$1" queries.fbin -k 10 --beam "$2" --codes rows -o ours.bin >/dev/null; }
same() {
    cmp "$1" "$2" || {
        echo "FAILED: $2 is not $1"
        exit 1
    }
}


# its_indexes METRIC: opened here
its_indexes() {
    slack=0
    [ "$1" != mips ] || slack=0.003 # rows that nothing led to were tied in: walks are not quite the same
    for beam in 20 80; do
        judge search theirs mem memory queries.fbin 10 $beam theirs.bin
        ask theirs/mem $beam
        no_less "$(recall ours.bin)" "$(less "$(recall theirs.bin)" $slack)" "$1: its graph in memory, opened here, beam $beam"
        [ "$1" != cosine ] || continue
        judge search theirs disk disk queries.fbin 10 $beam theirs.bin
        ask theirs/disk_disk.index $beam
        # on a disk it answers from all nodes it expanded, also from those that its list had no room for
        no_less "$(recall ours.bin)" "$(less "$(recall theirs.bin)" 0.003)" "$1: its index on disk, opened here, beam $beam"
    done
    [ "$1" != cosine ] || return 0
    # Over the codes that lie beside its nodes, as its own search walks.
    "$vicinal" search theirs/disk_disk.index queries.fbin -k 10 --beam 80 --codes pq -o ours.bin >/dev/null
    no_less "$(recall ours.bin)" "$(less "$(recall theirs.bin)" 0.003)" "$1: its codes, walked over here, beam 80"
}

# memory_again: out as it came, unless rows that nothing led to were tied in, which lengthens lists
memory_again() {
    "$vicinal" convert theirs/mem ours/mem.vic >said
    "$vicinal" convert ours/mem.vic ours/mem --to diskann >/dev/null
    for end in .data _metadata.bin; do same "theirs/mem$end" "ours/mem$end"; done
    if grep -q ' 0 tied in' said; then same theirs/mem ours/mem; else cat said; fi
    judge search theirs mem memory queries.fbin 10 80 theirs.bin
    judge search ours mem memory queries.fbin 10 80 ours.bin
    no_less "$(recall ours.bin)" "$(less "$(recall theirs.bin)" $slack)" "$1: its graph in memory, written here"
}

# disk_again METRIC: codes as they came; for l2 the nodes too, whose vectors are otherwise right to the last bit or two; and
# where the codes were not there, others
disk_again() {
    "$vicinal" convert theirs/disk_disk.index ours/kept_disk.index >/dev/null
    for end in _metadata.bin _pq_pivots.bin _pq_compressed.bin; do same "theirs/disk$end" "ours/kept$end"; done
    mkdir bare
    cp theirs/disk_disk.index theirs/disk_metadata.bin bare
    if [ "$1" = l2 ]; then
        same theirs/disk_disk.index ours/kept_disk.index
    else
        same theirs/disk_disk.index_max_base_norm.bin ours/kept_disk.index_max_base_norm.bin
        cp theirs/disk_disk.index_max_base_norm.bin bare
    fi
    "$vicinal" convert bare/disk_disk.index ours/disk_disk.index >/dev/null
    judge search theirs disk disk queries.fbin 10 80 theirs.bin
    for prefix in kept disk; do
        judge search ours $prefix disk queries.fbin 10 80 ours.bin
        # its graphs for inner products leave walks astray (recall .79), where codes as good as its own end elsewhere by chance
        no_less "$(recall ours.bin)" "$(less "$(recall theirs.bin)" 0.01)" "$1: its nodes with codes ($prefix), searched by DiskANN"
    done
}

# our_index METRIC OURS: built here, found by it as we find it
our_index() {
    kind=disk slack=0.02
    [ "$1" != mips ] || slack=0.07 # codes of rows with one coordinate more tell less of inner products
    "$vicinal" build theirs/rows.npy -o ours/built.vic --metric "$2" --graph degree=32,beam=64 >/dev/null
    "$vicinal" convert ours/built.vic ours/built --to diskann >/dev/null
    "$vicinal" convert ours/built.vic ours/built_disk.index >/dev/null
    for beam in 20 80; do
        ask ours/built.vic $beam
        found=$(recall ours.bin) # from several nodes, over rows; it begins at one, and on a disk it walks over codes
        judge search ours built memory queries.fbin 10 $beam theirs.bin
        no_less "$(recall theirs.bin)" "$(less "$found" 0.01)" "$1: our graph, searched by DiskANN in memory, beam $beam"
        [ "$1" != cosine ] || rm -f ours/built_metadata.bin ours/built_disk_metadata.bin
        [ "$1" != cosine ] || kind=disk-l2
        judge search ours built $kind queries.fbin 10 $beam theirs.bin
        no_less "$(recall theirs.bin)" "$(less "$found" $slack)" "$1: our graph, searched by DiskANN on disk, beam $beam"
        [ "$1" != cosine ] || "$vicinal" convert ours/built.vic ours/built --to diskann >/dev/null
    done
}

"$vicinal" convert "$tree/examples/senses/senses_f16.npy" rows.npy --type f32 >/dev/null
for metric in l2 mips cosine; do
    ours=$metric
    [ $metric != mips ] || ours="dot"
    mkdir $metric $metric/theirs $metric/ours
    cd $metric
    judge build ../rows.npy theirs $metric || { tail judge.log; exit 1; }
    mv theirs/queries.fbin .
    "$vicinal" truth theirs/rows.npy queries.fbin -o truth.bin --metric $ours -k 10 >/dev/null
    its_indexes $metric
    memory_again $metric
    [ $metric = cosine ] || disk_again $metric
    our_index $metric $ours
    cd ..
done
echo "DiskANN reads what we write, and we read what it writes"
