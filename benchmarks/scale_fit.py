"""Time and peak memory of `hierlpr fit` on files, dense and sparse, with a cutoff.

    python benchmarks/scale_fit.py                          10^6, 10^7 and 10^8 instances
    python benchmarks/scale_fit.py 1e8 --only dense
    python benchmarks/scale_fit.py 2e8 --only sparse --hierarchy go/edges.tsv.gz

Dense data are a wide Parquet table of scores of 100 labels and one of truth. Sparse data are long
Parquet tables of 100 scores a sample, a tenth as many rows, on a DAG of 45,000 labels made like
the Gene Ontology, or on a hierarchy file. Each fit is a process of its own, with and without the
joint posterior; `--compare` also fits in memory and checks that the model files are equal.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scale import BATCH, K, hierlpr, measured, predictions, random_dag, random_tree

from hierlpr import Hierarchy, read_hierarchy
from hierlpr.io import write_hierarchy


def make_dense(folder: Path, n_samples: int) -> None:
    """Normal scores that are higher where the label holds."""
    rng = np.random.default_rng(0)
    h = random_tree(rng, K)
    write_hierarchy(folder / "hierarchy.csv", h)
    columns = {"scores": pa.float64(), "truth": pa.int8()}
    schema = {what: pa.schema([("sample", pa.string()), *((x, kind) for x in h.labels)])
              for what, kind in columns.items()}  # fmt: skip
    with (
        pq.ParquetWriter(folder / "scores.parquet", schema["scores"], use_dictionary=False) as one,
        pq.ParquetWriter(folder / "truth.parquet", schema["truth"]) as two,
    ):
        for start in range(0, n_samples, BATCH):
            n = min(BATCH, n_samples - start)
            truth = h.close_upward(rng.random((n, K)) < 2 / K)
            scores = rng.normal(0.35, 0.2, truth.shape) + 0.3 * truth
            names = pa.array([f"P{i:09d}" for i in range(start, start + n)])
            one.write_table(pa.table([names, *scores.T.copy()], schema=schema["scores"]))
            two.write_table(pa.table([names, *truth.T.astype(np.int8)], schema=schema["truth"]))


def make_sparse(folder: Path, n_samples: int, h: Hierarchy, each: int = 100) -> None:
    """Long scores of a few predictions a sample, and the truth."""
    rng = np.random.default_rng(0)
    write_hierarchy(folder / "hierarchy.csv", h)
    labels = pa.array(h.labels)
    pair = [("sample", pa.string()), ("label", pa.string())]
    schema = pa.schema([*pair, ("score", pa.float64())])
    with (
        pq.ParquetWriter(folder / "scores.parquet", schema) as one,
        pq.ParquetWriter(folder / "truth.parquet", pa.schema(pair)) as two,
    ):
        for start in range(0, n_samples, 5000):
            n = min(5000, n_samples - start)
            scores, truth = predictions(rng, h, n, each)
            names = pa.array([f"T{i:08d}" for i in range(start, start + n)])
            columns = [
                [names.take(pa.array(np.repeat(np.arange(n), np.diff(part.indptr)))),
                 labels.take(pa.array(part.indices))]
                for part in (scores, truth)
            ]  # fmt: skip
            one.write_table(pa.table([*columns[0], scores.data], schema=schema))
            two.write_table(pa.table(columns[1], schema=pa.schema(pair)))


def bench(folder: Path, kind: str, size: int, memory: str, compare: bool) -> None:
    for joint in ([], ["--no-joint"]):
        args = ["fit", "--hierarchy", folder / "hierarchy.csv", "--scores",
                folder / "scores.parquet", "--truth", folder / "truth.parquet", "--max-f", "-q",
                *joint]  # fmt: skip
        run = measured(hierlpr(*args, "--out", folder / "parts.hlpr", "--memory", memory,
                               "--work", folder / "work"))  # fmt: skip
        row = {"kind": kind, "size": size, "joint": "never" if joint else "auto",
               "seconds": round(run["seconds"], 1), "cpu": round(run["cpu"], 1),
               "peak_mb": round(run["peak_mb"])}  # fmt: skip
        if compare:
            whole = measured(hierlpr(*args, "--out", folder / "whole.hlpr", "--memory", "900GB"))
            equal = filecmp.cmp(folder / "parts.hlpr", folder / "whole.hlpr", shallow=False)
            row |= {"memory_cpu": round(whole["cpu"], 1), "memory_peak_mb": round(whole["peak_mb"]),
                    "equal": equal}  # fmt: skip
        print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=float, default=[1e6, 1e7, 1e8])
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--hierarchy", help="hierarchy file for the sparse data")
    parser.add_argument("--only", choices=["dense", "sparse"])
    parser.add_argument("--compare", action="store_true", help="with the path in memory")
    args = parser.parse_args()
    for kind in ("dense", "sparse") if args.only is None else (args.only,):
        for size in map(int, args.sizes):
            with tempfile.TemporaryDirectory(dir=".") as name:
                folder = Path(name)
                if kind == "dense":
                    make_dense(folder, size // K)
                else:
                    h = (read_hierarchy(args.hierarchy) if args.hierarchy
                         else random_dag(np.random.default_rng(0), 45_000))  # fmt: skip
                    make_sparse(folder, size // 1000, h)
                bench(folder, kind, size if kind == "dense" else size // 10, args.memory,
                      args.compare)  # fmt: skip


if __name__ == "__main__":
    main()
