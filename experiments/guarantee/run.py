"""Stress-test the certified cutoff, and measure what it costs.

For every population, number of calibration samples and target, count the runs in which the
precision of the calls in the population is below target (violations.csv), and compare the positives
found with the former test and with cutoffs without a promise (recall.csv). A run in which no level
could be certified promises nothing and calls nothing.

    python experiments/guarantee/run.py [--runs N] [--jobs N] [--out FOLDER] [POPULATION ...]
"""

import argparse
import csv
import math
import sys
import tomllib
import zlib
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import end_to_end  # noqa: E402, F401  (its populations enter the table)
import populations  # noqa: E402, F401
from attack import POPULATIONS  # noqa: E402
from former import FormerProfile, former_cutoff  # noqa: E402

from hierlpr import HierLPR, simulate  # noqa: E402
from hierlpr.cutoff.choose import cutoff_for  # noqa: E402
from hierlpr.cutoff.decisions import decide  # noqa: E402
from hierlpr.cutoff.goal import Goal, goals_of  # noqa: E402
from hierlpr.cutoff.instances import list_instances  # noqa: E402
from hierlpr.cutoff.outcome import Cutoff  # noqa: E402
from hierlpr.metrics.hits import HitCurve  # noqa: E402

# True precisions are exact up to rounding; the nearest population is 1e-9 below its target.
ROUNDING = 1e-10


def read_config() -> dict:
    """Return the sizes and seeds of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def is_short(precision: float, target: float) -> bool:
    """Return whether the true precision (NaN without calls) is below the target."""
    return precision < target - ROUNDING


def attack(name: str, config: dict) -> list[dict]:
    """Return one row per cell and method of one population."""
    number = zlib.crc32(name.encode())
    rows = []
    for target in config["targets"]:
        victim = POPULATIONS[name](target)
        plans = [
            victim.plan(np.random.default_rng([config["seed"], number, 0, i]))
            for i in range(min(config["plans"], config["runs"]))
        ]
        for n in config["samples"]:
            results: dict[str, list[tuple]] = {}
            for run in range(config["runs"]):
                plan = plans[run % len(plans)]
                rng = np.random.default_rng([config["seed"], number, n, run])
                options = {"target": target, "confidence": config["confidence"]}
                for method, cutoff in victim.cutoffs(plan, rng, n, **options).items():
                    results.setdefault(method, []).append(victim.achieved(plan, cutoff))
            rows += [
                {"population": name, "samples": n, "target": target, "method": method}
                | summary(found, target, config["confidence"])
                for method, found in results.items()
            ]
    return rows


def summary(found: list[tuple], target: float, confidence: float) -> dict:
    """Count the violations among (precision, recall) of the runs of a cell."""
    runs, delta = len(found), 1.0 - confidence
    precision, recall = np.array(found).T
    violations = sum(is_short(float(p), target) for p in precision)
    return {
        "runs": runs,
        "violations": violations,
        "rate": round(violations / runs, 4),
        "limit": round(delta + 3.0 * math.sqrt(delta * (1.0 - delta) / runs), 4),
        "recall": round(float(recall.mean()), 4),
        "certified": round(float(np.mean(~np.isnan(precision))), 4),
    }


def cost_of_setting(setting: str, config: dict) -> list[dict]:
    """Compare the positives found by every kind of cutoff in one of the paper's settings."""
    sizes = config["recall"]
    n_fit, results = sizes["fit_samples"], {}
    for run in range(sizes["runs"]):
        # As in the paper, every label has its share of positives: 15 of 5,000.
        train, test = simulate.train_test(
            setting,
            n_train=n_fit + max(sizes["settings_samples"]),
            n_test=sizes["test_samples"],
            rng=np.random.default_rng([config["seed"], int(setting), run]),
        )
        model = HierLPR(train.hierarchy, joint=False).fit(train.scores[:n_fit], train.truth[:n_fit])
        score, test_score = model.predict_proba(train.scores), model.predict_proba(test.scores)
        former = FormerProfile(score[:n_fit], train.truth[:n_fit])
        for n in sizes["settings_samples"]:
            part = slice(n_fit, n_fit + n)
            for target in sizes["targets"]:
                for method, cutoff in every_cutoff(
                    score[part], train.truth[part], model.profile_, former, target, config
                ).items():
                    called = decide(test_score, cutoff, train.hierarchy)
                    right = test.posterior_true[called].sum()
                    precision = right / called.sum() if called.any() else math.nan
                    found = (precision, right / test.posterior_true.sum())
                    results.setdefault((n, target, method), []).append(found)
    return [
        {"case": f"setting {setting}", "samples": n, "target": target, "method": method}
        | summary(found, target, config["confidence"])
        for (n, target, method), found in results.items()
    ]


def every_cutoff(score, truth, profile, former, target, config) -> dict:
    """Choose a cutoff by the certificate, by the former one, and by the two rules without one."""
    sure, instances = config["confidence"], list_instances(score, truth)
    (certified,) = goals_of(precision=target, confidence=sure)
    (cautious,) = goals_of(precision=target)
    return {
        "certified": cutoff_for(certified, instances, profile=profile, unreachable="nothing"),
        "former": former_cutoff(score, truth, former, target=target, confidence=sure),
        "cautious": cutoff_for(cautious, instances, unreachable="nothing"),
        "plain": plain_cutoff(score, truth, target),
    }


def plain_cutoff(score, truth, target) -> Cutoff:
    """Take the lowest level at which the precision reaches the target, as in the paper."""
    precision = HitCurve.of(truth.ravel(), score.ravel()).precision
    meets = np.flatnonzero(precision >= target - 1e-12)
    level = np.unique(score)[::-1][meets[-1]] if meets.size else math.inf
    return Cutoff(float(level), Goal("precision", target))


def cost_of_population(name: str, config: dict) -> list[dict]:
    """Take the rows of one population at the sizes of the comparison of recall."""
    sizes = config["recall"]
    fewer = {"samples": sizes["populations_samples"], "targets": sizes["targets"]}
    rows = attack(name, {**config, **fewer, "runs": sizes["runs"]})
    return [{"case": row.pop("population").replace("_", " "), **row} for row in rows]


def study(config: dict, names: list[str] | None = None, *, jobs: int = 1) -> list[dict]:
    """Attack with every population; the order of the rows does not depend on `jobs`."""
    return _in_order(partial(attack, config=config), names or list(POPULATIONS), jobs)


def recall_study(config: dict, *, jobs: int = 1) -> list[dict]:
    """Measure the cost in every setting and in populations where earlier tests found nothing."""
    sizes = config["recall"]
    rows = _in_order(partial(cost_of_setting, config=config), sizes["settings"], jobs)
    return rows + _in_order(partial(cost_of_population, config=config), sizes["populations"], jobs)


def _in_order(work, items: list[str], jobs: int) -> list[dict]:
    if jobs == 1:
        return [row for item in items for row in work(item)]
    with ProcessPoolExecutor(jobs) as pool:
        return [row for rows in pool.map(work, items) for row in rows]


def write(rows: list[dict], path: Path) -> None:
    """Write rows as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Write both tables and print every cell that breaks the promise."""
    config = read_config()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=config["runs"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--only", choices=["violations", "recall"])
    parser.add_argument("populations", nargs="*", choices=[[], *POPULATIONS])
    arguments = parser.parse_args()
    config["runs"] = config["recall"]["runs"] = arguments.runs
    if arguments.only != "recall":
        rows = study(config, arguments.populations, jobs=arguments.jobs)
        write(rows, arguments.out / "violations.csv")
        for row in rows:
            if row["rate"] > row["limit"]:
                print("  ".join(f"{name} {value}" for name, value in row.items()))
    if arguments.only != "violations" and not arguments.populations:
        write(recall_study(config, jobs=arguments.jobs), arguments.out / "recall.csv")


if __name__ == "__main__":
    main()
