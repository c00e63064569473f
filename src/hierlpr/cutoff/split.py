"""Which samples to fit on and which to keep for the cutoff: a seeded split of whole samples."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_level
from hierlpr.data.duplicates import Keys, SampleKeys, copies_note, rounded_keys, text_keys
from hierlpr.data.folds import sample_limit
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

Index = NDArray[np.intp]
# With up to FEW samples (or clusters) a certificate needs half of them, from MANY on a third is
# enough; one curve takes few samples to fit (`experiments/samples`).
FEW, MANY, SHARES = 300, 600, (1 / 2, 1 / 3)
ONE_LABEL_SHARE = 3 / 4


def calibration_share(
    n_samples: int,
    n_clusters: int | None = None,
    promise: Literal["calls", "sets"] = "calls",
    *,
    n_labels: int = 2,
) -> float:
    """Return the share of the samples to keep for the cutoff, by what is promised."""
    if promise == "sets":
        return SHARES[-1]
    if n_labels == 1:
        return ONE_LABEL_SHARE
    n_units = n_samples if n_clusters is None else n_clusters
    return float(np.interp(n_units, (FEW, MANY), SHARES))


def split_for_cutoff(
    table: Table,
    hierarchy: Hierarchy,
    cluster: NDArray[Any] | None,
    *,
    promise: Literal["calls", "sets"] = "calls",
    share: float | None = None,
    rng: Any = 0,
    name: str = "scores",
) -> tuple[Index, Index]:
    """Return the samples to fit on and those to keep; clusters and repeated samples stay whole.

    By default the share is that of `calibration_share`, with at most as many instances as cutoffs
    are learned from.
    """
    n_clusters = None if cluster is None else np.unique(cluster).size
    if share is None:
        n_labels = hierarchy.n_labels
        share = calibration_share(table.n_samples, n_clusters, promise, n_labels=n_labels)
    limit = sample_limit(table.n_samples, hierarchy, table.n_stored)
    unit = repeated_samples(table) if cluster is None else cluster
    return split_samples(table.n_samples, share, rng, unit=unit, limit=limit, name=name)


def split_samples(
    n_samples: int,
    share: float,
    rng: Any,
    *,
    unit: NDArray[Any] | None = None,
    limit: int | None = None,
    name: str = "scores",
) -> tuple[Index, Index]:
    """Keep this share of the samples, at most about `limit`, drawn at random; return it last.

    All samples of a `unit` stay together, and the share is that of the units: a certificate counts
    these, and a share of the samples could consist of one large cluster.
    """
    share = check_level(share, name="calibration_share")
    if unit is None:
        number = np.arange(n_samples)
    else:
        number = np.unique(unit, return_inverse=True)[1].reshape(-1)
    size = np.bincount(number)
    if size.size < 3:
        what = "sample(s)" if unit is None else "different sample(s) or cluster(s)"
        raise DataError(
            f"{name}: {size.size} {what} cannot be split into a part to fit and one for the "
            "cutoff.\n"
            "Hint: give more samples, or other samples for calibration.",
            options=("calibration_scores", "calibration_truth"),
        )
    order = np.random.default_rng(rng).permutation(size.size)
    n_units = round(share * size.size)
    if limit is not None:
        n_units = min(n_units, int(np.searchsorted(np.cumsum(size[order]), limit, side="right")))
    n_units = min(max(n_units, 1), size.size - 2)  # at least two to fit on
    is_kept = np.isin(number, order[:n_units])
    return np.flatnonzero(~is_kept), np.flatnonzero(is_kept)


def repeated_samples(table: Table) -> Keys | None:
    """Return equal keys for samples of one name, or for copies; None if there are no such."""
    names = table.samples
    if names is not None and len(set(names)) < len(names):
        return text_keys(names)
    is_copied = copies_note(SampleKeys.of_rows(table.values))
    return rounded_keys(table.values) if is_copied else None
