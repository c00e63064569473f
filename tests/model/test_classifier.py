import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from cases import FEATURE_TREE as TREE
from cases import features
from hierlpr import HierarchicalClassifier, Hierarchy, HierLPR, HierlprError
from hierlpr.data.truth import align_truth
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.first_stage import FirstStage


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

    monkeypatch.setattr("hierlpr.model.HierLPR.fit_aligned", stopped)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(*data[1])
    with pytest.raises(NotFittedError):
        classifier.predict(data[0][0])


@pytest.fixture(scope="module")
def fitted(data):
    return HierarchicalClassifier(LogisticRegression(), hierarchy=TREE, precision=0.8).fit(*data[0])


def test_features_in_calls_out(data, fitted):
    x, truth = data[1]
    calls = fitted.predict(x)
    assert len(TREE.violations(calls)) == 0
    assert truth[calls].mean() > 0.75
    assert fitted.cutoff_.reachable
    assert fitted.score(x, truth) > 0.7
    assert sum(map(len, fitted.call_lists(x))) == calls.sum()
    ranking = fitted.rank(x)
    np.testing.assert_array_equal(
        ranking.score, fitted.predict_proba(x)[ranking.sample, ranking.label]
    )
    assert len(fitted.rank(x, top=10)) == 10


def test_scores_are_out_of_fold_and_the_cutoff_has_samples_of_its_own(data, fitted):
    x, truth = data[0]
    apart = fitted.held_out_
    assert apart.size == 300
    assert np.isnan(fitted.oof_scores_[apart]).all()
    kept = np.setdiff1d(np.arange(900), apart)
    assert np.isfinite(fitted.oof_scores_[kept]).all()
    own = clone(fitted.estimator).fit(x[kept], truth[kept, 0])
    np.testing.assert_allclose(fitted.scores(x)[:, 0], own.predict_proba(x)[:, 1])
    assert not np.allclose(fitted.oof_scores_[kept, 0], fitted.scores(x[kept])[:, 0])
    assert fitted.cutoff_.result.n_samples == 300


def test_the_same_seed_gives_the_same_result_with_any_number_of_jobs(data, fitted):
    again = clone(fitted).set_params(n_jobs=2).fit(*data[0])
    np.testing.assert_array_equal(again.predict_proba(data[1][0]), fitted.predict_proba(data[1][0]))
    other = clone(fitted).set_params(random_state=1).fit(*data[0])
    assert not np.array_equal(other.held_out_, again.held_out_)


def test_classifiers_need_no_probabilities(data):
    ridge = HierarchicalClassifier(RidgeClassifier(), TREE, cv=3, joint=False).fit(*data[0])
    assert ridge.score(*data[1]) > 0.6


def test_labels_with_too_few_positives_get_their_prevalence(data):
    x, truth = data[0]
    rare = truth.copy()
    rare[:, 3] = False  # never
    rare[:, 4] = True  # always
    rare[:, 2] = False
    rare[np.flatnonzero(rare[:, 0])[:2], 2] = True  # twice
    classifier = HierarchicalClassifier(LogisticRegression(), TREE, cv=3)
    classifier.fit(x, rare)
    assert [e is None for e in classifier.estimators_] == [False, False, True, True, True]
    lpr = classifier.model_.transform(classifier.scores(x))
    assert lpr[:, 2].max() < 0.01  # 2 of 536 samples with its parent have it
    assert lpr[:, 2].mean() == pytest.approx(2 / 900, abs=0.001)
    assert lpr[:, 3].max() < 0.01
    assert lpr[:, 4].min() > 0.99
    assert classifier.model_.lpr_.report.shared_weight[3] == 1.0


def test_a_fold_without_positives_is_filled_in():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    truth = np.zeros((40, 1), dtype=bool)
    truth[:3] = True
    x[:3] += 3
    classifier = HierarchicalClassifier(LogisticRegression(), cv=2)
    for seed in range(8):
        classifier.set_params(random_state=seed).fit(x, truth)
        assert np.isfinite(classifier.oof_scores_).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fdr": 0.1, "precision": 0.9}, "exactly one"),
        ({"fdr": 0.1, "holdout": 1.5}, "holdout must lie"),
        ({"cv": 1}, "cv must be a whole number of at least 2"),
        ({"unreachable": "x"}, "unreachable must be one of 'best-precision'"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number that is not 0"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0"),
        ({"lpr": "nope"}, r"lpr \(method\) must be one of"),
        ({"joint": "nope"}, "joint must be False, True or 'auto'"),
        ({"estimator": LogisticRegression}, "estimator must be 'auto'"),
    ],
)
def test_wrong_options_fail_before_fitting(data, options, message, monkeypatch):
    def fit(*_):
        raise AssertionError("fitting began")

    classifier = HierarchicalClassifier(LogisticRegression(), TREE).set_params(**options)
    monkeypatch.setattr(LogisticRegression, "fit", fit)
    with pytest.raises(HierlprError, match=message):
        classifier.fit(*data[0])


def test_wrong_data(data):
    x, truth = data[0]
    classifier = HierarchicalClassifier(LogisticRegression(), TREE, fdr=0.1)
    with pytest.raises(DataError, match="X has 10 samples, truth 900"):
        classifier.fit(x[:10], truth)
    with pytest.raises(DataError, match="Too few training samples for 5 folds"):
        classifier.fit(x[:6], truth[:6])


def test_weights_count_in_training_curves_and_cutoff(data):
    (x, truth), _ = data
    weight = np.random.default_rng(3).choice([0.0, 1.0, 4.0], size=len(x))
    plain = HierarchicalClassifier(LogisticRegression(), TREE, precision=0.8, joint=False)
    own = clone(plain).fit(x, truth, sample_weight=weight)
    used = np.flatnonzero(weight)
    assert np.isnan(own.oof_scores_[weight == 0]).all()
    assert np.isin(own.held_out_, used).all()
    kept = np.setdiff1d(used, own.held_out_)
    alone = LogisticRegression().fit(x[kept], truth[kept, 0], sample_weight=weight[kept])
    np.testing.assert_allclose(own.estimators_[0].coef_, alone.coef_)
    left = clone(plain).fit(x[used], truth[used], sample_weight=weight[used])
    np.testing.assert_array_equal(own.predict(x), left.predict(x))
    assert "weighted, equivalent" in str(own.cutoff_)
    assert own.cutoff_.level != clone(plain).fit(x[used], truth[used]).cutoff_.level
    alike = clone(plain).fit(x, truth, sample_weight=np.full(len(x), 3.0))
    np.testing.assert_array_equal(
        alike.predict_proba(x), clone(plain).fit(x, truth).predict_proba(x)
    )


def test_a_certificate_of_a_classifier_needs_a_bound_before_hours_of_fitting(data, monkeypatch):
    (x, truth), _ = data
    sure = HierarchicalClassifier(LogisticRegression(), TREE, precision=0.7, confidence=0.8)
    # What has the same weight here need not have it among the next samples.
    bounded = clone(sure).set_params(max_weight=3.0).fit(x, truth, np.full(len(x), 2.0))
    assert "certified for weights up to 3" in str(bounded.cutoff_)
    monkeypatch.setattr(HierarchicalClassifier, "_fit_estimators", None)  # nothing gets that far
    with pytest.raises(DataError, match="needs max_weight="):
        clone(sure).fit(x, truth, np.full(len(x), 2.0))
    with pytest.raises(DataError, match="sample_weight is 9 for sample 7, more than max_weight=3"):
        clone(bounded).fit(x, truth, np.where(np.arange(len(x)) == 7, 9.0, 0.5))
    for change in ({"confidence": None}, {"confidence": None, "precision": None}):
        with pytest.raises(DataError, match="max_weight= is only used with sample_weight="):
            clone(bounded).set_params(**change).fit(x, truth, np.ones(len(x)))


def test_weights_reach_the_last_step_of_a_pipeline_and_others_say_that_they_do_not(data):
    (x, truth), _ = data
    weight = np.where(truth[:, 0], 5.0, 1.0)
    inside = make_pipeline(StandardScaler(), LogisticRegression())
    alone = clone(inside).fit(x, truth[:, 0], logisticregression__sample_weight=weight)
    for routing in (False, True):
        with config_context(enable_metadata_routing=routing):
            own = HierarchicalClassifier(inside, TREE, cv=2).fit(x, truth, weight)
        np.testing.assert_allclose(own.scores(x)[:, 0], alone.predict_proba(x)[:, 1])
        assert own.weighs_training_
    near = HierarchicalClassifier(KNeighborsClassifier(), TREE, cv=2).fit(x, truth, weight)
    assert near.weighs_training_ is False


def test_weights_are_routed(data):
    (x, truth), (x_new, truth_new) = data
    weight = np.random.default_rng(3).uniform(0.5, 2.0, len(x))
    again = weight[: len(x_new)]
    own = HierarchicalClassifier(LogisticRegression(), TREE, cv=2)
    direct = clone(own).fit(x, truth, weight).score(x_new, truth_new, again)
    with config_context(enable_metadata_routing=True):
        own.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipe = make_pipeline("passthrough", own).fit(x, truth, sample_weight=weight)
        assert pipe.score(x_new, truth_new, sample_weight=again) == direct


# -- truth of which some is unknown ------------------------------------------------------------


def with_gaps(truth, share=0.3, rng=0):
    gaps = np.asarray(truth, dtype=float)
    return np.where(np.random.default_rng(rng).random(gaps.shape) < share, np.nan, gaps)


def test_a_classifier_of_a_label_is_fitted_where_the_label_is_known(data):
    """Given, or lacking with a parent; that it holds by a child is known because it holds."""
    (x, truth), h = data[0], TREE
    gaps = with_gaps(truth)
    found = HierarchicalClassifier(LogisticRegression(), hierarchy=h).fit(x, gaps)
    partial = align_truth(gaps, h)
    for k in range(h.n_labels):
        known = ~np.isnan(gaps[:, k]) | (partial.is_known[:, k] & ~partial.positive[:, k])
        alone = LogisticRegression().fit(x[known], truth[known, k])
        np.testing.assert_allclose(found.estimators_[k].coef_, alone.coef_, atol=1e-6)
    assert np.isfinite(found.oof_scores_).all()
    expected = HierLPR(h).fit(found.oof_scores_, gaps)
    np.testing.assert_array_equal(found.model_.lpr_.curves.knot_lpr, expected.lpr_.curves.knot_lpr)


def test_sets_and_names_are_those_of_the_scores(data):
    (x, truth), (x_new, truth_new) = data
    classifier = HierarchicalClassifier(LogisticRegression(), TREE, cv=2, joint=False)
    with pytest.raises(NotFittedError):
        classifier.predict_sets(x)
    classifier.fit(x[:500], truth[:500])
    assert classifier.calibrate_sets(x[500:], truth[500:], error=0.2, confidence=0.8) is classifier
    frame = pd.DataFrame(x_new, index=[f"s{i}" for i in range(len(x_new))])
    sets = classifier.predict_sets(frame)
    np.testing.assert_array_equal(
        sets.sure, classifier.model_.predict_sets(classifier.scores(x_new)).sure
    )
    assert (sets.sure & ~truth_new).any(axis=1).mean() < 0.25
    names = classifier.assign(frame)
    assert names["sample"][3] == "s3"
    assert names["label"].notna().mean() > 0.1


# -- samples that belong together ---------------------------------------------------------------


def visits(n_patients, rng):
    """Features, truth and patients, with 1 to 7 visits of each, who say who the patient is."""
    rng = np.random.default_rng(rng)
    patient = np.repeat(np.arange(n_patients), rng.integers(1, 8, n_patients))
    x, truth = features(n_patients, rng.integers(2**31))
    return x[patient] + 0.3 * rng.normal(size=(patient.size, 6)), truth[patient], patient


@pytest.mark.parametrize("estimator", [LogisticRegression(), FirstStage(members=["kernel"])])
def test_folds_and_the_cutoff_keep_clusters_whole(estimator):
    x, truth, patient = visits(150, 0)
    names = np.array([f"pt{p}" for p in patient])
    classifier = HierarchicalClassifier(estimator, TREE, precision=0.6, joint=False)
    classifier.fit(x, truth, clusters=pd.Series(names))
    apart = classifier.held_out_
    kept = np.setdiff1d(np.arange(len(x)), apart)
    assert not np.isin(patient[apart], patient[kept]).any()
    assert apart.size == pytest.approx(len(x) / 3, abs=4)
    assert classifier.cutoff_.result.n_clusters == np.unique(patient[apart]).size
    expected = HierLPR(TREE, lpr=classifier.model_.lpr, joint=False)
    expected.fit(classifier.oof_scores_[kept], truth[kept], clusters=names[kept])
    np.testing.assert_array_equal(
        classifier.model_.lpr_.curves.knot_lpr, expected.lpr_.curves.knot_lpr
    )
    again = clone(classifier).fit(x, truth, clusters=pd.DataFrame({"patient": names}))
    np.testing.assert_array_equal(again.predict_proba(x), classifier.predict_proba(x))
    alone = clone(classifier).fit(x, truth, clusters=np.arange(len(x)))
    np.testing.assert_array_equal(
        alone.predict_proba(x), clone(classifier).fit(x, truth).predict_proba(x)
    )


def test_out_of_fold_scores_do_not_know_the_truth_of_the_cluster():
    x, _, patient = visits(150, 1)
    noise = (np.random.default_rng(0).random((150, 1)) < 0.5)[patient]
    classifier = HierarchicalClassifier(KNeighborsClassifier(3))
    assert classifier.fit(x, noise).model_.lpr_.report.auc[0] > 0.7
    assert classifier.fit(x, noise, clusters=patient).model_.lpr_.report.auc[0] < 0.62


def test_clusters_that_are_too_few_or_missing():
    x, truth, patient = visits(60, 2)
    classifier = HierarchicalClassifier(LogisticRegression(), TREE, maximize="f1")
    for clusters, message in (
        (patient[1:], "clusters has .* ids for"),
        (np.where(patient == 3, None, patient.astype(object)), "ids are missing"),
        (patient * 0, "are of one cluster"),
        (patient % 2, r"2 cluster\(s\) for .* at least 3 are needed"),
        (patient % 4, "Too few training samples for 5 folds: .* clusters stay whole"),
    ):
        with pytest.raises(DataError, match=message):
            classifier.fit(x, truth, clusters=clusters)
    assert classifier.fit(x, truth, clusters=patient % 10).cutoff_.result.n_clusters == 3


def test_clusters_and_copies_that_nobody_mentioned_are_warned_of():
    x, truth, patient = visits(100, 3)
    classifier = HierarchicalClassifier(
        LogisticRegression(max_iter=1000), TREE, precision=0.6, confidence=0.8, joint=False
    )
    frame = pd.DataFrame(x, columns=list("abcdef"))
    visit = [f"pt{p:03}_visit{i}" for i, p in enumerate(patient)]
    rng = np.random.default_rng(0)
    first = np.unique(patient, return_index=True)[1]
    copies, twice = x[first] + 0.05 * rng.normal(size=(100, 6)), np.tile(first, 2)
    for features_of, rows, sign in (
        (frame.assign(patient_id=patient), slice(None), "patient_id"),
        (frame.set_index(pd.Index(patient, name="Donor")), slice(None), "Donor"),
        (frame.set_index(pd.Index(visit)), slice(None), "such as 'pt"),
        (np.vstack([x[first], copies]), twice, "nearly equal"),
    ):
        with pytest.warns(HierlprWarning, match=f"may belong together: .*{sign}"):
            classifier.fit(features_of, truth[rows])
        assert "may belong together" in classifier.cutoff_.caveats
    with pytest.warns(HierlprWarning, match="may belong together: .*'patient_id'"):
        clone(classifier).set_params(confidence=None).fit(frame.assign(patient_id=patient), truth)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Samples may belong together")
        classifier.fit(frame.assign(patient_id=patient), truth, clusters=patient)
        clone(classifier).set_params(precision=None, confidence=None).fit(frame, truth)
        classifier.fit(frame.iloc[first].assign(patient_id=patient[first]), truth[first])


class RecordingVectorizer(TfidfVectorizer):
    """A vectorizer that remembers every text it was fitted on."""

    seen: ClassVar[set[str]] = set()

    def fit(self, raw_documents, y=None):
        self.seen.update(raw_documents)
        return super().fit(raw_documents, y)

    def fit_transform(self, raw_documents, y=None):
        self.seen.update(raw_documents)
        return super().fit_transform(raw_documents, y)


@pytest.mark.filterwarnings("ignore:The scores of")  # training samples have other scores
@pytest.mark.parametrize("estimator", ["pipeline", "first stage"])
def test_a_vectorizer_inside_is_never_fitted_on_the_calibration_part(estimator, monkeypatch):
    h = Hierarchy([("animal", "dog")])
    rng = np.random.default_rng(0)
    truth = h.close_upward(rng.random((120, 2)) < 0.4)
    words = np.array([["stone", "wolf"], ["sky", "barks"]])
    texts = [f"{words[0][int(a)]} {words[1][int(b)]} n{i}" for i, (a, b) in enumerate(truth)]
    RecordingVectorizer.seen = set()
    if estimator == "pipeline":
        first = make_pipeline(RecordingVectorizer(), LogisticRegression())
    else:
        monkeypatch.setattr("hierlpr.first_stage.encoding.TfidfVectorizer", RecordingVectorizer)
        first = FirstStage(members=["forest", "kernel"], n_trees=10)
    for given in (texts, pd.Series(texts)):
        model = HierarchicalClassifier(first, h, fdr=0.3, joint=False, unreachable="best-precision")
        model.fit(given, truth)
        held_out = {texts[i] for i in model.held_out_}
        assert len(held_out) == 40
        assert RecordingVectorizer.seen == set(texts) - held_out
        assert model.predict(given).shape == (120, 2)
        assert model.score(given, truth) > 0.8


def test_only_fitted_steps_of_a_pipeline_in_front_are_warned_of():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3))
    truth = TREE.close_upward(x[:, :1] + rng.normal(size=(90, 5)) > 0)
    classifier = HierarchicalClassifier(LogisticRegression(), TREE, cv=3, maximize="f1")
    make_pipeline(Normalizer(), "passthrough", classifier).fit(x, truth)
    with pytest.warns(HierlprWarning, match="StandardScaler in front"):
        make_pipeline(StandardScaler(), classifier).fit(x, truth)
