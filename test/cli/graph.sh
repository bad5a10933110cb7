#!/bin/sh
# A graph from the command line: built, described, checked, searched at several beams, and refused where it cannot be.
. test/cli/checks

prepare gen manifold rows.fbin --n 6000 --dim 32
prepare gen manifold queries.fbin --n 100 --dim 32 --first 6000
run build rows.fbin -o rows.vic --graph degree=24,beam=40,alpha=1.1
code_is 0
out_has "6,000 rows x 32, f32, cosine, 8-bit codes, graph; "
run info rows.vic
out_has "graph     24 neighbours a row, 8 entry points; built by vicinal 2, 0 rows tied in, beam=40,alpha=1.1"
run info rows.vic --json
out_has '"kind":"graph"'
run check rows.vic
code_is 0
out_has "6,000 rows are reached from 8 entry points"
# which is built over 8-bit codes and brings them; rows too few for a graph get none against their owner's will
run build rows.fbin -o coded.vic --graph degree=24,beam=40,alpha=1.1 --planes none
out_has "6,000 rows x 32, f32, cosine, 8-bit codes"
same_files rows.vic coded.vic
run info coded.vic
out_has "codes     8-bit"
run build --help
out_has "over 8-bit codes and brings"
prepare gen manifold few.fbin --n 600 --dim 32
run build few.fbin -o few.vic --graph degree=24 --planes none
run info few.vic
out_lacks "codes "
rm coded.vic few.vic
# an index gains the same graph, in a file of its own or in place
prepare build rows.fbin -o gains.vic --planes none
run build gains.vic -o gained.vic --graph degree=24,beam=40
code_is 0
out_has "gained.vic: 6,000 rows x 32, f32, cosine, 8-bit codes, graph; "
same_files rows.vic gained.vic
prepare build gains.vic -o gains.vic --graph degree=24,beam=40
same_files rows.vic gains.vic
run build gains.vic -o gained.vic
code_is 1
err_has "gains.vic is an index already; --graph gives it a graph"
run build gains.vic -o gained.vic --graph degree=8 --metric l2
code_is 2
err_has "an index keeps its ids, texts, metadata, metric and type"
run build gains.vic -o gained.vic --graph degree=8 --budget 1M
code_is 1
err_has "but the budget host_bytes is 1048576 bytes"
same_files rows.vic gained.vic
rm gains.vic gained.vic
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
out_has '"beam":20,"parents":2'
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
# what the line says is what is built; --graph '' means the defaults
built() { # OPTIONS, degree
    prepare build rows.fbin -o form.vic --graph "$1"
    run info form.vic
    out_has "graph     $2 neighbours a row"
    prepare check form.vic
}
built '' 64
built degree=1 1
built beam=8,degree=512 512
built alpha=2,beam=1 64
built force=0,alpha=1,degree=3 3
rm form.vic
prepare gen duplicates copies.fbin --n 6000 --dim 8 --share 0.9
run build copies.fbin -o copies.vic --graph degree=8
out_has "rows that no walk would have reached were tied in by hand"
# few rows are scanned, unless they are to have a graph all the same
prepare gen manifold few.fbin --n 100 --dim 32
run build few.fbin -o few.vic --graph degree=8
code_is 0
out_has "100 rows are too few for a graph; force=1 makes one"
run search few.vic queries.fbin --path graph
code_is 1
err_has "expected an index with a graph for path graph, found a flat one"
run build few.fbin -o few.vic --graph degree=8,force=1
out_lacks "too few"
prepare search few.vic queries.fbin -k 100 --path graph -o walked.jsonl
prepare search few.vic queries.fbin -k 100 --path scan -o scanned.jsonl
same_files walked.jsonl scanned.jsonl
# what a graph cannot answer is answered exactly, and said
run search few.vic queries.fbin --beam 5000 --stats
out_has '"fallback":"beam"'
echo 3 >ids.txt
run search few.vic queries.fbin --filter-ids ids.txt --stats
out_has '"fallback":"filter"'
# whole numbers, ids and texts go along
prepare gen manifold bytes.u8bin --n 5000 --dim 8
prepare convert queries.fbin text.npy
awk 'BEGIN { for (i = 0; i < 5000; i++) print 7 * i }' >ids.txt
awk 'BEGIN { for (i = 0; i < 5000; i++) print "row " i }' >texts.txt
prepare build bytes.u8bin -o bytes.vic --metric l2 --graph degree=12 --ids ids.txt --texts texts.txt
prepare check bytes.vic
run search bytes.vic bytes.u8bin -k 1 --beam 32 --texts
out_has '{"query":100,"metric":"l2","better":"smaller","hits":[{"id":700,"score":0.0,"text":"row 100"}]}'
rm text.npy
# refused, with both numbers; nothing is left
before=$(find . | LC_ALL=C sort)
run build rows.fbin -o no.vic --graph degree=64 --budget 4M
code_is 1
err_has "but the budget host_bytes is 4194304 bytes"
for wrong in degree width=3 degree=600 beam=0 alpha=3; do
    run build rows.fbin -o no.vic --graph $wrong
    code_is 2
done
[ "$before" = "$(find . | LC_ALL=C sort)" ]
verdict $? "a refused build left a file"
# a slot that names no row: found by a check that says where, searched within bounds
offset=$("$vicinal" info few.vic --json | sed 's/.*"name":"graph","offset":\([0-9]*\).*/\1/')
cp few.vic broken.vic
printf '\377\377\377\177' | dd of=broken.vic bs=1 seek=$((offset + 4)) conv=notrunc 2>/dev/null
run check broken.vic
code_is 1
err_has "graph"
run search broken.vic queries.fbin --path graph
code_is 0
finish
