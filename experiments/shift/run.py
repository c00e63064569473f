"""Measure how much of a shift of prevalences `adapt` recovers, and which changes are noticed.

Samples are resampled so that one label is more or less frequent, which changes the others too. The
log-loss of the adapted model is compared with the old model and one refitted with truth of the new
population; "known" is the correction with the true prevalences of the test samples, the best that
any estimate could give. Standard errors are over runs. The share recovered is given only if the
refit is better than the old model by two standard errors; `short`, the loss of the adapted model
minus the loss of the refit, always. ``others.csv``: a classifier that was replaced, noisier scores,
scores on another scale, unchanged scores, and another prevalence of one label. ``noticed.csv``
counts what `check` and `adapt` report when all prevalences change together, or scores are invalid.

    python experiments/shift/run.py [--replications N] [--first SEED] [--only NAME ...]
        [--tables NAME ...] [--cache DIR] [--workers N]
"""

import argparse
import csv
import functools
import importlib.util
import tomllib
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from hierlpr import HierLPR, metrics, simulate
from hierlpr.exceptions import DataError

HERE = Path(__file__).parent
FACTORS = (0.2, 0.5, 1.0, 2.0, 5.0)
SIMULATED = ("1", "2", "3", "tree25")
REAL = ("imclef07a", "enron_scores")
OTHERS = ("one replaced", "half replaced", "noisier", "other scale")
SAME = ("the same", "other prevalences")
TOGETHER = {"the same": 1.0, "all times 1/3": 1 / 3, "all times 3": 3.0}
NONSENSE = ("1 - s", "columns permuted")


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
    while not frequent(train.truth).size:  # a population with nothing to shift: the next one
        train, pool = simulate.train_test(name, n_train=3000, n_test=20000, rng=rng)
    half = np.arange(20000) < 10000
    return train.hierarchy, [(train.scores, train.truth),
                             (pool.scores[half], pool.truth[half]),
                             (pool.scores[~half], pool.truth[~half])]  # fmt: skip


def frequent(truth):
    """Labels that many samples have, but not nearly all."""
    rates = truth.mean(axis=0)
    return np.flatnonzero((rates > 0.02) & (rates < 0.7))


def shifted(rng, scores, truth, label, factor, n):
    """Draw samples so that a label is more frequent by a factor, at most in 90 % of them."""
    rate = truth[:, label].mean()
    new = min(0.9, rate * factor)
    chance = np.where(truth[:, label], new / rate, (1.0 - new) / (1.0 - rate))
    rows = rng.choice(len(scores), n, p=chance / chance.sum())
    return scores[rows], truth[rows]


def thinned(rng, scores, truth, label, factor):
    """Leave out samples so that a label is more frequent by a factor, without duplicates."""
    rate = truth[:, label].mean()
    new = min(0.9, rate * factor)
    chance = np.where(truth[:, label], new / rate, (1.0 - new) / (1.0 - rate))
    return scores[rng.random(len(scores)) < chance / chance.max()]


def losses(model, scores, truth):
    """Return the log-loss per sample, summed over labels, and the calibration error."""
    p = np.clip(model.transform(scores), 1e-9, 1.0 - 1e-9)
    loss = -np.where(truth, np.log(p), np.log1p(-p)).sum(axis=1).mean()
    return loss, metrics.calibration_error(truth, p)


def knowing(model, scores, truth):
    """The model adapted to the true prevalences."""
    drift = model.check(scores)
    rates = np.clip(truth.mean(axis=0), 1e-6, 1.0 - 1e-6)
    return model.with_prevalences(replace(drift, expected=rates, is_different=rates < 0.0))


def one_run(name, joint, seed, cache=None):
    """Loss and calibration error (old, adapted, refitted, known) by factor; None if refused."""
    warnings.simplefilter("ignore")  # this may be a process of its own
    rng = np.random.default_rng(seed)
    h, (fit, draw, judge) = parts_of(name, rng, cache)
    model = HierLPR(h, joint=joint).fit(*fit)
    label = int(rng.choice(frequent(fit[1])))
    found = {}
    for factor in FACTORS:
        n = min(3000, len(draw[0]))
        scores, truth = shifted(rng, *draw, label, factor, n)
        new = shifted(rng, *judge, label, factor, 3000)
        try:
            adapted = model.adapt(scores)
        except DataError:
            found[factor] = None
            continue
        refitted = HierLPR(h, joint=joint).fit(scores, truth)
        models = (model, adapted, refitted, knowing(model, scores, new[1]))
        found[factor] = [losses(m, *new) for m in models]
    return found


def shift_rows(name, joint, seeds, cache=None, workers=1):
    """Return one row per factor: means over runs, one per seed, and their standard errors."""
    work = functools.partial(one_run, name, joint, cache=cache)
    with ProcessPoolExecutor(workers) as pool:
        runs = list((pool.map if workers > 1 else map)(work, seeds))
    rows = []
    for factor in FACTORS:
        found = [run[factor] for run in runs if run[factor] is not None]
        rows.append({"set": name, "joint": joint, "factor": factor, "first": seeds[0],
                     "runs": len(runs), "refused": len(runs) - len(found),
                     **summary(np.array(found).reshape(-1, 4, 2))})  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def summary(runs):
    """Means and standard errors over runs x (old, adapted, refitted, known) x (loss, error)."""
    out = {}
    for at, kind in enumerate(("", "ece_")):
        old, now, best, known = runs[:, :, at].T
        for name, values in (("old", old), ("adapted", now), ("refitted", best), ("known", known)):
            out[f"{kind}{name}"] = f"{values.mean():.4f}"
        for name, values in (("gap", old - best), ("gain", old - now), ("short", now - best)):
            out[f"{kind}{name}"] = f"{values.mean():.4f}"
            out[f"{kind}{name}_se"] = f"{spread_of(values):.4f}"
        out |= dict(zip((f"{kind}recovered", f"{kind}recovered_se"),
                        recovered(old - best, old - now), strict=True))  # fmt: skip
    return out


def spread_of(values):
    """Standard error of a mean."""
    return values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan


def recovered(gap, gain):
    """Return gains over gaps with a standard error (jackknife), if there is a clear gap.

    If the refit is not better than the old model by two standard errors, there is none.
    """
    n = len(gap)
    if n < 2 or gap.mean() <= 2.0 * spread_of(gap):
        return "", ""
    without = (gain.sum() - gain) / (gap.sum() - gap)
    error = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    return f"{gain.sum() / gap.sum():.2f}", f"{error:.2f}"


def changed(kind, scores, rng):
    """Return changed scores."""
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
    """Count how often changed and unchanged scores are refused or warned about."""
    rows = []
    for kind in (*OTHERS, *SAME):
        count = {"refused": 0, "warned": 0, "silent": 0}
        for run in range(replications):
            rng = np.random.default_rng(run)
            h, (fit, draw, _) = parts_of(name, rng, cache)
            model = HierLPR(h, joint=False).fit(*fit)
            scores = draw[0][:1000]
            if kind == "other prevalences":
                label = int(rng.choice(frequent(fit[1])))
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


def moved_together(rng, h, truth, factor, n):
    """Leave out samples so that all labels are more frequent by a factor; at most `n` remain.

    The roots have the factor on average, without those that all samples have, but at most 90 % of
    the samples unless they have more already.
    """
    held = truth[:, [h.index(root) for root in h.roots]]
    held = held[:, held.min(axis=0) < held.max(axis=0)]
    target, low, high = min(max(0.9, held.mean()), factor * held.mean()), -12.0, 12.0
    for _ in range(60):
        chance = np.exp((low + high) / 2 * (held.sum(axis=1) - held.shape[1]))
        chance /= chance.sum()
        low, high = ((low + high) / 2, high) if chance @ held.mean(axis=1) < target else (
            low, (low + high) / 2)  # fmt: skip
    return rng.permutation(np.flatnonzero(rng.random(len(truth)) < chance / chance.max()))[:n]


def noticed_rows(name, replications, cache=None):
    """Count how often a change of all prevalences is noticed, and invalid scores are refused."""
    counts = {}
    for run in range(replications):
        rng = np.random.default_rng(run)
        h, (fit, draw, _) = parts_of(name, rng, cache)
        model = HierLPR(h, joint=False).fit(*fit)
        cases = {}
        for n in (100, 1000):
            for kind, factor in TOGETHER.items():
                cases[kind, n] = draw[0][moved_together(rng, h, draw[1], factor, n)]
        order = rng.permutation(h.n_labels)
        cases["1 - s", 1000] = draw[0].max() + draw[0].min() - draw[0][:1000]
        cases["columns permuted", 1000] = draw[0][:1000, order]
        for case, scores in cases.items():
            count = counts.setdefault(case, dict.fromkeys(("moved", "unclear", "refused"), 0))
            said = str(model.check(scores))
            count["moved"] += "seems to have changed by" in said
            count["unclear"] += "cannot tell" in said
            try:
                model.adapt(scores)
            except DataError:
                count["refused"] += 1
    rows = [{"set": name, "scores": kind, "samples": n, "runs": replications, **count}
            for (kind, n), count in counts.items()]  # fmt: skip
    print(*rows, sep="\n", flush=True)
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
    """Run everything, or the named parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run of recovered")
    parser.add_argument("--only", nargs="*", default=[*SIMULATED, *REAL])
    parser.add_argument("--tables", nargs="+", default=["recovered", "others", "noticed"])
    parser.add_argument("--cache", type=Path, help="folder for first-stage scores")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(arguments.first, arguments.first + arguments.replications)
    rows, others, noticed = [], [], []
    for name in arguments.only:
        if "recovered" in arguments.tables:
            for joint in (False, "auto"):
                rows += shift_rows(name, joint, seeds, arguments.cache, arguments.workers)
            write("recovered.csv", rows)
        if "others" in arguments.tables:
            others += other_rows(name, arguments.replications, arguments.cache)
            write("others.csv", others)
        if "noticed" in arguments.tables:
            noticed += noticed_rows(name, arguments.replications, arguments.cache)
            write("noticed.csv", noticed)


if __name__ == "__main__":
    main()
