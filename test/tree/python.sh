#!/bin/sh
# The Python package's tests, against this build's library, under the oldest and the newest Python from 3.9 on that are here
# (all of them with VICINAL_PYTHONS=all, or the ones that it names), each in an environment of its own under build/. The
# oldest of several gets a NumPy before 2. Needs venv, and an index of packages the first time; where one of these is missing
# it says so and tests nothing. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/../.."
skip() { echo "skipped: $*"; exit 0; }
modules='numpy pytest hypothesis mypy ml_dtypes tqdm pyarrow pandas polars h5py'

# Lines of "minor path", one a version: what is on the PATH by its full name, what pyenv has, and python3 itself.
pythons() {
    for python in $(command -v python3.9 python3.10 python3.11 python3.12 python3.13 python3) "$(pyenv root 2>/dev/null)"/versions/3.*/bin/python; do
        [ -x "$python" ] || continue
        "$python" -c 'import ensurepip, venv, sys; v = sys.version_info; v[0] == 3 and 9 <= v[1] <= 13 and print(v[1], sys.executable)' 2>/dev/null || :
    done | sort -n -k 1,1 -u
}
found=$(pythons)
[ -n "$found" ] || skip "python3 of at least 3.9 with venv is not here (python3-venv on Debian)"
oldest=$(printf '%s\n' "$found" | sed -n '1s/ .*//p')
case ${VICINAL_PYTHONS-} in
'') found=$(printf '%s\n' "$found" | sed -n '1p;$p' | uniq) ;;
all) ;;
*) found=$(printf '%s\n' "$found" | grep -E "^($(printf '%s' "$VICINAL_PYTHONS" | sed 's/3\.//g; s/ /|/g')) ") || skip "no python of $VICINAL_PYTHONS is here" ;;
esac
newest=$(printf '%s\n' "$found" | sed -n '$s/ .*//p')

# Neither the wheel's library nor another build's, and the caches of tools where they do not dirty the tree.
VICINAL_LIBRARY=$(cd "${VICINAL_BIN:-build/release}" && pwd)/libvicinal.so
PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
export VICINAL_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE MYPY_CACHE_DIR HYPOTHESIS_STORAGE_DIRECTORY
failed=0
while read -r minor python; do
    environment=$PWD/build/python-venv-3.$minor
    wanted=$modules
    [ "$minor" != "$oldest" ] || [ "$minor" = "$newest" ] || [ "$minor" -gt 12 ] || wanted="numpy<2 ${modules#numpy }"
    # shellcheck disable=SC2086
    if ! "$environment/bin/python" -c 'import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]' $modules 2>/dev/null; then
        rm -rf "$environment"
        "$python" -m venv "$environment"
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 $wanted ||
            skip "pip cannot reach an index of packages, so $wanted are not here"
    fi
    "$environment/bin/python" -c 'import numpy, sys; print("Python", sys.version.split()[0], "with NumPy", numpy.__version__)'
    MYPY_CACHE_DIR=$environment/mypy HYPOTHESIS_STORAGE_DIRECTORY=$environment/hypothesis
    (cd python && "$environment/bin/python" -m pytest -q -p no:cacheprovider "$@" </dev/null) || failed=1
done <<END
$found
END
exit $failed
