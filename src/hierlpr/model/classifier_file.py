"""The file of a HierarchicalClassifier: its model of scores, and its first stage as plain data.

Nothing is pickled. Numbers, texts and arrays go in; what is read can only become such data, or an
object of a class that is named here, whose attributes are such data: no function, no other class,
no code of a file is looked for.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError, FileError, HierlprWarning
from hierlpr.model.container import CLASSIFIER, Arrays, new_meta, write_model
from hierlpr.model.persistence import from_parts, parts_of

if TYPE_CHECKING:
    from hierlpr.model.classifier import HierarchicalClassifier

# Classes of scikit-learn whose predictions are sums over arrays: what a forged array can do there
# is an error or a wrong number. (Compiled trees would follow forged places in memory.)
KNOWN: Mapping[str, tuple[str, ...]] = {
    "sklearn.linear_model": (
        "LogisticRegression", "LogisticRegressionCV", "RidgeClassifier", "RidgeClassifierCV",
        "SGDClassifier", "Perceptron", "PassiveAggressiveClassifier",
    ),
    "sklearn.svm": ("LinearSVC",),
    "sklearn.naive_bayes": ("GaussianNB", "MultinomialNB", "ComplementNB", "BernoulliNB"),
    "sklearn.discriminant_analysis": (
        "LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis",
    ),
    "sklearn.dummy": ("DummyClassifier",),
    "sklearn.pipeline": ("Pipeline", "FeatureUnion"),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.decomposition": ("PCA", "TruncatedSVD"),
    "sklearn.feature_extraction.text": ("CountVectorizer", "TfidfVectorizer", "TfidfTransformer"),
    "sklearn.preprocessing": (
        "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer",
        "OneHotEncoder", "OrdinalEncoder", "LabelBinarizer", "LabelEncoder", "QuantileTransformer",
        "PolynomialFeatures",
    ),
}  # fmt: skip
OWN = "hierlpr.first_stage."
# Modules by the names that files of before have for them.
MOVED = {OWN + "label_columns": OWN + "multilabel", OWN + "blending": OWN + "multilabel"}
_NUMBERS = "biuf"
_SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}

_MODEL = "model_"
_FITTED = (
    "estimators_", "oof_scores_", "held_out_", "weighs_training_", "n_features_in_",
    "feature_names_in_",
)  # fmt: skip
_GIVEN = ("hierarchy", "rng")  # parameters that are not saved as they are


def save_classifier(classifier: HierarchicalClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to one file, whole or not at all."""
    import sklearn

    arrays: Arrays = {}
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
    write_model(path, arrays, meta)


def classifier_from(arrays: Arrays, meta: Mapping[str, Any]) -> HierarchicalClassifier:
    """Put a classifier together again, checking all of it."""
    from hierlpr.model.classifier import HierarchicalClassifier
    from hierlpr.model.estimator import HierLPR

    of_model = {k.removeprefix(_MODEL): v for k, v in arrays.items() if k.startswith(_MODEL)}
    model = from_parts(of_model, meta["model"], HierLPR)
    h = model.hierarchy_ if meta["has_hierarchy"] else None
    params, fitted = (unpack(meta[name], arrays) for name in ("params", "fitted"))
    classifier = HierarchicalClassifier(hierarchy=h, rng=int(meta["rng"]), **params)
    classifier.weighs_training_ = None  # files of before weights
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
    _warn_of_version(str(meta["scikit_learn"]))
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


# -- plain data --------------------------------------------------------------------------------


def pack(value: Any, arrays: Arrays) -> Any:
    """Return what JSON can hold of `value`; arrays of numbers are put into `arrays`.

    Raises
    ------
    DataError
        For a function, or an object of a class that is not known.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple, set, frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return {type(value).__name__: [pack(item, arrays) for item in items]}
    if type(value) is dict:
        return {"dict": [[pack(k, arrays), pack(v, arrays)] for k, v in value.items()]}
    if type(value) is slice:
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, np.generic):
        return {"scalar": pack(np.asarray(value), arrays)}
    if type(value) is np.ndarray:
        return _pack_array(value, arrays)
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"type": np.dtype(value).str}
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if hasattr(value, "tocsr") and hasattr(value, "format"):
        csr = value.tocsr()
        parts = [pack(np.asarray(x), arrays) for x in (csr.data, csr.indices, csr.indptr)]
        return {
            "csr": [type(value).__name__.endswith("array"), value.format, list(csr.shape), parts]
        }
    return {"object": [_name_of(type(value)), pack(_state_of(value), arrays)]}


def _pack_array(value: NDArray[Any], arrays: Arrays) -> Any:
    if value.dtype.kind in _NUMBERS:
        key = f"part_{len(arrays)}"
        arrays[key] = np.ascontiguousarray(value).reshape(-1)
        return {"array": [key, list(value.shape)]}
    if value.dtype.kind in "UO":
        items = [pack(item, arrays) for item in value.reshape(-1).tolist()]
        return {"texts": [value.dtype.str, list(value.shape), items]}
    raise DataError(f"An array of {value.dtype} cannot be saved.")


def _name_of(kind: type) -> str:
    if kind.__module__.startswith(OWN):
        return f"{kind.__module__}.{kind.__qualname__}"
    for module, names in KNOWN.items():
        if (
            kind.__name__ in names
            and getattr(importlib.import_module(module), kind.__name__, None) is kind
        ):
            return f"{module}.{kind.__name__}"
    raise DataError(
        f"A {kind.__module__}.{kind.__qualname__} cannot be saved as plain data, which runs "
        "nothing when it is read; estimators of hierlpr.first_stage and linear models, naive "
        "Bayes, scalers, encoders, vectorizers and pipelines of scikit-learn can.\n"
        "Hint: joblib.dump(classifier, path) keeps all of it, in a file to be opened only where it "
        "is trusted; or keep the estimators your own way, and with classifier.model_.save(path) "
        "what turns their scores into calls."
    )


def _state_of(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    state = dict(vars(value))
    if state.get("memory") is not None:
        raise DataError("A pipeline with memory= cannot be saved: its cache is a folder of code.")
    return state


def unpack(given: Any, arrays: Arrays) -> Any:
    """Return the value again; whatever is not as `pack` writes it is a FileError."""
    if given is None or type(given) in (bool, int, float, str):
        return given
    if type(given) is not dict or len(given) != 1:
        raise FileError("a part of the classifier is no plain data.")
    ((kind, content),) = given.items()
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](unpack(item, arrays) for item in content)
    if kind == "slice":
        return slice(*(None if end is None else int(end) for end in content))
    if kind == "dict":
        return {unpack(k, arrays): unpack(v, arrays) for k, v in content}
    if kind == "scalar":
        return unpack(content, arrays)[()]
    if kind == "array":
        return arrays[content[0]].reshape([int(side) for side in content[1]])
    if kind == "texts":
        return _unpack_texts(content, arrays)
    if kind in ("type", "dtype"):
        dtype = np.dtype(str(content))
        if dtype.kind not in _NUMBERS:
            raise FileError("a type of numbers is none.")
        return dtype.type if kind == "type" else dtype
    if kind == "csr":
        return _unpack_csr(content, arrays)
    if kind == "object":
        return _unpack_object(content, arrays)
    raise FileError(f"a part of the classifier is of the unknown kind {kind!r}.")


def _unpack_texts(content: Any, arrays: Arrays) -> NDArray[Any]:
    code, shape, items = content
    dtype = np.dtype(str(code))
    if dtype.kind not in "UO":
        raise FileError("an array of texts has another type.")
    values = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):
        values[place] = unpack(item, arrays)
    return values.astype(dtype).reshape([int(side) for side in shape])


def _unpack_csr(content: Any, arrays: Arrays) -> Any:
    from scipy import sparse

    is_array, layout, shape, parts = content
    data, indices, ptr = (unpack(part, arrays) for part in parts)
    csr = sparse.csr_array((data, indices, ptr), shape=tuple(int(side) for side in shape))
    csr.check_format(full_check=True)  # places outside would be followed by compiled code
    if layout not in ("csr", "csc", "coo", "dia"):
        raise FileError(f"a sparse matrix has the unknown layout {layout!r}.")
    return (csr if is_array else sparse.csr_matrix(csr)).asformat(layout)


def _unpack_object(content: Any, arrays: Arrays) -> Any:
    path, state = content
    kind = _class_of(str(path))
    values = unpack(state, arrays)
    if type(values) is not dict or not all(isinstance(name, str) for name in values):
        raise FileError(f"the attributes of a {path} are damaged.")
    if values.get("memory") is not None:
        raise FileError("a pipeline has a cache, which would be a folder of code.")
    made: Any = object.__new__(kind)  # no __init__ and no __setstate__: nothing runs
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _class_of(path: str) -> type:
    module, _, name = path.rpartition(".")
    module = MOVED.get(module, module)
    own = module.startswith(OWN) and all(part.isidentifier() for part in path.split("."))
    if not (own or name in KNOWN.get(module, ())):
        raise FileError(f"it names the class {path!r}, which is not among those that are known.")
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:
        kind = None
    if not isinstance(kind, type) or (own and kind.__module__ != module):
        raise FileError(f"this version knows no class {path!r}.")
    return kind
