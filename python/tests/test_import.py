"""Importing: anywhere, before or after anything, with the library found or its absence explained."""
import ast
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT, run_python
from vicinal import _lib

FIVE_LINES = """
import numpy as np, vicinal
rows = np.random.default_rng(3).standard_normal((300, 40), np.float32)
hits = vicinal.build(rows, device="cpu").search(rows[:7], 5)
print(hits.ids.tolist(), hits.scores.tobytes().hex())
"""


def test_INS_01_without_gpu_driver_or_home(tmp_path):
    plain = run_python(FIVE_LINES)
    nothing = run_python(FIVE_LINES, HOME=str(tmp_path / "none"), CUDA_VISIBLE_DEVICES="", VICINAL_CUDA_LIBRARY=str(tmp_path / "none.so"),
                         PYTHONDONTWRITEBYTECODE="1")
    assert nothing == plain and os.listdir(tmp_path) == []
    said = run_python("import vicinal\ntry:\n  vicinal.build([[1.0]], device='cuda')\nexcept vicinal.UnavailableError as e: print(e)",
                      CUDA_VISIBLE_DEVICES="", VICINAL_CUDA_LIBRARY=str(tmp_path / "none.so"))
    assert "CUDA" in said and "expected" in said


@pytest.mark.parametrize("first", ["import numpy", "import vicinal, numpy", "import vicinal; import torch", "import torch",
                                   "import numpy; (numpy.ones((400, 400)) @ numpy.ones((400, 400)))",
                                   "import threading, numpy as np; t = threading.Thread(target=lambda: [np.ones((300, 300)) @ np.ones((300, 300)) "
                                   "for _ in range(50)]); t.start()"])
def test_PYT_05_the_same_bytes_whatever_was_imported_before(first):
    if "torch" in first:
        pytest.importorskip("torch")
    assert run_python(first + FIVE_LINES) == run_python(FIVE_LINES)


def test_the_library_that_the_environment_names_is_taken_or_refused(tmp_path):
    path = _lib.LIB._name
    assert run_python("import vicinal; print(vicinal._lib.LIB._name)", VICINAL_LIBRARY=path).strip() == path
    wrong = {str(tmp_path / "none.so"): "VICINAL_LIBRARY", "libc.so.6": "without a function"}
    for value, sentence in wrong.items():
        done = subprocess.run([sys.executable, "-c", "import vicinal"], capture_output=True, text=True,
                              env={**os.environ, "VICINAL_LIBRARY": value, "PYTHONPATH": str(ROOT / "python")})
        assert done.returncode == 1 and "ImportError" in done.stderr and sentence in done.stderr


def test_the_sources_are_python_3_9():
    files = list((ROOT / "python" / "vicinal").rglob("*.py"))
    assert len(files) > 10
    for file in files:
        ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_only_numpy_is_imported():
    loaded = run_python("import sys, vicinal; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    if sys.version_info < (3, 10):
        pytest.skip("this Python does not name the modules that it comes with")
    known = set(sys.stdlib_module_names) | {"numpy", "vicinal", "__main__"}
    assert not {name for name in loaded if name not in known and not name.startswith(("_", "site", "distutils"))} - {"sitecustomize", "usercustomize"}


def test_the_package_type_checks_strictly():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "vicinal"], cwd=ROOT / "python", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_typed_program_checks(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text("import numpy as np, vicinal\nindex: vicinal.Index = vicinal.build(np.eye(3, dtype=np.float32))\n"
                       "ids, scores = index.search([1.0, 0, 0], k=2)\nn: int = len(index)\nrecall: float = vicinal.recall(ids, ids)\n"
                       "with vicinal.open('x.vic') as other:\n    text: str = other.text(3)\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", str(program)], capture_output=True, text=True,
                          env={**os.environ, "MYPYPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stdout


def test_every_public_name_is_documented():
    import vicinal
    for name in vicinal.__all__:
        thing = getattr(vicinal, name)
        assert thing.__doc__ and not thing.__doc__.startswith(f"{name}("), name
        if isinstance(thing, type) and thing.__module__.endswith(("_index", "_device", "_hits")):
            for member, value in vars(thing).items():
                documented = not member.startswith("_") and (callable(value) or isinstance(value, property))
                if documented and thing.__name__ not in ("Memory", "Stats", "DeviceInfo"):
                    assert value.__doc__, f"{name}.{member}"
    assert pathlib.Path(vicinal.__file__).with_name("py.typed").exists()
