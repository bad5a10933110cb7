#!/bin/sh
# Ctrl-C: long work stops, says so, and leaves nothing half-written; what was there before stays as it was.
. test/cli/checks

# Ctrl-C after so many ms; answers with the program's own exit code.
stopped_after() {
    ms=$1
    shift
    timeout --preserve-status -s INT "$((ms / 1000)).$(printf %03d $((ms % 1000)))" "$vicinal" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
}
# interrupted MS ARGUMENT ...: machines differ, so a Ctrl-C that came too early for the program to know of it (130) or
# after the work was done (0) is tried again later or earlier.
interrupted() {
    ms=$1
    shift
    for _ in 1 2 3 4 5; do
        ran="vicinal $* (Ctrl-C after $ms ms)"
        stopped_after "$ms" "$@"
        case $code in
        0) ms=$((ms / 2)) ;;
        130) ms=$((ms * 3)) ;;
        *) break ;;
        esac
    done
    code_is 1
    out_is </dev/null
    printf 'vicinal %s: stopped before the end; no file was written\n' "$1" >"$scratch/sentence"
    err_is <"$scratch/sentence"
}
prepare gen gauss rows.fbin --n 100000 --dim 64 --seed 1
prepare gen gauss large.u8bin --n 500000 --dim 128 --seed 1
prepare build rows.fbin -o rows.vic
cp rows.vic before.vic

interrupted 200 gen gauss x.u8bin --n 20000000 --dim 128 --threads 1
interrupted 50 build large.u8bin -o rows.vic --type f32
interrupted 1000 build rows.fbin -o rows.vic --graph degree=32,beam=40
interrupted 1000 build rows.vic -o rows.vic --graph degree=32,beam=40
interrupted 100 convert large.u8bin x.fbin --type f32
interrupted 200 truth rows.fbin rows.fbin --metric l2 -k 100 --threads 1 -o x.bin
interrupted 200 search rows.vic rows.fbin -k 100 --threads 1 -o x.json
same_files rows.vic before.vic
rm before.vic
folder_is large.u8bin rows.fbin rows.vic

# The second one kills, in the middle of a call that would take minutes.
for seconds in 0.7 3 10; do
    ran="vicinal bench, Ctrl-C twice after $seconds s"
    : >"$scratch/pid"
    (
        while [ ! -s "$scratch/pid" ]; do sleep 0.05; done
        pid=$(cat "$scratch/pid")
        sleep "$seconds"
        kill -INT "$pid"
        sleep 0.05
        kill -INT "$pid"
    ) 2>/dev/null &
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$1"; shift; exec "$@"' sh "$scratch/pid" "$vicinal" bench --n 500000 --d 16 --batch 1048576 --k 1 \
        --threads 1 >"$scratch/out" 2>"$scratch/err"
    code=$?
    wait
    [ $code -eq 130 ] && break
done
code_is 130
err_is </dev/null
folder_is large.u8bin rows.fbin rows.vic
finish
