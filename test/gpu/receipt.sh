#!/bin/sh
# Runs every test of the GPU and leaves a receipt: test/gpu/receipt.sh BUILD [RECEIPT.json]
# BUILD holds the test programs and libvicinal_cuda.so. The CPU's own suite is run with the GPU as its device; the small
# shapes are run once more under each checker of compute-sanitizer. SOURCE is the source's hash when there is no git here.
# The last line of the output is the receipt (fields: docs/benchmarks.md).
set -u
build=$(cd "$1" && pwd)
receipt=${2-}
cd "$(dirname "$0")/.." || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

passed=0 failed=0 skipped=0
run() { # NAME COMMAND...: cmocka's counts, added up; a program that ends early counts as a failure
    name=$1
    shift
    began=$(date +%s)
    timeout 280 "$@" >"$scratch/log" 2>&1
    code=$?
    good=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$scratch/log" | head -n 1)
    bad=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$scratch/log" | head -n 1)
    [ $code != 77 ] || { skipped=$((skipped + 1)) && echo "skipped $name: $(tail -n 1 "$scratch/log")" && return; }
    [ $code = 0 ] || [ "${bad:-0}" != 0 ] || bad=1
    passed=$((passed + ${good:-0})) failed=$((failed + ${bad:-0}))
    echo "$name: ${good:-0} passed, ${bad:-0} failed, $(($(date +%s) - began)) s"
    [ "${bad:-0}" = 0 ] || grep -v '^\[ *\(RUN\|OK\)' "$scratch/log" | tail -n 20
}

for program in "$build"/test_gpu_*; do run "gpu/${program##*/test_gpu_}" "$program"; done
VICINAL_TEST_DEVICE=cuda
export VICINAL_TEST_DEVICE
for name in property_search property_batch property_questions cases_selection cases_ties cases_numbers cases_sizes cases_empty \
    cases_filters unit_api_semantics unit_api_index unit_api_memory; do
    [ ! -x "$build/test_$name" ] || run "$name on cuda" "$build/test_$name"
done
unset VICINAL_TEST_DEVICE

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
checks=
for tool in memcheck racecheck initcheck synccheck; do
    began=$(date +%s)
    verdict="not run"
    if [ -x "$sanitizer" ] && [ -z "${NO_SANITIZER-}" ]; then
        VICINAL_TEST_BRIEF=1 timeout 280 "$sanitizer" --tool $tool --error-exitcode 9 "$build/test_gpu_shapes" >"$scratch/log" 2>&1
        code=$?
        verdict="failed ($code)"
        [ $code != 0 ] || ! grep -qE 'SUMMARY: 0 (errors|hazards)' "$scratch/log" || verdict=clean
        [ "$verdict" = clean ] || grep -v '^\[ *\(RUN\|OK\)' "$scratch/log" | head -n 30
    fi
    echo "$tool: $verdict, $(($(date +%s) - began)) s"
    checks="$checks${checks:+, }\"$tool\": \"$verdict\""
done

source=${SOURCE-$(cd .. && git ls-files -s include src cli | sha256sum | cut -c1-16)}
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
line="{\"source\": \"$source\", \"date\": \"$(date +%F)\", \"gpu\": \"$gpu\", \"driver\": \"$driver\", \"passed\": $passed, \"failed\": $failed, \"skipped\": $skipped, \"sanitizer\": {$checks}}"
[ -z "$receipt" ] || printf '%s\n' "$line" >"$receipt"
printf '%s\n' "$line"
[ "$failed" = 0 ]
