"""Certify cutoffs for the default classifier on resampled real data.

The default is fitted once on a training part. The test part is then the population: calibration
samples are drawn from it with replacement, and the precision of each certified cutoff is computed
exactly over the whole population. It may be below target in at most 10 % of the draws. Rows go to
certified.csv beside this script.

    python experiments/real/certified.py                  # about ten minutes of CPU
    python experiments/real/certified.py --models FOLDER  # classifiers that default.py kept there
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr import HierarchicalClassifier, HierLPR

HERE = Path(__file__).resolve().parent
CONFIDENCE = 0.9
SETS = ("eisen_FUN", "enron", "imclef07a")
TARGETS = (0.8, 0.9)
SIZES = (100, 400)
DRAWS = 200


def study(
    name: str, model: HierLPR, scores: NDArray[np.float64], truth: NDArray[np.bool_],
    *, draws: int = DRAWS, sizes: tuple[int, ...] = SIZES,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return one row per target and size on one population of scored samples."""
    rng = np.random.default_rng(0)
    rows = []
    for target in TARGETS:
        for n_samples in sizes:
            short, recall = 0, []
            for _ in range(draws):
                drawn = rng.integers(0, len(scores), size=n_samples)
                with warnings.catch_warnings():  # copies, and targets out of reach
                    warnings.simplefilter("ignore")
                    model.calibrate(
                        scores[drawn], truth[drawn], precision=target, confidence=CONFIDENCE
                    )
                if not model.cutoff_.reachable:
                    continue  # nothing is promised
                calls = model.predict(scores)
                short += bool(calls.any()) and truth[calls].mean() < target
                recall.append(truth[calls].sum() / truth.sum())
            row = {
                "set": name, "target": target, "samples": n_samples, "draws": draws,
                "certified": len(recall), "short": int(short),
                "mean_recall": round(float(np.mean(recall)), 3) if recall else "",
            }  # fmt: skip
            print(row, flush=True)
            rows.append(row)
    return rows


def main() -> None:
    """Fit or read the default of every set, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path)
    folder = parser.parse_args().models
    spec = importlib.util.spec_from_file_location("real_default", HERE / "default.py")
    assert spec is not None
    assert spec.loader is not None
    real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    config = tomllib.loads((HERE / "config.toml").read_text())
    rows = []
    for name in SETS:
        x, y, x_test, y_test, h = real.load(config["sets"][name])
        if folder is None:
            default = HierarchicalClassifier(hierarchy=h, random_state=0).fit(x, y)
        else:
            default = HierarchicalClassifier.load(folder / f"{name}-0.hlpr")
        rows += study(name, default.model_, default.scores(x_test), y_test)
    with (HERE / "certified.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
