#!/bin/sh
# Product codes from the command line: built with a graph, described, checked, walked over, and refused where they cannot be.
. test/cli/checks

prepare gen manifold rows.fbin --n 6000 --dim 32
prepare gen manifold queries.fbin --n 100 --dim 32 --first 6000
run build rows.fbin -o rows.vic --graph degree=24,beam=40,pq=8
code_is 0
out_has "product codes of 8 bytes a row: mean squared error 0."
run info rows.vic
out_has "product   8 bytes a row of 256 values each"
run info rows.vic --json
out_has '"pq_chunks":8,"pq_centres":256'
prepare check rows.vic
prepare truth rows.fbin queries.fbin -o truth.bin --metric cosine -k 10
run search rows.vic queries.fbin --beam 40 --codes pq --stats
code_is 0
out_has '"codes":"pq"'
prepare search rows.vic queries.fbin --beam 400 --codes pq -o hits.bin
run eval hits.bin truth.bin
out_has "recall@10 over 100 queries: 1"
# the same bytes from any number of threads
prepare build rows.fbin -o again.vic --graph degree=24,beam=40,pq=8 --threads 3
same_files rows.vic again.vic
# refused, naming chunks and dimensions; nothing is left
before=$(find . | LC_ALL=C sort)
run build rows.fbin -o no.vic --graph pq=33
code_is 1
err_has "expected from 1 to 32 chunks for rows of 32 dimensions, found 33 chunks"
for wrong in pq=0 pq=1025 pq=2.5 pq; do
    run build rows.fbin -o no.vic --graph $wrong
    code_is 2
done
prepare build rows.fbin -o plain.vic --graph degree=8
run search plain.vic queries.fbin --codes pq
code_is 1
err_has "walked over codes pq, found one for 8, rows"
rm plain.vic
[ "$before" = "$(find . | LC_ALL=C sort)" ]
verdict $? "a refused build left a file"
# a code that no centre has: found by a check that says where
prepare gen manifold few.fbin --n 20 --dim 4
prepare build few.fbin -o few.vic --graph force=1,pq=2
offset=$("$vicinal" info few.vic --json | sed 's/.*"name":"pq_codes","offset":\([0-9]*\).*/\1/')
printf '\377' | dd of=few.vic bs=1 seek=$((offset + 5)) conv=notrunc 2>/dev/null
run check few.vic
code_is 1
err_has "pq_codes"
run search few.vic few.fbin --codes pq
code_is 0
finish
