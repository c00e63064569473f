"""Count how often certificates for every depth, or for several targets, are below target.

Populations are pools of samples with block scores: the confidences of two taxonomic classifiers
(`taxa`, one path per sequence), and simulated trees and DAGs, some with tied scores and some with
scores that are too high. In each run calibration samples are drawn from a pool, and the precision
of the certified calls is computed on the whole pool. Usage:

    python experiments/guarantee/groups.py [--runs 300] [--only NAME] [--taxa DIR]

writes groups.csv: the share of runs in which some certified group or target is below its target.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hierlpr import Hierarchy, consistent_scores, simulate
from hierlpr.cutoff.choose import cutoff_on
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.goal import goals_of

HERE = Path(__file__).parent
CONFIDENCE = 0.9
TARGETS = (0.8, 0.9, 0.95)
Pool = tuple[Any, Any, Hierarchy]


def taxa(name: str, folder: Path) -> Pool:
    """Read the confidences along each sequence's path as CSR scores, and its true path."""
    with gzip.open(folder / f"{name}.tsv.gz", "rt") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))

    def path(taxon: str) -> list[str]:
        parts = [part for part in taxon.split(";") if part]
        return [";".join(parts[: i + 1]) for i in range(len(parts))]

    called, held = [path(r["Taxon"]) for r in rows], [path(r["Truth"]) for r in rows]
    parents = {p[i]: p[i - 1] if i else None for p in called + held for i in range(len(p))}
    h = Hierarchy.from_parents(parents)

    def matrix(paths: list[list[str]], values: list[list[float]]) -> Any:
        entries = [
            (value, i, h.index(label))
            for i, (labels, own) in enumerate(zip(paths, values, strict=True))
            for label, value in zip(labels, own, strict=False)
        ]
        data, row, column = zip(*entries, strict=True)
        return sparse.csr_array((data, (row, column)), shape=(len(paths), h.n_labels))

    own = [np.minimum.accumulate([float(x) for x in r["Confidence"].split(";")]) for r in rows]
    score = matrix(called, [list(np.maximum(x, 1e-6)) for x in own])
    return score, matrix(held, [[True] * len(p) for p in held]), h


def simulated(kind: str) -> Pool:
    """Draw block scores on a tree or DAG; "ties" are rounded, "high" scores are too high."""
    shape, *changes = kind.split()
    h = (simulate.random_dag if shape == "dag" else simulate.random_tree)(25, rng=3)
    model = simulate.random_model(h, quality="high", root=0.95, conditional=0.75, rng=5)
    drawn = model.draw(10_000, rng=6)
    score = consistent_scores(drawn.lpr_true, h)
    if "high" in changes:
        score = score**0.6
    if "ties" in changes:
        score = np.rint(score * 8) / 8
    return score, drawn.truth, h


def boundary(kind: str, target: float = 0.9) -> Pool:
    """Build a pool in which every group or target is just below its target at the levels in use.

    "boundary groups": a chain of labels; a third of the samples ends at each of three depths, and
    the false calls of different depths fall on different samples. "boundary rising": the parent can
    only be certified at a high level, where its child is just below target, while the child's lower
    levels are above it. "boundary targets": one label whose precision falls from just below .95 to
    just below .9 and .8.
    """
    n = 9000
    rng = np.random.default_rng(11)
    third, jitter = rng.permutation(np.arange(n) // (n // 3)), 0.1 * rng.random(n)

    def stay_below(held: Any, score: Any, share: Any, free: Any) -> None:
        """Set the truth of `free` calls so that precision is just below `share` at every level."""
        hits = 0
        for k, i in enumerate(np.argsort(-score)[: np.count_nonzero(score)], start=1):
            if free[i]:
                held[i] = hits + 1 < share[i] * k
            hits += held[i]
        if hits >= share[i] * k:
            held[np.flatnonzero(held & free)[-1]] = False

    if kind == "boundary targets":
        score = np.array([0.9, 0.6, 0.3])[third] + jitter
        held = np.zeros(n, dtype=bool)
        stay_below(held, score, np.array([0.95, 0.9, 0.8])[third], np.ones(n, dtype=bool))
        return score[:, None], held[:, None], Hierarchy(labels=["A"])
    share = np.full(n, target)
    if kind == "boundary groups":
        score = np.where(third[:, None] >= np.arange(4), 0.5, 0.0)
        score[:, 3] = np.where(third == 2, jitter, 0.0)  # never holds, and makes samples differ
        held = score == 0.5
        for k in range(3):
            stay_below(held[:, k], score[:, k], share, third == k)
        return sparse.csr_array(score), held, Hierarchy([("A", "B"), ("B", "C"), ("C", "D")])
    score = np.array([[0.9, 0.9], [0.5, 0.5], [0.7, 0.0]])[third] + jitter[:, None]
    score[third == 2, 1] = 0.0
    held = np.ones((n, 2), dtype=bool)
    held[third == 2] = False
    stay_below(held[:, 1], np.where(third == 0, score[:, 1], 0.0), share, third == 0)
    return sparse.csr_array(score), held, Hierarchy([("A", "B")])


POPULATIONS = ("taxa 16s", "taxa its", "tree", "tree ties", "tree high", "tree ties high", "dag",
               "dag ties high", "boundary groups", "boundary rising",
               "boundary targets")  # fmt: skip


def short_parts(cutoff: Any, pool: Pool, held: Any, n_held: Any) -> tuple[int, int, int, float]:
    """Count certified parts, those below target on the pool, and all parts; and mean recall."""
    score, _, h = pool
    calls = sparse.csr_array(decide(score, cutoff, h))
    row = np.repeat(np.arange(calls.shape[0]), np.diff(calls.indptr))
    hit = held[row, calls.indices]
    parts = cutoff.groups or {"": cutoff}
    number = {name: g for g, name in enumerate(parts)}
    group = np.array([number[g] for g in cutoff.label_groups or [""] * h.n_labels])
    n = np.bincount(group[calls.indices], minlength=len(parts))
    right = np.bincount(group[calls.indices][hit], minlength=len(parts))
    positives = np.bincount(group, weights=n_held, minlength=len(parts))
    certified = np.array([part.reachable for part in parts.values()])
    short = certified & (right < cutoff.goal.target * n)
    recall = right / np.maximum(positives, 1)
    return int(certified.sum()), int(short.sum()), len(parts), float(recall.mean())


def study(name: str, n_runs: int, folder: Path, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return one row per number of calibration samples and kind of certificate."""
    pool = (
        taxa(name.split()[1], folder) if name.startswith("taxa")
        else boundary(name) if name.startswith("boundary") else simulated(name)
    )  # fmt: skip
    score, truth, h = pool
    held = truth.toarray().astype(bool) if sparse.issparse(truth) else truth
    n_held = held.sum(axis=0)
    rows = []
    for n in sizes:
        cases: list[Any] = [("depth", (t,)) for t in TARGETS[1:]]
        cases += [(None, TARGETS), ("depth", TARGETS)]
        if name.startswith("boundary"):
            cases = [(None, TARGETS)] if "targets" in name else [("depth", (0.9,))]
        for groups, targets in cases:
            wrong, certified, all_parts, recall = 0, 0, 0, []
            for run in range(n_runs):
                rng = np.random.default_rng([7, n, run])
                drawn = np.sort(rng.integers(0, score.shape[0], n))
                goals = goals_of(precision=list(targets), confidence=CONFIDENCE)
                options: Any = {"groups": groups, "unreachable": "nothing"}
                cutoff = cutoff_on(goals, score[drawn], truth[drawn], h, None, **options)
                found = [
                    short_parts(part, pool, held, n_held) for part in cutoff.targets or (cutoff,)
                ]
                wrong += any(short for _, short, _, _ in found)
                certified += sum(c for c, _, _, _ in found)
                all_parts += sum(m for _, _, m, _ in found)
                recall.append(np.mean([r for *_, r in found]))
            limit = 1 - CONFIDENCE + 3 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / n_runs)
            rows.append(
                {"population": name, "samples": n, "groups": groups or "", "runs": n_runs,
                 "targets": " ".join(map(str, targets)), "rate": round(wrong / n_runs, 4),
                 "limit": round(limit, 4), "certified": round(certified / all_parts, 3),
                 "recall": round(float(np.mean(recall)), 3)}
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run the study and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--only", nargs="*", default=POPULATIONS)
    parser.add_argument("--out", type=Path, default=HERE / "groups.csv")
    parser.add_argument("--sizes", type=int, nargs="*", default=[300, 1500])
    parser.add_argument(
        "--taxa", type=Path, default=Path(os.environ.get("HIERLPR_DATA", "data")) / "taxa"
    )
    given = parser.parse_args()
    rows = [
        row
        for name in given.only
        for row in study(name, given.runs, given.taxa, tuple(given.sizes))
    ]
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
