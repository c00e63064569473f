"""`hierlpr assign` on new sequences as they come, most of them with names new to the model.

Each run learns from some labelled sequences, with the hierarchy that their predictions imply, and
names 2,000 others from their file. A name is wrong if it is not on the true path; `named` is the
share named to the genus or species, `correct` the share whose genus is correct. The same shares
beside them are those that the command prints when it learns. Means over runs go to new.csv beside
this script, with standard errors of `wrong` and of the difference of both shares named.

    python experiments/taxa/new.py DATA           # the folder with its.tsv.gz and 16s.tsv.gz
    python experiments/taxa/new.py DATA --runs 3 --sets its
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from hierlpr.assignment import LearnOutcome, assign_names, learn_names
from hierlpr.exceptions import HierlprWarning

HERE = Path(__file__).resolve().parent
COLUMNS = ["set", "labelled", "runs", "named", "correct", "wrong", "wrong_se"]
COLUMNS += ["printed_named", "printed_correct", "printed_wrong", "printed_runs", "difference_se"]
GENUS = 6  # names of a path down to the genus


def name_lines(lines: list[str], labelled, new, **options) -> tuple[LearnOutcome, list]:
    """Learn from some lines; return the outcome, and the named and true path of the new lines."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        known, others, model, out = (Path(folder, x) for x in ("a.tsv", "b.tsv", "m", "o.parquet"))
        for path, rows in ((known, labelled), (others, new)):
            path.write_text(lines[0] + "".join(lines[i] for i in rows), encoding="utf-8")
        done = learn_names(known, known, model, truth_column="Truth", **options)
        assign_names(model, others, out)
        table = pq.read_table(out, columns=["path", "Truth"]).to_pylist()
    return done, [
        (row["path"].split(";") if row["path"] else [], row["Truth"].split(";")) for row in table
    ]


def run_once(lines: list[str], n_labelled: int, config: dict, seed: int) -> list[float]:
    """Return the shares of new sequences, and the printed ones (NaN if none are printed)."""
    order = np.random.default_rng([seed, n_labelled]).permutation(len(lines) - 1) + 1
    parts = np.split(order[: n_labelled + config["new"]], [n_labelled])
    done, paths = name_lines(lines, *parts, error=config["new_error"], seed=seed)
    is_named = np.array([len(name) >= GENUS for name, _ in paths])
    is_correct = np.array([name[:GENUS] == true[:GENUS] for name, true in paths])
    is_wrong = np.array([name != true[: len(name)] for name, true in paths])
    shares = [is_named.mean(), (is_named & is_correct).mean(), is_wrong.mean()]
    genus = [row for row in done.ranks if row.rank == "genus"]
    printed = [(row.named, row.named * (row.correct or 0.0), done.wrong) for row in genus]
    return [*shares, *(printed[0] if printed else [np.nan] * 3)]


def main() -> None:
    """Run the study and write new.csv."""
    config = tomllib.loads((HERE / "config.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--sets", nargs="+", default=config["sets"])
    parser.add_argument("--out", type=Path, default=HERE / "new.csv")
    given = parser.parse_args()
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name in given.sets:
            with gzip.open(given.data / f"{name}.tsv.gz", "rt", encoding="utf-8") as packed:
                lines = packed.readlines()
            for n, usual_runs in zip(config["labelled"], config["new_runs"], strict=True):
                n_runs = given.runs or usual_runs
                seeds = range(config["seed"], config["seed"] + n_runs)
                rows = np.array([run_once(lines, n, config, seed) for seed in seeds])
                mean, n_shown = rows[:, :3].mean(axis=0), int(np.sum(~np.isnan(rows[:, 3])))
                se = rows[:, 2].std(ddof=1) / np.sqrt(n_runs)
                printed = np.nanmean(rows[:, 3:], axis=0) if n_shown else [np.nan] * 3
                apart = np.nanstd(rows[:, 3] - rows[:, 0], ddof=1) / np.sqrt(max(n_shown, 1))
                shares = [f"{x:.4f}" for x in (*mean, se, *printed)]
                writer.writerow([name, n, n_runs, *shares, n_shown, f"{apart:.4f}"])
                file.flush()


if __name__ == "__main__":
    main()
