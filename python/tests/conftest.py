"""What the tests share: an oracle in plain NumPy, and scripts run by a fresh interpreter."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SENSES = ROOT / "examples" / "senses"


def exact_scores(rows, queries, metric):
    """Scores of whole-number vectors, small enough that every sum is exact in float32 in any order."""
    rows, queries = rows.astype(np.float32), queries.astype(np.float32)
    if metric == "l2":
        return ((queries[:, None, :].astype(np.float64) - rows[None, :, :]) ** 2).sum(-1).astype(np.float32)
    dots = (queries.astype(np.float64) @ rows.T.astype(np.float64)).astype(np.float32) + np.float32(0)
    if metric == "dot":
        return dots
    norms = [np.sqrt((v.astype(np.float64) ** 2).sum(-1).astype(np.float32)) for v in (queries, rows)]
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = dots / (norms[1][None, :] * norms[0][:, None])
    cosine = np.clip(cosine, np.float32(-1), np.float32(1))
    cosine[(norms[0][:, None] == 0) | (norms[1][None, :] == 0)] = -np.inf
    return cosine.astype(np.float32)


def oracle(rows, queries, metric, k, ids=None, allowed=None):
    """The k best by plain loops: best first, equal scores by the smaller id, -1 and the worst score in unused slots."""
    ids = np.arange(len(rows)) if ids is None else np.asarray(ids)
    scores = exact_scores(rows, queries, metric)
    sign = 1 if metric == "l2" else -1
    out_ids = np.full((len(queries), k), -1, np.int64)
    out_scores = np.full((len(queries), k), np.float32(np.inf * sign), np.float32)
    for j in range(len(queries)):
        order = sorted((sign * float(scores[j, i]), int(ids[i]), i) for i in range(len(rows)) if allowed is None or ids[i] in allowed)
        for slot, (_, id, i) in enumerate(order[:k]):
            out_ids[j, slot], out_scores[j, slot] = id, scores[j, i]
    return out_ids, out_scores


def same(hits, expected):
    """Bit for bit."""
    expected = tuple(expected)
    return np.array_equal(np.asarray(hits.ids), expected[0]) and hits.scores.tobytes() == np.ascontiguousarray(expected[1]).tobytes()


def run_python(script, *arguments, **environment):
    """A fresh interpreter: what it printed. Fails the test when it fails."""
    values = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]), **environment}
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120,
                          env={name: value for name, value in values.items() if value is not None})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def numbers():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def senses():
    """10,000 real rows, 60 questions and the texts."""
    return (np.load(SENSES / "senses_f16.npy"), np.load(SENSES / "questions_f32.npy"),
            (SENSES / "senses.txt").read_text(encoding="utf-8").splitlines())
