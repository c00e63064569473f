"""What is wrong with a scheduler or its workers is reported instead of waited for."""

import json
import os
import subprocess
import sys
import time

import pytest

from hierlpr.exceptions import ResourceError
from hierlpr.outofcore import workers
from hierlpr.outofcore.workers import map_batches

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def scheduler():
    """A scheduler of its own on loopback, without workers."""
    with distributed.LocalCluster(
        n_workers=0, protocol="tcp", host="127.0.0.1", dashboard_address=None, processes=False
    ) as cluster:
        yield cluster.scheduler_address


def test_no_scheduler(monkeypatch):
    monkeypatch.setattr(workers, "TIMEOUT", 1)
    with pytest.raises(ResourceError, match="does not answer"):
        list(map_batches(str, [1], "tcp://127.0.0.1:1"))


def test_no_workers(monkeypatch, scheduler):
    monkeypatch.setattr(workers, "TIMEOUT", 2)
    with pytest.raises(ResourceError, match="has no workers"):
        list(map_batches(str, [1], scheduler))


def test_workers_without_hierlpr(scheduler, tmp_path):
    (tmp_path / "hierlpr").mkdir()
    (tmp_path / "hierlpr" / "__init__.py").write_text("raise ImportError('no such library')")
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--no-nanny",
               "--no-dashboard", "--death-timeout", "60", "--host", "127.0.0.1"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    worker = subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        with pytest.raises(ResourceError, match=r"cannot import hierlpr \(ImportError: no such"):
            list(map_batches(str, [1], scheduler))
    finally:
        worker.kill()
        worker.wait()


def test_a_scheduler_that_dies_during_a_run(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "TIMEOUT", 5)
    file = tmp_path / "scheduler.json"
    base = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file)
    commands = (("dask_scheduler", "--port", "0"), ("dask_worker", "--no-nanny"))
    running = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *more, *base],
            stderr=subprocess.DEVNULL,
        )
        for name, *more in commands
    ]
    try:
        while not file.exists() or not file.read_text().strip():
            time.sleep(0.1)
        results = map_batches(time.sleep, [0.3] * 30, json.loads(file.read_text())["address"])
        next(results)
        running[0].kill()
        with pytest.raises(ResourceError, match=r"connection to the scheduler .* was lost"):
            list(results)
    finally:
        for process in running:
            process.kill()
            process.wait()
