#!/bin/sh
# Everything within a score: a row whose score equals the threshold is in, for distances and for similarities.
. test/cli/checks

# rows (i, 0), i = 0 .. 99
# shellcheck disable=SC2046
u8bin rows.u8bin 2 $(seq 0 99 | sed 's/$/ 0/')
u8bin query.u8bin 2 0 0 1 0
prepare build rows.u8bin -o l2.vic --metric l2
prepare build rows.u8bin -o dot.vic --metric dot

run search l2.vic query.u8bin --within 25
code_is 0
out_is <<'END'
{"query":0,"metric":"l2","better":"smaller","hits":[{"id":0,"score":0.0},{"id":1,"score":1.0},{"id":2,"score":4.0},{"id":3,"score":9.0},{"id":4,"score":16.0},{"id":5,"score":25.0}]}
{"query":1,"metric":"l2","better":"smaller","hits":[{"id":1,"score":0.0},{"id":0,"score":1.0},{"id":2,"score":1.0},{"id":3,"score":4.0},{"id":4,"score":9.0},{"id":5,"score":16.0},{"id":6,"score":25.0}]}
END
run search l2.vic query.u8bin --within 24.99
out_lacks '"score":25.0'
run search dot.vic query.u8bin --within 97
out_is <<'END'
{"query":0,"metric":"dot","better":"larger","hits":[]}
{"query":1,"metric":"dot","better":"larger","hits":[{"id":99,"score":99.0},{"id":98,"score":98.0},{"id":97,"score":97.0}]}
END

# more answers than the first guess has room for
run search l2.vic query.u8bin -k 1 --within 100000
code_is 0
[ "$(grep -o '"id"' "$scratch/out" | wc -l)" -eq 200 ]
verdict $? "expected 100 hits for each of two queries"

run search l2.vic query.u8bin --within 25 -o hits.bin
code_is 2
err_is <<'END'
vicinal search: --within gives answers of different lengths: -o needs a name that ends in .json or .jsonl
see: vicinal search --help
END
prepare search l2.vic query.u8bin --within 25 -o hits.jsonl
[ "$(wc -l <hits.jsonl)" -eq 2 ]
verdict $? "expected a line a query"
finish
