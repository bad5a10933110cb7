#!/bin/sh
# Indexes of DiskANN from the command line: what it wrote is named, searched, turned into ours and back.
. test/cli/checks

golden=$tree/test/data/diskann
for file in f f.data f_metadata.bin f_disk.index f_pq_pivots.bin f_pq_compressed.bin u_disk.index \
    ip_disk.index ip_disk.index_max_base_norm.bin ip_metadata.bin ip_pq_pivots.bin ip_pq_compressed.bin; do cp "$golden/$file" .; done

# by their bytes
run info f
out_has 'kind      diskann-graph'
out_has '300 nodes, 0 of them frozen, degree 8, start 106'
run info f_disk.index
out_has 'shape     300 rows x 12'
out_has '48 nodes a sector, degree 8, medoid 106'
out_has 'product   3 bytes a row of 256 values each; pivots of 4 offsets, dim 12, no rotation'
run info ip_disk.index
out_has 'metric    dot'
out_has '3 bytes a row of 256 values each; pivots of 4 offsets, dim 13, one coordinate more and rows divided by 40.7722, no rotation'
run info ip_disk.index --json
out_has '"product":{"pq_chunks":3,"pq_centres":256,"note":"pivots of 4 offsets, dim 13'
mv f_pq_compressed.bin away
run info f_disk.index
out_has 'product   left alone: there is no _pq_compressed.bin beside _pq_pivots.bin'
mv away f_pq_compressed.bin
run info f_pq_pivots.bin
out_has 'kind      diskann-pivots'
run info f_pq_compressed.bin
out_has 'kind      diskann-codes'

# vectors out of each
run convert f_disk.index from-disk.fbin
out_is <<'END'
from-disk.fbin: 300 rows x 12, f32
END
cmp -s from-disk.fbin f.data
verdict $? "the vectors of a disk index are not those it was built from"
prepare convert f from-memory.fbin
same_files from-memory.fbin from-disk.fbin
prepare build f_disk.index -o exact.vic --metric l2
run convert u_disk.index u.u8bin
code_is 1
err_has "i8 or u8 by its nodes"
prepare convert u_disk.index u.u8bin --read-type u8

# indexes into ours, and out again
run convert f f.vic
out_is <<'END'
f.vic: graph index, l2, 300 rows x 12, f32, 8 neighbours a row, 0 tied in
END
prepare check f.vic
run convert f.vic again --to diskann
code_is 0
same_files again f
same_files again.data f.data
same_files again_metadata.bin f_metadata.bin
prepare convert f_disk.index d.vic --metric cosine
run info d.vic
out_has 'metric    cosine'

# searched as they are, at once
prepare search f from-disk.fbin -k 5 -o ours.jsonl
prepare search f.vic from-disk.fbin -k 5 -o saved.jsonl
same_files ours.jsonl saved.jsonl
run check f_disk.index
out_has '300 rows x 12, f32, l2'

# product codes that lie beside come along
prepare search f_disk.index from-disk.fbin -k 5 --codes pq -o coded.jsonl
prepare convert f_disk.index coded.vic
run info coded.vic
out_has '3 bytes a row of 256 values each'
prepare check coded.vic
prepare search coded.vic from-disk.fbin -k 5 --codes pq -o kept.jsonl
same_files coded.jsonl kept.jsonl
prepare convert coded.vic g_disk.index
same_files g_pq_pivots.bin f_pq_pivots.bin
same_files g_pq_compressed.bin f_pq_compressed.bin
run search f from-disk.fbin -k 5 --codes pq
code_is 1

# also those for inner products, which are of other rows
prepare convert ip_disk.index ip.fbin
prepare search ip_disk.index ip.fbin -k 5 --codes pq -o coded.jsonl
prepare convert ip_disk.index ip.vic
run info ip.vic
out_has 'section   pq_max_norm'
prepare check ip.vic
prepare search ip.vic ip.fbin -k 5 --codes pq -o kept.jsonl
same_files coded.jsonl kept.jsonl
prepare convert ip.vic h_disk.index
same_files h_pq_pivots.bin ip_pq_pivots.bin
same_files h_pq_compressed.bin ip_pq_compressed.bin
same_files h_disk.index_max_base_norm.bin ip_disk.index_max_base_norm.bin
same_files h_metadata.bin ip_metadata.bin

# what cannot be
run convert exact.vic flat --to diskann
code_is 1
err_has 'expected an index with a graph'
run convert from-disk.fbin x.vic
code_is 1
err_has "'vicinal build' makes an index of them"
run convert f f.vic --metric nearness
code_is 2
head -c 8191 f_disk.index >cut_disk.index
run search cut_disk.index from-disk.fbin
code_is 1
err_has 'cut_disk.index: expected'
cp f bare
run search bare from-disk.fbin
code_is 1
err_has 'bare.data'
finish
