#!/bin/sh
# Runs the Python package's tests of the GPU and leaves a receipt: test/gpu/python.sh BUILD [RECEIPT.json [RESULTS.jsonl]]
# With RESULTS.jsonl it also measures what a call costs until it is back (bench/gpu/python_enqueue.py).
# BUILD holds libvicinal.so and libvicinal_cuda.so. PYTHON (python3) needs pytest and NumPy; PyTorch, CuPy and JAX are tested
# where they are. SOURCE is the source's hash when there is no git here. The last line of the output is the receipt (fields:
# docs/benchmarks.md). Exit code 77: there is no CUDA device.
set -u
build=$(cd "$1" && pwd) || exit 2
receipt=${2-} results=${3-}
case $receipt in '' | /*) ;; *) receipt=$PWD/$receipt ;; esac
case $results in '' | /*) ;; *) results=$PWD/$results ;; esac
cd "$(dirname "$0")/../.." || exit 2
python=${PYTHON-python3}
VICINAL_LIBRARY=$build/libvicinal.so PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
export VICINAL_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" - <<'END' || exit $?
import sys, vicinal
found = [device for device in vicinal.devices() if device.name.startswith("cuda")]
if not any(device.usable for device in found):
    print("no CUDA device: " + (found[0].sentence if found else "this build knows of none"))
    sys.exit(77)
END

(cd python && timeout 500 "$python" -m pytest -q -rs -p no:cacheprovider --junitxml="$scratch/report.xml" tests/test_cuda.py </dev/null)
code=$?
source=${SOURCE-$(git ls-files -s include src cli python | sha256sum | cut -c1-16)}
"$python" - "$scratch/report.xml" "$source" "$code" <<'END' >"$scratch/receipt"
import datetime, importlib.metadata, json, subprocess, sys
import xml.etree.ElementTree
path, source, code = sys.argv[1:]
try:
    facts = xml.etree.ElementTree.parse(path).getroot().find("testsuite").attrib
    ran, skipped = int(facts["tests"]), int(facts["skipped"])
    failed = int(facts["failures"]) + int(facts["errors"])
except (OSError, xml.etree.ElementTree.ParseError, AttributeError):
    ran = skipped = failed = 0
failed = failed or int(code != "0")  # a run that ended early counts as a failure
versions = {"python": sys.version.split()[0]}
for name in ("numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "jax"):
    try:
        versions[name.split("-")[0]] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
try:
    asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout
except OSError:
    asked = ""
gpu, _, driver = (asked.splitlines() or [""])[0].partition(", ")
print(json.dumps({"source": source, "date": datetime.date.today().isoformat(), "gpu": gpu, "driver": driver, "passed": ran - skipped - failed,
                  "failed": failed, "skipped": skipped, **versions}))
END
if [ -n "$results" ]; then
    timeout 120 "$python" bench/gpu/python_enqueue.py -o "$results" && cat "$results" || code=1
fi
[ -z "$receipt" ] || cp "$scratch/receipt" "$receipt"
cat "$scratch/receipt"
exit $code
