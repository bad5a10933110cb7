#!/bin/sh
# The public header alone, twice, under every C and C++ standard from C99 and C++11 on, with all warnings as errors, by
# every compiler that is here; and a C++ program that names an enum, fills a struct and links against the library.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/twice.c" <<'END'
#include "vicinal.h"
#include "vicinal.h"
int use(struct vic_device **device);
int use(struct vic_device **device) { return vic_device_open(NULL, device) == VIC_OK; }
END
cat >"$scratch/program.cpp" <<'END'
#include "vicinal.h"
int main() {
    vic_device_options options = {};
    options.size = sizeof options;
    options.name = "cpu";
    options.threads = 1;
    vic_device *device = nullptr;
    if (vic_device_open(&options, &device) != VIC_OK) return 1;
    vic_device_free(device);
    return vic_status_name(VIC_OK)[0] == 'V' && sizeof(vic_matrix().rows) == 8 ? 0 : 1;
}
END
# Not -Wshadow: in C++ a function may not share a struct's name under it, which is how C's own stat() is declared.
warnings='-Wall -Wextra -Wconversion -Werror -pedantic-errors'

compiled=0
compile() { # COMPILER LANGUAGE STANDARD...
    compiler=$1 language=$2
    shift 2
    command -v "$compiler" >/dev/null 2>&1 || return 0
    for standard; do
        # shellcheck disable=SC2086
        "$compiler" -x "$language" -std="$standard" $warnings -Iinclude -fsyntax-only "$scratch/twice.c"
        compiled=$((compiled + 1))
    done
}
for compiler in gcc clang; do compile $compiler c c99 c11 c17; done
for compiler in g++ clang++; do
    compile $compiler c++ c++11 c++14 c++17 c++20
    command -v "$compiler" >/dev/null 2>&1 || continue
    # shellcheck disable=SC2086
    "$compiler" -std=c++17 $warnings -Iinclude "$scratch/program.cpp" -L"$VICINAL_BIN" -lvicinal -Wl,-rpath,"$VICINAL_BIN" -o "$scratch/program"
    "$scratch/program"
done
if [ $compiled -lt 7 ]; then echo "no C++ compiler is here (g++ or clang++)" && exit 1; fi
echo "compiled $compiled times"
