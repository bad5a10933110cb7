#!/bin/sh
# Ground truth made in parts equals the one made at once, byte for byte, also with ties across parts.
. test/cli/checks

prepare gen duplicates rows.fbin --n 10001 --dim 24 --seed 7 --share 0.5
prepare gen duplicates queries.fbin --n 70 --dim 24 --seed 8
for metric in dot cosine l2; do
    prepare truth rows.fbin queries.fbin -k 100 --metric $metric -o whole.bin
    for part in 1000 99 10000 5001; do
        prepare truth rows.fbin queries.fbin -k 100 --metric $metric --part $part -o parts.bin
        same_files whole.bin parts.bin
    done
    prepare truth rows.fbin queries.fbin -k 100 --metric $metric --budget 64M --threads 1 -o parts.bin
    same_files whole.bin parts.bin
    # fewer rows than k in every part
    prepare truth rows.fbin queries.fbin -k 1500 --metric $metric -o whole.bin
    prepare truth rows.fbin queries.fbin -k 1500 --metric $metric --part 640 -o parts.bin
    same_files whole.bin parts.bin
done

# integer rows with queries of their own type, and with float queries
prepare gen manifold rows.u8bin --n 3000 --dim 20
prepare gen manifold queries.u8bin --n 50 --dim 20 --first 3000
prepare convert queries.u8bin queries.fvecs --type f32
for queries in queries.u8bin queries.fvecs; do
    prepare truth rows.u8bin $queries -k 30 --metric l2 -o whole.bin
    prepare truth rows.u8bin $queries -k 30 --metric l2 --part 7 -o parts.bin
    same_files whole.bin parts.bin
done

# ids alone, in the two other formats, are the same ids
prepare truth rows.u8bin queries.u8bin -k 30 --metric l2 -o ids.ivecs
prepare truth rows.u8bin queries.u8bin -k 30 --metric l2 -o ids.npy
prepare convert ids.ivecs again.npy
same_files ids.npy again.npy

run truth rows.u8bin queries.u8bin -o t.bin
code_is 1
err_is <<'END'
vicinal truth: --metric is needed: rows.u8bin does not say how closeness is measured
END
run truth rows.u8bin rows.fbin --metric l2 -o t.bin
code_is 1
err_is <<'END'
vicinal truth: the rows of rows.u8bin have 20 dimensions and the queries of rows.fbin have 24
END
[ ! -e t.bin ]
verdict $? "a failed command left t.bin"
finish
