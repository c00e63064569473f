"""The numbers of a report, against counts anyone can believe."""

import math
from dataclasses import fields
from html import unescape

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, metrics, simulate, workflows
from hierlpr._base.checks import effective_number
from hierlpr.cli import main
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.data.partial_truth import align_known
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.io import read_scores, write_scores, write_truth
from hierlpr.metrics import au_prc_score
from hierlpr.plots.calibration import calibration_of
from hierlpr.plots.comparisons import along_of, method_curve, thin, tradeoffs_of
from hierlpr.plots.evidence import Study, pool
from hierlpr.plots.survey import survey
from hierlpr.report import write_report
from hierlpr.report.answer import percent
from hierlpr.report.entries import KeptViews, choose_samples
from hierlpr.report.report_page import gather, render
from hierlpr.research.baselines import propagate_max


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
    assert answer.headline == f"The first {answer.n_calls:,} calls"
    low, high = answer.precision_range
    assert low < answer.precision < high
    assert answer.claim.startswith(f"{percent(answer.precision)} right, ")
    assert answer.claim.endswith(f"{percent(low).removesuffix(' %')} to {percent(high)}")
    assert "at least 90 %" in answer.promise
    assert "300 samples" in answer.promise
    assert f"{answer.n_positives - answer.n_true_calls:,}" in answer.cost


def test_tradeoffs_are_the_longest_prefixes_that_meet_the_target(disease, report):
    score = disease.model.predict_proba(disease.scores).ravel()
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(disease.truth.ravel()[order])
    for row in report.answer.tradeoffs:
        ends = [
            k + 1
            for k in range(score.size)
            if k + 1 == score.size or score[order[k + 1]] < score[order[k]]
        ]
        good = [k for k in ends if hits[k - 1] / k >= row.target]
        assert row.n_calls == max(good, default=0)


def test_an_unreached_target_is_said():
    along = along_of(pool(np.array([[0.9, 0.1]]), np.array([[False, True]])))
    assert [row.n_calls for row in tradeoffs_of(along)] == [0, 0, 0, 0, 0, 2]


def test_curves_have_the_areas_of_the_metrics(disease, report):
    h = disease.model.hierarchy_
    matrices = {
        "hierlpr": disease.model.predict_proba(disease.scores),
        "lpr": disease.model.lpr_.predict(disease.scores),
        "max": propagate_max(disease.scores, h),
        "raw": disease.scores,
    }
    for curve in report.methods:
        matrix = matrices.pop(curve.key)
        assert curve.au_prc == pytest.approx(metrics.au_prc_score(disease.truth, matrix))
        area = metrics.normalized_hit_area_score(disease.truth, matrix)
        assert curve.hit_area == pytest.approx(area)
        assert curve.violations == len(h.violations(matrix))
    assert not matrices
    ours, alone, highest, raw = report.methods
    assert (ours.violations, highest.violations) == (0, 0)
    assert alone.violations > 0
    assert raw.violations > 0
    assert ours.precision_there == pytest.approx(report.answer.precision)


def test_the_words_follow_the_use_of_other_labels(disease, report):
    model = HierLPR(disease.model.hierarchy_, joint=False).fit(disease.scores, disease.truth)
    plain = gather(model, disease.scores, disease.truth)
    assert plain.joint_words == ""
    assert "holds, given\n    its own score" in render(plain)
    assert report.joint_words == disease.model.joint_.describe()
    page = render(report)
    assert "holds, given\n    all scores of the sample" in page
    assert report.joint_words in unescape(page)


def test_expected_precision_is_the_mean_block_score(disease, report):
    score = np.sort(disease.model.predict_proba(disease.scores).ravel())[::-1]
    for calls, expected in zip(report.promise.calls, report.promise.expected, strict=True):
        assert expected == pytest.approx(score[: int(calls)].mean())


def test_calibration_bins_add_up(disease, report):
    lpr = disease.model.transform(disease.scores)
    bins = report.calibration.bins
    assert sum(b.n for b in bins) == lpr.size
    assert sum(b.n * b.predicted for b in bins) == pytest.approx(lpr.sum())
    assert sum(b.n * b.observed for b in bins) == pytest.approx(disease.truth.sum())
    assert all(0 <= b.low <= b.observed <= b.high <= 1 for b in bins)
    assert report.calibration.error == pytest.approx(metrics.calibration_error(disease.truth, lpr))


def test_dependent_labels_widen_the_interval():
    rng = np.random.default_rng(0)
    status = rng.random((200, 1)) < 0.5
    alone = pool(np.full((200, 20), 0.5), rng.random((200, 20)) < 0.5)
    together = pool(np.full((200, 20), 0.5), np.repeat(status, 20, axis=1))
    width = [b.high - b.low for c in (alone, together) for b in calibration_of(c).bins]
    assert width[1] == pytest.approx(width[0] * math.sqrt(20), rel=0.2)


def test_label_facts(disease, report):
    h, facts = disease.model.hierarchy_, report.labels["labels"]
    calls = disease.model.predict(disease.scores)
    for name in ("Neoplasm", "Leukemia", "Malaria"):
        i = h.index(name)
        parents = h.parents(name)
        assert facts["calls"][i] == calls[:, i].sum()
        assert facts["hits"][i] == (calls & disease.truth)[:, i].sum()
        assert facts["positives"][i] == disease.truth[:, i].sum()
        whole = facts["support"][h.index(parents[0])] if parents else report.labels["nFit"]
        assert facts["share"][i] == round(1000 * facts["support"][i] / whole)
        low, high = facts["range"][i]
        column = np.zeros((2, h.n_labels))
        column[:, i] = low, high
        ends = disease.model.lpr_.predict(column)[:, i]
        assert (facts["curve"][i][0], facts["curve"][i][-1]) == tuple(
            np.rint(100 * ends).astype(int)
        )
    assert report.labels["nFit"] == 400


def test_a_label_with_several_parents_lists_the_others():
    from hierlpr.report.entries import parents_of

    h = Hierarchy([("A", "C"), ("B", "C"), ("C", "D")])
    first, others = parents_of(h)
    assert first.tolist() == [-1, 0, -1, 1]  # A, C, B, D
    assert others == ((), (2,), (), ())


def test_all_samples_are_shown_if_they_fit(report):
    assert report.choice.words == "All 200 samples are shown."
    assert [view.name for view in report.samples] == [str(i) for i in range(200)]


def test_samples_are_chosen_by_their_faults_and_at_random(disease, report):
    choice = choose_samples(report.tally, 30, rng=0)
    assert choice.rows.size == 30
    assert np.all(np.diff(choice.rows) > 0)
    assert choice.words == (
        "30 of 200 samples are shown: 10 with the most wrong calls, 10 with the most missed "
        "labels and 10 drawn at random from the others."
    )
    calls = disease.model.predict(disease.scores)
    wrong = (calls & ~disease.truth).sum(axis=1)
    assert set(np.argsort(-wrong, kind="stable")[:10]) <= set(choice.rows.tolist())
    again = choose_samples(report.tally, 30, rng=0)
    assert again.rows.tolist() == choice.rows.tolist()


@pytest.mark.parametrize("most", [0, 2, 30, 200, 500])
def test_views_kept_on_the_way_are_those_of_looking_again(report, monkeypatch, most):
    study = report.study
    monkeypatch.setattr("hierlpr.plots.evidence.PART", 17 * study.hierarchy.n_labels)
    kept = KeptViews(study, most)
    rows = choose_samples(survey(study, on_part=kept.add).tally, most, rng=0).rows
    again = KeptViews(study, most).of(rows)
    n_taken, take = 0, Study.take

    def counted(study, rows):
        nonlocal n_taken
        n_taken += rows.size
        return take(study, rows)

    monkeypatch.setattr(Study, "take", counted)
    for ours, other in zip(kept.of(rows), again, strict=True):
        for field in fields(ours):
            assert np.array_equal(getattr(ours, field.name), getattr(other, field.name))
    assert n_taken <= (most - 2 * (most // 3) if most < 200 else 0)  # what is drawn at random


def test_a_sample_view_holds_its_labels_in_calling_order(disease, report):
    h = disease.model.hierarchy_
    view = report.samples[3]
    assert sorted(view.label.tolist()) == list(range(h.n_labels))
    assert view.n_hidden == view.n_hidden_true == 0
    place = np.empty(h.n_labels, int)
    place[view.label] = np.arange(h.n_labels)
    assert all(place[h.index(parent)] < place[h.index(child)] for parent, child in h.edges)
    lpr = disease.model.transform(disease.scores)[3]
    assert view.lpr.tolist() == lpr[view.label].tolist()
    assert view.called.tolist() == disease.model.predict(disease.scores)[3, view.label].tolist()
    for block in np.unique(view.block):
        members = view.block == block
        assert view.score[members] == pytest.approx(view.lpr[members].mean(), abs=2**-30)
    assert np.all(np.diff(view.block) >= 0)


def test_what_does_not_fit_is_counted(disease, report, monkeypatch):
    monkeypatch.setattr("hierlpr.report.entries.MOST_ENTRIES", 0)
    monkeypatch.setattr("hierlpr.report.entries.FEWEST_LABELS", 8)
    h = disease.model.hierarchy_
    for view in KeptViews(report.study, 40).of(np.arange(40)):
        assert view.label.size == 8
        assert view.n_hidden == h.n_labels - 8
        assert view.n_hidden_true == view.n_true - view.truth.sum()
        assert view.n_hidden_called == view.n_calls - view.called.sum()
        shown = {h.labels[i] for i in view.label}
        assert all(set(h.parents(name)) <= shown for name in shown)


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
    raw = report.methods[3]
    assert raw.au_prc == pytest.approx(metrics.au_prc_score(data.truth[300:], scores[300:]))
    highest = propagate_max(scores[300:], data.hierarchy)
    assert report.methods[2].au_prc == pytest.approx(
        metrics.au_prc_score(data.truth[300:], highest)
    )
    assert report.labels["labels"]["calls"] == calls.sum(axis=0).tolist()


@pytest.mark.parametrize(
    ("cutoff", "words"),
    [
        (Cutoff(0.5, "default"), "not calibrated"),
        (Cutoff(0.5, "f", n_samples=9, n_calls=3, precision=1.0), "largest F1"),
        (Cutoff(0.5, "fdr", target=0.2, n_samples=9, n_calls=3, precision=1.0), "80 %"),
        (Cutoff(0.5, "fdr", target=0.2, precision=1.0, shaky="too few."), "Shaky: too few."),
        (Cutoff(0.5, "fdr", target=0.2, precision=1.0), "nothing is guaranteed"),
        (
            Cutoff(0.5, "fdr", target=0.2, confidence=0.95, n_samples=9, n_calls=3, precision=1.0),
            "Guaranteed: at least 80 % of the calls are right for samples like those of the "
            "calibration, with 95 % confidence",
        ),
    ],
)
def test_the_promise_in_words(disease, cutoff, words):
    model = HierLPR(disease.model.hierarchy_)
    model.__dict__.update({k: v for k, v in vars(disease.model).items() if k.endswith("_")})
    model.cutoff_ = cutoff
    answer = gather(model, disease.scores, disease.truth).answer
    assert words in answer.promise
    sure = cutoff.confidence is not None
    assert answer.claim.startswith("at least 80 % right, with 95 %") is sure


def test_what_could_not_be_reached_is_said_first():
    data = simulate.setting_model(3, rng=0).draw(500, rng=1)
    model = HierLPR(data.hierarchy).fit(data.scores[:300], data.truth[:300])
    with pytest.warns(HierlprWarning, match="out of reach"):
        model.calibrate(data.scores[300:400], data.truth[300:400], precision=0.9999)
    answer = gather(model, data.scores[400:], data.truth[400:]).answer
    assert answer.unreachable == model.cutoff_.reason
    with pytest.warns(HierlprWarning, match="out of reach"):
        model.calibrate(
            data.scores[300:400], data.truth[300:400], precision=0.9999, unreachable="nothing"
        )
    answer = gather(model, data.scores[400:], data.truth[400:]).answer
    assert (answer.headline, answer.claim, answer.precision) == ("Nothing is called", "", None)
    assert answer.cost.startswith("None of the ")


def test_groups_are_counted_one_by_one():
    data = simulate.setting_model(4, rng=0).draw(900, rng=1)
    model = HierLPR(data.hierarchy).fit(data.scores[:300], data.truth[:300])
    with pytest.warns(HierlprWarning, match="out of reach"):
        model.calibrate(data.scores[300:600], data.truth[300:600], precision=0.5, groups="tree")
    report = gather(model, data.scores[600:], data.truth[600:])
    calls = model.predict(data.scores[600:])
    assert sorted(g.n_calls for g in report.answer.groups) == sorted(calls.sum(axis=0).tolist())
    assert sum(g.n_true_calls for g in report.answer.groups) == report.answer.n_true_calls
    assert report.answer.unreachable == "1 of 3 groups cannot reach the target; see below."


def test_samples_of_the_fit_are_recognized(disease):
    data = simulate.disease(n_samples=900, rng=1)
    answer = gather(disease.model, data.scores[:400], data.truth[:400]).answer
    assert "400 of 400 samples here were also fitted on" in answer.warnings[0]
    assert not any("samples here" in text for text in gather_warnings(disease))


def gather_warnings(case):
    return gather(case.model, case.scores, case.truth).answer.warnings


def test_samples_without_any_positive_label(disease):
    report = gather(disease.model, disease.scores[:5], np.zeros((5, 110)))
    assert report.answer.recall is None
    assert "nothing to find" in report.answer.cost
    assert math.isnan(report.methods[0].au_prc)


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


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "\u2013"), (0.0, "0 %"), (1.0, "100 %"), (0.999999, "99.99 %"), (0.9951, "99.51 %"),
     (0.126, "13 %"), (0.0213, "2.1 %"), (0.00021, "0.021 %"), (0.99, "99 %")],
)  # fmt: skip
def test_percent(share, text):
    assert percent(share) == text


def test_missing_scores_come_last():
    listed = pool(np.array([[0.9, np.nan], [0.2, 0.8]]), np.array([[1, 1], [0, 1]], bool))
    curve = method_curve("x", "x", listed)
    assert curve.calls.tolist() == [0, 1, 2, 3, 4]
    assert curve.hits.tolist() == [0, 1, 2, 2, 3]


def test_thinning_keeps_both_ends_and_the_beginning():
    x = np.arange(10_000.0)
    kept, same = thin(x, x, most=100)
    assert kept.size <= 100
    assert kept[:25].tolist() == x[:25].tolist()
    assert (kept[-1], same.tolist()) == (x[-1], kept.tolist())


def test_ranges_count_samples():
    from hierlpr.plots.calibration import share_interval

    rng = np.random.default_rng(0)
    inside = {"alone": 0, "copied": 0}
    for _ in range(400):
        hits = rng.binomial(1, 0.8, size=120).astype(float)
        low, high = share_interval(hits, np.ones(120, dtype=np.intp))
        inside["alone"] += low <= 0.8 <= high
        # Ten calls a sample that are right or wrong together say no more than one.
        low, high = share_interval(10 * hits, np.full(120, 10))
        inside["copied"] += low <= 0.8 <= high
    assert min(inside.values()) > 0.92 * 400


def test_nothing_to_count_has_no_range(disease):
    answer = gather(disease.model, disease.scores[:5], np.zeros((5, 110))).answer
    assert answer.recall_range is None


@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_is_unknown_is_said_and_counts_for_nothing(tmp_path, is_sparse):
    fit, rest = simulate.train_test(2, n_train=500, n_test=200, rng=4)
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(rest.truth.shape) < 0.3, np.nan, rest.truth)
    wrap = sparse.csr_array if is_sparse else np.asarray
    model = HierLPR(fit.hierarchy, joint=False).fit(wrap(fit.scores), fit.truth)
    report = write_report(tmp_path / "r.html", model, wrap(rest.scores), truth)
    known = align_known(rest.scores, truth, rest.hierarchy)
    called = model.predict(wrap(rest.scores))
    called = called.toarray() if is_sparse else called
    answer = report.answer
    assert answer.n_instances == known.known.sum()
    assert answer.n_calls == (called & known.known).sum()
    assert answer.n_true_calls == (called & known.held).sum()
    assert report.labels["labels"]["calls"] == (called & known.known).sum(axis=0).tolist()
    assert report.methods[0].calls[-1] == known.known.sum()
    proba = model.predict_proba(wrap(rest.scores))
    proba = proba.toarray() if is_sparse else proba
    expected = au_prc_score(known.held[known.known], proba[known.known])
    assert report.methods[0].au_prc == pytest.approx(expected)
    more = (called & known.unknown).sum()
    said = " ".join(answer.warnings)
    assert f"The truth of {known.unknown.sum():,} of 600 instances, in 3 labels, is unknown" in said
    assert f"{more:,} more calls are made among the unknown ones" in said
    view = report.samples[0]
    row = list(report.study.samples).index(view.name)
    assert view.unknown.tolist() == known.unknown[row, view.label].tolist()
    assert report.tally.judged.tolist() == (called & known.known).sum(axis=1).tolist()


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
        assert getattr(answer, name) == pytest.approx(getattr(source.answer, name))
    for name in ("precision", "recall", "expected"):
        assert getattr(answer, name) == pytest.approx(getattr(again.answer, name))
    for ours, theirs in zip(report.methods, again.methods, strict=True):
        assert ours.au_prc == pytest.approx(theirs.au_prc)
        assert ours.hit_area == pytest.approx(theirs.hit_area)
        np.testing.assert_allclose(ours.precision, theirs.precision)
        np.testing.assert_allclose(ours.recall, theirs.recall)
    np.testing.assert_allclose(report.promise.expected, again.promise.expected)
    np.testing.assert_allclose(report.promise.precision, again.promise.precision)
    for ours, theirs in ((report.calibration, again.calibration),
                         (report.block_calibration, again.block_calibration)):  # fmt: skip
        assert ours.error == pytest.approx(theirs.error)
        for own, other in zip(ours.bins, theirs.bins, strict=True):
            assert own.observed == pytest.approx(other.observed)
            # Copies of a sample tell nothing more than the sample.
            assert own.high - own.low >= other.high - other.low - 1e-9
    low, high = answer.precision_range
    assert low < answer.precision < high
    said = " ".join(answer.warnings)
    assert "count by their weights" in said
    assert f"as much as {effective_number(weight):,.0f} of equal weight" in said
    assert "count by their weights" in unescape(render(report))


def test_a_report_with_weights_from_files(disease, tmp_path):
    h, n = disease.model.hierarchy_, len(disease.scores)
    names = tuple(f"p{i}" for i in range(n))
    disease.model.save(tmp_path / "m.hlpr")
    write_scores(tmp_path / "s.csv", Table(disease.scores, h.labels, names))
    write_truth(tmp_path / "t.csv", Table(disease.truth.astype(float), h.labels, names))
    weight = np.random.default_rng(1).integers(0, 3, n)
    lines = [f"{name},{w}" for name, w in zip(names, weight, strict=True)][::-1]
    (tmp_path / "w.csv").write_text("\n".join(["sample,weight", *lines]) + "\n")
    done = CliRunner().invoke(main, [
        "report", "--model", str(tmp_path / "m.hlpr"), "--scores", str(tmp_path / "s.csv"),
        "--truth", str(tmp_path / "t.csv"), "--weights", str(tmp_path / "w.csv"),
        "--out", str(tmp_path / "r.html"),
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    own = read_scores(tmp_path / "s.csv", h).table.values  # with the digits of the file
    expected = gather(disease.model, own, disease.truth, sample_weight=weight)
    page = unescape((tmp_path / "r.html").read_text())
    assert f"{percent(expected.answer.precision)}" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "count by their weights" in page
    (tmp_path / "w.csv").write_text("sample,weight\np0,1\n")
    with pytest.raises(DataError, match="have no weight"):
        workflows.report_file(
            tmp_path / "m.hlpr", tmp_path / "s.csv", None, tmp_path / "x.html",
            weights=tmp_path / "w.csv",
        )  # fmt: skip
    assert not (tmp_path / "x.html").exists()
