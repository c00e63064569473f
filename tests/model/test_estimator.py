import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from cases import choose_cutoff
from hierlpr import Hierarchy, HierlprWarning, simulate
from hierlpr.data.tables import align
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError, HierlprError, UnreachableWarning
from hierlpr.lpr import fit_known
from hierlpr.model import HierarchicalClassifier, HierLPR
from hierlpr.model.inputs import LabelledSamples
from hierlpr.ranking.blocks import consistent_scores


@pytest.fixture(scope="module")
def parts():
    model = simulate.setting_model("tree25", rng=1)
    return model.draw(1500, 2), model.draw(800, 3), model.draw(500, 4)


@pytest.fixture
def model(parts):
    fit, cal, _ = parts
    return HierLPR(fit.hierarchy).fit(fit.scores, fit.truth).calibrate(
        cal.scores, cal.truth, precision=0.8
    )  # fmt: skip


# -- scikit-learn's own checks -------------------------------------------------------------------

ONE_COLUMN = "the check wants one column from predict; ours: one per label"
CLASS_NUMBERS = "the check gives class numbers that are neither 0 and 1 nor labels"
COPIES = "a weight is no number of copies: folds and smoothing go by samples"
SCORES_FAIL = {
    "check_n_features_in_after_fitting": "the error counts labels, not features",
    "check_dtype_object": "entries that are no numbers raise DataError, a ValueError, where the "
    "check wants TypeError",
    "check_estimator_sparse_array": ONE_COLUMN,
    "check_estimator_sparse_matrix": ONE_COLUMN,
    "check_estimators_nan_inf": CLASS_NUMBERS,  # as floats
    "check_fit2d_1feature": CLASS_NUMBERS,
    "check_sample_weight_equivalence_on_dense_data": COPIES,
    "check_sample_weight_equivalence_on_sparse_data": "CSR scores list pairs, dense ones do not",
    "check_sample_weights_not_an_array": CLASS_NUMBERS,
    "check_sample_weights_not_overwritten": CLASS_NUMBERS,
    "check_sample_weights_pandas_series": CLASS_NUMBERS,
    "check_sample_weights_shape": CLASS_NUMBERS,
    "check_transformer_data_not_an_array": "the target is of a type that only the check has",
}
FEATURES_FAIL = {
    "check_estimator_sparse_array": ONE_COLUMN,
    "check_estimator_sparse_matrix": ONE_COLUMN,
    "check_estimators_dtypes": CLASS_NUMBERS,
    "check_fit2d_1feature": CLASS_NUMBERS,
    "check_sample_weight_equivalence_on_dense_data": COPIES,
    "check_sample_weight_equivalence_on_sparse_data": COPIES,
    "check_sample_weights_not_an_array": CLASS_NUMBERS,
    "check_sample_weights_not_overwritten": CLASS_NUMBERS,
    "check_sample_weights_pandas_series": CLASS_NUMBERS,
    "check_sample_weights_shape": CLASS_NUMBERS,
}


@pytest.mark.filterwarnings("ignore:The AUC of", "ignore:.*labelled sample.* are too few")
@parametrize_with_checks(
    [HierLPR(), HierarchicalClassifier(LogisticRegression(), cv=2)],
    expected_failed_checks=lambda x: SCORES_FAIL if isinstance(x, HierLPR) else FEATURES_FAIL,
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


# -- the stages in order -------------------------------------------------------------------------


def test_the_model_is_the_stages_one_after_another(parts):
    fit, _, test = parts
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    lpr = fit_known(fit.scores, Truth.of(fit.truth), fit.hierarchy, method="auto").predict(
        test.scores
    )
    np.testing.assert_array_equal(model.transform(test.scores), lpr)
    score = consistent_scores(lpr, fit.hierarchy)
    assert model.cutoff_.level == 0.5
    assert "not calibrated" in str(model.cutoff_)
    np.testing.assert_array_equal(model.predict_proba(test.scores), score)
    np.testing.assert_array_equal(model.predict(test.scores), score >= model.cutoff_.level)
    ranking = model.rank(test.scores)
    np.testing.assert_array_equal(ranking.score, score[ranking.sample, ranking.label])
    assert len(model.rank(test.scores, top=7)) == 7


def test_calls_meet_the_target_and_the_hierarchy(parts, model):
    test = parts[2]
    calls = model.predict(test.scores)
    assert len(test.hierarchy.violations(calls)) == 0
    assert test.truth[calls].mean() > 0.75
    assert model.cutoff_.precision >= 0.8
    lists = model.call_lists(test.scores)
    assert sum(map(len, lists)) == calls.sum()


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("most_parents", [1, 3])
def test_a_sample_alone_gets_what_it_gets_among_many(most_parents, joint):
    rng = np.random.default_rng(5)
    labels = [f"L{i}" for i in range(25)]
    edges = [
        (labels[p], labels[i]) for i in range(1, 25) for p in set(rng.integers(0, i, most_parents))
    ]
    h = Hierarchy(edges, labels=labels)
    truth = h.close_upward(rng.random((400, 25)) < 0.05)
    scores = truth + rng.normal(size=truth.shape)
    model = HierLPR(h, joint=joint).fit(scores, truth)
    lists = model.call_lists(scores)
    for method in (model.transform, model.predict_proba, model.predict):
        together = method(scores)
        for m in range(0, 400, 37):
            np.testing.assert_array_equal(method(scores[m : m + 1])[0], together[m])
            assert model.call_lists(scores[m : m + 1]) == [lists[m]]


def test_without_a_hierarchy_the_frame_names_the_labels():
    rng = np.random.default_rng(0)
    scores = pd.DataFrame(rng.random((200, 2)), columns=["x", "y"])
    truth = pd.DataFrame({"y": scores["y"] > 0.5, "x": scores["x"] > 0.5})
    model = HierLPR().fit(scores, truth)
    assert model.hierarchy_.labels == ("x", "y")
    assert model.hierarchy is None
    assert model.score(scores, truth) > 0.95


def test_a_guaranteed_cutoff_and_groups(parts, model):
    _, cal, test = parts
    empirical = model.cutoff_
    model.calibrate(cal.scores, cal.truth, precision=0.8, confidence=0.9)
    assert model.cutoff_.n_calls < empirical.n_calls
    model.calibrate(cal.scores, cal.truth, precision=0.8, groups="depth")
    assert set(model.cutoff_.groups) == {"1", "2", "3", "4"}
    assert len(test.hierarchy.violations(model.predict(test.scores))) == 0
    model.calibrate(cal.scores, cal.truth, precision=0.8, confidence=0.9, groups="tree")
    assert model.cutoff_.groups["A"].result.n_samples < cal.n_samples  # a third planned the tests


def test_a_failed_certificate_calls_nothing_and_says_so_at_every_use(parts, model):
    _, cal, test = parts
    for unreachable, has_calls in ((None, False), ("best-precision", True)):
        goal = {"precision": 0.999, "confidence": 0.9, "unreachable": unreachable}
        with pytest.warns(UnreachableWarning, match="800 samples cannot certify this"):
            model.calibrate(cal.scores, cal.truth, **goal)
        with pytest.warns(UnreachableWarning, match="800 samples cannot certify this"):
            assert model.predict(test.scores).any() == has_calls
        with pytest.warns(UnreachableWarning, match="800 samples cannot certify this"):
            model.call_lists(test.scores)


# -- nothing silent ------------------------------------------------------------------------------


def test_the_last_digits_of_computed_scores_draw_no_other_order(monkeypatch):
    # Processors round the same computation differently.
    data = simulate.disease(n_samples=600, rng=0)
    model = HierLPR(data.hierarchy, joint=False).fit(data.scores[:300], data.truth[:300])
    rest, goal = (data.scores[300:], data.truth[300:]), {"precision": 0.9, "confidence": 0.9}
    cutoff = model.calibrate(*rest, **goal).cutoff_
    exact = HierLPR.block_scores

    def otherwise_rounded(*args):
        score = exact(*args)
        return np.minimum(score * (1.0 + 1e-14 * np.sin(1e6 * score)), 1.0)  # ties stay ties

    monkeypatch.setattr(HierLPR, "block_scores", otherwise_rounded)
    other = model.calibrate(*rest, **goal).cutoff_
    assert other.result == cutoff.result
    assert other.level == pytest.approx(cutoff.level, rel=1e-9)


def test_the_order_of_labels_draws_no_other_order_of_samples():
    data = simulate.disease(n_samples=50, rng=0)
    order = np.random.default_rng(1).permutation(data.hierarchy.n_labels)
    contents = []
    for at in (np.arange(order.size), order):
        h = Hierarchy(data.hierarchy.edges, labels=[data.hierarchy.labels[i] for i in at])
        table = align(data.scores[:, at], h, name="scores")
        contents.append(LabelledSamples.of(table, data.truth[:, at], h).truth.contents)
    assert np.array_equal(*contents)


@pytest.mark.filterwarnings("ignore::hierlpr.exceptions.UnreachableWarning")
def test_one_cutoff_per_label(parts, model):
    _, cal, test = parts
    h, score = cal.hierarchy, model.predict_proba(cal.scores)
    model.calibrate(cal.scores, cal.truth, maximize="f1", groups="label")
    assert tuple(model.cutoff_.groups) == h.labels
    calls = model.predict(cal.scores)
    own = {x: choose_cutoff(score[:, [k]], cal.truth[:, [k]], maximize="f1").level
           for k, x in enumerate(h.labels)}  # fmt: skip
    for k, (label, part) in enumerate(model.cutoff_.groups.items()):
        assert part.level == own[label]
        highest = max(own[x] for x in (label, *h.ancestors(label)))  # so that calls are closed
        assert np.array_equal(calls[:, k], score[:, k] >= highest)
        assert part.n_calls == calls[:, k].sum()
    model.calibrate(cal.scores, cal.truth, precision=0.7, confidence=0.8, groups="label")
    calls = model.predict(test.scores)
    assert not h.violations(calls)
    certified = [k for k, x in enumerate(h.labels) if model.cutoff_.groups[x].reachable]
    assert 0 < len(certified) < h.n_labels
    assert not np.delete(calls, certified, axis=1).any()  # not certified, so not called
    for k in certified:
        hits = test.truth[calls[:, k], k]
        assert hits.sum() >= 0.7 * hits.size - 3.0 * np.sqrt(0.21 * hits.size)


def test_no_samples_give_no_calls(model):
    empty = np.empty((0, 25))
    half = replace(model.joint_.tempering, use="label", others=np.full(25, 0.5))
    model.joint_ = replace(model.joint_, tempering=half)
    assert model.predict(empty).shape == (0, 25)
    assert len(model.rank(empty)) == 0
    assert model.call_lists(empty) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, t: (s[:, :20], t), "20 columns, but there are 25 labels"),
        (lambda s, t: (s, t[:100]), "scores have 1,500 samples, truth 100"),
        (lambda s, t: (np.where(s > 0.999 * s.max(), np.nan, s), t), "sample .*, label"),
        (lambda s, t: (s[:0], t[:0]), "0 sample\\(s\\)"),
        (lambda s, t: (t, s), "scores come first, truth second"),
        (lambda s, t: (s, None), "requires y to be passed"),
        (lambda s, t: (t.astype(float), t), "truth is the same as scores"),
        (lambda s, t: (sparse.csr_array(t), t), "truth is the same as scores"),
    ],
)
def test_bad_input_is_named(parts, change, message):
    fit = parts[0]
    scores, truth = change(fit.scores, fit.truth)
    with pytest.raises(DataError, match=message):
        HierLPR(fit.hierarchy).fit(scores, truth)


@pytest.mark.parametrize("how", ["fit", "remove_labels"])
def test_nothing_is_promised_after_a_change_that_was_interrupted(parts, model, monkeypatch, how):
    """The curves may be new by then, and what was promised was so of the old ones."""
    fit, cal, _ = parts
    model.calibrate_sets(cal.scores, cal.truth)

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    if how == "fit":
        monkeypatch.setattr("hierlpr.model.estimator.fit_joint", stopped)
        args = (fit.scores[::2], fit.truth[::2])
    else:
        monkeypatch.setattr("hierlpr.joint.JointModel.changed", stopped)
        args = (fit.hierarchy.labels[-2:],)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        with pytest.raises(KeyboardInterrupt):
            getattr(model, how)(*args)
    assert model.cutoff_.goal.kind == "default"
    assert model.sets_ is None


# -- change without refitting ----------------------------------------------------------------------


def curves_of(model):
    return {
        label: tuple(part.tobytes() for part in model.lpr_.curves.curve(j))
        for j, label in enumerate(model.hierarchy_.labels)
    }


def test_added_labels_leave_the_others_bit_identical(parts, model):
    fit, cal, _ = parts
    before = curves_of(model)
    rng = np.random.default_rng(5)
    truth = np.stack([cal.truth[:, 1], cal.truth[:, 1] & (rng.random(800) < 0.5)], axis=1)
    scores = rng.normal(size=(800, 2)) + truth
    with pytest.warns(HierlprWarning, match="back at 0.5"):
        model.add_labels([("B", "new"), ("new", "newer")], scores, truth)
    after = curves_of(model)
    assert {label: after[label] for label in before} == before
    assert model.hierarchy_.labels == (*fit.hierarchy.labels, "new", "newer")
    assert model.hierarchy_.parents("newer") == ("new",)
    wide = np.concatenate([cal.scores, scores], axis=1)
    model.calibrate(wide, np.concatenate([cal.truth, truth], axis=1), precision=0.7, confidence=0.8)
    assert len(model.hierarchy_.violations(model.predict(wide))) == 0


def test_removed_labels_pass_their_children_on(parts, model):
    fit, _, test = parts
    before = curves_of(model)
    with pytest.warns(HierlprWarning, match="Calibrate again"):
        model.remove_labels(["B", "F"])
    assert curves_of(model) == {k: v for k, v in before.items() if k not in ("B", "F")}
    assert model.hierarchy_.parents("P") == ("A",)
    kept = [fit.hierarchy.index(label) for label in model.hierarchy_.labels]
    with pytest.warns(HierlprWarning, match="not calibrated; nothing is promised"):
        assert model.predict(test.scores[:, kept]).shape == (500, 23)


def test_changes_that_make_no_sense(parts, model):
    s, t = np.zeros((5, 1)), np.zeros((5, 1))
    for message, edges, truth, labels in (
        ("no new label", [("A", "B")], t, None),
        ("already in the model or named twice: 'B'", [], t, ["B"]),
        ("not in labels=: 'q'", [("q", "p")], t, ["p"]),
        ("scores have 5 samples, truth 4", [("A", "new")], t[:4], None),
    ):
        with pytest.raises(DataError, match=message):
            model.add_labels(edges, s, truth, labels=labels)
    every = parts[0].hierarchy.labels
    for labels, message in ((["x"], "unknown.*: 'x'"), ([], "was given"), (every, "would be left")):
        with pytest.raises(DataError, match=message):
            model.remove_labels(labels)


def test_changed_labels_match_rows_and_columns_by_name(parts):
    fit = parts[0]
    h = fit.hierarchy
    names = [f"s{i}" for i in range(len(fit.scores))]
    scores = pd.DataFrame(fit.scores, index=names, columns=h.labels)
    truth = pd.DataFrame(fit.truth, index=names, columns=h.labels)
    leaf = h.labels[-1]
    edges = [(parent, leaf) for parent in h.parents(leaf)]
    curves = []
    for order in (slice(None), slice(None, None, -1)):
        model = HierLPR(h, joint=False).fit(fit.scores, fit.truth)
        model.remove_labels([leaf])
        model.add_labels(edges, scores[[leaf]], truth[[leaf]].iloc[order])
        curves.append(model.lpr_.predict(fit.scores))
    np.testing.assert_array_equal(curves[0], curves[1])
    model.remove_labels([leaf])
    alone = {x: scores[leaf] for x in ("y", "x")}  # without edges
    model.add_labels([], pd.DataFrame(alone), truth[[leaf, leaf]].set_axis(["x", "y"], axis=1),
                     labels=["x", "y"])  # fmt: skip
    assert model.hierarchy_.labels[-2:] == ("x", "y")
    with pytest.raises(DataError, match="the truth lacks samples"):
        model.add_labels(edges, scores[[leaf]], truth[[leaf]].rename(index=str.upper))


def test_what_can_hardly_be_learned_is_said(parts):
    fit = parts[0]
    with pytest.warns(HierlprWarning, match=r"3 labelled sample\(s\) are too few to learn from"):
        HierLPR(fit.hierarchy).fit(fit.scores[:3], fit.truth[:3])
    with pytest.warns(HierlprWarning, match="do larger scores mean more likely"):
        HierLPR(fit.hierarchy, joint=False).fit(-fit.scores, fit.truth)
    noise = np.random.default_rng(0).normal(size=fit.scores.shape)
    HierLPR(fit.hierarchy, joint=False).fit(noise, fit.truth)
    with pytest.warns(HierlprWarning, match="No sample has a label"):
        HierLPR(fit.hierarchy, joint=False).fit(noise, 0 * fit.truth)


# -- weights of samples --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weighted():
    fit, rest = simulate.train_test(2, n_train=500, n_test=400, rng=3)
    rng = np.random.default_rng(1)
    return fit, rest, rng.integers(1, 4, 500), rng.integers(1, 4, 400)


def same_models(one, two, tmp_path):
    one.save(tmp_path / "one.hlpr")
    two.save(tmp_path / "two.hlpr")
    return (tmp_path / "one.hlpr").read_bytes() == (tmp_path / "two.hlpr").read_bytes()


@pytest.mark.parametrize("holes", [False, True])
def test_weight_0_leaves_out_and_only_ratios_matter(weighted, tmp_path, holes):
    fit, rest, weight, _ = weighted
    truth = fit.truth.astype(float)
    if holes:
        truth = np.where(np.random.default_rng(5).random(truth.shape) < 0.3, np.nan, truth)
    own = weight.astype(float)
    own[::7] = 0.0
    left = np.flatnonzero(own)
    new = lambda: HierLPR(fit.hierarchy)  # noqa: E731
    whole = new().fit(fit.scores, truth, sample_weight=own)
    part = new().fit(fit.scores[left], truth[left], sample_weight=own[left])
    assert same_models(whole, part, tmp_path)
    plain = new().fit(fit.scores, truth)
    assert same_models(plain, new().fit(fit.scores, truth, np.full(500, 0.25)), tmp_path)
    assert not same_models(plain, whole, tmp_path)
    for other in (rest.scores, fit.scores):
        assert np.isfinite(whole.transform(other)).all()


def test_integer_weights_are_repeated_rows_in_measures_and_shares(weighted):
    fit, rest, weight, again = weighted
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    rows = np.repeat(np.arange(400), again)
    assert model.score(rest.scores, rest.truth, again) == pytest.approx(
        model.score(rest.scores[rows], rest.truth[rows])
    )
    # Relative shares are those of repeated rows; how far to smooth is not: copies are no samples.
    twice = np.repeat(np.arange(500), weight)
    weighted = HierLPR(fit.hierarchy, lpr="isotonic", joint=False)
    weighted.fit(fit.scores, fit.truth, weight)
    repeated = HierLPR(fit.hierarchy, lpr="isotonic", joint=False)
    repeated.fit(fit.scores[twice], fit.truth[twice])
    gap = np.abs(weighted.transform(rest.scores) - repeated.transform(rest.scores))
    assert gap.mean() < 0.01
    one, two = weighted.lpr_.report, repeated.lpr_.report
    assert one.base_rate == pytest.approx(two.base_rate, abs=2e-3)
    assert one.auc == pytest.approx(two.auc)
    assert (one.positives + one.negatives == 500).all()


def test_a_biased_sample_is_set_right_by_its_weights():
    """Samples with label A are drawn five times as often; weights undo it."""
    data = simulate.train_test(1, n_train=6000, n_test=1500, rng=0)
    fit, test = data
    rng = np.random.default_rng(2)
    chance = np.where(fit.truth[:, 0], 1.0, 0.2)
    drawn = np.flatnonzero(rng.random(6000) < chance)
    options = {"hierarchy": fit.hierarchy, "joint": False}
    plain = HierLPR(**options).fit(fit.scores[drawn], fit.truth[drawn])
    weighted = HierLPR(**options).fit(fit.scores[drawn], fit.truth[drawn], 1.0 / chance[drawn])
    error = [np.abs(m.transform(test.scores) - test.lpr_true).mean() for m in (plain, weighted)]
    assert error[1] < 0.4 * error[0]


def test_cutoffs_go_by_weights_and_say_what_they_are_worth(weighted):
    fit, rest, _, _ = weighted
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    weight = np.random.default_rng(4).exponential(size=400)
    model.calibrate(rest.scores, rest.truth, precision=0.8, sample_weight=weight)
    called = model.predict(rest.scores)
    own = np.broadcast_to(weight[:, None], called.shape)
    cutoff = model.cutoff_
    assert cutoff.precision == pytest.approx(own[called & rest.truth].sum() / own[called].sum())
    assert cutoff.recall == pytest.approx(own[called & rest.truth].sum() / own[rest.truth].sum())
    assert cutoff.n_calls == called.sum()
    assert cutoff.result.n_effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert f"equivalent to {cutoff.result.n_effective:,.4g} of equal weight" in str(cutoff)
    assert cutoff.precision >= 0.8


def test_a_certificate_needs_a_bound_on_the_weights(weighted):
    fit, rest, _, again = weighted
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    goal = {"precision": 0.6, "confidence": 0.9, "sample_weight": again}
    place = int(np.flatnonzero(again == 3)[0])
    some = np.where(np.arange(400) < place, 0, again)  # which leaves out those before it
    too_large = f"is 3 for sample {place}, more than max_weight=2"
    for change, message in (
        ({}, "needs max_weight=, the largest weight that a sample can"),
        ({"max_weight": 2}, too_large),
        ({"max_weight": 2, "sample_weight": some}, too_large),
        ({"max_weight": 0}, "max_weight must be a positive number"),
        ({"confidence": None, "groups": "tree"}, "groups= does not support sample_weight"),
    ):
        with pytest.raises(DataError, match=message):
            model.calibrate(rest.scores, rest.truth, **goal | change)
    model.calibrate(rest.scores, rest.truth, max_weight=3, **goal)
    assert model.cutoff_.reachable
    assert "certified for weights up to 3" in str(model.cutoff_)
    level = model.cutoff_.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)
        model.calibrate(rest.scores, rest.truth, max_weight=3e6, **goal)
    # If weights could be a million times as large, nothing could be certified from these.
    assert not model.cutoff_.reachable or model.cutoff_.level > level


def test_only_ratios_of_weights_matter_however_small_they_are():
    """Weights of 1e-300 certified nothing, and 5e-324, the smallest float, raised IndexError."""
    fit, rest = simulate.train_test(1, n_train=600, n_test=600, rng=0)
    ratio = np.where(np.arange(600) % 2, 1.0, 3.0)
    found = []
    for unit in (1.0, 1e-300, 5e-324):
        model = HierLPR(fit.hierarchy, joint=False)
        model.fit(fit.scores, fit.truth, sample_weight=unit * ratio)
        options = {"sample_weight": unit * ratio, "precision": 0.8}
        plain = model.calibrate(rest.scores, rest.truth, **options).cutoff_
        sure = model.calibrate(
            rest.scores, rest.truth, **options, confidence=0.9, max_weight=3.0 * unit
        ).cutoff_
        area = model.score(rest.scores, rest.truth, sample_weight=unit * ratio)
        assert sure.reachable
        found.append([plain.level, plain.precision, sure.level, sure.precision, area])
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-9)


def test_one_call_fits_and_calibrates_on_other_samples(parts, model):
    data = parts[0]
    model.fit_calibrate(data.scores, data.truth, precision=0.8, confidence=0.9, random_state=3)
    rows = model.held_out_
    fitted = np.setdiff1d(np.arange(1500), rows)
    alone = HierLPR(data.hierarchy).fit(data.scores[fitted], data.truth[fitted])
    alone.calibrate(data.scores[rows], data.truth[rows], precision=0.8, confidence=0.9)
    assert alone.cutoff_ == model.cutoff_
    assert (model.cutoff_.result.n_samples, alone.held_out_) == (500, None)
    cluster, weight = np.arange(1500) // 3, np.ones(1500)
    weight[:300] = 0.0
    model.fit_calibrate(data.scores, data.truth, precision=0.8, clusters=cluster)
    assert set(np.bincount(cluster[model.held_out_])) == {0, 3}
    options = {"sample_weight": weight, "calibration_share": 0.6}
    frame = pd.DataFrame(data.scores, columns=data.hierarchy.labels)
    model.fit_calibrate(frame, data.truth, maximize="f1", **options)
    assert model.held_out_.size == 900
    assert model.cutoff_.result.n_samples == (model.held_out_ >= 300).sum()
    for wrong, match in (({"precison": 0.9}, "precison"), ({"precision": 90}, "90 % is 0.9")):
        with pytest.raises((TypeError, DataError), match=match):
            model.fit_calibrate(data.scores, data.truth, **wrong)
    assert model.fit(data.scores, data.truth).held_out_ is None


def test_of_clusters_one_sample_each_is_compared_with_the_fit(parts, model):
    test = parts[2]
    drift = model.check(np.repeat(test.scores, 3, axis=0), clusters=np.repeat(np.arange(500), 3))
    assert str(drift).startswith("500 new samples, one of each cluster: ")
    assert str(drift).split(":")[1:] == str(model.check(test.scores)).split(":")[1:]
    assert drift.expected == pytest.approx(model.check(test.scores).expected)


def test_without_sets_assign_says_what_to_do(parts):
    fit, cal, test = parts
    model = HierLPR(fit.hierarchy).fit(fit.scores, fit.truth)
    with pytest.raises(HierlprError, match="Hint: first call calibrate_sets"):
        model.assign(test.scores)
    with pytest.warns(UnreachableWarning):
        model.calibrate(cal.scores[:20], cal.truth[:20], precision=0.99, confidence=0.99)
    with pytest.warns(UnreachableWarning, match="No sample gets a name.*\nHint: calibrate_sets"):
        assert model.assign(test.scores)["label"].isna().all()
