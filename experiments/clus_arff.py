"""Numeric features, labels and hierarchy of a Clus ARFF file, for the studies on real data."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hierlpr import Hierarchy, read_hierarchy


class ArffData(NamedTuple):
    """Features (NaN where missing) and truth (closed upward) of the labels of `hierarchy`."""

    features: np.ndarray
    truth: np.ndarray
    hierarchy: Hierarchy


def read_arff(path: Path, hierarchy: Hierarchy | None = None) -> ArffData:
    """Read ``.arff.gz``; with a hierarchy, the labels are those of it instead of the header."""
    h = read_hierarchy(path) if hierarchy is None else hierarchy
    with gzip.open(path, "rt") as stream:
        head, data = re.split(r"(?im)^@data\s*$", stream.read(), maxsplit=1)
    kinds = [
        line.split()[2].lower() for line in head.splitlines() if line[:10].lower() == "@attribute"
    ]
    labels = kinds.index("hierarchical")
    numeric = [i for i, kind in enumerate(kinds) if kind in ("numeric", "real")]
    rows = [line.split(",") for line in data.splitlines() if line.strip() and line[0] != "%"]
    features = [[np.nan if row[i] == "?" else float(row[i]) for i in numeric] for row in rows]
    truth = np.zeros((len(rows), h.n_labels), dtype=bool)
    for i, row in enumerate(rows):
        truth[i, [h.index(x) for x in row[labels].split("@") if x != "root"]] = True
    return ArffData(np.array(features), np.asarray(h.close_upward(truth)), h)
