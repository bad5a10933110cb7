#!/bin/sh
# gen, convert and info: the same bytes whatever the threads and the way, every format back and forth, files named.
. test/cli/checks

for kind in gauss clusters manifold duplicates; do
    prepare gen $kind one.fbin --n 3000 --dim 37 --seed 5 --threads 1
    prepare gen $kind many.fbin --n 3000 --dim 37 --seed 5 --threads 3
    same_files one.fbin many.fbin
    # rows 1000 and on are the same rows
    prepare gen $kind later.fbin --n 2000 --dim 37 --seed 5 --first 1000
    tail -c $((2000 * 37 * 4)) one.fbin >tail-one
    tail -c $((2000 * 37 * 4)) later.fbin >tail-later
    same_files tail-one tail-later
    prepare gen $kind other.fbin --n 3000 --dim 37 --seed 6
    ! cmp -s one.fbin other.fbin
    verdict $? "two seeds give the same data"
done
run gen clusters c.u8bin --n 10 --dim 4 --clusters 3 --spread 0.5 --seed 2
out_is <<'END'
c.u8bin: 10 rows x 4, u8, clusters, seed 2
END

# vectors: through every format that holds the type, and out of an index, and the same bytes in the end
round_trip() { # FIRST OTHER ...
    first=$1
    shift
    for other; do
        prepare convert "$first" "$other"
        prepare convert "$other" "back-$first"
        same_files "$first" "back-$first"
    done
    prepare build "$first" -o any.vic
    prepare convert any.vic "back-$first"
    same_files "$first" "back-$first"
}
prepare gen gauss a.fbin --n 500 --dim 19 --seed 1
prepare gen gauss a.u8bin --n 500 --dim 19 --seed 1
prepare gen gauss a.i8bin --n 500 --dim 19 --seed 1
prepare gen gauss a.f16bin --n 500 --dim 19 --seed 1
round_trip a.fbin b.fvecs b.npy
round_trip a.u8bin b.bvecs b.npy
round_trip a.i8bin b.npy
round_trip a.f16bin b.npy

# types: whole numbers survive any way round, others are rounded or refused
prepare convert a.u8bin f.fvecs --type f32
prepare convert f.fvecs h.f16bin --type f16
prepare convert h.f16bin u.u8bin --type u8
same_files a.u8bin u.u8bin
run convert a.fbin x.u8bin --type u8
code_is 1
[ ! -e x.u8bin ]
verdict $? "a refused conversion left a file"
cp a.fbin nameless.bin
run convert nameless.bin n.npy
code_is 1
prepare convert nameless.bin n.npy --read-type f32
prepare convert a.fbin a.npy
same_files a.npy n.npy

run info a.fbin
code_is 0
out_is <<'END'
a.fbin
  kind      bin
  size      37.1 KiB (38,008 bytes)
  shape     500 rows x 19
  type      f32
END
# a name is not believed: the bytes are
cp f.fvecs disguised.fbin
run info disguised.fbin
code_is 0
out_has 'fvecs'
run build disguised.fbin -o x.vic
code_is 1
err_has 'fvecs'
run info a.npy --json
out_has '{"file":"a.npy","format":"npy","bytes":38128,"rows":500,"dim":19,"type":"f32"'
head -c 4096 /dev/zero >zeros
run info zeros
code_is 0
out_has 'kind      unknown'
out_has 'note      zeros: expected'
prepare build a.fbin -o a.vic --metadata '{"k": [1, 2]}'
run info a.vic
out_has 'kind      vicinal index (flat), format version 1'
out_has 'shape     500 rows x 19'
out_has 'metadata  {"k": [1, 2]}'
out_has 'section   rows'
run info a.vic --json
out_has '"metadata":{"k":[1,2]}'
out_has '"sections":[{"name":"rows","offset":4096,"bytes":38000}'

# HDF5, where this build reads it: the metric is the file's, rows are "train", queries "test"
hdf5=$tree/test/data/plain.hdf5
run build "$hdf5" -o h.vic
if [ $code -eq 0 ]; then
    out_has 'h.vic: 5 rows x 3, f32, cosine; '
    run search h.vic "$hdf5" -k 1
    [ "$(wc -l <"$scratch/out")" -eq 2 ]
    verdict $? "expected the two queries of the data set test"
    prepare truth "$hdf5" "$hdf5" -k 3 -o h.bin
    out_has '2 queries, 3 neighbours each of 5 rows, cosine; '
    run convert "$hdf5" q.fvecs --dataset test
    out_is <<'END'
q.fvecs: 2 rows x 3, f32
END
    prepare convert "$hdf5" n.ivecs --dataset neighbors
else
    err_has HDF5
fi

# an old index is replaced as a whole, and no other file appears
mkdir new
cd new || exit 1
cp ../a.vic .
prepare build ../b.bvecs -o a.vic
folder_is a.vic
run info a.vic --json
out_has '"type":"u8"'
finish
