#!/bin/sh
# shellcheck disable=SC2317 # functions are called by name
# What ./dev lint does, from the root, with the folder of a build by clang (for its compile commands). Every check runs,
# whatever the ones before it found; the exit code is 1 when any found something.
set -u
build=$1 fix=${2-} code=0

c_files() { find include src cli test bench examples -name '*.[ch]' "$@"; }
check() { # NAME COMMAND...: what it found, or one line
    name=$1
    shift
    if found=$("$@" 2>&1); then
        printf 'ok      %s\n' "$name"
    else
        printf '%s\nFAILED  %s\n' "$found" "$name"
        code=1
    fi
}

format() { c_files -exec clang-format-14 --dry-run -Werror '{}' +; }
# Not what includes headers of the CUDA toolkit.
tidy() {
    find src cli bench '(' -path src/backend/cuda -o -path bench/gpu ')' -prune -o -name '*.c' -print0 |
        xargs -0 -n 4 -P 2 clang-tidy --config-file=test/clang-tidy.yaml -p "$build" --quiet 2>/dev/null
}
static_checks() {
    cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --suppressions-list=test/cppcheck.txt -j 2 \
        --enable=warning,performance,portability -I include -I src -D__x86_64__ -D__GNUC__ src cli bench
}
shells() { find dev .ci/run test examples cli '(' -name '*.sh' -o -name dev -o -name run ')' -type f -exec shellcheck -x '{}' +; }

[ "$fix" != --fix ] || c_files -exec clang-format-14 -i '{}' +
check clang-format format
check shellcheck shells
check cppcheck static_checks
check clang-tidy tidy
check arrows sh test/tree/arrows.sh
sh test/tree/figures.sh || code=1
exit $code
