"""vicinal.compat: the names, shapes and habits of other libraries, beside these themselves where they are installed."""
import importlib

import numpy as np
import pytest
import vicinal
import vicinal.compat.faiss as ours
import vicinal.compat.hnswlib as hnsw
import vicinal.compat.usearch as us
from conftest import exact_scores, oracle


@pytest.mark.parametrize("kind,metric", [(ours.IndexFlatIP, "dot"), (ours.IndexFlatL2, "l2")])
def test_rows_are_added_and_found(numbers, kind, metric):
    rows, queries = numbers.integers(-5, 6, (90, 12)), numbers.integers(-5, 6, (7, 12)).astype(np.float64)
    index = kind(12)
    assert index.ntotal == 0 and index.is_trained and index.d == 12 and (index.search(queries, 3)[1] == -1).all()
    for block in (rows[:40], rows[40:41], rows[41:]):
        index.add(block)
        distances, ids = index.search(queries, 5)
    assert index.ntotal == 90 and distances.dtype == np.float32 and ids.dtype == np.int64
    expected = oracle(rows, queries, metric, 5)
    assert np.array_equal(ids, expected[0]) and np.array_equal(distances, expected[1])
    assert np.array_equal(index.reconstruct(41), rows[41]) and np.array_equal(index.reconstruct_n(3, 4), rows[3:7])
    assert np.array_equal(index.reconstruct_n(), rows)
    index.reset()
    assert index.ntotal == 0 and (index.search(queries, 1)[1] == -1).all()
    index.add(rows[:2])
    assert index.search(queries, 2)[1].max() == 1


def test_beside_faiss_itself(numbers):
    faiss = pytest.importorskip("faiss")
    rows, queries = numbers.standard_normal((500, 24), np.float32), numbers.standard_normal((20, 24), np.float32)
    for name in ("IndexFlatIP", "IndexFlatL2"):
        theirs, mine = getattr(faiss, name)(24), getattr(ours, name)(24)
        theirs.add(rows)
        mine.add(rows)
        assert theirs.metric_type == mine.metric_type and theirs.ntotal == mine.ntotal
        (d, i), (distances, ids) = theirs.search(queries, 10), mine.search(queries, 10)
        assert np.array_equal(i, ids) and np.allclose(d, distances, atol=1e-4)


def test_ids_of_the_caller(numbers):
    rows = numbers.standard_normal((10, 3), np.float32)
    index = ours.IndexFlatL2(3)
    index.add_with_ids(rows[:5], [50, 40, 30, 20, 10])
    assert index.search(rows[:1], 1)[1].tolist() == [[50]]
    for ids in ([1, 2, 3, 4, 50], [1, 1, 2, 3, 4], [-1, 1, 2, 3, 4]):
        with pytest.raises(vicinal.IdError):
            index.add_with_ids(rows[5:], ids)
    with pytest.raises(vicinal.DimensionError, match="5, found 2"):
        index.add_with_ids(rows[5:], [1, 2])
    assert index.ntotal == 5
    index.add(rows[5:])  # ids go on from the largest
    assert index.search(rows[5:6], 1)[1].tolist() == [[51]] and index.reconstruct_n(0, 1).tolist() == [rows[4].tolist()]
    with pytest.raises(vicinal.DimensionError, match="3"):
        index.add(np.ones((2, 4)))
    with pytest.raises(vicinal.DimensionError, match="3"):
        index.search(np.ones((2, 4)), 1)


def test_indexes_go_into_files_and_grow_on(numbers, tmp_path):
    rows = numbers.standard_normal((10, 3), np.float32)
    for kind in (ours.IndexFlatIP, ours.IndexFlatL2, lambda d: ours.IndexFlat(d, "cosine")):
        index = kind(3)
        index.add(rows)
        ours.write_index(index, str(tmp_path / "x.vic"))
        back = ours.read_index(str(tmp_path / "x.vic"))
        assert type(back) is type(index) and back.ntotal == 10 and back.metric_type == index.metric_type
        assert all(np.array_equal(a, b) for a, b in zip(back.search(rows, 4), index.search(rows, 4)))
        back.add(rows[:1])
        assert back.search(rows[:1], 2)[1].tolist() == [[0, 10]] or kind is ours.IndexFlatIP
        assert back.ntotal == 11 and np.array_equal(back.reconstruct(10), rows[0])
    empty = ours.IndexFlatL2(3)
    ours.write_index(empty, tmp_path / "e.vic")
    assert ours.read_index(tmp_path / "e.vic").ntotal == 0


SPACES = [("l2", "l2sq", "l2"), ("ip", "ip", "dot"), ("cosine", "cos", "cosine")]


def far(rows, queries, metric):
    """Distances as hnswlib and usearch have them, of whole numbers."""
    scores = exact_scores(rows, queries, metric)
    return scores if metric == "l2" else np.float32(1) - scores


@pytest.mark.parametrize("space,_,metric", SPACES)
def test_hnswlib_s_names_give_labels_and_distances(numbers, space, _, metric, tmp_path):
    rows, queries = numbers.integers(-5, 6, (90, 12)), numbers.integers(-5, 6, (7, 12)).astype(np.float64)
    index = hnsw.Index(space=space, dim=12)
    index.init_index(max_elements=90, M=8, ef_construction=100)
    index.add_items(rows[:40], np.arange(100, 140))
    index.add_items(rows[40:])  # labels go on from the largest
    index.set_ef(50)
    labels, distances = index.knn_query(queries, k=5)
    expected = oracle(rows, queries, metric, 5, np.arange(100, 190))
    assert labels.dtype == np.uint64 and np.array_equal(labels, expected[0]) and distances.dtype == np.float32
    assert np.array_equal(distances, np.take_along_axis(far(rows, queries, metric), expected[0] - 100, 1))
    assert index.get_current_count() == index.element_count == index.get_max_elements() == 90
    assert index.get_ids_list() == list(range(100, 190)) and np.array_equal(index.get_items([141, 100]), rows[[41, 0]])
    even = index.knn_query(queries, k=3, filter=lambda label: label % 2 == 0)[0]
    assert np.array_equal(even, oracle(rows, queries, metric, 3, np.arange(100, 190), set(range(100, 190, 2)))[0])
    index.save_index(tmp_path / "x.vic")
    other = hnsw.Index(space, 12)
    other.load_index(tmp_path / "x.vic", max_elements=91)
    assert np.array_equal(other.knn_query(queries, k=5)[0], labels)
    other.add_items(rows[:1], [5])
    assert other.element_count == 91 and np.array_equal(other.get_items([5]), rows[:1])


def test_hnswlib_s_refusals_and_replacements(numbers):
    rows = numbers.standard_normal((20, 4), np.float32)
    with pytest.raises(vicinal.ArgumentError, match="'l2', 'ip', 'cosine'"):
        hnsw.Index("hamming", 4)
    index = hnsw.Index("l2", 4)
    with pytest.raises(vicinal.ArgumentError, match="init_index"):
        index.add_items(rows)
    index.init_index(20)
    index.add_items(rows)
    index.add_items(rows[:1], [7])  # replaced, as there
    assert index.element_count == 20 and index.knn_query(rows[0], k=2)[0].tolist() == [[0, 7]]
    index.add_items(rows[1:2], [7])
    assert index.knn_query(rows[1], k=2)[0].tolist() == [[1, 7]] and index.get_items([7], "list") == rows[1:2].tolist()
    with pytest.raises(vicinal.DimensionError, match="at most 20 rows, found 21"):
        index.add_items(rows[:1], [99])
    with pytest.raises(vicinal.ArgumentError, match="at most 20"):
        index.knn_query(rows[:1], k=21)
    with pytest.raises(vicinal.DimensionError, match="4"):
        index.add_items(np.ones((1, 5)))
    index.resize_index(21)
    index.add_items(rows[:1], [99])
    assert index.element_count == 21


@pytest.mark.parametrize("_,metric_name,metric", SPACES)
def test_usearch_s_names_give_matches(numbers, _, metric_name, metric, tmp_path):
    rows, queries = numbers.integers(-5, 6, (90, 12)), numbers.integers(-5, 6, (7, 12)).astype(np.float64)
    index = us.Index(ndim=12, metric=metric_name)
    assert index.add(np.arange(100, 189), rows[:89]).tolist() == list(range(100, 189)) and index.add(None, rows[89]) == 189
    found = index.search(queries, 5)
    expected, distances = oracle(rows, queries, metric, 5, np.arange(100, 190)), far(rows, queries, metric)
    assert found.keys.dtype == np.uint64 and np.array_equal(found.keys, expected[0]) and found.counts.tolist() == [5] * 7
    assert np.array_equal(found.distances, np.take_along_axis(distances, expected[0] - 100, 1))
    one = index.search(queries[2], 5)
    assert one.keys.tolist() == found[2].keys.tolist() and one.to_list() == [(match.key, match.distance) for match in found[2]]
    assert len(found) == 7 and len(found.to_list()) == 35 and len(one) == 5
    radius = float(found.distances[2, 2])
    assert len(index.search(queries[2], 90, radius=radius)) == (distances[2] <= radius).sum()
    assert np.array_equal(index.search(queries, 5, exact=True).keys, found.keys)
    assert len(index) == index.size == 90 and index.ndim == 12 and index.metric == metric_name and index.keys.tolist() == list(range(100, 190))
    assert np.array_equal(index.get(103), rows[3]) and index.get(5) is None and index.get([5, 104])[1].tolist() == rows[4].tolist()
    assert 103 in index and 5 not in index and index.contains([103, 5]).tolist() == [True, False]
    index.save(tmp_path / "x.vic")
    for back in (us.Index.restore(tmp_path / "x.vic"), us.Index(path=tmp_path / "x.vic")):
        assert back.metric == metric_name and np.array_equal(back.search(queries, 5).keys, found.keys)
    index.clear()
    assert len(index) == 0 and len(index.search(queries[0], 3)) == 0


def test_usearch_s_refusals():
    index = us.Index(ndim=2, metric="l2sq", dtype="f16")
    index.add(3, [1, 2])
    with pytest.raises(vicinal.IdError, match="3"):
        index.add(3, [1, 2])
    for call in (lambda: index.remove(3), lambda: us.Index(ndim=2, multi=True)):
        with pytest.raises(vicinal.UnsupportedError):
            call()
    with pytest.raises(vicinal.ArgumentError, match="'cos', 'ip', 'l2sq'"):
        us.Index(ndim=2, metric="tanimoto")


def test_larger_ones_walk_a_graph_and_agree_with_the_libraries_themselves():
    shape = {"seed": 1, "clusters": 40, "spread": 0.5}
    rows, queries = vicinal.generate("clusters", 5000, 24, **shape), vicinal.generate("clusters", 50, 24, first=5000, **shape)
    truth = vicinal.truth(rows, queries, 10, "l2")
    answers = {}
    for module in (hnsw, pytest.importorskip("hnswlib") if importlib.util.find_spec("hnswlib") else hnsw):
        index = module.Index(space="l2", dim=24)
        index.init_index(max_elements=5000, M=16, ef_construction=200)
        index.add_items(rows)
        index.set_ef(64)
        answers[module.__name__] = index.knn_query(queries, k=10)
    assert index.element_count == 5000
    for module in (us, importlib.import_module("usearch.index") if importlib.util.find_spec("usearch") else us):
        index = module.Index(ndim=24, metric="l2sq", dtype="f32", expansion_search=64)
        index.add(np.arange(5000), rows)
        found = index.search(queries, 10)
        answers[module.__name__] = found.keys, found.distances
    for name, (keys, distances) in answers.items():
        assert vicinal.recall(keys.astype(np.int64), truth) > 0.95, name
        agree = keys == truth.ids
        assert np.allclose(distances[agree], truth.distances[agree], rtol=1e-4, atol=1e-5), name
