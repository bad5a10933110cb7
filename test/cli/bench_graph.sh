#!/bin/sh
# bench --graph: a line a beam, each checked before it is timed; recall that does not fall as the beam grows; what does not fit
# together is named.
. test/cli/checks

prepare gen manifold rows.fbin --n 6000 --dim 32
prepare gen manifold queries.fbin --n 60 --dim 32 --first 6000
prepare truth rows.fbin queries.fbin -o truth.bin --metric l2 -k 20
awk 'BEGIN { for (i = 0; i < 6000; i++) print 3 * i + 5 }' >ids.txt
prepare build rows.fbin -o rows.vic --metric l2 --planes 4 --graph degree=16,beam=30
for codes in auto rows 8 4; do
    run bench --graph rows.vic queries.fbin truth.bin --beam 10,20,40,80,160,320 --codes $codes --trials 3 --threads 2
    code_is 0
    [ "$(wc -l <"$scratch/out")" -eq 6 ]
    verdict $? "expected a line a beam"
    grep -o '"recall":[0-9.]*' "$scratch/out" | cut -d: -f2 | sort -g -C
    verdict $? "recall falls as the beam grows"
    grep -o '"hops":[0-9.]*' "$scratch/out" | cut -d: -f2 | sort -g -C
    verdict $? "hops fall as the beam grows"
    tail -n 1 "$scratch/out" | grep -q '"recall":1.0,'
    verdict $? "a beam of 320 of 6,000 rows misses some"
    [ $codes = auto ] && codes=8
    out_has "\"codes\":\"$codes\",\"parents\":1,"
done
for field in '"record":"graph"' '"system":"vicinal"' '"rows":6000' '"dim":32' '"metric":"l2"' '"dtype":"f32"' '"device":"cpu"' \
    '"threads":2' '"degree":16' '"k":10' '"batch":60' '"beam":320' '"qps":' '"best_qps":' '"one_p50_us":' '"distances":' \
    '"bytes":' '"verified":true'; do
    out_has "$field"
done
run bench --graph rows.vic queries.fbin truth.bin --beam 5 -k 20 --parents 3 --trials 1
code_is 0
out_has '"k":20'
out_has '"parents":3'

# ids of the rows' own are in range, and ids that are not are refused before anything is timed
prepare build rows.fbin -o ids.vic --metric l2 --ids ids.txt --graph degree=16,beam=30
prepare search ids.vic queries.fbin -k 10 --path scan -o own.bin
run bench --graph ids.vic queries.fbin own.bin --beam 300 --trials 1
code_is 0
out_has '"recall":1.0,'

# what does not fit together
run bench --graph rows.vic queries.fbin truth.bin -k 21
code_is 1
err_has "truth.bin: expected 21 and more neighbours of 60 queries, found 20 of 60"
run bench --graph rows.vic rows.fbin truth.bin
code_is 1
err_has "truth.bin: expected 10 and more neighbours of 6,000 queries, found 20 of 60"
prepare gen gauss other.fbin --n 3 --dim 4
run bench --graph rows.vic other.fbin truth.bin
code_is 1
err_has "other.fbin: expected queries of 32 dimensions, found 3 of 4"
prepare build rows.fbin -o flat.vic
run bench --graph flat.vic queries.fbin truth.bin
code_is 1
err_has "expected an index with a graph for path graph, found a flat one"
for wrong in 0 '10,' ',10' x 10,x 2049 1.5 -3 ''; do
    run bench --graph rows.vic queries.fbin truth.bin --beam "$wrong"
    code_is 2
    err_has "whole numbers from 1 to 2048 with commas between, found \"$wrong\""
done
run bench --graph rows.vic
code_is 2
err_has "QUERIES and TRUTH go with --graph INDEX, and it with them"
run bench queries.fbin truth.bin
code_is 2
run bench --graph rows.vic queries.fbin
code_is 2
err_has "expected [QUERIES TRUTH], found only 1 of 2"
finish
