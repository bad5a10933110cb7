#!/bin/sh
# devices --calibrate: measures, keeps one small file, and nothing else does; a file that is wrong in any way is as none, and
# answers have the same bytes with all of them.
. test/cli/checks

XDG_CACHE_HOME=$scratch/work/cache
export XDG_CACHE_HOME
file=cache/vicinal/calibration.json

prepare gen clusters rows.fbin --n 3000 --dim 64 --seed 1
prepare gen clusters queries.fbin --n 20 --dim 64 --seed 1 --first 3000
prepare build rows.fbin -o rows.vic --planes both
prepare search rows.vic queries.fbin -k 10 -o right.bin
run devices
code_is 0
folder_is queries.fbin right.bin rows.fbin rows.vic

# it makes the folder, and the file alone in it
run devices --calibrate
code_is 0
err_is </dev/null
out_has 'GB/s of rows'
out_has 'times a row that streams by'
folder_is cache cache/vicinal $file queries.fbin right.bin rows.fbin rows.vic
run devices --calibrate --json
code_is 0
out_has '"rescore_cost"'
cp $file good.json

# answers with a file of every kind
same_answer() { # WHAT
    run search rows.vic queries.fbin -k 10 -o hits.bin
    code_is 0
    err_is </dev/null
    same_files hits.bin right.bin
    run devices
    code_is 0
    err_is </dev/null
}
same_answer
for text in '' '{' '[]' 'null' '{}' '{"vicinal_calibration": 1}' '{"vicinal_calibration": 99, "model": 1}'; do
    printf '%s' "$text" >$file
    same_answer
    [ "$(cat $file)" = "$text" ]
    verdict $? "a search wrote the file"
done
for number in -1 0 1e300 1e-300 '"2"' null '[]'; do
    sed "s/\"rescore_cost\": [0-9.e+]*/\"rescore_cost\": $number/" good.json >$file
    ! cmp -s $file good.json
    verdict $? "the file was not changed"
    same_answer
done
head -c 100000 /dev/zero >$file
same_answer
rm $file
mkfifo $file
same_answer
rm $file
mkdir $file
same_answer
run devices --calibrate
code_is 1
err_has 'calibration.json'
rm -r cache
: >cache
same_answer
run devices --calibrate
code_is 1
err_has 'expected to make the folder'
rm cache

# no home, no cache: nothing to read, and a sentence when there is something to keep
unset XDG_CACHE_HOME HOME
same_answer
run devices --calibrate
code_is 1
err_has 'HOME'
XDG_CACHE_HOME=relative
export XDG_CACHE_HOME
run devices --calibrate
code_is 1
[ ! -e relative ]
verdict $? "a relative folder was taken"
finish
