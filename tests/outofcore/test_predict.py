"""Rankings and sets of files, whole and streamed, are those of the model in memory."""

import os
import signal
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scalecases as sc

from hierlpr import HierLPR, HierlprError, workflows


@pytest.mark.parametrize("options", [{}, {"top": 1234}, {"calls_only": True}])
@pytest.mark.parametrize("kind", ["forest", "dag", "sparse"])
def test_a_streamed_ranking_is_that_of_the_model(tmp_path, small_batches, kind, options):
    case = sc.make_case(is_sparse=kind == "sparse", dag=kind == "dag")
    model, scores = sc.write_inputs(tmp_path, case)
    done = workflows.rank_file(model, scores, tmp_path / "out.parquet", **options)
    expected = case.expected(**options)
    sc.assert_same(tmp_path / "out.parquet", expected)
    assert (done.n_rows, done.n_samples) == (expected[0].size, 600)
    assert done.n_instances == 600 * sc.N_LABELS
    if "top" not in options:
        assert done.n_calls == expected[5].sum()


def test_the_layout_of_the_input_does_not_matter(tmp_path, small_batches):
    case = sc.make_case()
    model, scores = sc.write_inputs(tmp_path, case)
    workflows.rank_file(model, scores, tmp_path / "a.csv")
    text = sc.write_text(tmp_path / "scores.csv", sc.wide_table(case))
    workflows.rank_file(model, text, tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    text.write_text(f"sample,label,score\ns1,{case.table.labels[0]},0.5\n")
    with pytest.raises(HierlprError, match="omit"):  # the model needs complete scores
        workflows.rank_file(model, text, tmp_path / "b.csv")


def test_calls_with_levels_by_group(tmp_path, small_batches):
    case = sc.make_case(n_samples=700)
    rng = np.random.default_rng(5)
    h = case.model.hierarchy_
    truth = h.close_upward(rng.random((700, h.n_labels)) < 0.1)
    model = HierLPR(h, lpr="isotonic", joint=False).fit(case.table.values[:300], truth[:300])
    model.calibrate(case.table.values[300:], truth[300:], maximize="f1", groups="depth")
    grouped = sc.Case(model, case.table)
    path, scores = sc.write_inputs(tmp_path, grouped)
    for options in ({}, {"calls_only": True}):
        workflows.rank_file(path, scores, tmp_path / "out.parquet", **options)
        sc.assert_same(tmp_path / "out.parquet", grouped.expected(**options))


def test_calls_with_a_limit_per_sample(tmp_path, small_batches):
    case = sc.make_case(seed=9)
    case.model.cutoff_ = replace(case.model.cutoff_, level=0.05, max_calls=1)
    # The calls do not come first, so that they cannot be cut off before the rows are sorted.
    call = case.expected()[5]
    assert not call[: call.sum()].all()
    path, scores = sc.write_inputs(tmp_path, case)
    workflows.rank_file(path, scores, tmp_path / "out.parquet", calls_only=True)
    sc.assert_same(tmp_path / "out.parquet", case.expected(calls_only=True))


def test_an_adapted_ranking(tmp_path, small_batches):
    case = sc.make_case()
    model, scores = sc.write_inputs(tmp_path, case)
    done = workflows.rank_file(model, scores, tmp_path / "out.parquet", adapt=True)
    adapted = sc.Case(case.model.adapt(case.table), case.table)
    sc.assert_same(tmp_path / "out.parquet", adapted.expected())
    assert done.drift.n_samples == 600
    assert done.cutoff.goal.kind == "default"


@pytest.mark.parametrize("wanted", ["all", "possible", "deepest"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_sets_are_those_of_the_model(tmp_path, request, wanted, is_streamed):
    if is_streamed:
        request.getfixturevalue("small_batches")
    case = sc.make_case()
    h = case.model.hierarchy_
    truth = h.close_upward(np.random.default_rng(1).random((600, h.n_labels)) < 0.1)
    case.model.calibrate_sets(case.table.values[300:], truth[300:], error=0.2)
    path, scores = sc.write_inputs(tmp_path, case)
    options = {} if wanted == "all" else {"deepest" if wanted == "deepest" else "possible_only": 1}
    done = workflows.sets_file(path, scores, tmp_path / "out.parquet", **options)
    found = pq.read_table(tmp_path / "out.parquet").to_pydict()
    sets = case.model.predict_sets(case.table)
    assert done.n_samples == 600
    if wanted == "deepest":
        assert found["sample"] == list(case.table.samples)
        sure = [np.flatnonzero(row) for row in np.asarray(sets.sure)]
        has_label = [label is not None for label in found["label"]]
        assert has_label == [bool(row.size) for row in sure]
        return
    level = {"no": 0, "possible": 1, "sure": 2}
    got = np.zeros((600, h.n_labels), dtype=int)
    row = {name: i for i, name in enumerate(case.table.samples)}
    for name, label, word in zip(*found.values(), strict=True):
        got[row[name], h.index(label)] = level[word]
    assert (got == sets.codes()).all()
    assert (done.n_sure, done.n_possible) == (sets.sure.sum(), sets.possible.sum())
    assert done.n_rows == (got.size if wanted == "all" else np.count_nonzero(got))


def test_errors_leave_the_output_as_it_was(tmp_path, small_batches):
    case = sc.make_case()
    model, scores = sc.write_inputs(tmp_path, case)
    out = tmp_path / "out.parquet"
    workflows.rank_file(model, scores, out)
    before = out.read_bytes()
    columns = sc.wide_table(case).to_pydict()
    columns["L3"][400] = float("nan")
    pq.write_table(pa.table(columns), scores, row_group_size=50)
    with pytest.raises(HierlprError, match="L3"):
        workflows.rank_file(model, scores, out)
    with pytest.raises(HierlprError, match="is also the scores"):
        workflows.rank_file(model, scores, scores)
    assert out.read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == {"out.parquet", "model.hlpr", "scores.parquet"}


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")  # of what Dask's own shutdown leaves open
def test_a_killed_worker_changes_nothing(tmp_path, small_batches):
    distributed = pytest.importorskip("distributed")
    case = sc.make_case()
    model, scores = sc.write_inputs(tmp_path, case)
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address=None,
        ) as here,
        distributed.Client(here) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        killed = []

        def kill_one(stage, done, total):
            if stage == "reading scores" and not killed:
                killed.append(here.workers[0].pid)
                os.kill(killed[0], signal.SIGKILL)

        out = tmp_path / "out.parquet"
        options = {"scheduler": here.scheduler_address, "on_progress": kill_one}
        workflows.rank_file(model, scores, out, **options)
        assert killed
        sc.assert_same(out, case.expected())
        (tmp_path / "bad.csv").write_text("sample,A\nx,1\n")
        with pytest.raises(HierlprError, match=r"bad\.csv"):
            workflows.rank_file(model, tmp_path / "bad.csv", out, **options)
        sc.assert_same(out, case.expected())
