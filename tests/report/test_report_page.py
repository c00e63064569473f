"""The numbers of a report, against counts anyone can believe."""

import copy
import math
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from scipy import sparse

from hierlpr import HierLPR, metrics, simulate, workflows
from hierlpr._utils.checks import effective_number
from hierlpr.baselines import propagate_max
from hierlpr.data.tables import Table
from hierlpr.data.truth import align_truth
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.io import read_scores, write_scores, write_truth
from hierlpr.metrics import au_prc_score
from hierlpr.report import write_report
from hierlpr.report.answer import from_to, percent
from hierlpr.report.report_page import _cutoff_data, gather, render


@pytest.fixture(scope="module")
def report(disease):
    return gather(disease.model, disease.scores, disease.truth)


def test_the_answer_counts_calls_and_hits(disease, report):
    calls = disease.model.predict(disease.scores)
    answer = report.answer
    assert answer.n_calls == calls.sum()
    assert answer.n_true_calls == (calls & disease.truth).sum()
    assert answer.precision == pytest.approx(metrics.precision_score(disease.truth, calls))
    assert answer.recall == pytest.approx(metrics.recall_score(disease.truth, calls))
    assert answer.f1 == pytest.approx(metrics.f_score(disease.truth, calls))
    assert (answer.n_violations, answer.n_positives) == (0, disease.truth.sum())
    assert answer.headline == f"{answer.n_calls:,} calls"
    low, high = answer.precision_range
    assert low < answer.precision < high
    assert answer.claim == f"{answer.precision_text} correct (95 % CI {from_to((low, high))})"
    assert answer.target == "target 90 %"
    assert answer.verdict == ("kept" if answer.precision >= 0.9 else "missed")
    assert "Target FDR 10 %" in answer.promise
    assert "300 calibration samples" in answer.promise
    assert f"{answer.n_positives - answer.n_true_calls:,}" in answer.cost


def test_sparse_scores_give_the_numbers_of_dense_ones():
    model = simulate.random_model(simulate.random_tree(30, rng=0), rng=1, root=0.9)
    data = model.draw(400, rng=2)
    scores = np.where(data.scores < 0.4, 0.0, data.scores)
    fit = HierLPR(data.hierarchy).fit(sparse.csr_array(scores[:300]), data.truth[:300])
    fit.calibrate(sparse.csr_array(scores[300:]), data.truth[300:], maximize="f1")
    given = sparse.csr_array(scores[300:]), sparse.csr_array(data.truth[300:])
    report = gather(fit, *given)
    calls = fit.predict(given[0]).toarray()
    assert report.answer.n_calls == calls.sum()
    assert report.answer.n_true_calls == (calls & data.truth[300:]).sum()
    assert report.answer.n_violations == 0
    raw = report.summary.methods[3]
    assert raw.au_prc == pytest.approx(metrics.au_prc_score(data.truth[300:], scores[300:]))
    highest = propagate_max(scores[300:], data.hierarchy)
    assert report.summary.methods[2].au_prc == pytest.approx(
        metrics.au_prc_score(data.truth[300:], highest)
    )
    assert report.labels["labels"]["calls"] == calls.sum(axis=0).tolist()


def test_what_could_not_be_reached_is_said_first():
    data = simulate.setting_model(3, rng=0).draw(500, rng=1)
    model = HierLPR(data.hierarchy).fit(data.scores[:300], data.truth[:300])
    with pytest.warns(HierlprWarning, match="unreachable"):
        model.calibrate(data.scores[300:400], data.truth[300:400], precision=0.9999)
    answer = gather(model, data.scores[400:], data.truth[400:]).answer
    assert answer.unreachable == model.cutoff_.reason
    with pytest.warns(HierlprWarning, match="unreachable"):
        model.calibrate(
            data.scores[300:400], data.truth[300:400], precision=0.9999, unreachable="nothing"
        )
    answer = gather(model, data.scores[400:], data.truth[400:]).answer
    assert (answer.headline, answer.claim, answer.precision) == ("No calls", "", None)
    assert answer.cost.startswith("None of the ")


def test_groups_are_counted_one_by_one():
    data = simulate.setting_model(4, rng=0).draw(900, rng=1)
    model = HierLPR(data.hierarchy).fit(data.scores[:300], data.truth[:300])
    with pytest.warns(HierlprWarning, match="unreachable"):
        model.calibrate(data.scores[300:600], data.truth[300:600], precision=0.5, groups="tree")
    report = gather(model, data.scores[600:], data.truth[600:])
    with pytest.warns(HierlprWarning, match="unreachable"):
        calls = model.predict(data.scores[600:])
    groups = report.answer.parts["group"]
    assert sorted(g.n_calls for g in groups) == sorted(calls.sum(axis=0).tolist())
    assert sum(g.n_true_calls for g in groups) == report.answer.n_true_calls
    assert report.answer.unreachable == "1 of 3 groups cannot reach the target; see below."


def test_several_targets_are_counted_one_by_one(disease):
    model = copy.copy(disease.model)
    targets = [0.6, 0.8]
    model.calibrate(disease.scores[:100], disease.truth[:100], precision=targets, confidence=0.8)
    scores, truth = disease.scores[100:], disease.truth[100:]
    report = gather(model, scores, truth)
    for target, part in zip(targets, report.answer.parts["target"], strict=True):
        calls = model.predict(scores, target=target)
        assert part.n_calls == calls.sum()
        assert part.precision == pytest.approx(metrics.precision_score(truth, calls))
        assert part.recall == pytest.approx(metrics.recall_score(truth, calls))
    data = _cutoff_data(report)
    assert [mark["name"] for mark in data["marks"]] == ["in use", "60 %", "80 %"]
    for mark, part in zip(data["marks"][1:], report.answer.parts["target"], strict=True):
        assert mark["numbers"] == [part.cutoff.level, part.n_calls, part.precision, part.recall]
        assert mark["text"].startswith("Certified at this cutoff") == part.cutoff.is_certified
    chance = model.predict_proba(scores)
    for level, n_calls, precision, recall in data["cutoffs"][40::40]:
        called = chance >= level - 1e-6
        assert n_calls == pytest.approx(called.sum(), rel=0.02, abs=2)
        assert precision == pytest.approx(metrics.precision_score(truth, called), abs=0.02)
        assert recall == pytest.approx(metrics.recall_score(truth, called), abs=0.02)
    page = render(report)
    assert "Cutoffs per target" in page
    shown = [f"{p.name}: {percent(p.recall)}" for p in report.answer.parts["target"][::-1]]
    assert f"Recall at each target: {'; '.join(shown)}." in page
    page = render(gather(model, scores, None))  # as on the calibration samples
    shown = [f"{p.goal.target:.0%}: {percent(p.recall)}" for p in model.cutoff_.targets[::-1]]
    assert f"Recall at each target: {'; '.join(shown).replace('%:', ' %:')}." in page
    assert "Recall at each target" not in render(gather(disease.model, scores, truth))


def test_samples_of_the_fit_are_recognized(disease):
    data = simulate.disease(n_samples=900, rng=1)
    answer = gather(disease.model, data.scores[:400], data.truth[:400]).answer
    assert "400 of 400 samples were also used for the fit" in answer.warnings[0]
    fresh = gather(disease.model, disease.scores, disease.truth).answer
    assert not any("were also used" in text for text in fresh.warnings)


def test_labels_that_take_most_from_others_and_the_rare_ones_are_counted_together(disease):
    model, fit = copy.copy(disease.model), disease.model.lpr_.report
    weak = replace(fit, is_weak=np.ones(110, dtype=bool))
    model.lpr_ = replace(model.lpr_, report=weak)
    n_rare = np.count_nonzero(np.minimum(fit.positives, fit.negatives) < 10)
    said = " ".join(gather(model, disease.scores, disease.truth).answer.warnings)
    assert "The curves of 110 of 110 labels rely mostly on" in said
    assert f"{n_rare} of them have fewer than 10 positives" in said


def test_samples_without_any_positive_label(disease):
    report = gather(disease.model, disease.scores[:5], np.zeros((5, 110)))
    assert report.answer.recall is None
    assert "nothing to find" in report.answer.cost
    assert math.isnan(report.summary.methods[0].au_prc)


def test_truth_of_other_samples_is_refused(disease):
    with pytest.raises(DataError, match="scores have 200 samples, truth 3"):
        gather(disease.model, disease.scores, disease.truth[:3])
    with pytest.raises(DataError, match="max_samples"):
        gather(disease.model, disease.scores, disease.truth, max_samples=-1)
    with pytest.raises(DataError, match="no samples"):
        gather(disease.model, disease.scores[:0], disease.truth[:0])


def test_names_must_agree(hostile):
    report = gather(hostile.model, hostile.scores, hostile.truth)
    again = gather(hostile.model, hostile.scores, hostile.truth.iloc[::-1])  # matched by name
    assert again.answer == report.answer
    with pytest.raises(DataError, match="the truth lacks samples"):
        gather(hostile.model, hostile.scores, hostile.truth.rename(index=lambda name: name + "x"))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_is_unknown_is_said_and_counts_for_nothing(tmp_path, is_sparse):
    fit, rest = simulate.train_test(2, n_train=500, n_test=200, rng=4)
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(rest.truth.shape) < 0.3, np.nan, rest.truth)
    wrap = sparse.csr_array if is_sparse else np.asarray
    model = HierLPR(fit.hierarchy, joint=False).fit(wrap(fit.scores), fit.truth)
    report = write_report(tmp_path / "r.html", model, wrap(rest.scores), truth)
    known = align_truth(truth, rest.hierarchy).evaluated(rest.hierarchy)
    called = model.predict(wrap(rest.scores))
    called = called.toarray() if is_sparse else called
    answer = report.answer
    assert answer.n_instances == known.is_known.sum()
    assert answer.n_calls == (called & known.is_known).sum()
    assert answer.n_true_calls == (called & known.positive).sum()
    assert report.labels["labels"]["calls"] == (called & known.is_known).sum(axis=0).tolist()
    assert report.summary.methods[0].curve.n_calls[-1] == known.is_known.sum()
    proba = model.predict_proba(wrap(rest.scores))
    proba = proba.toarray() if is_sparse else proba
    expected = au_prc_score(known.positive[known.is_known], proba[known.is_known])
    assert report.summary.methods[0].au_prc == pytest.approx(expected)
    more = (called & known.unknown).sum()
    said = " ".join(answer.warnings)
    assert f"{known.unknown.sum():,} of 600 instances, in 3 labels, were not evaluated" in said
    assert f"{more:,} more calls were not evaluated" in said
    sample = report.samples[0]
    row = list(report.summary.output.samples).index(sample["name"])
    entries = np.array(sample["entries"]).reshape(-1, 5)
    unknown = known.unknown & ~known.implied
    assert (entries[:, 4] & 8 > 0).tolist() == unknown[row, entries[:, 0]].tolist()
    assert (
        report.summary.counts.evaluated.tolist() == (called & known.is_known).sum(axis=1).tolist()
    )


@pytest.mark.parametrize(("is_sparse", "holes"), [(False, False), (False, True), (True, True)])
def test_shares_are_weighted_and_counts_are_plain(disease, is_sparse, holes):
    rng = np.random.default_rng(3)
    n = len(disease.scores)
    weight = rng.integers(0, 4, n).astype(float)
    truth = disease.truth.astype(float)
    if holes:
        truth[rng.random(truth.shape) < 0.1] = np.nan
    scores = disease.scores
    model = disease.model
    if is_sparse:
        listed = np.where(rng.random(scores.shape) < 0.6, scores, 0.0)
        model = HierLPR(disease.model.hierarchy_).fit(sparse.csr_array(listed), disease.truth)
        scores = sparse.csr_array(listed)
    report = gather(model, scores, truth, sample_weight=weight, max_samples=5)
    kept = np.flatnonzero(weight)
    plain = gather(model, scores[kept], truth[kept], max_samples=5)
    rows = np.repeat(np.arange(n), weight.astype(int))
    again = gather(model, scores[rows], truth[rows], max_samples=5)
    answer = report.answer
    for name in ("n_samples", "n_calls", "n_true_calls", "n_positives", "n_instances", "f1"):
        source = again if name == "f1" else plain
        # Weights change the share of implied negatives that count.
        tolerance = 0.01 if holes else 1e-6
        assert getattr(answer, name) == pytest.approx(getattr(source.answer, name), rel=tolerance)
    for name in ("precision", "recall", "expected"):
        assert getattr(answer, name) == pytest.approx(getattr(again.answer, name))
    for ours, theirs in zip(report.summary.methods, again.summary.methods, strict=True):
        assert ours.au_prc == pytest.approx(theirs.au_prc)
        assert ours.hit_area == pytest.approx(theirs.hit_area)
        np.testing.assert_allclose(ours.curve.precision, theirs.curve.precision)
        np.testing.assert_allclose(ours.curve.recall, theirs.curve.recall)
    np.testing.assert_allclose(report.summary.curve.mean_score, again.summary.curve.mean_score)
    for name in ("calibration", "block_calibration"):
        ours, theirs = (getattr(x.summary, name) for x in (report, again))
        assert ours.error == pytest.approx(theirs.error)
        assert ours.observed == pytest.approx(theirs.observed)
        # Copies of a sample tell nothing more than the sample.
        assert (ours.high - ours.low >= theirs.high - theirs.low - 1e-9).all()
    low, high = answer.precision_range
    assert low < answer.precision < high
    said = " ".join(answer.warnings)
    assert "Samples have weights" in said
    assert f"as much information as {effective_number(weight):,.0f} of equal weight" in said
    assert "Samples have weights" in unescape(render(report))


def test_a_report_with_weights_from_files(disease, tmp_path):
    h, n = disease.model.hierarchy_, len(disease.scores)
    names = tuple(f"p{i}" for i in range(n))
    disease.model.save(tmp_path / "m.hlpr")
    write_scores(tmp_path / "s.csv", Table(disease.scores, h.labels, names))
    write_truth(tmp_path / "t.csv", Table(disease.truth.astype(float), h.labels, names))
    weight = np.random.default_rng(1).integers(0, 3, n)
    lines = [f"{name},{w}" for name, w in zip(names, weight, strict=True)][::-1]
    (tmp_path / "w.csv").write_text("\n".join(["sample,weight", *lines]) + "\n")
    given = (tmp_path / "m.hlpr", tmp_path / "s.csv", tmp_path / "t.csv", tmp_path / "r.html")
    workflows.report_file(*given, weights=tmp_path / "w.csv")
    own = read_scores(tmp_path / "s.csv", h).table.values  # with the digits of the file
    expected = gather(disease.model, own, disease.truth, sample_weight=weight)
    page = unescape((tmp_path / "r.html").read_text())
    assert f"{percent(expected.answer.precision)}" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "Samples have weights" in page
    (tmp_path / "w.csv").write_text("sample,weight\np0,1\n")
    with pytest.raises(DataError, match="have no weight"):
        workflows.report_file(*given[:3], tmp_path / "x.html", weights=tmp_path / "w.csv")
    assert not (tmp_path / "x.html").exists()


@pytest.mark.filterwarnings("ignore:The scores have 61 of 110 labels")
def test_scores_of_leaves_give_the_report_of_all_labels():
    data = simulate.disease(n_samples=300, rng=0)
    h = data.hierarchy
    scores = data.scores[:, [h.index(x) for x in h.leaves]]
    model = HierLPR(h, leaves="max", joint=False).fit(scores, data.truth).set_cutoff(0.5)
    both = scores, h.roll_up(scores, how="max")
    of_leaves, of_all = (gather(model, x, data.truth).summary.counts for x in both)
    assert of_leaves.n_calls == of_all.n_calls > 0
