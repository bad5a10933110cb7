"""On a GPU: tensors in and out, their streams, late producers, what crosses the bus. Skipped where there is no CUDA device.

`sh test/gpu/python.sh` runs this file on a machine with one and keeps a receipt. The CPU's answer is the oracle, bit for bit. Where
an order on the GPU is proved, the queries hold other rows at first and the right ones are written by a kernel that waits: a search
that did not wait for it gives the other answer.
"""
import csv
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import vicinal
from conftest import run_python, same

found = [device for device in vicinal.devices() if device.name.startswith("cuda")]
pytestmark = pytest.mark.skipif(not any(device.usable for device in found), reason=f"no CUDA device: {found[0].sentence if found else 'none is known'}")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

N, DIM, K = 20000, 96, 10
LATE = 20_000_000  # cycles that a late producer waits: about 10 ms


@pytest.fixture(scope="module")
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch sees no CUDA device")
    return module


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def rows():
    return vicinal.generate("gauss", N, DIM, seed=1)


@pytest.fixture(scope="module")
def queries():
    return vicinal.generate("gauss", 64, DIM, seed=1, first=N)


@pytest.fixture(scope="module")
def index(rows):
    return vicinal.build(rows, "dot", device="cuda")


@pytest.fixture(scope="module")
def expected(rows, queries):
    """The CPU's answer."""
    return vicinal.build(rows, "dot", device="cpu").search(queries, K)


def host(array):
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


def agree(hits, expected):
    ids, scores = expected
    return np.array_equal(host(hits.ids), ids) and host(hits.scores).tobytes() == np.ascontiguousarray(scores).tobytes()


class ByDlpack:
    """A tensor that is known by its capsule alone."""

    def __init__(self, tensor):
        self.tensor, self.asked = tensor, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if keywords.get("stream") == 2:  # PyTorch refuses the per-thread default stream: the producer itself is waited for
            import torch
            torch.cuda.current_stream().synchronize()
            keywords = {**keywords, "stream": -1}
        return self.tensor.__dlpack__(**keywords)


class ByInterface:
    """A tensor that is known by its CUDA array interface alone, and by the stream that it is written on."""

    def __init__(self, tensor, stream=None):
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}
        self.tensor = tensor


def test_host_queries_get_the_cpu_s_bytes(index, queries, expected, rows):
    assert index.device.startswith("cuda") and same(index.search(queries, K), expected)
    assert same(index.search(queries[3], K), (expected.ids[3], expected.scores[3]))
    allowed, flat = np.arange(0, N, 3), vicinal.build(rows, "dot", device="cpu")
    assert same(index.search(queries, K, filter=allowed), flat.search(queries, K, filter=allowed))
    assert index.within(queries, 0.3).ids.tobytes() == flat.within(queries, 0.3).ids.tobytes()
    assert index.score(queries, expected.ids).tobytes() == expected.scores.tobytes()


def test_tensors_in_give_tensors_out(torch, index, queries, expected):
    asked = torch.from_numpy(queries).cuda()
    for _ in range(3):  # the first makes a prepared call, the others go through it
        hits = index.search(asked, K)
        assert isinstance(hits.ids, torch.Tensor) and hits.ids.is_cuda and hits.ids.dtype == torch.int64 and hits.scores.dtype == torch.float32
        assert agree(hits, expected) and hits.stats.queries == 64 and hits.count.tolist() == [K] * 64
        one = index.search(asked[5], K)
        assert one.ids.shape == (K,) and agree(one, (expected.ids[5], expected.scores[5]))
    assert agree(index.search(asked[::2], K), (expected.ids[::2], expected.scores[::2]))
    ids, scores = torch.empty((64, K), dtype=torch.int64, device="cuda"), torch.empty((64, K), device="cuda")
    assert index.search(asked, K, out=(ids, scores)).ids is ids and agree(vicinal.Hits(ids, scores, index, None), expected)


def test_cupy_arrays_in_give_cupy_arrays_out(cupy, index, queries, expected):
    asked = cupy.asarray(queries)
    for _ in range(3):
        hits = index.search(asked, K)
        assert isinstance(hits.ids, cupy.ndarray) and agree(hits, expected)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        assert agree(index.search(asked, K), expected)
        stream.synchronize()
    assert agree(index.search(asked[::2], K), (expected.ids[::2], expected.scores[::2]))


def test_PYT_04_half_precision_tensors_give_the_bytes_of_their_float32_copies(torch, index, queries, rows):
    flat = vicinal.build(rows, "dot", device="cpu")
    for kind in (torch.float16, torch.bfloat16):
        asked = torch.from_numpy(queries).to(kind)
        assert agree(index.search(asked.cuda(), K), flat.search(asked.float().numpy(), K))
        stored = torch.from_numpy(rows[:1000]).to(kind)
        with vicinal.build(stored, "dot", device="cuda") as small:
            wide = vicinal.build(stored.float(), "dot", device="cpu").search(queries, K)
            assert agree(small.search(torch.from_numpy(queries).cuda(), K), wide)


def test_CON_03_a_late_producer_on_the_same_stream_is_waited_for(torch, index, queries, expected):
    right, wrong = torch.from_numpy(queries).cuda(), torch.from_numpy(-queries).cuda()
    stream = torch.cuda.Stream()
    good = 0
    for turn in range(100):
        with torch.cuda.stream(stream if turn % 2 else torch.cuda.default_stream()):
            asked = wrong.clone()
            torch.cuda._sleep(LATE)
            asked.copy_(right)
            hits = index.search(asked, K)  # only enqueued
            good += agree(hits, expected)  # .cpu() is ordered after it
    assert good == 100


def test_a_search_is_enqueued_and_not_waited_for(torch, index, queries, expected):
    asked = torch.from_numpy(queries).cuda()
    index.search(asked, K)
    for words in ({}, {"out": (torch.empty((64, K), dtype=torch.int64, device="cuda"), torch.empty((64, K), device="cuda"))}):
        torch.cuda.synchronize()
        torch.cuda._sleep(50 * LATE)
        hits = index.search(asked, K, **words)
        assert not torch.cuda.current_stream().query()  # the kernel before it is still at work
        assert agree(hits, expected)


@pytest.mark.parametrize("stream", ["legacy", "per thread", "own"])
def test_CON_04_a_dlpack_producer_on_a_side_stream_is_waited_for(torch, index, queries, expected, stream):
    right, wrong = torch.from_numpy(queries).cuda(), torch.from_numpy(-queries).cuda()
    side, own = torch.cuda.Stream(), torch.cuda.Stream()
    ids, scores = torch.empty((64, K), dtype=torch.int64, device="cuda"), torch.empty((64, K), device="cuda")
    number = {"legacy": 1, "per thread": 2, "own": own.cuda_stream}[stream]
    for _ in range(10):
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            asked = wrong.clone()
            torch.cuda._sleep(LATE)
            asked.copy_(right)
            wrapped = ByDlpack(asked)
            hits = index.search(wrapped, K, out=(ids, scores), stream=own if stream == "own" else number)
        assert wrapped.asked[-1]["stream"] == number
        torch.cuda.synchronize()
        assert agree(hits, expected)
    for wrong_number in (0, -1):
        with pytest.raises(vicinal.ArgumentError, match="stream"):
            index.search(wrapped, K, out=(ids, scores), stream=wrong_number)


@pytest.mark.parametrize("stream", [1, 2])
@pytest.mark.parametrize("half", [False, True])
def test_a_tensor_on_a_side_stream_is_waited_for_by_a_stream_that_is_given(torch, index, queries, expected, stream, half):
    right = torch.from_numpy(queries).half() if half else torch.from_numpy(queries)
    if half:
        expected = index.search(right.float().numpy(), K)
    right, side = right.cuda(), torch.cuda.Stream()
    wrong = -right
    for _ in range(10):
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            asked = wrong.clone()
            torch.cuda._sleep(LATE)
            asked.copy_(right)
            hits = index.search(asked, K, stream=stream)
        torch.cuda.synchronize()
        assert agree(hits, expected)


def test_an_array_interface_s_stream_is_waited_for(torch, index, queries, expected):
    right, wrong = torch.from_numpy(queries).cuda(), torch.from_numpy(-queries).cuda()
    side, own = torch.cuda.Stream(), torch.cuda.Stream()
    ids, scores = torch.empty((64, K), dtype=torch.int64, device="cuda"), torch.empty((64, K), device="cuda")
    for _ in range(10):
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            asked = wrong.clone()
            torch.cuda._sleep(LATE)
            asked.copy_(right)
        hits = index.search(ByInterface(asked, side.cuda_stream), K, out=(ByInterface(ids), ByInterface(scores)), stream=own)
        assert hits.ids.tensor is ids
        own.synchronize()
        assert agree(vicinal.Hits(ids, scores, index, None), expected)


def test_cupy_s_current_stream_orders_the_search(cupy, torch, index, queries, expected):
    right, wrong = cupy.asarray(queries), cupy.asarray(-queries)
    stream = cupy.cuda.Stream(non_blocking=True)
    late = torch.cuda.ExternalStream(stream.ptr)
    for _ in range(20):
        cupy.cuda.Device().synchronize()
        with stream:
            asked = wrong.copy()
            with torch.cuda.stream(late):
                torch.cuda._sleep(LATE)
            asked[...] = right
            hits = index.search(asked, K)
            assert agree(hits, expected)  # .get() runs on the current stream


def test_jax_arrays_are_taken_with_out_of_another_library(torch, index, queries, expected):
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("this JAX sees no GPU")
    asked = jax.device_put(queries, device)
    with pytest.raises(vicinal.ArgumentError, match="out="):
        index.search(asked, K)
    ids, scores = torch.empty((64, K), dtype=torch.int64, device="cuda"), torch.empty((64, K), device="cuda")
    hits = index.search(asked, K, out=(ids, scores), stream=torch.cuda.current_stream())
    assert agree(hits, expected)


def test_no_byte_crosses_the_bus_between_tensors(torch, index, queries, expected):
    from torch.profiler import ProfilerActivity, profile
    asked = torch.from_numpy(queries).cuda()
    ids, scores = torch.empty((64, K), dtype=torch.int64, device="cuda"), torch.empty((64, K), device="cuda")
    index.search(asked, K)
    index.search(asked, K, out=(ids, scores))
    torch.cuda.synchronize()

    def seen(work):
        """Names of what ran on the GPU and of what asked for it."""
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            work()
            torch.cuda.synchronize()
        events = profiled.events()
        return [event.name for event in events], [event.name for event in events if str(event.device_type).endswith("CUDA")]

    def searches():
        for _ in range(20):
            index.search(asked, K)
            index.search(asked, K, out=(ids, scores))
            index.search(asked[7], K)

    names, kernels = seen(searches)
    assert len(kernels) >= 60, names  # a profile that saw no kernel would prove nothing
    assert [name for name in names if "memcpy" in name.lower()] == []
    assert any("DtoH" in name for name in seen(lambda: ids.cpu())[1])  # and it does see a copy
    assert agree(vicinal.Hits(ids, scores, index, None), expected)


def test_no_kernel_reads_or_writes_host_memory(torch):
    """What no list of copies shows: the bytes that kernels move over PCIe, as the card counts them. One of PyTorch's, which reads
    pinned memory, proves that they are counted."""
    tool = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not os.access(tool, os.X_OK):
        pytest.skip("no ncu is here")
    script = """
import torch, vicinal
class Pinned:
    memory = torch.zeros(1 << 19).pin_memory()
    __cuda_array_interface__ = {"shape": (1 << 19,), "typestr": "<f4", "data": (memory.data_ptr(), False), "version": 2}
pinned = torch.as_tensor(Pinned(), device="cuda")
index = vicinal.build(vicinal.generate("gauss", 20000, 96, seed=1), "dot", device="cuda")
asked = torch.from_numpy(vicinal.generate("gauss", 4096, 96, seed=1, first=20000)).cuda()
ids, scores = index.search(asked, 10)
index.search(asked[5], 10)
torch.cuda.synchronize()
torch.cuda.cudart().cudaProfilerStart()
index.search(asked, 10, out=(ids, scores))
index.search(asked, 10)
index.search(asked[5], 10)
pinned + 1
torch.cuda.synchronize()
torch.cuda.cudart().cudaProfilerStop()
"""
    done = subprocess.run([tool, "--profile-from-start", "off", "--metrics", "pcie__read_bytes.sum,pcie__write_bytes.sum", "--print-units", "base", "--csv",
                           sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
    told = list(csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"')))
    if done.returncode and not told:
        pytest.skip(f"ncu cannot count here: {(done.stdout + done.stderr)[-300:]}")
    moved = [(row["Kernel Name"], float(row["Metric Value"].replace(",", ""))) for row in told]
    theirs = [count for name, count in moved if "elementwise_kernel" in name]
    ours = [count for name, count in moved if "elementwise_kernel" not in name]
    assert theirs and max(theirs) >= 1 << 20, moved
    assert len(ours) >= 6 and max(ours) < 1 << 16, moved  # of 1.5 MiB of queries; the counting itself moves some KiB


def test_sixteen_threads_with_streams_of_their_own_get_the_same_bytes(torch, index, queries, expected):
    asked, failures = torch.from_numpy(queries).cuda(), []
    torch.cuda.synchronize()
    barrier = threading.Barrier(16)

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            barrier.wait()
            for turn in range(40):
                j = (number + turn) % 60
                part = index.search(asked[j:j + 4].clone(), K)
                one = index.search(asked[j].clone(), K)
                if not agree(part, (expected.ids[j:j + 4], expected.scores[j:j + 4])) or not agree(one, (expected.ids[j], expected.scores[j])):
                    failures.append((number, turn))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_captured_search_answers_what_its_queries_hold_at_replay(torch, index, queries, expected):
    asked = torch.from_numpy(-queries).cuda()
    index.search(asked, K)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        hits = index.search(asked, K)
    for turn in range(3):
        asked.copy_(torch.from_numpy(queries if turn % 2 else -queries))
        graph.replay()
        torch.cuda.synchronize()
    asked.copy_(torch.from_numpy(queries))
    graph.replay()
    assert agree(hits, expected)


def test_many_searches_hold_no_more_memory(torch, index, queries):
    asked = torch.from_numpy(queries).cuda()

    def searches(count):
        for i in range(count):
            index.search(asked, K)
            index.search(asked[i % 64], K)
        torch.cuda.synchronize()

    searches(200)
    before = torch.cuda.memory_allocated(), index.memory.device, torch.cuda.mem_get_info()[0]
    searches(3000)
    after = torch.cuda.memory_allocated(), index.memory.device, torch.cuda.mem_get_info()[0]
    assert after[:2] == before[:2] and before[2] - after[2] < 8 << 20


def test_PYT_07_tensors_of_another_gpu_are_refused_naming_both(torch, index, queries):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU is here")
    with pytest.raises(vicinal.ArgumentError, match="cuda:0.*cuda:1"):
        index.search(torch.from_numpy(queries).to("cuda:1"), K)


def test_tensors_for_an_index_on_the_cpu_are_refused(torch, rows, queries):
    with pytest.raises(vicinal.ArgumentError, match="host memory.*cpu"):
        vicinal.build(rows[:10], device="cpu").search(torch.from_numpy(queries).cuda())


def test_CON_06_a_forked_child_is_told_and_its_parent_goes_on():
    script = """
import os, numpy as np, vicinal
rows = vicinal.generate("gauss", 1000, 16, seed=1)
index = vicinal.build(rows, device="cuda")
before = index.search(rows[:3], 2)
child = os.fork()
if child == 0:
    try:
        index.search(rows[:3], 2)
    except vicinal.ForkedError as error:
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), index.search(rows[:3], 2).ids.tobytes() == before.ids.tobytes())
"""
    assert run_python(script).split() == ["7", "True"]
