"""A stopped command removes its temporary files, and its exit code names the signal."""

import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hierlpr import Hierarchy, HierLPR


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model, and scores that need 40 MB on disk to be sorted."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    h = Hierarchy([("L0", f"L{i}") for i in range(1, 12)])
    truth = h.close_upward(rng.random((300, 12)) < 0.2)
    model = HierLPR(h, lpr="isotonic", joint=False).fit(rng.random(truth.shape) + truth, truth)
    model.save(folder / "m.hlpr")
    names = pa.array([f"s{i}" for i in range(120_000)])
    columns = {label: rng.random(len(names)) for label in h.labels}
    pq.write_table(pa.table({"sample": names, **columns}), folder / "s.parquet")
    return folder


def wait_for(process, found):
    """Wait until a function finds something, while a process runs."""
    for _ in range(3000):
        if found() or process.poll() is not None:
            break
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("moment", ["rows.arrow", "spill"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_command_leaves_nothing(files, tmp_path, number, moment):
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "hierlpr", "rank", "--model", files / "m.hlpr", "--scores",
         files / "s.parquet", "--out", out / "r.csv", "--memory", "64MiB", "--work", work],
        stderr=subprocess.PIPE, text=True)  # fmt: skip
    wait_for(process, lambda: list(work.glob(f"*/{moment}")))
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, err
    assert "fault of hierlpr" not in err
    assert "Traceback" not in err
    assert not list(work.iterdir())
    assert not list(out.iterdir())


def test_a_full_work_folder_is_named(files, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    limit = (10 << 20, 10 << 20)  # bytes per file
    done = subprocess.run(
        [sys.executable, "-m", "hierlpr", "rank", "--model", files / "m.hlpr", "--scores",
         files / "s.parquet", "--out", tmp_path / "r.csv", "--memory", "64MiB", "--work", work],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))  # fmt: skip
    assert done.returncode == 1
    assert f"Error: {work}: this folder for temporary files is full" in done.stderr
    assert "On the command line: --work" in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["work"]
