"""Samples that belong together (of one patient, donor, camera): their ids, and signs of them.

Rows of one cluster are alike, so they count as one observation, not as many. `cluster_ids`
reads the ids that a user gives. `cluster_note` looks for clusters that nobody mentioned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.checks import is_sparse, quote_names
from hierlpr.data import frames
from hierlpr.data.duplicates import Keys, text_keys
from hierlpr.data.frames import SAMPLE_COLUMN
from hierlpr.data.tables import Table, match_values
from hierlpr.exceptions import DataError

Float = NDArray[np.float64]
Index = NDArray[np.intp]

# Texts of missing values, as ``astype(str)`` writes them.
MISSING = frozenset(("", "nan", "None", "NaT", "<NA>"))

MOST_SAMPLES, MOST_LABELS = 4000, 200  # compared for `cluster_note`
FEWEST_CLUSTERS = 3
N_SHUFFLES = 60
CLEAR = 6.0  # standard deviations of the agreement if samples are shuffled among the clusters
DESIGN_EFFECT = 1.25  # of clusters worth a warning: by how much they inflate a variance
_SEPARATORS = re.compile(r"[^0-9A-Za-z]+")


def cluster_ids(clusters: Any, table: Table, *, name: str = "scores") -> Keys | None:
    """Return a hash of the cluster of each sample.

    Ids of a series, of a mapping and of a frame with a column ``sample`` are matched with the
    samples by name, and may be of more samples than these; other ids are matched by position.
    """
    if clusters is None:
        return None
    samples, backend = frames.row_names(clusters, "clusters")
    frame = frames.as_frame(clusters, "clusters")
    if isinstance(clusters, Mapping):
        samples, clusters = tuple(map(str, clusters)), list(clusters.values())
    elif frame is not None and len(frame.columns) == 2 and SAMPLE_COLUMN in frame.columns:
        samples = tuple(map(str, frame[SAMPLE_COLUMN].to_list()))
        clusters = frame.drop(SAMPLE_COLUMN).to_native()
    ids = [_as_text(x) for x in _as_list(clusters)]
    if len(ids) != table.n_samples and samples is not None and table.samples is not None:
        of = dict(zip(samples, ids, strict=True))
        if len(of) == len(ids):
            samples, ids = table.samples, [of.get(sample, "") for sample in table.samples]
    if len(ids) != table.n_samples:
        raise DataError(f"clusters has {len(ids):,} ids for {table.n_samples:,} samples.")
    if n_missing := ids.count(""):
        place = ids.index("")
        where = f"row {place}" if samples is None else f"sample {samples[place]!r}"
        raise DataError(
            f"clusters: {n_missing:,} of {len(ids):,} ids are missing, the first of {where}."
            "\nHint: give a sample that belongs to no other an id of its own."
        )
    if len(set(ids)) == 1 < len(ids):
        raise DataError(
            f"clusters: all {len(ids):,} samples are of one cluster, so nothing is known of others."
            "\nHint: give one id per patient, donor or station, not one for all."
        )
    keys: Keys = match_values(text_keys(ids), samples, backend, table, name, "clusters")
    return keys


def cluster_numbers(clusters: Any, table: Table, *, name: str = "scores") -> Index | None:
    """Return the clusters of samples as numbers from 0; None if no two samples share one."""
    ids = cluster_ids(clusters, table, name=name)
    return None if ids is None or are_distinct(ids) else np.unique(ids, return_inverse=True)[1]


def are_distinct(ids: Keys) -> bool:
    """Return whether no two samples share a cluster: then clusters change nothing."""
    return np.unique(ids).size == ids.size


def _as_list(clusters: Any) -> list[Any]:
    frame = frames.as_frame(clusters, "clusters", allow_series=True)
    if frame is not None and hasattr(frame, "columns"):
        if len(frame.columns) != 1:
            raise DataError(
                "clusters must have one column, the id of each sample's cluster, and perhaps the "
                f"column 'sample'; got {quote_names(frame.columns)}."
            )
        frame = frame[frame.columns[0]]
    ids = frame.to_list() if frame is not None else np.asarray(clusters, dtype=object)
    if not isinstance(ids, list) and ids.ndim != 1:
        raise DataError(
            f"clusters must be one id per sample (an array, series or mapping); got "
            f"{'the name ' + repr(clusters) if isinstance(clusters, str) else ids.shape}."
        )
    return list(ids)


def _as_text(value: Any) -> str:
    """Return an id as text, empty if it is missing; 7 and 7.0 are the same id."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    return "" if text in MISSING else text


# -- signs of clusters ------------------------------------------------------------------------


def cluster_note(samples: Sequence[str] | None, truth: Any, labels: Iterable[str] = ()) -> str:
    r"""Return how the names of samples suggest clusters, as text; empty if they do not.

    The samples are grouped by the parts of their names (``pt012`` of ``pt012_visit3``). A grouping
    is reported if samples of one group agree in their truth so much more than by chance that
    treating them as independent would understate a variance by a fifth.

    Notes
    -----
    With the centred truth :math:`z_i` of a sample, :math:`T = \sum_g \|\sum_{i \in g} z_i\|^2`
    is compared with its value if the samples are shuffled among the groups. Names that begin with a
    label (``cat_001.jpg``) say what a sample is, not where it comes from, and are passed over.
    """
    if samples is None or len(samples) < 2 * FEWEST_CLUSTERS:
        return ""
    rng = np.random.default_rng(0)
    rows = np.arange(len(samples))
    if rows.size > MOST_SAMPLES:  # neighbours in the file, where samples of one cluster stand
        start = int(rng.integers(rows.size - MOST_SAMPLES + 1))
        rows = rows[start : start + MOST_SAMPLES]
    matrix = truth[rows]
    common = np.argsort(-np.asarray(matrix.sum(axis=0)).ravel(), kind="stable")[:MOST_LABELS]
    matrix = matrix[:, np.sort(common)]
    matrix = matrix.toarray() if is_sparse(matrix) else np.asarray(matrix)
    centred = matrix.astype(np.float64) - matrix.mean(axis=0)
    words = [[part for part in _SEPARATORS.split(label.casefold()) if part] for label in labels]
    # All words of a label, or the last: ``Pichia_003`` is of ``f__Pichiaceae;g__Pichia``.
    label_names = {"_".join(x) for x in words} | {x[-1] for x in words if x and not x[-1].isdigit()}
    best, note = DESIGN_EFFECT, ""
    for group in _groupings([samples[i] for i in rows.tolist()]):
        names, number, count = np.unique(group, return_inverse=True, return_counts=True)
        # Few pairs in a group prove nothing, and one group is no group.
        if not FEWEST_CLUSTERS <= names.size <= 0.8 * rows.size:
            continue
        if 2 * sum(str(x).casefold() in label_names for x in names) > names.size:
            continue
        effect, excess = _design_effect(centred, number.reshape(-1), rng)
        if effect > best and excess > CLEAR:
            best = effect
            example = str(names[int(np.argmax(count))])
            note = (
                f"samples with the same part of their name, such as {example!r} "
                f"({count.max():,} samples), agree in their truth far more than by chance"
            )
    return note


def _groupings(names: list[str]) -> Iterator[NDArray[Any]]:
    """Yield group names of the samples: by the first parts of their names, and by the last."""
    parts = [[part for part in _SEPARATORS.split(name) if part] for name in names]
    longest = max(map(len, parts), default=0)
    for size in range(1, min(longest, 4) + 1):  # whole names too: they may repeat
        yield np.array(["_".join(x[:size]) for x in parts], dtype=object)
    if longest > 1:
        yield np.array([x[-1] if x else "" for x in parts], dtype=object)


def _design_effect(centred: Float, number: Index, rng: np.random.Generator) -> tuple[float, float]:
    """Return by how much a grouping inflates the variance of means, and how clear that is."""
    n_groups = int(number.max()) + 1

    def total(number: Index) -> float:
        ones = np.ones(number.size)
        members = sparse.csr_array((ones, (number, np.arange(number.size))), (n_groups, ones.size))
        return float(np.square(members @ centred).sum())

    expected = np.array([total(rng.permutation(number)) for _ in range(N_SHUFFLES)])
    spread = float(expected.std()) or 1.0
    alone = float(np.square(centred).sum()) or 1.0
    observed = total(number)
    return 1.0 + (observed - expected.mean()) / alone, (observed - expected.mean()) / spread


def identifies_clusters(name: Any, values: Iterable[Any]) -> bool:
    """Return whether a column has the name of a cluster id (``patient_id``) and values like ids.

    Ids repeat, but none of them has most of the rows, as the number of times has that a word
    occurs in a text.
    """
    if not frames.names_cluster(str(name)):
        return False
    count = Counter(map(str, values))
    n_rows = count.total()
    return len(count) <= 0.9 * n_rows and max(count.values(), default=0) <= n_rows / 2
