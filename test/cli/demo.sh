#!/bin/sh
# The demonstration finds what it is known to find, and says so in words, in colour on a terminal and plain elsewhere.
. test/cli/checks

ran='examples/senses/demo.sh'
senses=$tree/examples/senses
sh "$senses/demo.sh" "$VICINAL_BIN" >"$scratch/out" 2>"$scratch/err"
code=$?
code_is 0
out_has 'a device that tells you how hot or cold it is'
out_has '#1130    thermometer: measuring instrument for measuring temperature (noun)'
out_has '10,000 rows x 384 f16, '
out_has ' a query (median of 60)'
out_has '58 of 60 questions have an expected word among the first 10 hits'
out_lacks "$(printf '\033')"
[ "$(grep -c '^  expected: ' "$scratch/out")" -eq 60 ] && [ "$(grep -c '^ .*#[0-9]' "$scratch/out")" -eq 180 ]
verdict $? "expected three hits for each of 60 questions"
[ "$(grep -c 'not among the first ten' "$scratch/out")" -eq 2 ]
verdict $? "expected two questions without an expected word"

# on a terminal, where one can be made
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    ran='examples/senses/demo.sh on a terminal of 70 columns'
    TERM=xterm script -qec "stty cols 70; sh '$senses/demo.sh' '$VICINAL_BIN'" /dev/null >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
    code_is 0
    escape=$(printf '\033')
    out_has "${escape}[1mthermometer${escape}[0m: measuring instrument"
    out_has '…'
    hits=$(sed "s/${escape}\[[0-9;]*m//g" "$scratch/out" | tr -d '\r' | grep '^ .*#[0-9]')
    [ "$(echo "$hits" | sed 's/…/~/' | awk '{ if (length > most) most = length } END { print most }')" -eq 70 ]
    verdict $? "texts are not cut to the terminal's width"
    ran='NO_COLOR=1 examples/senses/demo.sh on a terminal'
    NO_COLOR=1 TERM=xterm script -qec "sh '$senses/demo.sh' '$VICINAL_BIN' 2>/dev/null" /dev/null >"$scratch/out" </dev/null
    out_lacks "${escape}[1m"
fi
# shellcheck disable=SC2119
folder_is
finish
