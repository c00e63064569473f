"""Time and peak memory of evaluating rankings that `hierlpr rank` wrote, in parts.

    python benchmarks/scale_evaluate.py 1e7 1e8
    python benchmarks/scale_evaluate.py --hierarchy go/edges.tsv.gz --targets 20000

The first makes dense scores (100 labels), ranks them, and evaluates the ranking against a truth
that is a long Parquet file; beside it, DuckDB sorts the same rows. The second does so for 100
predictions a target in a large hierarchy, once for the whole ranking and once for the calls alone.
`--keep DIR` keeps the files and uses those it finds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scale import (
    BATCH,
    SORT,
    K,
    _numbers,
    hierlpr,
    make_dense,
    measured,
    predictions,
    random_tree,
)
from scipy import sparse

from hierlpr import HierLPR, read_hierarchy
from hierlpr.io import write_hierarchy

SCHEMA = pa.schema([("sample", pa.string()), ("label", pa.string())])


def write_pairs(writer, names: list[str], labels: tuple[str, ...], held: sparse.csr_array) -> None:
    row = np.repeat(np.arange(len(names)), np.diff(held.indptr))
    table = [pa.array(names).take(pa.array(row)), pa.array(labels).take(pa.array(held.indices))]
    writer.write_table(pa.table(table, schema=SCHEMA))


def rank_dense(folder: Path, size: int) -> None:
    rng = np.random.default_rng(0)
    h = random_tree(rng, K)  # the hierarchy that make_dense draws
    write_hierarchy(folder / "h.csv", h)
    make_dense(folder, size // K)
    with pq.ParquetWriter(folder / "truth.parquet", SCHEMA) as writer:
        for start in range(0, size // K, BATCH):
            n = min(BATCH, size // K - start)
            held = h.close_upward(rng.random((n, K)) < 2 / K)
            names = [f"P{i:09d}" for i in range(start, start + n)]
            write_pairs(writer, names, h.labels, sparse.csr_array(held))
    rank(folder, "ranked.parquet")
    (folder / "scores.parquet").unlink()


def rank_sparse(folder: Path, hierarchy: str, n_targets: int, each: int = 100) -> None:
    rng = np.random.default_rng(0)
    h = read_hierarchy(hierarchy)
    write_hierarchy(folder / "h.csv", h)
    model = HierLPR(h).fit(*predictions(rng, h, 4000, each))
    model.calibrate(*predictions(rng, h, 2000, each), fdr=0.1)
    model.save(folder / "model.hlpr")
    schema = pa.schema([*SCHEMA, ("score", pa.float64())])
    with (
        pq.ParquetWriter(folder / "scores.parquet", schema) as scores,
        pq.ParquetWriter(folder / "truth.parquet", SCHEMA) as truth,
    ):
        for start in range(0, n_targets, 5000):
            n = min(5000, n_targets - start)
            found, held = predictions(rng, h, n, each)
            names = [f"T{i:07d}" for i in range(start, start + n)]
            write_pairs(truth, names, h.labels, held)
            table = [pa.array(names).take(pa.array(np.repeat(np.arange(n), each))),
                     pa.array(h.labels).take(pa.array(found.indices)), found.data]  # fmt: skip
            scores.write_table(pa.table(table, schema=schema))
    rank(folder, "ranked.parquet")
    rank(folder, "calls.parquet", "--calls-only")


def rank(folder: Path, out: str, *options: str) -> None:
    command = hierlpr("rank", "--model", folder / "model.hlpr", "--scores",
                      folder / "scores.parquet", "--out", folder / out, *options)  # fmt: skip
    subprocess.run(command, check=True)


def evaluated(folder: Path, ranking: str, memory: str) -> dict[str, float]:
    return measured(hierlpr(
        "evaluate", "--hierarchy", folder / "h.csv", "--ranking", folder / ranking, "--truth",
        folder / "truth.parquet", "--memory", memory, "--work", folder / "work", "--json", "-",
        "-q"))  # fmt: skip


def sorted_alone(folder: Path, memory: str) -> dict[str, float]:
    """What it costs DuckDB to sort the rows of the dense scores."""
    files = (folder / "rows.parquet", folder / "sorted.parquet", memory, folder / "spill")
    return measured([sys.executable, "-c", SORT, *map(str, files)])


def evaluate(folder: Path, ranking: str, memory: str, *, beside: bool, **about: object) -> None:
    rows = pq.ParquetFile(folder / ranking).metadata.num_rows
    found = evaluated(folder, ranking, memory)
    measures = json.loads(found["text"])
    row = {**about, "rows": rows, "instances": measures["sizes"]["instances"], **_numbers(found)}
    if beside:
        alone = sorted_alone(folder, memory)
        row |= {"time_ratio": round(found["seconds"] / alone["seconds"], 3),
                "cpu_ratio": round(found["cpu"] / alone["cpu"], 3)}  # fmt: skip
    print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=float)
    parser.add_argument("--hierarchy", help="hierarchy file for sparse predictions")
    parser.add_argument("--targets", type=int, default=20_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--keep", type=Path, help="folder for the files")
    args = parser.parse_args()
    with ExitStack() as stack:
        home = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))
        for size in map(int, args.sizes):
            folder = home / f"dense-{size}"
            if not (folder / "ranked.parquet").exists():
                folder.mkdir(parents=True, exist_ok=True)
                rank_dense(folder, size)
            evaluate(folder, "ranked.parquet", args.memory, beside=True, kind="dense")
        if args.hierarchy:
            folder = home / f"sparse-{args.targets}"
            if not (folder / "calls.parquet").exists():
                folder.mkdir(parents=True, exist_ok=True)
                rank_sparse(folder, args.hierarchy, args.targets)
            for ranking, kind in (("ranked", "sparse, all"), ("calls", "sparse, calls")):
                evaluate(folder, f"{ranking}.parquet", args.memory, beside=False, kind=kind)


if __name__ == "__main__":
    main()
