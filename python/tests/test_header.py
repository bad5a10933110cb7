"""The declarations of _lib.py against include/vicinal.h: names, sizes, offsets, kinds, constants, signatures."""
import ctypes
import re
import shutil
import subprocess

import pytest
from conftest import ROOT
from vicinal import _errors, _lib

HEADER = (ROOT / "include" / "vicinal.h").read_text()
CODE = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)


def structs_of_header():
    """name -> names of its fields, in order."""
    found = {}
    for name, body in re.findall(r"^struct (vic_\w+) \{(.*?)^\};", CODE, flags=re.S | re.M):
        fields = []
        for line in body.split(";"):
            line = line.strip()
            if not line:
                continue
            pointer = re.search(r"\(\*(\w+)\)\(", line)
            fields += [pointer.group(1)] if pointer else [re.sub(r"\[.*", "", part).split("*")[-1].split()[-1] for part in line.split(",")]
        found[name] = fields
    return found


def functions_of_header():
    """name -> (what it returns, what it takes), as written."""
    found = {}
    for returns, name, takes in re.findall(r"VIC_API\s+([\w\s]+?[\s*]+)(vic_\w+)\(([^)]*)\);", CODE):
        takes = [" ".join(part.split()) for part in takes.split(",")]
        found[name] = (" ".join(returns.split()), [] if takes == ["void"] else takes)
    return found


def kind_of(declaration):
    """The ctypes type that stands for a C one."""
    declaration = declaration.strip()
    if declaration == "void":
        return None
    if "*" in declaration:
        return ctypes.c_char_p if re.match(r"const char \*\w*$", declaration) else ctypes.c_void_p
    word = declaration.split()
    return ctypes.c_int if word[0] == "enum" else {"int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "size_t": ctypes.c_size_t,
                                                   "float": ctypes.c_float}[word[0]]


def test_every_struct_and_field_is_declared():
    header = structs_of_header()
    assert set(header) == set(_lib.STRUCTS)
    for name, fields in header.items():
        assert [field[0] for field in _lib.STRUCTS[name]._fields_] == fields, name
        assert (fields[0] == "size") == issubclass(_lib.STRUCTS[name], _lib.Sized), name


def test_every_function_is_declared_with_its_types():
    header = functions_of_header()
    assert len(header) > 40
    assert set(header) == set(_lib.FUNCTIONS)
    for name, (returns, takes) in header.items():
        assert _lib.FUNCTIONS[name][0] is kind_of(returns), name
        assert list(_lib.FUNCTIONS[name][1]) == [kind_of(parameter) for parameter in takes], name


def test_every_status_has_its_number_and_an_exception():
    rows = re.findall(r'ROW\((VIC_\w+), (\d+), "', HEADER)
    assert len(rows) == len(_errors.BY_STATUS) + 1
    for name, number in rows:
        assert getattr(_lib, name[4:]) == int(number)
        if int(number):
            declared, kind = _errors.BY_STATUS[int(number)]
            assert declared == name and issubclass(kind, _errors.Error)
            assert _lib.LIB.vic_status_name(int(number)).decode() == name


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler is here")
def test_sizes_offsets_and_constants_equal_the_compiler_s(tmp_path):
    lines, expected = [], []
    for name, kind in _lib.STRUCTS.items():
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        expected.append(ctypes.sizeof(kind))
        for field in kind._fields_:
            at = getattr(kind, field[0])
            lines.append(f'printf("%zu\\n%zu\\n", offsetof(struct {name}, {field[0]}), sizeof(((struct {name} *)0)->{field[0]}));')
            expected += [at.offset, at.size]
    constants = [(name, getattr(_lib, name[4:])) for body in re.findall(r"^enum vic_\w+ \{(.*?)\}", CODE, flags=re.S | re.M)
                 for name in re.findall(r"\bVIC_[A-Z0-9_]+\b", body) if not name.startswith("VIC_STATUS_")]
    assert len(constants) > 18
    for name, value in constants:
        lines.append(f'printf("%zu\\n", (size_t){name});')
        expected.append(value)
    source = tmp_path / "sizes.c"
    source.write_text('#include <stdio.h>\n#include "vicinal.h"\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run(["cc", "-I", str(ROOT / "include"), str(source), "-o", str(tmp_path / "sizes")], check=True)
    printed = subprocess.run([str(tmp_path / "sizes")], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in printed.split()] == expected


def test_a_field_s_kind_is_the_header_s():
    for name, kind in _lib.STRUCTS.items():
        body = re.search(rf"^struct {name} \{{(.*?)^\}};", CODE, flags=re.S | re.M).group(1)
        for field in kind._fields_:
            line = next(line for line in body.split(";") if re.search(rf"\b{field[0]}\b", line))
            floating = re.search(rf"\b(float|double)\b[^*(]*\b{field[0]}\b", line) is not None
            unsigned = re.search(rf"\b(uint64_t|size_t)\b[^*]*\b{field[0]}\b", line) is not None
            assert floating == (field[1] in (ctypes.c_float, ctypes.c_double)), (name, field[0])
            assert unsigned == (field[1] in (ctypes.c_uint64, ctypes.c_size_t)), (name, field[0])
