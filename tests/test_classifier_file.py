"""A classifier in one file: it answers as before, and a hostile file runs nothing."""

import io
import json
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hierlpr import HierarchicalClassifier, Hierarchy, HierlprWarning, load_model
from hierlpr.exceptions import DataError, FileError
from hierlpr.model import load_score_model
from hierlpr.model.container import META, checksum, read_npz, write_npz

TREE = Hierarchy([("root", "left"), ("root", "right")], names={"root": "all of it"})


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    truth = TREE.close_upward(rng.random((80, 3)) < [0.4, 0.3, 0.3])
    x = truth @ rng.normal(size=(3, 4)) + rng.normal(size=(80, 4))
    return x, truth


def fitted(estimator, x, truth, **options):
    one = HierarchicalClassifier(estimator, TREE, cv=2, joint=False, verbose=False, **options)
    return one.fit(x, truth)


@pytest.fixture
def saved(case, tmp_path):
    one = fitted(LogisticRegression(), *case)
    one.save(tmp_path / "c.hlpr")
    return one, tmp_path / "c.hlpr"


def test_it_answers_as_before(case, tmp_path):
    x, truth = case
    words = [" ".join(f"w{k}" for k in np.flatnonzero(row)) + " and" for row in truth]
    frame = pd.DataFrame(x, columns=list("abcd")).assign(kind=np.where(x[:, 0] > 0, "p", "q"))
    columns = ColumnTransformer(
        [("n", StandardScaler(), list("abcd")), ("k", OneHotEncoder(), ["kind"])]
    )
    cases = [
        (LogisticRegression(), x),
        (make_pipeline(StandardScaler(), GaussianNB()), x),
        (make_pipeline(TfidfVectorizer(), LogisticRegression()), words),
        (make_pipeline(columns, LogisticRegression()), frame),
    ]
    for estimator, given in cases:
        one = fitted(estimator, given, truth, fdr=0.3, unreachable="max-f")
        one.save(tmp_path / "c.hlpr")
        for again in (
            load_model(tmp_path / "c.hlpr"),
            HierarchicalClassifier.load(tmp_path / "c.hlpr"),
        ):
            np.testing.assert_array_equal(again.scores(given), one.scores(given))
            np.testing.assert_array_equal(again.predict(given), one.predict(given))
            assert again.cutoff_ == one.cutoff_
            assert again.hierarchy_ == TREE
            assert repr(again.estimator) == repr(one.estimator)
        again.save(tmp_path / "again.hlpr")
        assert (tmp_path / "again.hlpr").read_bytes() == (tmp_path / "c.hlpr").read_bytes()


def test_what_would_run_code_is_refused_when_it_is_saved(case, tmp_path):
    x, truth = case
    for estimator, word in (
        (DecisionTreeClassifier(max_depth=2), "DecisionTreeClassifier"),
        (make_pipeline(FunctionTransformer(np.abs), LogisticRegression()), "FunctionTransformer"),
        (make_pipeline(LogisticRegression(), memory=str(tmp_path / "cache")), "memory="),
    ):
        with pytest.raises(DataError, match=word):
            fitted(estimator, x, truth).save(tmp_path / "no.hlpr")
        assert not (tmp_path / "no.hlpr").exists()


def forged(path, change):
    """Rewrite the metadata with a right checksum, as an attacker would."""
    arrays = read_npz(path)
    meta = json.loads(arrays.pop(META).tobytes())
    meta.pop("checksum")
    change(meta, arrays)
    meta["checksum"] = checksum(arrays, meta)
    arrays[META] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        write_npz(file, arrays)


EVIL_CLASSES = [
    "os.system", "builtins.eval", "subprocess.Popen", "sklearn.preprocessing.FunctionTransformer",
    "sklearn.linear_model.os", "hierlpr.first_stage.__init__.os", "hierlpr.first_stage.stage.np",
    "hierlpr.cli.main", "sklearn.tree.DecisionTreeClassifier", "hierlpr.first_stage.antigravity.x",
]  # fmt: skip


@pytest.mark.parametrize("name", EVIL_CLASSES)
def test_no_class_that_is_not_known_is_made(saved, name, tmp_path, monkeypatch):
    _, path = saved
    before = set(sys.modules)

    def change(meta, _):
        meta["fitted"] = {"dict": [["estimators_", {"list": [{"object": [name, {"dict": []}]}]}]]}

    forged(path, change)
    with pytest.raises(
        FileError, match=r"c\.hlpr.*(not among those that are known|knows no class)"
    ):
        load_model(path)
    assert "antigravity" not in set(sys.modules) - before


@pytest.mark.parametrize(
    "content",
    [
        7, "x", {"list": 3}, {"dict": [[1]]}, {"array": ["nothing", [1]]}, {"nonsense": []},
        {"object": ["sklearn.linear_model.LogisticRegression", {"list": []}]},
        {"object": ["sklearn.pipeline.Pipeline", {"dict": [["memory", "/tmp"]]}]},
        {"csr": [True, "csr", [2, 2], [{"array": ["part_0", [1]]}] * 3]}, {"type": "O"},
        {"dict": [["model_", None]]}, {"texts": ["V8", [1], [1]]}, {"a": 1, "b": 2},
    ],
)  # fmt: skip
def test_forged_content_is_one_clear_error(saved, content):
    _, path = saved
    forged(path, lambda meta, _: meta.update(fitted={"dict": [["estimators_", content]]}))
    with pytest.raises(FileError, match=r"c\.hlpr"):
        load_model(path)


def test_damaged_files_and_the_wrong_door(saved, case, tmp_path):
    one, path = saved
    data = path.read_bytes()
    with pytest.raises(FileError, match="takes features"):
        load_score_model(path)
    one.model_.save(tmp_path / "m.hlpr")
    with pytest.raises(FileError, match="a model of scores"):
        HierarchicalClassifier.load(tmp_path / "m.hlpr")
    for bad in (data[:200], data[:-30], b"", data.replace(b"part_0", b"part_9")):
        path.write_bytes(bad)
        with pytest.raises(FileError):
            load_model(path)
    path.write_bytes(data)
    forged(path, lambda meta, _: meta.update(scikit_learn="0.1.2"))
    with pytest.warns(HierlprWarning, match=r"saved with scikit-learn 0\.1\.2"):
        load_model(path)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())


def test_a_report_from_features(saved, case, tmp_path):
    pytest.importorskip("jinja2")
    from hierlpr.report import write_report

    one, _ = saved
    frame = pd.DataFrame(case[0], index=[f"p{i}" for i in range(80)])
    report = write_report(tmp_path / "r.html", one, frame, case[1])
    assert report.study.samples[3] == "p3"
    np.testing.assert_array_equal(report.tally.called, one.predict(case[0]).sum(axis=1))
    views = {view.name for view in report.samples}
    assert views == {f"p{i}" for i in range(80)}


def test_progress_is_told_on_request_and_on_terminals_only(case, capsys, monkeypatch):
    cases = [(True, False, True), (None, True, True), (None, False, False), (False, True, False)]
    for verbose, is_terminal, told in cases:
        monkeypatch.setattr(sys.stderr, "isatty", lambda answer=is_terminal: answer, raising=False)
        HierarchicalClassifier(LogisticRegression(), TREE, cv=2, joint=False, verbose=verbose).fit(
            *case
        )
        text = capsys.readouterr().err
        assert ("fitting  [####" in text and "100%" in text) == told


def test_linear_algebra_has_one_thread_inside(case):
    from threadpoolctl import threadpool_info

    seen = []

    class Watching(LogisticRegression):
        def fit(self, *given):
            seen.extend(i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas")
            return super().fit(*given)

    fitted(Watching(), *case)
    assert set(seen) == {1}


def test_the_own_first_stage_comes_back(case, tmp_path):
    from hierlpr.first_stage import FirstStage

    x, truth = case
    frame = pd.DataFrame(x, columns=list("abcd")).assign(kind=np.where(x[:, 0] > 0, "p", "q"))
    one = fitted(FirstStage(n_networks=2, n_trees=8, folds=2, rng=0), frame, truth)
    one.save(tmp_path / "c.hlpr")
    again = load_model(tmp_path / "c.hlpr")
    np.testing.assert_array_equal(again.scores(frame), one.scores(frame))
    assert again.describe() == one.describe()
