"""Measure the default, `HierarchicalClassifier(hierarchy=h)`, on real data.

One recipe for all sets, chosen on training and validation parts alone; the test part is used once
per seed. Rows go to default.csv beside this script: AU(PRC) of each member, of their average before
and after the map of all labels, and of the final ranking, with the weights, the CPU time and the
peak memory of the fit. `--keep FOLDER` saves the fitted classifiers too.

    python experiments/real/default.py                          # every set, one seed
    python experiments/real/default.py eisen_FUN --seeds 0 1 2 3 4
    python experiments/real/default.py --tables                 # default.csv for the docs

AU(PRC) is average precision pooled over all samples and labels, without the roots of the Gene
Ontology, which C-HMCNN's code leaves out too. The data are looked for in HIERLPR_DATA, or in
../shared/data beside the project.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import sys
import time
import tomllib
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from hierlpr import HierarchicalClassifier, Hierarchy, metrics

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from clus_arff import read_arff  # noqa: E402

DATA = Path(os.environ.get("HIERLPR_DATA", HERE.parents[1] / ".." / "shared" / "data"))
COLUMNS = [
    "set", "seed", "forest", "kernel", "networks", "average", "mapped", "default", "hit_area",
    "violations", "weights", "regularization", "epochs", "cpu_minutes", "peak_mb", "CLUS-ENS",
    "C-HMCNN",
]  # fmt: skip


def load(files: dict[str, Any]) -> tuple[Any, ...]:
    """Return features (with missing values), closed truth and the hierarchy."""
    first = read_arff(DATA / files["train"][0])
    h = first.hierarchy
    parts = [first, *(read_arff(DATA / name, hierarchy=h) for name in files["train"][1:])]
    test = read_arff(DATA / files["test"], hierarchy=h)
    features = [part.features for part in (*parts, test)]
    truths = [h.close_upward(part.truth) for part in (*parts, test)]
    return np.vstack(features[:-1]), np.vstack(truths[:-1]), features[-1], truths[-1], h


def judged(h: Hierarchy, name: str) -> np.ndarray:
    """Return the evaluated labels; C-HMCNN's code leaves out the roots of the Gene Ontology."""
    if not name.endswith("_GO"):
        return np.ones(h.n_labels, dtype=bool)
    return np.array([label not in h.roots for label in h.labels])


def run(name: str, files: dict[str, Any], seed: int, keep: Path | None) -> dict[str, Any]:
    """Fit on the training part and evaluate on the test part."""
    x, y, x_test, y_test, h = load(files)
    started = time.process_time()
    model = HierarchicalClassifier(hierarchy=h, random_state=seed).fit(x, y)
    cpu = (time.process_time() - started) / 60.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        model.save(keep / f"{name}-{seed}.hlpr")
    inner = judged(h, name)

    def au_prc(proba: np.ndarray) -> float:
        return float(metrics.au_prc_score(y_test[:, inner], proba[:, inner]))

    stage = model.estimators_[0]
    encoded = stage.encoder_.transform(x_test)
    row: dict[str, Any] = {"set": name, "seed": seed}
    average = np.zeros(y_test.shape)
    for member, fitted in stage.members_.items():
        of_member = stage.labels_.spread(fitted.proba(encoded))
        row[member] = au_prc(of_member)
        average += stage.weights_[member] * of_member
    proba = model.predict_proba(x_test)
    row["average"] = au_prc(average)
    row["mapped"], row["default"] = au_prc(stage.predict_proba(x_test)), au_prc(proba)
    row["hit_area"] = metrics.normalized_hit_area_score(
        y_test[:, inner].ravel(), proba[:, inner].ravel()
    )
    row["violations"] = len(h.violations(proba))
    row["weights"] = " ".join(f"{k} {w:.2f}" for k, w in stage.weights_.items())
    if "networks" in stage.members_:
        plan = stage.members_["networks"].plan_
        row["regularization"] = f"{plan.dropout} {plan.noise}"
        row["epochs"] = stage.members_["networks"].plan_.epochs
    row["cpu_minutes"], row["peak_mb"] = cpu, peak
    print(model.estimators_[0].describe(), flush=True)
    return row


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the rows of the sets and seeds run now, keep the others."""
    with (DATA / "published_auprc.csv").open() as file:
        published = {row["dataset"]: row for row in csv.DictReader(file)}
    done = {(row["set"], str(row["seed"])) for row in rows}
    if path.exists():
        with path.open() as file:
            rows = [r for r in csv.DictReader(file) if (r["set"], r["seed"]) not in done] + rows
    for row in rows:
        row.update({k: published.get(row["set"], {}).get(k, "") for k in ("CLUS-ENS", "C-HMCNN")})
    rows.sort(key=lambda row: (row["set"], int(row["seed"])))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})


def tables(path: Path) -> str:
    """Print the table of docs/evidence-first-stage.md: accuracy and cost of the default by set."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    members = ("forest", "kernel", "networks", "average")
    heads = ("set", *members, "default", "Clus ensemble", "C-HMCNN", "CPU minutes", "memory")
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        cells = [name]
        for column in members:
            values = [float(row[column]) for row in mine if row[column]]
            cells.append(f"{np.mean(values):.3f}" if len(values) == len(mine) else "-")
        default = np.array([float(row["default"]) for row in mine])
        spread = f" ± {default.std(ddof=1):.4f}" if len(mine) > 1 else ""
        cells += [f"{default.mean():.4f}{spread}", mine[0]["CLUS-ENS"] or "-", mine[0]["C-HMCNN"]]
        cells.append(f"{np.mean([float(row['cpu_minutes']) for row in mine]):.1f}")
        cells.append(f"{np.median([float(row['peak_mb']) for row in mine]):,.0f} MB")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the named sets and seeds."""
    config = tomllib.loads((HERE / "config.toml").read_text())
    sets = {**config["sets"], **config["default_sets"]}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", choices=[*sets, []], default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=HERE / "default.csv")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--tables", action="store_true", help="print the tables and run nothing")
    args = parser.parse_args()
    if args.tables:
        print(tables(args.out))
        return
    if not DATA.is_dir():
        raise SystemExit(f"The data are not at {DATA}; set HIERLPR_DATA.")
    for seed in args.seeds:
        for name in args.sets or sets:
            # A process of its own, so that the peak of memory is that of this run.
            with get_context("spawn").Pool(1) as pool:
                row = pool.apply(run, (name, sets[name], seed, args.keep))
            write(args.out, [row])
            print({k: row[k] for k in ("set", "seed", "mapped", "default")}, flush=True)


if __name__ == "__main__":
    main()
