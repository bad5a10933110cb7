"""vicinal.compat.faiss: the names, shapes and habits of FAISS's flat indexes; beside FAISS itself where it is installed."""
import numpy as np
import pytest
import vicinal
import vicinal.compat.faiss as ours
from conftest import oracle


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
