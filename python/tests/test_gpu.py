"""Arrays on a GPU: what is asked of their producers, what is refused, and what reaches the library.

No GPU is needed: producers here hold host memory and say that it lies on one, and the call that would enqueue a search is
recorded instead. What a GPU computes is compared by the tests that run on one.
"""
import contextlib
import ctypes
import sys
import types

import numpy as np
import pytest
import vicinal
from test_arrays import Exported
from vicinal import _device, _dlpack, _gpu, _lib

CUDA0, CUDA1 = (2, 0), (2, 1)


class CudaInterface:
    """An array that is known by its CUDA array interface alone."""

    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False), "version": 3,
                                         "strides": None if array.flags.c_contiguous else array.strides, **changes}


@pytest.fixture
def rows(numbers):
    return numbers.standard_normal((6, 4), np.float32)


@pytest.fixture
def recorded(monkeypatch, rows):
    """An index that passes for one on cuda:0, and the list of searches that it was asked for."""
    index, calls = vicinal.build(rows, device=vicinal.Device("cpu", threads=1)), []

    def search(pointer, matrix, k, options, hits):
        if hits is None:
            return _lib.NO_MEMORY if k > 2**40 else _lib.ARGUMENT
        matrix, options, hits, k = matrix._obj, options._obj, hits._obj, getattr(k, "value", k)
        calls.append(types.SimpleNamespace(data=matrix.data, rows=matrix.rows, stride=matrix.stride_bytes, dtype=matrix.dtype, place=matrix.place,
                                           stream=options.stream, hits_place=hits.place, ids=hits.ids, scores=hits.scores, k=k, beam=options.beam))
        ctypes.memset(hits.ids, 0, matrix.rows * k * 8)
        return _lib.OK

    monkeypatch.setattr(_device.Device, "ordinal", property(lambda self: 0))
    monkeypatch.setattr(index._handle.device, "name", "cuda:0")
    monkeypatch.setattr(index, "_ordinal", 0)
    monkeypatch.setattr(_lib.LIB, "vic_index_search", search)
    monkeypatch.setattr(_lib, "RAW_SEARCH", search)
    return index, calls


def results(nq, k, wrap=lambda array: Exported(array, device=CUDA0)):
    ids, scores = np.empty((nq, k), np.int64), np.empty((nq, k), np.float32)
    return ids, scores, (wrap(ids), wrap(scores))


def test_arrays_on_a_gpu_are_refused_for_an_index_on_the_cpu(rows):
    index = vicinal.build(rows, device="cpu")
    for array, where in ((Exported(rows, device=CUDA0), "cuda:0"), (CudaInterface(rows), "cuda"), (Exported(rows, device=(13, 1)), "managed"),
                         (Exported(rows, device=(10, 0)), "rocm"), (Exported(rows, device=(99, 0)), "99")):
        with pytest.raises(vicinal.ArgumentError, match=f"host.*{where}"):
            index.search(array)
        with pytest.raises(vicinal.ArgumentError, match=f"host.*{where}"):
            index.within(array, 0.5)
        with pytest.raises(vicinal.ArgumentError, match=f"host.*{where}"):
            vicinal.build(array)
        with pytest.raises(vicinal.ArgumentError, match=f"host.*{where}"):
            vicinal.build(rows, ids=array)
        assert getattr(array, "requests", []) == []  # no capsule was made only to be refused
    with pytest.raises(vicinal.ArgumentError, match="no stream"):
        index.search(rows, stream=1)


def test_pinned_host_memory_is_host_memory(rows):
    assert np.array_equal(vicinal.build(Exported(rows, device=(3, 0))).vectors(), rows)


def test_queries_on_the_gpu_reach_the_library_as_they_are(recorded, rows):
    index, calls = recorded
    queries, (ids, scores, out) = Exported(rows, device=CUDA0), results(6, 3)
    hits = index.search(queries, 3, out=out, stream=77)
    (call,) = calls
    assert (call.data, call.rows, call.stride, call.dtype, call.place, call.hits_place) == (rows.ctypes.data, 6, 16, _lib.F32, 2, 2)
    assert (call.stream, call.ids, call.scores, call.k) == (77, ids.ctypes.data, scores.ctypes.data, 3)
    assert hits.ids is out[0] and hits.scores is out[1]
    assert queries.requests == [{"max_version": (1, 1), "stream": 77}] and out[0].requests[0]["stream"] == 77


@pytest.mark.parametrize("stream,handle", [(1, 1), (2, 2), (12345, 12345), (types.SimpleNamespace(cuda_stream=0), 1),
                                           (types.SimpleNamespace(cuda_stream=640), 640), (types.SimpleNamespace(ptr=0), 1),
                                           (types.SimpleNamespace(ptr=2), 2), (types.SimpleNamespace(__cuda_stream__=lambda: (0, 640)), 640), (None, 1)])
def test_streams_are_passed_on_as_the_standards_say(recorded, rows, stream, handle):
    index, calls = recorded
    queries = Exported(rows, device=CUDA0)
    index.search(queries, 2, out=results(6, 2)[2], stream=stream)
    assert calls[0].stream == handle and queries.requests[0]["stream"] == handle


@pytest.mark.parametrize("stream", [0, -1, True, "1", 1.0])
def test_streams_that_say_nothing_are_refused(recorded, rows, stream):
    index, calls = recorded
    with pytest.raises(vicinal.ArgumentError, match="stream"):
        index.search(CudaInterface(rows), 2, out=results(6, 2, CudaInterface)[2], stream=stream)
    assert calls == []


def test_the_cuda_array_interface_names_its_stream(recorded, rows, monkeypatch):
    index, calls = recorded
    waits = []
    monkeypatch.setattr(_dlpack, "stream_wait", lambda waiting, producing: waits.append((waiting, producing)))
    out = results(6, 2, CudaInterface)[2]
    index.search(CudaInterface(rows, stream=640), 2, out=out)
    assert calls[-1].stream == 640 and waits == []
    index.search(CudaInterface(rows, stream=640), 2, out=out, stream=77)
    assert calls[-1].stream == 77 and waits == [(77, 640)]
    index.search(CudaInterface(rows, stream=None), 2, out=out)
    assert calls[-1].stream == 1
    with pytest.raises(vicinal.ArgumentError, match="__cuda_array_interface__"):
        index.search(CudaInterface(rows, stream=0), 2, out=out)
    for changes, sentence in (({"mask": rows}, "mask"), ({"typestr": ">f4"}, ">f4"), ({"typestr": "<c8"}, "<c8")):
        with pytest.raises(vicinal.ElementTypeError, match=sentence):
            index.search(CudaInterface(rows, **changes), 2, out=out)


def test_ordering_streams_goes_through_the_driver(monkeypatch):
    made = []

    class Driver:
        def __getattr__(self, name):
            return lambda *arguments: made.append((name, [getattr(a, "value", None) for a in arguments])) or 0

    monkeypatch.setattr(_dlpack, "_driver", Driver)
    _dlpack.stream_wait(77, 640)
    assert [name for name, _ in made] == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2"]
    assert made[1][1][1] == 640 and made[2][1][0] == 77

    class Broken:
        def __getattr__(self, name):
            return lambda *arguments: 201 if name == "cuEventRecord" else 0

    monkeypatch.setattr(_dlpack, "_driver", Broken)
    with pytest.raises(vicinal.DeviceError, match="201.*cuEventRecord"):
        _dlpack.stream_wait(77, 640)


def test_PYT_07_queries_on_another_gpu_are_refused_naming_both(recorded, rows):
    index, calls = recorded
    with pytest.raises(vicinal.ArgumentError, match="cuda:0.*cuda:1"):
        index.search(Exported(rows, device=CUDA1), 2, out=results(6, 2)[2])
    with pytest.raises(vicinal.ArgumentError, match="out.ids.*cuda:0.*cuda:1"):
        index.search(Exported(rows, device=CUDA0), 2, out=results(6, 2, lambda array: Exported(array, device=CUDA1))[2])
    assert calls == []


def test_what_a_gpu_could_not_read_or_write_is_refused(recorded, rows, numbers):
    index, calls = recorded
    wide = numbers.standard_normal((6, 8), np.float32)

    def on_gpu(array):
        return Exported(array, device=CUDA0)

    index.search(on_gpu(wide[:, :4]), 2, out=results(6, 2)[2])
    assert calls[0].stride == 32
    index.search(on_gpu(rows[2]), 2, out=(on_gpu(np.empty(2, np.int64)), None))
    assert calls[1].rows == 1 and calls[1].scores is None
    for queries, error in ((wide[:, ::2], vicinal.ArgumentError), (rows[::-1], vicinal.ArgumentError), (rows.astype(np.float64), vicinal.ElementTypeError),
                           (rows.astype(np.float16), vicinal.ElementTypeError), (rows[None], vicinal.DimensionError)):
        with pytest.raises(error):
            index.search(on_gpu(queries), 2, out=results(6, 2)[2])
    for ids, scores, error in ((np.empty((6, 2), np.uint32), None, vicinal.ElementTypeError), (np.empty((6, 3), np.int64), None, vicinal.DimensionError),
                               (np.empty((6, 4), np.int64)[:, ::2], None, vicinal.ArgumentError),
                               (np.empty((6, 2), np.int64), np.empty((6, 2)), vicinal.ElementTypeError)):
        with pytest.raises(error, match="out."):
            index.search(on_gpu(rows), 2, out=(on_gpu(ids), None if scores is None else on_gpu(scores)))
    fixed = np.empty((6, 2), np.int64)
    fixed.flags.writeable = False
    with pytest.raises(vicinal.ArgumentError, match="read-only"):
        index.search(on_gpu(rows), 2, out=(on_gpu(fixed), None))
    for out in (3, (on_gpu(np.empty((6, 2), np.int64)),)):
        with pytest.raises(vicinal.ArgumentError, match=r"\(ids, scores\)"):
            index.search(on_gpu(rows), 2, out=out)
    with pytest.raises(vicinal.ArgumentError, match="out="):
        index.search(on_gpu(rows), 2)
    assert len(calls) == 2


class FakeTorchTensor:
    """What of a PyTorch tensor is used: made to look like one by its module's name."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, sys.intern(f"torch.{array.dtype.name}")  # one object a type
        self.device = types.SimpleNamespace(index=0)

    def data_ptr(self):
        return self.array.ctypes.data

    def float(self):
        return FakeTorchTensor(self.array.astype(np.float32))

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def get_device(self):
        return self.device.index

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def __dlpack_device__(self):
        return 2, self.device.index

    def __dlpack__(self, **keywords):
        raise AssertionError("a capsule was asked for")

    def tolist(self):
        return self.array.tolist()


FakeTorchTensor.__module__ = "torch.fake"


class FakeGuards:
    """PyTorch's one look at several tensors."""

    def __init__(self, *tensors, dynamic_dims_sizes, dynamic_dims_strides):
        self.facts = [self.facts_of(tensor) for tensor in tensors]

    @staticmethod
    def facts_of(tensor):
        return type(tensor) is FakeTorchTensor and (tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device())

    def check(self, *tensors):
        return [self.facts_of(tensor) for tensor in tensors] == self.facts


@pytest.fixture(params=["raw stream", "stream object", "all that is hidden"])
def fake_torch(monkeypatch, request):
    made = []
    torch = types.SimpleNamespace(int64=np.int64, float32=sys.intern("torch.float32"), made=made, stream=0, Tensor=FakeTorchTensor)
    kinds = {"torch.float32": np.float32}
    torch.empty = lambda shape, dtype, device: made.append(FakeTorchTensor(np.empty(shape, kinds.get(dtype, dtype)))) or made[-1]
    torch.empty_like = lambda tensor: FakeTorchTensor(np.empty_like(tensor.array))
    torch.cuda = types.SimpleNamespace(current_stream=lambda ordinal: types.SimpleNamespace(cuda_stream=torch.stream))
    torch._C = types.SimpleNamespace(**({} if request.param == "stream object" else {"_cuda_getCurrentRawStream": lambda ordinal: torch.stream}))
    if request.param == "all that is hidden":
        torch._C._dynamo = types.SimpleNamespace(guards=types.SimpleNamespace(TensorGuards=FakeGuards, _empty_strided_cuda=lambda shape, strides, dtype: (
            torch.empty(shape, {"torch.int64": np.int64}.get(dtype, dtype), None))))
    monkeypatch.setattr(_gpu, "LIBRARIES", {})
    monkeypatch.setitem(_gpu.sys.modules, "torch", torch)
    return torch


def test_tensors_on_their_current_stream_give_tensors_without_a_capsule(recorded, rows, fake_torch):
    index, calls = recorded
    hits = index.search(FakeTorchTensor(rows), 3)
    assert hits.ids is fake_torch.made[0] and hits.scores is fake_torch.made[1] and hits.ids.shape == (6, 3)
    assert calls[0].stream == 1 and calls[0].data == rows.ctypes.data and calls[0].ids == hits.ids.data_ptr()
    fake_torch.stream = 640
    one = index.search(FakeTorchTensor(rows[0]), 3)
    assert calls[1].stream == 640 and one.ids.shape == (3,)


def test_a_search_like_an_earlier_one_runs_through_a_slot(recorded, rows, fake_torch, monkeypatch):
    index, calls = recorded
    first = index.search(FakeTorchTensor(rows), 3, beam=20)
    general = []
    monkeypatch.setattr(_gpu, "take", lambda array, stream: general.append(array) or (_ for _ in ()).throw(vicinal.ArgumentError("general")))
    fake_torch.stream = 640
    other = rows[::-1].copy()
    for _ in range(3):
        again = index.search(FakeTorchTensor(other), 3, beam=20)
        call = calls[-1]
        assert (call.data, call.rows, call.stream, call.k, call.beam) == (other.ctypes.data, 6, 640, 3, 20) and call.place == call.hits_place == 2
        assert (call.ids, call.scores) == (again.ids.data_ptr(), again.scores.data_ptr()) and again.ids.shape == (6, 3)
        assert call.ids not in (calls[0].ids, first.ids.data_ptr()) and again.ids.dtype == "torch.int64" and again.stats.queries == 0
    fake_torch.stream = 0
    ids, scores = (FakeTorchTensor(np.empty((6, 3), kind)) for kind in (np.int64, np.float32))
    mine = index.search(FakeTorchTensor(rows), 3, beam=20, out=(ids, scores))
    assert calls[-1].stream == 1 and general == [] and len(calls) == 5 and mine.ids is ids and mine.scores is scores
    assert (calls[-1].ids, calls[-1].scores) == (ids.data_ptr(), scores.data_ptr())
    for out in ((ids, None), (scores, ids), (FakeTorchTensor(np.empty((6, 4), np.int64)), scores), (ids.array, scores.array),
                (FakeTorchTensor(np.empty((6, 6), np.int64)[:, ::2]), scores)):
        with pytest.raises(vicinal.ArgumentError, match="general"):
            index.search(FakeTorchTensor(rows), 3, beam=20, out=out)
    for out in (3, (ids,), (ids, scores, ids), "ab c"):
        with pytest.raises(vicinal.ArgumentError, match="general"):
            index.search(FakeTorchTensor(rows), 3, beam=20, out=out)
    general.clear()
    apart = FakeTorchTensor(np.repeat(rows, 2, 1)[:, ::2])
    elsewhere = FakeTorchTensor(rows)
    elsewhere.device.index = 1
    for tensor, words in ((apart, {"beam": 20}), (elsewhere, {"beam": 20}), (FakeTorchTensor(rows), {}), (FakeTorchTensor(rows.astype(np.int8)), {"beam": 20}),
                          (FakeTorchTensor(rows[:5]), {"beam": 20}), (FakeTorchTensor(rows), {"beam": 20, "parents": 2}), (FakeTorchTensor(rows), {"beam": 20, "stream": 7})):
        with pytest.raises(vicinal.ArgumentError, match="general"):
            index.search(tensor, 3, **words)
    assert len(general) == 7 and len(calls) == 5
    index.close()
    with pytest.raises(vicinal.ArgumentError, match="closed"):
        index.search(FakeTorchTensor(rows), 3, beam=20)


def test_a_look_of_another_form_or_that_says_no_is_done_without(recorded, rows, fake_torch, monkeypatch):
    index, calls = recorded

    class Another:
        def __init__(self, *tensors, **keywords):
            pass

        def check(self, *tensors):
            return Another.answers.pop()

    for answers, form in (([], Another), ([None], Another), ([False, True], Another), ([], None), ([], 3)):
        Another.answers = answers
        monkeypatch.setattr(_gpu, "LIBRARIES", {})
        fake_torch._C._dynamo = types.SimpleNamespace(guards=types.SimpleNamespace(TensorGuards=form))
        index.search(FakeTorchTensor(rows), 3)
        with monkeypatch.context() as slots_only:
            slots_only.setattr(_gpu, "take", None)
            assert index.search(FakeTorchTensor(rows), 3).ids.shape == (6, 3) and calls[-1].data == rows.ctypes.data
        index._slots.clear()


def test_slots_that_do_not_fit_make_room_for_those_that_do(recorded, rows, fake_torch, monkeypatch):
    index, calls = recorded
    real = FakeTorchTensor.get_device
    monkeypatch.setattr(FakeTorchTensor, "get_device", lambda self: real(self) if self.array.dtype == np.float32 and self.array.shape[1] == 4 else 1)
    for turn in range(5):  # fresh results lie on another GPU, the current one
        index.search(FakeTorchTensor(rows), 3)
        assert len(calls) == turn + 1 and sum(map(len, index._slots.values())) <= 1
    monkeypatch.undo()


def test_a_stream_that_pytorch_has_no_name_for_waits_for_the_current_one(recorded, rows, fake_torch, monkeypatch):
    index, calls = recorded
    waits, entered = [], []
    monkeypatch.setattr(_dlpack, "stream_wait", lambda waiting, producing: waits.append((waiting, producing)))
    fake_torch.stream = 640
    fake_torch.cuda.ExternalStream = lambda stream, device: stream
    fake_torch.cuda.default_stream = lambda device: "default"
    fake_torch.cuda.stream = lambda stream: entered.append(stream) or contextlib.nullcontext()
    index.search(FakeTorchTensor(rows), 3, stream=2)  # its capsules refuse this one
    assert calls[-1].stream == 2 and set(waits) == {(2, 640)} and entered == [2]
    for stream in (1, 77):
        waits.clear(), entered.clear()
        monkeypatch.setattr(FakeTorchTensor, "__dlpack__", lambda self, **keywords: Exported(self.array, device=CUDA0).__dlpack__(**keywords))
        index.search(FakeTorchTensor(rows.astype(np.float16)), 3, stream=stream)
        assert calls[-1].stream == stream and waits == [(stream, 640)]  # before the widening
        assert set(entered) == {"default" if stream == 1 else stream}


def test_PYT_04_half_precision_tensors_are_widened_on_their_gpu(recorded, rows, fake_torch):
    index, calls = recorded
    for asked in (FakeTorchTensor(rows.astype(np.float16)), FakeTorchTensor(rows[0].astype(np.float16))):
        for _ in range(3):
            hits = index.search(asked, 2)
            assert calls[-1].dtype == _lib.F32 and calls[-1].data != asked.data_ptr() and hits.ids.shape[-1] == 2
    assert index._slots == {}  # which would serve none of them
    with pytest.raises(vicinal.ElementTypeError, match="float32"):
        index.search(FakeTorchTensor(rows.astype(np.float64)), 2)


def test_a_slot_s_failing_search_raises_and_the_slot_serves_on(recorded, rows, fake_torch, monkeypatch):
    index, calls = recorded
    index.search(FakeTorchTensor(rows), 3)
    with monkeypatch.context() as failing:
        failing.setattr(_lib, "RAW_SEARCH", lambda *arguments: _lib.DEVICE_ERROR)
        with pytest.raises(vicinal.DeviceError):
            index.search(FakeTorchTensor(rows), 3)
    index.search(FakeTorchTensor(rows), 3)
    assert len(calls) == 2 and sum(map(len, index._slots.values())) == 1


def test_cupy_arrays_take_the_slot_on_their_own_gpu_alone(recorded, rows, monkeypatch):
    index, calls = recorded

    class Array:
        def __init__(self, shape, dtype):
            self.array = np.zeros(shape, dtype)
            self.shape, self.dtype, self.flags = self.array.shape, self.array.dtype, self.array.flags
            self.data, self.device = types.SimpleNamespace(ptr=self.array.ctypes.data, device_id=0), contextlib.nullcontext()

        def __dlpack_device__(self):
            return CUDA0

        def __dlpack__(self, **keywords):
            return Exported(self.array, device=CUDA0).__dlpack__(**keywords)

    Array.__module__ = "cupy"
    here = [0]
    cupy = types.SimpleNamespace(ndarray=Array, int64=np.int64, float32=np.float32, empty=Array)
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDevice=lambda: here[0]),
                                      get_current_stream=lambda: types.SimpleNamespace(ptr=640))
    monkeypatch.setitem(_gpu.sys.modules, "cupy", cupy)
    monkeypatch.setattr(_gpu, "LIBRARIES", {})
    queries = Array(rows.shape, np.float32)
    index.search(queries, 3)
    asked = []
    monkeypatch.setattr(Array, "__dlpack__", lambda self, **keywords: asked.append(keywords) or Exported(self.array, device=CUDA0).__dlpack__(**keywords))
    again = index.search(queries, 3)
    assert asked == [] and calls[1].stream == 640 and calls[1].ids == again.ids.data.ptr and again.ids.dtype == np.int64
    here[0] = 1  # results would be made on the other GPU
    index.search(queries, 3)
    assert asked[0]["stream"] == 640 and len(calls) == 3


def test_a_k_that_cannot_be_is_refused_before_tensors_are_made(recorded, rows, fake_torch):
    index, calls = recorded
    with pytest.raises(vicinal.OutOfMemoryError):
        index.search(FakeTorchTensor(rows), 2**45)
    assert calls == [] and fake_torch.made == []
