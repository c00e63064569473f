"""How close estimated local precision rates come to the true ones.

Three studies on simulated labels of known LPR: accuracy of every estimator, calibration of the
default, and what the default does for rare labels. Results go to CSV files beside this script.

    python experiments/lpr_accuracy/run.py                     # all, half an hour
    python experiments/lpr_accuracy/run.py accuracy --replications 4
"""

from __future__ import annotations

import argparse
import csv
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bagged_spline import Spline
from scipy.stats import beta

from hierlpr.lpr import fit_lpr, make_estimator
from hierlpr.lpr.training import read_training_data

HERE = Path(__file__).parent
QUALITIES = {"high": 2.0, "medium": 4.0, "low": 5.5}
FAMILIES = {"beta": 1, "power8": 2, "two-humped": 3}
PUBLISHED = "published"  # local quadratic as published: no correction, no monotone curve
ESTIMATORS = ("auto", "local-quadratic", Spline.name, "isotonic", PUBLISHED)
REDUCED = 4  # replications whose mean is stored too, for a quick check of this study


def draw(
    rng: np.random.Generator, family: str, eta: float, prevalence: float, n: int, *, exact: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, truth and true LPRs of one label; `exact` fixes the number of positives.

    ``beta``: positives Beta(6, eta), negatives Beta(eta, 6). ``power8``: the same scores to the
    8th power. ``two-humped``: half of the positives come from Beta(30, 4) instead.
    """
    truth = rng.permutation(n) < round(prevalence * n) if exact else rng.random(n) < prevalence
    scores = np.where(truth, rng.beta(6, eta, n), rng.beta(eta, 6, n))
    hump = rng.random(n) < 0.5
    second = rng.beta(30, 4, n)
    two_humped = family == "two-humped"
    if two_humped:
        scores = np.where(truth & hump, second, scores)
    f1 = beta.pdf(scores, 6, eta)
    if two_humped:
        f1 = 0.5 * f1 + 0.5 * beta.pdf(scores, 30, 4)
    f0 = beta.pdf(scores, eta, 6)
    lpr = prevalence * f1 / (prevalence * f1 + (1 - prevalence) * f0)
    return (scores**8 if family == "power8" else scores), truth, lpr


def draw_labels(
    key: tuple[int, ...], labels: list[tuple[str, float, float]], n: int, *, exact: bool
) -> list[np.ndarray]:
    """Draw matrices of scores, truth and true LPRs; label j has the seed ``(*key, j)``."""
    drawn = [
        draw(np.random.default_rng((*key, j)), *label, n, exact=exact)
        for j, label in enumerate(labels)
    ]
    return [np.array(part).T for part in zip(*drawn, strict=True)]


def estimate(method: str, scores: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the LPRs of the training scores; every label is fitted alone."""
    if method != PUBLISHED:
        how = Spline() if method == Spline.name else method
        fits = [fit_lpr(s, t, method=how).predict(s) for s, t in zip(scores.T, truth.T)]  # noqa: B905
        return np.stack(fits, axis=1)
    data = read_training_data(scores, truth)
    groups = data.groups(np.arange(data.n_labels))
    lpr = make_estimator("local-quadratic", corrected=False).fit_groups(groups).lpr
    out = np.empty_like(scores)
    for k in range(data.n_labels):
        at = slice(groups.ptr[k], groups.ptr[k + 1])
        out[:, k] = lpr[at][np.searchsorted(groups.score[at], scores[:, k])]
    return out


def accuracy(
    config: dict[str, Any], replications: int, estimators: tuple[str, ...] = ESTIMATORS
) -> Iterator[dict[str, Any]]:
    """RMSE x 1000 over the drawn sample, mean over replications, per cell and estimator."""
    part, n = config["accuracy"], config["n_samples"]
    for family in part["families"]:
        for quality, eta in QUALITIES.items():
            for i, prevalence in enumerate(part["prevalences"]):
                key = (config["seed"], FAMILIES[family], int(2 * eta), i)
                labels = [(family, eta, prevalence)] * replications
                scores, truth, lpr = draw_labels(key, labels, n, exact=True)
                for method in estimators:
                    error = estimate(method, scores, truth) - lpr
                    rmse = 1000 * np.sqrt(np.mean(error**2, axis=0))
                    yield {
                        "family": family,
                        "quality": quality,
                        "prevalence": prevalence,
                        "estimator": method,
                        "rmse": round(float(rmse.mean()), 3),
                        "se": round(float(rmse.std(ddof=1) / np.sqrt(replications)), 3),
                        f"rmse_first_{REDUCED}": round(float(rmse[:REDUCED].mean()), 3),
                    }


def calibration(config: dict[str, Any], n_labels: int) -> Iterator[dict[str, Any]]:
    """Predicted LPR against the share of positives among fresh samples, per bin of the former.

    Errors of one label are correlated, so the standard error is over labels. `matches` says
    whether the share lies in the bin within three standard errors.
    """
    part, n = config["calibration"], config["n_samples"]
    edges = np.array(part["edges"])
    for positives in part["positives"]:
        qualities = [list(QUALITIES.values())[j % 3] for j in range(n_labels)]
        labels = [("beta", eta, positives / n) for eta in qualities]
        key = (config["seed"], 10, positives)
        scores, truth, _ = draw_labels((*key, 0), labels, n, exact=True)
        new_scores, new_truth, _ = draw_labels((*key, 1), labels, n, exact=False)
        lpr = fit_lpr(scores, truth).predict(new_scores)
        place = np.clip(np.digitize(lpr, edges) - 1, 0, edges.size - 2)
        for b in range(edges.size - 1):
            inside = place == b
            count = int(inside.sum())
            if count < 100:
                continue
            excess = np.where(inside, new_truth - lpr, 0.0).sum(axis=0)
            predicted, observed = lpr[inside].mean(), new_truth[inside].mean()
            se = np.sqrt((excess**2).sum()) / count
            yield {
                "positives": positives,
                "from": edges[b],
                "to": edges[b + 1],
                "instances": count,
                "predicted": round(float(predicted), 5),
                "observed": round(float(observed), 5),
                "se": round(float(se), 5),
                "z": round(float((observed - predicted) / se), 2),
                "matches": bool(edges[b] - 3 * se <= observed <= edges[b + 1] + 3 * se),
            }


def rare(config: dict[str, Any], n_labels: int) -> Iterator[dict[str, Any]]:
    """Cost of not knowing the LPR, in nats per label, for rare labels among common ones.

    ``own``: the label's own curve if it has a positive; ``shared``: the curve shared with the
    common labels alone;
    ``auto``: the default, a blend of both. ``scales``: whether scores are comparable across labels
    ("one") or each label has a scale of its own.
    """
    part, n = config["rare"], config["n_samples"]
    rng = np.random.default_rng((config["seed"], 20))
    etas = rng.choice(list(QUALITIES.values()), part["pool"])
    pool = [
        ("beta", float(e), float(p))
        for e, p in zip(etas, 10 ** rng.uniform(-2.2, -0.5, part["pool"]), strict=True)
    ]
    common, common_truth, _ = draw_labels((config["seed"], 21), pool, n, exact=False)
    methods = {"own": {"kappa": 0.0}, "shared": {"kappa": np.inf}, "auto": {}}
    for i, expected in enumerate(part["expected_positives"]):
        etas = [list(QUALITIES.values())[j % 3] for j in range(n_labels)]
        labels = [("beta", eta, expected / n) for eta in etas]
        scores, truth, lpr = draw_labels((config["seed"], 22, i), labels, n, exact=False)
        everything, held = np.hstack([scores, common]), np.hstack([truth, common_truth])
        power = np.random.default_rng((config["seed"], 23, i)).uniform(0.2, 5.0, held.shape[1])
        for scales, table in (("one", everything), ("own", everything**power)):
            for name, options in methods.items():
                model = fit_lpr(table, held, **options)
                p = model.predict(table)[:, :n_labels]
                nats = lpr * np.log(lpr / p) + (1 - lpr) * np.log((1 - lpr) / (1 - p))
                rmse = 1000 * np.sqrt(np.mean((p - lpr) ** 2, axis=0))
                yield {
                    "expected_positives": expected,
                    "scales": scales,
                    "curves": name,
                    "nats": round(float(nats.sum(axis=0).mean()), 3),
                    "rmse": round(float(rmse.mean()), 3),
                }


def print_accuracy(config: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """One table per family, and the default against its targets."""
    value = {(r["family"], r["quality"], r["prevalence"], r["estimator"]): r["rmse"] for r in rows}
    part = config["accuracy"]
    for family in part["families"]:
        print(f"\nRMSE x 1000, {family}, prevalence {'/'.join(map(str, part['prevalences']))}")
        print(f"{'':18}{'high':>22}{'medium':>22}{'low':>22}")
        for method in dict.fromkeys(r["estimator"] for r in rows):
            cells = [
                "/".join(f"{value[family, q, p, method]:.1f}" for p in part["prevalences"])
                for q in QUALITIES
            ]
            print(f"{method:18}" + "".join(f"{cell:>22}" for cell in cells))
    print("\nauto / best non-parametric row of the design (allowed: 1.15), beta family")
    for quality, best in part["best"].items():
        cells = [
            value["beta", quality, p, "auto"] / b
            for p, b in zip(part["prevalences"], best, strict=True)
        ]
        print(f"{quality:18}" + " ".join(f"{cell:.2f}" for cell in cells))
    if (part["families"][0], "high", part["prevalences"][0], PUBLISHED) in value:
        ratio = max(v / value[(*k[:3], PUBLISHED)] for k, v in value.items() if k[3] == "auto")
        print(f"\nauto / published estimator, largest of all cells: {ratio:.2f}")


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Columns of plain text."""
    print("\n" + " ".join(f"{name:>18}" for name in rows[0]))
    for row in rows:
        print(" ".join(f"{cell!s:>18}" for cell in row.values()))


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run the studies named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("study", nargs="*", choices=["accuracy", "calibration", "rare", []])
    parser.add_argument("--replications", type=int, help="of accuracy; then nothing is written")
    parser.add_argument("--out", type=Path, default=HERE)
    arguments = parser.parse_args()
    config = tomllib.loads((HERE / "config.toml").read_text())
    studies = arguments.study or ["accuracy", "calibration", "rare"]
    if "accuracy" in studies:
        replications = arguments.replications or config["accuracy"]["replications"]
        rows = list(accuracy(config, replications))
        print_accuracy(config, rows)
        if arguments.replications is None:
            write(rows, arguments.out / "accuracy.csv")
    if "calibration" in studies:
        rows = list(calibration(config, config["calibration"]["labels"]))
        print_rows(rows)
        write(rows, arguments.out / "calibration.csv")
    if "rare" in studies:
        rows = list(rare(config, config["rare"]["labels"]))
        print_rows(rows)
        write(rows, arguments.out / "rare.csv")


if __name__ == "__main__":
    main()
