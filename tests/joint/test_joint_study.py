"""The studies of the joint posterior, reduced: they run, and show what the documentation claims."""

import csv
import importlib.util
import tomllib
from pathlib import Path

import numpy as np
import pytest

from realdata import needs_data

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "experiments" / "joint"


def load(path):
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def study():
    return load(STUDY / "run.py")


def test_the_joint_posterior_comes_near_the_oracle(study):
    for setting in ("3", "tree25"):
        train, test = study.simulate.train_test(setting, rng=np.random.default_rng(7))
        area = {
            method: study.measure(test.truth, study.rank_by(method, train, test, {}, 0))[0]
            for method in ("HierLPR", "joint", "joint auto", "oracle")
        }
        assert area["joint"] > area["oracle"] - 0.01
        assert area["joint auto"] > area["oracle"] - 0.01
        assert area["joint"] > area["HierLPR"]


def test_fits_to_few_samples_do_not_hurt():
    config = tomllib.loads((STUDY / "config.toml").read_text())["small_n"]
    module = load(STUDY / "small_n.py")
    gains = [
        float(row["gain"])
        for name in ("setting 3", "shared noise")
        for row in module.run_one(name, 60, 0, config)
        if row["rule"] == "share"
    ]
    assert len(gains) == 2
    assert min(gains) > -0.05


@pytest.mark.filterwarnings("ignore::hierlpr.exceptions.UnreachableWarning")
def test_the_study_of_certified_cutoffs_runs(study, tmp_path):
    small = {"settings": ["3"], "replications": 2, "n_samples": 200, "n_test": 500, "fdr": 0.1,
             "confidence": 0.9}  # fmt: skip
    study.run_guarantee({"seed": 1, "guarantee": small}, tmp_path)
    assert [r["replications"] for r in rows(tmp_path / "guarantee.csv")] == ["2"] * 3


def test_the_study_of_dags_runs(study, tmp_path):
    small = {"seed": 1, "dag": {"cases": 2, "labels": 6, "samples": 5}}
    study.run_dag(small, tmp_path)
    found = rows(tmp_path / "dag.csv")
    assert len(found) == 24
    for row in found:
        if row["posterior"] == "exact":
            assert float(row["largest_error"]) < 1e-9


@needs_data
def test_auto_does_not_hurt_on_real_scores():
    real = load(ROOT / "experiments" / "joint_real" / "run.py")
    found = real.compare("enron_scores", real.from_scores("enron/enron_confidences.npz"))
    area = {row["joint"]: float(row["au_prc"]) for row in found}
    assert area["auto"] > area[False] - 0.002
    assert area[False] > 0.799
    assert all(row["violations"] == 0 for row in found)


def test_the_benchmark_runs(capsys):
    load(ROOT / "benchmarks" / "joint_ratios.py").compare(scale=200)
    assert capsys.readouterr().out.count("units") == 16
