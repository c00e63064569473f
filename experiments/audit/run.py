"""Count how often an audit certifies a cutoff whose precision is below the target.

    python experiments/audit/run.py [--runs N]

Each run draws one population of `audited.py`, audits it, looks after every answer and stops as
soon as every planned cutoff is certified. It errs if the precision of *any* cutoff that was
certified at any moment is below the target, which is checked against the whole truth. The last
column says whether errors are at most 10 % plus three standard errors. Results: violations.csv.
"""

import argparse
import csv
import math
import sys
import tomllib
from pathlib import Path

import numpy as np

from hierlpr.cutoff.goal import Promise

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from audited import GROUPED, NAMED, POPULATIONS, Audited  # noqa: E402

COLUMNS = [
    "population", "checks", "runs", "certified", "errors", "share", "allowed", "within",
    "recall", "uniform", "control",
]  # fmt: skip


def studies():
    """Yield name, population and options of each kind of audit."""
    yield from ((make.__name__, make, {}) for make in POPULATIONS)
    yield from ((f"{make.__name__}, names", make, {"is_named": True}) for make in NAMED)
    for make in GROUPED:
        yield f"{make.__name__}, groups", make, {"by_column": True}


def study(config, populations=None):
    """Yield one row per population and number of checks."""
    promise = Promise(1.0 - config["precision"], 1.0 - config["confidence"])
    runs = config["violations"]["runs"]
    for name, make, kind in studies() if populations is None else populations:
        for checks in config["violations"]["checks"]:
            rng = np.random.default_rng([config["seed"], checks])
            errors, recall, uniform, control = 0, [], 0, 0
            for _ in range(runs):
                score, truth, cluster = make(rng)
                options = {"is_named": kind.get("is_named", False)}
                if kind.get("by_column"):
                    options["group"] = np.arange(score.shape[1])
                if options["is_named"]:  # the path of each sample: right ranks come first
                    score, truth = np.sort(score, axis=1)[:, ::-1], np.sort(truth)[:, ::-1]
                audited = Audited(score, truth, cluster, promise, checks, rng, **options)
                # Passed tests never fail later, so the last look has those of all looks.
                most = min(checks, audited.n_units)
                reached = audited.reached(most, [most])
                errors += any(precision < config["precision"] - 1e-9 for precision, _ in reached)
                recall.append(reached[-1][1] if reached else 0.0)
                q = audited.plan.probability
                uniform += np.ptp(q) < 1e-12
                control += audited.plan.rho > 0.0
            allowed = 0.1 + 3.0 * math.sqrt(0.09 / runs)
            values = [name, checks, runs, sum(r > 0.0 for r in recall), errors]
            shares = [errors / runs, allowed, "yes" if errors / runs <= allowed else "no"]
            others = [np.mean(recall), uniform / runs, control / runs]
            row = [round(float(x), 4) if isinstance(x, float) else x for x in shares + others]
            yield dict(zip(COLUMNS, values + row, strict=True))


def main():
    """Run the study and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--only", nargs="*", help="names of populations")
    config = tomllib.loads((HERE / "config.toml").read_text())
    config["violations"]["runs"] = parser.parse_args().runs or config["violations"]["runs"]
    with (HERE / "violations.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        chosen = parser.parse_args().only
        kinds = [x for x in studies() if not chosen or x[0] in chosen]
        for row in study(config, kinds):
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
