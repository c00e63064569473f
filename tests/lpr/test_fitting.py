"""fit_lpr on awkward labels, weights, sparse scores and bad input."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, HierLPR
from hierlpr.exceptions import DataError
from hierlpr.lpr import ESTIMATORS, fit_lpr, make_estimator

METHODS = sorted(set(ESTIMATORS) - {"probability"})  # which has tests of its own


def simulated(n=400, n_labels=6, seed=0, shift=2.0, prevalence=0.2):
    rng = np.random.default_rng(seed)
    truth = rng.random((n, n_labels)) < prevalence
    return rng.normal(size=(n, n_labels)) + shift * truth, truth


@pytest.mark.parametrize("method", METHODS)
def test_every_estimator_gives_monotone_curves_inside_the_unit_interval(method):
    scores, truth = simulated(n=1000)
    model = fit_lpr(scores, truth, method=method)
    lpr = model.predict(scores)
    assert lpr.shape == scores.shape
    assert lpr.min() > 0.0
    assert lpr.max() < 1.0
    for k in range(model.n_labels):
        assert np.all(np.diff(lpr[np.argsort(scores[:, k]), k]) >= 0)
        assert lpr[:, k].mean() == pytest.approx(truth[:, k].mean(), rel=0.25)
    assert lpr[truth].mean() > 2 * lpr[~truth].mean()


@pytest.mark.parametrize("method", METHODS)
def test_awkward_labels(method):
    """No positive, one, two, all but one, all; constant and two-valued scores; huge values."""
    n = 300
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(n, 9))
    truth = np.zeros((n, 9), bool)
    truth[:1, 1] = truth[:2, 2] = True
    truth[1:, 3] = True
    truth[:, 4] = True
    truth[:, 5:] = rng.random((n, 4)) < 0.3
    scores[:, 5] = 7.0
    scores[:, 6] = truth[:, 6] ^ (rng.random(n) < 0.1)
    scores[:, 7] = 1e300 * scores[:, 7]
    scores[:, 8] = truth[:, 8] * 1e-300  # the classes separate
    model = fit_lpr(scores, truth, method=method)
    lpr = model.predict(scores)
    assert np.all((lpr > 0) & (lpr < 1))
    mean = lpr.mean(axis=0)
    assert max(mean[:3]) < 0.05
    assert min(mean[3:5]) > 0.95
    assert np.ptp(lpr[:, 5]) == 0.0
    assert mean[5] == pytest.approx(truth[:, 5].mean(), abs=0.005)
    for value in (0, 1):
        chosen = scores[:, 6] == value
        assert np.ptp(lpr[chosen, 6]) == 0.0
        assert lpr[chosen, 6][0] == pytest.approx(truth[chosen, 6].mean(), abs=0.06)
    assert lpr[truth[:, 8], 8].min() > 0.8
    report = model.report
    assert "equal" in report.fallback[5] or method in ("isotonic",)
    assert report.positives.tolist() == truth.sum(axis=0).tolist()
    assert report.negatives.tolist() == (~truth).sum(axis=0).tolist()


def test_auto_says_what_it_did_for_rare_labels():
    scores, truth = simulated(n=600, n_labels=8)
    for k, n_positive in enumerate([0, 1, 2, 9]):
        truth[:, k] = False
        truth[:n_positive, k] = True
    report = fit_lpr(scores, truth, kappa=10.0).report
    for k, n_positive in enumerate([0, 1, 2, 9]):
        weight = 10.0 / (n_positive + 10.0)
        assert report.shared_weight[k] == pytest.approx(weight)
        assert report.fallback[k].startswith(f"{n_positive} positives: {weight:.0%} from the")
    assert report.is_weak.tolist() == [True] * 4 + [False] * 4
    assert report.fallback[4:].tolist() == [""] * 4
    assert np.all(report.shared_weight[4:] < 0.2)


def test_a_label_without_positives_has_the_shared_curve():
    scores, truth = simulated(n=2000, n_labels=6)
    truth[:, 0] = False
    model = fit_lpr(scores, truth)
    lpr = model.predict(scores)
    assert lpr[:, 0].mean() < 2.0 / 2000
    assert lpr[:, 0].max() > 5 * lpr[:, 0].min()
    alone = fit_lpr(scores[:, 0], truth[:, 0]).predict(scores[:, 0])
    assert alone.max() < 1.01 * alone.min()


@pytest.mark.parametrize("joint", [True, "auto"])
@pytest.mark.parametrize("kind", ["dense", "listed", "weights", "unknown truth", "isotonic"])
def test_threads_change_nothing(kind, joint, monkeypatch, tmp_path):
    """Model files and all predictions are equal to the last bit for any number of threads."""
    monkeypatch.setattr("hierlpr._kernels._jit.WORTH_SHARING", 1)
    rng = np.random.default_rng(7)
    h = Hierarchy([(f"{p}", f"{p}.{c}") for p in range(8) for c in range(4)])
    truth = h.close_upward(rng.random((600, 40)) < rng.uniform(0.002, 0.3, 40))
    table = rng.normal(size=truth.shape) + 2.0 * truth
    weight, bound = (rng.random(300), 1.0) if kind == "weights" else (None, None)
    known = truth.astype(float)
    if kind == "listed":
        shown = np.nonzero(table > rng.uniform(-0.5, 2.5, 40))  # from most samples to few
        table = sparse.csr_array((table[shown], shown), shape=truth.shape)
    if kind == "unknown truth":
        known[rng.random(known.shape) < 0.2] = np.nan
    fit, held = slice(300), slice(300, None)
    target = {"precision": 0.6, "max_weight": bound, "sample_weight": weight, "confidence": 0.9}
    found = []
    for n_jobs in (1, 2, 3, 8, 32):
        monkeypatch.setenv("HIERLPR_NUM_THREADS", str(n_jobs))
        model = HierLPR(h, lpr="isotonic" if kind == "isotonic" else "auto", joint=joint)
        model.fit(table[fit], known[fit], sample_weight=weight)
        model.calibrate(table[held], known[held], **target)
        model.calibrate_sets(table[held], truth[held]).save(tmp_path / "m.hlpr")
        sets, ranking = model.predict_sets(table), model.rank(table)
        tables = (model.predict_proba(table), model.predict(table), sets.sure, sets.possible)
        dense = [x.toarray() if sparse.issparse(x) else np.asarray(x) for x in tables]
        order = (ranking.sample, ranking.label, ranking.lpr, ranking.score)
        written = (tmp_path / "m.hlpr").read_bytes()
        found.append(written + b"".join(x.tobytes() for x in (*dense, *order)))
    assert model.predict(table).sum() > 0
    assert found == [found[0]] * 5


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"auto"}))
def test_what_is_not_stored_is_lower_than_every_stored_score(method):
    scores, truth = simulated(n=500, n_labels=5)
    scores = np.round(scores, 1)
    listed = np.random.default_rng(5).random(scores.shape) < 0.3
    listed[:, 4] = False
    listed[:, 3] = True  # nothing absent
    stored = sparse.csr_array((scores[listed], np.nonzero(listed)), shape=scores.shape)
    assert (stored.data < 0.0).any()
    assert (stored.data == 0.0).any()  # a score like any other
    dense = fit_lpr(np.where(listed, scores, -99.0), truth, method=method)
    for truth_form in (truth, sparse.csr_array(truth), sparse.csc_array(truth.astype(float))):
        model = fit_lpr(stored, truth_form, method=method)
        got = model.predict(stored)
        assert got.nnz == stored.nnz
        want = dense.predict(scores)[listed]
        np.testing.assert_allclose(got.toarray()[listed], want, rtol=1e-12)
        assert model.report.positives.tolist() == truth.sum(axis=0).tolist()
        # What was never listed has its prevalence, below and above alike.
        never = model.predict(np.full((1, 5), 9.0))[0, 4]
        assert never == pytest.approx(dense.predict(np.full((1, 5), 9.0))[0, 4])


def test_samples_that_list_nothing_teach_nothing():
    scores, truth = simulated(n=300, n_labels=3)
    kept = np.random.default_rng(0).random(300) < 0.5
    empty = sparse.csr_array(scores * kept[:, None])
    alone, among = fit_lpr(sparse.csr_array(scores[kept]), truth[kept]), fit_lpr(empty, truth)
    assert among.curves.knot_lpr.tobytes() == alone.curves.knot_lpr.tobytes()
    assert among.report.positives.tolist() == alone.report.positives.tolist()
    with pytest.raises(DataError, match="list nothing"):
        fit_lpr(sparse.csr_array((3, 2)), np.zeros((3, 2)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("truth", [[0], [1], [0, 0], [1, 0], [0, 1], [1, 1], [0, 1, 0]])
def test_a_handful_of_samples(method, truth):
    for scores in (np.arange(len(truth)) * 1.0, np.zeros(len(truth))):
        lpr = fit_lpr(scores, truth, method=method).predict(scores)
        assert np.all((lpr > 0.0) & (lpr < 1.0))


@pytest.mark.parametrize("method", METHODS)
def test_weight_zero_leaves_a_sample_out_and_scale_does_not_matter(method):
    scores, truth = simulated(n=500, n_labels=2)
    keep = np.random.default_rng(1).random(500) < 0.6
    out = fit_lpr(scores[keep], truth[keep], method=method)
    weighted = fit_lpr(scores, truth, method=method, sample_weight=keep * 3.7)
    assert weighted.curves.knot_score == pytest.approx(out.curves.knot_score)
    assert weighted.curves.knot_lpr == pytest.approx(out.curves.knot_lpr, rel=1e-6)
    assert weighted.report.positives.tolist() == truth[keep].sum(axis=0).tolist()


@pytest.mark.parametrize("method", METHODS)
def test_weights_move_the_prevalence(method):
    scores, truth = simulated(n=3000, n_labels=1, prevalence=0.3)
    weight = np.where(truth[:, 0], 1.0, 3.0)
    lpr = fit_lpr(scores, truth, method=method, sample_weight=weight).predict(scores)
    target = np.average(truth[:, 0], weights=weight)
    assert np.average(lpr[:, 0], weights=weight) == pytest.approx(target, rel=0.1)
    sparse_model = fit_lpr(sparse.csr_array(scores + 9), truth, method=method, sample_weight=weight)
    assert sparse_model.predict(scores + 9) == pytest.approx(lpr, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [[np.nan, 1.0], [0.0, 1.0]]}, "not finite.*sample 0, label 'a'"),
        ({"scores": [[0.0, 1.0], [0.0, np.inf]]}, "not finite.*sample 1, label 'b'"),
        ({"scores": [[0.0, 1.0]]}, "scores have 1 samples, truth 2"),
        ({"scores": np.zeros((0, 2)), "truth": np.zeros((0, 2))}, "nothing to fit"),
        ({"scores": np.zeros((2, 2, 2))}, "matrix"),
        ({"scores": [["x", "y"], ["z", "w"]]}, "real numbers"),
        ({"truth": [[0, 2], [1, 0]]}, "other than 0, 1 and unknown: 2.0 at sample 0, label 'b'"),
        ({"truth": [[0, 1, 1], [1, 0, 0]]}, "3 columns, but there are 2 labels"),
        ({"labels": ["a"]}, "2 columns, but there are 1 labels"),
        ({"sample_weight": [1.0]}, "one per sample"),
        ({"sample_weight": [1.0, -1.0]}, "must lie from 0"),
        ({"sample_weight": [0.0, 0.0]}, "at least one"),
        ({"method": "platt"}, "must be one of 'auto'"),
        ({"method": ["auto"]}, "the name of an LPR estimator or one itself"),
        ({"method": "isotonic", "folds": 3}, "no option 'folds'.*\n.*shrinkage"),
        ({"method": "isotonic", "shrinkage": -1.0}, "shrinkage must be"),
        ({"kappa": -1.0}, "kappa must be"),
        ({"scale": "log"}, "scale must be"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"scores": [[0.0, 1.0], [1.0, 0.0]], "truth": [[0, 1], [1, 0]], "labels": ["a", "b"]}
    given |= change
    with pytest.raises(DataError, match=message):
        fit_lpr(given.pop("scores"), given.pop("truth"), **given)


@pytest.mark.parametrize("index", [10**8, -1])
@pytest.mark.parametrize("scores", [np.eye(2), sparse.csr_array(np.eye(2))])
def test_sparse_truth_with_an_index_outside_is_refused(index, scores):
    """A kernel would write there: an index of 10**8 ended the process, -1 gave a result."""
    truth = sparse.csr_array(np.eye(2, dtype=bool))
    truth.indices[0] = index
    with pytest.raises(DataError, match="truth is not a valid sparse matrix"):
        fit_lpr(scores, truth)


@pytest.mark.parametrize("kind", ["dense", "listed"])
def test_samples_of_unknown_truth_are_left_out_of_a_curve(kind):
    scores, truth = simulated(n=400, n_labels=2)
    given = scores if kind == "dense" else sparse.csr_array(scores + 9)
    holes = truth.astype(float)
    holes[::3, 0] = np.nan
    known = np.flatnonzero(~np.isnan(holes[:, 0]))
    model = fit_lpr(given, holes, method="isotonic")
    alone = fit_lpr(given[known][:, [0]], truth[known, :1], method="isotonic")
    assert model.report.unknown.tolist() == [134, 0]
    assert np.array_equal(model.select([0]).curves.knot_lpr, alone.curves.knot_lpr)


def test_a_classifier_that_misleads_is_told_apart():
    """Positives in the middle of the scores: no monotone curve can follow."""
    rng = np.random.default_rng(0)
    truth = rng.random((2000, 2)) < 0.2
    scores = rng.normal(size=truth.shape)
    scores[truth[:, 0], 0] *= 0.1
    scores[truth[:, 1], 1] += 2.0
    shift = fit_lpr(scores, truth).report.monotone_shift
    assert shift[0] > 0.05
    assert shift[1] < 0.002


def test_an_estimator_may_be_passed_itself():
    scores, truth = simulated(n_labels=2)
    mine = make_estimator("isotonic", shrinkage=2.0)
    model = fit_lpr(scores, truth, method=mine)
    named = fit_lpr(scores, truth, method="isotonic", shrinkage=2.0)
    assert np.array_equal(model.predict(scores), named.predict(scores))
    with pytest.raises(DataError, match="Options belong"):
        fit_lpr(scores, truth, method=mine, shrinkage=1.0)
