#!/bin/sh
# INS-01: a machine with no GPU, no driver and no CUDA object beside the library. Everything works on the CPU, asking for
# anything else gives one sentence, and `devices` says what is missing.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -P "$VICINAL_BIN"/libvicinal.so* "$VICINAL_BIN/vicinal" "$scratch/"
cd "$scratch"
LD_LIBRARY_PATH=$scratch
export LD_LIBRARY_PATH
unset VICINAL_CUDA_LIBRARY

./vicinal gen gauss rows.fbin --n 500 --dim 20 >/dev/null
./vicinal build rows.fbin -o rows.vic >/dev/null
./vicinal search rows.vic rows.fbin -k 3 -o hits.ivecs >/dev/null
./vicinal search rows.vic rows.fbin -k 3 --device cpu -o again.ivecs >/dev/null
cmp hits.ivecs again.ivecs

code=0
./vicinal search rows.vic rows.fbin -k 3 --device cuda >out 2>err || code=$?
[ $code = 1 ] || { echo "--device cuda: expected exit code 1, found $code"; exit 1; }
if [ -s out ] || [ "$(wc -l <err)" != 1 ]; then
    echo "--device cuda: expected one sentence on stderr and nothing else, found:" && cat out err && exit 1
fi
./vicinal devices >out
grep -q '^cpu ' out || { echo "devices does not show the CPU:"; cat out; exit 1; }
cat err
