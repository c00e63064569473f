"""What goes wrong in the middle leaves the old output, or nothing; and can go on."""

import json
import os
import random
import shutil
import subprocess

import numpy as np
import pytest
import scalecases as sc
from click.testing import CliRunner
from killing import killable
from scalecases import StopError, rank_file, stop_after

from hierlpr import HierlprError
from hierlpr._base.own_folders import claimed
from hierlpr.cli import main
from hierlpr.io import table_output
from hierlpr.scale import budget, rank_parts, source
from hierlpr.scale.budget import Budget
from hierlpr.scale.parts import WORK_VERSION


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(table_output, "GROUP_ROWS", 500)
    monkeypatch.setattr(table_output, "FILE_ROWS", 1000)
    monkeypatch.setattr(rank_parts, "CHUNK_ROWS", 100)
    monkeypatch.setattr(budget.Budget, "batch_instances", property(lambda self: 700))


@pytest.fixture
def inputs(tmp_path):
    case = sc.make_case()
    return case, *sc.write_inputs(tmp_path, case), tmp_path / "out.parquet"


def test_resume_goes_on_from_finished_partitions(inputs, small_parts, monkeypatch):
    case, model, scores, out = inputs
    out.write_bytes(b"old")
    with pytest.raises(StopError):
        rank_file(model, scores, out, partitions=6, resume=True, scheduler=stop_after(4))
    assert out.read_bytes() == b"old"
    ranked = []
    whole = source.make_part
    monkeypatch.setattr(source, "make_part", lambda *task: ranked.append(task[-1]) or whole(*task))
    rank_file(model, scores, out, partitions=6, resume=True)
    assert ranked == [4, 5]
    sc.assert_same(out, case.expected())
    assert {p.name for p in out.parent.iterdir()} == {"model.hlpr", "scores.parquet", out.name}


def test_without_resume_a_failed_run_leaves_nothing(inputs, small_parts):
    _, model, scores, out = inputs
    with pytest.raises(StopError):
        rank_file(model, scores, out, partitions=6, scheduler=stop_after(2))
    assert {p.name for p in out.parent.iterdir()} == {"model.hlpr", "scores.parquet"}


@pytest.mark.parametrize("what", ["the scores", "the model", "the options"])
def test_resume_refuses_what_changed(inputs, small_parts, what):
    case, model, scores, out = inputs
    with pytest.raises(StopError):
        rank_file(model, scores, out, partitions=6, resume=True, scheduler=stop_after(4))
    options = {}
    if what == "the scores":
        sc.pq.write_table(sc.wide_table(case).slice(1), scores, row_group_size=50)
    elif what == "the model":
        sc.make_case(seed=5).model.save(model)
    else:
        options = {"top": 5}
    said = what.replace("the model", "the model and the hierarchy")
    with pytest.raises(HierlprError, match=f"{said} changed since .*\nHint: run again without"):
        rank_file(model, scores, out, partitions=6, resume=True, **options)
    rank_file(model, scores, out, partitions=6, **options)
    assert out.exists()


def test_a_lost_run_file_is_made_again(inputs, small_parts):
    case, model, scores, out = inputs
    with pytest.raises(StopError):
        rank_file(model, scores, out, partitions=6, resume=True, scheduler=stop_after(4))
    (run,) = out.parent.rglob("part-000001.data")
    run.write_bytes(b"cut")
    rank_file(model, scores, out, partitions=6, resume=True)
    sc.assert_same(out, case.expected())


def test_one_run_at_a_time(inputs):
    _, model, scores, out = inputs
    with (
        claimed(out),
        pytest.raises(HierlprError, match="another run is writing the same output"),
    ):
        rank_file(model, scores, out)


def test_an_unreadable_row_group_is_named(inputs):
    _, model, scores, out = inputs
    metadata = sc.pq.ParquetFile(scores).metadata.row_group(3).column(2)
    data = bytearray(scores.read_bytes())
    at = metadata.data_page_offset
    data[at : at + 40] = b"\xff" * 40
    scores.write_bytes(data)
    with pytest.raises(HierlprError, match=r"row group 3 cannot be read"):
        rank_file(model, scores, out, partitions=3)
    assert not out.exists()


def test_a_model_of_other_labels_is_refused(inputs, tmp_path):
    _, model, scores, out = inputs
    table = sc.wide_table(sc.make_case()).rename_columns(
        ["sample", *(f"X{i}" for i in range(sc.N_LABELS))]
    )
    sc.pq.write_table(table, scores)
    with pytest.raises(HierlprError, match="label 'X0' is not in the hierarchy"):
        rank_file(model, scores, out, partitions=2)


@pytest.mark.parametrize(("bad", "message"), [
    ("nan", r"row 8, column 'L3': the value is missing or not a number"),
    ("again", "sample 's00002' occurs again"),
    ("nameless", "the sample has no name"),
])  # fmt: skip
def test_bad_rows_of_wide_tables(inputs, bad, message):
    case, model, scores, out = inputs
    columns = sc.wide_table(case).to_pydict()
    if bad == "nan":
        columns["L3"][7] = float("nan")
    else:
        columns["sample"][9] = "s00002" if bad == "again" else " "
    sc.pq.write_table(sc.pa.table(columns), scores, row_group_size=50)
    with pytest.raises(HierlprError, match=message):
        rank_file(model, scores, out, partitions=2)
    assert not out.exists()


def test_lenient_leaves_out_and_counts(inputs, tmp_path, small_parts):
    case, model, scores, out = inputs
    columns = sc.wide_table(case).to_pydict()
    columns["L3"][7] = columns["L5"][300] = float("nan")
    columns["sample"][60] = columns["sample"][61] = columns["sample"][9]
    columns["sample"][301] = None
    columns["sample"][400] = " "
    sc.pq.write_table(sc.pa.table(columns), scores, row_group_size=50)
    done = rank_file(model, scores, out, partitions=4, lenient=True)
    left_out = [7, 60, 61, 300, 301, 400]
    assert done.report.n_problems == len(left_out)
    assert done.n_samples == case.n_samples - len(left_out)
    kept = np.delete(np.arange(case.n_samples), left_out)
    names = tuple(case.table.samples[i] for i in kept)
    rest = sc.Case(case.model, sc.Table(case.table.values[kept], case.table.labels, names))
    sc.assert_same(out, rest.expected())


@pytest.mark.parametrize(("row", "message"), [
    ("s1,L0,nan", "the value is missing or not a number"),
    ("s1,LX,0.5", "label 'LX' is not in the hierarchy"),
    (",L0,0.5", "the sample has no name"),
    ("s0,L0,0.5", "line 4: sample 's0' has label 'L0' again"),
    ("s1,L0,x", "line 4, column 'score': 'x' is not a number"),
    ("s1,L0", "line 4: the row has 2 columns, expected 3"),
])  # fmt: skip
def test_bad_rows_of_long_tables(inputs, tmp_path, row, message):
    _, model, _, out = inputs
    text = tmp_path / "long.csv"
    text.write_text(f"sample,label,score\ns0,L0,0.7\ns0,L1,0.2\n{row}\n", encoding="utf-8")
    with pytest.raises(HierlprError, match=message):
        rank_file(model, text, out, partitions=2)
    sc.make_case(is_sparse=True).model.save(model)
    done = rank_file(model, text, out, partitions=2, lenient=True)
    # A sample is there, as in memory, if only its label is unknown.
    assert done.n_samples == (2 if "LX" in row else 1)
    assert done.report.n_problems + len(done.report.unknown_labels) == 1


def test_memory_is_written_with_a_unit():
    assert Budget.of("64MiB").memory == Budget.of(1 << 26).memory == 1 << 26
    assert Budget.of("1.5 gb").memory == 1_500_000_000
    for bad in ("much", "-1GB", "1MB"):
        with pytest.raises(HierlprError):
            Budget.of(bad)


# -- the process is killed --------------------------------------------------------------------


# Imports everything once and forks, so that twenty runs need not start twenty interpreters.


WARM = """
warm = hierlpr.model.load_score_model({model!r})
warm.n_threads = 1
warm.rank([[0.0] * warm.n_features_in_] * 2).score
"""


def test_a_killed_run_leaves_the_old_output_or_the_whole_new_one(inputs):
    """Twenty kills at random moments; then --resume completes the last one."""
    case, model, scores, out = inputs
    sc.pq.write_table(ranking_of(sc.make_case(seed=1).expected()), out)
    old = out.read_bytes()
    args = ["rank", "--model", model, "--scores", scores, "--out", out, "--partitions", 9,
            "--resume", "-q"]  # fmt: skip
    with killable(args, warm=WARM.format(model=str(model))) as run:
        run(0.0)
        new = out.read_bytes()
        sc.assert_same(out, case.expected())
        took = run(0.0)
        rng = random.Random(0)
        for _ in range(20):
            out.write_bytes(old)
            run(took * rng.uniform(0.05, 1.0))
            assert out.read_bytes() in (old, new)
        run(0.0)
    assert out.read_bytes() == new
    left = {path.name for path in out.parent.iterdir()}
    assert left == {"model.hlpr", "scores.parquet", out.name}


def ranking_of(expected):
    names = ["rank", "sample", "label", "lpr", "score", "call"]
    return sc.pa.table(dict(zip(names, expected, strict=True)))


# -- the disk is full -------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 300 kB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small tmpfs needs root")
    folder = tmp_path / "tiny"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("where", ["work", "out"])
def test_a_full_disk_is_said_and_leaves_the_old_output(tmp_path, tiny_disk, where):
    case = sc.make_case(6000)
    model, scores = sc.write_inputs(tmp_path, case, row_group_size=1000)
    out = tiny_disk / "out.parquet" if where == "out" else tmp_path / "out.parquet"
    out.write_bytes(b"old")
    work = tiny_disk / "work" if where == "work" else tmp_path / "work"
    args = ["rank", "--model", model, "--scores", scores, "--out", out, "--work", work]
    result = CliRunner().invoke(main, [*map(str, args), "--partitions", "3"])
    assert result.exit_code in (1, 2)
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr
    assert out.read_bytes() == b"old"
    assert {p.name for p in tiny_disk.iterdir()} <= {"out.parquet"}
    assert not work.exists()


def test_plan_is_json(inputs, small_parts):
    _, model, scores, out = inputs
    with pytest.raises(StopError):
        rank_file(model, scores, out, partitions=6, resume=True, scheduler=stop_after(1))
    (plan,) = out.parent.rglob("plan.json")
    plan = json.loads(plan.read_text())
    assert plan["inputs"]["the format of the work files"] == WORK_VERSION
    assert len(plan["found"]["source"]["pieces"]) == 12
