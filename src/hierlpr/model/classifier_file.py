"""The file of a HierarchicalClassifier: its model of scores, and its first stage as data."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.files import writing
from hierlpr.exceptions import FileError, HierlprWarning
from hierlpr.model.container import CLASSIFIER, META, checksum, new_meta, write_npz
from hierlpr.model.persistence import from_parts, parts_of, read_checked, telling
from hierlpr.model.plain_objects import pack, unpack

if TYPE_CHECKING:
    from hierlpr.model.classifier import HierarchicalClassifier

__all__ = ["load_classifier", "save_classifier"]

_MODEL = "model_"
_FITTED = ("estimators_", "oof_scores_", "held_out_", "n_features_in_", "feature_names_in_")
_GIVEN = ("hierarchy", "rng")  # parameters that are not saved as they are


def save_classifier(classifier: HierarchicalClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to one file, whole or not at all."""
    import sklearn

    arrays: dict[str, NDArray[Any]] = {}
    params = {k: v for k, v in classifier.get_params(deep=False).items() if k not in _GIVEN}
    fitted = {name: getattr(classifier, name) for name in _FITTED if hasattr(classifier, name)}
    meta: dict[str, Any] = {
        **new_meta(needs=[CLASSIFIER]),
        "scikit_learn": sklearn.__version__,
        "rng": classifier.rng if type(classifier.rng) is int else 0,
        "has_hierarchy": classifier.hierarchy is not None,
        "params": pack(params, arrays),
        "fitted": pack(fitted, arrays),
    }
    of_model, meta["model"] = parts_of(classifier.model_)
    arrays |= {_MODEL + name: values for name, values in of_model.items()}
    meta["checksum"] = checksum(arrays, meta)
    arrays[META] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with writing(path) as part, part.open("wb") as file:
        write_npz(file, arrays)


def load_classifier(path: str | os.PathLike[str]) -> HierarchicalClassifier:
    """Read what `save_classifier` wrote; nothing in a file is ever executed."""
    with telling(path):
        arrays, meta = read_checked(path)
        if CLASSIFIER not in meta["needs"]:
            raise FileError("it holds a model of scores; hierlpr.load_model reads it.")
        classifier = _rebuilt(arrays, meta)
    _warn_of_version(str(meta["scikit_learn"]))
    return classifier


def _rebuilt(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> HierarchicalClassifier:
    from hierlpr.model.classifier import HierarchicalClassifier
    from hierlpr.model.estimator import HierLPR

    of_model = {k.removeprefix(_MODEL): v for k, v in arrays.items() if k.startswith(_MODEL)}
    model = from_parts(of_model, meta["model"], HierLPR)
    h = model.hierarchy_ if meta["has_hierarchy"] else None
    params, fitted = (unpack(meta[name], arrays) for name in ("params", "fitted"))
    classifier = HierarchicalClassifier(hierarchy=h, rng=int(meta["rng"]), **params)
    for name, value in fitted.items():
        if name not in _FITTED:
            raise FileError(f"it has an unknown attribute {name!r}.")
        setattr(classifier, name, value)
    made = classifier.estimators_
    if type(made) is not list or not all(one is None or hasattr(one, "fit") for one in made):
        raise FileError("its first stage is no list of classifiers.")
    n_fitted = len(made)
    if n_fitted not in (1, model.hierarchy_.n_labels):
        raise FileError(f"{n_fitted} classifiers for {model.hierarchy_.n_labels} labels.")
    classifier.model_, classifier.hierarchy_ = model, model.hierarchy_
    return classifier


def _warn_of_version(saved: str) -> None:
    import sklearn

    if saved.split(".")[:2] != sklearn.__version__.split(".")[:2]:
        warnings.warn(
            f"The classifier was saved with scikit-learn {saved}; this is {sklearn.__version__}. "
            "Check its predictions, or fit it again.",
            HierlprWarning,
            stacklevel=4,
        )
