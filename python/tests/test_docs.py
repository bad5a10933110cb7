"""PYT-06: every example of the documents, run as written, prints what the page says."""
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT


def blocks(page):
    """(kind, text, line) of each fenced block."""
    text = page.read_text(encoding="utf-8")
    return [(match.group(1), match.group(2), text[:match.start()].count("\n") + 1)
            for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.S | re.M)]


@pytest.mark.parametrize("page", ["docs/python.md", "README.md", "python/README.md"])
def test_PYT_06_the_pages_do_what_they_say(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names, printed, ran = {}, "", 0
    for kind, text, line in blocks(ROOT / page):
        if kind == "python":
            exec(compile("\n" * line + text, page, "exec"), names)
            printed, ran = capsys.readouterr().out, ran + 1
        elif kind == "output" and printed:
            assert printed == text, f"{page}:{line}"
            printed = ""
    assert ran or page == "README.md"


@pytest.mark.parametrize("script,arguments,words", [("agent_loop.py", ["3"], ["hospital", "hop 4"]), ("sentences.py", [], ["thermometer", "texts inside"]),
                                                    ("ground_truth.py", ["--rows", "5000"], ["scan  recall 1.000", "16 probes", "beam 120"])])
def test_PYT_06_the_example_scripts_run_and_repeat(script, arguments, words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}

    def run():
        return subprocess.run([sys.executable, str(ROOT / "examples" / script), *arguments], capture_output=True, text=True, env=environment,
                              check=True, stdin=subprocess.DEVNULL).stdout

    first = run()
    assert all(word in first for word in words)
    timing = re.compile(r"[\d,]+ (us|queries/s)|/\S+\.vic|#+ *")
    assert timing.sub("", first) == timing.sub("", run())


def test_sentences_of_one_s_own_need_an_encoder(tmp_path):
    (tmp_path / "lines.txt").write_text("a\n")
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "sentences.py"), str(tmp_path / "lines.txt")], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 1) and (done.returncode == 0 or "sentence_transformers" in done.stderr)


def test_the_ground_truth_of_the_study_is_numpy_s(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import ground_truth
    import vicinal
    rows, queries = vicinal.generate("gauss", 500, 8, seed=1), vicinal.generate("gauss", 10, 8, seed=1, first=500)
    cells = ground_truth.Cells(rows, cells=8)
    full = np.argsort(((queries[:, None] - rows[None]) ** 2).sum(-1), axis=1, kind="stable")[:, :5]
    assert vicinal.recall(cells.search(queries, 5, probes=8), full) == 1.0
