"""New scores of any size beside those fitted on: the same whole and in parts, bit by bit."""

import json

import numpy as np
import pandas as pd
import pytest

from cli.shellrun import refused, run
from hierlpr import HierLPR, load_model, simulate, workflows
from hierlpr.data import tables
from hierlpr.exceptions import HierlprError
from hierlpr.scale import budget
from hierlpr.scale.parts import Here


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A model, and scores of 700 samples in which one label is much rarer, in three layouts."""
    folder = tmp_path_factory.mktemp("checked")
    train, pool = simulate.train_test(2, n_train=1200, n_test=4000, rng=4)
    model = HierLPR(train.hierarchy).fit(train.scores, train.truth)
    model.save(folder / "m.hlpr")
    weight = np.where(pool.truth[:, 2], 0.1, 1.0)
    rows = np.random.default_rng(0).choice(4000, 700, p=weight / weight.sum())
    frame = pd.DataFrame(pool.scores[rows].round(3), columns=train.hierarchy.labels)
    frame.insert(0, "sample", [f"s{i:04d}" for i in range(700)])
    frame.to_csv(folder / "s.csv", index=False)
    frame.to_parquet(folder / "s.parquet", index=False, row_group_size=60)
    long = frame.melt(id_vars="sample", var_name="label", value_name="score")
    long.to_csv(folder / "long.csv", index=False)
    return folder, model, frame


@pytest.mark.parametrize("limit", [None, 250])
@pytest.mark.parametrize("name", ["s.csv", "s.parquet", "long.csv"])
def test_any_parts_are_the_check_in_memory(case, tmp_path, monkeypatch, name, limit):
    """Also where only some of the samples are compared; and so is the adapted model."""
    folder, model, frame = case
    monkeypatch.setattr(budget.Budget, "batch_instances", property(lambda self: 300))
    if limit is not None:
        monkeypatch.setattr(tables, "MOST_INSTANCES", 4 * limit * 3)
    expected = model.check(frame.set_index("sample"))
    files = []
    for i, options in enumerate([{}, {"partitions": 1}, {"partitions": 5, "scheduler": Here()}]):
        files.append(tmp_path / f"{i}.hlpr")
        drift, report = workflows.check_file(
            folder / "m.hlpr", folder / name, adapt=files[-1], **options
        )
        assert drift.columns() == expected.columns()
        assert (drift.n_samples, report.counts["samples"]) == (limit or 700, 700)
    assert len({file.read_bytes() for file in files}) == 1
    own = model.adapt(frame.set_index("sample")).transform(frame.set_index("sample"))
    there = load_model(files[0]).transform(frame.set_index("sample"))
    pd.testing.assert_frame_equal(own, there)


@pytest.mark.parametrize("limit", [None, 250])
def test_rows_with_problems_are_counted_and_not_compared(case, tmp_path, monkeypatch, limit):
    folder, _, _ = case
    lines = (folder / "s.csv").read_text().splitlines()
    for at in (1, 5, 333, 699):
        lines[at] = lines[at].rsplit(",", 1)[0] + ",nonsense"
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(budget.Budget, "batch_instances", property(lambda self: 300))
    if limit is not None:
        monkeypatch.setattr(tables, "MOST_INSTANCES", 4 * limit * 3)
    found = [
        workflows.check_file(folder / "m.hlpr", tmp_path / "bad.csv", lenient=True, **options)
        for options in ({}, {"partitions": 1}, {"partitions": 7})
    ]
    for drift, report in found:
        assert drift.columns() == found[0][0].columns()
        assert drift.n_samples == (limit or 696)
        assert report.problems == found[0][1].problems
    with pytest.raises(HierlprError, match="nonsense"):
        workflows.check_file(folder / "m.hlpr", tmp_path / "bad.csv", partitions=3)


def test_the_command_works_in_parts(case, tmp_path):
    folder, _, _ = case
    base = ("check", "--model", folder / "m.hlpr", "--scores", folder / "s.csv")
    code, whole, err = run(*base)
    assert code == 0, err
    code, parts, err = run(*base, "--partitions", "3", "--memory", "64MiB", "--work", tmp_path,
                           "--json", tmp_path / "d.json")  # fmt: skip
    assert code == 0, err
    assert parts == whole
    assert json.loads((tmp_path / "d.json").read_text())["samples"] == 700
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.json"]  # no work files are left


def test_what_cannot_be_compared_is_refused_in_parts_too(case, tmp_path):
    folder, _, frame = case
    frame[:20].to_csv(tmp_path / "few.csv", index=False)
    other = frame.copy()
    other[other.columns[1:]] = 10 * other[other.columns[1:]] - 3
    other.to_csv(tmp_path / "other.csv", index=False)
    base = ("check", "--model", folder / "m.hlpr", "--partitions", "2", "--scores")
    assert "too few to tell" in refused(*base, tmp_path / "few.csv")
    told = refused(*base, tmp_path / "other.csv", "--adapt", tmp_path / "there.hlpr")
    assert "look nothing like those fitted on" in told
    assert not (tmp_path / "there.hlpr").exists()
