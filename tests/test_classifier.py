import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hierlpr import HierarchicalClassifier, Hierarchy, HierlprError
from hierlpr.exceptions import DataError
from realdata import DATA, needs_data

TREE = Hierarchy([("A", "B"), ("A", "C"), ("B", "D")], labels=["A", "B", "C", "D", "E"])


def features(n_samples, rng):
    rng = np.random.default_rng(rng)
    x = rng.normal(size=(n_samples, 6))
    noisy = x[:, :5] + 0.5 * rng.normal(size=(n_samples, 5))
    truth = noisy > [-0.3, 0.0, 0.0, 0.0, 0.5]
    truth[:, 1:3] &= truth[:, :1]
    truth[:, 3] &= truth[:, 1]
    return x, truth


@pytest.fixture(scope="module")
def data():
    return features(900, 0), features(600, 1)


def test_an_interrupted_fit_leaves_no_promise_of_the_one_before(data, monkeypatch):
    """Classifiers may be new by then, and the cutoff was certified for the old ones."""
    classifier = HierarchicalClassifier(
        LogisticRegression(), hierarchy=TREE, precision=0.7, confidence=0.9
    ).fit(*data[0])
    assert classifier.cutoff_.reachable

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("hierlpr.model.classifier.HierLPR.fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(*data[1])
    with pytest.raises(NotFittedError):
        classifier.predict(data[0][0])


@pytest.fixture(scope="module")
def fitted(data):
    progress = []
    classifier = HierarchicalClassifier(LogisticRegression(), hierarchy=TREE, precision=0.8)
    classifier.fit(*data[0], on_progress=lambda done, total: progress.append((done, total)))
    return classifier, progress


def test_features_in_calls_out(data, fitted):
    classifier, _ = fitted
    x, truth = data[1]
    calls = classifier.predict(x)
    assert len(TREE.violations(calls)) == 0
    assert truth[calls].mean() > 0.75
    assert classifier.cutoff_.reachable
    assert classifier.score(x, truth) > 0.7
    assert sum(map(len, classifier.call_lists(x))) == calls.sum()
    ranking = classifier.rank(x)
    np.testing.assert_array_equal(
        ranking.score, classifier.predict_proba(x)[ranking.sample, ranking.label]
    )
    assert len(classifier.rank(x, top=10)) == 10


def test_progress_counts_every_classifier(fitted):
    progress = fitted[1]
    assert progress[-1] == (5 * 6, 5 * 6)
    assert progress == sorted(progress)


def test_scores_are_out_of_fold_and_the_cutoff_has_samples_of_its_own(data, fitted):
    classifier, _ = fitted
    x, truth = data[0]
    apart = classifier.held_out_
    assert apart.size == 300
    assert np.isnan(classifier.oof_scores_[apart]).all()
    kept = np.setdiff1d(np.arange(900), apart)
    assert np.isfinite(classifier.oof_scores_[kept]).all()
    own = clone(classifier.estimator).fit(x[kept], truth[kept, 0])
    np.testing.assert_allclose(classifier.scores(x)[:, 0], own.predict_proba(x)[:, 1])
    assert not np.allclose(classifier.oof_scores_[kept, 0], classifier.scores(x[kept])[:, 0])
    assert classifier.cutoff_.n_samples == 300


def test_out_of_fold_scores_do_not_know_their_own_truth():
    # Nothing can be learned here, but a forest fits its own training samples perfectly.
    rng = np.random.default_rng(0)
    x, truth = rng.normal(size=(300, 4)), rng.random((300, 1)) < 0.5
    forest = RandomForestClassifier(20, random_state=0)
    classifier = HierarchicalClassifier(forest, maximize="f1").fit(x, truth)
    assert classifier.model_.lpr_.diagnostics()["auc"][0] < 0.65


def test_the_same_seed_gives_the_same_result_with_any_number_of_jobs(data, fitted):
    again = clone(fitted[0]).set_params(n_jobs=2).fit(*data[0])
    np.testing.assert_array_equal(
        again.predict_proba(data[1][0]), fitted[0].predict_proba(data[1][0])
    )
    other = clone(fitted[0]).set_params(rng=1).fit(*data[0])
    assert not np.array_equal(other.held_out_, again.held_out_)


def test_without_a_goal_nothing_is_held_out(data):
    classifier = HierarchicalClassifier(LogisticRegression(), hierarchy=TREE).fit(*data[0])
    assert classifier.held_out_.size == 0
    assert classifier.cutoff_.level == 0.5


def test_sparse_features(data, fitted):
    x, truth = data[0]
    classifier = clone(fitted[0]).fit(sparse.csr_array(x), truth)
    np.testing.assert_allclose(
        classifier.predict_proba(sparse.csr_array(data[1][0])),
        fitted[0].predict_proba(data[1][0]),
        atol=1e-3,
    )


def test_text_pipelines_inside_and_outside():
    rng = np.random.default_rng(0)
    words = {"A": "animal", "B": "dog", "C": "cat", "D": "poodle", "E": "stone"}
    truth = TREE.close_upward(rng.random((400, 5)) < 0.3)
    texts = [
        " ".join([*(words[x] for x, held in zip("ABCDE", row, strict=True) if held), "the", "a"])
        for row in truth
    ]
    inside = HierarchicalClassifier(
        make_pipeline(TfidfVectorizer(), LogisticRegression()), TREE, cv=3, maximize="f1"
    )
    outside = make_pipeline(
        TfidfVectorizer(), HierarchicalClassifier(LogisticRegression(), TREE, cv=3, maximize="f1")
    )
    for model in (inside.fit(texts, truth), outside.fit(texts, truth)):
        calls = model.predict(texts)
        assert len(TREE.violations(calls)) == 0
        assert (calls == truth).mean() > 0.95


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifiers_without_probabilities_and_of_all_labels_at_once(data):
    (x, truth), (x_new, truth_new) = data
    cases = [
        (RidgeClassifier(), False),
        (RandomForestClassifier(30, random_state=0), True),
        (MLPClassifier((8,), max_iter=200, random_state=0), True),
    ]
    for estimator, multi in cases:
        classifier = HierarchicalClassifier(
            estimator, TREE, multi_output=multi, cv=3, precision=0.8
        ).fit(x, truth)
        assert len(TREE.violations(classifier.predict(x_new))) == 0
        assert classifier.score(x_new, truth_new) > 0.6


@pytest.mark.parametrize("multi", [False, True])
def test_labels_with_too_few_positives_get_their_prevalence(data, multi):
    x, truth = data[0]
    rare = truth.copy()
    rare[:, 3] = False  # never
    rare[:, 4] = True  # always
    rare[:, 2] = False
    rare[np.flatnonzero(rare[:, 0])[:2], 2] = True  # twice
    estimator = RandomForestClassifier(10, random_state=0) if multi else LogisticRegression()
    classifier = HierarchicalClassifier(estimator, TREE, multi_output=multi, cv=3)
    classifier.fit(x, rare)
    if not multi:
        assert [e is None for e in classifier.estimators_] == [False, False, True, True, True]
    lpr = classifier.model_.transform(classifier.scores(x))
    assert lpr[:, 2].max() < 0.01
    assert lpr[:, 3].max() < 0.01
    assert lpr[:, 4].min() > 0.99
    assert "prevalence" in classifier.model_.lpr_.diagnostics()["fallback"][3]


def test_a_fold_without_positives_is_filled_in():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    truth = np.zeros((40, 1), dtype=bool)
    truth[:3] = True
    x[:3] += 3
    classifier = HierarchicalClassifier(LogisticRegression(), cv=2, min_positives=1)
    for seed in range(8):
        classifier.set_params(rng=seed).fit(x, truth)
        assert np.isfinite(classifier.oof_scores_).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fdr": 0.1, "precision": 0.9}, "exactly one"),
        ({"confidence": 0.9}, "exactly one"),
        ({"fdr": 0.1, "holdout": 1.5}, "holdout must lie"),
        ({"cv": 1}, "cv >= 2"),
    ],
)
def test_wrong_options_fail_before_fitting(data, options, message):
    with pytest.raises(DataError, match=message):
        HierarchicalClassifier(LogisticRegression(), TREE, **options).fit(*data[0])


def test_wrong_data(data):
    x, truth = data[0]
    classifier = HierarchicalClassifier(LogisticRegression(), TREE, fdr=0.1)
    with pytest.raises(DataError, match="X has 10 samples, truth 900"):
        classifier.fit(x[:10], truth)
    with pytest.raises(DataError, match="too few for 5 folds"):
        classifier.fit(x[:6], truth[:6])
    with pytest.raises(HierlprError, match="must be 'auto', a member of"):
        HierarchicalClassifier("logistic", TREE).fit(x, truth)


@needs_data
@pytest.mark.slow
def test_funcat_cellcycle_one_logistic_model_a_label():
    from hierlpr.io import read_arff

    train = read_arff(DATA / "funcat" / "cellcycle_FUN.train.arff.gz")
    classifier = HierarchicalClassifier(
        make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(C=0.05)),
        train.hierarchy, fdr=0.5, n_jobs=2,
    )  # fmt: skip
    classifier.fit(train.features, train.truth)
    assert len(train.hierarchy.violations(classifier.predict(train.features))) == 0
