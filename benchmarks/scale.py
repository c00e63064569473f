"""Time and peak memory of ranking files, dense and sparse, beside DuckDB's own sort.

    make bench-scale                      10^6, 10^7 and 10^8 instances; needs 12 GB of disk
    make bench-scale SIZES="1e6 1e7"      a short series
    python benchmarks/scale.py 2e8 --only sparse --hierarchy go/edges.tsv.gz

Sparse data are long tables of 100 scores a sample, a tenth as many rows as the dense ones, on a DAG
of 45,000 labels made like the Gene Ontology, or on a hierarchy file.

Each measurement is a process of its own. For dense data the reference is DuckDB alone, in the same
run, sorting the same rows (sample, label, lpr, score) from Parquet to Parquet with the same memory
limit. `--only evaluate` compares `hierlpr evaluate` with cafaeval on the same CAFA
files, the best of three rounds of each, one after the other.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, read_hierarchy

K = 100
BATCH = 20_000

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


def make_dense(folder: Path, n_samples: int) -> None:
    """Wide scores, and the rows of their ranking in the order of the samples."""
    rng = np.random.default_rng(0)
    h = random_tree(rng, K)
    model = fitted(rng, h, folder / "model.hlpr")
    wide = pa.schema([("sample", pa.string()), *((label, pa.float64()) for label in h.labels)])
    rows = pa.schema([("sample", pa.string()), ("label", pa.string()), ("lpr", pa.float64()),
                      ("score", pa.float64())])  # fmt: skip
    labels = pa.array(h.labels)
    with (
        pq.ParquetWriter(folder / "scores.parquet", wide, use_dictionary=False) as scores_file,
        pq.ParquetWriter(folder / "rows.parquet", rows, use_dictionary=["label"]) as rows_file,
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


def random_dag(rng, n_labels: int, share: float = 0.7) -> Hierarchy:
    """Return one root and `share` extra parents a label, drawn from a few hundred older labels."""
    names = [f"L{i}" for i in range(n_labels)]
    edges = set()
    for i in range(1, n_labels):
        for _ in range(1 + rng.binomial(1, share)):
            # Squaring favours old labels, so that the depth stays near the Gene Ontology's 15.
            edges.add((names[int(i * rng.random() ** 2)], names[i]))
    return Hierarchy(sorted(edges), labels=names)


def predictions(rng, h: Hierarchy, n: int, each: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """`each` scores a target, mostly of labels near true and false guesses, and the truth."""

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
    """Long scores of a few predictions a target, in a large hierarchy, and a model of such."""
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


def bench_dense(sizes: list[float], memory: str) -> list[dict]:
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=".") as name:
            folder = Path(name)
            make_dense(folder, int(size) // K)
            ours = measured(hierlpr(
                "rank", "--model", folder / "model.hlpr", "--scores", folder / "scores.parquet",
                "--out", folder / "out.parquet", "--memory", memory, "-q"))  # fmt: skip
            (folder / "out.parquet").unlink()
            alone = measured([sys.executable, "-c", SORT, str(folder / "rows.parquet"),
                              str(folder / "sorted.parquet"), memory,
                              str(folder / "spill")])  # fmt: skip
        row = {"kind": "dense", "instances": int(size), **_numbers(ours),
               "duckdb_seconds": round(alone["seconds"], 2), "duckdb_cpu": round(alone["cpu"], 2),
               "duckdb_peak_mb": round(alone["peak_mb"]),
               "time_ratio": round(ours["seconds"] / alone["seconds"], 3),
               "cpu_ratio": round(ours["cpu"] / alone["cpu"], 3)}  # fmt: skip
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def bench_sparse(sizes: list[float], memory: str, h: Hierarchy) -> list[dict]:
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=".") as name:
            folder = Path(name)
            make_sparse(folder, max(1, int(size) // 100), h)
            ours = measured(hierlpr(
                "rank", "--model", folder / "model.hlpr", "--scores", folder / "scores.parquet",
                "--out", folder / "out.parquet", "--memory", memory, "--calls-only",
                "--json", "-", "-q"))  # fmt: skip
        done = json.loads(ours["text"])
        row = {"kind": "sparse", "rows": int(size), "labels": h.n_labels,
               "instances_of_all": done["instances"], "calls": done["calls"],
               **_numbers(ours)}  # fmt: skip
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def _numbers(run: dict) -> dict:
    return {"seconds": round(run["seconds"], 2), "cpu": round(run["cpu"], 2),
            "peak_mb": round(run["peak_mb"])}  # fmt: skip


def exponent(found: list[dict], what: str) -> float:
    """Slope of log time against log size, by least squares."""
    key = "instances" if "instances" in found[0] else "rows"
    x = [math.log(row[key]) for row in found]
    y = [math.log(row[what]) for row in found]
    return float(np.polyfit(x, y, 1)[0])


def bench_evaluate(n_terms: int = 5000, n_targets: int = 2000, each: int = 100) -> dict:
    """F-max of the same CAFA files by hierlpr and by cafaeval."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        (folder / "predictions").mkdir()
        make_cafa(rng, folder, n_terms, n_targets, each)
        commands = (
            hierlpr("evaluate", "--hierarchy", folder / "terms.obo", "--ranking",
                    folder / "predictions/p.tsv", "--truth", folder / "truth.tsv", "--json", "-",
                    "-q"),
            [str(Path(sys.executable).with_name("cafaeval")), str(folder / "terms.obo"),
             str(folder / "predictions"), str(folder / "truth.tsv"), "-out_dir",
             str(folder / "cafa")],
        )  # fmt: skip
        # Installed packages have their bytecode ready; the first round makes it so here.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env.setdefault("PYTHONPYCACHEPREFIX", str(folder / "bytecode"))
        rounds = [[measured(command, env=env) for command in commands] for _ in range(4)]
        ours, theirs = (
            min((r[i] for r in rounds[1:]), key=lambda run: run["seconds"]) for i in range(2)
        )
        best = (folder / "cafa/evaluation_best_f.tsv").read_text().splitlines()
    place = best[0].split("\t").index("f")
    row = {"kind": "evaluate", **_numbers(ours),
           "cafaeval_seconds": round(theirs["seconds"], 2), "cafaeval_cpu": round(theirs["cpu"], 2),
           "cafaeval_peak_mb": round(theirs["peak_mb"]),
           "time_ratio": round(ours["seconds"] / theirs["seconds"], 3),
           "cpu_ratio": round(ours["cpu"] / theirs["cpu"], 3),
           "memory_ratio": round(ours["peak_mb"] / theirs["peak_mb"], 3),
           "f_max": round(json.loads(ours["text"])["ranking"]["F-max, CAFA"], 3),
           "cafaeval_f_max": float(best[1].split("\t")[place])}  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def make_cafa(rng, folder: Path, n_terms: int, n_targets: int, each: int) -> None:
    lines = ["format-version: 1.2", ""]
    for i in range(n_terms):
        lines += ["[Term]", f"id: GO:{i:07d}", f"name: t{i}", "namespace: biological_process"]
        for parent in sorted({int(p) for p in rng.integers(0, i, 2)} if i else ()):
            lines.append(f"is_a: GO:{parent:07d} ! t{parent}")
        lines.append("")
    (folder / "terms.obo").write_text("\n".join(lines))
    truth, predictions = [], []
    for m in range(n_targets):
        held = rng.choice(n_terms, 5, replace=False).tolist()
        truth += [f"T{m:05d}\tGO:{k:07d}" for k in held]
        guessed = dict.fromkeys([*held[:3], *rng.choice(n_terms, each, replace=False).tolist()])
        for k in list(guessed)[:each]:
            score = min(1.0, max(0.001, rng.beta(2, 4) + 0.3 * (k in held)))
            predictions.append(f"T{m:05d}\tGO:{k:07d}\t{score:.3f}")
    (folder / "truth.tsv").write_text("\n".join(truth) + "\n")
    (folder / "predictions/p.tsv").write_text("\n".join(predictions) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=float, default=[1e6, 1e7, 1e8])
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--hierarchy", help="hierarchy file for the sparse data")
    parser.add_argument("--only", choices=["dense", "sparse", "evaluate"])
    args = parser.parse_args()
    for size in args.sizes:
        if not re.fullmatch(r"10*", str(int(size))):
            print(f"note: {size:g} is not a power of ten", file=sys.stderr)
    for kind in ("dense", "sparse"):
        if args.only not in (None, kind):
            continue
        if kind == "dense":
            found = bench_dense(args.sizes, args.memory)
        else:
            h = (read_hierarchy(args.hierarchy) if args.hierarchy
                 else random_dag(np.random.default_rng(0), 45_000))  # fmt: skip
            found = bench_sparse([size / 10 for size in args.sizes], args.memory, h)
        if len(found) > 1:
            print(json.dumps({"kind": kind, "growth_exponent": round(exponent(found, "cpu"), 3)}))
    if args.only in (None, "evaluate"):
        bench_evaluate()


if __name__ == "__main__":
    main()
