"""One table of all ratios: what, now, target, physical limit, and that of the last release.

Below it, how CPU time grows with samples and with labels, as exponents.

Run with `make bench`. Each ratio is to a plain NumPy operation in the same run, as machines differ
and are shared. Everything is timed side by side in several rounds, and the median taken.

python benchmarks/table.py --quick    # small sizes, to see that it still runs
python benchmarks/table.py --save     # keep the ratios as those of the last release
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
import pyarrow as pa
import pyarrow.parquet as pq
from lpr_ratios import labels as lpr_labels
from lpr_ratios import sort_columns
from ratios import disease_like_forest, random_tree
from scale import hierlpr, measured
from scale_evaluate import (
    SCHEMA,
    evaluated,
    rank_dense,
    rank_sparse,
    sorted_alone,
    write_pairs,
)
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, consistent_scores, fit_lpr, rank
from hierlpr.data.tables import Table
from hierlpr.io import write_hierarchy, write_scores, write_truth
from hierlpr.joint import fit_joint
from hierlpr.metrics.evaluation import evaluate_ranking

LAST = Path(__file__).parent / "last.csv"
UNIT = "unit"


class Row(NamedTuple):
    what: str
    ratio: float
    target: float | None
    limit: float | None


def timed(task, clock=time.perf_counter):
    gc.collect()
    start = clock()
    task()
    return clock() - start


def ratios_to_unit(tasks, rounds):
    """Median over the rounds of each task's time over that of the task `UNIT`."""
    for task in tasks.values():
        task()  # load or compile, and let the system hand out the memory once
    spent = [{name: timed(task) for name, task in tasks.items()} for _ in range(rounds)]
    return {
        name: float(np.median([times[name] / times[UNIT] for times in spent])) for name in tasks
    }


def ranking(n_instances, rounds):
    """Cost of rank and consistent_scores; the unit is np.argsort of the same values.

    The limit of rank is to read the matrix once and write the order once; that of the scores to
    read and write a matrix once.
    """
    rng = np.random.default_rng(0)
    for name, h in (
        ("110-label forest", disease_like_forest(rng)),
        ("4,000-label tree", random_tree(rng)),
    ):
        lpr = rng.random((max(2, n_instances // h.n_labels), h.n_labels))
        tied = np.floor(50 * lpr) / 50
        order, matrix = np.empty(lpr.size, np.int32), np.empty_like(lpr)
        found = ratios_to_unit(
            {
                UNIT: lambda x=lpr: np.argsort(-x.ravel()),
                "read": lambda x=lpr: x.max(),
                "order": lambda x=order: x.fill(1),
                "matrix": lambda x=matrix: x.fill(1.0),
                "rank, 1 thread": lambda x=lpr, h=h: rank(x, h, n_threads=1),
                "rank, 2 threads": lambda x=lpr, h=h: rank(x, h, n_threads=2),
                "rank, 50 different LPRs, 2 threads": lambda x=tied, h=h: rank(x, h, n_threads=2),
                "rank with lpr and score, 2 threads": lambda x=lpr, h=h: (
                    rank(x, h, n_threads=2).score
                ),
                "consistent_scores, 2 threads": lambda x=lpr, h=h: consistent_scores(
                    x, h, n_threads=2
                ),
            },
            rounds,
        )
        limit, both = found["read"] + found["order"], found["read"] + found["matrix"]
        targets = {"rank, 2 threads": (0.30, limit / 2), "rank, 1 thread": (0.60, limit)}
        targets["consistent_scores, 2 threads"] = (0.20, both / 2)
        for what in list(found)[4:]:
            yield Row(f"{what}, {name} (argsort)", found[what], *targets.get(what, (None, None)))


def fitting(n_samples, n_labels, rounds):
    """Cost of fitting; the units are a sort of every column, and fitting the LPRs alone."""
    scores, truth = lpr_labels(n_samples, n_labels)
    found = ratios_to_unit(
        {
            UNIT: lambda: sort_columns(scores),
            "1 thread": lambda: fit_lpr(scores, truth, n_threads=1),
            "2 threads": lambda: fit_lpr(scores, truth, n_threads=2),
        },
        rounds,
    )
    size = f"{n_labels:,} labels x {n_samples:,} samples"
    yield Row(f"fit LPRs, {size}, 1 thread (column sorts)", found["1 thread"], None, 1.0)
    yield Row(f"fit LPRs, {size}, 2 threads (column sorts)", found["2 threads"], 4.0, 0.5)


def joint(n_samples, rounds):
    """Cost of what joint="auto" adds to fitting the LPRs."""
    rng = np.random.default_rng(1)
    h = disease_like_forest(rng)
    held = h.close_upward(rng.random((n_samples, h.n_labels)) < 0.02)
    scores = held * 1.5 + rng.normal(size=held.shape)
    found = ratios_to_unit(
        {
            UNIT: lambda: fit_lpr(scores, held, n_threads=1),
            "auto": lambda: (
                fit_lpr(scores, held, n_threads=1), fit_joint(scores, held, h, n_threads=1)
            ),
        },
        rounds,
    )  # fmt: skip
    yield Row(
        f'fit with joint="auto", 110 labels x {n_samples:,} (LPR fit)', found["auto"], 3.0, 1.0
    )


def one_sample(rounds):
    """Milliseconds of one call for one sample after another, which are times, not ratios."""
    rng = np.random.default_rng(2)
    for h, target in ((disease_like_forest(rng), 0.3), (random_tree(rng), 1.0)):
        truth = h.close_upward(rng.random((200, h.n_labels)) < 3 / h.n_labels)
        scores = truth + rng.normal(size=truth.shape)
        model = HierLPR(h, joint=True).fit(scores, truth)
        model.call_lists(scores[:1])  # compile or load the kernels first
        tasks = {"predict": model.predict, "call_lists": model.call_lists}
        for what, task in {**tasks, "transform": model.transform}.items():
            # Not one and the same sample, nor a collection in between: as a service is called.
            gc.collect()
            spent = []
            for _ in range(rounds):
                for i in range(len(scores)):
                    start = time.perf_counter()
                    task(scores[i : i + 1])
                    spent.append(time.perf_counter() - start)
            took = 1e3 * float(np.median(spent))
            yield Row(f"{what} of one sample, {h.n_labels:,} labels (ms)", took, target, None)


def starting(n_samples):
    """CPU seconds of the first `hierlpr fit` and `rank`, which compile kernels, and of the next."""
    rng = np.random.default_rng(4)
    edges = {(f"L{p}", f"L{i}") for i in range(5, 110) for p in rng.integers(max(0, i - 30), i, 2)}
    shapes = (
        ("110-label forest", disease_like_forest(rng), 30.0),
        ("110-label DAG", Hierarchy(sorted(edges)), 45.0),
    )
    for name, h, target in shapes:
        held = h.close_upward(rng.random((n_samples, h.n_labels)) < 0.01)
        with tempfile.TemporaryDirectory() as home:
            first, *again = first_runs(Path(home), h, held, rng)
        what = f"fit and rank of files, {name} (CPU s)"
        yield Row(f"first {what}", first, target, None)
        yield Row(f"next {what}", min(again), 2.5, None)


def first_runs(folder, h, held, rng):
    """CPU seconds of fit and rank, three times over; Numba keeps what it compiles in `folder`."""
    names = tuple(f"s{i}" for i in range(len(held)))
    write_hierarchy(folder / "h.csv", h)
    write_scores(folder / "s.csv", Table(held + rng.normal(size=held.shape), h.labels, names))
    write_truth(folder / "t.csv", Table(held.astype(float), h.labels, names))
    kept = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    scores = ("--scores", folder / "s.csv", "--out")
    fit = hierlpr(
        "fit", "--hierarchy", folder / "h.csv", "--truth", folder / "t.csv", *scores,
        folder / "m.hlpr", "--fdr", 0.1, "--confidence", 0.9, "-q")  # fmt: skip
    use = hierlpr("rank", "--model", folder / "m.hlpr", *scores, folder / "r.csv", "-q")
    for _ in range(3):
        yield sum(measured(command, env=kept)["cpu"] for command in (fit, use))


def commands(n_rows, n_labels, n_samples):
    """CPU time of commands on files, with what it takes to start them.

    Evaluating a ranking beside a sort of its rows by DuckDB; reports of few scores a sample in a
    large DAG, and of a score for every label in a tree and in that DAG, in seconds and GB.
    """
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        rank_dense(folder, n_rows)
        found, alone = evaluated(folder, "ranked.parquet", "1GB"), sorted_alone(folder, "1GB")
        what = f"evaluate, {n_rows:,} rows of a file (CPU of DuckDB's sort)"
        yield Row(what, found["cpu"] / alone["cpu"], 1.5, 1.0)
    rng = np.random.default_rng(3)
    parents = [sorted(set(rng.integers(0, i, 2).tolist())) for i in range(1, n_labels)]
    size = f"{n_labels:,} labels x {n_samples:,} samples"
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        edges = [f"L{p},L{i + 1}" for i, above in enumerate(parents) for p in above]
        (folder / "edges.csv").write_text("\n".join(["parent,child", *edges, ""]))
        rank_sparse(folder, str(folder / "edges.csv"), n_samples)
        yield from reported(folder, f"report, {size}", 60.0)
    for shape, most in (("tree", 1), ("DAG", 2)):
        with tempfile.TemporaryDirectory() as home:
            score_all(Path(home), [above[:most] for above in parents], n_samples)
            yield from reported(Path(home), f"report, all scored, {shape}, {size}", 100.0)


def reported(folder, what, target):
    """Seconds of CPU and GB of a report of the files in a folder."""
    files = {x: folder / f"{x}.parquet" for x in ("scores", "truth")}
    found = measured(hierlpr(
        "report", "--model", folder / "model.hlpr", "--scores", files["scores"],
        "--truth", files["truth"], "--out", folder / "page.html", "-q"))  # fmt: skip
    yield Row(f"{what} (CPU s)", found["cpu"], target, None)
    yield Row(f"{what} (GB)", found["peak_mb"] / 1000, 2.0, None)


def score_all(folder, parents, n_samples, n_fit=300):
    """Write a model, wide scores of all labels and their truth as pairs."""
    rng = np.random.default_rng(4)
    edges = [(f"L{p}", f"L{i + 1}") for i, above in enumerate(parents) for p in above]
    h = Hierarchy(edges, labels=[f"L{i}" for i in range(len(parents) + 1)])

    def drawn(n):
        row, column = np.repeat(np.arange(n), 4), rng.integers(0, h.n_labels, 4 * n)
        seeds = sparse.csr_array((np.ones(4 * n, bool), (row, column)), (n, h.n_labels))
        held = sparse.csr_array(h.close_upward(seeds))
        return rng.normal(size=held.shape) + 2.5 * held.toarray(), held

    model = HierLPR(h).fit(*drawn(n_fit))
    model.calibrate(*drawn(n_fit), precision=0.8)
    model.save(folder / "model.hlpr")
    scores, held = drawn(n_samples)
    names = [f"P{i:05d}" for i in range(n_samples)]
    with pq.ParquetWriter(folder / "truth.parquet", SCHEMA) as writer:
        write_pairs(writer, names, h.labels, held)
    columns = dict(zip(h.labels, np.ascontiguousarray(scores.T), strict=True))
    pq.write_table(pa.table({"sample": names, **columns}), folder / "scores.parquet",
                   use_dictionary=False)  # fmt: skip


def population(n_samples, n_labels):
    """Scores and truth of a forest like the disease hierarchy."""
    rng = np.random.default_rng(n_samples + n_labels)
    h = disease_like_forest(rng, n_labels)
    held = h.close_upward(rng.random((n_samples, n_labels)) < 0.02)
    return held * 1.5 + rng.normal(size=held.shape), held, h


def tasks_of_growth(n_samples, n_labels):
    scores, held, h = population(n_samples, n_labels)
    lpr = 1.0 / (1.0 + np.exp(-scores))
    ranked = rank(lpr, h)
    listed = (ranked.sample, ranked.label, ranked.score)
    return {
        "rank": lambda: rank(lpr, h, n_threads=1),
        "fit": lambda: HierLPR(h, joint=False, n_threads=1).fit(scores, held),
        "joint": lambda: fit_joint(scores, held, h, n_threads=1),
        "evaluate": lambda: evaluate_ranking(*listed, held, h),
    }


def growth(samples, labels, rounds):
    """Exponents of CPU time over a series of samples, and over one of labels."""
    series = {
        "samples": [(n, labels[0]) for n in samples],
        "labels": [(samples[0], k) for k in labels],
    }
    for over, sizes in series.items():
        spent = {}
        for size in sizes:
            for what, task in tasks_of_growth(*size).items():
                task()
                took = min(timed(task, time.process_time) for _ in range(rounds))
                spent.setdefault(what, []).append(took)
        counts = np.log([n * k for n, k in sizes])
        for what, times in spent.items():
            yield what, over, np.polyfit(counts, np.log(times), 1)[0], sizes


def last_ratios():
    if not LAST.exists():
        return {}
    with LAST.open(newline="") as file:
        return {row["what"]: float(row["ratio"]) for row in csv.DictReader(file)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--instances", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    quick, rounds = options.quick, 1 if options.quick else options.rounds
    last = last_ratios()

    def shown(value):
        return "-" if value is None else f"{value:.3f}"

    print(f"{'what (unit)':72}{'now':>8}{'target':>8}{'limit':>8}{'last':>8}")
    found = []
    for rows in (
        ranking(100_000 if quick else options.instances, rounds),
        fitting(*((500, 40) if quick else (5000, 1000)), rounds),
        joint(500 if quick else 5000, rounds),
        one_sample(rounds),
        starting(90 if quick else 900),
        commands(*((20_000, 300, 50) if quick else (2_000_000, 45_000, 2000))),
    ):
        for row in rows:
            found.append(row)
            cells = (row.ratio, row.target, row.limit, last.get(row.what))
            print(f"{row.what:72}" + "".join(f"{shown(cell):>8}" for cell in cells), flush=True)
    print(f"\n{'exponent of CPU time (samples x labels)':56}{'now':>8}{'target':>8}")
    sizes = ([200, 400], [20, 40]) if quick else ([2000, 8000, 32_000], [110, 440, 1760])
    for what, over, exponent, series in growth(*sizes, 1 if quick else 2):
        sizes_said = f"{series[0][0]:,} x {series[0][1]:,} to {series[-1][0]:,} x {series[-1][1]:,}"
        print(f"{what + ' in ' + over + ', ' + sizes_said:56}{exponent:8.2f}{1.1:8.1f}", flush=True)
    if options.save:
        with LAST.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("what", "ratio"))
            writer.writerows((row.what, f"{row.ratio:.3f}") for row in found)


if __name__ == "__main__":
    main()
