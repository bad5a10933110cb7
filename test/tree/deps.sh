#!/bin/sh
# INS-03: what is installed needs the C and thread libraries alone (the CUDA object the driver, too), and is small. Also
# that the library never touches standard input, whose symbol CMakeLists.txt gives away so that jansson can be linked in.
set -eu
cd "$(dirname "$0")/../.."

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'; }
allowed='^(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|ld-linux.*\.so\.[0-9]*'

code=0
check() { # FILE MIB MORE: what it may need beside the C library, as the rest of a regular expression
    path=$VICINAL_BIN/$1
    if needed "$path" | grep -vE "$allowed$3)\$"; then echo "$1 needs what is named above, which it may not" && code=1; fi
    needed "$path" | grep -q '^libc\.so\.6$' || { echo "readelf finds no libc in $1: the check sees nothing" && code=1; }
    bytes=$(wc -c <"$path")
    if [ "$bytes" -ge $(($2 << 20)) ]; then echo "$1 has $bytes bytes; $2 MiB are the limit" && code=1; fi
    echo "$1: $bytes bytes, needs $(needed "$path" | tr '\n' ' ')"
}
check libvicinal.so 4 ''
check vicinal 4 '|libvicinal\.so\.0'
[ ! -e "$VICINAL_BIN/libvicinal_cuda.so" ] || check libvicinal_cuda.so 64 '|libcuda\.so\.1'
if grep -rnw stdin src include; then echo "the library may not use stdin" && code=1; fi
exit $code
