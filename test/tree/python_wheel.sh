#!/bin/sh
# The wheel: built from this tree with the C library inside, held against its size and its parts, installed into an
# environment that has nothing else, and asked there what the package's README says. Built without the CUDA object, which
# takes minutes for all generations of GPUs.
set -eu
cd "$(dirname "$0")/../.."
skip() { echo "skipped: $*"; exit 0; }
python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
    skip "python3 of at least 3.9 with venv is not here (python3-venv on Debian)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pip() { environment=$1; shift; "$environment/bin/python" -m pip --disable-pip-version-check --retries 1 --timeout 20 "$@"; }

python3 -m venv "$scratch/builder"
pip "$scratch/builder" install --quiet scikit-build-core || skip "pip cannot reach an index of packages, so scikit-build-core is not here"
PATH="$scratch/builder/bin:$PATH" "$scratch/builder/bin/python" -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation \
    -C cmake.define.CMAKE_CUDA_COMPILER=NOTFOUND -C build-dir="$scratch/build" -w "$scratch" ./python

set -- "$scratch"/*.whl
[ $# = 1 ] || { echo "expected one wheel, found $*"; exit 1; }
bytes=$(wc -c <"$1")
[ "$bytes" -lt 25000000 ] || { echo "the wheel has $bytes bytes, more than 25 MB"; exit 1; }
case $1 in *-py3-none-linux_*.whl) ;; *) echo "expected a wheel for any Python 3, found $1"; exit 1 ;; esac
python3 -m zipfile -l "$1" >"$scratch/parts"
for part in vicinal/__init__.py vicinal/py.typed vicinal/libvicinal.so vicinal/LICENSE vicinal/compat/faiss.py; do
    grep -q "^$part " "$scratch/parts" || { echo "$part is not in the wheel"; exit 1; }
done

python3 -m venv "$scratch/clean"
pip "$scratch/clean" install --quiet "$1"
awk '/^```python$/ { inside = 1; next } /^```/ { inside = 0 } inside' python/README.md >"$scratch/example.py"
cd "$scratch"
unset VICINAL_LIBRARY PYTHONPATH || :
printed=$(env -u HOME "$scratch/clean/bin/python" example.py)
[ "$printed" = "['north-east', 'east'] [0.9805807 0.8320503]" ] || { echo "README's example printed: $printed"; exit 1; }
"$scratch/clean/bin/python" -c 'import vicinal, os, sys
assert os.path.dirname(vicinal._lib.LIB._name) == os.path.dirname(vicinal.__file__), vicinal._lib.LIB._name
assert vicinal.__version__ == __import__("importlib.metadata").metadata.version("vicinal"), vicinal.__version__'
echo "a wheel of $bytes bytes, installed and used"
