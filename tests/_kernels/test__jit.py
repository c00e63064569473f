"""How kernels are compiled: on first use, for any version of NumPy, cached if possible."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import hierlpr
from hierlpr import HierLPR
from hierlpr._kernels import _jit

WITHOUT_SUBSCRIPTS = """
import numpy.typing as npt

class Alias:
    def __class_getitem__(cls, item):
        return item

npt.NDArray = Alias  # newer and older versions of NumPy spell it differently
import numpy as np
from hierlpr import Hierarchy, rank
print(rank(np.array([[0.2, 0.8]]), Hierarchy([("A", "B")])).score.tolist())
"""


def test_signatures_do_not_depend_on_how_numpy_spells_array_types(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SUBSCRIPTS], env=dict(os.environ), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["[0.5,", "0.5]"], done.stderr


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_read_only_installation_without_a_home_runs(tmp_path):
    """As in a container: a copy of the code and a home in folders that cannot be written."""
    drop = []
    if os.geteuid() == 0:  # root ignores permissions unless it gives up its capabilities
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere")
        drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    code = tmp_path / "installed"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(hierlpr.__file__).parent, code / "hierlpr", ignore=ignored)
    out = tmp_path / "out"
    out.mkdir()
    (out / "scores.csv").write_text("sample,A,B\ns1,0.9,0.2\n")
    model = HierLPR([("A", "B")], joint=False)
    model.fit(np.arange(20.0).reshape(10, 2) / 20, np.array([[1, i % 2] for i in range(10)]))
    model.save(out / "model.hlpr")
    folders = [tmp_path / "installed", *(p for p in code.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    home = str(code / "home")
    environment = {
        name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"
    } | {"PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= dict.fromkeys(("HOME", "XDG_CACHE_HOME", "IPYTHONDIR"), home)
    rank = ["rank", "--model", "model.hlpr", "--scores", "scores.csv", "--out", "calls.csv"]
    try:
        done = subprocess.run(
            [*drop, sys.executable, "-m", "hierlpr", *rank], cwd=out, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1
    assert len((out / "calls.csv").read_text().splitlines()) == 3


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_compilation_is_announced_when_it_happens_and_only_then(tmp_path):
    compile_one = "from hierlpr import rank; rank([[0.2, 0.8]], [('A', 'B')])"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def announced(code):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stderr.count("compiling inner loops, once")

    assert announced("import hierlpr._kernels.joint, hierlpr._kernels.forest_blocks") == 0
    assert announced(compile_one) == 1
    assert announced(compile_one) == 0


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_read_only_views_leave_the_array_as_it_is_and_need_one_compilation():
    @numba.njit
    def total(values):
        return values.sum()

    array, frozen = np.ones(3), np.ones(3)
    frozen.flags.writeable = False
    for values in (array, frozen, array):
        assert total(_jit.read_only(values)) == 3.0
    assert len(total.signatures) == 1
    assert array.flags.writeable


def test_negative_n_jobs_count_from_all_cores(monkeypatch):
    monkeypatch.delenv("HIERLPR_NUM_THREADS", raising=False)
    n_cores = _jit.n_jobs_or_default(None)
    assert _jit.n_jobs_or_default(-1) == n_cores
    assert _jit.n_jobs_or_default(-n_cores - 5) == 1
    monkeypatch.setenv("HIERLPR_NUM_THREADS", str(n_cores + 3))
    assert _jit.n_jobs_or_default(None) == n_cores + 3
    assert _jit.n_jobs_or_default(-1) == n_cores
