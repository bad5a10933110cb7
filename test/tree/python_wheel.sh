#!/bin/sh
# The package as it is given away: a source distribution, the wheel that is built from it where no clone is, and the wheel
# of this tree. Held against their size, their parts and the systems that their tag promises; installed into an environment
# that has nothing else, and asked there what the package's README says. Built without the CUDA object, which takes minutes
# for all generations of GPUs; where this build has one, it is held against the same promise.
set -eu
cd "$(dirname "$0")/../.."
skip() { echo "skipped: $*"; exit 0; }
fail() { echo "$*"; exit 1; }
python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
    skip "python3 of at least 3.9 with venv is not here (python3-venv on Debian)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pip() { environment=$1; shift; "$environment/bin/python" -m pip --disable-pip-version-check --retries 1 --timeout 20 "$@"; }
unset VICINAL_LIBRARY PYTHONPATH || :

python3 -m venv "$scratch/builder"
pip "$scratch/builder" install --quiet scikit-build-core build || skip "pip cannot reach an index of packages, so scikit-build-core is not here"
PATH="$scratch/builder/bin:$PATH"
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 30 "$scratch/log"; fail "failed: $*"; }; }
quietly python -m build --no-isolation -C cmake.define.CMAKE_CUDA_COMPILER=NOTFOUND -o "$scratch/given" ./python
quietly pip "$scratch/builder" wheel --no-deps --no-build-isolation -C cmake.define.CMAKE_CUDA_COMPILER=NOTFOUND \
    -C build-dir="$scratch/build" -w "$scratch/clone" ./python

set -- "$scratch"/given/*.whl "$scratch"/clone/*.whl
[ $# = 2 ] || fail "expected a wheel of each, found $*"
[ "${1##*/}" = "${2##*/}" ] || fail "the wheels' names differ: ${1##*/} and ${2##*/}"
for wheel; do python3 -m zipfile -l "$wheel" | sed 's/ .*//' | sort >"$wheel.parts"; done
cmp "$1.parts" "$2.parts" || fail "the wheels' parts differ"
for part in vicinal/__init__.py vicinal/py.typed vicinal/libvicinal.so vicinal/LICENSE vicinal/compat/faiss.py; do
    grep -qx "$part" "$1.parts" || fail "$part is not in the wheel"
done
bytes=$(wc -c <"$1")
[ "$bytes" -lt 25000000 ] || fail "the wheel has $bytes bytes, more than 25 MB"

# The tag: py3-none-manylinux_2_NN_ARCH says that glibc 2.NN has every symbol, and that no other library is asked for.
minor=$(expr "${1##*/}" : '.*-py3-none-manylinux_2_\([0-9]*\)_[a-z0-9_]*\.whl$') || fail "expected a wheel for any Python 3 and a glibc, found $1"
mkdir "$scratch/parts"
python3 -m zipfile -e "$1" "$scratch/parts"
grep -qx "Tag: $(expr "${1##*/}" : '.*-\(py3-none-.*\)\.whl$')" "$scratch"/parts/*.dist-info/WHEEL || fail "the wheel's tag is not its name's"
needs=$(objdump -T "$scratch/parts/vicinal/libvicinal.so" | sed -n 's/.*[( ]GLIBC_2\.\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
[ "$needs" = "$minor" ] || fail "the tag says glibc 2.$minor, and 2.$needs is the oldest that has all symbols"
for object in "$scratch/parts/vicinal/libvicinal.so" "${VICINAL_BIN:-build/release}/libvicinal_cuda.so"; do
    [ -e "$object" ] || continue
    others=$(objdump -p "$object" | sed -n 's/^ *NEEDED *//p' | grep -vE '^(lib(c|m|dl|rt|pthread|gcc_s)|ld-linux[-_a-z0-9]*)\.so\.[0-9]+$' || :)
    [ -z "$others" ] || fail "$object needs libraries that a system may not have: $others"
done

python3 -m venv "$scratch/clean"
pip "$scratch/clean" install --quiet "$1"
awk '/^```python$/ { inside = 1; next } /^```/ { inside = 0 } inside' python/README.md >"$scratch/example.py"
cd "$scratch"
printed=$(env -u HOME "$scratch/clean/bin/python" example.py)
[ "$printed" = "['north-east', 'east'] [0.9805807 0.8320503]" ] || fail "README's example printed: $printed"
"$scratch/clean/bin/python" -c 'import vicinal, os, sys
assert os.path.dirname(vicinal._lib.LIB._name) == os.path.dirname(vicinal.__file__), vicinal._lib.LIB._name
assert vicinal.__version__ == __import__("importlib.metadata").metadata.version("vicinal"), vicinal.__version__'
echo "${1##*/} of $bytes bytes, installed and used"
