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
from audited import POPULATIONS, Audited  # noqa: E402

COLUMNS = [
    "population", "checks", "runs", "certified", "errors", "share", "allowed", "within",
    "recall", "uniform", "control",
]  # fmt: skip


def study(config, populations=POPULATIONS):
    """Yield one row per population and number of checks."""
    promise = Promise(1.0 - config["precision"], 1.0 - config["confidence"])
    runs = config["violations"]["runs"]
    for make in populations:
        for checks in config["violations"]["checks"]:
            rng = np.random.default_rng([config["seed"], checks])
            errors, recall, uniform, control = 0, [], 0, 0
            for _ in range(runs):
                audited = Audited(*make(rng), promise, checks, rng)
                # Passed tests never fail later, so the last look has those of all looks.
                most = min(checks, audited.plan.order.size)
                passed = audited.passed(most, [most])
                reached = [audited.certified(test) for test in range(passed)]
                errors += any(precision < config["precision"] - 1e-9 for precision, _ in reached)
                recall.append(reached[-1][1] if reached else 0.0)
                q = audited.plan.probability
                uniform += np.ptp(q[q > 0.0]) < 1e-12
                control += audited.plan.rho > 0.0
            allowed = 0.1 + 3.0 * math.sqrt(0.09 / runs)
            values = [make.__name__, checks, runs, sum(r > 0.0 for r in recall), errors]
            shares = [errors / runs, allowed, "yes" if errors / runs <= allowed else "no"]
            others = [np.mean(recall), uniform / runs, control / runs]
            row = [round(float(x), 4) if isinstance(x, float) else x for x in shares + others]
            yield dict(zip(COLUMNS, values + row, strict=True))


def main():
    """Run the study and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int)
    config = tomllib.loads((HERE / "config.toml").read_text())
    config["violations"]["runs"] = parser.parse_args().runs or config["violations"]["runs"]
    with (HERE / "violations.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in study(config):
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
