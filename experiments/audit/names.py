"""Names of real sequences: audits beside labelled samples, with prevalences as at the fit or not.

    HIERLPR_DATA=... python experiments/audit/names.py [--runs N] [--sets its 16s]

The model learns the names of the sequences of folds 0 to 4; the population are 2,000 of the other
folds, drawn uniformly or ("distorted") with weights of families that are log-normal with a standard
deviation of 2. At most 10 % of the samples may get a wrong name, with 90 % confidence:

- ``model``: as it learned on folds 0 to 4 (an error of 10 %, without confidence); no checks;
- ``audit``: n samples are checked, drawn as planned;
- ``clopper-pearson``: n samples drawn uniformly are checked, and levels tested in turn;
- ``calibrate_sets``: n samples drawn uniformly are labelled.

``ranks`` and ``genera`` are audits of calls with a precision of 90 %: at every rank, and with whole
genera as the units that are drawn and checked. Columns: correct ranks per sample, share of samples
with a wrong name (of calls that are wrong, the worst rank's for ``ranks``), and the number of runs
in which it exceeds 10 %. Results: names.csv.
"""

import argparse
import csv
import gzip
import os
import tempfile
import tomllib
import warnings
from pathlib import Path

import numpy as np
from scipy.special import betaincinv

from hierlpr.assignment import learn_names
from hierlpr.audit import start_audit
from hierlpr.cutoff.set_values import likely_paths
from hierlpr.data.tables import Table
from hierlpr.exceptions import HierlprError
from hierlpr.io.predictions import read_predictions
from hierlpr.io.true_names import read_true_names
from hierlpr.model.new_names import match_names

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("HIERLPR_DATA", HERE.parents[1] / ".." / "shared" / "data"))
COLUMNS = ["set", "population", "method", "checks", "runs"]
COLUMNS += ["ranks", "ranks_se", "wrong", "exceeded"]
ERROR = DELTA = 0.1
OTHER = {"its": "16s", "16s": "its"}
FAMILY, GENUS, SPREAD, SIZE = 5, 6, 2.0, 2000


def sequences(name):
    """Return the lines of a set; the first is the header."""
    with gzip.open(DATA / "taxa" / f"{name}.tsv.gz", "rt") as file:
        return file.read().splitlines()


class Population:
    """Sequences that the model has not seen, with block scores and truth."""

    def __init__(self, name):
        header, *lines = sequences(name)
        others = sequences(OTHER[name])[1:]
        fold = np.array([int(line.split("\t")[1]) for line in lines] + [5] * len(others))
        with tempfile.TemporaryDirectory() as folder:
            part, both = Path(folder, "fit.tsv"), Path(folder, "both.tsv")
            part.write_text("\n".join([header, *np.array(lines)[fold[: len(lines)] < 5]]) + "\n")
            learned = learn_names(part, part, truth_column="Truth", error=ERROR).model
            both.write_text("\n".join([header, *others]) + "\n")
            self.is_refused = False
            try:
                match_names(learned, read_predictions(both))
            except HierlprError:
                self.is_refused = True
            lines += others
            both.write_text("\n".join([header, *lines]) + "\n")
            predicted = read_predictions(both)
            rows, truth, _ = read_true_names(both, predicted, column="Truth")
        is_new = fold[rows] >= 5
        self.is_other = rows[is_new] >= len(lines) - len(others)
        matched = match_names(learned, predicted)
        self.model, self.h = matched.model, matched.model.hierarchy_
        is_used = matched.column >= 0
        self.truth = np.zeros((int(is_new.sum()), self.h.n_labels), dtype=bool)
        self.truth[:, matched.column[is_used]] = truth[is_new].toarray()[:, is_used] > 0
        self.scores = matched.scores[rows[is_new]]
        self.score = self.model.block_scores(Table(self.scores, self.h.labels))
        paths = [lines[i].split("\t")[4].split(";") for i in rows[is_new]]
        self.family = np.array([";".join(x[:FAMILY]) for x in paths])
        self.genus = np.unique([";".join(x[:GENUS]) for x in paths], return_inverse=True)[1]
        self.rank = dict(zip(self.h.labels, self.model.rank_names(), strict=True))

    def draw(self, rng, kind):
        """Draw the rows of a population."""
        weight = np.where(self.is_other, 0.0, 1.0)
        if kind == "distorted":
            families, number = np.unique(self.family, return_inverse=True)
            weight *= np.exp(rng.normal(0.0, SPREAD, families.size))[number]
        if kind == "mixed":
            weight[self.is_other] = weight.sum() / self.is_other.sum()
        return rng.choice(weight.size, SIZE, replace=False, p=weight / weight.sum())

    def named(self, at, label):
        """Return correct ranks per sample and the share of wrong names (label -1: none)."""
        correct = wrong = 0
        for i, j in zip(at.tolist(), label.tolist(), strict=True):
            if j >= 0:
                name = self.h.labels[j]
                right = [self.truth[i, self.h.index(x)] for x in (name, *self.h.ancestors(name))]
                correct, wrong = correct + sum(right), wrong + (not all(right))
        return correct / at.size, wrong / at.size

    def answer(self, audit, at, checks):
        """Record the answers to the first checks."""
        frame = audit.to_check(checks)
        right = self.truth[at[frame["sample"].astype(int)], [*map(self.h.index, frame["label"])]]
        return audit.record({**frame, "correct": right.tolist()})

    def audit(self, at, checks, rng):
        """Name samples by an audit."""
        audit = start_audit(self.score[at], self.h, error=ERROR, checks=checks, random_state=rng)
        calls, label = self.answer(audit, at, checks).calls(), np.full(at.size, -1)
        label[calls["sample"].astype(int)] = [*map(self.h.index, calls["label"])]
        return self.named(at, label)

    def ranks(self, at, checks, rng):
        """Certify the calls of every rank."""
        audit = start_audit(
            self.score[at], self.h, precision=1.0 - ERROR, checks=checks, groups=self.rank,
            random_state=rng,
        )  # fmt: skip
        calls = self.answer(audit, at, checks).calls()
        return self.called(at, calls, [self.rank[x] for x in calls["label"]])

    def genera(self, at, checks, rng):
        """Certify calls by checking whole genera."""
        cluster = np.unique(self.genus[at], return_inverse=True)[1]
        audit = start_audit(
            self.score[at], self.h, precision=1.0 - ERROR, checks=checks, clusters=cluster,
            random_state=rng,
        )  # fmt: skip
        calls = self.answer(audit, at, checks).calls()
        return self.called(at, calls, [""] * len(calls))

    def called(self, at, calls, group):
        """Return correct ranks per sample and the largest share of wrong calls of a group."""
        right = self.truth[at[calls["sample"].astype(int)], [*map(self.h.index, calls["label"])]]
        groups = np.array(group)
        wrong = max((float(np.mean(~right[groups == x])) for x in set(group)), default=0.0)
        return right.sum() / at.size, wrong

    def clopper_pearson(self, at, checks, rng):
        """Test levels from strict to loose on samples drawn uniformly; the first failure ends."""
        sample, label, chance = likely_paths(self.score[at], self.h)
        drawn = np.zeros(at.size, dtype=bool)
        drawn[rng.permutation(at.size)[:checks]] = True
        right, best = self.truth[at[sample], label], None
        for level in np.quantile(chance, np.linspace(0.98, 0.0, 50)):
            wrong = np.unique(sample[drawn[sample] & (chance >= level) & ~right]).size
            if betaincinv(wrong + 1, checks - wrong, 1.0 - DELTA) > ERROR:
                break
            best = level
        name = np.full(at.size, -1)
        if best is not None:  # the last assignment, the deepest label, stays
            name[sample[chance >= best]] = label[chance >= best]
        return self.named(at, name)

    def calibrate_sets(self, at, checks, rng):
        """Name samples after calibrating on labelled ones."""
        rows, labels = rng.choice(at, checks, replace=False), self.h.labels
        options = {"error": ERROR, "confidence": 1.0 - DELTA, "one_path": True}
        self.model.calibrate_sets(Table(self.scores[rows], labels), self.truth[rows], **options)
        return self.named(at, self.model.name_samples(Table(self.scores[at], labels))[0])


METHODS = ("audit", "clopper_pearson", "calibrate_sets", "ranks", "genera")


def study(name, config):
    """Yield one row per population, method and number of checks."""
    population, outcomes = Population(name), {}
    labels = population.h.labels
    if population.is_refused:
        yield dict.fromkeys(COLUMNS, "") | {"set": name, "population": "only other", "runs": 0}
    usual = population.model.name_samples(Table(population.scores, labels))[0]
    for kind in ("as at the fit", "distorted", "mixed"):
        for run in range(config["names"]["runs"]):
            rng = np.random.default_rng([config["seed"], run])
            at = population.draw(rng, kind)
            outcomes.setdefault((kind, "model", 0), []).append(population.named(at, usual[at]))
            for checks in config["names"]["checks"]:
                for method in METHODS:
                    result = getattr(population, method)(at, checks, rng)
                    outcomes.setdefault((kind, method, checks), []).append(result)
    for key, values in outcomes.items():
        ranks, wrong = np.array(values).T
        spread = ranks.std(ddof=1) / np.sqrt(ranks.size)
        shares = [x.round(4) for x in (ranks.mean(), spread, wrong.mean())]
        row = [name, *key, ranks.size, *shares, int((wrong > ERROR + 1e-9).sum())]
        yield dict(zip(COLUMNS, row, strict=True))


def main():
    """Run the study and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--sets", nargs="*", default=["its", "16s"])
    options = parser.parse_args()
    config = tomllib.loads((HERE / "config.toml").read_text())
    config["names"]["runs"] = options.runs or config["names"]["runs"]
    warnings.simplefilter("ignore")
    with (HERE / "names.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for name in options.sets:
            for row in study(name, config):
                writer.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
