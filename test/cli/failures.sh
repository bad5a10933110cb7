#!/bin/sh
# Files that are not what they should be, and places that cannot be written: one sentence, exit code 1, nothing left.
. test/cli/checks

prepare gen gauss rows.fbin --n 100 --dim 8 --seed 1
prepare gen gauss other.fbin --n 100 --dim 9 --seed 1
prepare build rows.fbin -o rows.vic
head -c 1000 rows.fbin >cut.fbin
echo 'one line of text' >words.txt
printf 'not a number\n' >ids.txt
seq 99 >few.txt
cp rows.vic damaged.vic
printf 'X' | dd of=damaged.vic bs=1 seek=4100 conv=notrunc 2>/dev/null

fails() { # ARGUMENTS SENTENCE
    # shellcheck disable=SC2086
    run $1
    code_is 1
    out_is </dev/null
    printf 'vicinal %s: %s\n' "${1%% *}" "$2" >"$scratch/sentence"
    err_is <"$scratch/sentence"
}

for command in 'info nosuch' 'check nosuch' 'search nosuch rows.fbin' 'build nosuch -o x.vic' 'convert nosuch x.npy' \
    'eval nosuch rows.fbin' 'truth nosuch rows.fbin --metric l2 -o x.bin'; do
    fails "$command" 'cannot open nosuch: No such file or directory'
done
fails 'search rows.fbin rows.fbin' \
    "rows.fbin: expected an index, found bin vectors; 'vicinal build' makes an index of them"
fails 'check words.txt' 'words.txt: expected an index, found text'
fails 'build rows.vic -o x.vic' "rows.vic is an index already; --graph gives it a graph, 'vicinal convert' takes its vectors out"
fails 'build cut.fbin -o x.vic' 'cut.fbin: expected 3208 bytes (its header says 100 rows of dim 8, f32), found 1000 bytes'
fails 'build words.txt -o x.vic' 'words.txt: expected vectors or neighbours, found lines of text'
fails 'build rows.fbin -o x.vic --ids ids.txt' 'ids.txt, line 1: expected one whole number, found "not a number"'
fails 'build rows.fbin -o x.vic --ids few.txt' 'few.txt: expected an id for each of 100 rows, found 99'
fails 'search rows.vic rows.fbin --texts' "rows.vic has no texts; 'vicinal build --texts FILE' keeps them with the rows"
fails 'search rows.vic rows.fbin -o nosuch/hits.json' 'nosuch/hits.json: could not be created: No such file or directory'

says() { # ARGUMENTS PART ...
    # shellcheck disable=SC2086
    run $1
    code_is 1
    shift
    for part; do err_has "$part"; done
}
says 'search rows.vic other.fbin' 'dimension 8' '9'
says 'build rows.fbin -o x.vic --texts words.txt' '100' '1'
says 'build rows.fbin -o x.vic --metadata {' 'metadata: expected a JSON object'
says 'build rows.fbin -o nosuch/x.vic' 'nosuch' 'No such file or directory'
says 'build rows.fbin -o x.vic --type u8' 'expected values that u8 can hold' 'row 0, column 0'
says 'build rows.fbin -o x.vic --budget 1' 'budget' '1 bytes'
says 'build rows.fbin -o x.vic --device quantum' 'quantum'
says 'search rows.vic rows.fbin -o nosuch/hits.bin' 'nosuch' 'No such file or directory'
says 'search rows.vic rows.fbin -k 4 --filter-ids ids.txt' 'ids.txt, line 1'
says 'gen gauss x.fvecs --n 4 --dim 4 --type u8' 'f32' 'u8'
says 'gen gauss x.xyz --n 4 --dim 4' 'x.xyz'
says 'convert rows.fbin x.u8bin --type u8' 'row 0, column 0'
says 'check damaged.vic' 'rows'
says 'eval rows.vic rows.vic' 'rows.vic'

# a full disk behind '>' is a failure, and a closed pipe stops the work without a word
for arguments in 'devices' 'info rows.vic' 'search rows.vic rows.fbin' 'search rows.vic rows.fbin --format table' '--help'; do
    ran="vicinal $arguments >/dev/full"
    # shellcheck disable=SC2086
    "$vicinal" $arguments >/dev/full 2>"$scratch/err"
    code=$?
    : >"$scratch/out"
    code_is 1
    err_has 'standard output could not be written: No space left on device'
done
prepare gen gauss many.fbin --n 20000 --dim 8
ran='vicinal search rows.vic many.fbin | head -c 10'
{
    "$vicinal" search rows.vic many.fbin 2>"$scratch/err"
    echo $? >"$scratch/code"
} | head -c 10 >"$scratch/out"
code=$(cat "$scratch/code")
code_is 1
err_is </dev/null
folder_is cut.fbin damaged.vic few.txt ids.txt many.fbin other.fbin rows.fbin rows.vic words.txt
finish
