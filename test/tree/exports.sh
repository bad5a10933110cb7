#!/bin/sh
# What libvicinal.so shows to the linker: exactly the functions that the public header declares, nothing else.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

nm -D --defined-only "$VICINAL_BIN/libvicinal.so" | sed 's/.* //; s/@.*//' | sort >"$scratch/exported"
sed -n 's/^VIC_API [^(]*[ *]\(vic_[a-z0-9_]*\)(.*$/\1/p' include/vicinal.h | sort >"$scratch/declared"

[ "$(wc -l <"$scratch/declared")" -ge 30 ] || { echo "found only $(wc -l <"$scratch/declared") functions in include/vicinal.h"; exit 1; }
if ! diff "$scratch/declared" "$scratch/exported" >"$scratch/difference"; then
    sed -n 's/^< /declared but not exported: /p; s/^> /exported but not declared: /p' "$scratch/difference"
    exit 1
fi
echo "$(wc -l <"$scratch/declared") functions declared and exported"
