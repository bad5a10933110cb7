"""How the package is packed: scikit-build-core's hooks, two of them with a step of our own.

A source distribution holds the C library's sources as `library/`, because in a clone they lie outside this folder. A wheel is
tagged with the oldest glibc that has all the symbols its shared objects ask for (PEP 600, "manylinux"), where they need
nothing but the C library; else it keeps the tag of the machine that built it.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import zipfile

from scikit_build_core.build import *  # noqa: F403 - the hooks that stay as they are
from scikit_build_core.build import build_sdist as _sdist
from scikit_build_core.build import build_wheel as _wheel

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = ("pyproject.toml", "CMakeLists.txt", "README.md", "build_backend.py", "vicinal")
LIBRARY = ("CMakeLists.txt", "LICENSE", "cmake", "include", "src")
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux[-\w]*)\.so\.\d+")


def _copy(names, source, target):
    target.mkdir()
    for name in names:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", ".*"))
        else:
            shutil.copy(source / name, target / name)


def build_sdist(sdist_directory, config_settings=None):
    """Packs a copy of this folder with the library inside it."""
    output, before = os.path.abspath(sdist_directory), os.getcwd()
    unpacked = (HERE / "library").is_dir()
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "vicinal"
        _copy(PACKAGE, HERE, copy)
        _copy(LIBRARY, HERE / "library" if unpacked else HERE.parent, copy / "library")
        settings = copy / "pyproject.toml"
        settings.write_text(settings.read_text(encoding="utf-8").replace('"../include/', '"library/include/'), encoding="utf-8")
        try:
            os.chdir(copy)
            return _sdist(output, config_settings)
        finally:
            os.chdir(before)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds a wheel and says in its tag which systems it runs on."""
    name = _wheel(wheel_directory, config_settings, metadata_directory)
    built = pathlib.Path(wheel_directory) / name
    minor = _glibc_minor(built)
    if minor is None:
        return name
    tagged = built.with_name(name.replace("-linux_", f"-manylinux_2_{minor}_"))
    _retag(built, tagged)
    built.unlink()
    return tagged.name


def _glibc_minor(wheel):
    """The minor version of the glibc 2 that a wheel's shared objects need; None when they need other libraries as well, or
    when it cannot be seen."""
    minor = 0
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for part in archive.namelist():
            if not part.endswith(".so"):
                continue
            try:
                told = subprocess.run(["readelf", "-W", "--dynamic", "--version-info", archive.extract(part, folder)], check=True,
                                      capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
            except (OSError, subprocess.CalledProcessError):
                return None
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", told)
            if not needed or not all(SYSTEM.fullmatch(name) for name in needed):
                return None
            minor = max([minor, *map(int, re.findall(r"\bGLIBC_2\.(\d+)", told))])
    return minor or None


def _retag(source, target):
    """Writes a wheel once more, its tag taken from the new name; one line of its RECORD changes with that."""
    tag = "-".join(target.stem.split("-")[-3:])
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        facts = next(name for name in old.namelist() if name.endswith(".dist-info/WHEEL"))
        said = re.sub(rb"(?m)^Tag: .*$", f"Tag: {tag}".encode(), old.read(facts))
        digest = base64.urlsafe_b64encode(hashlib.sha256(said).digest()).rstrip(b"=").decode()
        for part in old.infolist():
            contents = old.read(part)
            if part.filename == facts:
                contents = said
            elif part.filename.endswith(".dist-info/RECORD"):
                line = f"{facts},sha256={digest},{len(said)}"
                contents = re.sub(rf"(?m)^{re.escape(facts)},.*$", line, contents.decode()).encode()
            new.writestr(part, contents)
