"""The benchmark still runs and prints its ratios; no time is asserted."""

import importlib.util
from pathlib import Path

import hierlpr.lpr

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "lpr_ratios.py"


def test_the_benchmark_prints_every_ratio(capsys):
    spec = importlib.util.spec_from_file_location("lpr_ratios", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.fitting(200, 40)
    module.predicting(300, 5)
    module.growth((300, 600), 1)
    printed = capsys.readouterr().out
    assert "auto, 2 thread(s)" in printed
    assert printed.count("units") >= 9
    for method in set(hierlpr.lpr.ESTIMATORS) - {"probability"}:  # auto and one line
        assert method in printed
