"""Test promises for new patients, where several samples come from each.

Count the runs in which a certified target is missed on new clusters, with `clusters=`, without, and
with one random row per cluster, and compare the recall (features.csv, scores.csv); the same for the
best of several certified models (models.csv). `detection.py` shows how often clusters are noticed.

    python experiments/clusters/run.py [features|scores|models ...] [--runs N] [--out FOLDER]
"""

import argparse
import csv
import math
import os
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from hierlpr import HierarchicalClassifier, Hierarchy, HierLPR, HierlprWarning, certify

HERE = Path(__file__).resolve().parent
EDGES = [("A", "A1"), ("A", "A2"), ("B", "B1"), ("B", "B2")]
TREES = Hierarchy(EDGES)
PARENT = [0, 0, 0, 3, 3, 3]  # of the columns A A1 A2 B B1 B2; a root is its own


def read_config() -> dict:
    """Return the sizes and seeds of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def close(truth: np.ndarray) -> np.ndarray:
    """Return truth in which a child is only true where its parent is."""
    return truth & truth[:, PARENT]


def summary(results: list[tuple[float, float]], config: dict, target: float) -> dict:
    """Count the runs below the target among pairs of precision (NaN: no calls) and recall."""
    runs, delta = len(results), 1.0 - config["confidence"]
    precision, recall = np.array(results).T
    below = int(np.count_nonzero(precision < target))
    return {
        "runs": runs,
        "below": below,
        "rate": round(below / runs, 4),
        "limit": round(delta + 3.0 * math.sqrt(delta * (1.0 - delta) / runs), 4),
        "recall": round(float(recall.mean()), 4),
    }


def measured(calls: np.ndarray, truth: np.ndarray) -> tuple:
    """Return precision and recall of calls."""
    hits, n_calls = (calls & truth).sum(), calls.sum()
    return (hits / n_calls if n_calls else math.nan), hits / truth.sum()


def one_row(rng: np.random.Generator, patient: np.ndarray) -> np.ndarray:
    """Return one random row of each patient."""
    shuffled = rng.permutation(patient.size)
    return shuffled[np.unique(patient[shuffled], return_index=True)[1]]


# -- a classifier on features ---------------------------------------------------------------------


def visits(rng: np.random.Generator, n_patients: int, rows: int, cell: dict) -> tuple:
    """Draw features, truth and patients: all visits of a patient share truth and features."""
    direction = np.random.default_rng(7).normal(size=(10, 6)) / math.sqrt(10)
    x = rng.normal(size=(n_patients, 10))
    truth = close(x @ direction + cell["unexplained"] * rng.normal(size=(n_patients, 6)) > 0.2)
    patient = np.repeat(np.arange(n_patients), rows)
    return x[patient] + cell["noise"] * rng.normal(size=(patient.size, 10)), truth[patient], patient


def estimator(name: str, seed: int) -> object:
    """Return the classifier of a cell."""
    if name == "logistic":
        return LogisticRegression()
    return ExtraTreesClassifier(30, random_state=seed) if name == "extra-trees" else "auto"


def study_features(config: dict, runs: int | None) -> Iterator[list[dict]]:
    """Yield one row per way to treat the visits, for every classifier and number of visits."""
    part = config["features"]
    for cell in part["cells"]:
        for rows in cell["rows"]:
            results: dict[str, list] = {"clusters": [], "one row": [], "rows": []}
            for run in range(runs or cell["runs"]):
                rng = np.random.default_rng([config["seed"], rows, run])
                x, truth, patient = visits(rng, cell["patients"], rows, cell)
                new, new_truth, _ = visits(rng, part["new_patients"], 1, cell)
                chosen = one_row(rng, patient)
                ways = {"clusters": (x, truth, patient)}
                if run < part["runs_of_others"]:
                    ways["one row"] = x[chosen], truth[chosen], None
                    ways["rows"] = x, truth, None
                for way, (features, labels, ids) in ways.items():
                    model = HierarchicalClassifier(
                        estimator(cell["classifier"], run), TREES, precision=part["precision"],
                        confidence=config["confidence"], random_state=run,
                    )  # fmt: skip
                    model.fit(features, labels, clusters=ids)
                    results[way].append(measured(model.predict(new), new_truth))
            names = ("classifier", "patients", "noise", "unexplained")
            row = {name: cell[name] for name in names} | {"rows": rows}
            yield [
                row | {"way": way} | summary(pairs, config, part["precision"])
                for way, pairs in results.items()
            ]


# -- scores with shared errors --------------------------------------------------------------------


def scored(rng: np.random.Generator, n_patients: int, rows: int, shared: float) -> tuple:
    """Draw scores, truth and patients, who have 1 to 2 `rows` - 1 samples each."""
    patient = np.repeat(np.arange(n_patients), rng.integers(1, 2 * rows, n_patients))
    truth = close(rng.random((n_patients, 6)) < [0.5, 0.5, 0.3, 0.4, 0.5, 0.3])[patient]
    common = rng.normal(size=(n_patients, 6))[patient]
    noise = math.sqrt(shared) * common + math.sqrt(1 - shared) * rng.normal(size=truth.shape)
    return expit(2.2 * truth + noise - 1.1), truth, patient


def study_scores(config: dict, runs: int | None) -> Iterator[list[dict]]:
    """Yield one row per promise and way to treat samples, for every number of patients and samples.

    The promise is about a random sample of a new patient, so new patients have one each.
    """
    part = config["scores"]
    for rows in part["rows"]:
        rng = np.random.default_rng([config["seed"], 1, rows])
        new, new_truth, _ = scored(rng, part["new_patients"], 1, part["shared"])
        for n_patients in part["patients"]:
            results: dict[tuple[str, str], list] = {}
            for run in range(runs or part["runs"]):
                rng = np.random.default_rng([config["seed"], 2, rows, n_patients, run])
                x, truth, patient = scored(rng, part["fit_patients"], rows, part["shared"])
                model = HierLPR(TREES, joint=False).fit(x, truth, clusters=patient)
                x, truth, patient = scored(rng, n_patients, rows, part["shared"])
                chosen = one_row(rng, patient)
                ways = {
                    "clusters": (x, truth, patient),
                    "one row": (x[chosen], truth[chosen], None),
                    "rows": (x, truth, None),
                }
                for way, (scores, labels, ids) in ways.items():
                    model.calibrate(
                        scores, labels, precision=part["precision"],
                        confidence=config["confidence"], clusters=ids,
                    )  # fmt: skip
                    pair = measured(model.predict(new), new_truth)
                    results.setdefault(("precision", way), []).append(pair)
                    model.calibrate_sets(
                        scores, labels, error=part["error"],
                        confidence=config["confidence"], clusters=ids,
                    )  # fmt: skip
                    sure = model.predict_sets(new).sure
                    share = float(1.0 - (sure & ~new_truth).any(axis=1).mean())
                    pair = share, measured(sure, new_truth)[1]
                    results.setdefault(("sets", way), []).append(pair)
            yield [
                {"promise": promise, "patients": n_patients, "rows": rows, "way": way}
                | summary(pairs, config, 0.9)
                for (promise, way), pairs in results.items()
            ]


# -- the best of several models -------------------------------------------------------------------


def classifiers(rng: np.random.Generator, n_samples: int, n_models: int) -> tuple:
    """Draw the scores of several classifiers, whose errors are independent, and the truth."""
    truth = close(rng.random((n_samples, 6)) < [0.5, 0.5, 0.3, 0.4, 0.5, 0.3])
    return [expit(2.2 * truth + rng.normal(size=truth.shape) - 1.1) for _ in range(n_models)], truth


def study_models(config: dict, runs: int | None) -> Iterator[list[dict]]:
    """Yield how often the best of several models misses its target, by the way it is chosen."""
    part, results = config["models"], {"certify": [], "each alone, best kept": []}
    for run in range(runs or part["runs"]):
        rng = np.random.default_rng([config["seed"], 3, run])
        fits, truth = classifiers(rng, part["fit_samples"], part["n_models"])
        models = [HierLPR(TREES, joint=False).fit(scores, truth) for scores in fits]
        x, truth = classifiers(rng, part["samples"], part["n_models"])
        new, new_truth = classifiers(rng, 20000, part["n_models"])
        goal = {"precision": part["precision"], "confidence": config["confidence"]}
        alone = [m.calibrate(scores, truth, **goal) for m, scores in zip(models, x, strict=True)]
        recall = [m.cutoff_.recall or 0.0 for m in alone]
        at = int(np.argmax(recall))
        pair = measured(alone[at].predict(new[at]), new_truth)
        results["each alone, best kept"].append(pair)
        best = certify(models, x, truth, **goal)
        at = next(i for i, model in enumerate(models) if model.lpr_ is best.lpr_)
        results["certify"].append(measured(best.predict(new[at]), new_truth))
    yield [{"way": k} | summary(v, config, part["precision"]) for k, v in results.items()]


STUDIES = {"features": study_features, "scores": study_scores, "models": study_models}


def main() -> None:
    """Run the studies named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="*", choices=[[], *STUDIES])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore", HierlprWarning)
    for name in options.studies or STUDIES:
        with open(options.out / f"{name}.csv", "w", newline="") as file:
            writer = None
            for rows in STUDIES[name](read_config(), options.runs):
                if writer is None:
                    writer = csv.DictWriter(file, rows[0], lineterminator="\n")
                    writer.writeheader()
                writer.writerows(rows)
                file.flush()


if __name__ == "__main__":
    main()
