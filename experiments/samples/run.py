"""Measure what each promise gives, by number of labelled samples.

    python experiments/samples/run.py [--runs N]

Each run draws labelled samples of the simulated diseases (110 labels, 6 levels), fits on two thirds
of them and calibrates on one third: pooled precision, precision at every depth, and sure and
possible labels, each with and without a confidence where there is a choice. Recall and the sizes
of sets are measured on other samples. For names see ``taxa/new.py``.
"""

import argparse
import csv
import tomllib
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

from hierlpr import HierLPR, simulate
from hierlpr.exceptions import HierlprWarning

HERE = Path(__file__).parent
COLUMNS = ["promise", "labelled", "runs", "certified", "found", "error"]


def read_config() -> dict:
    """Return the settings of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def diseases(n_labelled: int, config: dict, seed: int) -> dict[str, tuple[float, float, float]]:
    """Return (certified, found, error) of every promise for one draw of simulated diseases."""
    rng = np.random.default_rng(seed)
    data = simulate.disease(n_samples=n_labelled + config["new"], rng=rng)
    order = rng.permutation(data.n_samples)
    third = n_labelled // 3
    kept, fitted, new = np.split(order, [third, n_labelled])
    model = HierLPR(data.hierarchy).fit(data.scores[fitted], data.truth[fitted])
    truth, known = data.truth[new], (data.scores[kept], data.truth[kept])
    goal = {"precision": config["precision"], "confidence": config["confidence"]}

    def called() -> tuple[float, float]:
        calls = model.predict(data.scores[new])
        correct = (calls & truth).sum()
        return correct / truth.sum(), 1 - correct / max(calls.sum(), 1) if calls.any() else 0.0

    rows = {}
    model.calibrate(*known, **goal)
    rows["pooled precision"] = (float(model.cutoff_.reachable), *called())
    model.calibrate(*known, groups="depth", **goal)
    frame = model.cutoff_.to_frame()
    rows["precision at every depth"] = (float(np.mean(frame["certified"])), *called())
    model.calibrate(*known, maximize="f1")
    rows["largest F (no promise)"] = (1.0, *called())
    for name, confidence in (("average", None), ("confidence", config["confidence"])):
        model.calibrate_sets(*known, error=config["error"], confidence=confidence)
        sure = model.predict_sets(data.scores[new]).sure
        wrong = (sure & ~truth).any(axis=1).mean()
        some = float(sure.any())
        rows[f"sure labels, {name}"] = (some, (sure & truth).sum() / truth.sum(), wrong)
    return rows


def study(config: dict) -> list[dict]:
    """Return one row per promise and number of labelled samples, means over the runs."""
    found = defaultdict(list)
    for n in config["labelled"]:
        for run in range(config["runs"]):
            seed = config["seed"] + 1000 * n + run
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HierlprWarning)
                for promise, row in diseases(n, config, seed).items():
                    found[promise, n].append(row)
    return [
        dict(zip(COLUMNS, [*key, len(rows), *np.mean(rows, axis=0).round(4)], strict=True))
        for key, rows in sorted(found.items())
    ]


def main() -> None:
    """Run the study and write its summary."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int)
    config = read_config()
    config["runs"] = parser.parse_args().runs or config["runs"]
    with (HERE / "summary.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(study(config))


if __name__ == "__main__":
    main()
