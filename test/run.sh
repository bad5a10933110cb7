# shellcheck shell=sh disable=SC2154
# The test run: a list of steps, each counted, none stopping the others. Read by ./dev, whose helpers it uses; started
# from the root. ctest's own counts are added up; a build, a fuzz target or any other command counts as one test.

passed=0 failed=0 skipped=0
report() { # NAME SECONDS PASSED FAILED LOG
    passed=$((passed + $3)) failed=$((failed + $4))
    if [ "$4" = 0 ]; then
        printf 'ok      %-28s %4d s   %d passed\n' "$1" "$2" "$3"
    else
        tail -n 60 "$5"
        printf 'FAILED  %-28s %4d s   %d passed, %d failed; all of it is in %s\n' "$1" "$2" "$3" "$4" "$5"
    fi
}

summary() { # the last line
    echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
    [ "$failed" = 0 ]
}

# Runs a command as one test, or, when it is a ctest run, as many as ctest counts. Never stops the script.
step() { # NAME COMMAND...
    name=$1 log=build/log/$(echo "$1" | tr ' /' '--').log start=$(date +%s) code=0
    shift
    "$@" >"$log" 2>&1 </dev/null || code=$?
    good=0 bad=1
    [ "$code" != 0 ] || good=1 bad=0
    counts=$(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests* failed out of \([0-9]*\)$/\1 \2/p' "$log" | tail -n 1)
    if [ -n "$counts" ]; then
        absent=$(grep -c '(Skipped)$' "$log" || :) # ctest counts these as passed
        bad=${counts% *} good=$((${counts#* } - ${counts% *} - absent)) skipped=$((skipped + absent))
        [ "$code" = 0 ] || [ "$bad" != 0 ] || bad=1
    fi
    report "$name" $(($(date +%s) - start)) "$good" "$bad" "$log"
}

suite() { # PRESET CTEST-ARGUMENTS...: build, then ctest
    suite=$1
    shift
    step "$suite build" build "$suite"
    step "$suite tests" ctest --test-dir "build/$suite" -j 2 --output-on-failure --no-tests=error "$@"
}

fuzz() { # SECONDS [TARGET...]: two at a time, each target one test
    seconds=$1
    shift
    mkdir -p build/fuzz/found
    # shellcheck disable=SC2046
    [ $# -gt 0 ] || set -- $(names test/fuzz)
    # The variables are the inner shell's.
    # shellcheck disable=SC2016
    printf '%s\n' "$@" | xargs -P 2 -I '{}' sh -c '
        mkdir -p "build/fuzz/corpus/$1" "test/fuzz/seeds/$1"
        export ASAN_OPTIONS=allocator_may_return_null=1
        if "build/fuzz/fuzz_$1" -max_total_time="$2" -timeout=20 -rss_limit_mb=2560 -artifact_prefix="build/fuzz/found/$1-" \
            "build/fuzz/corpus/$1" "test/fuzz/seeds/$1" >"build/log/fuzz-$1.log" 2>&1 </dev/null; then echo 0; else echo 1; fi >"build/fuzz/$1.result"
    ' sh '{}' "$seconds"
    for target; do
        bad=$(cat "build/fuzz/$target.result")
        report "fuzz $target" "$seconds" $((1 - bad)) "$bad" "build/log/fuzz-$target.log"
    done
}

# With many bits of address randomisation an older ThreadSanitizer cannot place its shadow; without is always right.
without_randomisation() { if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi; }

run_test() {
    quick=0
    for argument; do
        case $argument in --quick) quick=1 ;; *) die "unknown argument '$argument'; see ./dev test --help" ;; esac
    done
    need build test clang
    if [ $quick = 1 ]; then
        suite release -LE slow
    else
        suite release
        suite clang -L 'unit|property|golden'
        export ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
        suite asan -LE tree
        step "tsan build" build tsan --target thread_tests
        step "tsan tests" without_randomisation ctest --test-dir build/tsan -j 2 --output-on-failure --no-tests=error -L thread
        step "fuzz build" build fuzz --target fuzzers
        fuzz 30
    fi
    summary
}
