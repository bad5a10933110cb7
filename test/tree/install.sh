#!/bin/sh
# Installs the built product into a fresh folder, moves that folder, and builds and runs a program against it with
# pkg-config and with CMake's find_package; the program and the completion must be there as well.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Not "lib" everywhere: Debian's own packages use lib/<triplet>.
cmake --install "$VICINAL_BIN" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/moved here"
prefix="$scratch/moved here"
pc=$(find "$prefix" -name vicinal.pc)
libdir=$(dirname "$(dirname "$pc")")

for file in bin/vicinal include/vicinal.h share/bash-completion/completions/vicinal; do
    [ -f "$prefix/$file" ] || { echo "$file was not installed"; exit 1; }
done

mkdir "$scratch/project"
cat >"$scratch/project/program.c" <<'END'
#include <stdio.h>
#include <vicinal.h>
int main(void) {
    struct vic_device *device = NULL;
    if (vic_device_open(NULL, &device) != VIC_OK) return fprintf(stderr, "%s\n", vic_last_error()), 1;
    vic_device_free(device);
    return puts(vic_version()) < 0;
}
END
cat >"$scratch/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(program LANGUAGES C)
find_package(vicinal 0.1 REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE vicinal::vicinal)
END

version=$("$prefix/bin/vicinal" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+')
expect() { [ "$1" = "$version" ] || { echo "$2 gave '$1', the program says it is '$version'"; exit 1; }; }

export PKG_CONFIG_PATH="$libdir/pkgconfig"
expect "$(pkg-config --modversion vicinal)" pkg-config
# pkg-config escapes the space in the folder's name; eval undoes that.
eval "'${CC:-cc}' '$scratch/project/program.c' -o '$scratch/program' $(pkg-config --cflags --libs vicinal)"
expect "$(LD_LIBRARY_PATH=$libdir "$scratch/program")" "the program built with pkg-config"

cmake -G Ninja -S "$scratch/project" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$scratch/build" >/dev/null
expect "$("$scratch/build/program")" "the program built with find_package"
echo "version $version, installed, moved, found by pkg-config and by CMake"
