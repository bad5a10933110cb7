"""Graphs from Python: built, walked at any beam, saved, and held against the exact search of the same rows."""
import pickle

import numpy as np
import pytest
import vicinal
from conftest import ROOT, same

DISKANN = ROOT / "test" / "data" / "diskann"
SHAPE = {"seed": 5, "clusters": 40, "spread": 0.5}


@pytest.fixture(scope="module")
def rows():
    return vicinal.generate("clusters", 5000, 24, **SHAPE)


@pytest.fixture(scope="module")
def queries():
    return vicinal.generate("clusters", 60, 24, first=5000, **SHAPE)


@pytest.fixture(scope="module")
def index(rows):
    return vicinal.build(rows, "l2", graph={"degree": 32}, device="cpu")


def test_a_wider_beam_looks_at_more_rows_and_finds_more(index, rows, queries):
    truth = vicinal.truth(rows, queries, 10, "l2")
    narrow, wide = (index.search(queries, 10, beam=beam) for beam in (10, 200))
    assert (narrow.stats.path, narrow.stats.beam, wide.stats.beam, wide.stats.parents) == ("graph", 10, 200, 1)
    assert 0 < narrow.stats.hops < wide.stats.hops and narrow.stats.distances < wide.stats.distances < 60 * 5000
    assert 0.5 < vicinal.recall(narrow, truth) <= vicinal.recall(wide, truth) and vicinal.recall(wide, truth) > 0.99


def test_hits_of_a_walk_have_exact_scores_in_order(index, queries):
    hits = index.search(queries, 20, beam=64)
    assert index.score(queries, hits.ids).tobytes() == hits.scores.tobytes() and (np.diff(hits.scores) >= 0).all()
    assert same(index.search(queries, 5, beam=64), (hits.ids[:, :5], hits.scores[:, :5]))


def test_single_searches_at_different_beams_are_not_mixed_up(index, queries):
    batches = {beam: index.search(queries, 10, beam=beam) for beam in (None, 10, 64, 150)}
    assert same(batches[None], batches[64])
    for _ in range(3):  # the first makes a prepared call, the others go through it
        for j in range(20):
            for beam, batch in batches.items():
                one = index.search(queries[j], 10, beam=beam)
                assert same(one, (batch.ids[j], batch.scores[j])) and one.stats.beam == (beam or 64)
    assert index.search(queries[0], 10, beam=np.int32(64)).stats.beam == 64
    assert index.search(queries, 10, beam=64, parents=4).stats.parents == 4


def test_walks_over_rows_and_codes_of_each_size(rows, queries):
    index = vicinal.build(rows, "l2", graph={"degree": 32}, planes=(8, 4), device="cpu")
    truth = vicinal.truth(rows, queries, 10, "l2")
    for codes, name in (("rows", "rows"), (8, "8"), ("8", "8"), (4, "4"), ("4", "4"), (None, "8")):
        hits = index.search(queries, 10, beam=100, codes=codes)
        assert hits.stats.codes == name and vicinal.recall(hits, truth) > 0.9, codes
        for _ in range(2):
            one = index.search(queries[7], 10, beam=100, codes=codes)
            assert same(one, (hits.ids[7], hits.scores[7])) and one.stats.codes == name
    assert index.search(queries, path="scan").stats.codes == "none"
    for codes in (5, "eight", [8], 8.5):
        with pytest.raises(vicinal.ArgumentError, match="codes None, 'rows', '8', '4'"):
            index.search(queries[0], codes=codes)
    with pytest.raises(vicinal.UnsupportedError, match="4"):
        vicinal.build(rows, graph=True).search(queries, codes=4)


def test_exact_paths_of_an_index_with_a_graph_give_the_bytes_of_one_without(index, rows, queries):
    flat = vicinal.build(rows, "l2", device="cpu")
    expected = flat.search(queries, 10)
    for path in ("scan", "select", "certified"):
        assert same(index.search(queries, 10, path=path), expected)
    assert same(flat.search(queries, 10, beam=5), expected) and flat.graph is None
    assert index.within(queries, 0.5).ids.tobytes() == flat.within(queries, 0.5).ids.tobytes()
    with pytest.raises(vicinal.UnsupportedError, match="graph"):
        flat.search(queries, path="graph")


def test_a_filter_is_honoured_exactly(index, rows, queries):
    allowed = np.arange(0, 5000, 7)
    hits = index.search(queries, 10, filter=allowed)
    assert hits.stats.fallback == "filter" and hits.stats.path != "graph"
    assert same(hits, vicinal.build(rows, "l2").search(queries, 10, filter=allowed))


def test_files_pickles_and_threads_keep_the_graph(index, rows, queries, tmp_path):
    expected = index.search(queries, 10)
    index.save(tmp_path / "two.vic")
    vicinal.build(rows, "l2", graph={"degree": 32}, path=tmp_path / "one.vic", threads=1)
    assert (tmp_path / "one.vic").read_bytes() == (tmp_path / "two.vic").read_bytes()
    with vicinal.open(tmp_path / "one.vic", device="cpu") as opened:
        assert opened.graph == index.graph and same(opened.search(queries, 10), expected)
        assert same(pickle.loads(pickle.dumps(opened)).search(queries, 10), expected)
    assert same(pickle.loads(pickle.dumps(index)).search(queries, 10), expected)


def test_what_an_index_says_of_its_graph(index):
    assert index.graph.degree == 32 and index.graph.entries >= 1 and index.graph.repairs >= 0
    assert (index.graph.beam, index.graph.alpha) == (100, 1.1) and index.graph.builder.startswith("vicinal ")
    assert "graph of degree 32" in repr(index) and "degree 32, " in index._repr_html_()


def test_a_report_counts_every_edge(index, rows):
    report = index.graph_report()
    assert (report.rows, report.degree, report.entries, report.unreached) == (5000, 32, index.graph.entries, 0)
    assert sum(report.histogram) == 5000 and 1 <= report.least <= report.most <= 32 and report.symmetric <= report.edges <= 5000 * 32
    with pytest.raises(vicinal.UnsupportedError, match="graph"):
        vicinal.build(rows[:10]).graph_report()


def test_an_index_gains_a_graph_when_it_is_opened(index, rows, queries, tmp_path):
    vicinal.build(rows, "l2", path=tmp_path / "x.vic", device="cpu").close()
    before = (tmp_path / "x.vic").read_bytes()
    with vicinal.open(tmp_path / "x.vic", device="cpu", graph={"degree": 32}) as opened:
        assert opened.graph == index.graph and same(opened.search(queries, 10), index.search(queries, 10))
        assert (tmp_path / "x.vic").read_bytes() == before
        copy = pickle.loads(pickle.dumps(opened))
        assert copy.graph == index.graph and same(copy.search(queries, 10), index.search(queries, 10))
        opened.save(tmp_path / "x.vic")
    assert vicinal.open(tmp_path / "x.vic", device="cpu").graph == index.graph
    with pytest.raises(vicinal.CancelledError):
        vicinal.open(tmp_path / "x.vic", graph=True, progress=lambda *state: True)
    with pytest.raises(vicinal.ArgumentError, match="degree"):
        vicinal.open(tmp_path / "x.vic", graph={"degree": 0})


def test_indexes_of_diskann_are_opened_and_written(tmp_path):
    memory, disk = vicinal.open(DISKANN / "f", device="cpu"), vicinal.open(DISKANN / "f_disk.index", device="cpu")
    rows = vicinal.read(DISKANN / "f.data", format="bin", dtype="f32")
    for opened in (memory, disk):
        assert (len(opened), opened.metric, opened.dtype) == (300, "l2", "f32") and np.array_equal(opened.vectors(), rows) and opened.graph.degree
        assert opened.search(rows, 1, beam=50).ids[:, 0].tolist() == list(range(300))
    memory.save(tmp_path / "again", format="diskann")
    for ending in ("", ".data", "_metadata.bin"):
        assert (tmp_path / f"again{ending}").read_bytes() == (DISKANN / f"f{ending}").read_bytes(), ending
    memory.save(tmp_path / "new_disk.index", format="diskann-disk")
    again = vicinal.open(tmp_path / "new_disk.index", device="cpu")
    assert np.array_equal(again.vectors(), rows) and same(again.search(rows, 5, path="scan"), memory.search(rows, 5, path="scan"))
    cosine = vicinal.open(DISKANN / "f_disk.index", device="cpu", metric="cosine", dtype="f32")
    copy = pickle.loads(pickle.dumps(cosine))
    assert cosine.metric == copy.metric == "cosine" and same(copy.search(rows[:9], 5), cosine.search(rows[:9], 5))
    bytes_of = vicinal.open(DISKANN / "u_disk.index", device="cpu", dtype="u8")
    assert bytes_of.dtype == "u8" and len(bytes_of) == 300


def test_what_diskann_s_files_cannot_hold_is_refused(index, rows, tmp_path):
    (tmp_path / "u_disk.index").write_bytes((DISKANN / "u_disk.index").read_bytes())  # nothing beside it says which kind of byte
    with pytest.raises(vicinal.ElementTypeError, match="u8"):
        vicinal.open(tmp_path / "u_disk.index")
    for source in (vicinal.build(rows[:50]), vicinal.build(rows[:50], graph={"force": True}, ids=range(7, 57))):
        with pytest.raises(vicinal.UnsupportedError):
            source.save(tmp_path / "y", format="diskann")
    with pytest.raises(vicinal.ArgumentError, match="diskann"):
        index.save(tmp_path / "y", format="faiss")
    index.save(tmp_path / "y.vic")
    with pytest.raises(vicinal.ArgumentError, match="dtype"):
        vicinal.open(tmp_path / "y.vic", dtype="f16")
    with pytest.raises(vicinal.ArgumentError, match="cosine"):
        vicinal.open(tmp_path / "y.vic", metric="cosin")
    assert not (tmp_path / "y").exists()


def test_product_codes_can_be_walked_over(rows, queries):
    index = vicinal.build(rows, "l2", graph={"degree": 32, "pq_chunks": 4})
    assert index.graph.pq_chunks == 4 and index.graph.pq_error > 0
    hits = index.search(queries, 10, beam=300, codes="pq")
    assert hits.stats.codes == "pq" and same(hits, index.search(queries, 10, beam=300, codes="rows"))
    with pytest.raises(vicinal.ArgumentError, match="found 100 chunks"):
        vicinal.build(rows, graph={"pq_chunks": 100})


def test_few_rows_get_a_graph_only_by_force(rows):
    assert vicinal.build(rows[:100], graph=True).graph is None
    forced = vicinal.build(rows[:100], graph={"force": True, "degree": None, "alpha": 1.1, "beam": np.int64(50)})
    assert forced.graph.degree == 64 and forced.search(rows[:100], 1).ids[:, 0].tolist() == list(range(100))
    assert vicinal.build(rows, graph=False).graph is None


@pytest.mark.parametrize("graph", [{"degree": 0}, {"degree": 513}, {"degree": 2**40}, {"beam": -1}, {"alpha": 0.5}, {"alpha": float("nan")}, {"alpha": 3},
                                   {"dgree": 8}, 7, "graph", [("degree", 8)]])
def test_EMP_04_a_graph_s_options_out_of_range_are_refused_by_name(rows, graph):
    with pytest.raises(vicinal.ArgumentError, match="graph.*degree|graph's (beam|alpha)"):
        vicinal.build(rows, graph=graph)


def test_beams_that_cannot_be_are_refused(index, queries):
    for words in ({"beam": 0}, {"beam": -3}, {"beam": 2**40}, {"parents": 0}, {"parents": 9}):
        for asked in (queries, queries[0]):
            with pytest.raises(vicinal.ArgumentError, match=next(iter(words))):
                index.search(asked, **words)
    for words in ({"beam": "64"}, {"beam": 64.0}, {"parents": 1.5}):
        index.search(queries[0], beam=64)
        with pytest.raises(TypeError):
            index.search(queries[0], **words)
    assert index.search(queries[0], beam=10**6).stats.fallback == "beam"


def test_a_plan_counts_the_graph():
    flat, graph = vicinal.plan(10**6, 384, dtype="f16"), vicinal.plan(10**6, 384, dtype="f16", graph={"degree": 32})
    assert flat.graph_bytes == flat.build_bytes == 0 < graph.build_bytes <= graph.workspace_bytes and graph.graph_bytes >= 10**6 * 32 * 4
    assert graph.file_bytes - flat.file_bytes > 10**6 * (32 * 4 + 384) and graph.host_bytes > flat.host_bytes
