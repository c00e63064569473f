"""What a model file holds: a fitted model taken apart into arrays and metadata, and put together.

Reading trusts nothing: every member is checked before it is decoded, every number before it is
used, and no code in the file can run, because none is ever looked for.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.cutoff.sets import SetRule
from hierlpr.data.label_sets import Kind
from hierlpr.data.repeats import SampleKeys
from hierlpr.exceptions import FileError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import USES, JointModel, LabelPrior, Tempering
from hierlpr.lpr import ImpliedLPR, LabelReport, LPRCurves, LPRModel, make_estimator
from hierlpr.lpr.companions import Companions
from hierlpr.lpr.diagnostics import ScoreBins
from hierlpr.lpr.groups import TruthCounts
from hierlpr.model.container import (
    BY_COST,
    CLASSIFIER,
    LISTED,
    Arrays,
    new_meta,
    read_checked,
    telling,
    write_model,
)
from hierlpr.model.core import ScoreModel

_CHOICE = ("use", "loss", "gain", "gain_error", "share")
_WEIGHTS = ("own", "others", "shift")
_KNOTS = ("knot_ptr", "knot_score", "knot_lpr")
_ADDED = ("unknown", "base_rate")  # columns of the report that older files lack
_BINS = ("edge", "total", "positive", "mean_lpr")
_PAIRED = ("other", "count", "mean", "spread")
_PROFILE = tuple(field.name for field in fields(LevelProfile) if field.name != "n_samples")
_SEEN = ("fit", "cutoff", "sets")
_PARAMS = ("lpr", "joint", "close_truth", "missing")
AnyModel = TypeVar("AnyModel", bound=ScoreModel)


def save_model(model: ScoreModel, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path`, whole or not at all. Equal models give equal files."""
    write_model(path, *parts_of(model))


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model that :meth:`HierLPR.save` or :meth:`HierarchicalClassifier.save` wrote.

    Raises
    ------
    FileError
        If the file is not such a model, is damaged or changed, or needs a later version. Nothing
        in a file is ever executed.
    """
    from hierlpr.model.estimator import HierLPR

    with telling(path):
        arrays, meta = read_checked(path)
        if CLASSIFIER in meta.get("needs", []):
            from hierlpr.model.classifier_file import classifier_from

            return classifier_from(arrays, meta)
        return from_parts(arrays, meta, HierLPR)


def load_score_model(path: str | os.PathLike[str]) -> ScoreModel:
    """Read the same as `load_model`, but without scikit-learn around it."""
    with telling(path):
        arrays, meta = read_checked(path)
        if CLASSIFIER in meta.get("needs", []):
            raise FileError(
                "it holds a HierarchicalClassifier, which takes features. In Python, "
                "hierlpr.load_model reads it; its model_ is the model of scores."
            )
        return from_parts(arrays, meta, ScoreModel)


def parts_of(model: ScoreModel) -> tuple[Arrays, dict[str, Any]]:
    """Take a fitted model apart into arrays and metadata."""
    return _arrays_of(model), _meta_of(model)


# -- content -----------------------------------------------------------------------------------


def _arrays_of(model: ScoreModel) -> Arrays:
    h, curves = model.hierarchy_, model.lpr_.curves
    arrays: Arrays = {
        "edge_parent": h.order[np.repeat(np.arange(h.n_labels), np.diff(h.child_ptr))],
        "edge_child": h.order[h.child_idx],
        **{key: getattr(curves, key) for key in _KNOTS},
    }
    for key, column in model.lpr_.report.columns().items():
        if column.dtype.kind != "U":  # texts go to the metadata
            arrays[f"report_{key}"] = column
    joint, implied = model.joint_, model.implied_
    for prefix, part, names in (
        ("seen", model.lpr_.seen, _BINS),
        ("companion", model.lpr_.companions, _PAIRED),
        ("joint", joint and joint.prior, ("prevalence", "conditional")),
        ("joint", joint and joint.tempering, _WEIGHTS),
        ("implied", implied, ("curve_of", "absent")),
        ("implied", implied and implied.curves, _KNOTS),
        ("profile", model.profile_, _PROFILE),
    ):
        if part is not None:
            arrays |= {f"{prefix}_{key}": getattr(part, key) for key in names}
    if model.path_weight_ is not None:
        arrays["path_weight"] = model.path_weight_
    for name in _SEEN:
        keys = getattr(model, f"{name}_keys_")
        for kind, kept in (("key", keys), ("near_key", keys and keys.near)):
            if kept is not None:
                arrays[f"{name}_{kind}"], arrays[f"{name}_{kind}_count"] = kept.key, kept.count
    return arrays


def _meta_of(model: ScoreModel) -> dict[str, Any]:
    columns, joint = model.lpr_.report.columns(), model.joint_
    return {
        **new_meta(needs=_needs_of(model)),
        "labels": list(model.hierarchy_.labels),
        "names": dict(model.hierarchy_.names),
        "has_names": hasattr(model, "feature_names_in_"),
        "has_hierarchy": model.hierarchy is not None,
        "report": {key: c.tolist() for key, c in columns.items() if c.dtype.kind == "U"},
        "kind": model.kind_,
        "implied_shared": -1 if model.implied_ is None else model.implied_.shared,
        "joint": joint and {key: getattr(joint.tempering, key) for key in _CHOICE},
        "profile_samples": None if model.profile_ is None else model.profile_.n_samples,
        "seen": {name: _key_counts(getattr(model, f"{name}_keys_")) for name in _SEEN},
        "cutoff": model.cutoff_.to_dict(),
        "sets": None if model.sets_ is None else model.sets_.to_dict(),
        "params": {
            "lpr": _method_of(model.lpr),
            "joint": model.joint,
            "close_truth": bool(model.close_truth),
            "missing": model.missing,
        },
    }


def _needs_of(model: ScoreModel) -> list[str]:
    """Name what a reader must know so as not to answer something else."""
    needs = [LISTED] if model.kind_ == "listed" else []
    by_cost = model.sets_ is not None and model.sets_.floor < 1.0
    return [*needs, BY_COST] if by_cost else needs


def _method_of(lpr: Any) -> Any:
    """Return an estimator as its name and options, which is all that JSON needs of it."""
    if is_dataclass(lpr) and not isinstance(lpr, type):
        return {"name": getattr(lpr, "name", type(lpr).__name__), "options": asdict(lpr)}
    if isinstance(lpr, list | tuple):
        return [_method_of(one) for one in lpr]
    return lpr


def from_parts(arrays: Arrays, meta: Mapping[str, Any], kind: type[AnyModel]) -> AnyModel:
    """Put a model together again, checking all of it."""
    labels = [str(label) for label in meta["labels"]]
    edges = [
        (labels[p], labels[c])
        for p, c in zip(
            _indices(arrays["edge_parent"], len(labels)),
            _indices(arrays["edge_child"], len(labels)),
            strict=True,
        )
    ]
    # Files from before labels could have names have none.
    hierarchy = Hierarchy(edges, labels=labels, names=meta.get("names", {}))
    curves = _curves(arrays)
    n_labels = hierarchy.n_labels
    if curves.n_labels != n_labels:
        raise FileError(f"{curves.n_labels} curves for {n_labels} labels.")
    params = {name: meta["params"][name] for name in _PARAMS}
    params["lpr"] = _method_from(params["lpr"])
    model = kind(hierarchy if meta["has_hierarchy"] else None, **params)
    report = _report(arrays, meta, n_labels)
    bins, companions = _bins(arrays, n_labels), _companions(arrays, n_labels)
    model.lpr_ = LPRModel(curves, report, bins, companions)
    model.joint_ = _joint(arrays, meta, hierarchy)
    model.path_weight_ = _path_weight(arrays, hierarchy)
    model.kind_, model.implied_ = _kind(arrays, meta, hierarchy.n_labels)
    model.set_labels(hierarchy, has_names=bool(meta["has_names"]))
    model.profile_ = _profile(arrays, meta)
    for name in _SEEN:
        setattr(model, f"{name}_keys_", _sample_keys(name, arrays, meta))
    model.cutoff_ = Cutoff.from_dict(_known_fields(Cutoff, meta["cutoff"]))
    model.sets_ = None if meta.get("sets") is None else SetRule.from_dict(meta["sets"])
    if model.cutoff_.label_groups and len(model.cutoff_.label_groups) != hierarchy.n_labels:
        raise FileError("the cutoff has groups for another number of labels.")
    return model


def _known_fields(kind: type[Cutoff], data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what later versions added; what calls hang on they name under ``needs``."""
    known = {field.name for field in fields(kind)}
    kept = {key: value for key, value in data.items() if key in known}
    if isinstance(kept.get("groups"), dict):
        kept["groups"] = {k: _known_fields(kind, part) for k, part in kept["groups"].items()}
    return kept


def _indices(values: NDArray[Any], n: int) -> list[int]:
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise FileError("edges must be a list of label numbers.")
    if values.size and not (values.min() >= 0 and values.max() < n):
        raise FileError("an edge names a label that does not exist.")
    listed: list[int] = values.tolist()
    return listed


def _report(arrays: Arrays, meta: Mapping[str, Any], n_labels: int) -> LabelReport:
    columns: dict[str, NDArray[Any]] = {}
    known = TruthCounts.of(arrays["report_positives"], arrays["report_negatives"])
    for field in fields(LabelReport):
        if field.name in meta["report"]:
            columns[field.name] = np.array(meta["report"][field.name], dtype=np.str_)
        elif f"report_{field.name}" in arrays or field.name not in _ADDED:
            columns[field.name] = arrays[f"report_{field.name}"]
        else:
            columns[field.name] = getattr(known, field.name)
        if columns[field.name].shape != (n_labels,):
            raise FileError(f"the column {field.name!r} of the label report has a wrong length.")
    return LabelReport(**columns)


def _bins(arrays: Arrays, n_labels: int) -> ScoreBins | None:
    """Read which scores were fitted on; older files do not say."""
    if not all(f"seen_{key}" in arrays for key in _BINS):
        return None
    bins = ScoreBins(*(arrays[f"seen_{key}"].astype(np.float64) for key in _BINS))
    if bins.mean_lpr.size != n_labels:
        raise FileError("the bins of scores are for another number of labels.")
    return bins


def _companions(arrays: Arrays, n_labels: int) -> Companions | None:
    """Read how scores of related labels go together; older files do not say."""
    if not all(f"companion_{key}" in arrays for key in _PAIRED):
        return None
    other = arrays["companion_other"]
    if other.shape != (n_labels,) or other.dtype.kind not in "iu":
        raise FileError("the companions are for another number of labels.")
    rest = (arrays[f"companion_{key}"].astype(np.float64) for key in _PAIRED[1:])
    return Companions(other.astype(np.int64), *rest)


def _curves(arrays: Arrays, prefix: str = "") -> LPRCurves:
    ptr, score, lpr = (arrays[f"{prefix}{key}"] for key in _KNOTS)
    return LPRCurves(
        ptr.astype(np.int64, copy=False),
        score.astype(np.float64, copy=False),
        lpr.astype(np.float64, copy=False),
    )


def _kind(
    arrays: Arrays, meta: Mapping[str, Any], n_labels: int
) -> tuple[Kind | None, ImpliedLPR | None]:
    """Read which kind of scores the model is for; files from before it was noted do not say."""
    kind = meta.get("kind")
    if kind is None:
        warnings.warn(
            "The model file is of a version that did not note whether it was fitted on complete "
            "scores or on listed ones (CSR, or long files that leave pairs out). Use it on the "
            "same kind only, or fit it again.",
            HierlprWarning,
            stacklevel=5,
        )
        return None, None
    if kind == "complete":
        return "complete", None
    if kind != "listed":
        raise FileError(f"it is for an unknown kind of scores, {kind!r}.")
    curve_of = arrays["implied_curve_of"].astype(np.int32)
    if curve_of.shape != (n_labels,):
        raise FileError("the curves of implied labels are for another number of labels.")
    implied = ImpliedLPR(
        curve_of,
        _curves(arrays, "implied_"),
        int(meta["implied_shared"]),
        arrays["implied_absent"].astype(np.float64),
    )
    return "listed", implied


def _joint(arrays: Arrays, meta: Mapping[str, Any], hierarchy: Hierarchy) -> JointModel | None:
    choice = meta["joint"]
    if choice is None:
        return None
    weights = [arrays[f"joint_{key}"].astype(np.float64) for key in _WEIGHTS]
    for weight in weights:
        if weight.shape != (hierarchy.n_labels,) or not np.isfinite(weight).all():
            raise FileError("the weights of the joint posterior are no numbers, one a label.")
    if choice["use"] not in USES:
        raise FileError(f"the joint posterior has an unknown use {choice['use']!r}.")
    loss = {str(use): float(value) for use, value in choice["loss"].items()}
    tempering = Tempering.of(
        np.stack(weights, axis=1), choice["use"], loss, float(choice["gain"]),
        float(choice["gain_error"]), float(choice.get("share", 1.0)),
    )  # fmt: skip
    prior = LabelPrior(arrays["joint_prevalence"], arrays["joint_conditional"])
    return JointModel(hierarchy, prior, tempering)


def _path_weight(arrays: Arrays, hierarchy: Hierarchy) -> NDArray[np.float64] | None:
    """Read the weights of depths; older files have none, and every depth counts in full."""
    if "path_weight" not in arrays:
        return None
    weight = arrays["path_weight"].astype(np.float64)
    n_depths = int(np.max(hierarchy.levels, initial=0))
    if weight.shape != (n_depths,) or not (np.isfinite(weight).all() and (weight >= 0.0).all()):
        raise FileError("the weights of depths are no numbers of 0 or more, one a depth.")
    return weight


def _profile(arrays: Arrays, meta: Mapping[str, Any]) -> LevelProfile | None:
    if meta["profile_samples"] is None:
        return None
    if not all(f"profile_{name}" in arrays for name in _PROFILE):
        return None  # of an older file; without one, calibration samples make the profile
    columns = {name: arrays[f"profile_{name}"] for name in _PROFILE}
    shape = columns["limit"].shape + columns["level"].shape
    if len(shape) != 2 or any(
        column.shape != shape for name, column in columns.items() if name not in ("limit", "level")
    ):
        raise FileError("the profile of the levels has columns of different lengths.")
    return LevelProfile(**columns, n_samples=int(meta["profile_samples"]))


def _key_counts(keys: SampleKeys | None) -> dict[str, int] | None:
    if keys is None:
        return None
    near = {} if keys.near is None else {"near_bits": keys.near.bits}
    return {"bits": keys.bits, "n_samples": keys.n_samples, **near}


def _sample_keys(name: str, arrays: Arrays, meta: Mapping[str, Any]) -> SampleKeys | None:
    about = meta.get("seen", {}).get(name)
    if about is None:
        return None
    n_samples = int(about["n_samples"])
    keys = _kept_keys(f"{name}_key", arrays, int(about["bits"]), n_samples)
    if "near_bits" not in about:  # of a file from before rows were looked for up to rounding
        return keys
    near = _kept_keys(f"{name}_near_key", arrays, int(about["near_bits"]), n_samples)
    return replace(keys, near=near)


def _kept_keys(name: str, arrays: Arrays, bits: int, n_samples: int) -> SampleKeys:
    key, count = arrays[name].astype(np.uint64), arrays[f"{name}_count"].astype(np.uint32)
    if key.ndim != 1 or key.shape != count.shape or not (key[1:] > key[:-1]).all():
        raise FileError(f"the array {name} of samples is no ascending list with its counts.")
    if not 0 <= bits < 64 or not (count > 0).all() or int(count.sum()) > n_samples:
        raise FileError(f"the counts of the array {name} of samples make no sense.")
    return SampleKeys(key, count, bits, n_samples)


def _method_from(method: Any) -> Any:
    if isinstance(method, dict):
        return make_estimator(str(method["name"]), **method["options"])
    if isinstance(method, list):
        return [_method_from(one) for one in method]
    return method
