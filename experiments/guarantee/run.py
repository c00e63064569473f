"""How often a guaranteed cutoff breaks its promise, and what the promise costs.

Each run draws a model of a setting, fits HierLPR, chooses cutoffs on a fresh calibration set, and
computes the true pooled precision and recall of each cutoff on many new samples, with the exact
posterior of the simulated model in place of drawn truth. A run in which no level could be certified
promises nothing and calls nothing.

    python experiments/guarantee/run.py [--runs N] [--out FILE]
"""

import argparse
import csv
import math
import tomllib
from pathlib import Path

import numpy as np

from hierlpr import HierLPR, simulate
from hierlpr.cutoff.choose import choose_cutoff

HERE = Path(__file__).parent
COLUMNS = (
    "setting", "samples", "target", "cutoff", "runs", "reached", "below_target", "share_below",
    "limit", "mean_precision", "mean_recall",
)  # fmt: skip


def read_config() -> dict:
    """Return the settings of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def one_run(setting: str, run: int, config: dict) -> list[tuple]:
    """Return (samples, target, cutoff, reached, precision, recall) of every cutoff of one run."""
    rng = np.random.default_rng([config["seed"], int(setting), run])
    # As in the paper, every label has its share of positives: 15 of 5,000.
    train, test = simulate.train_test(
        setting,
        n_train=config["fit_samples"] + max(config["calibration_samples"]),
        n_test=config["test_samples"],
        rng=rng,
    )
    n_fit = config["fit_samples"]
    model = HierLPR(train.hierarchy, joint=False).fit(train.scores[:n_fit], train.truth[:n_fit])
    test_score = model.predict_proba(test.scores)
    rows = []
    for n in config["calibration_samples"]:
        part = slice(n_fit, n_fit + n)
        score, truth = model.predict_proba(train.scores[part]), train.truth[part]
        for target in config["targets"]:
            options = {"precision": target, "unreachable": "nothing"}
            cutoffs = {
                "guaranteed": choose_cutoff(
                    score, truth, confidence=config["confidence"], profile=model.profile_, **options
                ),
                "cautious": choose_cutoff(score, truth, **options),
                "plain": choose_cutoff(score, truth, rule="plain", **options),
            }
            for name, cutoff in cutoffs.items():
                called = test_score >= cutoff.level
                right = test.posterior_true[called].sum()
                precision = right / called.sum() if called.any() else math.nan
                recall = right / test.posterior_true.sum()
                rows.append((n, target, name, cutoff.reachable, precision, recall))
    return rows


def summarize(setting: str, results: list[list[tuple]], config: dict) -> list[dict]:
    """Average the runs of one setting."""
    runs = len(results)
    delta = 1.0 - config["confidence"]
    out = []
    for cell in zip(*results, strict=True):
        n, target, name = cell[0][:3]
        precision = np.array([row[4] for row in cell])
        below = int(np.count_nonzero(precision < target))
        out.append({
            "setting": setting,
            "samples": n,
            "target": target,
            "cutoff": name,
            "runs": runs,
            "reached": round(float(np.mean([row[3] for row in cell])), 3),
            "below_target": below,
            "share_below": round(below / runs, 3),
            "limit": round(delta + 3.0 * math.sqrt(delta * (1.0 - delta) / runs), 3),
            "mean_precision": round(float(np.nanmean(precision)), 4),
            "mean_recall": round(float(np.mean([row[5] for row in cell])), 4),
        })  # fmt: skip
    return out


def study(config: dict) -> list[dict]:
    """Run every setting."""
    rows = []
    for setting in config["settings"]:
        rows += summarize(
            setting, [one_run(setting, run, config) for run in range(config["runs"])], config
        )
    return rows


def main() -> None:
    """Print the table and write it as CSV."""
    config = read_config()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=config["runs"])
    parser.add_argument("--out", type=Path, default=HERE / "expected.csv")
    arguments = parser.parse_args()
    rows = study({**config, "runs": arguments.runs})
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("  ".join(f"{name} {row[name]}" for name in COLUMNS))


if __name__ == "__main__":
    main()
