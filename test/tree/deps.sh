#!/bin/sh
# INS-03: what is installed needs the C and thread libraries alone, and is small. Also that the library never touches
# standard input, whose symbol CMakeLists.txt gives away so that jansson can be linked in.
set -eu
cd "$(dirname "$0")/../.."

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'; }
allowed='^(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux.*\.so\.[0-9]*|libvicinal\.so\.0)$'

code=0
for file in libvicinal.so vicinal; do
    path=$VICINAL_BIN/$file
    if ! [ -e "$path" ]; then echo "$path is not there" && code=1 && continue; fi
    if needed "$path" | grep -vE "$allowed"; then echo "$file needs what is named above; only the C and thread libraries are allowed" && code=1; fi
    needed "$path" | grep -q '^libc\.so\.6$' || { echo "readelf finds no libc in $file: the check sees nothing" && code=1; }
    bytes=$(wc -c <"$path")
    if [ "$bytes" -ge 4194304 ]; then echo "$file has $bytes bytes; 4 MiB are the limit" && code=1; fi
    echo "$file: $bytes bytes, needs $(needed "$path" | tr '\n' ' ')"
done
if grep -rnw stdin src include; then echo "the library may not use stdin" && code=1; fi
exit $code
