"""The panel of a report about one trusted name per sample."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, plots
from hierlpr.data.tables import Table
from hierlpr.model.prediction import NamedSamples, compare_ranks, name_samples
from hierlpr.report import write_report

LABELS = ["Life", "A", "B", "A1", "A2", "B1"]
TREE = Hierarchy.from_parents(
    {"Life": None, "A": "Life", "B": "Life", "A1": "A", "A2": "A", "B1": "B"}
)


def draw(rng, n):
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
    return Table(scores, LABELS, tuple(f"s<{i}>" for i in range(n))), truth


@pytest.fixture(scope="module")
def case():
    tree = Hierarchy(TREE.edges, labels=LABELS)
    rng = np.random.default_rng(0)
    model = HierLPR(tree, verbose=False).fit(*draw(rng, 400))
    model.calibrate_sets(*draw(rng, 300), error=0.1, one_path=True)
    return model, *draw(rng, 500)


def test_rows_count_names_by_rank(case):
    model, table, truth = case
    label, _ = name_samples(model, table)
    rows = compare_ranks(model, *(NamedSamples(label, model.hierarchy_, truth),) * 2)
    assert [row.rank for row in rows] == ["level 1", "level 2", "level 3"]
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


def test_the_page_states_the_promise_and_the_wrong_names(case, tmp_path):
    model, table, truth = case
    report = write_report(tmp_path / "page.html", model, table, truth)
    names = report.names
    label, _ = name_samples(model, table)
    wrong = [k >= 0 and not truth[i, k] for i, k in enumerate(label)]
    assert names.wrong == pytest.approx(np.mean(wrong))
    assert names.n_named == np.count_nonzero(label >= 0)
    assert report.answer.headline == f"{names.n_named} of 500 samples named"
    page = (tmp_path / "page.html").read_text()
    assert "At most 10 % of new samples get a wrong name." in page.replace("\xa0", " ")
    assert "Samples that stop highest" in page
    assert "s&lt;" in page
    depth = [0 if k < 0 else TREE.levels[k] for k in label]
    first = names.stopped[0]
    assert first.sample == f"s<{int(np.argmin(depth))}>"
    assert first.below_chance is None or 0 <= first.below_chance <= 1


def test_without_truth_nothing_is_said_about_correct_names(case, tmp_path):
    model, table, _ = case
    report = write_report(tmp_path / "page.html", model, table)
    assert report.names.wrong is None
    assert all(row.correct is None for row in report.names.rows)
    assert report.answer.claim == ""


def test_scores_of_another_scale_have_no_promise(case, tmp_path):
    model, table, truth = case
    far = Table(table.values * 100, table.labels, table.samples)
    report = write_report(tmp_path / "page.html", model, far, truth)
    assert report.answer.promise.startswith("Nothing is guaranteed here.")
    assert report.answer.target == ""


def test_other_models_have_no_panel(disease, tmp_path):
    report = write_report(tmp_path / "page.html", disease.model, disease.scores, disease.truth)
    assert report.names is None


def test_boxes_of_the_icicle_stand_below_their_parents(case):
    model, table, _ = case
    label, _ = name_samples(model, table)
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
