"""The adapters, run as the benchmarks run them, on small data sets in their formats."""
import importlib.util
import json
import sys
import types

import numpy as np
import pytest
import vicinal
from conftest import ROOT

ADAPTERS = ROOT / "python" / "adapters"


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ann_benchmarks(monkeypatch):
    """The adapter inside a package with the benchmark's names, over a base class with its methods."""
    class BaseANN:
        def __str__(self):
            return self.name

    names = {"ann_benchmarks": {}, "ann_benchmarks.algorithms": {}, "ann_benchmarks.algorithms.vicinal": {},
             "ann_benchmarks.algorithms.base": {}, "ann_benchmarks.algorithms.base.module": {"BaseANN": BaseANN}}
    for name, contents in names.items():
        module = types.ModuleType(name)
        module.__path__ = []
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "ann_benchmarks.algorithms.vicinal.module", None)
    return load("ann_benchmarks.algorithms.vicinal.module", ADAPTERS / "ann_benchmarks" / "module.py")


def fake_hdf5(path, rows, queries, metric, truth):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = metric
        for name, data in (("train", rows), ("test", queries), ("neighbors", truth.ids.astype(np.int32)), ("distances", truth.distances)):
            file.create_dataset(name, data=data)
    return h5py


@pytest.mark.parametrize("metric,ours", [("angular", "cosine"), ("euclidean", "l2")])
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ann_benchmarks_gets_the_true_neighbours(ann_benchmarks, tmp_path, metric, ours, batch, kind):
    rows, queries = vicinal.generate("clusters", 400, 20, seed=1), vicinal.generate("clusters", 30, 20, seed=1, first=400)
    truth = vicinal.truth(rows, queries, 10, ours)
    h5py = fake_hdf5(tmp_path / "fake.hdf5", rows, queries, metric, truth)
    with h5py.File(tmp_path / "fake.hdf5") as file:
        algorithm = ann_benchmarks.Vicinal(file.attrs["distance"])
        algorithm.fit(np.array(file["train"]))
        asked = np.array(file["test"]).astype(kind)
        if batch:
            algorithm.batch_query(asked, 10)
            found = algorithm.get_batch_results()
        else:
            found = [algorithm.query(query, 10) for query in asked]
        assert np.array_equal(found, file["neighbors"])
    assert algorithm.get_memory_usage() > 400 * 20 * 4 / 1024 and "vicinal" in str(algorithm) and "planes" in algorithm.get_additional()
    algorithm.done()
    assert vicinal.recall(tmp_path / "fake.hdf5", truth, 10) == 1.0
    assert np.array_equal(vicinal.read(tmp_path / "fake.hdf5", dataset="test"), queries)


def test_ann_benchmarks_metrics_that_are_not_there_are_refused(ann_benchmarks):
    with pytest.raises(NotImplementedError, match="jaccard"):
        ann_benchmarks.Vicinal("jaccard")


def test_the_configuration_names_what_is_there(ann_benchmarks):
    text = (ADAPTERS / "ann_benchmarks" / "config.yml").read_text()
    facts = dict(line.strip().lstrip("- ").split(": ", 1) for line in text.splitlines() if ": " in line)
    assert hasattr(ann_benchmarks, facts["constructor"]) and facts["module"] == "ann_benchmarks.algorithms.vicinal"
    for dtype in json.loads(facts["args"])[0]:
        for planes in json.loads(facts["args"])[1]:
            algorithm = ann_benchmarks.Vicinal("angular", dtype, planes)
            algorithm.fit(np.eye(4, dtype=np.float32))
            assert algorithm.query(np.float32([0, 1, 0, 0]), 1).tolist() == [1]


@pytest.mark.parametrize("ending,dtype", [("fbin", "f32"), ("u8bin", "u8"), ("i8bin", "i8")])
@pytest.mark.parametrize("metric,ours", [("euclidean", "l2"), ("ip", "dot"), ("angular", "cosine")])
def test_big_ann_files_run_from_end_to_end(tmp_path, capsys, ending, dtype, metric, ours):
    big_ann = load("big_ann", ADAPTERS / "big_ann.py")
    rows, queries = vicinal.generate("clusters", 500, 24, seed=2, dtype=dtype), vicinal.generate("clusters", 20, 24, seed=2, first=500, dtype=dtype)
    paths = {name: str(tmp_path / f"{name}.{ending}") for name in ("base", "queries")}
    vicinal.write(paths["base"], rows)
    vicinal.write(paths["queries"], queries)
    truth = vicinal.truth(rows, queries, 10, ours)
    vicinal.write_truth(tmp_path / "truth.bin", truth)
    arguments = [paths["base"], paths["queries"], "--truth", str(tmp_path / "truth.bin"), "--metric", metric, "--index", str(tmp_path / "x.vic"),
                 "-o", str(tmp_path / "hits.bin")]
    for _ in range(2):  # built, then opened
        big_ann.main(arguments)
        facts = json.loads(capsys.readouterr().out)
        assert (facts["rows"], facts["dim"], facts["queries"], facts["recall"]) == (500, 24, 20, 1.0)
    assert np.array_equal(vicinal.read_truth(tmp_path / "hits.bin").ids, truth.ids)
    algorithm = big_ann.VicinalExact(metric, {"index_path": str(tmp_path / "x.vic")})
    dataset = big_ann.Files(paths["base"], metric)
    assert algorithm.load_index(dataset) and not big_ann.VicinalExact(metric, {"index_path": str(tmp_path / "y.vic")}).load_index(dataset)
    radius = float(truth.distances[0, 4])
    algorithm.range_query(queries, radius)
    offsets, ids, scores = algorithm.get_range_results()
    assert offsets[1] >= 5 and set(truth.ids[0, :5]) <= set(ids[:offsets[1]].tolist()) and len(scores) == offsets[-1]
    algorithm.set_query_arguments({})
    algorithm.query(queries, 10)
    assert np.array_equal(algorithm.get_results(), truth.ids) and algorithm.track() == "exact"
    algorithm.done()
