"""Model files: they answer as before, and damaged or hostile files are refused."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hierlpr import HierarchicalClassifier, Hierarchy, HierlprWarning, load_model, simulate
from hierlpr._utils import archives
from hierlpr.cli import main
from hierlpr.exceptions import FileError
from hierlpr.first_stage import FirstStage
from hierlpr.lpr import make_estimator
from hierlpr.model import HierLPR

TREE = Hierarchy([("root", "left"), ("root", "right")], names={"root": "all of it"})


@pytest.fixture(scope="module")
def case():
    drawn = simulate.setting_model("tree25", rng=1)
    fit, cal, test = drawn.draw(800, 2), drawn.draw(600, 3), drawn.draw(200, 4)
    model = HierLPR(fit.hierarchy).fit(fit.scores, fit.truth)
    model.calibrate(cal.scores, cal.truth, fdr=0.2, confidence=0.8)
    model.calibrate_sets(cal.scores, cal.truth, error=0.2)
    return model, test.scores, cal


@pytest.fixture
def path(case, tmp_path):
    case[0].save(tmp_path / "model.hlpr")
    return tmp_path / "model.hlpr"


def test_round_trip_is_identical(case, path):
    model, scores, cal = case
    again = load_model(path)
    again.save(path.with_name("again.hlpr"))
    assert path.with_name("again.hlpr").read_bytes() == path.read_bytes()
    assert again.cutoff_ == model.cutoff_
    assert again.sets_ == model.sets_
    assert again.hierarchy_ == model.hierarchy_
    np.testing.assert_array_equal(again.predict_proba(scores), model.predict_proba(scores))
    np.testing.assert_array_equal(again.predict(scores), model.predict(scores))
    np.testing.assert_array_equal(again.predict_sets(scores).sure, model.predict_sets(scores).sure)
    assert again.keys_.keys() == {"fit", "cutoff", "sets"}
    assert str(again.check(cal.scores)) == str(model.check(cal.scores))
    for name, column in model.lpr_.report.columns().items():
        np.testing.assert_array_equal(again.lpr_.report.columns()[name], column)
    # Calibrating the loaded model needs everything that the fit left behind.
    again.calibrate(cal.scores, cal.truth, fdr=0.2, confidence=0.8)
    assert again.cutoff_ == model.cutoff_


@pytest.mark.filterwarnings("ignore::hierlpr.exceptions.UnreachableWarning")
def test_models_of_every_kind_come_back(case, tmp_path):
    _, scores, cal = case
    target = tmp_path / "m.hlpr"
    for lpr in (make_estimator("local-quadratic"), make_estimator("probability", trust=3)):
        alone = HierLPR(lpr=lpr).fit(cal.scores, cal.truth)
        alone.save(target)
        again = load_model(target)
        assert again.hierarchy is None
        assert again.lpr == alone.lpr
        np.testing.assert_array_equal(again.predict(scores), alone.predict(scores))
    grouped = HierLPR(cal.hierarchy).fit(cal.scores[:300], cal.truth[:300])
    for goal in ({"precision": [0.7, 0.9999], "confidence": 0.9}, {"fdr": 0.3, "groups": "depth"}):
        grouped.calibrate(cal.scores[300:], cal.truth[300:], **goal)
        grouped.save(target)
        assert load_model(target).cutoff_ == grouped.cutoff_
    with pytest.warns(HierlprWarning, match="Calibrate again"):
        grouped.remove_labels(["B"])
    grouped.save(target)
    assert load_model(target).profile_ is None


def test_label_names_may_be_anything(tmp_path):
    labels = ["<script>", "ä/ö 漢字", 'quo"te', "new\nline", "'; DROP"]
    h = Hierarchy([("<script>", "ä/ö 漢字")], labels=labels, names={labels[2]: "<b>"})
    rng = np.random.default_rng(0)
    truth = np.zeros((30, 5))
    truth[::2] = 1
    HierLPR(h).fit(rng.random((30, 5)), truth).save(tmp_path / "m.hlpr")
    assert load_model(tmp_path / "m.hlpr").hierarchy_ == h
    assert dict(load_model(tmp_path / "m.hlpr").hierarchy_.names) == {labels[2]: "<b>"}


# -- damaged and hostile files -----------------------------------------------------------------


def rewritten(path, change, *, compression=zipfile.ZIP_STORED):
    """Rewrite the members of a file after `change` has edited their bytes."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def forged(path, change):
    """Edit metadata and arrays, as a forger would: with a matching checksum."""
    with np.load(path) as file:
        arrays = dict(file)
    meta = json.loads(arrays.pop("meta").tobytes())
    meta.pop("checksum")
    change(meta, arrays)
    meta["checksum"] = archives.checksum(arrays, meta)
    with path.open("wb") as file:
        np.savez(file, **arrays, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8))
    return path


def npy(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), **options)
    return out.getvalue()


def test_one_flipped_bit_anywhere_is_noticed(path):
    data = path.read_bytes()
    for place in np.linspace(0, len(data) - 1, 40).astype(int):
        damaged = bytearray(data)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        try:
            again = load_model(path)
        except FileError:
            continue
        again.save(path)  # a date or an unused flag of the zip file: the content is the same
        assert path.read_bytes() == data


class Attack:
    def __reduce__(self):
        return (pytest.fail, ("code in the file was executed",))


CURVES = "lpr_.curves.knot_lpr.npy"


def test_edited_pickled_oversized_and_compressed_members(path):
    data = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        huge, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    )
    for member, message in (
        (npy(arrays[CURVES.removesuffix(".npy")] * 0.5), "does not match its checksum"),
        (npy(np.array([Attack()], dtype=object), allow_pickle=True), "not a valid model"),
        (huge.getvalue(), "not a valid model"),
    ):
        path.write_bytes(data)
        with pytest.raises(FileError, match=message):
            load_model(rewritten(path, lambda m, new=member: m.update({CURVES: new})))
    path.write_bytes(data)
    with pytest.raises(FileError, match="compressed members"):
        load_model(rewritten(path, lambda m: None, compression=zipfile.ZIP_DEFLATED))


def skip_checks(meta, arrays):
    """Curves that were fitted need no check; those of a file do."""
    meta["fitted"]["lpr_"]["LPRModel"]["curves"]["LPRCurves"]["_is_checked"] = True
    arrays["lpr_.curves.knot_ptr"] = arrays["lpr_.curves.knot_ptr"] + 10**9


def replace_array(name, change):
    return lambda meta, arrays: arrays.update({name: change(arrays[name])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, a: m.update(version=1), "format version 1"),
        (lambda m, a: m.update(format="cake"), "not a hierlpr model"),
        (lambda m, a: m["labels"].append("more"), "not all for 26 labels|different numbers"),
        (lambda m, a: m["labels"].__setitem__(1, "A"), "Duplicate label"),
        (lambda m, a: m.update(names={"nobody": "x"}), "not a valid model"),
        (lambda m, a: m["edges"].append(["A", "new"]), "not all for 26 labels|different numbers"),
        (lambda m, a: m["edges"].append(["A", "A"]), "its own parent"),
        (lambda m, a: m["edges"].append(["A"]), "not a valid model"),
        (replace_array("lpr_.curves.knot_lpr", lambda x: x * 3), "LPRs must lie in"),
        (replace_array("lpr_.curves.knot_score", lambda x: x[::-1].copy()), "not monotone"),
        (lambda m, a: a.pop("lpr_.curves.knot_ptr"), "not a valid model"),
        (replace_array("lpr_.report.auc", lambda x: x[1:]), "not all for 25 labels"),
        (replace_array("lpr_.score_bins.mean_lpr", lambda x: x[1:]), "do not fit together"),
        (replace_array("joint_.tempering.own", lambda x: x[1:]), "different numbers of labels"),
        (replace_array("joint_.tempering.others", lambda x: x * np.nan), "weights of the joint"),
        (replace_array("profile_.moments", lambda x: x[1:]), "profile of block scores"),
        (lambda m, a: m["fitted"].update(lpr_=None), "lpr_ is not a LPRModel"),
        (lambda m, a: m["fitted"].update(keys_={"dict": {"fit": 1}}), "keys of its samples"),
        (lambda m, a: m["fitted"].update(joint_=m["fitted"]["lpr_"]), "joint_ is not a JointModel"),
        (lambda m, a: m["fitted"].update(lpr_={"os.system": {}}), "not a valid model"),
        (lambda m, a: m["fitted"].pop("cutoff_"), "not a valid model: 'cutoff_'"),
        (
            lambda m, a: m["fitted"]["cutoff_"]["Cutoff"].update(level="high"),
            "level is not a float",
        ),
        (lambda m, a: m["fitted"]["cutoff_"]["Cutoff"].update(evil=1), "not a valid model: 'evil'"),
        (lambda m, a: m["fitted"]["sets_"]["SetRule"].update(one_path=2), "one_path is not a bool"),
        (skip_checks, "_is_checked is not a bool"),
        (lambda m, a: m["params"].update(lpr="os.system"), "lpr .method. must be one of"),
        (lambda m, a: m["params"].update(lpr={"Popen": {}}), "Popen"),
    ],
)
def test_forged_content_is_checked(path, change, message):
    with pytest.raises(FileError, match=message):
        load_model(forged(path, change))


# -- classifiers -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    truth = TREE.close_upward(rng.random((80, 3)) < [0.4, 0.3, 0.3])
    return truth @ rng.normal(size=(3, 4)) + rng.normal(size=(80, 4)), truth


def fitted(estimator, x, truth, **options):
    one = HierarchicalClassifier(estimator, TREE, cv=2, joint=False, verbose=False, **options)
    return one.fit(x, truth)


class Constant(ClassifierMixin, BaseEstimator):
    """A classifier of nobody's library."""

    def fit(self, x, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, x):
        return np.full((len(x), 2), 0.5)


@pytest.mark.filterwarnings("ignore:The scores of")  # training samples have other scores
def test_classifiers_answer_as_before(features, tmp_path):
    x, truth = features
    words = [" ".join(f"w{k}" for k in np.flatnonzero(row)) + " and" for row in truth]
    frame = pd.DataFrame(x, columns=list("abcd")).assign(kind=np.where(x[:, 0] > 0, "p", "q"))
    columns = ColumnTransformer(
        [("n", StandardScaler(), list("abcd")), ("k", OneHotEncoder(), ["kind"])]
    )
    cases = [
        (LogisticRegression(), x),
        (RandomForestClassifier(5, random_state=0), x),
        (FirstStage(members=["forest"], n_trees=8), sparse.csr_array(x)),
        (make_pipeline(TfidfVectorizer(), LogisticRegression()), words),
        (make_pipeline(columns, LogisticRegression()), frame),
        (FirstStage(n_networks=2, n_trees=8, random_state=0), frame),
    ]
    for estimator, given in cases:
        one = fitted(estimator, given, truth, fdr=0.3, unreachable="best-precision")
        one.save(tmp_path / "c.hlpr")
        again = load_model(tmp_path / "c.hlpr", trust_classifier=True)
        np.testing.assert_array_equal(again.scores(given), one.scores(given))
        np.testing.assert_array_equal(again.predict(given), one.predict(given))
        assert again.cutoff_ == one.cutoff_
        assert again.hierarchy_ == TREE
        assert repr(again.estimator) == repr(one.estimator)


def test_only_trusted_types_are_loaded(features, tmp_path):
    x, truth = features
    path = tmp_path / "c.hlpr"
    fitted(Constant(), x, truth).save(path)
    name = f"{Constant.__module__}.Constant"
    with pytest.raises(FileError, match=rf"not trusted: '{name}'.*trusted=\["):
        load_model(path, trust_classifier=True)
    assert load_model(path, trust_classifier=True, trusted=[name]).scores(x).shape == (80, 3)


def test_opening_a_forged_classifier_runs_nothing(features, tmp_path):
    path, ran = tmp_path / "evil.hlpr", tmp_path / "ran"
    fitted(LogisticRegression(), *features).save(path)
    # skops calls a trusted name with arguments from the file; this one runs Python.
    name = "assert_run_python_script_without_output"
    code = f"open({str(ran)!r}, 'w')"
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
    text |= {"content": json.dumps(code), "is_json": True, "__id__": 1}
    items = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode"}
    items |= {"content": [text], "__id__": 2}
    schema = {"__class__": name, "__module__": "sklearn.utils._testing", "__loader__": "LossNode"}
    schema |= {"__reduce__": {"args": items}, "content": text, "__id__": 3}
    schema |= {"protocol": 2, "_skops_version": "0.16.0"}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
    stored = np.frombuffer(data.getvalue(), np.uint8)
    forged(path, lambda m, a: a.update(skops=stored))
    with pytest.raises(FileError, match=r"opening it can run code.*\n.*trust_classifier=True"):
        load_model(path)
    with pytest.raises(FileError, match=f"not trusted: 'sklearn.utils._testing.{name}'"):
        load_model(path, trust_classifier=True)
    scores = tmp_path / "s.csv"
    scores.write_text("sample,root,left,right\na,1,1,1\n")
    out = tmp_path / "r.csv"
    done = CliRunner().invoke(
        main, [*map(str, ("rank", "--model", path, "--scores", scores, "--out", out))]
    )
    assert done.exit_code == 2
    assert "can run code" in done.stderr
    assert not ran.exists()


def test_damaged_classifiers(features, tmp_path):
    path = tmp_path / "c.hlpr"
    fitted(LogisticRegression(), *features).save(path)
    data = path.read_bytes()
    for bad in (data[:200], data[:-30], b"", b"sample,label\n"):
        path.write_bytes(bad)
        with pytest.raises(FileError, match=r"is not a (valid )?model: "):
            load_model(path, trust_classifier=True)
    path.write_bytes(data)
    forged(path, lambda m, a: a.update(skops=a["skops"][:-40]))
    with pytest.raises(FileError):
        load_model(path, trust_classifier=True)
