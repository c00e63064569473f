"""What goes wrong in a fit in parts: one message, and the old model stays."""

import json
import os
import random
import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scalecases as sc
from click.testing import CliRunner
from killing import killable
from scalecases import StopError, fit_file, stop_after

from hierlpr import Hierarchy, HierlprError
from hierlpr.cli import main
from hierlpr.io import pair_samples, read_scores, read_truth, write_hierarchy
from hierlpr.scale import fit_parts
from hierlpr.scale import truth as scale_truth

FAST = {"lpr": "isotonic", "joint": False}
H = Hierarchy([("A", "B"), ("A", "C")])


def make_rows(n=90):
    rng = np.random.default_rng(0)
    truth = H.close_upward(rng.random((n, 3)) < 0.3)
    scores = np.round(rng.normal(size=truth.shape) + truth, 2)
    names = [f"s{i}" for i in range(n)]
    columns = [{x: m[:, i] for i, x in enumerate(H.labels)} for m in (scores, truth.astype(int))]
    return tuple(pa.table({"sample": names, **part}) for part in columns)


@pytest.fixture
def files(tmp_path):
    scores, truth = make_rows()
    pq.write_table(scores, tmp_path / "scores.parquet", row_group_size=20)
    pq.write_table(truth, tmp_path / "truth.parquet", row_group_size=30)
    (tmp_path / "model.hlpr").write_bytes(b"old")
    return tmp_path


def changed(folder, file, change):
    columns = pq.read_table(folder / file).to_pydict()
    change(columns)
    pq.write_table(pa.table(columns), folder / file, row_group_size=20)


def refused(folder, message, scores="scores.parquet", truth="truth.parquet", **options):
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(HierlprError, match=message) as error:
        fit_file(H, folder / scores, folder / truth, folder / "model.hlpr", **{**FAST, **options})
    assert (folder / "model.hlpr").read_bytes() == b"old"
    assert {path.name for path in folder.iterdir()} == before
    return str(error.value)


def put(column, row, value):
    return lambda columns: columns[column].__setitem__(row, value)


@pytest.mark.parametrize(("file", "column", "row", "value", "message"), [
    ("scores", "B", 30, float("nan"), "column 'B': the value is missing or not a number"),
    ("scores", "sample", 30, "s2", "sample 's2' occurs again"),
    ("truth", "B", 30, 3, r"column 'B': the value is 3; truth is 0 or 1"),
    ("truth", "sample", 30, "s2", "sample 's2' occurs again"),
    ("truth", "sample", 30, " ", "the sample has no name"),
])  # fmt: skip
def test_bad_values_are_named(files, file, column, row, value, message):
    changed(files, f"{file}.parquet", put(column, row, value))
    refused(files, message)


def test_a_damaged_row_group_is_named(files):
    place = pq.ParquetFile(files / "scores.parquet").metadata.row_group(2).column(2)
    data = bytearray((files / "scores.parquet").read_bytes())
    data[place.data_page_offset : place.data_page_offset + 30] = b"\xff" * 30
    (files / "scores.parquet").write_bytes(data)
    refused(files, "row group 2 cannot be read")


@pytest.mark.parametrize("case", ["lost", "none", "open"])
def test_messages_about_truth_are_those_of_memory(files, case):
    def change(columns):
        if case == "lost":
            columns["sample"][3] = "x"
        elif case == "none":
            columns["sample"] = [f"x{i}" for i in range(90)]
        else:
            for row in (5, 60, 61):
                columns["A"][row], columns["C"][row] = 0, 1

    changed(files, "truth.parquet", change)
    found = refused(files, {"lost": "1 scored sample.s. have no row: 's3'", "none": "none of the",
                            "open": r"\(3 label.s. are missing in all\)"}[case])  # fmt: skip
    with pytest.raises(HierlprError) as memory:
        pair_samples(
            read_scores(files / "scores.parquet", H), read_truth(files / "truth.parquet", H)
        )
    assert found == str(memory.value)


def test_truth_that_does_not_fit_is_refused(files, monkeypatch):
    monkeypatch.setattr(scale_truth, "POSITIVE_BYTES", 10**7)
    refused(files, "positives and more do not fit in the memory.\nHint: give more --memory")


def test_other_things_that_cannot_be(files):
    refused(files, "there is no such file", scores="gone.parquet")
    refused(files, "joint must be", joint="perhaps")
    (files / "other.csv").write_text("sample,A,B,D\ns0,1,2,3\n")
    refused(files, "label 'D' is not in the hierarchy", scores="other.csv")
    pq.write_table(make_rows(2)[0], files / "few.parquet")
    refused(files, "2 sample.s. cannot be split", scores="few.parquet", goal={"fdr": 0.1})


def test_repeated_pairs_of_long_truth_are_a_problem(files):
    (files / "truth.csv").write_text("sample,label\ns0,A\ns1,A\ns0,A\n")
    refused(files, "line 4: sample 's0' has label 'A' again", truth="truth.csv")
    (files / "truth.tsv").write_text("s0\tB\ns1\tA\ns0\tB\n")
    done = fit_file(H, files / "scores.parquet", files / "truth.tsv", files / "model.hlpr", **FAST)
    assert done.n_fitted == 2
    assert done.reports[1].counts["ancestors added"] == 1
    assert done.reports[1].counts["repeated pairs merged"] == 1


def test_labels_too_large_to_sort_are_sketched_and_said(files, monkeypatch):
    monkeypatch.setattr(fit_parts, "FIT_LABEL_BYTES", 10**6)
    monkeypatch.setattr("hierlpr.scale.store.N_EDGES", 4)
    done = fit_file(H, files / "scores.parquet", files / "truth.parquet", files / "model.hlpr",
                    memory=1 << 26, **FAST)  # fmt: skip
    assert done.rank_error.max() > 0.0
    assert "too many scores to sort in this memory; ranks of" in done.notes[-1]
    assert done.model.lpr_.report.positives.tolist() == [
        sum(pq.read_table(files / "truth.parquet")[x].to_pylist()) for x in H.labels
    ]


def test_resume_needs_the_same_partitions(files):
    """Parts of another split would leave samples out, or count them twice."""
    given = (H, files / "scores.parquet", files / "truth.parquet", files / "model.hlpr")
    with pytest.raises(StopError):
        fit_file(*given, **FAST, partitions=2, resume=True, scheduler=stop_after(1))
    with pytest.raises(HierlprError, match="the options changed since"):
        fit_file(*given, **FAST, partitions=4, resume=True)
    done = fit_file(*given, **FAST, partitions=2, resume=True)
    assert done.n_fitted == 90
    resumed = (files / "model.hlpr").read_bytes()
    fit_file(*given, **FAST)
    assert (files / "model.hlpr").read_bytes() == resumed


# -- from the command line ----------------------------------------------------------------------


def fit_args(folder, out, *more):
    write_hierarchy(folder / "tree.csv", H)
    return ["fit", "--hierarchy", str(folder / "tree.csv"), "--scores",
            str(folder / "scores.parquet"), "--truth", str(folder / "truth.parquet"), "--out",
            str(out), "--no-joint", "--lpr", "isotonic", *map(str, more)]  # fmt: skip


def test_the_command_says_the_same_in_parts(files):
    (files / "truth.parquet").rename(files / "old.parquet")
    pq.write_table(pq.read_table(files / "old.parquet").slice(4), files / "truth.parquet")
    more = ["--fdr", "0.4", "--absent", "skip", "--json", files / "out.json"]
    results = []
    for parts in ([], ["--work", files / "work"]):
        done = CliRunner().invoke(main, fit_args(files, files / "model.hlpr", *more, *parts))
        assert done.exit_code == 0, done.stderr
        said = [line.split(" (0.")[0] for line in done.stderr.splitlines()[:-1]]
        results.append((sorted(said), done.stdout, json.loads((files / "out.json").read_text()),
                        (files / "model.hlpr").read_bytes()))  # fmt: skip
    assert results[0] == results[1]
    assert not (files / "work").exists()


def test_memory_decides(files, monkeypatch):
    seen = []
    monkeypatch.setattr(fit_parts, "store_samples", lambda *a: seen.append(a[3]) or 1 / 0)
    assert CliRunner().invoke(main, fit_args(files, files / "model.hlpr")).exit_code == 0
    assert not seen
    monkeypatch.setattr("hierlpr.scale.budget.FIT_BYTES", 10**9)
    result = CliRunner().invoke(main, fit_args(files, files / "model.hlpr", "--memory", "70MB"))
    assert result.exit_code == 1
    assert seen[0].budget.memory == 70_000_000


WARM = """
hierlpr.model.ScoreModel(joint=False, lpr="isotonic", n_threads=1).fit([[0.0], [1.0]], [[0], [1]])
"""


def test_a_killed_fit_leaves_the_old_model_or_the_whole_new_one(files):
    out = files / "model.hlpr"
    args = fit_args(files, out, "--max-f", "--work", files / "work", "-q")
    with killable(args, warm=WARM) as run:
        run(0.0)
        new = out.read_bytes()
        took = run(0.0)
        rng = random.Random(0)
        for _ in range(10):
            out.write_bytes(b"old")
            run(took * rng.uniform(0.05, 1.0))
            assert out.read_bytes() in (b"old", new)
        run(0.0)
    assert out.read_bytes() == new
    assert not (files / "work").exists()


def test_a_full_disk_is_said_and_leaves_the_old_model(files):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small tmpfs needs root")
    tiny = files / "tiny"
    tiny.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", tiny],
                             capture_output=True, check=False)  # fmt: skip
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        for file, rows in zip(("scores", "truth"), make_rows(4000), strict=True):
            pq.write_table(rows, files / f"{file}.parquet")
        args = fit_args(files, files / "model.hlpr", "--work", tiny / "work")
        result = CliRunner().invoke(main, args)
        assert result.exit_code in (1, 2)
        assert "No space left on device" in result.stderr
        assert "Traceback" not in result.stderr
        assert (files / "model.hlpr").read_bytes() == b"old"
        assert not (tiny / "work").exists()
    finally:
        subprocess.run(["umount", tiny], check=True)


def test_wide_text_and_any_memory_need_no_more_than_asked(files):
    """Sizes that come from the budget do not change the model."""
    sc.write_text(files / "scores.csv", pq.read_table(files / "scores.parquet"))
    models = []
    for memory in ("64MiB", "2GB"):
        fit_file(H, files / "scores.csv", files / "truth.parquet", files / "model.hlpr",
                 memory=memory, **FAST)  # fmt: skip
        models.append((files / "model.hlpr").read_bytes())
    assert models[0] == models[1]
