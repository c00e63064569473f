"""The same ranking from worker processes over TCP, also when one of them is killed."""

import os
import signal

import pytest
import scalecases as sc

from hierlpr import HierlprError, workflows
from hierlpr.outofcore.cluster import map_batches

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of what Dask's own shutdown leaves open


@pytest.mark.timeout(300)
def test_a_killed_worker_changes_nothing(tmp_path, small_batches):
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


def test_no_scheduler_is_reported(monkeypatch):
    monkeypatch.setattr("hierlpr.outofcore.cluster.TIMEOUT", "1s")
    with pytest.raises(HierlprError, match="does not answer"):
        list(map_batches(str, [1], "tcp://127.0.0.1:1"))
