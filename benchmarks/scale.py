"""Time and peak memory of commands on large files, beside DuckDB's own sort of the same rows.

    make bench-scale                      10^6, 10^7 and 10^8 instances; needs 12 GB of disk
    make bench-scale SIZES="1e6 1e7"      a short series
    python benchmarks/scale.py 2e8 --only sparse --hierarchy go/edges.tsv.gz

Dense data are wide Parquet files of 100 labels that are ranked and evaluated. Sparse data are long
files of 100 scores per sample, a tenth as many rows, on a DAG of 45,000 labels made like the Gene
Ontology, or on a hierarchy file. Each measurement is a process of its own. DuckDB sorts the rows
(sample, label, lpr, score) from Parquet to Parquet with the same memory limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, read_hierarchy
from hierlpr.io import write_hierarchy

K = 100
BATCH = 20_000
PAIRS = pa.schema([("sample", pa.string()), ("label", pa.string())])

SORT = """
import sys, duckdb
rows, out, memory, folder = sys.argv[1:]
c = duckdb.connect(config={"memory_limit": memory, "temp_directory": folder})
c.execute(f"COPY (SELECT * FROM read_parquet('{rows}') ORDER BY score DESC, label, sample) "
          f"TO '{out}' (FORMAT parquet)")
"""

START = """
import os, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
text = child.stdout.read()
_, status, used = os.wait4(child.pid, 0)
print(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss, status)
sys.stdout.flush()
sys.stdout.buffer.write(text)
"""


def measured(command: list[str], **options) -> dict[str, float]:
    """Wall time, CPU time and peak memory of one process.

    A child begins with the peak memory of the process that starts it, so that a small one does.
    """
    starter = [sys.executable, "-S", "-c", START, *command]
    done = subprocess.run(starter, stdout=subprocess.PIPE, check=False, **options)
    numbers, _, text = done.stdout.decode().partition("\n")
    seconds, cpu, peak, code = map(float, numbers.split())
    if code:
        raise SystemExit(f"{command[:6]} failed with {code:.0f}")
    return {"seconds": seconds, "cpu": cpu, "peak_mb": peak / 1000, "text": text}


def hierlpr(*args) -> list[str]:
    return [sys.executable, "-m", "hierlpr", *map(str, args)]


def random_tree(rng, n_labels: int) -> Hierarchy:
    names = [f"L{i}" for i in range(n_labels)]
    edges = [(names[int(rng.integers(0, i))], names[i]) for i in range(1, n_labels)]
    return Hierarchy(edges, labels=names)


def fitted(rng, hierarchy: Hierarchy, path: Path, n: int = 1500) -> HierLPR:
    held = hierarchy.close_upward(rng.random((n, hierarchy.n_labels)) < 2 / hierarchy.n_labels)
    scores = np.clip(rng.normal(0.3, 0.15, held.shape) + 0.3 * held, 0.0, 1.0)
    half = n // 2
    model = HierLPR(hierarchy, lpr="isotonic", joint=False).fit(scores[:half], held[:half])
    model.calibrate(scores[half:], held[half:], maximize="f1")
    model.save(path)
    return model


def make_dense(folder: Path, size: int) -> None:
    """Write wide scores, truth, and the rows of their ranking in the order of the samples."""
    rng = np.random.default_rng(0)
    n_samples = size // K
    h = random_tree(rng, K)
    write_hierarchy(folder / "h.csv", h)
    model = fitted(rng, h, folder / "model.hlpr")
    wide = pa.schema([("sample", pa.string()), *((label, pa.float64()) for label in h.labels)])
    rows = pa.schema([("sample", pa.string()), ("label", pa.string()), ("lpr", pa.float64()),
                      ("score", pa.float64())])  # fmt: skip
    labels = pa.array(h.labels)
    with (
        pq.ParquetWriter(folder / "scores.parquet", wide, use_dictionary=False) as scores_file,
        pq.ParquetWriter(folder / "rows.parquet", rows, use_dictionary=["label"]) as rows_file,
        pq.ParquetWriter(folder / "truth.parquet", PAIRS) as truth_file,
    ):
        for start in range(0, n_samples, BATCH):
            n = min(BATCH, n_samples - start)
            scores = rng.normal(0.35, 0.2, (n, K))
            names = pa.array([f"P{i:09d}" for i in range(start, start + n)])
            columns = np.ascontiguousarray(scores.T)
            scores_file.write_table(pa.table([names, *columns], schema=wide))
            lpr, score = model.transform(scores), model.predict_proba(scores)
            table = [names.take(pa.array(np.repeat(np.arange(n), K))),
                     labels.take(pa.array(np.tile(np.arange(K), n))),
                     lpr.ravel(), score.ravel()]  # fmt: skip
            rows_file.write_table(pa.table(table, schema=rows))
            row, column = np.nonzero(h.close_upward(rng.random((n, K)) < 2 / K))
            pairs = [names.take(pa.array(row)), labels.take(pa.array(column))]
            truth_file.write_table(pa.table(pairs, schema=PAIRS))


def random_dag(rng, n_labels: int, share: float = 0.7) -> Hierarchy:
    """Return one root and `share` extra parents per label, drawn from older labels."""
    names = [f"L{i}" for i in range(n_labels)]
    edges = set()
    for i in range(1, n_labels):
        for _ in range(1 + rng.binomial(1, share)):
            # Squaring favours old labels, so that the depth stays near the Gene Ontology's 15.
            edges.add((names[int(i * rng.random() ** 2)], names[i]))
    return Hierarchy(sorted(edges), labels=names)


def predictions(rng, h: Hierarchy, n: int, each: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """`each` scores per target, mostly of labels near true and false guesses, and the truth."""

    def closures(seeds: int) -> sparse.csr_array:
        column = rng.integers(0, h.n_labels, n * seeds)
        row = np.repeat(np.arange(n), seeds)
        marks = sparse.csr_array((np.ones(row.size, bool), (row, column)), (n, h.n_labels))
        return sparse.csr_array(h.close_upward(marks))

    truth, guessed = closures(4), closures(6)
    column = np.empty((n, each), np.int64)
    for i in range(n):
        near = [m.indices[m.indptr[i] : m.indptr[i + 1]] for m in (truth, guessed)]
        listed = np.unique(np.concatenate([*near, rng.integers(0, h.n_labels, 2 * each)]))
        weight = np.where(np.isin(listed, np.concatenate(near)), rng.random(listed.size), 2.0)
        column[i] = np.sort(listed[np.argsort(weight)[:each]])
    row = np.repeat(np.arange(n), each)
    holds = np.asarray(truth[row, column.ravel()]).ravel()
    score = rng.beta(np.where(holds, 4.0, 1.5), np.where(holds, 2.0, 5.0))
    indptr = np.arange(0, n * each + 1, each)
    return sparse.csr_array((score, column.ravel(), indptr), (n, h.n_labels)), truth


def make_sparse(folder: Path, n_targets: int, h: Hierarchy, each: int = 100) -> None:
    """Write long scores of a few predictions per target in a large hierarchy, and a model."""
    rng = np.random.default_rng(0)
    model = HierLPR(h).fit(*predictions(rng, h, 4000, each))
    model.calibrate(*predictions(rng, h, 2000, each), fdr=0.1)
    model.save(folder / "model.hlpr")
    schema = pa.schema([("sample", pa.string()), ("label", pa.string()), ("score", pa.float64())])
    labels = pa.array(h.labels)
    with pq.ParquetWriter(folder / "scores.parquet", schema) as writer:
        for start in range(0, n_targets, 5000):
            n = min(5000, n_targets - start)
            scores, _ = predictions(rng, h, n, each)
            names = pa.array([f"T{i:07d}" for i in range(start, start + n)])
            table = [names.take(pa.array(np.repeat(np.arange(n), each))),
                     labels.take(pa.array(scores.indices)), scores.data]  # fmt: skip
            writer.write_table(pa.table(table, schema=schema))


def sorted_alone(folder: Path, memory: str) -> dict[str, float]:
    """What it costs DuckDB to sort the rows of the dense scores."""
    files = (folder / "rows.parquet", folder / "sorted.parquet", memory, folder / "spill")
    return measured([sys.executable, "-c", SORT, *map(str, files)])


def bench_dense(folder: Path, size: int, memory: str, _: str | None) -> list[dict]:
    make_dense(folder, size)
    scores, truth, out = (folder / f"{x}.parquet" for x in ("scores", "truth", "out"))
    alone = sorted_alone(folder, memory)
    rank = ("rank", "--model", folder / "model.hlpr", "--scores", scores, "--out", out)
    evaluate = ("evaluate", "--hierarchy", folder / "h.csv", "--ranking", out, "--truth", truth)
    rows = []
    for command in (rank, evaluate):
        found = measured(hierlpr(*command, "--memory", memory, "-q"))
        rows.append({
            "kind": f"dense, {command[0]}", "instances": size, **_numbers(found),
            "time_ratio": round(found["seconds"] / alone["seconds"], 3),
            "cpu_ratio": round(found["cpu"] / alone["cpu"], 3)})  # fmt: skip
    return rows


def bench_sparse(folder: Path, size: int, memory: str, hierarchy: str | None) -> list[dict]:
    h = read_hierarchy(hierarchy) if hierarchy else random_dag(np.random.default_rng(0), 45_000)
    make_sparse(folder, max(1, size // 1000), h)
    found = measured(hierlpr(
        "rank", "--model", folder / "model.hlpr", "--scores", folder / "scores.parquet",
        "--out", folder / "out.parquet", "--memory", memory, "--calls-only", "-q"))  # fmt: skip
    return [{"kind": "sparse, rank", "instances": size // 10, "labels": h.n_labels,
             **_numbers(found)}]  # fmt: skip


def _numbers(run: dict) -> dict:
    return {"seconds": round(run["seconds"], 2), "cpu": round(run["cpu"], 2),
            "peak_mb": round(run["peak_mb"])}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=float, default=[1e6, 1e7, 1e8])
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--hierarchy", help="hierarchy file for the sparse data")
    parser.add_argument("--only", choices=["dense", "sparse"])
    args = parser.parse_args()
    for kind, bench in (("dense", bench_dense), ("sparse", bench_sparse)):
        if args.only in (None, kind):
            for size in args.sizes:
                with tempfile.TemporaryDirectory(dir=".") as name:
                    for row in bench(Path(name), int(size), args.memory, args.hierarchy):
                        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
