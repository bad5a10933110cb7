"""How long things live and who may use them: threads, processes, interrupts, closing, leaks."""
import asyncio
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
import vicinal
from conftest import run_python, same


def small(numbers, n=500, dim=24, **options):
    rows = numbers.standard_normal((n, dim), np.float32)
    return vicinal.build(rows, device="cpu", **options), rows


def in_threads(work, count=16):
    """What each of the threads returned; they start together."""
    results, barrier = [None] * count, threading.Barrier(count)

    def run(i):
        barrier.wait()
        results[i] = work(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_sixteen_threads_on_one_index_get_the_same_bytes(numbers):
    index, rows = small(numbers)
    expected = [index.search(row, 10) for row in rows[:50]]
    batch = index.search(rows[:50], 10)

    def work(i):
        good = all(same(index.search(rows[j], 10), expected[j]) for _ in range(5) for j in range(50))
        return good and same(index.search(rows[:50], 10), batch)

    assert in_threads(work) == [True] * 16


def test_a_search_lets_other_threads_run(numbers):
    index, rows = small(numbers, 60000, 128)
    counted = []

    def count():
        while not counted or counted[-1] != "end":
            counted.append(time.perf_counter())
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(counted)
    index.search(rows[:200], 10)
    during = len(counted) - before
    counted.append("end")
    thread.join()
    assert during > 5  # held all the while, the lock would let it run at most once at the edges


def test_an_index_may_be_closed_while_others_search(numbers):
    for _ in range(20):
        index, rows = small(numbers, 2000)
        expected = index.search(rows[0], 5)

        def work(i):
            if i == 7:
                index.close()
                return True
            try:
                return all(same(index.search(rows[0], 5), expected) for _ in range(100))
            except vicinal.ArgumentError as error:
                return "closed" in str(error)

        assert in_threads(work) == [True] * 16
        with pytest.raises(vicinal.ArgumentError):
            index.search(rows[0], 5)


def test_handles_in_a_cycle_are_freed_in_any_order(numbers):
    class Last:
        def __init__(self, *held):
            self.held, self.me = held, self

        def __del__(self):
            try:
                self.held[0].search(np.ones(24, np.float32))
            except vicinal.Error:
                pass

    for _ in range(30):
        device = vicinal.Device("cpu", threads=1)
        index = vicinal.build(numbers.standard_normal((9, 24), np.float32), device=device)
        index.search(np.ones(24, np.float32))
        Last(index, index.filter([1]), device)
        del device, index
        gc.collect()


def test_a_filter_outlives_its_index(numbers):
    index, rows = small(numbers)
    chosen = index.filter([1, 2, 3])
    index.close()
    assert len(chosen) == 3
    del index
    gc.collect()
    assert len(chosen) == 3


def child_search(index, queries, pipe):
    hits = index.search(queries, 5)
    one = index.search(queries[0], 5)
    rebuilt = vicinal.build(queries, device="cpu").search(queries[:1], 1)
    pipe.send((hits.ids, hits.scores, one.ids, rebuilt.ids))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("from_file", [True, False])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_children_search_an_index_of_the_parent(numbers, tmp_path, method, from_file):
    index, rows = small(numbers)
    if from_file:
        index.save(tmp_path / "x.vic")
        index = vicinal.open(tmp_path / "x.vic", device="cpu")
    expected = index.search(rows[:30], 5)
    index.search(rows[0], 5)
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    child = context.Process(target=child_search, args=(index, rows[:30], there))
    child.start()
    ids, scores, one, rebuilt = here.recv() if here.poll(60) else pytest.fail("the child did not answer")
    child.join(60)
    assert child.exitcode == 0 and same(vicinal.Hits(ids, scores, index, None), expected)
    assert np.array_equal(one, expected.ids[0]) and rebuilt.tolist() == [[0]]


def test_searches_can_be_awaited(numbers):
    index, rows = small(numbers)

    async def several():
        return await asyncio.gather(*[index.asearch(row, 4) for row in rows[:40]], index.asearch(rows[:3], k=2, path="scan"))

    *singles, batch = asyncio.run(several())
    assert all(same(hits, index.search(row, 4)) for hits, row in zip(singles, rows)) and batch.ids.shape == (3, 2)


def test_progress_is_reported_and_can_cancel(numbers, tmp_path):
    rows, seen = numbers.standard_normal((2000, 16), np.float32), []
    index = vicinal.build(rows, progress=lambda stage, done, total, seconds: seen.append((stage, done, total)))
    assert seen and all(isinstance(stage, str) and stage and done >= 0 for stage, done, _ in seen)
    index.save(tmp_path / "x.vic", progress=lambda *state: seen.append(state))
    with pytest.raises(vicinal.CancelledError):
        vicinal.build(rows, progress=lambda *state: True)
    with pytest.raises(vicinal.CancelledError):
        index.save(tmp_path / "y.vic", progress=lambda *state: 1)
    assert os.listdir(tmp_path) == ["x.vic"]


def test_what_a_reporter_raises_comes_out(numbers):
    def report(*state):
        raise ZeroDivisionError("from the reporter")

    with pytest.raises(ZeroDivisionError, match="from the reporter"):
        vicinal.build(numbers.standard_normal((2000, 16), np.float32), progress=report)


@pytest.mark.parametrize("installed", [True, False])
def test_progress_true_shows_something(numbers, capsys, monkeypatch, installed):
    if installed:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    vicinal.build(numbers.standard_normal((2000, 16), np.float32), progress=True)
    shown = capsys.readouterr()
    assert shown.err.strip() and not shown.out


def test_ctrl_c_interrupts_a_build(numbers, tmp_path):
    rows, before = numbers.standard_normal((2000, 16), np.float32), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        vicinal.build(rows, path=tmp_path / "x.vic", progress=lambda *state: signal.raise_signal(signal.SIGINT))
    assert os.listdir(tmp_path) == [] and signal.getsignal(signal.SIGINT) is before
    assert len(vicinal.build(rows)) == 2000


def test_ctrl_c_from_outside_interrupts_a_build_without_progress():
    script = """
import os, signal, sys, threading, time, numpy as np, vicinal
rows = np.random.default_rng(1).standard_normal((400_000, 64), np.float32)
started = time.perf_counter()
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while time.perf_counter() - started < 60:
        vicinal.build(rows, device=vicinal.Device("cpu", threads=1), planes="none").close()
except KeyboardInterrupt:
    print("interrupted")
print(len(vicinal.build(rows[:100])))
"""
    assert run_python(script).split() == ["interrupted", "100"]


def test_a_program_s_own_handler_decides(numbers):
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        index = vicinal.build(numbers.standard_normal((2000, 16), np.float32), progress=lambda *state: signal.raise_signal(signal.SIGINT))
        assert len(index) == 2000 and heard and signal.getsignal(signal.SIGINT) is not before
    finally:
        signal.signal(signal.SIGINT, before)


def test_builds_work_in_other_threads(numbers):
    rows = numbers.standard_normal((300, 16), np.float32)
    assert in_threads(lambda i: len(vicinal.build(rows, device="cpu", progress=lambda *state: False)), 4) == [300] * 4


def test_devices_come_and_go_in_many_threads(numbers):
    rows = numbers.standard_normal((9, 16), np.float32)

    def work(i):
        return sum(len(vicinal.build(rows, device="cpu")) for _ in range(40))  # each may be the last that held the device

    assert in_threads(work) == [360] * 16


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_nothing_leaks_over_many_openings(numbers, tmp_path):
    index, rows = small(numbers, 50)
    index.save(tmp_path / "x.vic")
    device = vicinal.Device("cpu", threads=1)

    def round_trip(count):
        for _ in range(count):
            with vicinal.open(tmp_path / "x.vic", device=device) as opened:
                opened.search(rows[0])
                opened.search(rows[:2])
                opened.filter([1, 2])

    round_trip(500)
    gc.collect()
    memory, held, files = resident_bytes(), device.info.host_used, len(os.listdir("/proc/self/fd"))
    round_trip(10000)
    gc.collect()
    assert resident_bytes() - memory < 4 << 20
    assert device.info.host_used == held and len(os.listdir("/proc/self/fd")) == files


def test_searching_leaks_nothing(numbers):
    rows = numbers.standard_normal((50, 24), np.float32)
    index = vicinal.build(rows, device=vicinal.Device("cpu", threads=1))

    def searches(count):
        for i in range(count):
            index.search(rows[i % 50])
            index.search(rows[:3], 5)

    searches(2000)
    memory = resident_bytes()
    searches(20000)
    assert resident_bytes() - memory < 2 << 20
