"""Ranking by a model moved to the prevalences of the samples: whole or in parts, and said aloud."""

import json

import numpy as np
import pandas as pd
import pytest

from cli.shellrun import refused, run
from hierlpr import HierLPR, simulate, workflows
from hierlpr.data import tables
from hierlpr.exceptions import DataError
from hierlpr.io import write_ranking
from hierlpr.scale import budget
from hierlpr.scale.parts import Here


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A certified model, and scores of samples in which one label is much rarer."""
    folder = tmp_path_factory.mktemp("adapted")
    train, pool = simulate.train_test(2, n_train=1500, n_test=6000, rng=4)
    model = HierLPR(train.hierarchy).fit(train.scores, train.truth)
    model.calibrate(pool.scores[:800], pool.truth[:800], precision=0.7, confidence=0.8)
    model.calibrate_sets(pool.scores[:800], pool.truth[:800])
    model.save(folder / "m.hlpr")
    rng = np.random.default_rng(0)
    weight = np.where(pool.truth[:, 2], 0.1, 1.0)
    rows = rng.choice(6000, 700, p=weight / weight.sum())
    scores = pool.scores[rows].round(3)
    frame = pd.DataFrame(scores, columns=train.hierarchy.labels)
    frame.insert(0, "sample", [f"s{i:04d}" for i in range(len(rows))])
    frame.to_csv(folder / "s.csv", index=False)
    frame.to_parquet(folder / "s.parquet", index=False, row_group_size=60)
    return folder, model, frame


@pytest.mark.parametrize("limit", [None, 250])
def test_any_parts_are_the_ranking_of_the_adapted_model(case, tmp_path, monkeypatch, limit):
    """Also where only some of the samples are compared."""
    folder, model, frame = case
    monkeypatch.setattr(budget.Budget, "batch_instances", property(lambda self: 300))
    if limit is not None:
        monkeypatch.setattr(tables, "MOST_INSTANCES", 4 * limit * 3)
    own = model.adapt(frame.set_index("sample"))
    order = own.rank(frame.set_index("sample"))
    write_ranking(tmp_path / "own.csv", order, call=order.score >= 0.5)
    for name, options in {
        "whole": {}, "one": {"partitions": 1}, "five": {"partitions": 5, "scheduler": Here()},
    }.items():  # fmt: skip
        out = tmp_path / f"{name}.csv"
        source = folder / ("s.parquet" if name == "five" else "s.csv")
        done = workflows.rank_file(folder / "m.hlpr", source, out, adapt=True, **options)
        assert out.read_bytes() == (tmp_path / "own.csv").read_bytes()
        assert done.cutoff == own.cutoff_
        assert done.cutoff.confidence is None
        assert done.drift.n_samples == (limit or 700)
        assert np.array_equal(done.drift.expected, model.check(frame.set_index("sample")).expected)
    assert (done.drift.expected != done.drift.prevalence).any()
    workflows.rank_file(folder / "m.hlpr", folder / "s.csv", tmp_path / "old.csv")
    assert (tmp_path / "old.csv").read_bytes() != (tmp_path / "own.csv").read_bytes()


def test_rows_with_problems_are_not_compared(case, tmp_path):
    folder, _, frame = case
    lines = (folder / "s.csv").read_text().splitlines()
    lines[5] = lines[5].rsplit(",", 1)[0] + ",nonsense"
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    options = {"adapt": True, "lenient": True}
    one = workflows.rank_file(
        folder / "m.hlpr", tmp_path / "bad.csv", tmp_path / "a.csv", **options
    )
    two = workflows.rank_file(
        folder / "m.hlpr", tmp_path / "bad.csv", tmp_path / "b.csv", partitions=3, **options
    )
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert one.drift.n_samples == two.drift.n_samples == len(frame) - 1


def test_the_command_says_that_nothing_is_promised(case, tmp_path):
    folder, _, _ = case
    base = ("rank", "--model", folder / "m.hlpr", "--scores")
    code, _, err = run(*base, folder / "s.csv", "--out", tmp_path / "a.csv", "--adapt",
                       "--json", tmp_path / "a.json")  # fmt: skip
    assert code == 0, err
    assert "not calibrated for them, so nothing is promised" in err
    assert "the prevalence of" in err
    told = json.loads((tmp_path / "a.json").read_text())
    assert "new samples" in told["drift"]
    assert told["cutoff"]["kind"] == "default"
    assert "not calibrated for this population" in told["cutoff"]["reason"]


@pytest.mark.parametrize("parts", [(), ("--partitions", "2")])
def test_other_scores_and_few_samples_are_refused(case, tmp_path, parts):
    folder, _, frame = case
    other = frame.copy()
    other[other.columns[1:]] = 10 * other[other.columns[1:]] - 3
    other.to_csv(tmp_path / "other.csv", index=False)
    frame[:20].to_csv(tmp_path / "few.csv", index=False)
    base = ("rank", "--model", folder / "m.hlpr", "--out", tmp_path / "a.csv", "--adapt", *parts)
    assert "look nothing like those fitted on" in refused(*base, "--scores", tmp_path / "other.csv")
    assert "too few to tell" in refused(*base, "--scores", tmp_path / "few.csv")
    assert not (tmp_path / "a.csv").exists()


def test_listed_scores_are_refused_in_words(tmp_path):
    train = simulate.train_test(2, n_train=300, n_test=10, rng=4)[0]
    from scipy import sparse

    keep = np.random.default_rng(0).random(train.scores.shape) < 0.6
    model = HierLPR(train.hierarchy).fit(sparse.csr_array(train.scores * keep), train.truth)
    model.save(tmp_path / "m.hlpr")
    row, column = np.nonzero(keep)
    pd.DataFrame({"sample": [f"s{i}" for i in row], "score": train.scores[row, column],
                  "label": [train.hierarchy.labels[k] for k in column]}).to_csv(
        tmp_path / "s.csv", index=False, columns=["sample", "label", "score"])  # fmt: skip
    for parts in ({}, {"partitions": 2}):
        with pytest.raises(DataError, match="Listed scores"):
            workflows.rank_file(
                tmp_path / "m.hlpr", tmp_path / "s.csv", tmp_path / "o.csv", adapt=True, **parts
            )
