"""Print one table of speed: what each operation costs, and the target.

Run with `make bench`. Most rows are ratios to a reference in the same run, because machines differ
and are shared; reference and operation alternate for several rounds, and the median is taken.
`time` is wall time, which counts on an idle machine; `cpu` is the CPU time of all threads.

python benchmarks/table.py --quick         # small sizes, to see that it still runs
python benchmarks/table.py --go edges.tsv.gz --save
"""

import argparse
import csv
import gc
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from dag_ratios import ontology_like, read_edges, simulate_lpr
from lpr_ratios import labels as lpr_labels
from lpr_ratios import sort_columns
from scale import hierlpr, make_dense, measured, sorted_alone

from hierlpr import Hierarchy, HierLPR, consistent_scores, fit_lpr, rank
from hierlpr.joint import fit_joint
from hierlpr.metrics.evaluation import evaluate_ranking

LAST = Path(__file__).parent / "last.csv"


class Row(NamedTuple):
    what: str
    time: float
    cpu: float
    target: float | None = None


def disease_like_forest(rng, n_labels=110):
    parents = {}
    for i in range(n_labels):
        root = i == 0 or rng.random() < 0.22
        parents[f"L{i}"] = None if root else f"L{rng.integers(max(0, i - 8), i)}"
    return Hierarchy.from_parents(parents)


def random_tree(rng, n_labels=4000):
    parents = {f"L{i}": f"L{rng.integers(0, i)}" for i in range(1, n_labels)}
    return Hierarchy.from_parents({"L0": None, **parents})


def clocked(task):
    """Wall and CPU seconds of one call."""
    gc.collect()
    start = time.perf_counter(), time.process_time()
    task()
    return np.array([time.perf_counter() - start[0], time.process_time() - start[1]])


def ratios(unit, tasks, rounds):
    """Yield the name of each task, and the median ratios of its times to those of `unit`."""
    for task in (unit, *tasks.values()):
        task()  # compile, and let the system hand out the memory once
    found = {name: [] for name in tasks}
    for _ in range(rounds):
        reference = clocked(unit)
        for name, task in tasks.items():
            found[name].append(clocked(task) / reference)
    for name, pairs in found.items():
        yield name, *np.median(pairs, axis=0).tolist()


def ranking(n_instances, rounds):
    """rank and consistent_scores against np.argsort of the same values."""
    rng = np.random.default_rng(0)
    targets = {"rank, 2 threads": 0.45, "consistent_scores, 2 threads": 0.20}
    for shape, h in (
        ("110-label forest", disease_like_forest(rng)),
        ("4,000-label tree", random_tree(rng)),
    ):
        lpr = rng.random((max(2, n_instances // h.n_labels), h.n_labels))
        tied = np.floor(50 * lpr) / 50
        tasks = {
            "rank, 1 thread": lambda x=lpr, h=h: rank(x, h, n_jobs=1),
            "rank, 2 threads": lambda x=lpr, h=h: rank(x, h, n_jobs=2),
            "rank, 50 distinct LPRs, 2 threads": lambda x=tied, h=h: rank(x, h, n_jobs=2),
            "consistent_scores, 2 threads": lambda x=lpr, h=h: consistent_scores(x, h, n_jobs=2),
        }
        for name, *found in ratios(lambda x=lpr: np.argsort(-x.ravel()), tasks, rounds):
            yield Row(f"{name}, {shape} (argsort)", *found, targets.get(name))


def fitting(n_samples, n_labels, rounds):
    """Fit LPRs against a sort of every column; joint="auto" against fitting LPRs alone."""
    scores, truth = lpr_labels(n_samples, n_labels)
    size = f"{n_labels:,} labels x {n_samples:,} samples"
    tasks = {f"fit LPRs, {size}, 2 threads": lambda: fit_lpr(scores, truth, n_jobs=2)}
    for name, *found in ratios(lambda: sort_columns(scores), tasks, rounds):
        yield Row(f"{name} (column sorts)", *found, 4.0)
    few, held, h = population(n_samples, 110)

    def fit():
        fit_lpr(few, held, n_jobs=1)

    def fit_both():
        fit()
        fit_joint(few, held, h, n_jobs=1)

    tasks = {f'fit with joint="auto", 110 labels x {n_samples:,} samples': fit_both}
    for name, *found in ratios(fit, tasks, rounds):
        yield Row(f"{name} (LPR fits)", *found, 4.0)


def population(n_samples, n_labels):
    """Scores and truth of a forest like the disease hierarchy."""
    rng = np.random.default_rng(n_samples + n_labels)
    h = disease_like_forest(rng, n_labels)
    held = h.close_upward(rng.random((n_samples, n_labels)) < 0.02)
    return held * 1.5 + rng.normal(size=held.shape), held, h


def one_sample(rounds):
    """Milliseconds of calls with one sample, a different one each time."""
    rng = np.random.default_rng(2)
    for h, target in ((disease_like_forest(rng), 0.5), (random_tree(rng), None)):
        truth = h.close_upward(rng.random((200, h.n_labels)) < 3 / h.n_labels)
        scores = truth + rng.normal(size=truth.shape)
        model = HierLPR(h, joint=True).fit(scores, truth)
        for what, task in {"predict": model.predict, "transform": model.transform}.items():
            task(scores[:1])
            spent = []
            for i in range(rounds * len(scores)):
                row = scores[i % len(scores)][None]
                start = time.perf_counter(), time.process_time()
                task(row)
                spent.append((time.perf_counter() - start[0], time.process_time() - start[1]))
            took = 1e3 * np.median(spent, axis=0)
            yield Row(f"{what} of one sample, {h.n_labels:,} labels (ms)", *took, target)


def ontology(path, n_labels, rounds):
    """Milliseconds per sample on a large DAG, every label scored, a fifth of the edges violated."""
    rng = np.random.default_rng(3)
    h = Hierarchy(read_edges(path)) if path else ontology_like(n_labels, rng)
    lpr = np.stack([simulate_lpr(h, rng, 0.2) for _ in range(4)])
    rank(lpr, h, n_jobs=1)
    took = 1e3 * np.median([clocked(lambda: rank(lpr, h, n_jobs=1)) for _ in range(rounds)], 0)
    yield Row(f"rank on a DAG of {h.n_labels:,} labels (ms per sample)", *(took / 4), 30.0)


def commands(n_rows):
    """`hierlpr rank` and `evaluate` of files against DuckDB's sort of the same rows."""
    for size in (2000, n_rows):  # the first to compile
        with tempfile.TemporaryDirectory(dir=".") as home:
            folder = Path(home)
            make_dense(folder, size)
            scores, truth, ranked = (folder / f"{x}.parquet" for x in ("scores", "truth", "ranked"))
            alone = sorted_alone(folder, "1GB")
            for what, target, *files in (
                ("rank", 1.5, "--model", folder / "model.hlpr", "--scores", scores, "--out",
                 ranked),
                ("evaluate", 2.0, "--hierarchy", folder / "h.csv", "--ranking", ranked, "--truth",
                 truth),
            ):  # fmt: skip
                found = measured(hierlpr(what, *files, "--memory", "1GB", "-q"))
                if size == n_rows:
                    name = f"{what}, files of {n_rows:,} rows"
                    pair = (found["seconds"] / alone["seconds"], found["cpu"] / alone["cpu"])
                    yield Row(f"{name} (DuckDB's sort)", *pair, target)
                    yield Row(f"{name} (GB)", *2 * (found["peak_mb"] / 1000,), 1.5)


def starting():
    """CPU seconds of `hierlpr demo` where nothing is compiled yet, and after that."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "NUMBA_CACHE_DIR": home}
        for what, target in (("first", None), ("next", None)):
            found = measured(hierlpr("demo", "--out", Path(home) / what), env=env)
            yield Row(f"{what} hierlpr demo (s)", found["seconds"], found["cpu"], target)


def growth(samples, labels):
    """Exponents of CPU time over a series of samples, and over one of labels."""
    for over, sizes in (("samples", [(n, labels[0]) for n in samples]),
                        ("labels", [(samples[0], k) for k in labels])):  # fmt: skip
        spent = {}
        for size in sizes:
            scores, held, h = population(*size)
            lpr = 1.0 / (1.0 + np.exp(-scores))
            ranked = rank(lpr, h)
            listed = (ranked.sample, ranked.label, ranked.score)
            for what, task in {
                "rank": lambda x=lpr, h=h: rank(x, h, n_jobs=1),
                "fit LPRs": lambda s=scores, t=held: fit_lpr(s, t, n_jobs=1),
                "evaluate": lambda r=listed, t=held, h=h: evaluate_ranking(*r, t, h),
            }.items():
                task()
                spent.setdefault(what, []).append(clocked(task))
        counts = np.log([n * k for n, k in sizes])
        for what, times in spent.items():
            slopes = np.polyfit(counts, np.log(times), 1)[0]
            yield Row(f"{what}, growth with {over} (exponent)", *slopes, 1.1)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--go", help="edges of the Gene Ontology, gzipped TSV with a header")
    parser.add_argument("--save", action="store_true", help="keep the table as last.csv")
    parser.add_argument("--instances", type=int, default=20_000_000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    quick, rounds = options.quick, 1 if options.quick else options.rounds
    last = {}
    if LAST.exists():
        with LAST.open(newline="") as file:
            last = {row["what"]: row["cpu"] for row in csv.DictReader(file)}
    print(f"{'what (unit)':72}{'time':>9}{'cpu':>9}{'target':>8}{'last cpu':>10}")
    found = []
    for rows in (
        ranking(100_000 if quick else options.instances, rounds),
        fitting(*((500, 40) if quick else (5000, 1000)), rounds),
        one_sample(rounds),
        ontology(options.go, 500 if quick else 45_000, rounds),
        commands(20_000 if quick else options.rows),
        starting(),
        growth(*(((200, 400), (20, 40)) if quick else ((2000, 8000, 32_000), (110, 440, 1760)))),
    ):
        for row in rows:
            found.append(row)
            target = "-" if row.target is None else f"{row.target:g}"
            cells = f"{row.time:9.3f}{row.cpu:9.3f}{target:>8}{last.get(row.what, '-'):>10}"
            print(f"{row.what:72}{cells}", flush=True)
    if options.save:
        with LAST.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("what", "time", "cpu", "target"))
            for row in found:
                writer.writerow((row.what, f"{row.time:.3f}", f"{row.cpu:.3f}", row.target))


if __name__ == "__main__":
    main()
