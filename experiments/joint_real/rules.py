"""Compare the default with simple rules: calibrate each label, then raise it to its largest below.

    python experiments/joint_real/rules.py                     # all sets, an hour
    python experiments/joint_real/rules.py enron_scores setting_3 --cache data/scores

Sets are those of ``config.toml``, with first-stage scores as in ``run.py``, and the settings of the
paper. ``rules.csv`` has AU(PRC) and log-loss per sample on test samples: of the raw scores (as
probabilities), of isotonic and sigmoid calibration and the LPRs with max-propagation, and of the
block scores without the joint posterior and with ``"auto"`` (their log-loss is that of the
probabilities that blocks are made of). ``ahead`` is how far the default is ahead in AU(PRC), with
the standard error of the paired difference over test samples, or over draws of a setting.
"""

from __future__ import annotations

import argparse
import csv
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from run import DATA, HERE, Scored, load, log_loss
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from hierlpr import HierLPR, metrics, simulate
from hierlpr.baselines import propagate_max
from hierlpr.metrics.influence import au_prc_influence

RULES = ("raw", "isotonic + max", "sigmoid + max", "LPR + max", "joint off", "auto")


def calibrated(data: Scored, method: str) -> np.ndarray:
    """Return probabilities of the test samples, calibrated label by label."""
    n, n_labels = data.truth.shape
    p = np.empty(data.test_scores.shape)
    for k in range(n_labels):
        score, truth = data.scores[:, k], data.truth[:, k]
        new = data.test_scores[:, k]
        if truth.all() or not truth.any():
            p[:, k] = (truth.sum() + 0.5) / (n + 1.0)
        elif method == "isotonic":
            curve = IsotonicRegression(y_min=0.5 / n, y_max=1.0 - 0.5 / n, out_of_bounds="clip")
            p[:, k] = curve.fit(score, truth).predict(new)
        else:
            line = LogisticRegression(C=1e6).fit(score[:, None], truth)
            p[:, k] = line.predict_proba(new[:, None])[:, 1]
    return p


def predictions(data: Scored) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return, for each rule, the values to rank the test samples by and their probabilities."""
    h, raw = data.hierarchy, data.test_scores
    chance = raw if raw.min() >= 0.0 and raw.max() <= 1.0 else expit(raw)
    off, auto = (HierLPR(h, joint=x).fit(data.scores, data.truth) for x in (False, "auto"))
    lpr = off.transform(raw)
    raised = {
        "isotonic + max": calibrated(data, "isotonic"),
        "sigmoid + max": calibrated(data, "sigmoid"),
        "LPR + max": lpr,
    }
    values = {name: (propagate_max(p, h),) * 2 for name, p in raised.items()}
    values |= {"raw": (chance, chance), "joint off": (off.predict_proba(raw), lpr)}
    return values | {"auto": (auto.predict_proba(raw), auto.transform(raw))}


def compare(name: str, draws: list[Scored]) -> list[dict[str, Any]]:
    """Return one row for each rule."""
    area, loss, influence = {}, {}, {}
    for rule in RULES:
        area[rule], loss[rule], influence[rule] = [], [], []
    for data in draws:
        for rule, (ranked, p) in predictions(data).items():
            area[rule].append(metrics.au_prc_score(data.test_truth, ranked))
            influence[rule].append(au_prc_influence(data.test_truth, ranked)[1])
            loss[rule].append(log_loss(p, data.test_truth))
    rows = []
    for rule in RULES:
        ahead = np.subtract(area["auto"], area[rule])
        if len(draws) > 1:
            error = float(ahead.std(ddof=1) / np.sqrt(len(draws)))
        else:
            error = float(np.linalg.norm(influence["auto"][0] - influence[rule][0]))
        rows.append(
            {
                "set": name,
                "rule": rule,
                "au_prc": f"{np.mean(area[rule]):.4f}",
                "log_loss": f"{np.mean(loss[rule]):.3f}",
                "ahead": f"{ahead.mean():+.4f}",
                "standard_error": f"{error:.4f}",
            }
        )
        print(rows[-1], flush=True)
    return rows


def simulated(setting: str, config: dict[str, Any]) -> list[Scored]:
    """Draw training and test samples of a setting of the paper."""
    draws = []
    for seed in range(config["draws"]):
        rng = np.random.default_rng([config["seed"], seed])
        sizes = {"n_train": config["n_train"], "n_test": config["n_test"]}
        train, test = simulate.train_test(setting, **sizes, rng=rng)
        draws.append(Scored(train.scores, train.truth, test.scores, test.truth, train.hierarchy))
    return draws


def main() -> None:
    """Compare the rules on the sets named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="names from config.toml, or setting_1 and so on")
    parser.add_argument("--cache", type=Path, help="folder for first-stage scores")
    parser.add_argument("--out", type=Path, default=HERE / "rules.csv")
    arguments = parser.parse_args()
    config = tomllib.loads((HERE / "config.toml").read_text())
    if not DATA.is_dir():
        raise SystemExit(f"The real data are not at {DATA}: set HIERLPR_DATA.")
    settings = {f"setting_{name}": name for name in config["rules"]["settings"]}
    rows: list[dict[str, Any]] = []
    if arguments.out.exists():
        with arguments.out.open(newline="") as file:
            rows = list(csv.DictReader(file))
    for name in arguments.sets or [*config["sets"], *settings]:
        if name in settings:
            draws = simulated(settings[name], config["rules"])
        else:
            draws = [load(name, config, arguments.cache)]
        rows = [row for row in rows if row["set"] != name] + compare(name, draws)
        with arguments.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
