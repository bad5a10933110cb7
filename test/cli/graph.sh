#!/bin/sh
# A graph from the command line: built, described, checked, searched at several beams, and refused where it cannot be.
. test/cli/checks

prepare gen manifold rows.fbin --n 6000 --dim 32
prepare gen manifold queries.fbin --n 100 --dim 32 --first 6000
run build rows.fbin -o rows.vic --graph degree=24,beam=40,alpha=1.2
code_is 0
out_has "6,000 rows x 32, f32, cosine, 8-bit codes"
run info rows.vic
out_has "graph     24 neighbours a row"
run info rows.vic --json
out_has '"kind":"graph"'
run check rows.vic
code_is 0
prepare truth rows.fbin queries.fbin -o truth.bin --metric cosine -k 10
for beam in 10 300; do
    prepare search rows.vic queries.fbin --beam $beam -o hits$beam.bin
    run eval hits$beam.bin truth.bin
    code_is 0
    cp "$scratch/out" recall$beam
done
cat recall10 recall300 | grep -o '[01]\.[0-9]*' | head -n 2 | sort -C
verdict $? "a wider beam found less"
run search rows.vic queries.fbin --beam 20 --parents 2 --stats
out_has '"path":"graph"'
out_has '"beam":20'
# over other points than the 8-bit codes
prepare build rows.fbin -o both.vic --graph degree=24,beam=40 --planes 4
for codes in rows 8 4; do
    run search both.vic queries.fbin --beam 40 --codes $codes --stats
    code_is 0
    out_has "\"codes\":\"$codes\""
    prepare search both.vic queries.fbin --beam 300 --codes $codes -o codes.bin
    run eval codes.bin truth.bin
    out_has "recall@10 over 100 queries: 1"
done
run search rows.vic queries.fbin --codes 4
code_is 1
err_has "walked over codes 4, found one for 8, rows"
run search rows.vic queries.fbin --codes 5
code_is 2
# exactly, on the same file
prepare search rows.vic queries.fbin --path scan -o exact.jsonl
prepare build rows.fbin -o flat.vic
prepare search flat.vic queries.fbin -o flat.jsonl
same_files exact.jsonl flat.jsonl
run search flat.vic queries.fbin --path graph
code_is 1
# the same bytes from any number of threads
prepare build rows.fbin -o again.vic --graph degree=24,beam=40 --threads 3
same_files rows.vic again.vic
for wrong in degree degree= degree=x width=3 degree=1.5 degree=-1 degree=8,,beam=9; do
    run build rows.fbin -o no.vic --graph $wrong
    code_is 2
done
run build rows.fbin -o no.vic --graph degree=600
code_is 1
[ ! -e no.vic ]
verdict $? "a refused build left a file"
finish
