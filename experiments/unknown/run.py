"""Measure fits and cutoffs when some truth is unknown, positives are omitted or samples weighted.

    python experiments/unknown/run.py [--only learned|real|features|omitted|weighted|judged]

``learned.csv``: four ways to fit on samples with unknown pairs, by simulated population and by
pattern of unknown pairs. *unknown* uses NaN; *fewer* fits on fully known samples, as many as are
known for the label with the least; *negative* takes unknown pairs as 0; *whole* knows everything.
Columns are the mean absolute error of the LPRs (against the simulated ones) and the AU(PRC) of the
block scores on other samples; and the difference of *unknown* to *fewer* and to *negative*, with
its standard error over replications.

``real.csv``: the same on two real sets (of HIERLPR_DATA), with the log-loss per pair of the LPRs
instead of their error. Skipped with a message if the data are missing.

``features.csv``: the same with `HierarchicalClassifier` on features of the training parts of two
sets, labels with 10 positives or more, 30 % of pairs unknown.

``omitted.csv``: annotation that omits positives, used as if complete. How often a certified cutoff
was below target on the truth and on the annotation, and the mean precision on both.

``judged.csv``: reported and true numbers of calibration samples with unknown pairs (precision at a
target of .8, recall, AU(PRC)), and how often a certified cutoff is below target on 3,000 other
samples, by pattern of unknown pairs.

``weighted.csv``: samples with weights, in populations designed to break a certificate. How often a
certified cutoff is below target, by its weighted precision over 400,000 other samples.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import sys
import tomllib
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.stats import rankdata
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hierlpr import HierarchicalClassifier, HierLPR, simulate
from hierlpr.cutoff.choose import cutoff_for
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.goal import goals_of
from hierlpr.cutoff.instances import list_instances
from hierlpr.exceptions import HierlprWarning
from hierlpr.first_stage import FirstStage
from hierlpr.metrics import au_prc_score

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from clus_arff import read_arff  # noqa: E402

DATA = Path(os.environ.get("HIERLPR_DATA", HERE / "../../../shared/data"))
WAYS = ("unknown", "fewer", "negative", "whole")
CELLS = [  # population, pattern, samples to fit on (None: as configured)
    *((setting, pattern, None) for setting in (1, 2, 3)
      for pattern in ("30 % of pairs", "60 % of a label")),
    (4, "30 % of pairs", None),
    (2, "other shares by label", None),
    (2, "stopped on the way down", None),
    (2, "30 % of pairs, five scores", None),
    (2, "30 % of pairs", 40),
    (2, "60 % of a label", 40),
    (2, "low scores not looked at", None),
    (2, "positives more often", None),
]  # fmt: skip
OUTSIDE = ("low scores not looked at", "positives more often")  # not at random: no promise


def hide(pattern, truth, scores, hierarchy, rng):
    """Mark the unknown pairs."""
    n, k = truth.shape
    drawn = rng.random((n, k))
    if pattern.startswith("30 % of pairs"):
        return drawn < 0.3
    if pattern == "60 % of a label":
        return (drawn < 0.6) & (np.arange(k) == k // 2)
    if pattern == "other shares by label":
        return drawn < np.linspace(0.1, 0.7, k)
    if pattern == "stopped on the way down":
        return np.asarray(hierarchy.levels)[None] > 1 + rng.integers(0, 3, n)[:, None]
    if pattern == "low scores not looked at":
        return drawn < np.where(scores < np.median(scores, axis=0), 0.5, 0.1)
    return drawn < np.where(truth, 0.5, 0.1)


def fitted(way, data, rng, **options):
    """Fit in one of the four ways; `data` are hierarchy, scores, truth and unknown pairs."""
    h, scores, truth, unknown = data
    model = HierLPR(h, propagate_truth=way == "negative", **options)
    if way == "fewer":
        share = 1.0 - unknown.mean(axis=0).max()
        rows = np.sort(rng.choice(len(truth), max(10, round(share * len(truth))), replace=False))
        scores, truth = scores[rows], truth[rows]
    elif way == "unknown":
        truth = np.where(unknown, np.nan, truth)
    elif way == "negative":
        truth = np.where(unknown, 0.0, truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        return model.fit(scores, truth)


def dense(matrix):
    """Return an array."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def compared(found):
    """Columns of means, and of differences with their standard errors; found (ways, reps, 2)."""
    row = {}
    for at, measure in enumerate(("error", "au_prc")):
        values = found[:, :, at]
        row |= {f"{measure} {way}": f"{v.mean():.5f}" for way, v in zip(WAYS, values, strict=True)}
        for other in (1, 2):
            gap = values[0] - values[other]
            error = gap.std(ddof=1) / np.sqrt(gap.size)
            row[f"{measure} less {WAYS[other]}"] = f"{gap.mean():.5f}"
            row[f"{measure} less {WAYS[other]}, s.e."] = f"{error:.5f}"
    return row


def learned(config):
    """Compare the methods on simulated populations, one row per cell."""
    for setting, pattern, n in CELLS:
        found = np.empty((len(WAYS), config["replications"], 2))
        for i in range(config["replications"]):
            rng = np.random.default_rng([config["seed"], setting, i])
            fit, test = simulate.train_test(
                setting, n_train=config["n_fit"], n_test=config["n_test"], rng=rng
            )
            scores, truth = fit.scores[:n], fit.truth[:n]
            new, true_lpr = test.scores, test.lpr_true
            if "five scores" in pattern:  # ties; the LPR of a tie is the mean over it
                scores, new = (np.minimum(np.floor(5.0 * x), 4.0) for x in (scores, new))
                true_lpr = np.empty_like(test.lpr_true)
                for k in range(new.shape[1]):
                    for value in range(5):
                        tied = new[:, k] == value
                        true_lpr[tied, k] = test.lpr_true[tied, k].mean() if tied.any() else 0.0
            unknown = hide(pattern, truth, scores, fit.hierarchy, rng)
            data = (fit.hierarchy, scores, truth, unknown)
            for w, way in enumerate(WAYS):
                model = fitted(way, data, rng)
                lpr = model.lpr_.predict(new)
                found[w, i] = np.abs(lpr - true_lpr).mean(), model.score(new, test.truth)
        yield {"population": f"setting {setting}", "pattern": pattern,
               "n": n or config["n_fit"], **compared(found)}  # fmt: skip


# -- real sets ---------------------------------------------------------------------------------


def study(name):
    """Load the script of another study."""
    spec = importlib.util.spec_from_file_location(name, HERE.parent / name / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, tomllib.loads((HERE.parent / name / "config.toml").read_text())


def real_sets():
    """Name, hierarchy, scores and truth of two sets, of labels with 30 positives or more."""
    module, config = study("joint_real")
    data = module.load("enron_scores", config, None)
    truth = np.vstack([data.truth, data.test_truth]).astype(bool)
    yield "enron", data.hierarchy, np.vstack([data.scores, data.test_scores]), truth
    from hierlpr.io import load_hierarchy, pair_samples, read_scores, read_truth

    _, config = study("listed")
    loaded = load_hierarchy(DATA / config["hierarchy"])
    h, aliases = loaded.hierarchy, loaded.aliases
    known = read_truth(DATA / config["truth"], h, aliases=aliases)
    file = DATA / "cafa" / "predictions" / f"{config['predictions'][0]}.tsv"
    pair = pair_samples(read_scores(file, h, aliases=aliases, lenient=True), known)
    yield "cafa, listed", h, sparse.csr_array(pair.scores.values), dense(pair.truth.values) != 0


def real(config):
    """Compare the methods on real sets, one row per cell."""
    for name, h, scores, truth in real_sets():
        kept = np.flatnonzero(truth.sum(axis=0) >= 30)
        part = h.subset([h.labels[k] for k in kept])
        columns = [h.index(label) for label in part.labels]
        scores, truth = scores[:, columns], truth[:, columns]
        if sparse.issparse(scores):
            listing = np.diff(scores.indptr) > 0
            scores, truth = sparse.csr_array(scores[listing]), truth[listing]
        for pattern in ("30 % of pairs", "60 % of a label"):
            found = np.empty((len(WAYS), config["real_replications"], 2))
            for i in range(config["real_replications"]):
                rng = np.random.default_rng([config["seed"], i])
                order = rng.permutation(len(truth))
                fit, test = np.sort(order[: len(truth) // 2]), np.sort(order[len(truth) // 2 :])
                unknown = hide(pattern, truth[fit], None, part, rng)
                for w, way in enumerate(WAYS):
                    model = fitted(way, (part, scores[fit], truth[fit], unknown), rng, joint=False)
                    found[w, i] = held_out(model, scores[test], truth[test])
            yield {"set": name, "pattern": pattern, "n": len(fit), **compared(found)}


def feature_sets():
    """Name, hierarchy, features and truth of the training parts of two sets."""
    for name, file in (("enron", "enron/Enron_corr_trainvalid.arff.gz"),
                       ("cellcycle", "funcat/cellcycle_FUN.train.arff.gz")):  # fmt: skip
        data = read_arff(DATA / file)
        kept = np.flatnonzero(np.asarray(data.truth).sum(axis=0) >= 10)
        part = data.hierarchy.subset([data.hierarchy.labels[k] for k in kept])
        columns = [data.hierarchy.index(label) for label in part.labels]
        yield name, part, data.features, np.asarray(data.truth, dtype=bool)[:, columns]


def first_stage(name):
    """Return the first stage."""
    if name == "first stage":  # without networks, for time
        return FirstStage(members=["forest", "kernel"], n_trees=100)
    return make_pipeline(
        SimpleImputer(), StandardScaler(), LogisticRegression(C=0.1, max_iter=200, tol=1e-3)
    )


def features(config):
    """Compare the ways with classifiers on features, by log-loss per pair and AU(PRC)."""
    for name, h, x, truth in feature_sets():
        for learner in ("first stage", "logistic"):
            if (name, learner) == ("cellcycle", "logistic"):
                continue  # worse than prevalences, known or not
            found = np.empty((len(WAYS), config["feature_replications"], 2))
            for i in range(config["feature_replications"]):
                rng = np.random.default_rng([config["seed"], i])
                order = rng.permutation(len(truth))
                fit, test = np.sort(order[: 2 * len(truth) // 3]), order[2 * len(truth) // 3 :]
                unknown = hide("30 % of pairs", truth[fit], None, h, rng)
                for w, way in enumerate(WAYS):
                    rows, given = fit_data(way, truth[fit], unknown, rng, h)
                    model = HierarchicalClassifier(first_stage(learner), hierarchy=h, joint=False)
                    model.fit(x[fit][rows], given)
                    found[w, i] = held_out(model.model_, model.scores(x[test]), truth[test])
            yield {"set": name, "learner": learner, "n": len(fit), **compared(found)}


def fit_data(way, truth, unknown, rng, hierarchy):
    """Return the rows to learn from, and their truth, in one of the ways."""
    everything = np.arange(len(truth))
    if way == "whole":
        return everything, truth
    if way == "fewer":
        least = int((~unknown).sum(axis=0).min())
        rows = np.sort(rng.choice(len(truth), least, replace=False))
        return rows, truth[rows]
    if way == "negative":
        return everything, np.asarray(hierarchy.close_upward(truth & ~unknown))
    return everything, np.where(unknown, np.nan, truth)


def held_out(model, scores, truth):
    """Return the log-loss per listed pair of the LPRs, and the AU(PRC) of the block scores."""
    lpr = model.lpr_.predict(scores)
    if sparse.issparse(lpr):
        row = np.repeat(np.arange(lpr.shape[0]), np.diff(lpr.indptr))
        lpr, held = lpr.data, truth[row, lpr.indices]
    else:
        held = truth
    loss = -np.where(held, np.log(lpr), np.log1p(-lpr)).mean()
    return loss, au_prc_score(truth, dense(model.predict_proba(scores)))


# -- positives that are omitted ----------------------------------------------------------------

OMITTED = ("nothing", "one in five", "hard ones", "half of a label", "most of the deep ones")


def annotate(way, data, rng):
    """Return the annotation: some of the true labels, closed upward."""
    h, drawn = data.hierarchy, rng.random(data.truth.shape)
    k = data.truth.shape[1]
    chance = {
        "nothing": np.zeros(k),
        "one in five": np.full(k, 0.2),
        "hard ones": np.where(data.scores < np.median(data.scores, axis=0), 0.6, 0.05),
        "half of a label": 0.5 * (np.arange(k) == k - 1),
        "most of the deep ones": np.where(np.asarray(h.levels) > 1, 0.7, 0.0),
    }[way]
    omitted = data.truth & (drawn < chance)
    # If a label is omitted, so are the labels below it.
    gone = np.zeros_like(omitted)
    for label in h.labels:
        below = [h.index(x) for x in (label, *h.descendants(label))]
        gone[:, below] |= omitted[:, [h.index(label)]]
    return data.truth & ~gone


def omitted(config):
    """Count how often certified cutoffs are below target, one row per population and way."""
    for setting in (1, 2, 4):
        for way in OMITTED:
            true, seen, calls = [], [], []
            for i in range(config["omitted_replications"]):
                rng = np.random.default_rng([config["seed"], 7, setting, i])
                n = config["omitted_n"]
                fit, rest = simulate.train_test(setting, n_train=n, n_test=n + 4000, rng=rng)
                model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, annotate(way, fit, rng))
                written = annotate(way, rest, rng)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.calibrate(
                        rest.scores[:n], written[:n], precision=config["target"],
                        confidence=config["confidence"], unreachable="nothing",
                    )  # fmt: skip
                called = model.predict(rest.scores[n:])
                calls.append(called.sum())
                if called.any():
                    true.append(rest.truth[n:][called].mean())
                    seen.append(written[n:][called].mean())
            missed = [np.sum(np.array(x) < config["target"]) / len(calls) for x in (true, seen)]
            yield {
                "population": f"setting {setting}", "omitted": way, "n": config["omitted_n"],
                "replications": len(calls), "certified": len(true),
                "missed on the truth": f"{missed[0]:.4f}",
                "missed on the annotation": f"{missed[1]:.4f}",
                "precision on the truth": f"{np.mean(true):.4f}" if true else "",
                "precision on the annotation": f"{np.mean(seen):.4f}" if seen else "",
            }  # fmt: skip


# -- judged pairs --------------------------------------------------------------------------------


def not_judged(pattern, truth, scores, hierarchy, rng):
    """Mark pairs that were not given."""
    n, k = truth.shape
    drawn, level = rng.random((n, k)), np.asarray(hierarchy.levels)
    if pattern.endswith("% of pairs"):
        return drawn < float(pattern.split()[0]) / 100
    if pattern == "other shares by label":
        return drawn < np.linspace(0.2, 0.8, k)
    if pattern == "stopped on the way down":
        return level[None] > 1 + rng.integers(0, level.max(), n)[:, None]
    if pattern == "low scores not looked at":
        return drawn < np.where(scores < np.median(scores, axis=0), 0.7, 0.3)
    given = drawn < 0.8  # only where all parents were given and hold
    for label in (hierarchy.labels[i] for i in hierarchy.order):
        for parent in hierarchy.parents(label):
            above = hierarchy.index(parent)
            given[:, hierarchy.index(label)] &= given[:, above] & truth[:, above]
    return ~given


JUDGED = ("30 % of pairs", "60 % of pairs", "other shares by label", "stopped on the way down",
          "only below positives", "low scores not looked at")  # fmt: skip


def judged(config, shapes=("tree", "dag")):
    """Compare reported numbers with those of all pairs, one row per hierarchy and pattern."""
    target, n = config["target"], 600
    for shape in shapes:
        h = (simulate.random_dag if shape == "dag" else simulate.random_tree)(25, rng=3)
        model = simulate.random_model(h, quality="medium", root=0.9, conditional=0.55, rng=5)
        for pattern in JUDGED:
            if shape == "dag" and pattern == "only below positives":
                continue  # some labels would never be judged
            found = []
            for i in range(config["judged_replications"]):
                rng = np.random.default_rng([config["seed"], 11, i])
                data = model.draw(2 * n + 3000, rng=rng)
                hidden = not_judged(pattern, data.truth, data.scores, h, rng)
                given = np.where(hidden, np.nan, data.truth)
                fit, choose, new = slice(n), slice(n, 2 * n), slice(2 * n, None)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", HierlprWarning)
                    fitted = HierLPR(h, joint=False).fit(data.scores[fit], given[fit])
                    part, truth = (data.scores[choose], given[choose]), data.truth[choose]
                    cutoff = fitted.calibrate(*part, precision=target).cutoff_
                    called = fitted.predict(part[0])
                    right = (called & truth).sum()
                    chance = cutoff.result.precision_if_random
                    row = [cutoff.precision, chance, right / called.sum(),
                           cutoff.recall, right / truth.sum(), fitted.score(*part),
                           fitted.score(part[0], truth)]  # fmt: skip
                    fitted.calibrate(*part, precision=target, confidence=config["confidence"])
                    called = fitted.predict(data.scores[new])
                precision = data.truth[new][called].mean() if called.any() else np.nan
                recall = (called & data.truth[new]).sum() / data.truth[new].sum()
                found.append([*row, called.any(), precision < target, precision, recall])
            names = ("precision", "if random", "of all calls", "recall", "of all positives",
                     "AU(PRC)", "of all pairs", "certified", "missed", "certified precision",
                     "certified recall")  # fmt: skip
            means = np.nanmean(np.array(found, dtype=float), axis=0)
            yield {
                "hierarchy": shape, "pattern": pattern, "runs": len(found),
                **{name: f"{x:.3f}" for name, x in zip(names, means, strict=True)},
            }  # fmt: skip


# -- weights -----------------------------------------------------------------------------------


def weighted_population(name, n, rng):
    """Block scores, truth and weights of samples, and the bound on the weights."""
    k = 1 if "one label" in name else 4
    score = rng.random((n, k))
    score = np.sort(np.round(score, 1) if "ties" in name else score, axis=1)[:, ::-1]
    good = rng.random(n) < 0.85
    chance = np.where(good[:, None], 0.84 + 0.14 * score, 0.35)
    weight, bound = rng.uniform(0.2, 1.0, n), 1.0
    if "heavy bad" in name:  # the wrong samples count most, and are rare
        rare = rng.random(n) < 0.02
        chance[rare], weight, bound = 0.0, np.where(rare, 12.0, 1.0), 12.0
    elif "by score" in name:
        weight = 0.1 + 0.9 * (1.0 - score[:, 0])
    elif "by truth" in name:
        weight = np.where(good, 0.4, 1.0)
    elif "loose bound" in name:
        bound = 5.0
    held = rng.random((n, k)) < chance
    if "by truth" in name:
        weight = np.where(held[:, 0], weight, 1.0)
    if "together" in name:  # the labels of a sample are all right or all wrong
        held = np.repeat(held[:, :1], k, axis=1)
    return score, held, weight, bound


WEIGHTED = ("even", "by score", "by truth", "heavy bad", "ties, by truth", "heavy bad, one label",
            "together, by truth", "ties, heavy bad, together", "loose bound")  # fmt: skip


def weighted(config):
    """Count how often weighted certified cutoffs are below target, per population and size."""
    for place, name in enumerate(WEIGHTED):
        rng = np.random.default_rng([config["seed"], 9, place])
        *many, bound = weighted_population(name, 400_000, rng)
        # Strict levels are above the target, lenient ones below, those in between just so.
        target = true_precision(0.5, None, *many) + 0.003
        (goal,) = goals_of(precision=target, confidence=config["confidence"])
        for n in (60, 300):
            profile = LevelProfile.of(list_instances(*weighted_population(name, 600, rng)[:3]))
            found, wrong = [], 0
            for _ in range(config["weighted_replications"]):
                part = weighted_population(name, n, rng)[:3]
                cutoff = cutoff_for(goal, list_instances(*part), profile=profile, max_weight=bound,
                                    unreachable="nothing")  # fmt: skip
                if not cutoff.reachable:
                    continue
                key = (cutoff.level, cutoff.max_calls)
                found.append(true_precision(*key, *many))
                wrong += found[-1] < target
            runs = config["weighted_replications"]
            yield {
                "population": name, "n": n, "target": f"{target:.4f}", "replications": runs,
                "certified": len(found), "missed": f"{wrong / runs:.4f}",
                "mean precision": f"{np.mean(found):.4f}" if found else "",
            }  # fmt: skip


@cache
def true_precision_of(level, max_calls, key):
    """See `true_precision`."""
    score, held, weight = POPULATIONS[key]
    called = score >= level
    if max_calls is not None:
        called &= rankdata(-score, method="max", axis=1) <= max_calls  # ties all or none
    own = np.broadcast_to(weight[:, None], score.shape)
    return own[called & held].sum() / own[called].sum()


POPULATIONS = {}


def true_precision(level, max_calls, score, held, weight):
    """Weighted precision of the calls in a large sample."""
    POPULATIONS[id(score)] = (score, held, weight)
    return true_precision_of(level, max_calls, id(score))


def main() -> None:
    """Make the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--only", choices=["learned", "real", "features", "omitted", "weighted", "judged"]
    )
    only = parser.parse_args().only
    config = tomllib.loads((HERE / "config.toml").read_text())
    parts = {"learned": learned, "omitted": omitted, "weighted": weighted, "real": real}
    parts |= {"features": features, "judged": judged}
    for name, rows in parts.items():
        if only not in (None, name):
            continue
        if name in ("real", "features") and not DATA.is_dir():
            print(f"{name}.csv is not made: the data are not at {DATA} (set HIERLPR_DATA).")
            continue
        table = list(rows(config))
        with (HERE / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
