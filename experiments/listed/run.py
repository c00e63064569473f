"""Compare three treatments of ancestors that a file of listed predictions leaves out.

Five prediction files in the CAFA layout list some labels of every protein, mostly without the root.
Each is used in three ways, cross-validated over samples: unchanged; propagated, so that every
ancestor gets the highest score below it; and unchanged, but with LPR 0 for ancestors that are not
listed.

    python experiments/listed/run.py          # a minute; needs HIERLPR_DATA

Writes ``results.csv`` beside this script: AU(PRC) of the block scores over all instances, and their
calibration error over those that are ranked (labels listed and their ancestors); means over
repetitions, and the standard deviation of the AU(PRC).
"""

from __future__ import annotations

import csv
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hierlpr import HierLPR, consistent_scores, metrics
from hierlpr.baselines.rank_functions import propagate_max_sparse
from hierlpr.data.listed import close_listed
from hierlpr.io import load_hierarchy, pair_samples, read_scores, read_truth

HERE = Path(__file__).parent
DATA = Path(os.environ.get("HIERLPR_DATA", HERE / "../../../shared/data"))
WAYS = ("as it is", "propagated", "implied as 0")


def block_scores(model: HierLPR, scores: sparse.csr_array, way: str) -> sparse.csr_array:
    """Block scores of new samples."""
    if way != "implied as 0":
        return model.predict_proba(scores)
    lpr = model.lpr_.predict(scores)  # of what is listed, and nothing else
    return consistent_scores(lpr, model.hierarchy_)


def measure(scores: sparse.csr_array, truth: np.ndarray, h: Any, way: str, config: Any) -> Any:
    """AU(PRC) and calibration error of every repetition."""
    if way == "propagated":
        scores = propagate_max_sparse(scores, h)
    closed = close_listed(scores, h)
    ranked = np.zeros(truth.shape, bool)
    ranked[np.repeat(np.arange(len(truth)), np.diff(closed.row_ptr)), closed.label] = True
    found = []
    for repetition in range(config["repetitions"]):
        rng = np.random.default_rng(config["seed"] + repetition)
        fold = rng.permutation(len(truth)) % config["folds"]
        score = np.zeros(truth.shape)
        for out in range(config["folds"]):
            model = HierLPR(h).fit(scores[fold != out], truth[fold != out])
            score[fold == out] = block_scores(model, scores[fold == out], way).toarray()
        found.append(
            (metrics.au_prc_score(truth, score),
             metrics.calibration_error(truth[ranked], score[ranked]))
        )  # fmt: skip
    return np.array(found)


def rows(config: Any) -> Iterator[dict[str, Any]]:
    """One row per file and method."""
    loaded = load_hierarchy(DATA / config["hierarchy"])
    h, aliases = loaded.hierarchy, loaded.aliases
    known = read_truth(DATA / config["truth"], h, aliases=aliases)
    for name in config["predictions"]:
        file = DATA / "cafa" / "predictions" / f"{name}.tsv"
        pair = pair_samples(read_scores(file, h, aliases=aliases, lenient=True), known)
        scores, truth = sparse.csr_array(pair.scores.values), pair.truth.values
        held = (truth.toarray() if sparse.issparse(truth) else truth) != 0
        for way in WAYS:
            found = measure(scores, held, h, way, config)
            yield {
                "file": name, "way": way, "listed": scores.nnz,
                "au_prc": f"{found[:, 0].mean():.4f}", "au_prc_sd": f"{found[:, 0].std():.4f}",
                "calibration_error": f"{found[:, 1].mean():.4f}",
            }  # fmt: skip


def main() -> None:
    """Make the table."""
    config = tomllib.loads((HERE / "config.toml").read_text())
    table = list(rows(config))
    with (HERE / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
