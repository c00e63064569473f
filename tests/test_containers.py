"""Public functions take matrices in any container: same answer, input unchanged, clear refusal."""

import copy
import pickle
import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from hierlpr import (
    HierarchicalClassifier,
    Hierarchy,
    HierLPR,
    HierlprError,
    Ranking,
    baselines,
    consistent_scores,
    discover,
    fit_lpr,
    metrics,
    plots,
    rank,
)

TREE = Hierarchy([("A", "B"), ("A", "C"), ("B", "D")], labels=["A", "B", "C", "D", "E"])
N_SAMPLES = 60
GRID = np.tile(np.arange(0.0, 10.0, 0.5)[:, None], 5)


def plain_inputs(rng, *, whole=False):
    """Float64 arrays on a grid of eighths, exact in every float type; or whole numbers."""
    rng = np.random.default_rng(rng)
    truth = np.asarray(TREE.close_upward(rng.random((N_SAMPLES, 5)) < 0.3), dtype=float)
    lpr = truth * 0.375 + rng.integers(0, 6, truth.shape) / 8.0
    return {
        "features": 4.0 * truth + rng.integers(0, 6, truth.shape),
        "scores": 4.0 * truth + rng.integers(0, 6, truth.shape),
        "truth": truth,
        "lpr": np.rint(lpr) if whole else lpr,
        "calls": (lpr > 0.5).astype(float),
        "p": np.array([0.125, 0.5, 0.25, 0.0, 1.0]),
        "weight": rng.integers(1, 4, N_SAMPLES).astype(float),
    }


@cache
def model(kind="complete"):
    """A model of complete or of listed scores, with a cutoff and sets."""
    x, y = plain_inputs(0), plain_inputs(3)
    as_kind = sparse.csr_array if kind == "listed" else np.asarray
    fitted = HierLPR(TREE, joint=kind == "joint").fit(as_kind(x["scores"]), x["truth"])
    fitted.calibrate(as_kind(y["scores"]), y["truth"], precision=0.8)
    return fitted.calibrate_sets(as_kind(y["scores"]), y["truth"], error=0.2)


@cache
def classifier():
    """A fitted classifier."""
    x = plain_inputs(0)
    return new_classifier().fit(x["features"], x["truth"])


def new_classifier():
    return HierarchicalClassifier(LogisticRegression(), hierarchy=TREE, cv=2, joint=False)


def use(scores):
    """A model of the kind of these scores."""
    return model("listed" if sparse.issparse(scores) else "complete")


def predicted(fitted):
    """Probabilities of other samples by a model."""
    scores = plain_inputs(1)["scores"]
    if isinstance(fitted, HierarchicalClassifier):
        return fitted.predict_proba(scores)
    is_listed = fitted.kind_ == "listed"
    return fitted.predict_proba(sparse.csr_array(scores) if is_listed else scores)


def sets_of(fitted, scores):
    sets = fitted.predict_sets(scores)
    return sets.sure, sets.possible


def recalibrated_sets(scores, truth):
    grid = sparse.csr_array(GRID) if sparse.issparse(scores) else GRID
    return sets_of(copy.copy(use(scores)).calibrate_sets(scores, truth, error=0.2), grid)


def level(scores, truth, weight=None, **target):
    """The level of a new cutoff."""
    fitted = copy.copy(use(scores))
    return fitted.calibrate(scores, truth, sample_weight=weight, **target).cutoff_.level


def drawn(display, scores, truth):
    return vars(getattr(plots, display).from_model(use(scores), scores, truth)).get("curve")


# Name of a call -> the inputs it takes (keys of `plain_inputs`), and the call.
CALLS = {
    "rank": ("lpr", lambda x: rank(x, TREE)),
    "consistent_scores": ("lpr", lambda x: consistent_scores(x, TREE)),
    "fit_lpr": (
        "scores truth weight",
        lambda x, y, w: fit_lpr(x, y, sample_weight=w).predict(GRID),
    ),
    "LPRModel.predict": ("scores", lambda x: use(x).lpr_.predict(x)),
    "discover": ("p", lambda x: discover(x, TREE).rejected),
    "close_upward": ("truth", TREE.close_upward),
    "violations": ("lpr", TREE.violations),
    "roll_up": ("lpr", TREE.roll_up),
    "fit": ("scores truth", lambda x, y: predicted(HierLPR(TREE, joint=True).fit(x, y))),
    "fit with weights": (
        "scores truth weight",
        lambda x, y, w: predicted(HierLPR(TREE, joint=False).fit(x, y, sample_weight=w)),
    ),
    "calibrate": ("scores truth", lambda x, y: level(x, y, maximize="f1")),
    "calibrate with weights": (
        "scores truth weight",
        lambda x, y, w: level(x, y, w, precision=0.5, confidence=0.8, max_weight=4),
    ),
    "calibrate_sets": ("scores truth", recalibrated_sets),
    "predict": ("scores", lambda x: use(x).predict(x)),
    "predict_proba": ("scores", lambda x: use(x).predict_proba(x)),
    "predict_proba, joint": ("scores", lambda x: model("joint").predict_proba(x)),
    "predict_sets": ("scores", lambda x: sets_of(use(x), x)),
    "transform": ("scores", lambda x: use(x).transform(x)),
    "HierLPR.rank": ("scores", lambda x: use(x).rank(x)),
    "score": ("scores truth", lambda x, y: use(x).score(x, y)),
    "check": ("scores", lambda x: model().check(x).columns()),
    "adapt": ("scores", lambda x: predicted(model().adapt(x))),
    "explain": ("scores", lambda x: use(x).explain(x).labels),
    "assign": ("scores", lambda x: nw.from_native(use(x).assign(x))["label"].to_list()),
    "call_lists": ("scores", lambda x: use(x).call_lists(x)),
    "classifier.fit": ("features truth", lambda x, y: predicted(new_classifier().fit(x, y))),
    "classifier.predict": ("features", lambda x: classifier().predict(x)),
    "classifier.rank": ("features", lambda x: classifier().rank(x)),
    "classifier.score": ("features truth", lambda x, y: classifier().score(x, y)),
    "BayesianCorrection": (
        "scores truth",
        lambda x, y: baselines.BayesianCorrection().fit(x, y, TREE).predict_proba(x),
    ),
    "ClusHMC": (
        "scores truth",
        lambda x, y: (
            baselines.ClusHMC(n_trees=2, stopping=None, random_state=0)
            .fit(x, y, TREE)
            .predict_proba(x)
        ),
    ),
    "information_accretion": ("truth", lambda y: metrics.information_accretion(y, TREE)),
    "violations_error": ("lpr", lambda x: metrics.violations_error(x, TREE)),
    "eauc_score": ("weight", metrics.eauc_score),
    "hit_area_score": ("truth lpr", metrics.hit_area_score),
}


def after_hierarchy(function, *x):
    return function(*x, TREE)


def with_weight(function, truth, values, weight):
    return function(truth, values, sample_weight=weight)


for _module, _takes, _arguments, _names in (
    (metrics, "truth lpr", after_hierarchy, "cafa_curve cafa_f_max_score s_min_error"),
    (metrics, "truth calls", after_hierarchy, "h_error hierarchical_f_score "
     "hierarchical_hamming_error hierarchical_precision_score hierarchical_recall_score"),
    (metrics, "truth calls weight", with_weight, "f_score precision_score recall_score"),
    (metrics, "truth lpr weight", with_weight, "au_prc_score brier_error f_curve f_max_score "
     "calibration_error early_precision_score hit_curve label_au_prc_scores mean_au_prc_score "
     "normalized_hit_area_score precision_recall_curve"),
    (baselines, "lpr", after_hierarchy, "lpr_alone max_propagation propagate_max propagate_min "
     "raw_scores single_parent top_down"),
    (baselines, "p", after_hierarchy, "benjamini_hochberg dagger meinshausen simes_max_bh "
     "yekutieli"),
):  # fmt: skip
    for _name in _names.split():
        _function = getattr(_module, _name)
        CALLS[_name] = (_takes, lambda *x, f=_function, arguments=_arguments: arguments(f, *x))
for _display in ("CalibrationDisplay", "HitDisplay", "PrecisionDisplay", "RecallDisplay"):
    CALLS[_display] = ("scores truth", lambda x, y, display=_display: drawn(display, x, y))


def test_the_calls_cover_the_public_functions():
    left_out = {"CafaCurve", "order_violations_error"}
    assert set(metrics.__all__) - left_out <= set(CALLS)
    assert set(baselines.__all__) <= set(CALLS)


# Containers: name -> converter of a plain matrix.
def frame(values):
    return pd.DataFrame(values, columns=list(TREE.labels))


def fixed(dtype):
    return lambda x: x.astype(dtype)


def by_pandas(dtype):
    return lambda x: frame(x).astype(dtype)


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def split_duplicates(x):
    """COO with every entry in two halves."""
    half = sparse.coo_array(x / 2.0)
    twice = [np.concatenate([part, part]) for part in (half.data, *half.coords)]
    return sparse.coo_array((twice[0], (twice[1], twice[2])), shape=x.shape)


def unsorted(x):
    """CSR whose columns are stored in reverse."""
    csr = sparse.csr_array(x)
    for start, stop in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        csr.indices[start:stop] = csr.indices[start:stop][::-1].copy()
        csr.data[start:stop] = csr.data[start:stop][::-1].copy()
    csr.has_sorted_indices = False
    return csr


MAIN = {
    "dense": np.array,
    "CSR": sparse.csr_array,
    "pandas": frame,
    "Polars": lambda x: pl.DataFrame(x, schema=list(TREE.labels)),
    "Arrow": lambda x: pa.table({name: x[:, k] for k, name in enumerate(TREE.labels)}),
}


def with_gaps(x):
    """Values of which every seventh is missing."""
    return np.where(np.arange(x.size).reshape(x.shape) % 7 == 3, np.nan, x)


# Name: converter of a plain matrix.
WHOLE = {  # types of whole numbers
    **{f"array of {x}": fixed(x) for x in ("int8", "uint8", ">i4")},
    **{f"pandas {x}": by_pandas(x) for x in ("Int8", "int64[pyarrow]", "category")},
    "Polars int8": lambda x: pl.DataFrame(x.astype(np.int8), schema=list(TREE.labels)),
    "CSR int8": lambda x: sparse.csr_array(x.astype(np.int8)),
    "lists of ints": lambda x: x.astype(int).tolist(),
}
BOOLS = {
    "bool": fixed(bool),
    **{f"pandas {x}": by_pandas(x) for x in ("boolean", "bool", "bool[pyarrow]")},
    "CSR bool": lambda x: sparse.csr_array(x.astype(bool)),
}
FLOATS = {
    **MAIN,
    **{str(x): fixed(x) for x in ("float16", "float32", "longdouble", ">f8", object, str, complex)},
    "read-only": read_only,
    "Fortran order": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    "masked, nothing hidden": np.ma.array,
    "lists": lambda x: x.tolist(),
    **{x: getattr(sparse, f"{x}_array") for x in ("coo", "csc", "dok", "lil")},
    "COO with repeated entries": split_duplicates,
    "CSR matrix": sparse.csr_matrix,
    "CSR, unsorted": unsorted,
    "CSR float32": lambda x: sparse.csr_array(x.astype(np.float32)),
    "pandas, other order": lambda x: frame(x)[list(TREE.labels[::-1])],
    "pandas, other index": lambda x: frame(x).set_index(np.arange(len(x))[::-1]),
    **{f"pandas {x}": by_pandas(x)
       for x in ("float16", "Float64", "double[pyarrow]", object, "category")},
    "pandas sparse": by_pandas(pd.SparseDtype(float, 0.0)),
    "Polars float32": lambda x: pl.DataFrame(x.astype(np.float32), schema=list(TREE.labels)),
    "Arrow float16": lambda x: pa.table(
        {name: x[:, k].astype(np.float16) for k, name in enumerate(TREE.labels)}
    ),
}  # fmt: skip
MISSING = {  # each means NaN where `with_gaps` has it
    "NaN": np.array,
    "masked": lambda x: np.ma.masked_invalid(x),
    "masked over 1": lambda x: np.ma.array(np.where(np.isnan(x), 1.0, x), mask=np.isnan(x)),
    "object None": lambda x: np.where(np.isnan(x), None, x.astype(object)),
    "lists with None": lambda x: np.where(np.isnan(x), None, x.astype(object)).tolist(),
    "pandas NaN": frame,
    **{f"pandas {x} NA": by_pandas(x) for x in ("Float64", "Int8", "boolean", "double[pyarrow]")},
    "pandas bool[pyarrow] NA": lambda x: frame(x).astype("boolean").astype("bool[pyarrow]"),
    "pandas object None": lambda x: frame(np.where(np.isnan(x), None, x.astype(object))),
    "Polars null": lambda x: pl.DataFrame(x, schema=list(TREE.labels)).fill_nan(None),
    "Arrow null": lambda x: pa.table(
        {name: pa.array(x[:, k], from_pandas=True) for k, name in enumerate(TREE.labels)}
    ),
}
SHAPES = {
    "no samples": lambda x: x[:0],
    "no labels": lambda x: x[:, :0],
    "CSR without samples": lambda x: sparse.csr_array(x[:0]),
    "pandas without samples": lambda x: frame(x[:0]),
    "one row": lambda x: x[0],
    "a number": lambda x: x[0, 0],
    "three dimensions": lambda x: x[None],
    "None": lambda x: None,
    "a name": lambda x: "scores.csv",
    "a dictionary": lambda x: {"A": x[:, 0]},
    "a generator": lambda x: (row for row in x),
}
VECTOR_KEYS = ("weight", "p")
VECTORS = {
    **{str(x): fixed(x) for x in ("int8", "float16", object, ">f8")},
    "read-only": read_only,
    "list": lambda x: x.tolist(),
    "masked": lambda x: np.ma.array(x, mask=np.arange(x.size) % 7 == 0),
    "pandas": pd.Series,
    **{f"pandas {t}": (lambda x, t=t: pd.Series(x).astype(t))
       for t in ("Int8", "double[pyarrow]", "category")},
    "Polars": pl.Series,
    "Arrow": pa.array,
    "empty": lambda x: x[:0],
    "a matrix": lambda x: np.stack([x, x]),
    "a number": lambda x: x[0],
}  # fmt: skip


def numbers(value):
    """Flatten a result to a list of float arrays and strings."""
    if value is None or isinstance(value, str):
        return [str(value)]
    if isinstance(value, Ranking):
        return numbers((value.sample, value.label, value.lpr, value.score))
    if sparse.issparse(value):
        csr = sparse.csr_array(value).sorted_indices()
        return numbers(csr.toarray())
    if isinstance(value, pd.DataFrame | pl.DataFrame | pa.Table):
        given = nw.from_native(value)
        names = [name for name in given.columns if name in TREE.labels]
        values = given.select(sorted(names)).to_numpy()
        return numbers(np.where(pd.isna(values), np.nan, values).astype(float))
    if is_dataclass(value):
        return numbers([getattr(value, part.name) for part in fields(value)])
    if isinstance(value, dict):
        return numbers(list(value.values()))
    if isinstance(value, list | tuple):
        return [part for item in value for part in numbers(item)]
    array = np.asarray(value)
    return [array.astype(float) if array.dtype.kind in "biuf" else repr(array.tolist())]


def outcome(call, arguments):
    """The numbers of a result, or None if the input is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return numbers(call(*arguments))
    except HierlprError:
        return None


def same(some, others):
    """Whether two results agree, up to rounding in another order."""
    if some is None or others is None:
        return some is others
    if len(some) != len(others):
        return False
    for a, b in zip(some, others, strict=True):
        if isinstance(a, str) or isinstance(b, str):
            if not (isinstance(a, str) and isinstance(b, str) and a == b):
                return False
        elif a.shape != b.shape or not np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True):
            return False
    return True


def snapshot(value):
    """Bytes of everything a caller could see of an input."""
    if isinstance(value, pd.DataFrame | pd.Series):  # which cache parts of themselves
        frame = pd.DataFrame(value)
        value = [repr(frame.dtypes), repr(frame.index.tolist()), repr(frame.to_numpy().tolist())]
    if sparse.issparse(value):  # which caches flags of itself
        named = ("data", "indices", "indptr", "coords", "rows")
        stored = [getattr(value, name) for name in named if hasattr(value, name)]
        value = dict(value.items()) if value.format == "dok" else (value.shape, stored)
    return pickle.dumps(value) if not isinstance(value, Iterator) else b""


@pytest.mark.parametrize("container", MAIN)
def test_no_function_changes_its_inputs(container):
    """Dense inputs are not refused either, so that every call is a call."""
    for name, (takes, call) in CALLS.items():
        plain = plain_inputs(5)
        given = [plain[x] if x in VECTOR_KEYS else MAIN[container](plain[x]) for x in takes.split()]
        before = [snapshot(x) for x in given]
        answer = outcome(call, given)
        assert [snapshot(x) for x in given] == before, name
        if container == "dense":
            assert answer is not None, name


def fuzz_cases():
    """Yield name, call, arguments, and the plain arguments that mean the same."""
    for name, (takes, call) in CALLS.items():
        keys = takes.split()
        for i, key in enumerate(keys):
            if key == "features":  # they go to the classifiers of the user unchanged
                continue
            for kind, containers in KINDS[key in VECTOR_KEYS].items():
                plain = plain_inputs(6, whole=kind in ("whole", "bools"))
                if kind == "bools" and key == "scores":
                    continue
                for container, convert in containers.items():
                    if (
                        container in BY_NAME and name in WITHOUT_NAMES
                    ) or key + container == "pint8":
                        continue
                    meant = dict(plain)
                    if kind == "missing":
                        meant[key] = with_gaps(plain[key])
                    try:
                        given = convert(meant[key])
                    except (TypeError, ValueError):  # this container has no such values
                        continue
                    if kind == "shapes" or container in ("empty", "a matrix", "a number"):
                        meant[key] = None
                    elif sparse.issparse(given) and key != "truth":
                        meant[key] = sparse.csr_array(plain[key])
                    elif container == "masked" and key in VECTOR_KEYS:
                        meant[key] = np.where(given.mask, np.nan, plain[key])
                    arguments = [given if k == i else plain[x] for k, x in enumerate(keys)]
                    expected = [meant[x] for x in keys]
                    yield f"{name}, {key}: {container}", call, arguments, expected


# Functions without a hierarchy take one frame by position; of two frames they match the names.
WITHOUT_NAMES = {"fit_lpr", "LPRModel.predict", "hit_area_score"}
WITHOUT_NAMES |= {
    name
    for name, (takes, _) in CALLS.items()
    if takes in ("truth lpr weight", "truth calls weight")
}
BY_NAME = ("pandas, other order",)
KINDS = {
    False: {"whole": WHOLE, "bools": BOOLS, "floats": FLOATS, "missing": MISSING, "shapes": SHAPES},
    True: {"vectors": VECTORS},
}


@pytest.mark.slow
def test_every_container_gives_the_plain_answer_or_a_clear_refusal():
    known, problems = {}, []
    for case, call, arguments, expected in fuzz_cases():
        before = [snapshot(x) for x in arguments]
        try:
            answer = outcome(call, arguments)
        except Exception as error:
            problems.append(f"{case}: {type(error).__name__}: {error}")
            continue
        if [snapshot(x) for x in arguments] != before:
            problems.append(f"{case}: the input changed")
        if answer is None or any(x is None for x in expected):
            continue  # refused, or a shape that means no matrix of this size
        key = (call, *(snapshot(x) for x in expected))
        if key not in known:
            known[key] = outcome(call, expected)
        if not same(answer, known[key]):
            problems.append(f"{case}: another answer than the plain array")
    assert not problems, "\n".join(problems)
