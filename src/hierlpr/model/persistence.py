"""Model files: one ``.npz`` of plain arrays with JSON metadata, a format version and a checksum.

Reading a model of scores runs no code from the file: arrays are read without pickle, and metadata
can only name the dataclasses listed here, which check their fields. A classifier file also holds
the fitted estimators in the format of skops, which can run code: it is only read on request.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import all_estimators

from hierlpr._utils.archives import Arrays, read_archive, write_archive
from hierlpr._utils.checks import quote_names
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.goal import Goal
from hierlpr.cutoff.outcome import Cutoff, Result
from hierlpr.cutoff.sets import SetRule
from hierlpr.data.duplicates import SampleKeys
from hierlpr.exceptions import FileError, HierlprError
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import USES, JointModel, LabelPrior, Tempering
from hierlpr.lpr import ImpliedLPR, LabelReport, LPRCurves, LPRModel, SharedCurves
from hierlpr.lpr.comparison import SampleSummary
from hierlpr.lpr.diagnostics import ScoreBins
from hierlpr.lpr.estimators import ESTIMATORS
from hierlpr.model.fitted import FittedModel

if TYPE_CHECKING:
    from hierlpr.model.classifier import HierarchicalClassifier
    from hierlpr.model.estimator import HierLPR

HEAD: Any = {"format": "hierlpr model", "version": 2}
HINT = "Hint: give a file that `hierlpr fit --out` or model.save wrote, or save the model again."

# Fitted attributes besides the labels.
FITTED = [x for x in FittedModel.__annotations__ if x.endswith("_") and x != "hierarchy_"]
PARAMS = ("lpr", "joint", "propagate_truth", "missing_scores", "leaves")
# The dataclasses that fitted attributes consist of, by their names in a file.
CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        LPRModel, LPRCurves, LabelReport, ScoreBins, SharedCurves, ImpliedLPR, JointModel,
        LabelPrior, Tempering, LevelProfile, SampleKeys, SampleSummary, Cutoff, Goal, Result,
        SetRule,
    )
}  # fmt: skip
# Classes inside estimators that neither skops nor `all_estimators` lists.
TRUSTED = frozenset((
    *(f"hierlpr.first_stage.{name}" for name in (
        "descent.NetworkPlan", "encoding.FeatureEncoder", "kernel_ridge.KernelRidge",
        "multilabel.LabelColumns", "multilabel.PooledMap", "networks.NetworkEnsemble",
        "projection_forest.ProjectionForest", "stage.FirstStage",
    )),
    "scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix",
    *(f"sklearn.{name}" for name in (
        "_loss._loss.CyHalfBinomialLoss", "_loss.link.Interval", "_loss.link.LogitLink",
        "_loss.loss.HalfBinomialLoss", "calibration._CalibratedClassifier",
        "calibration._SigmoidCalibration",
        "ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
        "gaussian_process.kernels.ConstantKernel", "gaussian_process.kernels.Product",
        "gaussian_process.kernels.RBF", "metrics._dist_metrics.EuclideanDistance64",
        "neighbors._ball_tree.BallTree", "neighbors._kd_tree.KDTree",
        "neural_network._stochastic_optimizers.AdamOptimizer",
        "neural_network._stochastic_optimizers.SGDOptimizer", "tree._tree.Tree",
    )),
))  # fmt: skip
CHECKED = {*CLASSES, "None", "bool", "int", "float", "str"}  # annotations that are checked


def save_model(model: HierLPR, path: str | os.PathLike[str]) -> None:
    """Write a model of scores; the file is complete or not there. Equal models give equal files."""
    arrays: Arrays = {}
    write_archive(path, arrays, {**HEAD, "kind": "HierLPR", **_pack_model(model, arrays)})


def save_classifier(classifier: HierarchicalClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier: its model of scores, and its estimators in the format of skops."""
    import skops.io

    params = classifier.get_params(deep=False)
    params.pop("hierarchy")
    apart = ("model_", "hierarchy_", "classes_")  # which are stored as arrays
    fitted = {k: v for k, v in vars(classifier).items() if k.endswith("_") and k not in apart}
    try:
        data = skops.io.dumps({"params": params, "fitted": fitted})
    except Exception as error:  # skops raises whatever the pickling protocol of a type raises
        raise HierlprError(
            f"The estimators cannot be saved: {error}.\n"
            "Hint: keep them in your own way, and save what turns their scores into calls with "
            "classifier.model_.save(path)."
        ) from error
    arrays = {"skops": np.frombuffer(data, dtype=np.uint8)}
    meta = _pack_model(classifier.model_, arrays)
    write_archive(path, arrays, {**HEAD, "kind": "HierarchicalClassifier", **meta})


def load_model(
    path: str | os.PathLike[str], *, trust_classifier: bool = False, trusted: Sequence[str] = ()
) -> Any:
    """Read a model that :meth:`HierLPR.save` or :meth:`HierarchicalClassifier.save` wrote.

    Parameters
    ----------
    path : path
    trust_classifier : bool
        Needed for the file of a classifier, because opening one **can run code**. Give it only if
        the file comes from someone you trust, as with every saved scikit-learn estimator.
    trusted : sequence of str
        Types (and functions) that a classifier file may hold besides the classes of scikit-learn
        and `hierlpr.first_stage`, such as ``"lightgbm.sklearn.LGBMClassifier"``.

    Raises
    ------
    FileError
        If the file is not such a model, is damaged or changed, or is of another format version; if
        it holds a classifier that is not trusted.

    Notes
    -----
    Opening a model of scores runs no code from the file. Of a classifier, only listed classes are
    made, but what their methods do later depends on the content of the file.
    """
    name = os.fspath(path)
    with _explain_errors(name):
        arrays, meta = read_archive(path, **HEAD)
        if meta["kind"] not in ("HierLPR", "HierarchicalClassifier"):
            raise FileError(f"it holds a {meta['kind']!r}, which this hierlpr does not know.")
    if meta["kind"] == "HierarchicalClassifier" and not trust_classifier:
        raise FileError(
            f"{name}: it holds a HierarchicalClassifier, which takes features, not scores, and "
            "opening it can run code.\n"
            "Hint: if it comes from someone you trust, read it in Python with "
            "load_model(path, trust_classifier=True); its model_ is the model of scores."
        )
    with _explain_errors(name):
        model = _unpack_model(arrays, meta)
        if meta["kind"] == "HierLPR":
            return model
        return _unpack_classifier(arrays["skops"], model, trusted)


@contextmanager
def _explain_errors(name: str) -> Iterator[None]:
    """Turn whatever reading a file raises into a `FileError` that names it."""
    try:
        yield
    except FileNotFoundError:
        raise FileError(f"{name}: there is no such file.") from None
    except FileError as error:
        raise FileError(f"{name}: {error}\n{HINT}") from None
    except zipfile.BadZipFile:
        raise FileError(
            f"{name} is not a model: it is cut short, or a file of another kind.\n{HINT}"
        ) from None
    except OSError as error:
        raise FileError(f"{name}: it cannot be read ({error.strerror or error}).") from None
    except Exception as error:  # forged content can raise anything
        why = f"{error} is missing; is it of another version?" if type(error) is KeyError else error
        raise FileError(f"{name} is not a valid model: {why}\n{HINT}") from error


# -- models ------------------------------------------------------------------------------------


def _pack_model(model: HierLPR, arrays: Arrays) -> dict[str, Any]:
    """Return the metadata of a model, and add its arrays to `arrays`."""
    h = model.hierarchy_
    return {
        "labels": h.labels,
        "edges": h.edges,
        "names": dict(h.names),
        "has_hierarchy": model.hierarchy is not None,
        "params": {name: _pack(getattr(model, name), name, arrays) for name in PARAMS},
        "fitted": {name: _pack(getattr(model, name), name, arrays) for name in FITTED},
    }


def _unpack_model(arrays: Arrays, meta: Mapping[str, Any]) -> HierLPR:
    from hierlpr.model.estimator import HierLPR  # imports this module

    edges = [(str(parent), str(child)) for parent, child in meta["edges"]]
    h = Hierarchy(edges, labels=map(str, meta["labels"]), names=meta["names"])
    params = {name: _unpack(meta["params"][name], arrays, h) for name in PARAMS}
    model = HierLPR(h if meta["has_hierarchy"] else None, **params)
    model.check_params()
    model.hierarchy_ = h
    fitted = {name: meta["fitted"][name] for name in FITTED}
    model.__dict__.update(_unpack_fields(FittedModel, fitted, arrays, h))
    _check_model(model)
    return model


def _unpack_classifier(
    stored: NDArray[Any], model: HierLPR, trusted: Sequence[str]
) -> HierarchicalClassifier:
    import skops.io

    from hierlpr.model.classifier import HierarchicalClassifier  # imports this module

    data = stored.tobytes()
    unknown = skops.io.get_untrusted_types(data=data)
    # skops calls what a trusted name stands for with arguments from the file. So no package is
    # trusted as a whole (scikit-learn has functions that run their argument), and no function.
    listed = {f"{x.__module__}.{x.__qualname__}" for _, x in all_estimators()}
    refused = sorted(set(unknown) - listed - TRUSTED - set(trusted))
    if refused:
        raise FileError(
            f"it holds types that are not trusted: {quote_names(refused)}. If you trust the file, "
            "name them in load_model(path, trusted=[...])"
        )
    state = skops.io.loads(data, trusted=unknown)
    classifier = HierarchicalClassifier(hierarchy=model.hierarchy, **state["params"])
    apart = {"model_": model, "hierarchy_": model.hierarchy_, "classes_": model.classes_}
    classifier.__dict__.update(state["fitted"], **apart)
    return classifier


def _check_model(model: HierLPR) -> None:
    """Refuse parts that do not fit together: compiled code would read beyond their ends."""
    h, lpr, joint, implied = model.hierarchy_, model.lpr_, model.joint_, model.implied_
    summary, depths, profile = model.sample_summary_, model.path_weight_, model.profile_
    if summary is not None and (implied is None) != (summary.log_frequency is None):
        raise FileError("the summary of samples is for another kind of scores.")
    if model.leaves_ not in (None, "sum", "max"):
        raise FileError("how scores of leaves are rolled up is invalid.")
    if model.path_style_ is not None and not isinstance(model.path_style_["ranks"], dict):
        raise FileError("the ranks of its labels are invalid.")
    if not all(isinstance(x, SampleKeys) for x in model.keys_.values()):
        raise FileError("the keys of its samples are invalid.")
    per_label: list[Any] = [*lpr.report.columns().values()]
    per_label += [] if lpr.score_bins is None else [lpr.score_bins.mean_lpr]
    per_label += [] if implied is None else [implied.absent]
    per_label += [] if summary is None or implied is None else [summary.log_frequency]
    if joint is not None:
        weights = joint.tempering.own, joint.tempering.others, joint.tempering.shift
        if joint.tempering.use not in USES or not all(np.isfinite(x).all() for x in weights):
            raise FileError("the weights of the joint posterior are invalid.")
        per_label += weights
    groups = model.cutoff_.label_groups or h.labels
    sizes = {x.shape for x in per_label} | {(lpr.curves.n_labels,), (len(groups),)}
    if sizes != {(h.n_labels,)}:
        raise FileError(f"its parts are not all for {h.n_labels:,} labels.")
    n_depths = int(np.max(h.levels, initial=0))
    if depths is not None and (depths.shape != (n_depths,) or not (depths >= 0.0).all()):
        raise FileError("the weights of depths are invalid.")
    if profile is not None and profile.moments.shape != (5, profile.limit.size, profile.level.size):
        raise FileError("the profile of block scores is invalid.")


# -- values ------------------------------------------------------------------------------------


def _pack(value: Any, name: str, arrays: Arrays) -> Any:
    """Return a value as JSON can hold it; arrays of numbers are put into `arrays` as `name`.

    What is not a number or a text becomes a dict with one item: what it is, and its content.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "U":
            return {"texts": value.tolist()}
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Hierarchy):
        return {"hierarchy": None}
    if isinstance(value, list | tuple):
        return {"tuple": [_pack(x, f"{name}.{i}", arrays) for i, x in enumerate(value)]}
    kind, content = "dict", value
    if not isinstance(value, Mapping):
        named = [x.name for x in fields(value) if not x.name.startswith("_")]
        kind, content = type(value).__name__, {x: getattr(value, x) for x in named}
    return {kind: {str(k): _pack(v, f"{name}.{k}", arrays) for k, v in content.items()}}


def _unpack(packed: Any, arrays: Arrays, hierarchy: Hierarchy) -> Any:
    if not isinstance(packed, dict):
        return packed
    [(kind, content)] = packed.items()
    if kind == "texts":
        return np.array([str(x) for x in content], dtype=np.str_)
    if kind == "array":
        return arrays[content]
    if kind == "hierarchy":
        return hierarchy
    if kind == "tuple":
        return tuple(_unpack(x, arrays, hierarchy) for x in content)
    if kind == "dict":
        return {k: _unpack(v, arrays, hierarchy) for k, v in content.items()}
    made = _class_of(kind)
    return made(**_unpack_fields(made, content, arrays, hierarchy))


def _class_of(name: str) -> Any:
    """Return the class with a name that files may hold: a listed one, or an LPR estimator."""
    modules = {estimator: module for module, estimator in ESTIMATORS.values()}
    # Some estimators are in later layers, so they are imported only for the files that have them.
    return getattr(import_module(modules[name]), name) if name in modules else CLASSES[name]


def _unpack_fields(
    kind: Any, packed: Mapping[str, Any], arrays: Arrays, hierarchy: Hierarchy
) -> dict[str, Any]:
    """Return the attributes of a class; numbers, texts and dataclasses must be as declared."""
    values = {name: _unpack(x, arrays, hierarchy) for name, x in packed.items()}
    for name, value in values.items():
        declared = set(str(kind.__annotations__[name]).split(" | "))
        actual = "None" if value is None else type(value).__name__
        is_number = actual == "int" and "float" in declared
        if name[0] == "_" or (declared <= CHECKED and actual not in declared and not is_number):
            raise FileError(f"{name} is not a {kind.__annotations__[name]}.")
    return values
