"""Arrays in: strides, orders, types, other libraries' memory. What is taken must answer as a contiguous float32 copy does."""
import ctypes
import sys

import numpy as np
import pytest
import vicinal
from conftest import same
from vicinal import _dlpack

ml_dtypes = pytest.importorskip("ml_dtypes")


def answer(rows, queries, **options):
    with vicinal.build(rows, metric="l2", **options) as index:
        hits = index.search(queries, k=7)
        return hits.ids, hits.scores


def strided(x, y):
    """PYT-01's views of the same kind of data."""
    return {"rows of two": x[::2], "columns of two": x[:, ::2], "backwards": x[::-1], "plane": y[:, :, 0], "Fortran": np.asfortranarray(x),
            "transposed": x.T, "one column": x[:, :1], "broadcast": np.broadcast_to(x[:1], x.shape),
            "windows": np.lib.stride_tricks.sliding_window_view(x.ravel()[:100], 16), "unaligned": unaligned(x), "big-endian": x.astype(">f4")}


def unaligned(x):
    memory = np.zeros(x.nbytes + 1, np.uint8)
    view = np.ndarray(x.shape, x.dtype, memory, 1)
    view[...] = x
    return view


@pytest.mark.parametrize("name", ["rows of two", "columns of two", "backwards", "plane", "Fortran", "transposed", "one column", "broadcast",
                                  "windows", "unaligned", "big-endian"])
def test_PYT_01_strided_rows_and_queries_answer_as_their_contiguous_copies(numbers, name):
    x, y = numbers.standard_normal((200, 16), np.float32), numbers.standard_normal((200, 16, 2), np.float32)
    view = strided(x, y)[name]
    copy = np.ascontiguousarray(view, np.float32)
    expected = answer(copy, copy[:20])
    for rows, queries in ((view, copy[:20]), (copy, view[:20]), (view, view[:20])):
        ids, scores = answer(rows, queries)
        assert np.array_equal(ids, expected[0]) and scores.tobytes() == expected[1].tobytes()
    with vicinal.build(copy, metric="l2") as index:
        for query in view[:3]:
            assert same(index.search(query, k=7), index.search(np.ascontiguousarray(query, np.float32), k=7))


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.int32, np.uint16])
def test_PYT_02_other_types_are_refused_by_name_and_converted_when_asked(numbers, kind):
    rows = (numbers.standard_normal((50, 8)) * 9).astype(kind)
    with pytest.raises(vicinal.ElementTypeError, match=np.dtype(kind).name):
        vicinal.build(rows)
    expected = vicinal.build(rows.astype(np.float32), metric="l2")
    for index in (vicinal.build(rows, metric="l2", convert=True), vicinal.build(rows, metric="l2", dtype="f32")):
        assert index.dtype == "f32"
        for query in (rows[3], rows[3:5]):
            with pytest.raises(TypeError, match=np.dtype(kind).name):
                index.search(query)
            assert same(index.search(query, convert=True), expected.search(query.astype(np.float32)))


def test_PYT_02_a_float64_that_no_float32_can_hold_is_refused(numbers):
    rows = np.ones((3, 2))
    rows[1, 1] = 1e300
    with pytest.raises(vicinal.NotFiniteError, match="1"):
        vicinal.build(rows, convert=True)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint32, np.int64, np.uint64, np.uint8])
def test_PYT_03_ids_of_any_integer_type(numbers, kind):
    rows = numbers.standard_normal((100, 8), np.float32)
    ids = np.arange(100).astype(kind)[::-1]
    expected = vicinal.build(rows, ids=np.arange(99, -1, -1)).search(rows[:5])
    assert same(vicinal.build(rows, ids=ids).search(rows[:5], k=np.uint8(10)), (expected.ids, expected.scores))
    assert same(vicinal.build(rows, ids=list(ids)).search(rows[:5], k=np.int64(10)), (expected.ids, expected.scores))


def test_PYT_03_ids_that_are_no_integers_are_refused(numbers):
    rows = numbers.standard_normal((3, 4), np.float32)
    for ids in ([0.0, 1.0, 2.0], np.array([True, False, True]), ["a", "b", "c"]):
        with pytest.raises(vicinal.ElementTypeError, match="integer"):
            vicinal.build(rows, ids=ids)
    with pytest.raises(vicinal.IdError, match="2\\^63"):
        vicinal.build(rows, ids=np.array([1, 2, 2**63], np.uint64))
    with pytest.raises(vicinal.DimensionError, match="3, found 2"):
        vicinal.build(rows, ids=[1, 2])


def test_PYT_03_an_out_array_of_another_type_is_refused_naming_int64(numbers):
    index = vicinal.build(numbers.standard_normal((30, 4), np.float32))
    query = np.ones((2, 4), np.float32)
    with pytest.raises(vicinal.ElementTypeError, match="int64"):
        index.search(query, 3, out=(np.empty((2, 3), np.uint32), None))
    with pytest.raises(vicinal.ElementTypeError, match="float32"):
        index.search(query, 3, out=(np.empty((2, 3), np.int64), np.empty((2, 3))))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.int8, np.uint8])
def test_PYT_04_narrow_types_are_taken_as_they_are_and_equal_the_float32_copy(numbers, kind):
    rows = (numbers.standard_normal((1000, 32)) * 20).astype(np.float32).clip(0, 100).astype(kind)
    wide = vicinal.build(rows.astype(np.float32), metric="l2")
    narrow = vicinal.build(rows, metric="l2")
    assert narrow.dtype == {"float16": "f16", "bfloat16": "bf16", "int8": "i8", "uint8": "u8"}[np.dtype(kind).name]
    assert np.array_equal(narrow.vectors([5, 3]), rows[[5, 3]]) and narrow.vector(5).dtype == kind
    for queries in (rows[:9], rows[4], rows[:9].astype(np.float32), rows[::100]):
        assert same(narrow.search(queries), wide.search(queries.astype(np.float32)))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_an_integer_type_s_queries_fit_indexes_of_the_other(numbers, kind):
    rows = numbers.integers(0, 100, (60, 9)).astype(np.int8)
    index, wide = vicinal.build(rows, metric="dot"), vicinal.build(rows.astype(np.float32), metric="dot")
    assert same(index.search(rows[:4].astype(kind)), wide.search(rows[:4].astype(np.float32)))


def test_bfloat16_without_ml_dtypes_comes_back_as_float32(numbers, monkeypatch):
    rows = numbers.standard_normal((20, 4)).astype(ml_dtypes.bfloat16)
    index = vicinal.build(rows)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert index.vector(3).dtype == np.float32 and np.array_equal(index.vector(3), rows[3].astype(np.float32))
    assert vicinal.generate("gauss", 3, 4, dtype="bf16").dtype == np.float32


def test_lists_and_scalars_are_taken_as_float32():
    index = vicinal.build([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]], metric="dot")
    assert index.dtype == "f32" and len(index) == 3 and index.dim == 3
    for query in ([1, 0, 0], (1.0, 0.0, 0.0), np.array([1, 0, 0], np.float32)):
        hits = index.search(query, 2)
        assert hits.ids.shape == (2,) and hits.ids.tolist() == [0, 2] and hits.scores.tolist() == [1, 0.5]
    assert index.search([[1, 0, 0]], 2).ids.shape == (1, 2)
    assert index.search([np.float32([1, 0, 0]), np.float32([0, 1, 0])], 1).ids.tolist() == [[0], [1]]
    with pytest.raises(vicinal.ElementTypeError, match="float64"):
        index.search([np.array([1.0, 0, 0])], 1)


@pytest.mark.parametrize("nothing", [None, "abc", b"abc"])
def test_what_is_no_vector_is_refused_by_its_type(nothing):
    index = vicinal.build([[1, 0, 0]])
    with pytest.raises(vicinal.ElementTypeError, match=f"queries as numbers, found {type(nothing).__name__}"):
        index.search(nothing)


def test_empty_arrays_are_valid():
    index = vicinal.build(np.empty((0, 8), np.float32))
    for nq in (0, 1, 19, 20, 21):
        hits = index.search(np.ones((nq, 8), np.float32), 5)
        assert hits.ids.shape == (nq, 5) and (hits.ids == -1).all() and (hits.scores == -np.inf).all() and not hits.count.any()
    full = vicinal.build(np.ones((4, 8), np.float32))
    assert full.search(np.empty((0, 8), np.float32)).ids.shape == (0, 10)
    assert len(full.within(np.empty((0, 8), np.float32), 0.5)) == 0
    with pytest.raises(vicinal.DimensionError):
        full.search(np.empty((0, 7), np.float32))


@pytest.mark.parametrize("rows", [np.ones(3, np.float32), np.ones((2, 2, 2), np.float32), [], [[1, 2], [3]]])
def test_rows_of_no_matrix_are_refused(rows):
    with pytest.raises(vicinal.DimensionError):
        vicinal.build(rows)


@pytest.mark.parametrize("rows", [np.array([["a"]]), np.array([[1j]], np.complex64), np.zeros((2, 2), bool), np.zeros(2, "f4,f4").reshape(1, 2),
                                  np.ma.masked_array(np.ones((2, 2), np.float32), [[0, 1], [0, 0]]), [[None]], "no such file.npy"])
def test_rows_of_no_numbers_are_refused(rows):
    with pytest.raises((vicinal.ElementTypeError, vicinal.DimensionError, vicinal.NotFoundError)):
        vicinal.build(rows)


def test_a_memory_mapped_array_is_read_in_place(numbers, tmp_path):
    rows = numbers.standard_normal((300, 16), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert same(vicinal.build(mapped).search(mapped[:5]), vicinal.build(rows).search(rows[:5]))


def test_read_only_arrays_are_taken(numbers):
    rows = numbers.standard_normal((30, 4), np.float32)
    rows.flags.writeable = False
    index = vicinal.build(rows)
    assert index.search(rows[0]).ids[0] == 0 and index.search(rows[0]).ids[0] == 0


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
LENT = {}  # what capsules that are out hold, by their structs' addresses
CODES = {"i": 0, "u": 1, "f": 2}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def give_back(address):
    del LENT[address]


class Exported:
    """An array that is known by its DLPack capsule alone; counts what is asked of it. The capsules are made here, so that they are
    versioned under every NumPy; one that is refused stays in LENT."""

    def __init__(self, array, versioned=True, device=(1, 0), change=None):
        self.array, self.versioned, self.device, self.change, self.requests = array, versioned, device, change, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.requests.append(keywords)
        if not self.versioned and "max_version" in keywords:
            raise TypeError("unexpected keyword max_version")
        array, numbers = self.array, ctypes.c_int64 * self.array.ndim
        shape, strides = numbers(*array.shape), numbers(*(step // array.itemsize for step in array.strides))
        tensor = _dlpack.DLTensor(array.ctypes.data, *self.device, array.ndim, CODES[array.dtype.kind], array.itemsize * 8, 1,
                                  ctypes.addressof(shape), ctypes.addressof(strides), 0)
        managed = _dlpack.DLManagedTensorVersioned(major=1) if self.versioned else _dlpack.DLManagedTensor()
        managed.tensor, managed.deleter = tensor, ctypes.cast(give_back, ctypes.c_void_p)
        if self.versioned and not array.flags.writeable:
            managed.flags = _dlpack.READ_ONLY
        if self.change:
            self.change(managed)
        LENT[ctypes.addressof(managed)] = managed, shape, strides, array
        return new_capsule(ctypes.addressof(managed), b"dltensor_versioned" if self.versioned else b"dltensor", None)


def test_a_tensor_with_a_gradient_is_read_without_it(numbers):
    rows = numbers.standard_normal((3, 8), np.float32)

    class Trained(Exported):
        requires_grad = True

        def detach(self):
            return Exported(self.array)

        def __dlpack__(self, **keywords):
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    index = vicinal.build(Trained(rows))
    assert np.array_equal(index.vectors(), rows) and index.search(Trained(rows[2]), 1).ids.tolist() == [2]


@pytest.mark.parametrize("versioned", [True, False])
def test_numpy_s_own_capsules_are_read_in_place_and_given_back(numbers, versioned):
    rows = numbers.standard_normal((40, 8), np.float32)
    if not hasattr(rows, "__dlpack__") or (versioned and np.lib.NumpyVersion(np.__version__) < "2.1.0"):
        pytest.skip("this NumPy makes no such capsule")

    class Wrapped:
        def __dlpack_device__(self):
            return rows.__dlpack_device__()

        def __dlpack__(self, **keywords):
            if "max_version" in keywords and not versioned:
                raise TypeError
            return rows.__dlpack__(**keywords)

    before = sys.getrefcount(rows)
    assert np.array_equal(vicinal.build(Wrapped()).vectors(), rows)
    assert sys.getrefcount(rows) == before
    assert vicinal._arrays.host_array(Wrapped(), "rows")[0].ctypes.data == rows.ctypes.data


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8, np.uint8])
def test_dlpack_capsules_of_both_kinds_are_read_in_place_and_given_back(numbers, versioned, kind):
    rows = (numbers.standard_normal((40, 8)) * 30).clip(0, 100).astype(kind)
    expected = vicinal.build(rows).search(rows[:4])
    before = sys.getrefcount(rows)
    exported = Exported(rows, versioned)
    index = vicinal.build(exported)
    assert index.dtype == vicinal.build(rows).dtype and same(index.search(Exported(rows[:4], versioned)), expected)
    assert same(index.search(Exported(rows[::2][:2], versioned)), index.search(np.ascontiguousarray(rows[::2][:2])))
    del exported
    assert sys.getrefcount(rows) == before
    assert vicinal._arrays.host_array(Exported(rows, versioned), "rows")[0].ctypes.data == rows.ctypes.data


def test_a_read_only_capsule_is_taken(numbers):
    rows = numbers.standard_normal((40, 8), np.float32)
    rows.flags.writeable = False
    assert vicinal.build(Exported(rows)).search(Exported(rows[1]), 1).ids.tolist() == [1]


def test_bfloat16_comes_by_dlpack_although_numpy_has_none(numbers):
    rows = numbers.standard_normal((40, 8)).astype(ml_dtypes.bfloat16)

    def relabel(managed):
        managed.tensor.code = 4

    index = vicinal.build(Exported(rows.view(np.uint16), change=relabel))
    assert index.dtype == "bf16" and np.array_equal(index.vectors(), rows)
    assert same(index.search(Exported(rows[:3].view(np.uint16), change=relabel)), index.search(rows[:3].astype(np.float32)))


@pytest.mark.parametrize("change,error", [(lambda m: setattr(m, "major", 2), "version 1"), (lambda m: setattr(m.tensor, "lanes", 4), "lanes"),
                                          (lambda m: setattr(m.tensor, "code", 5), "found"), (lambda m: setattr(m.tensor, "bits", 24), "24")])
def test_capsules_that_cannot_be_understood_are_refused(numbers, change, error):
    with pytest.raises(vicinal.ElementTypeError, match=error):
        vicinal.build(Exported(numbers.standard_normal((4, 4), np.float32), change=change))


def test_strides_of_a_capsule_may_be_missing(numbers):
    rows = numbers.standard_normal((6, 4), np.float32)
    unversioned = Exported(rows, False, change=lambda managed: setattr(managed.tensor, "strides", None))
    assert np.array_equal(vicinal.build(unversioned).vectors(), rows)


def arrow_column(kind, rows):
    pa = pytest.importorskip("pyarrow")
    element = {np.dtype(np.float32): pa.float32(), np.dtype(np.float16): pa.float16(), np.dtype(np.int8): pa.int8(), np.dtype(np.uint8): pa.uint8()}
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    assert column.type.value_type == element[rows.dtype]
    return {"array": column, "sliced": pa.concat_arrays([column[:3], column])[3:], "chunked": pa.chunked_array([column[:7], column[7:]]),
            "one chunk": pa.chunked_array([column])}[kind]


@pytest.mark.parametrize("kind", ["array", "sliced", "chunked", "one chunk"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8])
def test_arrow_columns_of_fixed_size_lists_are_matrices(numbers, kind, dtype):
    rows = (numbers.standard_normal((40, 8)) * 9).astype(np.int8).clip(0, 100).astype(dtype)
    column = arrow_column(kind, rows)
    index = vicinal.build(column)
    assert np.array_equal(index.vectors(), rows) and index.dtype == vicinal.build(rows).dtype
    assert same(index.search(column), index.search(rows))
    if kind != "chunked":
        values = column.flatten() if kind != "one chunk" else column.chunk(0).flatten()
        inside = vicinal._arrays.host_array(column, "rows")[0].ctypes.data
        assert values.buffers()[1].address <= inside < values.buffers()[1].address + values.buffers()[1].size


def test_arrow_columns_that_are_no_matrix_are_refused():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(vicinal.ElementTypeError, match="nulls"):
        vicinal.build(pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)))
    with pytest.raises(vicinal.ElementTypeError, match="nulls"):
        vicinal.build(pa.array([[1.0, None], [1.0, 2.0]], pa.list_(pa.float32(), 2)))
    with pytest.raises(vicinal.ElementTypeError, match="fixed size"):
        vicinal.build(pa.array([[1.0, 2.0], [3.0]], pa.list_(pa.float32())))
    with pytest.raises(vicinal.ElementTypeError, match="numbers"):
        vicinal.build(pa.array([["a"]], pa.list_(pa.string(), 1)))
    nulls = pa.array([None, [1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    assert vicinal.build(nulls[1:]).vectors().tolist() == [[1, 2], [3, 4]]


def test_polars_columns_and_frames(numbers):
    pl = pytest.importorskip("polars")
    rows = numbers.standard_normal((40, 8), np.float32)
    series = pl.Series("v", rows, dtype=pl.Array(pl.Float32, 8))
    index = vicinal.build(series, texts=pl.Series([f"text {i}" for i in range(40)]), ids=pl.Series(range(100, 140)))
    assert np.array_equal(index.vectors(), rows) and index.text(103) == "text 3"
    assert same(index.search(series[3:6]), index.search(rows[3:6]))
    assert np.array_equal(vicinal.build(pl.DataFrame(rows)).vectors(), rows)
    with pytest.raises(vicinal.ElementTypeError, match="Array"):
        vicinal.build(series.cast(pl.List(pl.Float32)))


def test_pandas_columns_and_frames(numbers):
    pd = pytest.importorskip("pandas")
    rows = numbers.standard_normal((40, 8), np.float32)
    frame = pd.DataFrame({"v": list(rows), "text": [f"text {i}" for i in range(40)]}, index=range(100, 140))
    index = vicinal.build(frame["v"], texts=frame["text"], ids=frame.index)
    assert np.array_equal(index.vectors(), rows) and index.text(103) == "text 3"
    assert np.array_equal(vicinal.build(pd.DataFrame(rows)).vectors(), rows)
    with pytest.raises(vicinal.DimensionError, match="lengths 7 to 8"):
        vicinal.build(pd.Series([rows[0], rows[1][:7]]))


def test_pandas_columns_of_arrow_lists(numbers):
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    rows = numbers.standard_normal((40, 8), np.float32)
    series = pd.Series(arrow_column("array", rows), dtype=pd.ArrowDtype(pa.list_(pa.float32(), 8)))
    if not hasattr(series, "__arrow_c_stream__"):
        pytest.skip("this pandas has no Arrow interface for a column")
    assert np.array_equal(vicinal.build(series).vectors(), rows)


def test_pytorch_tensors_in_host_memory(numbers):
    torch = pytest.importorskip("torch")
    rows = torch.from_numpy(numbers.standard_normal((40, 8), np.float32))
    index = vicinal.build(rows)
    assert same(index.search(rows[::3]), index.search(rows[::3].numpy().copy()))
    assert vicinal.build(rows.to(torch.bfloat16)).dtype == "bf16"


def test_jax_arrays_in_host_memory(numbers):
    jax = pytest.importorskip("jax")
    rows = jax.numpy.asarray(numbers.standard_normal((40, 8), np.float32))
    index = vicinal.build(rows)
    assert same(index.search(rows[:3]), index.search(np.asarray(rows[:3])))
    assert vicinal.build(rows.astype(jax.numpy.bfloat16)).dtype == "bf16"


def test_a_batch_costs_no_copy_of_its_queries(numbers):
    import tracemalloc
    index = vicinal.build(numbers.standard_normal((2, 384), np.float32), device="cpu")
    queries = numbers.standard_normal((10000, 2 * 384), np.float32)[:, :384]  # rows apart, elements adjacent
    index.search(queries[:2])
    tracemalloc.start()
    hits = index.search(queries)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < hits.ids.nbytes + hits.scores.nbytes + 65536
    assert ctypes.sizeof(ctypes.c_void_p) == 8 and hits.ids[9999, 0] >= 0


def test_out_arrays_are_the_ones_that_come_back(numbers):
    rows = numbers.standard_normal((50, 6), np.float32)
    index = vicinal.build(rows)
    expected = index.search(rows[:5], 4)
    ids, scores = np.empty((5, 4), np.int64), np.empty((5, 4), np.float32)
    hits = index.search(rows[:5], 4, out=(ids, scores))
    assert hits.ids is ids and hits.scores is scores and same(hits, expected)
    again = index.search(rows[5:10], 4, out=hits)
    assert again.ids is ids and same(again, index.search(rows[5:10], 4))
    alone = index.search(rows[:5], 4, out=(ids, None))
    assert alone.scores is None and np.array_equal(alone.ids, expected.ids)
    one = index.search(rows[0], 4, out=(ids[0], scores[0]))
    assert one.ids.base is ids and np.array_equal(ids[0], expected.ids[0])


def test_out_arrays_that_cannot_hold_the_answer_are_refused(numbers):
    index = vicinal.build(numbers.standard_normal((50, 6), np.float32))
    query = np.ones((5, 6), np.float32)
    wrong = [(np.empty((5, 3), np.int64), "3"), (np.empty((4, 4), np.int64), "4"), (np.empty(20, np.int64), "20")]
    for ids, number in wrong:
        with pytest.raises(vicinal.DimensionError, match=rf"\(5, 4\).*{number}"):
            index.search(query, 4, out=(ids, None))
    read_only = np.empty((5, 4), np.int64)
    read_only.flags.writeable = False
    for ids in (read_only, np.empty((5, 8), np.int64)[:, ::2], np.empty((4, 5), np.int64).T):
        with pytest.raises(vicinal.ArgumentError, match="packed"):
            index.search(query, 4, out=(ids, None))
    for out in (3, (1, 2, 3), ([[0] * 4] * 5, None)):
        with pytest.raises((vicinal.ArgumentError, vicinal.ElementTypeError)):
            index.search(query, 4, out=out)
