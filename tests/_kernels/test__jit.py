"""How kernels are compiled: on first use, for any version of NumPy, announced once."""

import logging
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

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


def test_compilation_is_announced_where_nothing_is_cached(tmp_path, caplog):
    (tmp_path / "some.f-1.py312.nbi").touch()
    with caplog.at_level(logging.INFO, logger="hierlpr"):
        _jit._announce_compilation(str(tmp_path))
        assert not caplog.records
        _jit._announce_compilation(str(tmp_path / "empty"))
    assert "compiling" in caplog.text


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
