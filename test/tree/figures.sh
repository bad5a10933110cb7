#!/bin/sh
# The size figures of the tree, printed, and held against the budgets of docs/map.md. Lines are counted as they stand,
# with comments and blanks. A function is counted from the first line of its signature to its closing brace, which
# clang-format puts into the first column; include guards are no macros.
set -eu
cd "$(dirname "$0")/../.."

code() { find "$@" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort; }
lines() { xargs -d '\n' cat </dev/stdin | wc -l; }

lengths() { # file names in, "LINES NAME" out
    while read -r file; do printf '%d %s\n' "$(wc -l <"$file")" "$file"; done
}
# shellcheck disable=SC2016
functions() { # file names in, "LINES FILE:LINE" out
    xargs -d '\n' awk '
        FNR == 1 { start = inside = 0 }
        inside { if ($0 ~ /^}/) { print FNR - start + 1, FILENAME ":" start; inside = start = 0 } next }
        /^[A-Za-z_]/ && !/^(struct|enum|union|typedef)[^(]*$/ && /\(|^[A-Za-z_ *]+$/ { start = FNR }
        start && /;$/ { start = 0 }
        start && /\{.*\}$/ { print FNR - start + 1, FILENAME ":" start; start = 0 }
        start && /= *\{$/ { start = 0 }
        start && /\{$/ { inside = 1 }
    '
}
share() { sort -n | awk -v share="$1" '{ value[NR] = $0 } END { i = int(NR * share); if (i < NR * share) i++; print value[i < 1 ? 1 : i] }'; }

bad=0
figure() { # NAME VALUE BUDGET MORE|LESS WHERE
    verdict=ok
    case $4 in
    most) awk "BEGIN { exit !($2 > $3) }" && verdict=OVER ;;
    least) awk "BEGIN { exit !($2 < $3) }" && verdict=UNDER ;;
    esac
    [ $verdict = ok ] || bad=1
    printf '%-7s %-34s %8s   (at %s %s)  %s\n' "$verdict" "$1" "$2" "$4" "$3" "${5-}"
}

all=$(code include src cli bench test examples)
product=$(code include src cli)
file_lengths=$(printf '%s\n' "$all" | lengths)
function_lengths=$(printf '%s\n' "$all" | functions)
longest=$(printf '%s\n' "$file_lengths" | share 1)
long_function=$(printf '%s\n' "$function_lengths" | share 1)
product_lengths=$(printf '%s\n' "$product" | lengths)
product_lines=$(printf '%s\n' "$product" | lines)
library_lines=$(code include src | lines)
test_lines=$(find test -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' \) | lines)
guards=$(printf '%s\n' "$product" | grep -c '\.c\{0,1\}u\{0,1\}h$' || :)
macros=$(printf '%s\n' "$product" | xargs -d '\n' grep -hE '^ *# *define ' | wc -l)

figure "longest file, lines" "${longest%% *}" 700 most "${longest#* }"
figure "median file, lines" "$(printf '%s\n' "$product_lengths" | share 0.5 | cut -d' ' -f1)" 180 most
figure "90th percentile file, lines" "$(printf '%s\n' "$product_lengths" | share 0.9 | cut -d' ' -f1)" 450 most
figure "longest function, lines" "${long_function%% *}" 90 most "${long_function#* }"
figure "90th percentile function, lines" "$(printf '%s\n' "$function_lengths" | share 0.9 | cut -d' ' -f1)" 45 most \
    "$(printf '%s\n' "$function_lengths" | wc -l) functions"
figure "macros per 1,000 lines" "$(awk "BEGIN { printf \"%.1f\", ($macros - $guards) * 1000 / $product_lines }")" 8 most
figure "test lines per library line" "$(awk "BEGIN { printf \"%.2f\", $test_lines / $library_lines }")" 0.8 least \
    "$test_lines to $library_lines"
figure "entries at the root" "$(find . -mindepth 1 -maxdepth 1 ! -name '.*' ! -name 'build*' | wc -l)" 16 most
# The words are put together here so that this file does not hold them.
left=$(grep -rnIE --exclude='*.txt' "\b(TO""DO|FIX""ME|XX""X|HA""CK)\b|^ *# *if 0" include src cli bench test examples cmake docs dev ./*.md 2>/dev/null || :)
[ -z "$left" ] || printf '%s\n' "$left"
figure "things left to do, dead code" "$(printf '%s' "$left" | grep -c . || :)" 0 most
exit $bad
