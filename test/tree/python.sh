#!/bin/sh
# The Python package's tests, in an environment of their own under build/, against this build's library. Needs python3 with
# venv, and an index of packages the first time; where one of these is missing it says so and tests nothing.
set -eu
cd "$(dirname "$0")/../.."
skip() { echo "skipped: $*"; exit 0; }
environment=$PWD/build/python-venv
wanted='numpy pytest hypothesis mypy ml_dtypes tqdm pyarrow pandas polars h5py'
modules='numpy, pytest, hypothesis, mypy, ml_dtypes, tqdm, pyarrow, pandas, polars, h5py'

if ! "$environment/bin/python" -c "import $modules" 2>/dev/null; then
    rm -rf "$environment"
    python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
        skip "python3 of at least 3.9 with venv is not here (python3-venv on Debian)"
    python3 -m venv "$environment"
    # shellcheck disable=SC2086
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 $wanted ||
        skip "pip cannot reach an index of packages, so $wanted are not here"
fi

# Neither the wheel's library nor another build's, and the caches of tools where they do not dirty the tree.
VICINAL_LIBRARY=${VICINAL_BIN:-$PWD/build/release}/libvicinal.so
PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR=$environment/mypy
HYPOTHESIS_STORAGE_DIRECTORY=$environment/hypothesis
export VICINAL_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE MYPY_CACHE_DIR HYPOTHESIS_STORAGE_DIRECTORY
cd python
exec "$environment/bin/python" -m pytest -q -p no:cacheprovider "$@"
