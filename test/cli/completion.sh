#!/bin/sh
# Completion in bash knows the commands, their options and the words that an option takes.
. test/cli/checks

if ! command -v bash >/dev/null; then
    echo "no bash here"
    exit 0
fi
completes() { # WANTED WORD ...: completing the last word
    wanted=$1
    shift
    ran="completion of '$*'"
    # shellcheck disable=SC2016
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _vicinal "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$tree/cli/completion.bash" "$vicinal" "$@" >"$scratch/out" 2>"$scratch/err"
    code=$?
    [ "$(sort "$scratch/out" | tr '\n' ' ')" = "$(echo "$wanted" | tr ' ' '\n' | sort | tr '\n' ' ')" ]
    verdict $? "expected '$wanted'"
}
completes 'build bench' b
completes 'build search truth eval info check convert gen bench devices help --help --version' ''
completes 'search' help se
completes '--metric --metadata' build rows.fbin --me
completes 'dot cosine l2' build rows.fbin --metric ''
completes 'f32 f16' gen gauss x --type f
completes 'auto scan select certified graph' search a b --path ''
completes 'manifold' gen m
touch rows.fbin rows.fvecs
completes 'rows.fbin rows.fvecs' build ro
completes 'rows.fbin rows.fvecs' build x -o ro
finish
