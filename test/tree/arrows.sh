#!/bin/sh
# The dependency arrows of docs/map.md, held against every #include of the tree: which folder may see which. The first
# matching row of the table decides. A file of another folder than these may not exist, so a new folder needs a row.
# Then the check is checked: forbidden lines planted in a copy of the tree must be found.
set -eu
cd "$(dirname "$0")/../.."

# FILES (regular expression) | what they may include, relative to the root
arrows='
^include/                   ^$
^src/base/                  ^(src/base/|include/vicinal\.h$)
^src/backend/cpu/           ^(src/backend/cpu/|src/backend/[^/]*\.h$|src/base/|include/vicinal\.h$)
^src/backend/cuda/          ^(src/backend/cuda/|src/backend/[^/]*\.h$|src/base/|include/vicinal\.h$)
^src/backend/[^/]*$         ^(src/backend/[^/]*\.h$|src/base/|include/vicinal\.h$)
^src/data/                  ^(src/data/|src/backend/[^/]*\.h$|src/base/|include/vicinal\.h$)
^src/quant/                 ^(src/(quant|data)/|src/backend/[^/]*\.h$|src/base/|include/vicinal\.h$)
^src/index/                 ^(src/(index|quant|data)/|src/backend/[^/]*\.h$|src/base/|include/vicinal\.h$)
^src/shard/                 ^(src/(shard|index|quant|data)/|src/backend/[^/]*\.h$|src/base/|include/vicinal\.h$)
^src/api\.c$                ^(src/(shard|index|quant|data)/|src/backend/[^/]*\.h$|src/base/|include/vicinal\.h$)
^cli/                       ^(cli/|include/vicinal\.h$)
^server/                    ^(server/|include/vicinal\.h$)
^python/                    ^(python/|include/vicinal\.h$)
^bench/kernels\.c$          ^(src/backend/cpu/kernels\.h$|src/base/|include/vicinal\.h$)
^bench/                     ^(bench/|include/vicinal\.h$)
^examples/                  ^(examples/|include/vicinal\.h$)
^test/                      .
'
# Headers of the system that only some files may see: processor instructions and the GPU stay behind the backends,
# and a format that needs a library stays in its reader.
system='
^(src/(backend/cpu/|base/fpenv\.h$)|bench/kernels\.c$)   ^([a-z0-9]*mmintrin|arm_neon|cpuid)\.h$
^(src/backend/cuda/|test/gpu/|bench/)       ^(cuda|cublas)
^(src/data/|test/)                          ^hdf5
'

check() { # ROOT: prints each forbidden line, fails if there is one
    (cd "$1" && find include src cli server python bench examples test -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null |
        sort | arrows=$arrows system=$system awk '
        function exists(path,    line, there) {
            if (!(path in known)) { there = (getline line < path) >= 0; close(path); known[path] = there }
            return known[path]
        }
        function resolve(folder, path) {
            if (exists(folder "/" path)) return folder "/" path
            if (exists("src/" path)) return "src/" path
            if (exists("include/" path)) return "include/" path
            if (exists("test/" path)) return "test/" path
            return exists(path) ? path : ""
        }
        function complain(file, number, text) { print file ":" number ": " text; bad = 1 }
        function included(file, number, path,    target, i) {
            target = resolve(folder, path)
            if (target == "") return complain(file, number, "includes " path ", which is nowhere in the tree")
            for (i = 1; i <= rows; i++)
                if (file ~ from[i]) {
                    if (target !~ to[i]) complain(file, number, "may not include " target)
                    return
                }
            complain(file, number, "lies in a folder that has no row in test/tree/arrows.sh")
        }
        function included_system(file, number, path,    i) {
            for (i = 1; i <= system_rows; i++)
                if (path ~ header[i] && file !~ user[i]) complain(file, number, "may not include <" path ">")
        }
        BEGIN {
            n = split(ENVIRON["arrows"], line, "\n")
            for (i = 1; i <= n; i++) if (split(line[i], part, " +") >= 2) { from[++rows] = part[1]; to[rows] = part[2] }
            n = split(ENVIRON["system"], line, "\n")
            for (i = 1; i <= n; i++) if (split(line[i], part, " +") >= 2) { user[++system_rows] = part[1]; header[system_rows] = part[2] }
        }
        {
            file = $0; folder = file; sub("/[^/]*$", "", folder); number = 0; files++
            while ((getline text < file) > 0) {
                number++
                if (text !~ /^[ \t]*#[ \t]*include[ \t]/) continue
                path = text
                if (sub(/^[^"<]*"/, "", path)) { sub(/".*/, "", path); included(file, number, path); lines++ }
                else if (sub(/^[^<]*</, "", path)) { sub(/>.*/, "", path); included_system(file, number, path); lines++ }
            }
            close(file)
        }
        END { if (!bad) print files " files, " lines " includes, every arrow points the right way"; exit bad || !files }
    ')
}

check .

# Each of these lines alone must be found.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
while read -r file line; do
    rm -rf "$copy" && mkdir -p "$copy"
    cp -R include src "$copy/"
    mkdir -p "$copy/$(dirname "$file")"
    printf '#include %s\n' "$line" >"$copy/$file"
    if found=$(check "$copy") || [ "${found#"$file:1: "}" = "$found" ]; then
        echo "planted '#include $line' in $file and the check did not see it: $found"
        exit 1
    fi
done <<'END'
src/base/planted.c "data/corpus.h"
src/data/planted.c "index/index.h"
src/data/planted.c "backend/cpu/kernels.h"
src/index/planted.c "backend/cpu/kernels.h"
src/backend/cpu/planted.c "data/corpus.h"
src/backend/planted.c "backend/cpu/kernels.h"
cli/planted.c "base/mem.h"
bench/planted.c "backend/cpu/kernels.h"
server/planted.c "index/index.h"
include/planted.h "base/mem.h"
src/misc/planted.c "vicinal.h"
src/base/planted.c "not-there.h"
src/data/planted.c <immintrin.h>
src/index/planted.c <hdf5.h>
END
