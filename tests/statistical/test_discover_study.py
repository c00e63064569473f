"""The committed study of discover(), a reduced run of it, and (slow) the whole of it."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "discover"
OURS = ("positive", "arbitrary", "independent")


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("discover_study", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def committed(name):
    with (FOLDER / name).open() as file:
        return list(csv.DictReader(file))


def kept(row):
    """Whether the FDR of a cell is at most its level within three standard errors."""
    return float(row["fdr"]) <= float(row["level"]) + 3 * float(row["fdr_se"])


def test_the_committed_study_keeps_every_promise(study):
    rows, config = committed("fdr.csv"), study.read_config()
    assert config["levels"] == [0.05, 0.2]
    for name in OURS:
        mine = [row for row in rows if row["procedure"] == name and row["holds"] == "1"]
        cells = {(row["cell"], row["hierarchy"]) for row in mine}
        assert len(cells) >= 12
        assert {row["hierarchy"] for row in mine} == {"forest", "dag"}
        assert {row["replications"] for row in mine} == {"200"}
        assert [row for row in mine if not kept(row)] == []
        assert {row["violations"] for row in mine} == {"0.0"}
    others = [row for row in rows if row["holds"] == "1" and row["procedure"] not in OURS]
    assert [row for row in others if not kept(row)] == []


def test_the_study_shows_broken_promises_where_assumptions_fail(study):
    # The adversary is one: what does not allow for it goes astray, so the cells can fail.
    rows = committed("fdr.csv")
    astray = [
        row for row in rows
        if row["dependence"] == "adversarial" and row["procedure"] in ("positive", "simes_max_bh")
        and not kept(row)
    ]  # fmt: skip
    assert astray
    violated = [r for r in rows if r["procedure"] == "benjamini_hochberg"]
    assert max(float(row["violations"]) for row in violated) > 5


def test_the_power_is_what_was_aimed_at():
    # By shift, root, child: the power to reach, and the better of Simes-DAGGER and DAGGER.
    aims = {("2.5", "0.4", "0.4"): 0.51, ("2.0", "0.3", "0.5"): 0.29, ("1.5", "0.5", "0.6"): 0.17}
    rows = committed("power.csv")
    power = {
        (row["shift"], row["root"], row["child"], row["procedure"]): float(row["power"])
        for row in rows
    }
    assert all(row["replications"] == "200" for row in rows)
    for case, aim in aims.items():
        assert power[*case, "independent"] >= aim
    sparse = ("2.5", "0.2", "0.3")
    others = max(power[*sparse, "positive"], power[*sparse, "dagger"])
    assert power[*sparse, "independent"] >= others
    assert all(float(row["fdr"]) <= 0.1 for row in rows)


def test_a_reduced_run_keeps_the_promises(study):
    config = study.read_config() | {"replications": 12}
    chosen = ("no signal", "permutation p-values", "adversarial at 0.15, no signal")
    config["cell"] = [cell for cell in config["cell"] if cell["name"] in chosen]
    for row in study.study(config):
        if row["holds"]:
            # The FDP lies in [0, 1], so its mean over 12 is off by more with probability 1e-3.
            assert row["fdr"] <= row["level"] + np.sqrt(np.log(1e3) / 24), row
        if row["procedure"] in OURS:
            assert row["violations"] == 0.0


def test_p_values_of_the_adversary_are_uniform(study):
    rng = np.random.default_rng(1)
    p = np.concatenate([study.least_favourable(40, 0.15, rng) for _ in range(4_000)])
    share = [(p <= t).mean() for t in (0.00375, 0.0375, 0.1, 0.15, 0.5)]
    np.testing.assert_allclose(share, [0.00375, 0.0375, 0.1, 0.15, 0.5], atol=0.006)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_study_is_what_was_committed(study):
    config = study.read_config()
    rows = study.study(config)
    assert [row for row in rows if row["holds"] and not kept(row)] == []
    for row, old in zip(rows, committed("fdr.csv"), strict=True):
        assert (row["cell"], row["procedure"]) == (old["cell"], old["procedure"])
        assert row["fdr"] == pytest.approx(float(old["fdr"]), abs=0.02)
    for row, old in zip(study.run_power(config), committed("power.csv"), strict=True):
        assert row["power"] == pytest.approx(float(old["power"]), abs=0.02)


def test_the_page_gives_the_figures_of_the_study():
    text = (FOLDER.parents[1] / "docs" / "discover.md").read_text(encoding="utf-8")
    power = committed("power.csv")
    for case in {(row["shift"], row["root"], row["child"]) for row in power}:
        here = [row for row in power if (row["shift"], row["root"], row["child"]) == case]
        star, simes, dagger = (f"{float(row['power']):.2f}" for row in here)
        shift, root, child = (f"{float(x):g}" for x in case)
        assert f"| {shift} | {root} / {child} | **{star}** | {simes} | {dagger} |" in text
    at_005 = {(r["cell"], r["procedure"]): r["power"] for r in committed("fdr.csv")
              if r["level"] == "0.05" and r["hierarchy"] == "forest"}  # fmt: skip
    for cell, words in (("sparse, strong", "few strong signals"), ("conservative nulls", "cons")):
        simes, star = (f"{float(at_005[cell, k]):.2f}"[1:] for k in ("positive", "independent"))
        assert f"{simes} against {star} with" in text, words
    names = {"positive": "Simes-DAGGER", "arbitrary": "reshaped", "independent": "HierLPR-STAR"}
    for key, name in names.items():
        mine = [r for r in committed("fdr.csv") if r["procedure"] == key and r["holds"] == "1"]
        cells = len({(row["cell"], row["hierarchy"]) for row in mine})
        low, high = (
            max(float(row["fdr"]) for row in mine if row["level"] == level)
            for level in ("0.05", "0.2")
        )
        assert f"| {name} | {cells} | {low:.3f} | {high:.3f} |" in text
