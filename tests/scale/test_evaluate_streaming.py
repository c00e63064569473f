"""Evaluating in parts gives what evaluating in memory gives, and fails as clearly."""

import gzip
import json
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scalecases as sc
from click.testing import CliRunner
from scalecases import StopError, evaluate_file, rank_file, stop_after

from hierlpr import Hierarchy, HierlprError, simulate
from hierlpr._base.checks import effective_number
from hierlpr.cli import main
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.partial_truth import align_known
from hierlpr.data.tables import Table
from hierlpr.io import (
    load_hierarchy,
    read_ranking,
    read_truth,
    write_hierarchy,
    write_ranking,
    write_truth,
)
from hierlpr.metrics import au_prc_score
from hierlpr.metrics.cafa import accretion_of
from hierlpr.metrics.evaluation import PooledSums, Rows, SampleSums, evaluate_ranking
from hierlpr.scale import evaluate_parts
from hierlpr.scale.budget import Budget
from hierlpr.scale.parts import How, in_parts
from hierlpr.scale.rank_parts import calls_along


def assert_same(ours, theirs):
    assert ours == theirs


def run(folder, *options, ranking="ranked.parquet", truth="truth.csv"):
    args = ["evaluate", "--hierarchy", folder / "h.csv", "--ranking", folder / ranking,
            "--truth", folder / truth, "--json", "-", "-q", *options]  # fmt: skip
    done = CliRunner().invoke(main, [str(x) for x in args])
    return done.exit_code, done.stdout, done.stderr


def both(folder, *options, partitions=3, **files):
    """Measures in memory and in parts; what is said must be the same too."""
    whole = run(folder, *options, **files)
    parts = run(folder, "--partitions", partitions, *options, **files)
    assert whole[0] == parts[0] == 0, whole[2] + parts[2]
    assert parts[2] == whole[2]
    assert_same(json.loads(parts[1]), json.loads(whole[1]))
    return json.loads(whole[1])


@pytest.fixture(scope="module", params=["forest", "dag", "sparse"])
def ranked(request, tmp_path_factory):
    """A ranking of ties, its truth, and the hierarchy."""
    folder = tmp_path_factory.mktemp(request.param)
    case = sc.make_case(400, is_sparse=request.param == "sparse", dag=request.param == "dag")
    h = case.model.hierarchy_
    truth = h.close_upward(np.random.default_rng(1).random((400, h.n_labels)) < 0.1)
    write_hierarchy(folder / "h.csv", h)
    write_truth(folder / "truth.csv", Table(truth.astype(float), h.labels, case.table.samples))
    order = case.model.rank(case.table)
    call = calls_along(order, case.model, case.table)
    for name in ("ranked.parquet", "ranked.csv", "ranked.csv.gz", "p.tsv"):
        write_ranking(folder / name, order, samples=case.table.samples, call=call)
    write_ranking(folder / "calls.csv", order, samples=case.table.samples, call=call, keep=call)
    return folder


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_any_number_of_parts_gives_the_same(ranked, partitions):
    found = both(ranked, partitions=partitions)
    assert found["ranking"]["parents after a child"] == 0
    assert found["decisions"]["calls without a parent"] == 0


def write_weights(folder, samples, seed=6):
    """Weights of samples in a file of another order, with a sample that nobody asks for."""
    rng = np.random.default_rng(seed)
    weight = np.round(rng.exponential(size=len(samples)), 3)
    weight[::11] = 0.0
    rows = [f"{samples[i]},{weight[i]}" for i in rng.permutation(len(samples))]
    (folder / "w.csv").write_text("\n".join(["sample,weight", *rows, "other,9"]) + "\n")
    return weight


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("name", ["ranked.parquet", "calls.csv", "p.tsv"])
def test_weights_give_the_same(ranked, tmp_path, name, holes):
    h = load_hierarchy(ranked / "h.csv").hierarchy
    read = read_truth(ranked / "truth.csv", h)
    values = np.array(read.table.values)
    if holes:
        values[np.random.default_rng(5).random(values.shape) < 0.3] = np.nan
        values[:3] = np.nan
    for file in ("h.csv", name):
        shutil.copy(ranked / file, tmp_path)
    write_truth(tmp_path / "truth.csv", Table(values, h.labels, read.samples))
    weight = write_weights(tmp_path, read.samples)
    for partitions in (1, 5):
        found = both(tmp_path, "--weights", tmp_path / "w.csv", ranking=name, partitions=partitions)
    assert found["sizes"]["effective samples"] == effective_number(weight)
    known = align_known(np.zeros(values.shape), values, h) if holes else None
    held = values == 1.0 if known is None else known.held
    listed = read_ranking(tmp_path / name, h)
    place = {sample: i for i, sample in enumerate(read.samples)}
    row = np.array([place[sample] for sample in listed.samples])[listed.sample]
    judged = np.full(row.size, True) if known is None else known.known[row, listed.label]
    if listed.call is not None:
        called = judged & listed.call
        own = weight[row[called]]
        share = own @ held[row, listed.label][called] / own.sum()
        assert found["decisions"]["precision"] == pytest.approx(share)
    plain = both(tmp_path, ranking=name)
    assert plain["ranking"]["AU(PRC)"] != found["ranking"]["AU(PRC)"]


def test_bad_weights_stop_an_evaluation_both_ways_alike(ranked, tmp_path):
    samples = read_truth(ranked / "truth.csv", load_hierarchy(ranked / "h.csv").hierarchy).samples
    text = "\n".join(["sample,weight", *(f"{name},1" for name in samples)]) + "\n"
    cases = {
        text.replace(f"{samples[3]},1\n", ""): "1 of 400 samples of .* have no weight",
        text.replace(f"{samples[3]},1\n", f"{samples[3]},-1\n"): "line 5, column 'weight'",
        text.replace(",1", ",0"): "all 400 samples of .* have the weight 0",
        text.replace("weight", "mass"): "there is no column 'weight'",
    }
    for content, message in cases.items():
        (tmp_path / "w.csv").write_text(content)
        for more in ([], ["--partitions", "3"]):
            code, _, said = run(ranked, "--weights", tmp_path / "w.csv", *more)
            assert code == 2
            assert re.search(message, said), said


@pytest.mark.parametrize("name", ["ranked.csv", "ranked.csv.gz", "calls.csv", "p.tsv"])
def test_any_format_gives_the_same(ranked, name):
    both(ranked, ranking=name)


@pytest.mark.parametrize("long", [False, True])
def test_unknown_truth_gives_the_same(ranked, tmp_path, long):
    h = load_hierarchy(ranked / "h.csv").hierarchy
    rng = np.random.default_rng(5)
    read = read_truth(ranked / "truth.csv", h)
    values = np.where(rng.random(read.table.values.shape) < 0.3, np.nan, read.table.values)
    values[:3] = np.nan
    for name in ("h.csv", "ranked.parquet", "p.tsv"):
        shutil.copy(ranked / name, tmp_path)
    write_truth(tmp_path / "truth.csv", Table(values, h.labels, read.samples), long=long)
    known = align_known(np.zeros(values.shape), values, h)
    found = both(tmp_path)
    assert found["sizes"]["unknown"] == known.n_unknown.sum()
    assert found["sizes"]["positives"] == known.held.sum()
    order = read_ranking(tmp_path / "ranked.parquet", h)
    place = {name: i for i, name in enumerate(read.samples)}
    row = np.array([place[name] for name in order.samples])[order.sample]
    judged = known.known[row, order.label]
    status = known.held[row, order.label][judged]
    assert found["sizes"]["listed, unknown"] == np.count_nonzero(~judged)
    call = order.call[judged]
    assert found["sizes"]["called, unknown"] == np.count_nonzero(order.call[~judged])
    assert found["decisions"]["precision"] == pytest.approx(status[call].mean())
    assert found["decisions"]["recall"] == pytest.approx(status[call].sum() / known.held.sum())
    if status.size == known.known.sum():  # nothing is left to come last
        assert found["ranking"]["AU(PRC)"] == pytest.approx(au_prc_score(status))
    both(tmp_path, ranking="p.tsv")


def test_samples_of_which_nothing_is_known_count_for_nothing():
    rng = np.random.default_rng(4)
    h = simulate.random_dag(12, rng=rng)
    truth = h.close_upward(rng.random((30, 12)) < 0.15)
    values = truth.astype(float)
    gone = np.arange(0, 30, 4)
    values[gone] = np.nan
    key = rng.permutation(360)
    rows = Rows(key // 12, key % 12, np.sort(rng.integers(0, 6, 360) / 5.0)[::-1], key % 3 == 0)
    found = evaluate_ranking(*rows[:3], values, h, call=rows.call)
    left = np.isin(rows.sample, gone, invert=True)
    others = np.setdiff1d(np.arange(30), gone)
    sample = np.searchsorted(others, rows.sample[left])
    alone = evaluate_ranking(
        sample, rows.label[left], rows.score[left], truth[others], h, call=rows.call[left]
    )
    same = dict(found.ranking)
    assert same.pop("parents after a child") > alone.ranking["parents after a child"]
    assert same == {name: alone.ranking[name] for name in same}
    for name in ("precision", "recall", "F1", "hierarchical F1", "H-loss"):
        assert found.decisions[name] == alone.decisions[name]


def test_information_is_counted_where_labels_and_parents_are_given():
    rng = np.random.default_rng(8)
    for _ in range(20):
        h = simulate.random_dag(7, rng=rng)
        truth = h.close_upward(rng.random((25, 7)) < 0.3)
        given = rng.random(truth.shape) < 0.7
        sets = LabelSets.of(np.where(given, truth, np.nan)).closed(h)
        expected = []
        for label in h.labels:
            k, above = h.index(label), [h.index(p) for p in h.parents(label)]
            used = given[:, k] & (given & truth)[:, above].all(axis=1)
            n_held = np.count_nonzero(used & truth[:, k])
            expected.append(np.log2(np.count_nonzero(used) / n_held) if n_held else 0.0)
        assert accretion_of(sets, h) == pytest.approx(expected)


def test_rows_in_any_order_and_in_a_folder(ranked, tmp_path, monkeypatch):
    table = pq.read_table(ranked / "ranked.parquet")
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    pq.write_table(shuffled, tmp_path / "shuffled.parquet")
    (tmp_path / "folder").mkdir()
    half = len(table) // 2
    pq.write_table(table.slice(0, half), tmp_path / "folder/a.parquet", row_group_size=100)
    pq.write_table(table.slice(half), tmp_path / "folder/b.parquet")
    pq.write_table(shuffled.drop_columns(["rank"]), tmp_path / "no_rank.parquet")
    pq.write_table(shuffled.drop_columns(["rank", "lpr"]), tmp_path / "scores.parquet")
    monkeypatch.setattr(Budget, "listed_rows", property(lambda self: 70))
    expected = both(ranked)
    for name in ("h.csv", "truth.csv"):
        shutil.copy(ranked / name, tmp_path)
    for name in ("shuffled.parquet", "folder"):
        assert both(tmp_path, ranking=name) == expected
    for name in ("no_rank.parquet", "scores.parquet"):
        both(tmp_path, ranking=name)


def test_sums_over_parts_are_those_of_the_whole():
    rng = np.random.default_rng(2)
    h = simulate.random_dag(15, rng=rng)
    truth = LabelSets.of(h.close_upward(rng.random((40, 15)) < 0.1))
    key = rng.permutation(600)[:250]
    rows = Rows(key // 15, key % 15, rng.integers(0, 6, 250) / 5.0, rng.random(250) < 0.5)
    whole = evaluate_ranking(*rows[:3], truth, h, call=rows.call)
    for n in (1, 3, 40, 60):
        sums = SampleSums(h, accretion_of(truth, h), has_calls=True)
        worth = np.empty(250, dtype=np.int8)
        for p in rng.permutation(n):
            at = np.flatnonzero(rows.sample % n == p)
            part = rows.take(at)._replace(sample=rows.sample[at] // n)
            own = SampleSums(h, accretion_of(truth, h), has_calls=True)
            worth[at] = own.add(part, truth.take(np.arange(p, 40, n)))
            sums.merge(own.state())
        pooled = PooledSums(sums.positives)
        for start in range(0, 250, 17):
            pooled.add_listed(worth[start : start + 17])
        assert sums.evaluation(pooled) == whole


@pytest.fixture
def small(tmp_path):
    """Two labels and three samples."""
    (tmp_path / "h.csv").write_text("parent,child\nA,B\n")
    (tmp_path / "truth.csv").write_text("sample,label\ns1,A\ns1,B\ns2,A\n")
    (tmp_path / "wide.csv").write_text("sample,A,B\ns1,1,1\ns2,1,0\n")
    (tmp_path / "r.csv").write_text(
        "rank,sample,label,lpr,score,call\n1,s1,A,.9,.9,1\n2,s3,A,.8,.8,1\n3,s1,B,.7,.7,0\n"
    )
    return tmp_path


def test_samples_without_truth_and_without_rows(small):
    found = both(small, ranking="r.csv")
    assert found["sizes"]["samples"] == 3
    both(small, "--absent", "skip", ranking="r.csv")
    both(small, "--absent", "negative", ranking="r.csv", truth="wide.csv")
    whole, parts = (run(small, *x, ranking="r.csv", truth="wide.csv")
                    for x in ((), ("--partitions", 2)))  # fmt: skip
    assert whole == parts
    assert whole[0] == 2
    assert "1 ranked sample(s) have no row: 's3'" in whole[2]


def test_clus_truth(small):
    (small / "t.arff").write_text(
        "@RELATION x\n@ATTRIBUTE name key\n@ATTRIBUTE class hierarchical root/A,A/B\n"
        "@DATA\ns1,A@B\ns2,A\n"
    )
    found = both(small, "--absent", "skip", ranking="r.csv", truth="t.arff")
    assert found["sizes"]["positives"] == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("4,s2,X,.6,.6,1", "label 'X' is not in the hierarchy"),
        ("4,s1,A,.6,.6,1", "sample 's1' has label 'A' again"),
        ("4,s2,A,.6,nan,1", "the score is missing or not finite"),
        ("4,s2,A,.6,much,1", "much"),
        ("4,s2,A,.6", "columns"),
    ],
)
def test_bad_rows_stop_with_one_message_or_are_counted(small, line, words):
    with (small / "r.csv").open("a") as stream:
        stream.write(f"{line}\n5,s2,B,.5,.5,0\n")
    code, _, err = run(small, "--partitions", 2, ranking="r.csv")
    assert code == 2
    assert words in err
    assert err.startswith("Error: ")
    assert "Traceback" not in err
    whole, parts = (run(small, "--lenient", *x, ranking="r.csv")
                    for x in ((), ("--partitions", 2)))  # fmt: skip
    assert whole[0] == parts[0] == 0
    assert_same(json.loads(parts[1]), json.loads(whole[1]))
    assert ("passed over" in parts[2]) or ("left out" in parts[2])


def test_of_repeated_predictions_the_highest_counts(small):
    (small / "p.tsv").write_text("s1\tA\t0.2\ns1\tB\t0.5\ns1\tA\t0.6\ns2\tB\t0.5\n")
    assert both(small, ranking="p.tsv")["sizes"]["listed"] == 3


def test_damage_is_said(small, tmp_path):
    rows = {"sample": ["s1", "s2"] * 500, "label": ["A"] * 1000, "score": np.linspace(0, 1, 1000)}
    pq.write_table(pa.table(rows), small / "r.parquet", row_group_size=500, compression="none",
                   use_dictionary=False)  # fmt: skip
    raw = bytearray((small / "r.parquet").read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 40] = b"\xff" * 40
    (small / "bad.parquet").write_bytes(raw)
    (small / "cut.parquet").write_bytes(raw[:-30])
    packed = gzip.compress(b"s1\tA\t0.5\n" * 10_000)
    (small / "cut.tsv.gz").write_bytes(packed[:-20])
    (small / "none.csv").write_text("sample,label\ns1,A\n")
    (small / "empty.csv").write_text("sample,label,score\n")
    for name, words in (
        ("cut.parquet", "no readable Parquet file"), ("cut.tsv.gz", "damaged or cut off"),
        ("none.csv", "there is no column 'score'"), ("empty.csv", "no row"),
        ("missing.csv", "there is no such file"),
    ):  # fmt: skip
        code, _, err = run(small, "--partitions", 2, ranking=name)
        assert code == 2, name
        assert words in err
        assert "Traceback" not in err
    code, _, err = run(small, "--partitions", 2, ranking="bad.parquet")
    assert code == 2


def test_memory_decides_and_work_files_go_away(ranked, tmp_path, monkeypatch):
    taken = []
    whole = evaluate_parts.evaluate_in_parts
    monkeypatch.setattr(
        evaluate_parts, "evaluate_in_parts", lambda *a: taken.append(a) or whole(*a)
    )
    monkeypatch.setattr(Budget, "evaluated_rows", property(lambda self: 500))
    run(ranked)
    assert not taken
    monkeypatch.setattr(Budget, "holds_evaluation", lambda self, n, m: False)
    code, _, err = run(ranked, "--work", tmp_path / "work")
    assert (code, err) == (0, "")
    assert len(taken) == 1
    assert not (tmp_path / "work").exists()


def test_progress_and_the_ranking_of_a_streamed_run(tmp_path):
    case = sc.make_case(400)
    model, scores = sc.write_inputs(tmp_path, case)
    rank_file(model, scores, tmp_path / "out", partitions=3)
    h = case.model.hierarchy_
    truth = h.close_upward(np.random.default_rng(1).random((400, h.n_labels)) < 0.1)
    names = case.table.samples
    write_truth(tmp_path / "truth.parquet", Table(truth.astype(float), h.labels, names))
    seen = []
    done = evaluate_file(
        tmp_path / "out", tmp_path / "truth.parquet", h, partitions=4, memory="64MiB",
        on_progress=lambda *x: seen.append(x),
    )  # fmt: skip
    read = read_ranking(tmp_path / "out", h)
    row = np.array([names.index(x) for x in read.samples])[read.sample]
    whole = evaluate_ranking(row, read.label, read.score, truth, h, call=read.call)
    assert_same(done.evaluation.as_dict(), whole.as_dict())
    assert seen[-1] == ("measuring", len(read), len(read))
    assert {stage for stage, _, _ in seen} == {"reading", "measuring"}


def test_two_runs_share_a_work_folder(small):
    options = {"work": small / "work"}
    args = (small / "r.csv", small / "truth.csv", Hierarchy([("A", "B")]))
    alone = evaluate_file(*args, **options)
    with in_parts(How(**options), "another"):
        assert evaluate_file(*args, **options).evaluation == alone.evaluation


@pytest.mark.parametrize("name", ["ranked.parquet", "p.tsv"])
def test_resume_measures_what_is_not_finished(ranked, tmp_path, monkeypatch, name):
    h = load_hierarchy(ranked / "h.csv").hierarchy
    args = (ranked / name, ranked / "truth.csv", h)
    options = {"partitions": 5, "work": tmp_path / "work", "resume": True}
    with pytest.raises(StopError):
        evaluate_file(*args, **options, scheduler=stop_after(3))
    assert len(list(tmp_path.rglob("part-*.data"))) == 3
    with pytest.raises(HierlprError, match="the options changed since"):
        evaluate_file(*args, **{**options, "partitions": 6})
    measured, whole = [], evaluate_parts.measure_part
    counted = lambda job, number: measured.append(number) or whole(job, number)  # noqa: E731
    monkeypatch.setattr(evaluate_parts, "measure_part", counted)
    monkeypatch.setattr(evaluate_parts, "listed_rows", None)  # the ranking is not read again
    done = evaluate_file(*args, **options)
    assert measured == [3, 4]
    assert not (tmp_path / "work").exists()
    monkeypatch.undo()
    assert done == evaluate_file(*args, partitions=2)
