"""Labels, samples, sure and possible labels, and trusted names as the page shows them."""

import copy

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, plots, simulate
from hierlpr.cutoff.decisions import reason_codes
from hierlpr.cutoff.sets import SET_WORDS
from hierlpr.data.tables import Table
from hierlpr.report import write_report
from hierlpr.report.entries import choose_samples, sample_entries
from hierlpr.report.names import NamedSamples, compare_ranks
from hierlpr.report.report_page import _data, gather, render


@pytest.fixture(scope="module")
def case():
    data = simulate.disease(n_samples=900, rng=1)
    model = HierLPR(data.hierarchy, joint=False).fit(data.scores[:400], data.truth[:400])
    model.calibrate_sets(data.scores[400:700], data.truth[400:700], error=0.2, confidence=0.8)
    return model, data.scores[700:], data.truth[700:]


@pytest.fixture(scope="module")
def report(disease):
    return gather(disease.model, disease.scores, disease.truth)


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
    shared = 1000 * disease.model.lpr_.report.shared_weight
    assert facts["shared"] == np.rint(shared).astype(int).tolist()
    assert report.labels["notes"] == [""]  # the shared part has a column of its own
    assert report.labels["nFit"] == 400
    assert report.names is None


def test_samples_are_chosen_by_their_faults_and_at_random(disease, report):
    rows, text = choose_samples(report.summary.counts, 30)
    assert rows.size == 30
    assert np.all(np.diff(rows) > 0)
    assert "30 of 200 samples" in text
    calls = disease.model.predict(disease.scores)
    wrong = (calls & ~disease.truth).sum(axis=1)
    assert set(np.argsort(-wrong, kind="stable")[:10]) <= set(rows.tolist())
    assert choose_samples(report.summary.counts, 30)[0].tolist() == rows.tolist()


def columns_of(sample):
    """Return label, LPR, block score, block and flags of the labels of a sample."""
    label, lpr, score, block, flags = np.array(sample["entries"]).reshape(-1, 5).T
    return label, lpr / 1e4, score / 1e4, block, flags


def test_a_sample_holds_its_labels_in_calling_order(disease, report):
    h = disease.model.hierarchy_
    label, lpr, score, block, flags = columns_of(report.samples[3])
    assert sorted(label.tolist()) == list(range(h.n_labels))
    assert report.samples[3]["hidden"] == [0, 0, 0]
    place = np.empty(h.n_labels, int)
    place[label] = np.arange(h.n_labels)
    assert all(place[h.index(parent)] < place[h.index(child)] for parent, child in h.edges)
    assert lpr == pytest.approx(disease.model.transform(disease.scores)[3, label], abs=6e-5)
    assert (flags & 1).tolist() == disease.model.predict(disease.scores)[3, label].tolist()
    for number in np.unique(block):
        members = block == number
        assert score[members] == pytest.approx(lpr[members].mean(), abs=2e-4)
    assert np.all(np.diff(block) >= 0)


def test_what_does_not_fit_is_counted(disease, report, monkeypatch):
    monkeypatch.setattr("hierlpr.report.entries.MOST_ENTRIES", 0)
    monkeypatch.setattr("hierlpr.report.entries.FEWEST_LABELS", 8)
    h = disease.model.hierarchy_
    for sample in sample_entries(report.summary.output, np.arange(40)):
        label, _, _, _, flags = columns_of(sample)
        n_true, n_called = ((flags & bit > 0).sum() for bit in (2, 1))
        assert label.size == 8
        expected = [h.n_labels - 8, sample["true"] - n_true, sample["calls"] - n_called]
        assert sample["hidden"] == expected
        shown = {h.labels[i] for i in label}
        assert all(set(h.parents(name)) <= shown for name in shown)


def test_what_is_shown_of_a_sample_is_ranked_as_in_the_whole(disease, monkeypatch):
    monkeypatch.setattr("hierlpr.report.entries.MOST_ENTRIES", 0)
    monkeypatch.setattr("hierlpr.report.entries.FEWEST_LABELS", 3)
    scores, truth = disease.scores[:20], disease.truth[:20]
    calls = disease.model.predict(scores)
    for row, sample in enumerate(gather(disease.model, scores, truth).samples):
        order = disease.model.rank(scores[[row]]).label.tolist()
        wanted = [k for k in order if truth[row, k] or calls[row, k]]
        shown = set((wanted + [k for k in order if k not in wanted])[:3])
        assert columns_of(sample)[0].tolist() == [k for k in order if k in shown]


def test_the_promise_and_how_it_was_kept(case):
    model, scores, truth = case
    sets = model.predict_sets(scores)
    words = gather(model, scores, truth).answer.sets
    assert "300 calibration samples" in words[0]
    assert f"{sets.sure.sum() / 200:.3g} labels per sample are sure" in words[1]
    kept = 100 * (1 - (sets.sure & ~truth).any(axis=1).mean())
    found = 100 * (1 - (truth & ~sets.possible).any(axis=1).mean())
    assert f"for {kept:.0f} % of these samples" in words[2]
    assert words[2].endswith(f"for {found:.0f} %.")
    assert len(gather(model, scores, None).answer.sets) == 2
    page = render(gather(model, scores, truth))
    assert "Sure and possible labels per sample" in page
    plain = copy.copy(model)
    plain.sets_ = None
    assert "Sure and possible labels" not in render(gather(plain, scores, truth))


def test_every_entry_of_a_sample_says_its_set(case):
    model, scores, truth = case
    report = gather(model, scores, truth, max_samples=20)
    words = np.array(SET_WORDS, dtype=object)[model.predict_sets(scores).codes()]
    data = _data(report)
    assert data["sets"] == SET_WORDS
    for sample in data["samples"]:
        row = int(sample["name"])
        label, _, score, block, flags = columns_of(sample)
        assert [SET_WORDS[k] for k in (flags >> 4) & 3] == words[row, label].tolist()
        level = np.full(label.size, model.cutoff_.level)
        assert np.array_equal(flags >> 6, reason_codes(score, block, flags & 1 > 0, level))


def test_an_adapted_model_says_that_nothing_is_promised(case):
    model, scores, truth = case
    other = copy.copy(model).calibrate(scores, truth, fdr=0.2)
    answer = gather(other.adapt(scores), scores, truth).answer
    assert "not calibrated for this population" in answer.promise
    assert "nothing is promised" in answer.promise
    assert answer.sets == ()


# -- one name per sample -------------------------------------------------------------------------

LABELS = ["Life", "A", "B", "A1", "A2", "B1"]
TREE = Hierarchy.from_parents(
    {"Life": None, "A": "Life", "B": "Life", "A1": "A", "A2": "A", "B1": "B"}
)


def draw(rng, n, name="s"):
    """Draw listed confidences of one path per sample, and the part of it that is true."""
    leaf = rng.choice([3, 4, 5], n)
    paths = np.array([[0, 1, 3], [0, 1, 4], [0, 2, 5]])[leaf - 3]
    chance = np.cumprod(rng.choice([0.6, 0.9, 1.0], (n, 3)), axis=1)
    holds = (rng.random((n, 1)) < chance).astype(float)
    ptr = np.arange(0, 3 * n + 1, 3)
    scores, truth = (
        sparse.csr_array((x.ravel(), paths.ravel(), ptr), shape=(n, 6)) for x in (chance, holds)
    )
    truth = sparse.csr_array(truth.toarray())
    return Table(scores, LABELS, tuple(f"{name}<{i}>" for i in range(n))), truth


@pytest.fixture(scope="module")
def named():
    tree = Hierarchy(TREE.edges, labels=LABELS)
    rng = np.random.default_rng(0)
    model = HierLPR(tree).fit(*draw(rng, 400, "fitted"))
    model.calibrate_sets(*draw(rng, 300, "calibrated"), error=0.1, one_path=True)
    return model, *draw(rng, 500)


def test_rows_count_names_by_rank(named):
    model, table, truth = named
    label, _ = model.name_samples(table)
    rows = compare_ranks(model, *(NamedSamples(label, model.hierarchy_, truth),) * 2)
    assert [row.rank for row in rows] == ["depth 1", "depth 2", "depth 3"]
    dense = truth.toarray() > 0
    for level, row in enumerate(rows, start=1):
        above = [  # the label of this level on the path to each name
            next((k for k in (i, *parents(i)) if TREE.levels[k] == level), -1) for i in label
        ]
        named = np.array(above) >= 0
        assert row.named == pytest.approx(named.mean())
        right = [dense[i, k] for i, k in enumerate(above) if k >= 0]
        assert row.correct == pytest.approx(np.mean(right))
        assert row.usual_named == row.named
        assert row.is_certified is None


def parents(label):
    return [LABELS.index(x) for x in TREE.ancestors(LABELS[label])] if label >= 0 else []


def test_the_page_states_the_promise_and_the_wrong_names(named, tmp_path):
    model, table, truth = named
    report = write_report(tmp_path / "page.html", model, table, truth)
    names = report.names
    label, _ = model.name_samples(table)
    wrong = [k >= 0 and not truth[i, k] for i, k in enumerate(label)]
    assert names.wrong == pytest.approx(np.mean(wrong))
    assert names.n_named == np.count_nonzero(label >= 0)
    assert report.answer.headline == f"{names.n_named} of 500 samples named"
    page = (tmp_path / "page.html").read_text()
    assert "At most 10 % of new samples get a wrong name." in page.replace("\xa0", " ")
    assert "Samples that stop highest" in page
    assert "s&lt;" in page
    for section in ("curves", "samples"):  # names do not use the cutoff of calls
        assert f'id="{section}"' not in page
    given = model.hierarchy_.close_upward(
        np.eye(7, 6, dtype=bool)[np.where(label >= 0, label, 6)]  # row 6 is empty
    )
    facts = report.labels["labels"]
    assert facts["calls"] == given.sum(axis=0).tolist()
    assert facts["hits"] == (given & (truth.toarray() > 0)).sum(axis=0).tolist()
    depth = [0 if k < 0 else TREE.levels[k] for k in label]
    stops = [depth[int(stop["sample"][2:-1])] for stop in names.stopped]
    assert stops == sorted(depth)[: len(stops)]
    order = [
        (at, -(stop["below_chance"] or 0)) for at, stop in zip(stops, names.stopped, strict=True)
    ]
    assert order == sorted(order)  # at one depth first what almost has a deeper name


def test_without_truth_nothing_is_said_about_correct_names(named, tmp_path):
    model, table, _ = named
    report = write_report(tmp_path / "page.html", model, table)
    assert report.names.wrong is None
    assert all(row.correct is None for row in report.names.rows)
    assert report.answer.claim == ""


def test_scores_of_another_scale_have_no_promise(named, tmp_path):
    model, table, truth = named
    far = Table(table.values * 100, table.labels, table.samples)
    report = write_report(tmp_path / "page.html", model, far, truth)
    assert report.answer.promise.startswith("Nothing is guaranteed here.")
    assert report.answer.target == ""


def test_boxes_of_the_icicle_stand_below_their_parents(named):
    model, table, _ = named
    label, _ = model.name_samples(table)
    display = plots.NamesDisplay.from_model(model, table)
    boxes = display.boxes()
    for level in (1, 2, 3):
        width = sum(box[2] for box in boxes if box[0] == level)
        assert width == sum(k >= 0 and TREE.levels[k] >= level for k in label)
    spans = {name: (left, left + width) for _, left, width, name in boxes}
    for parent, child in TREE.edges:
        if child in spans:
            assert spans[parent][0] <= spans[child][0] < spans[child][1] <= spans[parent][1]
    many = Hierarchy([("top", f"x{i}") for i in range(1000)])
    display = plots.NamesDisplay(many, ["r"] * 1001, np.arange(-1, 1001))
    assert sum(width for level, _, width, _ in display.boxes() if level == 2) == 1000
    assert len(display.plot().boxes()) < 400
    assert plots.NamesDisplay(many, ["r"] * 1001, np.full(5, -1)).plot().boxes() == []
