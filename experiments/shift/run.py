"""How much of a shift of prevalences `adapt` makes good, and whether other scores are noticed.

Samples are drawn again so that one label is more or less frequent, which moves the others too. What
the adapted model loses in log-loss is set against the old model and one refitted with truth of the
new population; "known" is the same correction with the true prevalences of the samples judged on,
the most that any estimate of them could give. Other populations have other scores: a classifier
that was replaced, noisier scores, and scores on another scale; and there are populations of the
same scores, as fitted on or with another prevalence of one label.

    python experiments/shift/run.py [--replications N] [--only NAME ...] [--tables NAME ...]
        [--cache DIR]
"""

import argparse
import csv
import functools
import importlib.util
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from hierlpr import HierLPR, metrics, simulate
from hierlpr.exceptions import DataError
from hierlpr.model.changing import adapted as adapted_to

HERE = Path(__file__).parent
FACTORS = (0.2, 0.5, 1.0, 2.0, 5.0)
SIMULATED = ("1", "2", "3", "tree25")
REAL = ("imclef07a", "enron_scores")
OTHERS = ("one replaced", "half replaced", "noisier", "other scale")
SAME = ("the same", "other prevalences")


@functools.cache
def real_scores(name, cache):
    """All samples of a real set with their first-stage scores."""
    place = HERE.parent / "joint_real"
    spec = importlib.util.spec_from_file_location("joint_real", place / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = tomllib.loads((place / "config.toml").read_text())
    data = module.load(name, config, cache)
    scores = np.vstack([data.scores, data.test_scores])
    truth = np.vstack([data.truth, data.test_truth])
    # Labels of which a third of the samples may lack every positive teach nothing here.
    kept = np.flatnonzero(truth.sum(axis=0) >= 30)
    h = data.hierarchy.subset([data.hierarchy.labels[k] for k in kept])
    columns = [data.hierarchy.index(label) for label in h.labels]
    return h, scores[:, columns], truth[:, columns].astype(bool)


def parts_of(name, rng, cache=None):
    """Return a hierarchy, and scores and truth to fit on, to draw from, and to judge from."""
    if name in REAL:
        h, scores, truth = real_scores(name, cache)
        bounds = (np.array([0.35, 0.7]) * len(scores)).astype(int)  # the refit has as many
        rows = np.split(rng.permutation(len(scores)), bounds)
        return h, [(scores[r], truth[r]) for r in rows]
    train, pool = simulate.train_test(name, n_train=3000, n_test=20000, rng=rng)
    half = np.arange(20000) < 10000
    return train.hierarchy, [(train.scores, train.truth),
                             (pool.scores[half], pool.truth[half]),
                             (pool.scores[~half], pool.truth[~half])]  # fmt: skip


def shifted(rng, scores, truth, label, factor, n):
    """Draw samples so that a label is more frequent by a factor, at most in 90 % of them."""
    rate = truth[:, label].mean()
    new = min(0.9, rate * factor)
    chance = np.where(truth[:, label], new / rate, (1.0 - new) / (1.0 - rate))
    rows = rng.choice(len(scores), n, p=chance / chance.sum())
    return scores[rows], truth[rows]


def thinned(rng, scores, truth, label, factor):
    """Leave out samples so that a label is more frequent by a factor; none is there twice."""
    rate = truth[:, label].mean()
    new = min(0.9, rate * factor)
    chance = np.where(truth[:, label], new / rate, (1.0 - new) / (1.0 - rate))
    return scores[rng.random(len(scores)) < chance / chance.max()]


def losses(model, scores, truth):
    """Log-loss a sample, summed over labels, and calibration error."""
    p = np.clip(model.transform(scores), 1e-9, 1.0 - 1e-9)
    loss = -np.where(truth, np.log(p), np.log1p(-p)).sum(axis=1).mean()
    return loss, metrics.calibration_error(truth, p)


def knowing(model, scores, truth):
    """The model adapted to the true prevalences."""
    drift = model.check(scores)
    rates = np.clip(truth.mean(axis=0), 1e-6, 1.0 - 1e-6)
    return adapted_to(model, replace(drift, expected=rates, is_different=rates < 0.0))


def shift_rows(name, joint, replications, cache=None):
    """One row for each factor: means over the replications."""
    found = {factor: [] for factor in FACTORS}
    refused = dict.fromkeys(FACTORS, 0)
    for run in range(replications):
        rng = np.random.default_rng(run)
        h, (fit, draw, judge) = parts_of(name, rng, cache)
        model = HierLPR(h, joint=joint).fit(*fit)
        # A label that many samples have, but not nearly all.
        rates = fit[1].mean(axis=0)
        label = int(rng.choice(np.flatnonzero((rates > 0.02) & (rates < 0.7))))
        for factor in FACTORS:
            n = min(3000, len(draw[0]))
            scores, truth = shifted(rng, *draw, label, factor, n)
            new = shifted(rng, *judge, label, factor, 3000)
            try:
                adapted = model.adapt(scores)
            except DataError:
                refused[factor] += 1
                continue
            refitted = HierLPR(h, joint=joint).fit(scores, truth)
            models = (model, adapted, refitted, knowing(model, scores, new[1]))
            found[factor].append([losses(m, *new) for m in models])
    rows = []
    for factor, runs in found.items():
        mean = np.array(runs).mean(axis=0) if runs else np.full((4, 2), np.nan)
        (old, old_ece), (now, now_ece), (best, best_ece), (known, known_ece) = mean
        gains = np.array(runs)[:, 0, 0] - np.array(runs)[:, 1, 0] if runs else np.zeros(1)
        rows.append({
            "set": name, "joint": joint, "factor": factor, "runs": replications,
            "refused": refused[factor], "old": f"{old:.4f}", "adapted": f"{now:.4f}",
            "refitted": f"{best:.4f}", "known": f"{known:.4f}",
            "recovered": f"{(old - now) / (old - best):.2f}",
            "ece_recovered": f"{(old_ece - now_ece) / (old_ece - best_ece):.2f}",
            "gain": f"{old - now:.4f}", "gain_se": f"{gains.std() / max(1, len(gains)) ** 0.5:.4f}",
            "old_ece": f"{old_ece:.4f}", "adapted_ece": f"{now_ece:.4f}",
            "refitted_ece": f"{best_ece:.4f}", "known_ece": f"{known_ece:.4f}",
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def changed(kind, scores, rng):
    """Scores of another kind."""
    out = scores.copy()
    if kind == "one replaced":
        at = int(np.flatnonzero(out.min(axis=0) < out.max(axis=0))[0])  # the first that varies
        out[:, at] = rng.normal(size=len(out)) * out[:, at].std() + out[:, at].mean()
    elif kind == "half replaced":
        spread, middle = out[:, ::2].std(axis=0), out[:, ::2].mean(axis=0)
        out[:, ::2] = rng.normal(size=out[:, ::2].shape) * spread + middle
    elif kind == "noisier":
        out += rng.normal(size=out.shape) * out.std(axis=0)
    else:
        out = 10.0 * out - 3.0
    return out


def other_rows(name, replications, cache=None):
    """How often scores of another kind are refused or warned of, and scores of the same kind."""
    rows = []
    for kind in (*OTHERS, *SAME):
        count = {"refused": 0, "warned": 0, "silent": 0}
        for run in range(replications):
            rng = np.random.default_rng(run)
            h, (fit, draw, _) = parts_of(name, rng, cache)
            model = HierLPR(h, joint=False).fit(*fit)
            scores = draw[0][:1000]
            if kind == "other prevalences":
                rates = fit[1].mean(axis=0)
                label = int(rng.choice(np.flatnonzero((rates > 0.02) & (rates < 0.7))))
                scores = thinned(rng, *draw, label, float(rng.choice([0.2, 5.0])))[:1000]
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                try:
                    model.adapt(scores if kind in SAME else changed(kind, scores, rng))
                    count["warned" if said else "silent"] += 1
                except DataError:
                    count["refused"] += 1
        rows.append({"set": name, "scores": kind, "runs": replications, **count})
        print(rows[-1], flush=True)
    return rows


def write(name, rows):
    """Write a table beside this file; sets that were not run keep their rows."""
    done = {row["set"] for row in rows}
    if (HERE / name).exists():
        with (HERE / name).open(newline="") as file:
            rows = [*(row for row in csv.DictReader(file) if row["set"] not in done), *rows]
    place = [*SIMULATED, *REAL]
    rows = sorted(rows, key=lambda row: place.index(row["set"]))
    with (HERE / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    """Run everything, or what is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=[*SIMULATED, *REAL])
    parser.add_argument("--tables", nargs="+", default=["recovered", "others"])
    parser.add_argument("--cache", type=Path, help="folder for first-stage scores")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, others = [], []
    for name in arguments.only:
        if "recovered" in arguments.tables:
            for joint in (False, "auto"):
                rows += shift_rows(name, joint, arguments.replications, arguments.cache)
            write("recovered.csv", rows)
        if "others" in arguments.tables:
            others += other_rows(name, arguments.replications, arguments.cache)
            write("others.csv", others)


if __name__ == "__main__":
    main()
