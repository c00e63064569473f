"""The same ranking from worker processes over TCP, also when one of them is killed."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import scalecases as sc

from hierlpr import HierlprError, workflows
from hierlpr.data.tables import Table
from hierlpr.io import table_output, write_truth
from hierlpr.scale import budget, rank_parts
from hierlpr.scale.parts import Cluster, executor_of

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of what Dask's own shutdown leaves open


@pytest.fixture
def client():
    """Three fresh worker processes that talk TCP on the loopback device.

    Fresh for every test: Dask now and then fails to replace a worker that was killed.
    """
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, protocol="tcp",
            host="127.0.0.1", dashboard_address=None,
        ) as here,
        distributed.Client(here) as client,
    ):  # fmt: skip
        client.wait_for_workers(3, timeout=120)
        yield client


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(table_output, "GROUP_ROWS", 500)
    monkeypatch.setattr(table_output, "FILE_ROWS", 1000)
    monkeypatch.setattr(rank_parts, "CHUNK_ROWS", 100)
    monkeypatch.setattr(budget.Budget, "batch_instances", property(lambda self: 700))


def kill_one(client):
    """Kill a worker process, as a machine that goes down would."""
    pids = client.run(os.getpid, on_error="ignore")  # of those that were killed before, none
    assert pids
    assert all(address.startswith("tcp://127.0.0.1") for address in pids)
    os.kill(min(pids.values()), signal.SIGKILL)


def test_killed_workers_change_nothing(tmp_path, client, small_parts):
    case = sc.make_case()
    model, scores = sc.write_inputs(tmp_path, case)
    killed = set()
    out = tmp_path / "out.parquet"
    done = workflows.rank_file(
        model, scores, out, partitions=6, scheduler=Cluster(client),
        on_progress=killer(client, killed),
    )  # fmt: skip
    assert killed == {"ranking", "sorting"}
    assert out.is_dir()
    expected = case.expected()
    sc.assert_same(out, expected)
    assert (done.n_rows, done.n_calls) == (expected[0].size, expected[5].sum())


def test_one_worker_gives_the_same_and_errors_come_back(tmp_path, client, small_parts):
    case = sc.make_case()
    model, scores = sc.write_inputs(tmp_path, case)
    one = Cluster(client, workers=[min(client.nthreads())])
    options = {"partitions": 4, "scheduler": one}
    workflows.rank_file(model, scores, tmp_path / "out", calls_only=True, **options)
    sc.assert_same(tmp_path / "out", case.expected(calls_only=True))
    columns = sc.wide_table(case).to_pydict()
    columns["L3"][400] = float("nan")
    sc.pq.write_table(sc.pa.table(columns), scores, row_group_size=50)
    with pytest.raises(HierlprError, match="row 401, column 'L3'"):
        workflows.rank_file(model, scores, tmp_path / "out", **options)
    sc.assert_same(tmp_path / "out", case.expected(calls_only=True))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_fit_survives_a_killed_worker(tmp_path, client, small_parts, is_sparse):
    case, h = fit_inputs(tmp_path, is_sparse=is_sparse)
    options = {"goal": {"maximize": "f1"}, "lpr": "isotonic", "joint": False}
    files = (h, tmp_path / "scores.parquet", tmp_path / "truth.csv")
    workflows.fit_file(*files, tmp_path / "whole.hlpr", **options)
    killed = set()
    workflows.fit_file(
        *files, tmp_path / "parts.hlpr", **options, scheduler=Cluster(client), partitions=6,
        on_progress=killer(client, killed),
    )  # fmt: skip
    assert "reading instances" in killed
    assert (tmp_path / "parts.hlpr").read_bytes() == (tmp_path / "whole.hlpr").read_bytes()
    assert case.n_samples == 600


def test_an_evaluation_survives_a_killed_worker(tmp_path, client, small_parts):
    _, h = fit_inputs(tmp_path)
    ranked = tmp_path / "ranked.parquet"
    workflows.rank_file(tmp_path / "model.hlpr", tmp_path / "scores.parquet", ranked)
    whole = workflows.evaluate_file(ranked, tmp_path / "truth.csv", h)
    killed = set()
    parts = workflows.evaluate_file(
        ranked, tmp_path / "truth.csv", h, partitions=7, scheduler=Cluster(client),
        on_progress=killer(client, killed),
    )  # fmt: skip
    assert "measuring" in killed
    assert parts.evaluation == whole.evaluation


def fit_inputs(folder, **options):
    case = sc.make_case(**options)
    sc.write_inputs(folder, case)
    h = case.model.hierarchy_
    truth = h.close_upward(np.random.default_rng(1).random((case.n_samples, h.n_labels)) < 0.1)
    write_truth(folder / "truth.csv", Table(truth.astype(float), h.labels, case.table.samples))
    return case, h


def killer(client, killed):
    def kill_once_a_stage(stage, done, total):
        if 0 < done < total and stage not in killed:
            killed.add(stage)
            kill_one(client)

    return kill_once_a_stage


def test_no_scheduler_is_said():
    with (
        pytest.raises(HierlprError, match="does not answer"),
        executor_of("tcp://127.0.0.1:1", timeout="2s"),
    ):
        pass


def test_the_core_does_not_import_dask():
    code = "import sys, hierlpr.scale.parts, hierlpr.cli; print('dask' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
