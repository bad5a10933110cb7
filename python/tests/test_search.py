"""Searching against plain NumPy: whole-number vectors, whose sums are exact, compared bit for bit."""
import numpy as np
import pytest
import vicinal
from conftest import exact_scores, oracle, same
from hypothesis import given, settings
from hypothesis import strategies as st

shapes = st.tuples(st.integers(0, 40), st.integers(1, 5), st.integers(1, 140), st.integers(1, 50))
metrics = st.sampled_from(["dot", "cosine", "l2"])


def whole(seed, n, dim, low=-3, high=4):
    return np.random.default_rng(seed).integers(low, high, (n, dim)).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(shapes, metrics, st.integers(0, 2**32), st.sampled_from(["f32", "f16", "bf16", "i8"]), st.booleans())
def test_hits_are_the_best_rows_and_ties_go_to_the_smaller_id(shape, metric, seed, dtype, own_ids):
    n, nq, dim, k = shape
    rows, queries = whole(seed, n, dim), whole(seed + 1, nq, dim)
    ids = np.random.default_rng(seed).permutation(3 * n + 1)[:n] if own_ids else None
    index = vicinal.build(rows, metric, dtype=dtype, ids=ids)
    expected = oracle(rows, queries, metric, k, ids)
    hits = index.search(queries, k)
    assert same(hits, expected)
    assert hits.count.tolist() == [min(n, k)] * nq
    for j in range(nq):
        assert same(index.search(queries[j], k), (expected[0][j], expected[1][j]))


@settings(max_examples=40, deadline=None)
@given(shapes, metrics, st.integers(0, 2**32), st.booleans())
def test_filters_choose_before_the_best_are_chosen(shape, metric, seed, exclude):
    n, nq, dim, k = shape
    rows, queries, draw = whole(seed, n, dim), whole(seed + 1, nq, dim), np.random.default_rng(seed)
    listed = draw.integers(0, 2 * n + 1, draw.integers(0, n + 2))
    allowed = set(range(n)) - set(listed.tolist()) if exclude else set(listed.tolist())
    index = vicinal.build(rows, metric)
    chosen = index.filter(listed, exclude=exclude)
    assert len(chosen) == len(allowed & set(range(n)))
    expected = oracle(rows, queries, metric, k, allowed=allowed)
    assert same(index.search(queries, k, filter=chosen), expected)
    mask = np.isin(np.arange(n), list(allowed))
    assert same(index.search(queries, k, filter=mask), expected)
    if not exclude:
        assert same(index.search(queries, k, filter=listed.tolist()), expected)


@settings(max_examples=40, deadline=None)
@given(shapes, metrics, st.integers(0, 2**32))
def test_within_gives_every_row_that_is_good_enough_best_first(shape, metric, seed):
    n, nq, dim, _ = shape
    rows, queries = whole(seed, n, dim), whole(seed + 1, nq, dim)
    scores = exact_scores(rows, queries, metric)
    bound = float(np.median(scores)) if scores.size and np.isfinite(np.median(scores)) else 0.0
    ranges = vicinal.build(rows, metric).within(queries, bound)
    good = scores <= bound if metric == "l2" else scores >= np.float32(bound)
    full = oracle(rows, queries, metric, max(n, 1))
    assert len(ranges) == nq and ranges.count.tolist() == good.sum(1).tolist()
    for j in range(nq):
        ids, found = ranges[j]
        assert np.array_equal(ids, full[0][j][:len(ids)]) and found.tobytes() == full[1][j][:len(ids)].tobytes()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 200), metrics, st.integers(0, 2**32))
def test_scores_of_given_rows_are_the_search_s(n, nq, dim, metric, seed):
    draw = np.random.default_rng(seed)
    rows, queries = draw.standard_normal((n, dim), np.float32), draw.standard_normal((nq, dim), np.float32)
    index = vicinal.build(rows, metric)
    hits = index.search(queries, n)
    assert index.score(queries, hits.ids).tobytes() == hits.scores.tobytes()
    assert index.score(queries[0], hits.ids[0][:3]).tobytes() == hits.scores[0][:3].tobytes()
    worst = np.inf if metric == "l2" else -np.inf
    assert index.score(queries, [-1, 0])[:, 0].tolist() == [worst] * nq


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 200), st.integers(1, 90), metrics, st.integers(0, 2**32))
def test_real_numbers_agree_with_float64_and_every_path_gives_the_same_bytes(n, dim, metric, seed):
    draw = np.random.default_rng(seed)
    rows, queries = draw.standard_normal((n, dim), np.float32), draw.standard_normal((4, dim), np.float32)
    index = vicinal.build(rows, metric, planes=(8, 4))
    hits = index.search(queries, n)
    r, q = rows.astype(float), queries.astype(float)
    full = {"dot": q @ r.T, "l2": ((q[:, None] - r[None]) ** 2).sum(-1),
            "cosine": q @ r.T / np.linalg.norm(r, axis=1) / np.linalg.norm(q, axis=1)[:, None]}[metric]
    assert np.allclose(np.take_along_axis(full, hits.ids, 1), hits.scores, rtol=1e-4, atol=1e-4)
    assert (np.sort(hits.ids, 1) == np.arange(n)).all()
    for path in ("scan", "select", "certified"):
        again = index.search(queries, n, path=path)
        assert same(again, hits) and again.stats.queries == 4
        assert same(index.search(queries[2], min(n, 3), path=path), (hits.ids[2][:3], hits.scores[2][:3]))


def test_EMP_03_wrong_sizes_are_refused_naming_both_numbers_and_the_argument():
    index = vicinal.build(np.eye(3, dtype=np.float32))
    for query in (np.ones(384, np.float32), np.ones((2, 384), np.float32), [1.0] * 384):
        with pytest.raises(vicinal.DimensionError, match="queries.*3.*384"):
            index.search(query)
        with pytest.raises(vicinal.DimensionError, match="queries.*3.*384"):
            index.within(query, 0)
        with pytest.raises(vicinal.DimensionError, match="queries.*3.*384"):
            index.score(query, [0])
    with pytest.raises(vicinal.DimensionError, match=r"out.ids.*\(2, 5\).*\(3, 5\)"):
        index.search(np.ones((2, 3), np.float32), 5, out=(np.empty((3, 5), np.int64), None))
    with pytest.raises(vicinal.DimensionError, match=r"ids.*\(1, count\).*\(2, 4\)"):
        index.score(np.ones(3, np.float32), np.zeros((2, 4), np.int64))
    with pytest.raises(vicinal.DimensionError, match=r"\(3,\).*\(4,\)"):
        index.filter(np.ones(4, bool))
    assert index.search([1, 0, 0]).ids[0] == 0


def test_SIZ_09_a_k_that_cannot_be_is_refused():
    index = vicinal.build(np.eye(10, dtype=np.float32))
    query = np.ones(10, np.float32)
    for ask in (query, query[None], [1.0] * 10):
        for k in (0, -1, -2**70):
            with pytest.raises(vicinal.ArgumentError, match="at least 1"):
                index.search(ask, k)
        for k in (2**40, 2**62, 2**80):
            with pytest.raises(vicinal.OutOfMemoryError, match="needs .*bytes.*available"):
                index.search(ask, k)
        for k in (2.0, "3", None):
            with pytest.raises(TypeError):
                index.search(ask, k)
        hits = index.search(ask, 25)
        assert hits.count == 10 and (hits.ids[..., 10:] == -1).all() and (hits.scores[..., 10:] == -np.inf).all()


def test_the_prepared_call_and_the_general_one_refuse_alike():
    index = vicinal.build(np.eye(4, dtype=np.float32))
    query = np.ones(4, np.float32)
    assert same(index.search(query, 2), index.search(query, 2))
    for bad in (np.float32([1, np.nan, 0, 0]), np.float32([1, 0, 0, np.inf])):
        with pytest.raises(vicinal.NotFiniteError, match="[13]"):
            index.search(bad, 2)
    with pytest.raises(TypeError):
        index.search(query, 2.0)
    assert index.search(query, True).ids.shape == (1,)
    assert same(index.search(query, 2), oracle(np.eye(4), query[None], "cosine", 2)) is False  # shapes differ: (2,) and (1, 2)
    assert index.search(query, 2).ids.tolist() == [0, 1]


def test_results_of_earlier_searches_stay_as_they_were(numbers):
    rows = numbers.standard_normal((100, 8), np.float32)
    index = vicinal.build(rows)
    kept = [index.search(row, 3) for row in rows]
    copies = [(hits.ids.copy(), hits.scores.copy()) for hits in kept]
    for row in rows[::-1]:
        index.search(row, 3)
    assert all(same(hits, copy) for hits, copy in zip(kept, copies))
    assert all(hits.ids[0] == i for i, hits in enumerate(kept))
    assert len({hits.ids.ctypes.data for hits in kept}) == 100


def test_many_different_k_keep_few_prepared_calls(numbers):
    index = vicinal.build(numbers.standard_normal((300, 8), np.float32), device="cpu")
    query = np.ones(8, np.float32)
    full = index.search(query, 300)
    for k in range(1, 200):
        assert same(index.search(query, k), (full.ids[:k], full.scores[:k]))
    assert len(index._slots) <= 64


@pytest.mark.parametrize("name,metric", [("ip", "dot"), ("inner_product", "dot"), ("euclidean", "l2"), ("L2", "l2"), ("Cosine", "cosine"),
                                         ("dot", "dot")])
def test_metrics_have_the_names_of_the_field(name, metric):
    assert vicinal.build(np.eye(2, dtype=np.float32), name).metric == metric


def test_a_near_miss_gets_a_hint():
    rows = np.eye(2, dtype=np.float32)
    with pytest.raises(vicinal.ArgumentError, match="cosine"):
        vicinal.build(rows, "cosin")
    with pytest.raises(vicinal.ArgumentError, match="f16"):
        vicinal.build(rows, dtype="f61")
    with pytest.raises(vicinal.ArgumentError, match="scan"):
        vicinal.build(rows).search(rows, path="scna")
    with pytest.raises(vicinal.ArgumentError, match="planes"):
        vicinal.build(rows, planes=7)
    with pytest.raises(vicinal.ArgumentError, match="name of a metric"):
        vicinal.build(rows, 3)


@pytest.mark.parametrize("given_dtype,stored", [("f16", "f16"), (np.float16, "f16"), ("float32", "f32"), (np.dtype("int8"), "i8"), ("bf16", "bf16")])
def test_rows_are_stored_in_the_type_that_was_asked_for(given_dtype, stored):
    assert vicinal.build(np.eye(2, dtype=np.float32), dtype=given_dtype).dtype == stored


def test_stats_say_what_was_done(numbers):
    index = vicinal.build(numbers.standard_normal((500, 32), np.float32), planes="none")
    for hits in (index.search(np.ones(32, np.float32)), index.search(np.ones(32, np.float32)), index.search(np.ones((1, 32), np.float32))):
        assert hits.stats.path == "scan" and hits.stats.rows_scored == 500 and hits.stats.queries == 1 and hits.stats.bytes_read >= 500 * 128
    assert index.search(np.ones((3, 32), np.float32), path="certified").stats.fallback == "planes"
    assert index.within(np.ones((3, 32), np.float32), 0.0).stats.queries == 3


def test_what_an_index_says_of_itself(numbers):
    index = vicinal.build(numbers.standard_normal((500, 32), np.float32), "ip", ids=np.arange(500) * 2, texts=["a"] * 500, dtype="f16",
                          metadata={"model": "m", "n": 3}, planes=8, device="cpu")
    assert (len(index), index.dim, index.metric, index.dtype, index.device, index.path) == (500, 32, "dot", "f16", "cpu", None)
    assert index.metadata == {"model": "m", "n": 3} and index.has_texts and index.planes == (8,)
    assert index.memory.host > 500 * 64 and index.memory.mapped == 0 and 0 < index.memory.workspace < index.memory.host
    assert index.ids.tolist() == list(range(0, 1000, 2)) and 4 in index and 5 not in index
    assert "500 rows of 32 x f16, dot, on cpu" in repr(index) and "texts" in repr(index)
    html = index._repr_html_()
    assert html.startswith("<table>") and "<td>500</td>" in html and html.count("<tr>") == html.count("</tr>") == 11
    assert "best" in repr(index.search(np.ones(32, np.float32))) and "3 queries" in repr(index.search(np.ones((3, 32), np.float32)))
    assert "rows pass" in repr(index.filter([2])) and "answers" in repr(index.within(np.ones(32, np.float32), 0))
    index.close()
    assert "closed" in repr(index) and "closed" in index._repr_html_()


def test_texts_of_hits(senses):
    rows, questions, texts = senses
    index = vicinal.build(rows, "dot", texts=texts)
    hits = index.search(questions[:3], 4)
    assert hits.texts() == [[texts[i] for i in row] for row in hits.ids] and len(hits) == 3
    one = index.search(questions[0], 4)
    assert one.texts() == hits.texts()[0] and len(one) == 1
    few = vicinal.build(rows[:2], texts=["a", b"\xff"]).search(questions[:1], 4)
    assert sorted(few.texts()[0]) == ["a", "\ufffd"] and few.count.tolist() == [2]
    with pytest.raises(vicinal.NotFoundError, match="77777"):
        index.text(77777)
    with pytest.raises(LookupError, match="text"):
        vicinal.build(rows[:3]).search(questions[0]).texts()


def test_texts_keep_their_bytes():
    texts = ["", "ä\u4e2d\U0001f600", "a\nb", "nul\0inside", b"\xff\xfe", "lone \udcff"]
    index = vicinal.build(np.eye(6, dtype=np.float32), texts=texts)
    assert [index.text(i) for i in range(4)] == texts[:4]
    assert index.text(4, raw=True) == b"\xff\xfe" and index.text(5, raw=True) == b"lone \xff"
    assert vicinal.build(np.eye(2, dtype=np.float32), texts=np.array(["x", "y"])).text(1) == "y"
    for wrong in (["a"] * 5, [1] * 6, (text for text in ["a"])):
        with pytest.raises((vicinal.DimensionError, vicinal.ArgumentError)):
            vicinal.build(np.eye(6, dtype=np.float32), texts=wrong)


def test_the_demo_s_questions_find_their_words(senses):
    rows, questions, texts = senses
    from conftest import SENSES
    answers = (SENSES / "answers.txt").read_text(encoding="utf-8").splitlines()
    hits = vicinal.build(rows, "dot", texts=texts).search(questions, 10)
    found = sum(any(word.strip().lower() in text.split(":")[0].lower() for text in ten for word in words.split(","))
                for ten, words in zip(hits.texts(), answers))
    assert found == 58


def test_a_bad_row_refuses_the_whole_build():
    rows = np.eye(4, dtype=np.float32)
    rows[2, 3] = np.nan
    with pytest.raises(vicinal.NotFiniteError, match="2.*3"):
        vicinal.build(rows)
    for ids in ([0, 1, 1, 2], [0, 1, -5, 2]):
        with pytest.raises(vicinal.IdError, match="1|-5"):
            vicinal.build(np.eye(4, dtype=np.float32), ids=ids)
    try:
        vicinal.build(rows)
    except vicinal.Error as error:
        assert error.status == 4 and error.name == "VIC_NOT_FINITE" and isinstance(error, ValueError)


def test_a_budget_is_kept_and_both_numbers_named():
    device = vicinal.Device("cpu", threads=1, host_bytes=16 << 20)
    with pytest.raises(vicinal.BudgetError, match=f"{16 << 20}"):
        vicinal.build(np.ones((100000, 64), np.float32), device=device)
    small = vicinal.build(np.eye(4, dtype=np.float32), device=device)
    assert small.search([1, 0, 0, 0], 1).ids.tolist() == [0]
    plan = vicinal.plan(100000, 64, planes="none")
    assert plan.row_bytes == 100000 * 64 * 4 and plan.host_bytes >= plan.row_bytes + plan.workspace_bytes


def test_a_filter_of_another_index_is_refused():
    one, two = vicinal.build(np.eye(3, dtype=np.float32)), vicinal.build(np.eye(3, dtype=np.float32))
    with pytest.raises(vicinal.ArgumentError, match="another"):
        one.search([1, 0, 0], filter=two.filter([0]))
    assert one.search([1, 0, 0], filter=[]).count == 0


def test_ranges_have_their_edges():
    ranges = vicinal.build(np.eye(3, dtype=np.float32)).within(np.eye(3, dtype=np.float32)[:2], 0.5)
    assert ranges[0][0].tolist() == [0] and ranges[-1][0].tolist() == [1] and [ids.tolist() for ids, _ in ranges] == [[0], [1]]
    for query in (2, -3):
        with pytest.raises(IndexError):
            ranges[query]
    many = vicinal.build(np.ones((5000, 2), np.float32)).within([1, 1], 0.5)  # more than the first guess holds
    assert many[0][0].tolist() == list(range(5000)) and many.count.tolist() == [5000]
