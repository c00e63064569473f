"""Compare training for the hit area with training for log-loss, in finite samples.

Out-of-fold log-odds of the first stage's cheap members get one slope and one shift per label,
learned on two thirds of the training part by a pooled pairwise hinge loss (the hit area's
surrogate, exact in O(N log N)) or by log-loss, both shrunk to the identity with a strength chosen
on halves of it. The last third is used to compare. Results go to results.csv beside this script.

    python experiments/objective/run.py            # enron, under a minute of CPU
    python experiments/objective/run.py eisen_FUN  # several
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr import metrics
from hierlpr.first_stage import FirstStage

HERE = Path(__file__).resolve().parent
Float = NDArray[np.float64]
PULLS = (1e-1, 1e-2, 1e-3, 1e-4)  # strength of the pull to slope 1 and shift 0, per label
STEPS = 60


def hinge(scores: Float, held: NDArray[np.bool_]) -> tuple[float, Float]:
    """Mean over all (positive, negative) pairs of max(0, 1 - difference), and its slope.

    After one sort, each positive needs only the number and the sum of the negatives above it - 1.
    """
    flat, truth = scores.ravel(), held.ravel()
    high, low = flat[truth], flat[~truth]
    pairs = float(high.size * low.size)
    order_high, order_low = np.argsort(high), np.argsort(low)
    sorted_high, sorted_low = high[order_high], low[order_low]
    # For a positive: negatives above high - 1. For a negative: positives below low + 1.
    above = low.size - np.searchsorted(sorted_low, high - 1.0, side="right")
    below = np.searchsorted(sorted_high, low + 1.0, side="left")
    tail = np.concatenate([[0.0], np.cumsum(sorted_low[::-1])])
    loss = float(((1.0 - high) * above + tail[above]).sum()) / pairs
    slope = np.empty_like(flat)
    slope[truth] = -above / pairs
    slope[~truth] = below / pairs
    return loss, slope.reshape(scores.shape)


def log_loss(scores: Float, held: NDArray[np.bool_]) -> tuple[float, Float]:
    """Mean log-loss of all pairs, and its slope."""
    chance = 1.0 / (1.0 + np.exp(-scores))
    loss = np.logaddexp(0.0, scores) - held * scores
    return float(loss.mean()), (chance - held) / held.size


def tune(odds: Float, held: NDArray[np.bool_], goal: Any, pull: float) -> tuple[Float, Float]:
    """Slope and shift of every label, by L-BFGS."""
    from scipy.optimize import minimize

    n_labels = odds.shape[1]

    def value(parameters: Float) -> tuple[float, Float]:
        log_slope, shift = parameters[:n_labels], parameters[n_labels:]
        mapped = np.exp(log_slope) * odds + shift
        loss, by_score = goal(mapped, held)
        steepness = (by_score * (mapped - shift)).sum(axis=0)
        gradient = np.concatenate([steepness, by_score.sum(axis=0)])
        strength = pull / n_labels
        return loss + strength * float(
            parameters @ parameters
        ), gradient + 2 * strength * parameters

    start = np.zeros(2 * n_labels)
    found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    return np.exp(found[:n_labels]), found[n_labels:]


def study(name: str, files: dict[str, Any], real: Any, seed: int) -> list[dict[str, Any]]:
    """Fit members and maps on one part, the maps on out-of-fold log-odds; test on the other."""
    rng = np.random.default_rng(seed)
    x, y, _, _, _ = real.load({**files, "test": files["train"][0]})  # the test part is not read
    order = rng.permutation(len(x))
    fit, rest = order[: 2 * len(x) // 3], order[2 * len(x) // 3 :]
    stage = FirstStage(members=["forest", "kernel"], n_trees=100, random_state=seed).fit(
        x[fit], y[fit]
    )

    def odds(proba: Float) -> Float:
        p = np.clip(proba, 1e-4, 1.0 - 1e-4)
        return np.log(p / (1.0 - p))

    inside, outside = odds(stage.oof_proba_), odds(stage.predict_proba(x[rest]))
    held, judged = y[fit], y[rest]
    rows = [measure(name, seed, "as it is", 0.0, outside, judged)]
    half = rng.permutation(len(inside)) < len(inside) // 2
    for label, goal in (("log-loss", log_loss), ("pairwise", hinge)):
        areas = []
        for pull in PULLS:
            slope, shift = tune(inside[half], held[half], goal, pull)
            areas.append(area(slope * inside[~half] + shift, held[~half]))
        best = PULLS[int(np.argmax(areas))]
        slope, shift = tune(inside, held, goal, best)
        rows.append(measure(name, seed, label, best, slope * outside + shift, judged))
    return rows


def area(scores: Float, truth: NDArray[np.bool_]) -> float:
    """Normalized hit area."""
    return float(metrics.normalized_hit_area_score(truth.ravel(), scores.ravel()))


def measure(name: str, seed: int, label: str, pull: float, scores: Float, truth: Any) -> Any:
    """One row of the table."""
    row = {
        "set": name, "seed": seed, "maps": label, "pull": pull,
        "hit_area": round(area(scores, truth), 4),
        "au_prc": round(float(metrics.au_prc_score(truth, scores)), 4),
    }  # fmt: skip
    print(row, flush=True)
    return row


def main() -> None:
    """Run the named sets with three seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=["enron"])
    sets = parser.parse_args().sets
    spec = importlib.util.spec_from_file_location("real_default", HERE.parent / "real/default.py")
    assert spec is not None
    assert spec.loader is not None
    real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    config = tomllib.loads((HERE.parent / "real" / "config.toml").read_text())
    rows = [
        row for name in sets for seed in range(3)
        for row in study(name, config["sets"][name], real, seed)
    ]  # fmt: skip
    with (HERE / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
