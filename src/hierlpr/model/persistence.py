"""One file for a fitted model: an npz without pickling, JSON metadata, a version and a checksum.

Reading trusts nothing: every member is checked before it is decoded, every number before it is
used, and no code in the file can run, because none is ever looked for.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierlpr.cutoff.choose import Cutoff
from hierlpr.cutoff.guarantee import LevelProfile
from hierlpr.exceptions import FileError, HierlprError
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import USES, JointModel, LabelPrior, Tempering
from hierlpr.lpr import LabelReport, LPRCurves, LPRModel, make_estimator
from hierlpr.model.core import ScoreModel

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

__all__ = ["FORMAT_VERSION", "load_model", "load_score_model", "save_model"]

FORMAT = "hierlpr model"
FORMAT_VERSION = 1
_META = "meta"
_WEIGHTS = ("own", "others", "shift")
_Arrays = dict[str, NDArray[Any]]
AnyModel = TypeVar("AnyModel", bound=ScoreModel)


def save_model(model: ScoreModel, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path`, whole or not at all. Equal models give equal files."""
    arrays = _arrays_of(model)
    meta = {**_meta_of(model), "checksum": _checksum(arrays, _meta_of(model))}
    arrays[_META] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            _write_npz(file, arrays)
        os.replace(temporary, target)
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error.strerror or error}).") from error
    finally:
        temporary.unlink(missing_ok=True)


def load_model(path: str | os.PathLike[str]) -> HierLPR:
    """Read a model that :meth:`HierLPR.save` wrote.

    Raises
    ------
    FileError
        If the file is not such a model, is damaged or changed, or is of a later version. Nothing
        in a file is ever executed.
    """
    from hierlpr.model.estimator import HierLPR

    return _load(path, HierLPR)


def load_score_model(path: str | os.PathLike[str]) -> ScoreModel:
    """Read the same as `load_model`, but without scikit-learn around it."""
    return _load(path, ScoreModel)


def _load(path: str | os.PathLike[str], kind: type[AnyModel]) -> AnyModel:
    name = Path(path).name
    try:
        arrays = _read_npz(Path(path))
        meta = _read_meta(arrays.pop(_META, None))
        if (
            _checksum(arrays, {k: v for k, v in meta.items() if k != "checksum"})
            != meta["checksum"]
        ):
            raise FileError("its content does not match its checksum: it was changed or damaged.")
        return _rebuild(arrays, meta, kind)
    except FileError as error:
        raise FileError(f"{name}: {error}\nHint: save the model again.") from None
    except (HierlprError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(
            f"{name} is no valid model: {error}.\nHint: save the model again."
        ) from error


# -- content -----------------------------------------------------------------------------------


def _arrays_of(model: ScoreModel) -> _Arrays:
    h, curves = model.hierarchy_, model.lpr_.curves
    arrays: _Arrays = {
        "edge_parent": h.order[np.repeat(np.arange(h.n_labels), np.diff(h.child_ptr))],
        "edge_child": h.order[h.child_idx],
        "knot_ptr": curves.knot_ptr,
        "knot_score": curves.knot_score,
        "knot_lpr": curves.knot_lpr,
    }
    for key, column in model.lpr_.report.columns().items():
        if column.dtype.kind != "U":  # texts go to the metadata
            arrays[f"report_{key}"] = column
    if model.joint_ is not None:
        prior, tempering = model.joint_.prior, model.joint_.tempering
        arrays["joint_prevalence"] = prior.prevalence
        arrays["joint_conditional"] = prior.conditional
        for key in _WEIGHTS:
            arrays[f"joint_{key}"] = getattr(tempering, key)
    if model.profile_ is not None:
        for field in fields(LevelProfile):
            if field.name != "n_samples":
                arrays[f"profile_{field.name}"] = getattr(model.profile_, field.name)
    return arrays


def _meta_of(model: ScoreModel) -> dict[str, Any]:
    columns = model.lpr_.report.columns()
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "labels": list(model.hierarchy_.labels),
        "has_names": hasattr(model, "feature_names_in_"),
        "has_hierarchy": model.hierarchy is not None,
        "report": {key: c.tolist() for key, c in columns.items() if c.dtype.kind == "U"},
        "joint": None if model.joint_ is None else _choice_of(model.joint_),
        "profile_samples": None if model.profile_ is None else model.profile_.n_samples,
        "fitted_on": model.fitted_on_,
        "cutoff": model.cutoff_.to_dict(),
        "params": {
            "lpr": _method_of(model.lpr),
            "joint": model.joint,
            "close_truth": bool(model.close_truth),
            "missing": model.missing,
        },
    }


def _method_of(lpr: Any) -> Any:
    """Return an estimator as its name and options, which is all that JSON needs of it."""
    if is_dataclass(lpr) and not isinstance(lpr, type):
        return {"name": getattr(lpr, "name", type(lpr).__name__), "options": asdict(lpr)}
    if isinstance(lpr, list | tuple):
        return [_method_of(one) for one in lpr]
    return lpr


def _rebuild(
    arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], kind: type[AnyModel]
) -> AnyModel:
    labels = [str(label) for label in meta["labels"]]
    edges = [
        (labels[p], labels[c])
        for p, c in zip(
            _indices(arrays["edge_parent"], len(labels)),
            _indices(arrays["edge_child"], len(labels)),
            strict=True,
        )
    ]
    hierarchy = Hierarchy(edges, labels=labels)
    curves = LPRCurves(
        arrays["knot_ptr"].astype(np.int64),
        arrays["knot_score"].astype(np.float64),
        arrays["knot_lpr"].astype(np.float64),
    )
    if curves.n_labels != hierarchy.n_labels:
        raise FileError(f"{curves.n_labels} curves for {hierarchy.n_labels} labels.")
    params = meta["params"]
    model = kind(
        hierarchy if meta["has_hierarchy"] else None,
        lpr=_method_from(params["lpr"]),
        joint=params["joint"],
        close_truth=params["close_truth"],
        missing=params["missing"],
    )
    model.lpr_ = LPRModel(curves, _report(arrays, meta, hierarchy.n_labels))
    model.joint_ = _joint(arrays, meta, hierarchy)
    model._set_labels(hierarchy, has_names=bool(meta["has_names"]))
    model.profile_ = _profile(arrays, meta)
    model.fitted_on_ = str(meta["fitted_on"])
    model.cutoff_ = Cutoff.from_dict(meta["cutoff"])
    if model.cutoff_.label_groups and len(model.cutoff_.label_groups) != hierarchy.n_labels:
        raise FileError("the cutoff has groups for another number of labels.")
    return model


def _indices(values: NDArray[Any], n: int) -> list[int]:
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise FileError("edges must be a list of label numbers.")
    if values.size and not (values.min() >= 0 and values.max() < n):
        raise FileError("an edge names a label that does not exist.")
    listed: list[int] = values.tolist()
    return listed


def _report(
    arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], n_labels: int
) -> LabelReport:
    columns: dict[str, NDArray[Any]] = {}
    for field in fields(LabelReport):
        if field.name in meta["report"]:
            columns[field.name] = np.array(meta["report"][field.name], dtype=np.str_)
        else:
            columns[field.name] = arrays[f"report_{field.name}"]
        if columns[field.name].shape != (n_labels,):
            raise FileError(f"the column {field.name!r} of the label report has a wrong length.")
    return LabelReport(**columns)


def _choice_of(joint: JointModel) -> dict[str, Any]:
    tempering = joint.tempering
    return {
        "use": tempering.use, "loss": tempering.loss, "gain": tempering.gain,
        "gain_error": tempering.gain_error,
    }  # fmt: skip


def _joint(
    arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], hierarchy: Hierarchy
) -> JointModel | None:
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
        float(choice["gain_error"]),
    )  # fmt: skip
    prior = LabelPrior(arrays["joint_prevalence"], arrays["joint_conditional"])
    return JointModel(hierarchy, prior, tempering)


def _profile(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> LevelProfile | None:
    if meta["profile_samples"] is None:
        return None
    names = [field.name for field in fields(LevelProfile) if field.name != "n_samples"]
    columns = {name: arrays[f"profile_{name}"] for name in names}
    if len({column.shape for column in columns.values()}) != 1 or columns["level"].ndim != 1:
        raise FileError("the profile of the levels has columns of different lengths.")
    return LevelProfile(**columns, n_samples=int(meta["profile_samples"]))


def _method_from(method: Any) -> Any:
    if isinstance(method, dict):
        return make_estimator(str(method["name"]), **method["options"])
    if isinstance(method, list):
        return [_method_from(one) for one in method]
    return method


# -- the container -------------------------------------------------------------------------------


def _checksum(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _write_npz(file: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    # Stored, with a fixed date: quick, the same bytes every time, and no bombs on reading.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(
                member, np.ascontiguousarray(arrays[name]), allow_pickle=False
            )
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())


def _read_npz(path: Path) -> _Arrays:
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member)
                for member in archive.infolist()
            }
    except FileNotFoundError:
        raise FileError("there is no such file.") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise FileError(f"not a hierlpr model, or cut short ({error}).") from None
    except OSError as error:
        raise FileError(f"cannot be read ({error.strerror or error}).") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Decode one array after its declared size was found to be the true one."""
    if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(".npy"):
        raise FileError(f"unexpected member {member.filename!r}.")
    data = io.BytesIO(archive.read(member))
    try:
        version = np.lib.format.read_magic(data)
        if version != (1, 0):
            raise ValueError(f"array format {version}")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(data)
    except ValueError as error:
        raise FileError(f"member {member.filename!r} is no plain array ({error}).") from None
    rest = data.read()
    count = 1
    for side in shape:
        count *= int(side)
    if (
        dtype.hasobject
        or dtype.kind not in "biuf"
        or fortran
        or len(rest) != count * dtype.itemsize
    ):
        raise FileError(f"member {member.filename!r} is no plain array of numbers.")
    return np.frombuffer(rest, dtype=dtype).reshape(shape)


def _read_meta(member: NDArray[Any] | None) -> dict[str, Any]:
    if member is None or member.dtype != np.uint8:
        raise FileError("not a hierlpr model: it has no metadata.")
    try:
        meta = json.loads(member.tobytes().decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise FileError("its metadata are damaged.") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT or "checksum" not in meta:
        raise FileError("not a hierlpr model: its metadata are of something else.")
    if meta.get("version") != FORMAT_VERSION:
        raise FileError(
            f"it has format version {meta.get('version')}, but this hierlpr reads version "
            f"{FORMAT_VERSION}."
        )
    return meta
