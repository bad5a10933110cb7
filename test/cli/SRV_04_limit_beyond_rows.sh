#!/bin/sh
# A limit of 300,000 on ten rows gives ten hits, in every form, and no trace of the slots that stay unused.
. test/cli/checks

u8bin rows.u8bin 2 0 0 1 0 2 0 3 0 4 0 5 0 6 0 7 0 8 0 9 0
u8bin query.u8bin 2 0 0
seq 0 9 | sed 's/^/row /' >texts.txt
prepare build rows.u8bin -o rows.vic --metric l2 --texts texts.txt

run search rows.vic query.u8bin -k 300000 --texts
code_is 0
out_is <<'END'
{"query":0,"metric":"l2","better":"smaller","hits":[{"id":0,"score":0.0,"text":"row 0"},{"id":1,"score":1.0,"text":"row 1"},{"id":2,"score":4.0,"text":"row 2"},{"id":3,"score":9.0,"text":"row 3"},{"id":4,"score":16.0,"text":"row 4"},{"id":5,"score":25.0,"text":"row 5"},{"id":6,"score":36.0,"text":"row 6"},{"id":7,"score":49.0,"text":"row 7"},{"id":8,"score":64.0,"text":"row 8"},{"id":9,"score":81.0,"text":"row 9"}]}
END

run search rows.vic query.u8bin -k 300000 --texts --format table
code_is 0
out_is <<'END'
scores: squared l2 distance, smaller is better

query 0
     0.00000  #0       row 0
     1.00000  #1       row 1
     4.00000  #2       row 2
     9.00000  #3       row 3
     16.0000  #4       row 4
     25.0000  #5       row 5
     36.0000  #6       row 6
     49.0000  #7       row 7
     64.0000  #8       row 8
     81.0000  #9       row 9
END

# a file of neighbours has ten columns, none of them empty
prepare search rows.vic query.u8bin -k 300000 -o hits.bin
prepare truth rows.u8bin query.u8bin -k 300000 --metric l2 -o truth.bin
same_files hits.bin truth.bin
run info hits.bin --json
out_has '"rows":1,"dim":10'

# a filter leaves three: three hits, nothing else
seq 3 5 >few.txt
run search rows.vic query.u8bin -k 300000 --filter-ids few.txt
out_is <<'END'
{"query":0,"metric":"l2","better":"smaller","hits":[{"id":3,"score":9.0},{"id":4,"score":16.0},{"id":5,"score":25.0}]}
END

# as much as fits into 64 bits
run search rows.vic query.u8bin -k 4611686018427387904 --filter-ids few.txt
code_is 0
out_has '{"id":5,"score":25.0}]}'
finish
