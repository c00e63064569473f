"""Where kernels come from: signatures read off annotations, checks of arguments, messages."""

import importlib
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from hierlpr import _kernels
from hierlpr._kernels import _jit
from hierlpr._kernels._arrays import ArrayType, Floats2, Index, Places, Signature, signatures


class Pair(NamedTuple):
    place: Places
    scale: float


def some_kernel(values: Floats2, index: Index, pair: Pair, n: int) -> None:
    """Compute nothing; only its annotations matter."""


def made(**functions):
    """The kernel as it would be if an extension held the given functions."""
    return _jit.Kernel(some_kernel, lambda name, _: functions[name])


def good(kind=np.int32):
    return np.zeros((2, 3)), np.zeros(4, np.int32), Pair(np.zeros(2, kind), 1.0), 5


def test_every_kernel_declares_what_it_takes():
    for path in Path(_kernels.__file__).parent.glob("[a-z]*.py"):
        importlib.import_module(f"hierlpr._kernels.{path.stem}")
    assert len(_jit.KERNELS) > 30
    for kernel in _jit.KERNELS.values():
        for signature in signatures(kernel.function).values():
            assert len(signature.parameters) == kernel.function.__code__.co_argcount


def test_an_extension_that_fails_to_load_leaves_the_work_to_numba(monkeypatch):
    def fail(name):
        raise ValueError("incorrect value for flags variable (overflow)")

    monkeypatch.delenv("HIERLPR_KERNELS", raising=False)
    monkeypatch.setattr(_jit.importlib, "import_module", fail)
    assert _jit._extension.__wrapped__() is None


def test_records_of_kernels_are_such_as_numpy_1_reads():
    """An extension holds its record types as NumPy 2 pickles them: aligned ones NumPy 1 refuses."""
    records = [
        value
        for path in Path(_kernels.__file__).parent.glob("[a-z]*.py")
        for value in vars(importlib.import_module(f"hierlpr._kernels.{path.stem}")).values()
        if isinstance(value, np.dtype) and value.names
    ]
    assert len(records) >= 3
    for record in records:
        assert not record.isalignedstruct
        assert all(record.fields[name][1] % record[name].itemsize == 0 for name in record.names)


def test_annotations_become_signatures_one_for_each_kind_of_index():
    found = signatures(some_kernel)
    assert list(found) == ["some_kernel_int32", "some_kernel_int64"]
    matrix, index, pair, number = found["some_kernel_int64"].parameters
    assert matrix == ArrayType(np.dtype(float), 2)
    assert index == ArrayType(np.dtype(np.int32), 1)
    assert pair == Signature((ArrayType(np.dtype(np.int64), 1), float), Pair)
    assert number is int


def test_an_argument_that_is_no_type_of_a_kernel_is_refused():
    def other(text: str) -> None:
        """Take a string."""

    with pytest.raises(TypeError, match="no type of a kernel"):
        signatures(other)


def test_calls_go_to_the_way_that_fits():
    kernel = made(some_kernel_int32=lambda *_: "short", some_kernel_int64=lambda *_: "long")
    assert kernel(*good()) == "short"
    assert kernel(*good(np.int64)) == "long"


def unaligned(n):
    return np.frombuffer(bytes(4 * n + 1), np.int32, offset=1)


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (0, np.zeros((2, 3), np.float32), "float32"),
        (0, np.zeros(6), "1-D"),
        (0, np.zeros((3, 2)).T, "not in C order"),
        (0, [[0.0]], "expected"),
        (1, np.zeros(8, np.int32)[::2], "not in C order"),
        (1, unaligned(3), "not aligned"),
        (1, np.zeros(4, np.int64), "int64"),
        (2, (np.zeros(2, np.int32), 1.0), "expected"),
        (2, Pair(np.zeros(2, np.int16), 1.0), "expected"),
    ],
)
def test_memory_of_another_kind_never_reaches_compiled_code(place, value, why):
    kernel = made(some_kernel_int32=pytest.fail, some_kernel_int64=pytest.fail)
    args = list(good())
    args[place] = value
    with pytest.raises(TypeError, match=f"some_kernel: argument {place} .*{why}"):
        kernel(*args)
    with pytest.raises(TypeError, match="3 arguments instead of 4"):
        kernel(*good()[:3])


INSTALLED = """
import sys
from pathlib import Path
from hierlpr._kernels import _build, marks
def refuse(*_):
    raise RuntimeError("no compiler here")
_build._link = refuse
_build.declare_all = lambda: None  # only those of marks: compiling all takes a minute
print([path.name for path in _build.build(Path("here"))])
"""

USED = """
import numpy as np
from hierlpr._kernels._jit import KERNELS
from hierlpr._kernels.marks import count_at_marks
x, number = np.array([1.0, 2.0, 2.0]), np.zeros(3, np.int64)
x.flags.writeable = False  # Numba by itself would compile for this anew
count_at_marks(x, np.empty(0), np.array([2.0]), number, np.empty(0), np.empty(0))
stats = KERNELS["count_at_marks"].dispatcher.stats
print(number.tolist(), len(stats.cache_hits), len(stats.cache_misses))
"""


def test_without_a_compiler_an_installation_keeps_what_numba_compiled(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "HIERLPR_KERNELS": "numba"}

    def run(code):
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment)

    assert run(USED).stdout == "[1, 2, 0] 0 1\n"
    shutil.rmtree(tmp_path)
    installed = run(INSTALLED)
    assert installed.stderr == "no compiler here\n"
    assert "marks.count_at_marks" in installed.stdout
    assert run(USED).stdout == "[1, 2, 0] 1 0\n"


@pytest.mark.parametrize("patience", [0.0, 30.0])
def test_long_compiling_is_announced_once(monkeypatch, caplog, patience):
    from hierlpr._kernels import _compiling

    monkeypatch.setattr(_compiling, "PATIENCE", patience)
    caplog.set_level(logging.INFO, logger="hierlpr")
    announcer = _compiling.Announcer()
    for _ in range(2):
        announcer.on_start(None)
        announcer.on_start(None)  # a kernel that calls another
        time.sleep(0.05)
        announcer.on_end(None)
        announcer.on_end(None)
    assert len(caplog.records) == (1 if patience == 0.0 else 0)


@pytest.mark.parametrize("quiet", [False, True])
def test_commands_say_what_the_library_logs(capsys, quiet):
    from hierlpr.cli._shell import Shell

    Shell(quiet=quiet)
    logging.getLogger("hierlpr").info("compiling, once")
    assert capsys.readouterr().err == ("" if quiet else "compiling, once\n")


RANKED = """
import numpy as np, sys
from hierlpr import HierLPR, Hierarchy
rng = np.random.default_rng(0)
edges = [(f"L{p}", f"L{i}") for i in range(1, 25) for p in {i // 2, i // 3, rng.integers(i)}]
h = Hierarchy(edges[: int(sys.argv[1])], labels=[f"L{i}" for i in range(25)])
truth = h.close_upward(rng.random((300, 25)) < 0.05)
scores = truth * 1.5 + rng.normal(size=truth.shape)
r = HierLPR(h, joint=True).fit(scores, truth).rank(scores)
print("numba" in sys.modules, r.place.tobytes().hex()[-2000:], r.score.tobytes().hex()[-2000:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_edges", [0, 60])
def test_compiled_ahead_or_on_first_use_results_have_the_same_bits(n_edges):
    if _jit._extension() is None:
        pytest.skip("the kernels were not compiled with the package")
    done = [
        subprocess.run(
            [sys.executable, "-c", RANKED, str(n_edges)],
            capture_output=True, text=True, check=True, env={**os.environ, "HIERLPR_KERNELS": kind},
        ).stdout.split()
        for kind in ("", "numba")
    ]  # fmt: skip
    assert [used for used, *_ in done] == ["False", "True"]
    assert done[0][1:] == done[1][1:]
