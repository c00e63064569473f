"""What `import hierlpr` costs and offers."""

import os
import subprocess
import sys

import duckdb
import numpy as np
import pytest

import hierlpr
from hierlpr.data.tables import Table
from hierlpr.io import write_hierarchy, write_scores, write_truth

HEAVY = ["sklearn", "pyarrow", "dask", "matplotlib", "duckdb", "numba", "jinja2", "pandas"]


def test_import_is_light():
    code = (
        "import resource, sys, hierlpr\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        f"print([m for m in {HEAVY} if m in sys.modules])\n"
        "print(usage.ru_utime + usage.ru_stime < 0.5)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True"]


def test_using_a_hierarchy_needs_no_compiler():
    code = (
        "import sys; from hierlpr import Hierarchy\n"
        "h = Hierarchy([('A', 'B')]); print(h.depth, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]


@pytest.mark.parametrize(
    ("how", "used"),
    # DuckDB itself may load pandas.
    [("", ["pyarrow"]), ("--work w", ["pyarrow", "duckdb", "pandas"])],
)
def test_evaluating_needs_neither_compiler_nor_matrix_library(tmp_path, how, used):
    (tmp_path / "h.csv").write_text("parent,child\nA,B\n")
    (tmp_path / "t.tsv").write_text("s\tB\n")
    (tmp_path / "p.tsv").write_text("s\tB\t0.5\n")
    code = (
        "import sys; from hierlpr.cli import main\n"
        f"sys.argv[1:] = 'evaluate --hierarchy h.csv --truth t.tsv --ranking p.tsv {how}'.split()\n"
        "try: main()\n"
        f"finally: print([m for m in {[*HEAVY, 'scipy']} if m in sys.modules and m not in {used}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("out", ["r.csv", "r.tsv", "r.parquet"])
def test_writing_a_ranking_does_not_load_pandas(tmp_path, out):
    code = (
        "import sys; from hierlpr import Hierarchy, rank\n"
        "from hierlpr.io.rankings import write_ranking\n"
        "ranking = rank([[0.9, 0.4], [0.2, 0.1]], Hierarchy([('A', 'B')]))\n"
        f"write_ranking({out!r}, ranking, samples=['s', 't'], call=ranking.score > 0.3)\n"
        "print([m for m in ('pandas', 'sklearn', 'numba') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["[]"]


def test_commands_load_little_of_scipy(tmp_path):
    code = "import sys, scipy.special; print('scipy.linalg' in sys.modules)"
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if alone.stdout == "True\n":
        pytest.skip("scipy.special of this old SciPy itself loads scipy.linalg")
    h, names = hierlpr.Hierarchy([("A", "B")]), tuple(map(str, range(60)))
    truth = np.tile([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]], (20, 1))
    scores = truth + np.random.default_rng(0).normal(size=truth.shape)
    write_hierarchy(tmp_path / "h.csv", h)
    write_scores(tmp_path / "s.csv", Table(scores, h.labels, names))
    write_truth(tmp_path / "t.csv", Table(truth, h.labels, names), long=True)
    commands = {
        "fit --hierarchy h.csv --scores s.csv --truth t.csv --fdr 0.3 --confidence 0.8 "
        "--out m.hlpr": ("scipy.stats", "scipy.optimize", "scipy.linalg"),
        "rank --model m.hlpr --scores s.csv --out r.csv": ("scipy.sparse", "scipy.special"),
    }
    for command, unused in commands.items():
        code = (
            f"import sys; from hierlpr.cli import main; sys.argv[1:] = {command!r}.split()\n"
            "try: main()\n"
            f"finally: print([m for m in {unused} if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("asked", [None, "3"])
def test_a_fit_loads_no_data_frames_and_leaves_products_to_one_thread(tmp_path, asked):
    h, names = hierlpr.Hierarchy([("A", "B")]), tuple(map(str, range(60)))
    truth = np.tile([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]], (20, 1))
    write_hierarchy(tmp_path / "h.csv", h)
    write_scores(tmp_path / "s.csv", Table(truth + 0.1, h.labels, names))
    write_truth(tmp_path / "t.csv", Table(truth, h.labels, names))
    code = (
        "import sys; from hierlpr.cli import main\n"
        "sys.argv[1:] = 'fit --hierarchy h.csv --scores s.csv --truth t.csv --out m'.split()\n"
        "try: main()\n"
        "finally:\n"
        "    import os; print(os.environ['OPENBLAS_NUM_THREADS'])\n"
        "    print([m for m in ('narwhals', 'pyarrow.compute') if m in sys.modules])"
    )
    unset = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    env = {key: value for key, value in os.environ.items() if key not in unset}
    env |= {} if asked is None else {"OPENBLAS_NUM_THREADS": asked}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path,
        env=env,
    )  # fmt: skip
    assert done.stdout.splitlines()[-2:] == [asked or "1", "[]"]


@pytest.mark.skipif(duckdb.__version__ < "2", reason="before 2.0 DuckDB itself loads pandas")
def test_runs_in_parts_do_not_load_pandas(tmp_path):
    h, names = hierlpr.Hierarchy([("A", "B")]), tuple(map(str, range(60)))
    truth = np.tile([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]], (20, 1))
    write_hierarchy(tmp_path / "h.csv", h)
    write_scores(tmp_path / "s.csv", Table(truth + 0.1, h.labels, names))
    write_truth(tmp_path / "t.csv", Table(truth, h.labels, names), long=True)
    code = (
        "import sys; from hierlpr.workflows import evaluate_file, fit_file, rank_file\n"
        "fit_file('h.csv', 's.csv', 't.csv', 'm.hlpr', partitions=2)\n"
        "rank_file('m.hlpr', 's.csv', 'r.parquet', partitions=2)\n"
        "evaluate_file('r.parquet', 't.csv', 'h.csv', partitions=2)\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["False"]


def test_every_public_name_loads():
    for name in hierlpr.__all__:
        assert getattr(hierlpr, name) is not None
    assert set(hierlpr.__all__) == set(dir(hierlpr))


def test_commands_on_models_need_no_scikit_learn(tmp_path):
    code = (
        "import sys; import numpy as np; from hierlpr import Hierarchy\n"
        "from hierlpr.model import ScoreModel, load_score_model\n"
        "truth = np.tile([[1, 1], [1, 0], [0, 0]], (20, 1)); scores = truth + 0.1\n"
        "model = ScoreModel(Hierarchy([('A', 'B')])).fit(scores, truth)\n"
        f"model.save({str(tmp_path / 'm.hlpr')!r})\n"
        f"order = load_score_model({str(tmp_path / 'm.hlpr')!r}).rank(scores)\n"
        "print(len(order), [m for m in ('sklearn', 'pandas', 'scipy.stats') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "120 []"


@pytest.mark.parametrize(
    ("library", "call", "extra"),
    [
        ("matplotlib", "from hierlpr.plots.drawing import new_axes as f; f(None)", "report"),
        ("jinja2", "from hierlpr.report import write_report as f; f('p', None, 0, 0)", "report"),
        (
            "matplotlib",
            "from hierlpr.research.reproduce import reproduce as f; f(out='p')",
            "report",
        ),
        ("duckdb", "from hierlpr.scale.budget import engine as f; f(0, 1).__enter__()", "scale"),
        (
            "dask",
            "from hierlpr.scale.parts import executor_of as f; f('x').__enter__()",
            "dask",
        ),
    ],
)
def test_a_library_that_is_not_there_is_named_with_its_extra(library, call, extra, tmp_path):
    code = (
        f"import sys; sys.modules[{library!r}] = None; from hierlpr import HierlprError\n"
        f"try:\n    {call}\nexcept HierlprError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert f"needs {library}, which is not installed" in done.stdout
    assert f'pip install "hierlpr[{extra}]"' in done.stdout
    assert list(tmp_path.iterdir()) == []
