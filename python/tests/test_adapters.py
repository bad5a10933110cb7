"""The adapters, run as the benchmarks run them, on small data sets in their formats."""
import importlib.util
import itertools
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
    assert algorithm.get_memory_usage() > 400 * 20 * 4 / 1024 and "vicinal" in str(algorithm)
    assert algorithm.get_additional() == {"planes": 0, "dist_comps": 30 * 400}
    algorithm.done()
    assert vicinal.recall(tmp_path / "fake.hdf5", truth, 10) == 1.0
    assert np.array_equal(vicinal.read(tmp_path / "fake.hdf5", dataset="test"), queries)


def test_ann_benchmarks_metrics_that_are_not_there_are_refused(ann_benchmarks):
    with pytest.raises(NotImplementedError, match="jaccard"):
        ann_benchmarks.Vicinal("jaccard")


def test_the_configuration_names_what_is_there(ann_benchmarks):
    text = (ADAPTERS / "ann_benchmarks" / "config.yml").read_text()
    entries = [dict(line.strip().split(": ", 1) for line in entry.splitlines() if ": " in line) for entry in text.split("  - ")[1:]]
    assert [entry["name"] for entry in entries] == ["vicinal", "vicinal-graph"]
    for entry in entries:
        assert entry["module"] == "ann_benchmarks.algorithms.vicinal"
        for arguments in itertools.product(*json.loads(entry["args"])):
            algorithm = getattr(ann_benchmarks, entry["constructor"])("angular", *arguments)
            algorithm.fit(np.eye(4, dtype=np.float32))
            for beam in json.loads(entry.get("query_args", "[[]]"))[0]:
                algorithm.set_query_arguments(beam)
                assert f"beam={beam}" in str(algorithm)
            assert algorithm.query(np.float32([0, 1, 0, 0]), 1).tolist() == [1]


@pytest.mark.parametrize("codes", [None, "rows", 4])
def test_ann_benchmarks_gets_more_neighbours_at_a_wider_beam(ann_benchmarks, codes):
    shape = {"seed": 1, "clusters": 40, "spread": 0.5}
    rows, queries = vicinal.generate("clusters", 5000, 20, **shape), vicinal.generate("clusters", 50, 20, first=5000, **shape)
    truth = vicinal.truth(rows, queries, 10, "cosine")
    algorithm, points = ann_benchmarks.VicinalGraph("angular", 32, codes=codes), []
    algorithm.fit(rows)
    for beam in (10, 200):
        algorithm.set_query_arguments(beam)
        single = [algorithm.query(query, 10) for query in queries]
        compared = algorithm.get_additional()["dist_comps"]
        algorithm.batch_query(queries, 10)
        assert np.array_equal(algorithm.get_batch_results(), single) and algorithm.get_additional()["dist_comps"] == 2 * compared
        points.append((vicinal.recall(single, truth), compared))
    assert points[0] < points[1] and points[1][0] > 0.98 and points[1][1] < 50 * 5000


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


def test_big_ann_runs_a_graph_at_several_beams(tmp_path, capsys):
    big_ann, shape = load("big_ann", ADAPTERS / "big_ann.py"), {"seed": 1, "clusters": 40, "spread": 0.5}
    rows, queries = vicinal.generate("clusters", 5000, 20, **shape), vicinal.generate("clusters", 50, 20, first=5000, **shape)
    for name, array in (("base", rows), ("queries", queries)):
        vicinal.write(tmp_path / f"{name}.fbin", array)
    vicinal.write_truth(tmp_path / "truth.bin", vicinal.truth(rows, queries, 10, "l2"))
    big_ann.main([str(tmp_path / "base.fbin"), str(tmp_path / "queries.fbin"), "--truth", str(tmp_path / "truth.bin"), "--degree", "32",
                  "--beam", "10", "--beam", "200", "--index", str(tmp_path / "x.vic")])
    narrow, wide = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert narrow["beam"] == 10 and narrow["recall"] < wide["recall"] > 0.98 and wide["distances"] > narrow["distances"] > 0
    algorithm = big_ann.VicinalGraph("euclidean", {"index_path": str(tmp_path / "x.vic"), "degree": 32})
    assert algorithm.load_index(big_ann.Files(str(tmp_path / "base.fbin"), "euclidean")) and "graph" in str(algorithm)
    algorithm.set_query_arguments({"beam": 200})
    algorithm.query(queries, 10)
    assert algorithm.hits.stats.beam == 200 and algorithm.track() == "graph"
