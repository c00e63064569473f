"""Sure and possible labels of files: what the model says in memory, whole or in any parts."""

import copy
import gzip
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scalecases as sc

from cli.shellrun import refused, run
from hierlpr import HierLPR, load_model, workflows
from hierlpr.exceptions import DataError, HierlprError
from hierlpr.io import read_scores, read_truth, table_output
from hierlpr.scale import budget
from hierlpr.scale.parts import Here


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(table_output, "GROUP_ROWS", 500)
    monkeypatch.setattr(table_output, "FILE_ROWS", 1000)
    monkeypatch.setattr(budget.Budget, "batch_instances", property(lambda self: 700))


def case_with_sets(*, one_path=False, **kind):
    """A case whose scores have many ties, with sets learned from made-up truth."""
    case = sc.make_case(**kind)
    h, values = case.model.hierarchy_, case.table.values
    dense = values if isinstance(values, np.ndarray) else values.toarray()
    rng = np.random.default_rng(0)
    truth = h.close_upward(dense + rng.normal(size=dense.shape) > 1.8)
    model = copy.copy(case.model)  # the case is shared
    model.calibrate_sets(values[300:], truth[300:], error=0.3, one_path=one_path)
    return sc.Case(model, case.table)


def expected_rows(model, table, possible_only=False):
    """One (sample, label, set) a row: sure first, then possible, each parents first."""
    words, h = model.predict_sets(table).words(), model.hierarchy_
    rows = []
    for i, name in enumerate(table.samples):
        for word in ("sure", "possible", "no")[: 2 if possible_only else 3]:
            rows += [(name, h.labels[k], word) for k in h.order if words[i, k] == word]
    return rows


def rows_of(path):
    frame = pq.read_table(path).to_pandas()
    return list(zip(*(frame[name].astype(object) for name in frame), strict=True))


@pytest.mark.parametrize(("dag", "possible_only"), [(False, False), (True, True)])
def test_any_partitions_are_the_sets_in_memory(tmp_path, small_parts, dag, possible_only):
    case = case_with_sets(dag=dag)
    model, scores = sc.write_inputs(tmp_path, case)
    rows = expected_rows(case.model, case.table, possible_only)
    assert {row[2] for row in rows} >= {"sure", "possible"}
    whole = workflows.sets_file(model, scores, tmp_path / "w.csv", possible_only=possible_only)
    assert (whole.n_rows, whole.n_samples) == (len(rows), case.n_samples)
    for partitions in (None, 1, 5):
        options = {"partitions": partitions, "possible_only": possible_only, "scheduler": Here()}
        done = workflows.sets_file(model, scores, tmp_path / "p.csv", **options)
        assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "w.csv").read_bytes()
        assert done._replace(report=None) == whole._replace(report=None)
    workflows.sets_file(model, scores, tmp_path / "p.parquet", **options)
    assert rows_of(tmp_path / "p.parquet") == rows
    workflows.sets_file(model, scores, tmp_path / "w.parquet", possible_only=possible_only)
    assert rows_of(tmp_path / "w.parquet") == rows
    workflows.sets_file(model, scores, tmp_path / "w.csv.gz", possible_only=possible_only)
    assert gzip.decompress((tmp_path / "w.csv.gz").read_bytes()) == (
        tmp_path / "w.csv"
    ).read_bytes()  # fmt: skip
    sets = case.model.predict_sets(case.table)
    assert (whole.n_sure, whole.n_possible) == (sets.sure.sum(), sets.possible.sum())


def test_listed_scores_and_folders(tmp_path, small_parts):
    case = case_with_sets(is_sparse=True)
    model, scores = sc.write_inputs(tmp_path, case)
    read = read_scores(scores, case.model.hierarchy_).table
    rows = expected_rows(case.model, read)
    workflows.sets_file(model, scores, tmp_path / "w.parquet")
    workflows.sets_file(model, scores, tmp_path / "folder", partitions=3)
    assert rows_of(tmp_path / "w.parquet") == rows
    assert rows_of(tmp_path / "folder") == rows
    assert len(list((tmp_path / "folder").glob("part-*.parquet"))) > 1


def test_the_deepest_label_of_each_sample(tmp_path, small_parts):
    case = case_with_sets(one_path=True)
    model, scores = sc.write_inputs(tmp_path, case)
    expected = case.model.deepest(case.table)
    assert None in expected
    assert len(set(expected)) > 2
    for name, options in (("w", {}), ("p", {"partitions": 5})):
        done = workflows.sets_file(model, scores, tmp_path / f"{name}.csv", deepest=True, **options)
        assert done.n_rows == case.n_samples
        frame = pd.read_csv(tmp_path / f"{name}.csv", dtype=str, keep_default_na=False)
        assert list(frame.columns) == ["sample", "label"]
        assert frame["sample"].tolist() == list(case.table.samples)
        assert frame["label"].tolist() == [label or "" for label in expected]
        workflows.sets_file(model, scores, tmp_path / f"{name}.parquet", deepest=True, **options)
        assert pq.read_table(tmp_path / f"{name}.parquet")["label"].to_pylist() == expected
    assert (tmp_path / "w.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()


def test_an_interrupted_run_goes_on(tmp_path, small_parts):
    case = case_with_sets()
    model, scores = sc.write_inputs(tmp_path, case)
    workflows.sets_file(model, scores, tmp_path / "w.csv")
    with pytest.raises(sc.StopError):
        workflows.sets_file(
            model, scores, tmp_path / "p.csv", partitions=4, resume=True,
            scheduler=sc.stop_after(2),
        )  # fmt: skip
    assert not (tmp_path / "p.csv").exists()
    workflows.sets_file(model, scores, tmp_path / "p.csv", partitions=4, resume=True)
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "w.csv").read_bytes()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    code, _, err = run("simulate", "--setting", "2", "--samples", "600", "--seed", "3",
                       "--out", folder / "s")  # fmt: skip
    assert code == 0, err
    return {name: folder / "s" / file for name, file in (
        ("hierarchy", "hierarchy.csv"), ("scores", "scores.csv"),
        ("truth", "truth.csv"), ("test_scores", "test_scores.csv"),
        ("test_truth", "test_truth.csv"))}  # fmt: skip


def fit_options(files, out):
    names = ("hierarchy", "scores", "truth")
    return [x for name in names for x in (f"--{name}", files[name])] + ["--out", out]


def test_commands_from_files_to_sets(simulated, tmp_path):
    files, m = simulated, tmp_path / "m.hlpr"
    code, out, err = run("fit", *fit_options(files, m), "--sets-error", "0.2",
                         "--sets-confidence", "0.8", "--json", tmp_path / "fit.json")  # fmt: skip
    assert code == 0, err
    assert "all sure labels hold with probability at least 0.8 (with confidence 0.8)" in out
    assert "200 of 600 samples are kept for the sets" in err
    stored = load_model(m)
    told = json.loads((tmp_path / "fit.json").read_text())
    assert told["sets"] == stored.sets_.to_dict()
    # Other samples for it, and the same as in memory.
    code, _, err = run("fit", *fit_options(files, m), "--sets-error", "0.2", "--fdr", "0.2",
                       "--calibration-scores", files["test_scores"],
                       "--calibration-truth", files["test_truth"], "--partitions", "3")  # fmt: skip
    assert code == 0, err
    model = load_model(m)
    h = model.hierarchy_
    own = HierLPR(h).fit(read_scores(files["scores"], h).table, read_truth(files["truth"], h).table)
    others = read_scores(files["test_scores"], h).table, read_truth(files["test_truth"], h).table
    own.calibrate_sets(*others, error=0.2)
    assert own.sets_ == model.sets_
    code, out, err = run("sets", "--model", m, "--scores", files["test_scores"], "--out", "-",
                         "--possible-only")  # fmt: skip
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "sample,label,set"
    assert [tuple(x.split(",")) for x in lines[1:]] == expected_rows(own, others[0], True)
    code, out, err = run("sets", "--model", m, "--scores", files["test_scores"],
                         "--out", tmp_path / "d.csv", "--deepest", "--json", "-")  # fmt: skip
    assert code == 0, err
    assert "Warning: samples may have several paths" in err
    assert json.loads(out)["rows"] == others[0].n_samples


def test_bad_input_of_sets(simulated, tmp_path):
    files, m = simulated, tmp_path / "m.hlpr"
    fit = ("fit", *fit_options(files, m))
    assert "--sets-error must lie strictly between" in refused(*fit, "--sets-error", "1.5")
    assert "--sets-confidence needs --sets-error" in refused(*fit, "--sets-confidence", "0.9")
    assert "--one-path needs --sets-error" in refused(*fit, "--one-path")
    said = refused(*fit, "--sets-error", "0.1", "--sets-confidence", "0")
    assert "--sets-confidence must lie" in said
    said = refused(*fit, "--calibration-scores", files["test_scores"], "--calibration-truth",
                   files["test_truth"])  # fmt: skip
    assert "calibration files need" in said
    assert not m.exists()
    assert run(*fit)[0] == 0
    base = ("sets", "--model", m, "--scores", files["test_scores"], "--out")
    said = refused(*base, tmp_path / "x.csv")
    assert "Nothing was learned about sure and possible labels" in said
    assert "--sets-error" in said
    assert run(*fit, "--sets-error", "0.1")[0] == 0
    assert "ending of the file of sets" in refused(*base, tmp_path / "x.tsv")
    assert "--deepest lists one label" in refused(*base, tmp_path / "x.csv", "--deepest",
                                                  "--possible-only")  # fmt: skip
    assert "no names of labels" in refused(*base, tmp_path / "x.csv", "--with-names")
    assert "cannot both go to stdout" in refused(*base, "-", "--json", "-")
    assert "--out is also --scores" in refused(*base, files["test_scores"])
    assert not list(tmp_path.glob("x.*"))
    with pytest.raises(DataError, match="one label a sample"):
        workflows.sets_file(m, files["test_scores"], tmp_path / "x.csv", deepest=True,
                            possible_only=True)  # fmt: skip


def test_one_path_needs_a_forest(tmp_path):
    case = sc.make_case(dag=True)
    with pytest.raises(HierlprError, match="every label has one parent"):
        case_with_sets(one_path=True, dag=True)
    assert case.model.sets_ is None


def test_call_lists_say_the_set_of_each_call():
    case = case_with_sets()
    words = case.model.predict_sets(case.table).words()
    h = case.model.hierarchy_
    lists = case.model.call_lists(case.table)
    seen = {(i, call.label): call.set for i, calls in enumerate(lists) for call in calls}
    assert set(seen.values()) >= {"sure", "possible"}
    assert all(words[i, h.index(label)] == word for (i, label), word in seen.items())
    case.model.sets_ = None
    assert {call.set for calls in case.model.call_lists(case.table) for call in calls} == {None}
