"""Set a target precision of 90 % and count the runs below it, for six rules on the same scores.

Each run draws samples with known truth, chooses thresholds from them, and computes the precision of
the calls in the population. Simulated diseases (110 labels) are drawn afresh and judged on 5,000
samples, so that the precision is known to half a percent. Of the e-mails (enron, 56 labels, scores
of one model per label) a random third is used to fit; the other two thirds are the population:
calibration e-mails are drawn from it with replacement, so its precision is known exactly. (Two
parts of one split would not do: an easy calibration part leaves a hard part to judge on.)

    python experiments/thresholds/run.py [--replications N] [--only disease|enron]

Scores are used as they come. ``plain`` calls at 0.5. ``pooled`` takes one threshold for all labels,
the lowest with 90 % correct calls among the samples that choose. ``per label`` takes one such
threshold per label. ``mapie`` is MAPIE's multi-label controller of precision (learn then test,
confidence 0.9), if MAPIE is installed. Its precision is the mean of the samples' precisions, and 0
for a sample without calls; samples without any label are left out, because it refuses them.
``calibrated mapie`` turns the scores of each label into chances by a logistic regression on half of
the samples (isotonic regression finds half as much); MAPIE's binary controller then certifies one
threshold on all (sample, label) pairs of the other half, which it takes as independent. ``hierlpr``
fits on half of the samples and certifies its cutoff on the other half, with default options.
Without MAPIE its rows stay as they are in ``runs.csv``: they do not depend on hierlpr.
"""

import argparse
import csv
import os
import tomllib
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from hierlpr import Hierarchy, HierLPR, simulate
from hierlpr.exceptions import HierlprWarning

HERE = Path(__file__).parent
DATA = Path(os.environ.get("HIERLPR_DATA", HERE.parents[2] / "shared" / "data"))
COLUMNS = ["data", "run", "method", "precision", "recall", "contradictions"]


def read_config() -> dict:
    """Return the settings of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def lowest_threshold(scores: np.ndarray, truth: np.ndarray, target: float) -> float:
    """Return the lowest threshold at which the share of correct calls is at least the target."""
    order = np.argsort(-scores, kind="stable")
    value = scores[order]
    share = np.cumsum(truth[order]) / np.arange(1, value.size + 1)
    ends = np.append(value[1:] < value[:-1], True)  # equal scores are called together
    reached = np.flatnonzero(ends & (share >= target))
    return float(value[reached[-1]]) if reached.size else np.inf


def plain(scores, truth, new, h, config):
    """Call at 0.5."""
    return new >= 0.5


def pooled(scores, truth, new, h, config):
    """Choose one threshold for all labels."""
    return new >= lowest_threshold(scores.ravel(), truth.ravel(), config["target"])


def per_label(scores, truth, new, h, config):
    """Choose one threshold per label."""
    columns = range(truth.shape[1])
    return new >= [lowest_threshold(scores[:, k], truth[:, k], config["target"]) for k in columns]


def mapie(scores, truth, new, h, config):
    """Let MAPIE choose one threshold for all labels."""
    from mapie.risk_control import MultiLabelClassificationController

    controller = MultiLabelClassificationController(
        lambda x: x, risk="precision", method="ltt", target_level=config["target"],
        confidence_level=config["confidence"],
    )  # fmt: skip
    labelled = truth.any(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        controller.calibrate(scores[labelled], truth[labelled].astype(int))
    if np.isnan(controller.best_predict_param[0]):
        return np.zeros(new.shape, dtype=bool)
    return controller.predict(new)[:, :, 0]


def calibrated_mapie(scores, truth, new, h, config):
    """Calibrate every label on one half, then certify one threshold for all pairs on the other."""
    from mapie.risk_control import BinaryClassificationController

    half = len(scores) // 2
    curves = [
        LogisticRegression(C=1e3).fit(scores[:half, [k]], truth[:half, k]) if is_mixed else None
        for k, is_mixed in enumerate(truth[:half].any(axis=0) & ~truth[:half].all(axis=0))
    ]

    def chances(x):
        chance = np.tile(truth[:half].mean(axis=0), (len(x), 1))  # of labels of one class
        for k, curve in enumerate(curves):
            if curve is not None:
                chance[:, k] = curve.predict_proba(x[:, [k]])[:, 1]
        return chance

    controller = BinaryClassificationController(
        lambda x: np.hstack([1.0 - x, x]), risk="precision", target_level=config["target"],
        confidence_level=config["confidence"], best_predict_param_choice="recall",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = truth[half:].ravel().astype(int)
        controller.calibrate(chances(scores[half:]).reshape(-1, 1), pairs)
    threshold = controller.best_predict_param
    return chances(new) >= (np.inf if threshold is None else threshold)


def hierlpr(scores, truth, new, h, config):
    """Fit on one half, certify the cutoff on the other."""
    half = len(scores) // 2
    model = HierLPR(h).fit(scores[:half], truth[:half])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        model.calibrate(
            scores[half:], truth[half:], precision=config["target"], confidence=config["confidence"]
        )
    return model.predict(new)


METHODS = {
    "plain": plain, "pooled": pooled, "per label": per_label, "mapie": mapie,
    "calibrated mapie": calibrated_mapie, "hierlpr": hierlpr,
}  # fmt: skip


def methods() -> dict:
    """Return the methods that can be run here."""
    try:
        import mapie.risk_control  # noqa: F401
    except ImportError:
        return {name: method for name, method in METHODS.items() if "mapie" not in name}
    return METHODS


def draw(data: str, config: dict, rng: np.random.Generator) -> tuple:
    """Return the hierarchy, then scores and truth to choose thresholds on, and to test on."""
    if data == "disease":
        n = config[data]["learn"]
        s = simulate.disease(n_samples=n + config[data]["judge"], rng=rng)
        return s.hierarchy, s.scores[:n], s.truth[:n], s.scores[n:], s.truth[n:]
    with np.load(DATA / config[data]["path"]) as archive:
        scores, truth = archive["S"].astype(float), archive["Y"].astype(bool)
        labels, parent = archive["labels"].tolist(), archive["parent"]
    h = Hierarchy([(labels[p], labels[k]) for k, p in enumerate(parent) if p >= 0], labels=labels)
    fit, population = np.split(rng.permutation(len(scores)), [len(scores) // 3])
    learn = np.concatenate([fit, rng.choice(population, fit.size)])
    return h, scores[learn], truth[learn], scores[population], truth[population]


def judge(calls: np.ndarray, truth: np.ndarray, h: Hierarchy) -> dict:
    """Return pooled precision, recall, and the share of samples with a label but not its parent."""
    correct = int((calls & truth).sum())
    broken = np.zeros(len(calls), dtype=bool)
    for parent, child in h.edges:
        broken |= calls[:, h.index(child)] & ~calls[:, h.index(parent)]
    return {
        "precision": correct / calls.sum() if calls.any() else np.nan,
        "recall": correct / truth.sum(),
        "contradictions": broken.mean(),
    }


def study(data: str, config: dict, replications: int) -> list[dict]:
    """Judge every method on each draw."""
    rows = []
    for run in range(replications):
        rng = np.random.default_rng([config["seed"], run, data == "enron"])
        h, scores, truth, new, new_truth = draw(data, config, rng)
        for name, method in methods().items():
            found = judge(method(scores, truth, new, h, config), new_truth, h)
            rows.append({"data": data, "run": run, "method": name, **found})
    return rows


def summarize(rows: list[dict], target: float) -> list[dict]:
    """Return one line per method: how often it was below target, and what it found."""
    lines = []
    for data, name in dict.fromkeys((row["data"], row["method"]) for row in rows):
        own = [r for r in rows if (r["data"], r["method"]) == (data, name)]
        precision = np.array([r["precision"] for r in own], dtype=float)
        made = precision[~np.isnan(precision)]
        lines.append({
            "data": data, "method": name, "runs": len(own), "runs_with_calls": made.size,
            "below_target": f"{(precision < target).mean():.2f}",
            "precision": f"{made.mean():.3f}" if made.size else "",
            "worst": f"{made.min():.3f}" if made.size else "",
            "recall": f"{np.mean([float(r['recall']) for r in own]):.4f}",
            "contradictions": f"{np.mean([float(r['contradictions']) for r in own]):.3f}",
        })  # fmt: skip
    return lines


def main() -> None:
    """Run, and write every run and the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int)
    parser.add_argument("--only", choices=["disease", "enron"])
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    config = read_config()
    rows = []
    for data in [options.only] if options.only else ["disease", "enron"]:
        rows += study(data, config, options.replications or config["replications"])
    if (HERE / "runs.csv").exists():
        with (HERE / "runs.csv").open() as file:
            made = {(row["data"], row["method"]) for row in rows}
            for row in csv.DictReader(file):
                if (row["data"], row["method"]) not in made:
                    numbers = {name: float(row[name]) for name in COLUMNS[3:]}
                    rows.append({**row, **numbers})
        place = {name: i for i, name in enumerate(METHODS)}
        rows.sort(key=lambda row: (row["data"], int(row["run"]), place[row["method"]]))
    for name, table in [("runs", rows), ("summary", summarize(rows, config["target"]))]:
        with (options.out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            for row in table:
                writer.writerow(
                    {k: f"{v:.5f}" if isinstance(v, float) else v for k, v in row.items()}
                )
    for line in summarize(rows, config["target"]):
        print(line)


if __name__ == "__main__":
    main()
