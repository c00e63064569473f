"""Model files: one ``.npz`` of plain arrays with JSON metadata, a format version and a checksum.

Reading a model of scores runs no code from the file: arrays are read without pickle, and metadata
can only name the dataclasses listed here, which check their fields. A classifier file also holds
the fitted estimators in the format of skops, which refuses types that are not trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from hierlpr._utils import require
from hierlpr._utils.checks import quote_names
from hierlpr._utils.files import atomic_output
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.sets import SetRule
from hierlpr.data.duplicates import SampleKeys
from hierlpr.exceptions import FileError, HierlprError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import USES, JointModel, LabelPrior, Tempering
from hierlpr.lpr import (
    ImpliedLPR,
    LabelReport,
    LPRCurves,
    LPRModel,
    SharedCurves,
    make_estimator,
)
from hierlpr.lpr.comparison import SampleQuantiles
from hierlpr.lpr.diagnostics import ScoreBins
from hierlpr.model.training import set_labels

if TYPE_CHECKING:
    from hierlpr.model.classifier import HierarchicalClassifier
    from hierlpr.model.estimator import HierLPR

FORMAT, VERSION = "hierlpr model", 1
HINT = "Hint: give a file that `hierlpr fit --out` or model.save wrote, or save the model again."
Arrays = dict[str, NDArray[Any]]

# The dataclasses that a file may hold; their fields are numbers, texts, arrays and each other.
CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        LPRModel, LPRCurves, LabelReport, ScoreBins, SharedCurves, ImpliedLPR,
        JointModel, LabelPrior, Tempering, LevelProfile, SampleKeys, SampleQuantiles,
    )
}  # fmt: skip
# What `fit` and `calibrate` learned, besides the labels, the cutoff and the sets.
PARTS: dict[str, Any] = {
    "lpr_": LPRModel,
    "joint_": JointModel,
    "implied_": ImpliedLPR,
    "profile_": LevelProfile,
    "sample_quantiles_": SampleQuantiles,
    **dict.fromkeys(("fit_keys_", "cutoff_keys_", "sets_keys_"), SampleKeys),
}
FITTED = (*PARTS, "path_weight_", "path_style_", "kind_")
PARAMS = ("joint", "close_truth", "missing")


def save_model(model: HierLPR, path: str | os.PathLike[str]) -> None:
    """Write a model of scores; the file is complete or not there. Equal models give equal files."""
    arrays: Arrays = {}
    _write(path, arrays, {"kind": "HierLPR", **_pack_model(model, arrays)})


def save_classifier(classifier: HierarchicalClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier: its model of scores, and its estimators in the format of skops."""
    require("skops", extra="classifiers", what="Saving a HierarchicalClassifier")
    import skops.io

    params = classifier.get_params(deep=False)
    params.pop("hierarchy")
    apart = ("model_", "hierarchy_")  # which are stored as arrays
    fitted = {k: v for k, v in vars(classifier).items() if k.endswith("_") and k not in apart}
    state = {"params": params, "fitted": fitted}
    try:
        data = skops.io.dumps(state)
    except Exception as error:  # skops raises whatever the pickling protocol of a type raises
        raise HierlprError(
            f"The estimators cannot be saved: {error}.\n"
            "Hint: save them in another way, and the model of their scores with "
            "classifier.model_.save(path)."
        ) from error
    arrays = {"skops": np.frombuffer(data, dtype=np.uint8)}
    meta = {"kind": "HierarchicalClassifier", "scikit_learn": sklearn.__version__}
    meta["has_hierarchy_param"] = classifier.hierarchy is not None
    _write(path, arrays, {**_pack_model(classifier.model_, arrays), **meta})


def load_model(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Read a model that :meth:`HierLPR.save` or :meth:`HierarchicalClassifier.save` wrote.

    Parameters
    ----------
    path : path
    trusted : sequence of str
        Types a classifier file may hold besides those of scikit-learn, NumPy, SciPy and
        `hierlpr.first_stage`, such as ``"lightgbm.sklearn.LGBMClassifier"``.

    Raises
    ------
    FileError
        If the file is not such a model, is damaged or changed, or is of another format version.

    Notes
    -----
    Opening a model of scores runs no code from the file. A classifier file is another matter: load
    it only if it comes from someone you trust, as with every saved scikit-learn estimator. Types
    that are not trusted are refused, but forged arrays in trusted types are not all detected.
    """
    from hierlpr.model.estimator import HierLPR

    with _file_errors(path):
        arrays, meta = _read(Path(path))
        model = _unpack_model(arrays, meta, HierLPR)
        if meta["kind"] == "HierLPR":
            return model
        classifier = _unpack_classifier(arrays["skops"], trusted)
        classifier.hierarchy = model.hierarchy_ if meta["has_hierarchy_param"] else None
        classifier.model_, classifier.hierarchy_ = model, model.hierarchy_
    if meta["scikit_learn"].split(".")[:2] != sklearn.__version__.split(".")[:2]:
        warnings.warn(
            f"The classifier was saved with scikit-learn {meta['scikit_learn']}; this is "
            f"{sklearn.__version__}. Check its predictions, or fit it again.",
            HierlprWarning,
            stacklevel=2,
        )
    return classifier


# -- models ------------------------------------------------------------------------------------


def _pack_model(model: HierLPR, arrays: Arrays) -> dict[str, Any]:
    """Return the metadata of a model, and add its arrays to `arrays`."""
    h = model.hierarchy_
    arrays["edge_parent"] = h.order[np.repeat(np.arange(h.n_labels), np.diff(h.child_ptr))]
    arrays["edge_child"] = h.order[h.child_idx]
    lpr = model.lpr
    if is_dataclass(lpr) and not isinstance(lpr, type):
        lpr = {"name": getattr(lpr, "name", type(lpr).__name__), "options": asdict(lpr)}
    return {
        "labels": list(h.labels),
        "names": dict(h.names),
        "has_names": hasattr(model, "feature_names_in_"),
        "has_hierarchy": model.hierarchy is not None,
        "lpr": lpr,
        "params": {name: getattr(model, name) for name in PARAMS},
        "fitted": {name: _pack(getattr(model, name), name, arrays) for name in FITTED},
        "cutoff": model.cutoff_.to_dict(),
        "sets": None if model.sets_ is None else model.sets_.to_dict(),
    }


def _unpack_model(arrays: Arrays, meta: Mapping[str, Any], kind: type[HierLPR]) -> HierLPR:
    labels = [str(label) for label in meta["labels"]]
    label_of = dict(enumerate(labels))  # unlike a list, it refuses negative numbers
    ends = (arrays[name].tolist() for name in ("edge_parent", "edge_child"))
    edges = [(label_of[p], label_of[c]) for p, c in zip(*ends, strict=True)]
    h = Hierarchy(edges, labels=labels, names=meta["names"])
    params = {name: meta["params"][name] for name in PARAMS}
    lpr = meta["lpr"]
    if isinstance(lpr, dict):
        lpr = make_estimator(str(lpr["name"]), **lpr["options"])
    model = kind(h if meta["has_hierarchy"] else None, lpr=lpr, **params)
    set_labels(model, h, has_names=bool(meta["has_names"]))
    for name in FITTED:
        setattr(model, name, _unpack(meta["fitted"][name], arrays, h))
    model.cutoff_ = Cutoff.from_dict(meta["cutoff"])
    model.sets_ = None if meta["sets"] is None else SetRule.from_dict(meta["sets"])
    _check_model(model)
    return model


def _unpack_classifier(stored: NDArray[Any], trusted: Sequence[str]) -> HierarchicalClassifier:
    require("skops", extra="classifiers", what="Reading a HierarchicalClassifier")
    import skops.io

    from hierlpr.model.classifier import HierarchicalClassifier  # imports this module

    data = stored.tobytes()
    unknown = skops.io.get_untrusted_types(data=data)
    is_known = ("sklearn.", "hierlpr.first_stage.")
    refused = sorted(x for x in unknown if not x.startswith(is_known) and x not in trusted)
    if refused:
        raise FileError(
            f"it holds types that are not trusted: {quote_names(refused)}. If you trust the file, "
            "name them in load_model(path, trusted=[...])"
        )
    state = skops.io.loads(data, trusted=unknown)
    classifier = HierarchicalClassifier(**state["params"])
    classifier.__dict__.update(state["fitted"])
    return classifier


def _check_model(model: HierLPR) -> None:
    """Refuse parts that do not fit together: compiled code would read beyond their ends."""
    h, lpr, joint, implied = model.hierarchy_, model.lpr_, model.joint_, model.implied_
    for name, kind in PARTS.items():
        value = getattr(model, name)
        if not isinstance(value, kind) and (name == "lpr_" or value is not None):
            raise FileError(f"{name} is not a {kind.__name__}.")
    style = model.path_style_
    if style is not None and not (isinstance(style, dict) and isinstance(style.get("ranks"), dict)):
        raise FileError("the ranks of its labels are invalid.")
    if model.kind_ not in ("complete", "listed") or (model.kind_ == "listed") == (implied is None):
        raise FileError(f"it is for an unknown kind of scores, {model.kind_!r}.")
    per_label = list(lpr.report.columns().values())
    per_label += [] if lpr.seen is None else [lpr.seen.mean_lpr]
    per_label += [] if implied is None else [implied.absent]
    if model.sample_quantiles_ is not None:
        frequency = model.sample_quantiles_.log_frequency
        if (frequency is None) != (implied is None):
            raise FileError("the quantiles of samples are for another kind of scores.")
        per_label += [] if frequency is None else [frequency]
    if joint is not None:
        weights = [joint.tempering.own, joint.tempering.others, joint.tempering.shift]
        if joint.tempering.use not in USES or not all(np.isfinite(w).all() for w in weights):
            raise FileError("the weights of the joint posterior are invalid.")
        per_label += [joint.prior.prevalence, *weights]
    if lpr.curves.n_labels != h.n_labels or any(x.shape != (h.n_labels,) for x in per_label):
        raise FileError(f"its parts are not all for {h.n_labels:,} labels.")
    depths = model.path_weight_
    n_depths = int(np.max(h.levels, initial=0))
    if depths is not None and (depths.shape != (n_depths,) or not (depths >= 0.0).all()):
        raise FileError("the weights of depths are invalid.")
    if model.profile_ is not None:
        profile = model.profile_
        is_valid = isinstance(profile.n_samples, int)
        is_valid &= isinstance(profile.implied_share, float | None)
        if not is_valid or profile.moments.shape != (5, profile.limit.size, profile.level.size):
            raise FileError("the profile of block scores is invalid.")
    if model.cutoff_.label_groups and len(model.cutoff_.label_groups) != h.n_labels:
        raise FileError("the cutoff has groups for another number of labels.")


# -- values ------------------------------------------------------------------------------------


def _pack(value: Any, name: str, arrays: Arrays) -> Any:
    """Return a value as JSON can hold it; arrays of numbers are put into `arrays` as `name`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return {"texts": value.tolist()}
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Hierarchy):
        return {"hierarchy": True}
    if isinstance(value, dict):
        return {"dict": value}
    names = [field.name for field in fields(value) if not field.name.startswith("_")]
    packed = {x: _pack(getattr(value, x), f"{name}.{x}", arrays) for x in names}
    return {"class": type(value).__name__, "fields": packed}


def _unpack(packed: Any, arrays: Arrays, hierarchy: Hierarchy) -> Any:
    if not isinstance(packed, dict):
        return packed
    if "class" in packed:
        values = {k: _unpack(v, arrays, hierarchy) for k, v in packed["fields"].items()}
        return CLASSES[packed["class"]](**values)
    if "texts" in packed:
        return np.array([str(x) for x in packed["texts"]], dtype=np.str_)
    if "array" in packed:
        return arrays[packed["array"]]
    return hierarchy if "hierarchy" in packed else packed["dict"]


# -- files -------------------------------------------------------------------------------------


def _write(path: str | os.PathLike[str], arrays: Arrays, meta: dict[str, Any]) -> None:
    meta = {"format": FORMAT, "version": VERSION, **meta}
    meta["checksum"] = _checksum(arrays, meta)
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with atomic_output(path) as part, part.open("wb") as file:
        np.savez(file, **{**arrays, "meta": text})  # type: ignore[arg-type]


def _read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the metadata of a complete file of this format version."""
    with zipfile.ZipFile(path) as archive:
        # Only stored members: compressed ones could expand to any size.
        if any(m.compress_type != zipfile.ZIP_STORED for m in archive.infolist()):
            raise FileError("it has compressed members, which model files never have.")
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: np.array(file[name]) for name in file.files}
    meta = json.loads(arrays.pop("meta").tobytes().decode())
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise FileError("it is not a hierlpr model.")
    if meta["version"] != VERSION:
        raise FileError(f"it has format version {meta['version']}; this hierlpr reads {VERSION}.")
    if meta.pop("checksum") != _checksum(arrays, meta):
        raise FileError("its content does not match its checksum: it was changed or damaged.")
    return arrays, meta


def _checksum(arrays: Arrays, meta: Mapping[str, Any]) -> str:
    digest = hashlib.blake2b(json.dumps(meta, sort_keys=True).encode(), digest_size=32)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@contextmanager
def _file_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn any error that a damaged or forged file causes into one that names the file."""
    name = os.fspath(path)
    try:
        yield
    except FileNotFoundError:
        raise FileError(f"{name}: there is no such file.") from None
    except FileError as error:
        raise FileError(f"{name}: {error}\n{HINT}") from None
    except OSError as error:
        raise FileError(f"{name}: it cannot be read ({error.strerror or error}).") from None
    except Exception as error:  # forged content can raise anything
        raise FileError(f"{name} is not a valid model: {error}\n{HINT}") from error
