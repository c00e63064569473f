"""One trusted label per sample: which one, of what rank, and how likely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.instances import holds_at
from hierlpr.cutoff.set_values import likely_paths
from hierlpr.cutoff.sets import deepest_sure, trusted_entries
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import Table
from hierlpr.exceptions import HierlprError
from hierlpr.io.anndata import write_obs
from hierlpr.io.predictions import match_labels, read_predictions
from hierlpr.model.prediction import sets_of
from hierlpr.model.validation import new_scores

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR


def assign(model: HierLPR, scores: Any) -> Any:
    """Return the frame of `HierLPR.assign`, or an AnnData with the names in obs."""
    if hasattr(scores, "obs_names"):
        found = read_predictions(scores, **(model.path_style_ or {}).get("reading", {}))
        values, _, _ = match_labels(found, model.hierarchy_)
        table = Table(values, model.hierarchy_.labels, found.samples)
    else:
        table = new_scores(scores, model.hierarchy_, model.kind_, missing=model.missing)
    label, chance = name_samples(model, table)
    h, ranks = model.hierarchy_, rank_names(model)
    if hasattr(scores, "obs_names"):
        names = [h.name(h.labels[i]) if i >= 0 else "" for i in label]
        named_ranks = [ranks[i] if i >= 0 else "" for i in label]
        return write_obs(scores.copy(), names, named_ranks, chance)
    columns = {
        "sample": np.arange(label.size)
        if table.samples is None
        else np.array(table.samples, object),
        "label": np.array([*h.labels, None], dtype=object)[label],
        "rank": np.array([*ranks, None], dtype=object)[label],
        "chance": np.where(label >= 0, chance, np.nan),
    }
    return new_frame(columns, table.backend)


def name_samples(model: HierLPR, table: Table) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the deepest trusted label of each sample (-1 for none) and its block score.

    Trusted are sure labels if the model has sets, else calls. If samples have one path of labels,
    only the most likely one of those listed counts.
    """
    score, h, rule = model.block_scores(table), model.hierarchy_, model.sets_
    if rule is None and model.cutoff_.kind == "default":
        raise HierlprError(
            "The model does not know which labels can be trusted.\n"
            "Hint: first call calibrate_sets(scores, truth, error=0.1, one_path=True), or "
            "calibrate, with samples not used to fit."
        )
    if rule is not None and not (rule.one_path and table.n_stored is not None):
        label = deepest_sure(sets_of(model, table, rule, score), h)
        row = np.arange(label.size)
        return label, np.where(label >= 0, np.asarray(score[row, label]).ravel(), 0.0)
    paths, n = likely_paths(score, h), table.n_samples
    if rule is not None:
        entry = trusted_entries(paths, n, rule)
    else:
        calls = decide(score, model.cutoff_, h)
        entry = paths.last(holds_at(calls, paths.sample, paths.label), n)
    label, chance = np.append(paths.label, -1), np.append(paths.chance, 0.0)
    return label[entry], chance[entry]


def rank_names(model: HierLPR) -> tuple[str, ...]:
    """Return the rank of each label, such as "genus"; "level 2" if it has no name."""
    known = (model.path_style_ or {}).get("ranks", {})
    named = zip(model.hierarchy_.labels, model.hierarchy_.levels.tolist(), strict=True)
    return tuple(known.get(label) or f"level {level}" for label, level in named)
