#!/bin/sh
# Recall: truth against itself is exactly 1, hits of equal score count, an id twice or out of range is refused.
. test/cli/checks

# a file of neighbours; distances 0, 1 and 2 stand for the floats of that value
neighbours() { # FILE K "ids" "distances"
    {
        # shellcheck disable=SC2086
        le32 $(($(echo $3 | wc -w) / $2))
        le32 "$2"
        for id in $3; do le32 "$id"; done
        for distance in $4; do
            case $distance in
            0) printf '\000\000\000\000' ;;
            1) printf '\000\000\200\077' ;;
            2) printf '\000\000\000\100' ;;
            esac
        done
    } >"$1"
}
neighbours truth.bin 2 "1 2 3 4" "1 2 1 2"
neighbours swapped.bin 2 "1 7 3 8" "1 2 1 2"
neighbours half.bin 2 "1 7 8 9" "1 0 0 0"
neighbours twice.bin 2 "1 2 3 3" "1 2 1 2"
neighbours beyond.bin 2 "1 2 3 10" "1 2 1 2"

run eval truth.bin truth.bin -k 2 --rows 10
code_is 0
out_is <<'END'
recall@2 over 2 queries: 1
END
run eval swapped.bin truth.bin -k 2 --rows 10 --json
out_is <<'END'
{"k": 2, "queries": 2, "recall": 1}
END
run eval half.bin truth.bin -k 2
out_is <<'END'
recall@2 over 2 queries: 0.25
END
run eval twice.bin truth.bin -k 2 --rows 10
code_is 1
err_has 'query 1'
err_has 'slot 1'
run eval beyond.bin truth.bin -k 2 --rows 10
code_is 1
err_has 'query 1'
err_has 'slot 1'
run eval beyond.bin truth.bin -k 2 --rows 11
code_is 0
run eval truth.bin truth.bin -k 3
code_is 1
err_has 'expected k from 1 to'

# a thousand queries: a search's hits are its truth
prepare gen gauss rows.fbin --n 5000 --dim 24 --seed 4
prepare gen gauss queries.fbin --n 1000 --dim 24 --seed 4 --first 5000
prepare build rows.fbin -o rows.vic --metric dot
prepare truth rows.fbin queries.fbin -k 10 --metric dot -o rows.bin
prepare search rows.vic queries.fbin -k 10 -o hits.bin
same_files rows.bin hits.bin
run eval hits.bin rows.bin -k 10 --rows 5000
out_is <<'END'
recall@10 over 1000 queries: 1
END
finish
