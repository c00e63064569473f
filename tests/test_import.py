"""What `import hierlpr` and `hierlpr --help` load, and what is said when an extra is missing."""

import subprocess
import sys

import pytest

import hierlpr

HEAVY = ["sklearn", "pyarrow", "dask", "matplotlib", "duckdb", "numba", "jinja2", "pandas"]


@pytest.mark.parametrize(
    "use", ["import hierlpr", "from hierlpr.cli import main; main(['-h'], standalone_mode=False)"]
)
def test_import_and_help_are_light(use):
    code = f"import sys; {use}\nprint([m for m in {HEAVY} if m in sys.modules])\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_models_of_scores_load_no_readers_of_files():
    code = "import sys, hierlpr.model; print('hierlpr.io' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_public_name_loads():
    for name in hierlpr.__all__:
        assert getattr(hierlpr, name) is not None
    assert set(hierlpr.__all__) == set(dir(hierlpr))
    with pytest.raises(AttributeError, match="no attribute 'rnak'"):
        _ = hierlpr.rnak


def test_packages_of_files_and_reports_need_no_import_of_their_own():
    code = "import hierlpr; hierlpr.io.read_scores; hierlpr.report.write_report"
    subprocess.run([sys.executable, "-c", code], check=True)


NEED = {
    "from hierlpr.outofcore.resources import duckdb_connection as f; f(0, 1).__enter__()": (
        "duckdb", "scale"),
    "from hierlpr.outofcore.predict import map_batches as f; next(f(str, [1], 'x'))": (
        "dask", "dask"),
}  # fmt: skip


def test_a_missing_library_is_named_with_its_extra(tmp_path):
    code = (
        f"import sys; sys.modules |= dict.fromkeys({[x for x, _ in NEED.values()]})\n"
        "from hierlpr import HierlprError\n"
        f"for call in {list(NEED)}:\n"
        "    try: exec(call)\n"
        "    except HierlprError as error: print(str(error).replace(chr(10), ' '))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    said = done.stdout.splitlines()
    for (library, extra), line in zip(NEED.values(), said, strict=True):
        assert f"needs {library}" in line
        assert f'pip install "hierlpr[{extra}]"' in line
    assert list(tmp_path.iterdir()) == []
