"""In memory, in parts, any partitioning, any number of threads: the identical ranking."""

import copy
import gzip
from itertools import pairwise

import numpy as np
import pytest
import scalecases as sc
from hypothesis import given, settings
from hypothesis import strategies as st
from scalecases import rank_file

from hierlpr import Hierarchy
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.data.tables import Table, dense
from hierlpr.exceptions import DataError
from hierlpr.io import read_scores, table_output, write_ranking
from hierlpr.model.estimator import HierLPR
from hierlpr.scale import budget, rank_parts
from hierlpr.scale.rank_parts import Packing, ranked_rows, unpacked


@pytest.fixture
def small_parts(monkeypatch):
    """Batches and files as small as they get, so that little data makes many of them."""
    monkeypatch.setattr(table_output, "GROUP_ROWS", 500)
    monkeypatch.setattr(table_output, "FILE_ROWS", 1000)
    monkeypatch.setattr(rank_parts, "CHUNK_ROWS", 100)
    monkeypatch.setattr(budget.Budget, "batch_instances", property(lambda self: 700))


@pytest.mark.parametrize("dag", [False, True])
@pytest.mark.parametrize(("partitions", "threads"), [(None, 1), (1, 2), (3, 1), (7, 2)])
def test_wide_parquet_in_parts_is_the_ranking_in_memory(
    tmp_path, small_parts, monkeypatch, partitions, threads, dag
):
    monkeypatch.setenv("HIERLPR_NUM_THREADS", str(threads))
    case = sc.make_case(dag=dag)
    model, scores = sc.write_inputs(tmp_path, case)
    out = tmp_path / "out.parquet"
    done = rank_file(model, scores, out, partitions=partitions)
    expected = case.expected()
    sc.assert_same(out, expected)
    assert (done.n_rows, done.n_calls) == (expected[0].size, expected[5].sum())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"model.hlpr", "scores.parquet", "out.parquet"}


@pytest.mark.parametrize(
    "options",
    [{"top": 1}, {"top": 333}, {"top": 10**6}, {"calls_only": True},
     {"top": 50, "calls_only": True}],
)  # fmt: skip
def test_top_and_calls_only(tmp_path, small_parts, options):
    case = sc.make_case()
    model, scores = sc.write_inputs(tmp_path, case)
    rank_file(model, scores, tmp_path / "out.parquet", **options)
    sc.assert_same(tmp_path / "out.parquet", case.expected(**options))


def test_cutoffs_by_group_are_called_the_same(tmp_path, small_parts):
    case = sc.make_case()
    model = HierLPR(case.model.hierarchy_, lpr="isotonic")
    truth = case.model.hierarchy_.close_upward(case.table.values > 1.8)
    model.fit(case.table.values[:300], truth[:300])
    model.calibrate(case.table.values[300:], truth[300:], precision=0.7, groups="depth")
    case = sc.Case(model, case.table)
    path, scores = sc.write_inputs(tmp_path, case)
    for options in ({}, {"calls_only": True}):
        rank_file(path, scores, tmp_path / "out.parquet", **options)
        sc.assert_same(tmp_path / "out.parquet", case.expected(**options))


@pytest.mark.parametrize("top", [None, 1, 333])
@pytest.mark.parametrize("dag", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_calls_beside_a_ranking_are_those_of_predict(is_sparse, dag, top):
    case = sc.make_case(is_sparse=is_sparse, dag=dag)
    order = case.model.rank(case.table, top=top)
    for most in (None, 1, 2, 5):
        model = copy.copy(case.model)
        model.cutoff_ = Cutoff(0.1, "by hand", max_calls=most)
        called = dense(model.predict(case.table))
        got = sc.calls_along(order, model, case.table)
        np.testing.assert_array_equal(got, called[order.sample, order.label])
        assert 0 < called.sum() < called.size


@pytest.mark.parametrize("dag", [False, True])
@pytest.mark.parametrize("order", ["grouped", "shuffled"])
def test_long_tables_stay_sparse_and_may_come_in_any_order(tmp_path, small_parts, order, dag):
    case = sc.make_case(is_sparse=True, dag=dag)
    model, scores = sc.write_inputs(tmp_path, case)
    if order == "shuffled":
        n = case.table.values.nnz
        rng = np.random.default_rng(1)
        table = sc.long_table(case, rng.permutation(n))
        sc.pq.write_table(table, scores, row_group_size=200)
        # Samples are numbered by first appearance, which decides among ties.
        first = list(dict.fromkeys(table.column("sample").to_pylist()))
        place = {name: i for i, name in enumerate(case.table.samples)}
        rows = [place[name] for name in first]
        case = sc.Case(case.model, Table(case.table.values[rows], case.table.labels, tuple(first)))
    rank_file(model, scores, tmp_path / "out.parquet", partitions=4)
    sc.assert_same(tmp_path / "out.parquet", case.expected())


def test_text_of_every_layout_gives_the_same(tmp_path, small_parts):
    case, sparse_case = sc.make_case(), sc.make_case(is_sparse=True)
    complete, _ = sc.write_inputs(tmp_path, case)
    listed = tmp_path / "listed.hlpr"
    sparse_case.model.save(listed)
    wide, long = sc.wide_table(case), sc.long_table(sparse_case)
    sc.write_text(tmp_path / "wide.csv", wide)
    sc.write_text(tmp_path / "long.csv", long)
    sc.write_text(tmp_path / "cafa.tsv", long, delimiter="\t", header=False)
    plain = (tmp_path / "cafa.tsv").read_bytes()
    marked = b"AUTHOR X\nMODEL 1\n# note\n" + plain + b"END\n"
    (tmp_path / "cafa.tsv.gz").write_bytes(gzip.compress(marked))
    pairs = full_pairs(case)
    sc.write_text(tmp_path / "every_pair.csv", sc.long_table(pairs))
    for name, model, expected in [
        ("wide.csv", complete, case.expected()), ("long.csv", listed, sparse_case.expected()),
        ("cafa.tsv", listed, sparse_case.expected()),
        ("cafa.tsv.gz", listed, sparse_case.expected()),
        ("every_pair.csv", complete, case.expected()),
        ("every_pair.csv", listed, sc.Case(sparse_case.model, pairs.table).expected()),
    ]:  # fmt: skip
        rank_file(model, tmp_path / name, tmp_path / "out.parquet", partitions=3)
        sc.assert_same(tmp_path / "out.parquet", expected)
    for name, model in [("wide.csv", listed), ("long.csv", complete), ("cafa.tsv", complete)]:
        with pytest.raises(DataError, match=r"the model was fitted on\s(listed|complete) scores"):
            rank_file(model, tmp_path / name, tmp_path / "no.parquet", partitions=3)
        whole = read_scores(tmp_path / name, case.model.hierarchy_).table
        with pytest.raises(DataError, match=r"the model was fitted on\s(listed|complete) scores"):
            (case if model == complete else sparse_case).model.rank(whole)
    assert not (tmp_path / "no.parquet").exists()


def test_as_many_rows_as_pairs_need_not_be_all_pairs(tmp_path, small_parts):
    """In a CAFA file one pair may be missing and another one be there twice."""
    case = full_pairs(sc.make_case())
    case = sc.Case(sc.make_case(is_sparse=True).model, case.table)
    model, _ = sc.write_inputs(tmp_path, case)
    place = np.arange(case.table.values.nnz)
    place[7] = 8
    table = sc.long_table(case, place)
    sc.write_text(tmp_path / "cafa.tsv", table, delimiter="\t", header=False)
    rank_file(model, tmp_path / "cafa.tsv", tmp_path / "out.parquet", partitions=3)
    read = read_scores(tmp_path / "cafa.tsv", case.model.hierarchy_)
    assert sc.sparse.issparse(read.table.values)
    sc.assert_same(tmp_path / "out.parquet", sc.Case(case.model, read.table).expected())


def full_pairs(case):
    """The same case with every pair stored, zeros too."""
    n, k = case.table.values.shape
    stored = sc.sparse.csr_array(
        (case.table.values.ravel(), np.tile(np.arange(k), n), np.arange(n + 1) * k), shape=(n, k)
    )
    return sc.Case(case.model, Table(stored, case.table.labels, case.table.samples))


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz"])
@pytest.mark.parametrize("odd", ["", 'a"b', "a,b"])
def test_text_output_is_that_of_the_path_in_memory(tmp_path, name, odd):
    case = sc.make_case()
    names = (f"s{odd}", *case.table.samples[1:])
    case = sc.Case(case.model, sc.Table(case.table.values, case.table.labels, names))
    model, scores = sc.write_inputs(tmp_path, case)
    (tmp_path / "whole").mkdir()
    order = case.model.rank(case.table)
    write_ranking(tmp_path / "whole" / name, order,
                  call=sc.calls_along(order, case.model, case.table))  # fmt: skip
    rank_file(model, scores, tmp_path / name, partitions=3)
    opened = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / "whole" / name, "rb") as whole, opened(tmp_path / name, "rb") as parts:
        assert whole.read() == parts.read()


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u2003", "\x1f"])
def test_names_that_cafa_cannot_hold_are_refused_whole_and_in_parts(tmp_path, blank):
    case = sc.make_case()
    names = (case.table.samples[0], f"a{blank}b", *case.table.samples[2:])
    model, scores = sc.write_inputs(tmp_path, sc.Case(case.model, Table(
        case.table.values, case.table.labels, names)))  # fmt: skip
    said = []
    for how in ({}, {"partitions": 3}):
        with pytest.raises(DataError, match="the CAFA layout cannot hold sample names") as caught:
            rank_file(model, scores, tmp_path / "out.tsv", **how)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert not (tmp_path / "out.tsv").exists()


def test_a_folder_in_and_a_folder_out(tmp_path, small_parts):
    case = sc.make_case()
    model, _ = sc.write_inputs(tmp_path, case)
    (tmp_path / "scores").mkdir()
    table = sc.wide_table(case)
    for i, start in enumerate(range(0, case.n_samples, 250)):
        sc.pq.write_table(table.slice(start, 250), tmp_path / f"scores/{i}.parquet")
    for _ in range(2):  # the second time over the first result
        rank_file(model, tmp_path / "scores", tmp_path / "ranked")
        sc.assert_same(tmp_path / "ranked", case.expected())
    assert len(list((tmp_path / "ranked").iterdir())) > 3


def test_object_stores_by_address(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    case = sc.make_case()
    model, scores = sc.write_inputs(tmp_path, case)
    store = fsspec.filesystem("memory")
    store.pipe("/bucket/scores.parquet", scores.read_bytes())
    rank_file(model, "memory://bucket/scores.parquet", tmp_path / "out.parquet")
    sc.assert_same(tmp_path / "out.parquet", case.expected())
    rank_file(model, "memory://bucket/scores.parquet", "memory://bucket/out.parquet")
    (tmp_path / "copy.parquet").write_bytes(store.cat("/bucket/out.parquet"))
    sc.assert_same(tmp_path / "copy.parquet", case.expected())


@settings(max_examples=30)
@given(st.data())
def test_rows_of_any_split_sort_to_the_ranking(data):
    n_samples, n_labels = data.draw(st.integers(1, 9)), 4
    h = Hierarchy([("A", "B"), ("A", "C"), ("C", "D")])
    cells = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    row = st.lists(cells, min_size=n_labels, max_size=n_labels)
    scores = np.array(data.draw(st.lists(row, min_size=n_samples, max_size=n_samples)))
    model = _identity(h)
    whole = model.rank(scores)
    packing = Packing.of(n_samples, n_labels)
    cuts = sorted(data.draw(st.sets(st.integers(0, n_samples), max_size=3)) | {0, n_samples})
    parts = [
        ranked_rows(model, Table(scores[a:b], h.labels), numbers=np.arange(a, b), packing=packing)
        for a, b in pairwise(cuts)
    ]
    rows = [row for part in parts for row in part.to_pylist()]
    rows.sort(key=lambda row: (row["depth"], row["place"]))
    found = unpacked(sc.pa.RecordBatch.from_pylist(rows, schema=parts[0].schema), packing)
    assert found["sample"].tolist() == whole.sample.tolist()
    assert found["label"].tolist() == whole.label.tolist()
    assert found["score"].tolist() == whole.score.tolist()
    assert found["lpr"].tolist() == whole.lpr.tolist()


def _identity(hierarchy):
    """A model whose LPRs are the scores."""
    from hierlpr.lpr import LPRCurves

    model = HierLPR(hierarchy, lpr="isotonic")
    steps = np.linspace(0.0, 1.0, 5)
    truth = np.tile([[False], [True]], (10, hierarchy.n_labels))
    model.fit(truth.astype(float), truth)
    n = hierarchy.n_labels
    curves = LPRCurves(np.arange(n + 1) * 5, np.tile(steps, n), np.tile(steps, n))
    model.lpr_ = type(model.lpr_)(curves, model.lpr_.report)
    return model
