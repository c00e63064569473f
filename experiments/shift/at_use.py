"""Count how often using a model warns about scores unlike those of its fit, and false alarms.

A model is fitted, and `rank` or `predict` gets batches of new samples: as they are, multiplied by
100, as log-odds, with permuted columns, and as 1 - s. Real scores are out-of-fold in the fit, and
new ones come from classifiers fitted on all training samples, as users have them. The
populations of experiments/guarantee give unchanged batches only.

    python experiments/shift/at_use.py [--only NAME ...] [--cache DIR]     # needs HIERLPR_DATA

Writes at_use.csv: per population and batch size, the number of batches with a warning and, for the
paper's settings, with a warning of the best possible test. This likelihood ratio test knows the
true density of the scores and which change is the alternative; its false alarms are .5 %. With
three labels, a permutation may exchange labels with nearly the same scores, and scores may be
nearly symmetric about 1/2, so even this test misses some. With three labels there is also a test
that knows the density, but not which of the six changes was made, and the fit only from its
samples, as the model does; its false alarms are at most .8 %, as for the model. The e-mails in
the test part of enron differ from those fitted on (in four random splits of all its e-mails, 0 of
320 batches gave a warning), so its rows "same" are not false alarms.
"""

import argparse
import csv
import importlib.util
import itertools
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
from scipy.special import betaln, logit, ndtri

from hierlpr import HierLPR, simulate
from hierlpr.data.tables import Table
from hierlpr.io.predictions import read_predictions
from hierlpr.io.true_names import read_true_names

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "guarantee"))

import end_to_end  # noqa: E402, F401  (its populations enter the table)
import populations  # noqa: E402, F401
from attack import POPULATIONS, Population, standalone  # noqa: E402

CONFIG = tomllib.loads((HERE / "config.toml").read_text())["at_use"]
CHANGES = ("same", "x 100", "logits", "permuted", "1 - s")
RANDOM = {
    "random tree": lambda n, rng: simulate.random_tree(n, max_depth=6, rng=rng),
    "random forest": lambda n, rng: simulate.random_forest(n, n_trees=10, max_depth=6, rng=rng),
    "random dag": lambda n, rng: simulate.random_dag(n, n_roots=10, rng=rng),
}


def simulated(name, n_fit, rng):
    """A fitted model, new scores, and where known their log density and the scores of the fit."""
    n_new = 20 * max(CONFIG["batches"])
    drawn = None
    if name == "disease":
        train, test = (simulate.disease(n_samples=n, rng=rng) for n in (n_fit, n_new))
    elif name in RANDOM:
        h = RANDOM[name](100, rng)
        drawn = simulate.random_model(h, conditional=rng.uniform(0.3, 1.0, 100), rng=rng)
        train, test = drawn.draw(n_fit, rng), drawn.draw(n_new, rng)
    else:
        while True:  # as simulate.train_test does
            drawn = simulate.setting_model(name, rng=rng)
            train = drawn.draw(n_fit, rng)
            if train.truth.sum(axis=0).min() >= -(-15 * n_fit // 5000):
                break
        test = drawn.draw(n_new, rng)
    model = HierLPR(train.hierarchy, joint=False).fit(train.scores, train.truth)
    if drawn is None or name in RANDOM:
        return model, test.scores, None
    return model, test.scores, (lambda scores: log_density(drawn, scores), train.scores)


def log_density(model, scores):
    """Log density of the scores of each sample on a forest: sums over all labels, leaves first."""
    h, eta, inside = model.hierarchy, model.eta, np.clip(scores, 1e-300, 1.0 - 1e-16)
    up, down = np.log(inside), np.log1p(-inside)
    given = [5 * x + (eta - 1) * y - betaln(6, eta) for x, y in ((up, down), (down, up))]
    on, off = (x.T[h.order] for x in given)  # of a label and all below it, if it holds or not
    total = np.zeros(len(scores))
    for k in reversed(range(h.n_labels)):
        chance = model.conditional[h.order[k]]
        either = np.logaddexp(np.log(chance) + on[k], np.log1p(-chance) + off[k])
        above = h.parent_idx[h.parent_ptr[k] : h.parent_ptr[k + 1]]
        if above.size:
            on[above[0]] += either
            off[above[0]] += off[k]
        else:
            total += either
    return total


def attacked(name, n_fit, rng):
    """A model fitted on a population of the guarantee study, and new scores."""
    victim = POPULATIONS[name](0.8)
    if not isinstance(victim, Population):
        plan = victim.plan(rng)
        return plan.model, plan.scores, None
    scores, truth = victim.draw(rng, n_fit + 20 * max(CONFIG["batches"]))
    h = standalone(truth.shape[1])
    model = HierLPR(h, joint=False).fit(Table(scores[:n_fit], h.labels), truth[:n_fit])
    return model, scores[n_fit:], None


def real(name, rng, cache):
    """A model fitted on out-of-fold scores, and the scores of the test samples."""
    place = HERE.parent / "joint_real"
    spec = importlib.util.spec_from_file_location("joint_real", place / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if name in ("its", "16s"):
        found = read_predictions(module.DATA / f"taxa/{name}.tsv.gz")
        rows, truth, _ = read_true_names(module.DATA / f"taxa/{name}.tsv.gz", found)
        is_fit = rng.random(rows.size) < 0.5
        model = HierLPR(found.hierarchy)
        model.fit(Table(found.scores[rows[is_fit]], found.hierarchy.labels), truth[is_fit])
        return model, found.scores[rows[~is_fit]], None
    config = tomllib.loads((place / "config.toml").read_text())
    data = module.load(name, config, cache)
    kept = np.flatnonzero(data.truth.sum(axis=0) >= 10)
    h = data.hierarchy.subset([data.hierarchy.labels[k] for k in kept])
    columns = [data.hierarchy.index(label) for label in h.labels]
    model = HierLPR(h, joint=False).fit(data.scores[:, columns], data.truth[:, columns])
    return model, data.test_scores[:, columns], None


def change_of(how, n_labels, rng):
    """Return the function that breaks scores, and its inverse."""
    if how == "permuted":
        order = rng.permutation(n_labels)
        while (order == np.arange(n_labels)).all():
            order = rng.permutation(n_labels)
        return (lambda scores: scores[:, order]), (lambda scores: scores[:, np.argsort(order)])
    if how == "1 - s":
        return (lambda scores: on_values(scores, lambda x: 1.0 - x),) * 2
    change = {
        "same": lambda x: x,
        "x 100": lambda x: 100.0 * x,
        "logits": lambda x: logit(np.clip(x, 1e-9, 1.0 - 1e-9)),
    }[how]
    return (lambda scores: on_values(scores, change)), None


def on_values(scores, function):
    """Apply a function to all scores, or to those that are listed."""
    if isinstance(scores, np.ndarray):
        return function(scores)
    out = scores.copy()
    out.data = function(out.data)
    return out


def best_test(density, pool, batch, inverse, rng, level=0.005):
    """Whether the likelihood ratio of the change in a batch exceeds what chance allows."""
    chance = density(inverse(pool)) - density(pool)
    drawn = chance[rng.integers(chance.size, size=(2000, len(batch)))].sum(axis=1)
    ratio = density(inverse(batch)) - density(batch)
    return bool(ratio.sum() > np.quantile(drawn, 1.0 - level))


def blind_test(density, fitted, batch, level=0.008):
    """Whether one of all changes is too likely, compared with the samples of the fit."""
    orders = list(itertools.permutations(range(batch.shape[1])))[1:]
    changed = [lambda x: 1.0 - x, *(lambda x, order=order: x[:, order] for order in orders)]
    limit = -ndtri(level / len(changed)) * np.sqrt(1.0 / len(batch) + 1.0 / len(fitted))
    for change in changed:
        before, now = (density(change(x)) - density(x) for x in (fitted, batch))
        if now.mean() - before.mean() > limit * before.std():
            return True
    return False


def measure(name, n_fit, cache, rng):
    """Rows of the table: the number of batches with a warning for each change."""
    counts = {}
    is_real = name in CONFIG["real"]
    draw = simulated if name in CONFIG["simulated"] else attacked
    for _ in range(1 if is_real else CONFIG["models"]):
        model, pool, known = real(name, rng, cache) if is_real else draw(name, n_fit, rng)
        values = pool if isinstance(pool, np.ndarray) else pool.data
        is_share = values.min() >= 0.0 and values.max() <= 1.0
        n_batches = CONFIG["repeats"] * (CONFIG["models"] if is_real else 1)
        for size in CONFIG["batches"]:
            for how in ("same",) if draw is attacked and not is_real else CHANGES:
                for _ in range(n_batches):
                    batch = pool[rng.choice(pool.shape[0], size, replace=False)]
                    if how == "logits" and not is_share:
                        continue
                    change, inverse = change_of(how, pool.shape[1], rng)
                    batch = change(batch)
                    noted = bool(model.difference_note(Table(batch, model.hierarchy_.labels)))
                    best = blind = None
                    if known is not None and inverse is not None:
                        best = best_test(known[0], pool, batch, inverse, np.random.default_rng(0))
                    if known is not None and pool.shape[1] == 3 and how not in ("x 100", "logits"):
                        blind = blind_test(*known, batch)
                    counts.setdefault((size, how), []).append((noted, best, blind))
    rows = []
    for (size, how), found in counts.items():
        noted, *others = zip(*found, strict=True)
        best, blind = ("" if x[0] is None else sum(x) for x in others)
        rows.append({"population": name, "fitted": n_fit if not is_real else "", "batch": size,
                     "scores": how, "batches": len(noted), "warned": sum(noted),
                     "best_possible": best, "best_blind": blind})  # fmt: skip
        print(*rows[-1].values(), flush=True)
    return rows


def main():
    """Measure all populations and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [(name, n) for name in CONFIG["simulated"] for n in CONFIG["fitted"]]
    names += [(name, 0) for name in CONFIG["real"]]
    names += [
        (name, 300) for name in POPULATIONS if name != "classifier"
    ]  # it starts from features
    rows = []
    for name, n_fit in names:
        if not args.only or name in args.only:
            rows += measure(name, n_fit, args.cache, np.random.default_rng(CONFIG["seed"]))
    with open(HERE / "at_use.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
