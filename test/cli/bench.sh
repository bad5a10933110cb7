#!/bin/sh
# bench: compared with its reference for every type and metric, then timed; one JSON line with the fields of a record.
. test/cli/checks

for type in f32 f16 bf16 i8 u8; do
    for metric in dot cosine l2; do
        run bench --n 700 --d 131 --k 20 --trials 3 --warmup 1 --type $type --metric $metric --json --threads 2
        code_is 0
        out_has '"verified":true'
        out_has "\"metric\":\"$metric\",\"dtype\":\"$type\""
    done
done
for field in '"record":"exact"' '"system":"vicinal"' '"rows":700' '"dim":131' '"k":20' '"batch":1' '"device":"cpu"' \
    '"path":' '"p50_us":' '"p90_us":' '"p99_us":' '"p999_us":' '"max_us":' '"repeats":3' '"qps":' '"gbps":' \
    '"plain_read_gbps":' '"share_of_plain_read":'; do
    out_has "$field"
done
[ "$(wc -l <"$scratch/out")" -eq 1 ]
verdict $? "expected one line"

run bench --n 700 --d 20 --k 1000 --trials 5 --batch 70
code_is 0
out_has '700 rows x 20 f32, cosine, k 700, 70 queries a search, cpu ('
out_has 'ids and scores of 3 queries equal the reference'
out_has 'of a plain read'

# codes are held to the same reference
for planes in none 8 4 both; do
    run bench --n 3000 --d 64 --trials 3 --planes $planes --json
    code_is 0
    out_has '"verified":true'
done

# real data, with ids, and vectors so small and so large that cosine scales them first
prepare gen gauss rows.fbin --n 4000 --dim 24 --norm-sigma 10
seq 5 3 12002 >ids.txt
prepare build rows.fbin -o rows.vic --ids ids.txt
run bench --index rows.vic --queries rows.fbin --trials 3 --json
code_is 0
out_has '"rows":4000,"dim":24'
# the same data with integer queries, and more of them than there are
u8bin rows.u8bin 3 1 2 3 4 5 6 250 255 9 0 0 0
prepare build rows.u8bin -o rows.vic
run bench --index rows.vic --queries rows.u8bin --trials 3 --batch 9 --k 4
code_is 0

prepare gen gauss other.fbin --n 3 --dim 4
run bench --index rows.vic --queries other.fbin
code_is 1
err_is <<'END'
vicinal bench: other.fbin: expected queries of 3 dimensions, found 3 of 4
END
finish
