"""Names that a model has not seen: labels below those of the fit, with the curves labels share.

The labels of a fit are those that its samples list. All other predicted names are new to it, in
calibration samples as in new ones, and are scored in the same way: by the curve of their depth. So,
given the fit, calibration and new samples are exchangeable, and promises cover new names.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hierlpr.data.tables import Table
from hierlpr.exceptions import Note
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.anndata import write_obs
from hierlpr.io.lineages import Predictions
from hierlpr.io.predictions import match_columns, read_predictions, take_columns

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

OTHER_RANK = "other"  # the group of labels without a rank


def assign_anndata(model: Any, data: Any) -> Any:
    """Return a copy of an ``AnnData`` of predictions with the trusted name of each row in obs."""
    check_is_fitted(model)
    predictions = read_predictions(data, **(model.path_style_ or {}).get("reading", {}))
    model, scores, _, _ = match_names(model, predictions)
    table = Table(scores, model.hierarchy_.labels, predictions.samples)
    model.warn_of_difference(table)
    label, chance = model.name_samples(table)
    model.warn_of_no_names()
    return write_obs(data, model.hierarchy_, model.rank_names(), label, chance)


def read_for_model(model: HierLPR, path: Any) -> tuple[Table, tuple[str, ...]]:
    """Read the predictions of a tool as scores of the labels of a model; also return notes.

    Names that are new to the model are left out.
    """
    found = read_predictions(path, **(model.path_style_ or {}).get("reading", {}))
    scores, is_new = take_columns(found, match_columns(found, model.hierarchy_), model.hierarchy_)
    text = f"{is_new.sum():,} of {is_new.size:,} samples have a predicted name that the model "
    note = Note(f"{text}has not seen; it is left out")
    table = Table(scores, model.hierarchy_.labels, found.samples)
    return table, (*found.notes, *([note] if is_new.any() else []))


class MatchedNames(NamedTuple):
    """Predictions in the labels of a model that was extended by their new names.

    `column` is the label of the model for each label of the predictions, -1 if it is not used;
    `is_new` says which samples list a name that the model had not seen.
    """

    model: HierLPR
    scores: sparse.csr_array
    column: NDArray[np.int64]
    is_new: NDArray[np.bool_]


def match_names(model: HierLPR, predictions: Predictions) -> MatchedNames:
    """Match predictions with the labels of a model, to which new names are added.

    Without the mark that `learn_names` leaves, as for a hierarchy given by the user, no name is
    added. Nor is a name of a rank for which nothing was calibrated, where ranks are groups.
    """
    style, h = model.path_style_ or {}, predictions.hierarchy
    column = match_columns(predictions, model.hierarchy_)
    scores, is_new = take_columns(predictions, column, model.hierarchy_)
    if not is_new.any() or not style.get("new_names"):
        return MatchedNames(model, scores, column, is_new)
    groups = None if model.sets_ is not None else model.cutoff_.groups
    labels, ranks = list(model.hierarchy_.labels), {}
    edges = list(model.hierarchy_.edges)
    column = column.copy()
    for i in h.order.tolist():  # parents first
        label, rank = h.labels[i], predictions.ranks[i]
        above = [int(column[h.index(x)]) for x in h.parents(label)]
        is_calibrated = groups is None or (rank or OTHER_RANK) in groups
        if column[i] < 0 and min(above, default=0) >= 0 and is_calibrated:
            if label in model.hierarchy_:  # that of another path
                continue
            column[i], ranks[label] = len(labels), rank
            edges += [(labels[parent], label) for parent in above]
            labels.append(label)
    names = {**model.hierarchy_.names, **{x: h.names[x] for x in ranks if x in h.names}}
    grown = extend(model, Hierarchy(edges, labels=labels, names=names), ranks)
    prefixes = {**predictions.style.get("prefixes", {}), **style.get("prefixes", {})}
    grown.path_style_ = {**(grown.path_style_ or {}), "prefixes": prefixes}
    scores, _ = take_columns(predictions, column, grown.hierarchy_)
    return MatchedNames(grown, scores, column, is_new)


def extend(model: HierLPR, hierarchy: Hierarchy, ranks: dict[str, str]) -> HierLPR:
    """Return a copy of a model of listed scores with the labels of a larger hierarchy.

    Those of the model come first in it. The curve of a new label is the shared one of its depth,
    so it does not depend on other new labels, and the cutoff and the sets still hold.
    """
    n_before, new = model.hierarchy_.n_labels, copy.copy(model)
    assert model.implied_ is not None
    assert hierarchy.labels[:n_before] == model.hierarchy_.labels
    added = hierarchy.labels[n_before:]
    new.set_curves(hierarchy, model.lpr_.with_new(hierarchy.levels[n_before:]))
    summary = model.sample_summary_
    if summary is not None and summary.log_frequency is not None:
        frequency = np.append(summary.log_frequency, np.full(len(added), -np.inf))
        new.sample_summary_ = replace(summary, log_frequency=frequency)
    # Samples of the fit list no new label, so their hashes stay as they are.
    new.keys_ = {
        name: replace(keys, n_labels=hierarchy.n_labels if keys.n_labels == n_before else 0)
        for name, keys in model.keys_.items()
    }
    if model.cutoff_.label_groups is not None:
        groups = (*model.cutoff_.label_groups, *(ranks[x] or OTHER_RANK for x in added))
        new.cutoff_ = replace(model.cutoff_, label_groups=groups)
    if model.path_style_ is not None:
        new.path_style_ = {**model.path_style_, "ranks": {**model.path_style_["ranks"], **ranks}}
    return new
