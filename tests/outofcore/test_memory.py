"""Commands keep to `--memory` with many samples, whose names take more than their scores."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hierlpr import Hierarchy, HierLPR

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc"),
]
N_SAMPLES, MEMORY = 6_000_000, 400_000_000
# The peak of a process, which it does not share with the one that started it, as ru_maxrss is.
RUN = """
import sys
from hierlpr.cli import main
try:
    main(sys.argv[1:])
finally:
    with open("/proc/self/status") as file:
        print(next(line for line in file if line.startswith("VmHWM")).split()[1], file=sys.stderr)
"""


def test_rank_keeps_to_the_memory(tmp_path):
    rng = np.random.default_rng(0)
    h = Hierarchy([("L0", "L1"), ("L0", "L2"), ("L2", "L3"), ("L2", "L4")])
    truth = h.close_upward(rng.random((600, 5)) < 0.2)
    scores = np.round(0.5 * (rng.random(truth.shape) + truth), 1)
    model = HierLPR(h, lpr="isotonic", joint=False).fit(scores[:300], truth[:300])
    model.calibrate(scores[300:], truth[300:], maximize="f1").save(tmp_path / "m.hlpr")
    number = pa.array(np.arange(N_SAMPLES)).cast(pa.string())
    columns = {label: np.round(rng.random(N_SAMPLES) ** 2, 2) for label in h.labels}
    names = pa.compute.binary_join_element_wise("sample", number, "")
    pq.write_table(pa.table({"sample": names, **columns}), tmp_path / "s.parquet")
    command = [
        sys.executable, "-c", RUN, "rank", "--model", tmp_path / "m.hlpr", "--scores",
        tmp_path / "s.parquet", "--out", tmp_path / "r.parquet", "--calls-only", "--memory",
        MEMORY, "--work", tmp_path, "-q",
    ]  # fmt: skip
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    peak = 1024 * int(done.stderr.split()[-1])
    assert peak <= 1.3 * MEMORY + 400e6, peak
