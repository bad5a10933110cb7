"""Files: indexes, vectors, truth; recall; data that is the same everywhere."""
import os
import pickle

import numpy as np
import pytest
import vicinal
from conftest import SENSES, oracle, same


def rows_of(numbers, n=60, dim=8, kind=np.float32):
    return (numbers.standard_normal((n, dim)) * 20).clip(0, 100).astype(kind)


def test_an_index_is_saved_opened_and_checked(numbers, tmp_path):
    rows = rows_of(numbers)
    built = vicinal.build(rows, "l2", ids=np.arange(60) + 5, texts=[f"t{i}" for i in range(60)], metadata={"a": [1]})
    built.save(tmp_path / "x.vic")
    with vicinal.open(tmp_path / "x.vic", check=True) as opened:
        assert same(opened.search(rows[:9]), built.search(rows[:9])) and opened.text(7) == "t2" and opened.metadata == {"a": [1]}
        assert opened.path == str(tmp_path / "x.vic") and opened.memory.mapped > 0 and "x.vic" in repr(opened)
        opened.check()
    with pytest.raises(vicinal.ArgumentError, match="closed"):
        opened.search(rows[0])
    with pytest.raises(vicinal.ArgumentError, match="closed"):
        opened.search(rows[0], 3, path="scan")
    opened.close()


def test_planes_can_be_made_when_a_file_is_opened(numbers, tmp_path):
    vicinal.build(rows_of(numbers), planes="none").save(tmp_path / "x.vic")
    assert vicinal.open(tmp_path / "x.vic").planes == ()
    assert vicinal.open(tmp_path / "x.vic", planes=(8, 4)).planes == (8, 4)


def test_a_flipped_bit_is_found(numbers, tmp_path):
    path = tmp_path / "x.vic"
    vicinal.build(rows_of(numbers)).save(path)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(vicinal.FormatError):
        vicinal.open(path, check=True)


def test_what_is_no_index_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.vic"):
        vicinal.open(tmp_path / "nowhere.vic")
    with pytest.raises(vicinal.NotFoundError):
        vicinal.read(tmp_path / "nowhere.npy")
    np.save(tmp_path / "x.npy", np.ones((3, 3), np.float32))
    with pytest.raises(vicinal.FormatError, match="npy|NumPy"):
        vicinal.open(tmp_path / "x.npy")
    with pytest.raises(OSError):
        vicinal.build(np.eye(2, dtype=np.float32)).save(tmp_path / "no" / "such" / "folder.vic")


def test_an_index_is_built_from_a_file_and_into_a_file(numbers, tmp_path):
    rows = rows_of(numbers)
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "texts.txt").write_text("".join(f"line {i}\n" for i in range(60)))
    index = vicinal.build(tmp_path / "rows.npy", "l2", texts=tmp_path / "texts.txt", ids=np.arange(60) * 2, path=tmp_path / "x.vic")
    assert index.path == str(tmp_path / "x.vic") and index.text(8) == "line 4"
    assert same(vicinal.open(str(tmp_path / "x.vic")).search(rows[:5]), index.search(rows[:5]))
    assert same(index.search(rows[:5]), oracle_free(rows, np.arange(60) * 2).search(rows[:5]))
    with pytest.raises(FileNotFoundError):
        vicinal.build(tmp_path / "none.npy", ids=[1])


def oracle_free(rows, ids):
    return vicinal.build(rows, "l2", ids=ids)


def test_float64_files_are_refused_or_converted(numbers, tmp_path):
    np.save(tmp_path / "rows.npy", numbers.standard_normal((5, 3)))
    with pytest.raises(vicinal.ElementTypeError, match="f64|float64"):
        vicinal.read(tmp_path / "rows.npy")
    with pytest.raises(vicinal.ElementTypeError, match="f64|float64"):
        vicinal.build(tmp_path / "rows.npy")
    converted = vicinal.read(tmp_path / "rows.npy", dtype="f32")
    assert np.array_equal(converted, np.load(tmp_path / "rows.npy").astype(np.float32))
    assert np.array_equal(vicinal.build(tmp_path / "rows.npy", convert=True).vectors(), converted)
    assert vicinal.build(tmp_path / "rows.npy", convert=True, dtype="f16").dtype == "f16"


@pytest.mark.parametrize("ending,kind", [("fvecs", np.float32), ("bvecs", np.uint8), ("fbin", np.float32), ("u8bin", np.uint8), ("i8bin", np.int8),
                                         ("f16bin", np.float16), ("npy", np.float32), ("npy", np.float16), ("npy", np.int8)])
def test_vectors_go_into_files_and_come_back(numbers, tmp_path, ending, kind):
    rows, path = rows_of(numbers, kind=kind), tmp_path / f"rows.{ending}"
    vicinal.write(path, rows[:, ::2])
    back = vicinal.read(path)
    assert back.dtype == kind and np.array_equal(back, rows[:, ::2])
    assert np.array_equal(vicinal.read(path, 7, 11), rows[7:18, ::2])
    facts = vicinal.info(path)
    assert (facts.rows, facts.dim, facts.bytes) == (60, 4, os.path.getsize(path)) and facts.dtype == vicinal.build(rows).dtype
    with pytest.raises(vicinal.DimensionError, match="60"):
        vicinal.read(path, 50, 11)
    with pytest.raises(vicinal.Error):
        vicinal.write(tmp_path / "rows.unheard", rows)


def test_vectors_larger_than_a_block_are_whole(numbers, tmp_path, monkeypatch):
    monkeypatch.setattr("vicinal._files.BLOCK_BYTES", 100)
    rows = rows_of(numbers)
    vicinal.write(tmp_path / "rows.npy", rows[::-1])
    assert np.array_equal(vicinal.read(tmp_path / "rows.npy"), rows[::-1])


def test_a_file_says_what_it_is(tmp_path):
    vicinal.build(np.eye(3, dtype=np.float32), "l2").save(tmp_path / "x.vic")
    facts = vicinal.info(tmp_path / "x.vic")
    assert facts.format == "vicinal" and facts.metric == "l2" and facts.rows == 3 and facts.version >= 1 and facts.sections[0][0]
    (tmp_path / "noise").write_bytes(b"\x01\x02\x03")
    assert vicinal.info(tmp_path / "noise").format == "unknown" and vicinal.info(tmp_path / "noise").note
    assert vicinal.info(SENSES / "senses_f16.npy").dtype == "f16"
    with pytest.raises(FileNotFoundError):
        vicinal.info(tmp_path / "nowhere")


def test_truth_is_exact_and_round_trips(numbers, tmp_path):
    rows, queries = rows_of(numbers).round(), rows_of(numbers, 5).round()
    truth = vicinal.truth(rows, queries, 7, "l2")
    assert same(vicinal.build(rows, "l2").search(queries, 7), truth) and np.array_equal(truth.ids, oracle(rows, queries, "l2", 7)[0])
    for ending, distances in (("bin", True), ("ivecs", False), ("npy", False)):
        vicinal.write_truth(tmp_path / f"t.{ending}", truth)
        back = vicinal.read_truth(tmp_path / f"t.{ending}")
        assert np.array_equal(back.ids, truth.ids)
        assert (back.distances is not None) == distances and (not distances or np.array_equal(back.distances, truth.distances))
        assert vicinal.recall(tmp_path / f"t.{ending}", truth) == 1.0
    vicinal.write(tmp_path / "rows.fbin", rows)
    vicinal.write(tmp_path / "queries.fbin", queries)
    assert np.array_equal(vicinal.truth(tmp_path / "rows.fbin", tmp_path / "queries.fbin", 7, "l2").ids, truth.ids)
    with pytest.raises(FileNotFoundError):
        vicinal.read_truth(tmp_path / "none.bin")


def test_recall_takes_hits_truth_and_plain_ids(numbers):
    rows = rows_of(numbers)
    index = vicinal.build(rows, "l2")
    hits, truth = index.search(rows[:6], 5), vicinal.truth(rows, rows[:6], 10, "l2")
    assert vicinal.recall(hits, truth) == 1.0 and vicinal.recall(hits.ids, truth.ids, k=5) == 1.0
    assert vicinal.recall([[1, 2], [3, 4]], [[1, 9], [4, 3]]) == 0.75
    assert vicinal.recall([1, 2, 9, 8], [1, 2, 3, 4]) == 0.5
    assert vicinal.recall(index.search(rows[0], 5), (truth.ids[0], truth.distances[0])) == 1.0
    tied = ([[7]], np.float32([[2.0]]))
    assert vicinal.recall(tied, ([[3]], np.float32([[2.0]])), 1) == 1.0 and vicinal.recall([[7]], [[3]]) == 0.0
    with pytest.raises(vicinal.IdError, match="0"):
        vicinal.recall([[1, 1]], [[1, 2]])
    with pytest.raises(vicinal.IdError):
        vicinal.recall([[1, 20]], [[1, 2]], n=10)
    for wrong in (([[1.5]], [[1]]), ([[[1]]], [[1]]), (([[1]], [[1, 2]]), [[1]]), (([[1]], [[1]]), [[1]])):
        with pytest.raises((vicinal.ElementTypeError, vicinal.DimensionError)):
            vicinal.recall(*wrong)


def test_generated_data_does_not_depend_on_blocks_or_threads():
    for kind in ("gauss", "clusters", "manifold", "duplicates"):
        whole = vicinal.generate(kind, 100, 24, seed=3)
        assert whole.tobytes() == vicinal.generate(kind, 100, 24, seed=3, threads=1).tobytes()
        assert whole[40:60].tobytes() == vicinal.generate(kind, 20, 24, seed=3, first=40).tobytes()
        assert whole.tobytes() != vicinal.generate(kind, 100, 24, seed=4).tobytes()
    for dtype in ("f16", "i8", "u8", "bf16"):
        assert vicinal.generate("gauss", 5, 3, dtype=dtype).shape == (5, 3)
    with pytest.raises(vicinal.ArgumentError, match="gauss"):
        vicinal.generate("gaus", 1, 1)


def test_pickles_go_by_path_or_by_bytes(numbers, tmp_path):
    rows = rows_of(numbers)
    built = vicinal.build(rows, "l2", texts=["x"] * 60)
    built.save(tmp_path / "x.vic")
    by_path, by_bytes = pickle.dumps(vicinal.open(tmp_path / "x.vic")), pickle.dumps(built)
    assert len(by_path) < 1000 < rows.nbytes < len(by_bytes)
    for pickled in (by_path, by_bytes):
        copy = pickle.loads(pickled)
        assert same(copy.search(rows[:4]), built.search(rows[:4])) and copy.text(3) == "x" and copy.device == built.device
    again = pickle.loads(pickle.dumps(pickle.loads(by_bytes)))
    assert again.path is None and same(again.search(rows[:4]), built.search(rows[:4]))
    (tmp_path / "x.vic").unlink()
    with pytest.raises(FileNotFoundError, match="x.vic"):
        pickle.loads(by_path)


def test_devices_are_listed_and_shared():
    names = {device.name: device for device in vicinal.devices()}
    cpu = names["cpu"]
    assert cpu.usable and cpu.kernels and cpu.threads >= 1 and all(device.usable or device.sentence for device in names.values())
    one, two = vicinal.build(np.eye(2, dtype=np.float32), device="cpu"), vicinal.build(np.eye(2, dtype=np.float32), device="cpu")
    assert one._handle.device is two._handle.device
    assert vicinal.build(np.eye(2, dtype=np.float32), threads=1, device="cpu")._handle.device.info.threads == 1
    mine = vicinal.Device("cpu", threads=2)
    assert vicinal.build(np.eye(2, dtype=np.float32), device=mine)._handle.device is mine and "2 threads" in repr(mine)
    with pytest.raises(vicinal.ArgumentError, match="gpu0"):
        vicinal.build(np.eye(2, dtype=np.float32), device="gpu0")
    with pytest.raises(vicinal.ArgumentError):
        vicinal.build(np.eye(2, dtype=np.float32), device=3)
    with pytest.raises(vicinal.ArgumentError, match="threads"):
        vicinal.build(np.eye(2, dtype=np.float32), device=mine, threads=3)
    with pytest.raises(vicinal.ArgumentError, match="1024"):
        vicinal.build(np.eye(2, dtype=np.float32), threads=9999)


def test_a_device_is_calibrated_into_a_file(tmp_path):
    device = vicinal.Device("cpu")
    measured = device.calibrate(str(tmp_path / "calibration.json"))
    assert measured.scan_bytes_s > 1e6 and measured.plane_8_bytes_s > 0 and measured.seconds > 0
    assert (tmp_path / "calibration.json").stat().st_size > 0
    with pytest.raises(vicinal.NotFoundError):
        device.calibrate(str(tmp_path / "no" / "folder.json"))
