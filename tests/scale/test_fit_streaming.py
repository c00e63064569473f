"""A model fitted in parts is that of the path in memory, bit by bit."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scalecases as sc
from scalecases import fit_file
from scipy import sparse

from cases import hierarchy_of, random_forest
from hierlpr import Hierarchy, HierLPR, HierlprError, workflows
from hierlpr.data.label_sets import close_listed
from hierlpr.data.partial_truth import align_known
from hierlpr.data.tables import Table, draw_samples, sample_limit, split_samples
from hierlpr.exceptions import UnreachableWarning
from hierlpr.io import pair_samples, read_scores, read_truth
from hierlpr.scale import budget

K = 8
N = 240


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(budget.Budget, "batch_instances", property(lambda self: 300))


def make_data(*, is_sparse=False, dag=False, seed=0, n=N):
    """Named scores on a coarse grid with their truth."""
    rng = np.random.default_rng(seed)
    h = hierarchy_of(random_forest(np.random.default_rng(0), K))
    if dag:
        h = Hierarchy(dict.fromkeys([*h.edges, ("L0", "L7"), ("L1", "L7"), ("L2", "L7")]),
                      labels=h.labels)  # fmt: skip
    truth = h.close_upward(rng.random((n, K)) < 0.12)
    values = np.round(np.abs(rng.normal(size=truth.shape) + 1.5 * truth), 1)
    if is_sparse:
        kept = rng.random(values.shape) < 0.5
        kept[np.arange(n), rng.integers(0, K, n)] = True
        values = sparse.csr_array((values[kept], np.nonzero(kept)), shape=values.shape)
    names = tuple(f"s{seed}-{i:04d}" for i in range(n))
    return h, Table(values, h.labels, names), truth


def write_scores(path, table, layout, order=None):
    case = sc.Case(None, table)
    rows = sc.wide_table(case) if layout == "wide" else sc.long_table(case, order)
    if path.suffix == ".parquet":
        pq.write_table(rows, path, row_group_size=37)
    else:
        is_cafa = layout == "cafa"
        sc.write_text(path, rows, delimiter="\t" if is_cafa else ",", header=not is_cafa)
    return path


def write_truth(path, names, labels, truth, layout):
    """Truth with the samples in another order than the scores."""
    order = np.random.default_rng(1).permutation(len(names))
    names = [names[i] for i in order]
    truth = truth[order]
    if layout == "wide":
        columns = {label: truth[:, i].astype(np.int8) for i, label in enumerate(labels)}
        rows = pa.table({"sample": names, **columns})
    else:
        row, col = np.nonzero(truth)
        picked = np.random.default_rng(2).permutation(row.size)
        rows = pa.table({"sample": [names[i] for i in row[picked]],
                         "label": [labels[i] for i in col[picked]]})  # fmt: skip
    if path.suffix == ".parquet":
        pq.write_table(rows, path, row_group_size=41)
    else:
        is_cafa = layout == "cafa"
        sc.write_text(path, rows, delimiter="\t" if is_cafa else ",", header=not is_cafa)
    return path


def fit_whole(h, scores, truth, out, *, goal=None, calibration=None, seed=0, absent=None,
              close_truth=False, lenient=False, **options):  # fmt: skip
    """The path in memory, spelled out."""

    def pair_of(scores, truth):
        known = read_truth(truth, h, close=close_truth, lenient=lenient)
        return pair_samples(read_scores(scores, h, lenient=lenient), known, absent=absent)

    def limit(pair):
        return sample_limit(pair.scores.n_samples, h, pair.scores.n_stored)

    pair = pair_of(scores, truth)
    held_out = None
    if calibration is not None:
        held_out = pair_of(*calibration)
        held_out = held_out.rows(draw_samples(held_out.scores.n_samples, limit(held_out), seed))
    elif goal is not None:
        fitted, kept = split_samples(pair.scores.n_samples, limit(pair), seed)
        pair, held_out = pair.rows(fitted), pair.rows(kept)
    model = HierLPR(h, **options).fit(pair.scores, pair.truth)
    if goal is not None:
        model.calibrate(held_out.scores, held_out.truth, **goal)
    model.save(out)
    return pair


def assert_same_model(tmp_path, h, scores, truth, **options):
    """Both paths write the same bytes; returns what the parts saw."""
    one, two = tmp_path / "whole.hlpr", tmp_path / "parts.hlpr"
    before = {p.name for p in tmp_path.iterdir()} | {one.name, two.name}
    pair = fit_whole(h, scores, truth, one, **options)
    done = fit_file(h, scores, truth, two, **options)
    assert one.read_bytes() == two.read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == before  # no work files are left
    assert done.n_fitted == pair.scores.n_samples
    return pair, done


FAST = {"lpr": "isotonic", "joint": False}


@pytest.mark.parametrize(("layout", "ending", "truth_layout", "truth_ending"), [
    ("wide", ".csv", "wide", ".csv"),
    ("wide", ".parquet", "wide", ".parquet"),
    ("wide", ".parquet", "long", ".csv"),
    ("long", ".parquet", "wide", ".parquet"),
    ("long", ".csv", "long", ".parquet"),
    ("cafa", ".tsv", "cafa", ".tsv"),
    ("wide", ".csv.gz", "cafa", ".tsv"),
])  # fmt: skip
@pytest.mark.parametrize("dag", [False, True])
def test_any_layout_gives_the_model_of_memory(
    tmp_path, layout, ending, truth_layout, truth_ending, dag
):
    h, table, truth = make_data(is_sparse=layout != "wide", dag=dag)
    order = None
    if layout == "long":  # the rows of a sample lie scattered
        order = np.random.default_rng(4).permutation(table.values.nnz)
    name = f"scores{ending.removesuffix('.gz')}"
    scores = write_scores(tmp_path / name, table, layout, order)
    if ending.endswith(".gz"):
        import gzip

        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(scores.read_bytes()))
        scores.unlink()
        scores = packed
    held = write_truth(tmp_path / f"truth{truth_ending}", table.samples, h.labels, truth,
                       truth_layout)  # fmt: skip
    pair, done = assert_same_model(tmp_path, h, scores, held, **FAST)
    assert done.notes == pair.notes
    for report, wanted in zip(done.reports, (read_scores(scores, h), read_truth(held, h)),
                              strict=True):  # fmt: skip
        assert report.format == wanted.report.format
        assert dict(report.counts) == dict(wanted.report.counts)


def with_unknown(tmp_path, table, h, truth, layout, ending, *, share=0.3, seed=6):
    """Truth of which some is unknown: NaN, as a file whose samples are in another order."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(truth.shape) < share, np.nan, truth)
    values[0, :] = np.nan  # a sample of which nothing is given
    order = rng.permutation(len(table.samples))
    names = [table.samples[i] for i in order]
    path = tmp_path / f"truth{ending}"
    if layout == "wide":
        columns = {x: pa.array(values[order, i], mask=np.isnan(values[order, i]))
                   for i, x in enumerate(h.labels)}  # fmt: skip
        rows = pa.table({"sample": names, **columns})
        if ending == ".parquet":
            pq.write_table(rows, path, row_group_size=41)
        else:
            sc.write_text(path, rows)
    else:
        word = {0.0: "0", 1.0: "1"}
        lines = ["sample,label,truth"]
        for i, name in zip(order, names, strict=True):
            lines += [f"{name},,0"]
            lines += [f"{name},{x},{word.get(values[i, k], ('unknown', '', 'NA')[k % 3])}"
                      for k, x in enumerate(h.labels) if values[i, k] != 0.0 or k % 2]  # fmt: skip
        path.write_text("\n".join(lines) + "\n")
    return path, values


@pytest.mark.parametrize(("layout", "truth_layout", "truth_ending"), [
    ("wide", "wide", ".csv"),
    ("wide", "wide", ".parquet"),
    ("wide", "long", ".csv"),
    ("long", "wide", ".csv"),
    ("long", "long", ".csv"),
])  # fmt: skip
@pytest.mark.parametrize("dag", [False, True])
def test_unknown_truth_gives_the_model_of_memory(tmp_path, layout, truth_layout, truth_ending, dag):
    h, table, truth = make_data(is_sparse=layout == "long", dag=dag)
    scores = write_scores(tmp_path / "scores.csv", table, layout)
    held, values = with_unknown(tmp_path, table, h, truth, truth_layout, truth_ending)
    options = {"goal": {"precision": 0.6, "confidence": 0.8}, "seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)
        pair, done = assert_same_model(tmp_path, h, scores, held, **options)
    assert done.notes == pair.notes
    read = read_truth(held, h)
    assert dict(done.reports[1].counts) == dict(read.report.counts)
    assert read.report.counts["unknown pairs"] == np.isnan(values).sum()
    fitted, _ = split_samples(N, sample_limit(N, h, table.n_stored), 3)
    known = align_known(np.zeros(values.shape), values[fitted], h)
    assert np.array_equal(done.model.lpr_.report.unknown, known.n_unknown)
    assert done.model.cutoff_.n_unknown > 0
    direct = HierLPR(h).fit(table.values[fitted], values[fitted])
    assert np.array_equal(direct.lpr_.curves.knot_lpr, done.model.lpr_.curves.knot_lpr)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_what_is_learned_of_scores_together_is_that_of_memory(tmp_path, share, monkeypatch):
    """Weights of depths in a taxonomy and companions of labels, from some of the samples."""
    from hierlpr.model import core

    monkeypatch.setattr(core, "MOST_TOGETHER", 6 * 300)
    monkeypatch.setattr(core, "LEAST_TOGETHER", 1)
    rng = np.random.default_rng(2)
    h = Hierarchy.from_parents({"a": None, "b": None, "aa": "a", "ab": "a", "ba": "b", "bb": "b"})
    leaf = rng.choice(["aa", "ab", "ba", "bb"], 600)
    held = np.array([[x == y or x in h.ancestors(y) for x in h.labels] for y in leaf])
    names = tuple(f"s{i:03d}" for i in range(600))
    table = Table((held + rng.normal(size=held.shape)).round(3), h.labels, names)
    scores = write_scores(tmp_path / "scores.csv", table, "wide")
    truth = write_truth(tmp_path / "truth.csv", names, h.labels, held, "wide")
    if share:
        truth, _ = with_unknown(tmp_path, table, h, held, "wide", ".csv", share=share)
    _, done = assert_same_model(tmp_path, h, scores, truth)
    assert done.model.path_weight_.shape == (2,)
    assert (done.model.lpr_.companions.other >= 0).all()
    assert done.model.lpr_.companions.count[0].sum() <= 300


@pytest.mark.parametrize(("is_sparse", "holes"), [(False, False), (False, True), (True, True)])
def test_weights_give_the_model_of_memory(tmp_path, is_sparse, holes):
    h, table, truth = make_data(is_sparse=is_sparse)
    layout = "long" if is_sparse else "wide"
    scores = write_scores(tmp_path / "scores.csv", table, layout)
    if holes:
        held, _ = with_unknown(tmp_path, table, h, truth, "wide", ".csv")
    else:
        held = write_truth(tmp_path / "truth.csv", table.samples, h.labels, truth, "long")
    weight = np.round(np.random.default_rng(9).exponential(size=N), 3)
    weight[::11] = 0.0
    order = np.random.default_rng(3).permutation(N)
    rows = [f"{table.samples[i]},{weight[i]}" for i in order]
    (tmp_path / "w.csv").write_text("\n".join(["sample,weight", *rows, "other,7"]) + "\n")
    goal = {"precision": 0.5, "confidence": 0.8, "max_weight": 9.0, "unreachable": "nothing"}
    options = {"goal": goal, "weights": tmp_path / "w.csv"}
    at_once = workflows.fit_file(h, scores, held, tmp_path / "one.hlpr", **options)
    in_parts = fit_file(h, scores, held, tmp_path / "two.hlpr", **options)
    assert (tmp_path / "one.hlpr").read_bytes() == (tmp_path / "two.hlpr").read_bytes()
    assert at_once.model.cutoff_.n_effective == in_parts.model.cutoff_.n_effective < N // 3
    pair = pair_samples(read_scores(scores, h), read_truth(held, h))
    place = {name: i for i, name in enumerate(table.samples)}
    own = weight[[place[name] for name in pair.scores.samples]]
    fitted, kept = split_samples(N, sample_limit(N, h, table.n_stored), 0)
    model = HierLPR(h)
    model.fit(pair.rows(fitted).scores, pair.rows(fitted).truth, own[fitted])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)
        others = pair.rows(kept)
        model.calibrate(others.scores, others.truth, sample_weight=own[kept], **goal)
    model.save(tmp_path / "three.hlpr")
    assert (tmp_path / "one.hlpr").read_bytes() == (tmp_path / "three.hlpr").read_bytes()


@pytest.mark.parametrize(("change", "message"), [
    (("s0-0003,1", "s0-0003,-1"), r"w.csv, line 5, column 'weight': the weight of sample 's0-"),
    (("s0-0003,1", "s0-0003,"), r"w.csv, line 5, column 'weight': the value is missing"),
    (("s0-0003,1", "s0-0003,inf"), r"w.csv, line 5, column 'weight': .*(infinite|not a number)"),
    (("s0-0003,1", "s0-0003,heavy"), r"w.csv, line 5, column 'weight': 'heavy' is not a number"),
    (("s0-0003,1", "s0-0002,1"), r"w.csv, line 5: sample 's0-0002' occurs again"),
    (("s0-0003,1\n", ""), r"w.csv: 1 of 240 samples of .* have no weight: 's0-0003'"),
    ((",1", ",0"), r"w.csv: all 240 samples of .* have the weight 0"),
    (("weight", "mass"), r"w.csv: there is no column 'weight'"),
    (("s0-0003,1", "s0-0003,1e200"), r"w.csv, line 5, column 'weight': .*is 1e\+200, .* 1e\+100"),
    (("s0-0003,1", "s0-0003,3"), r"w.csv, line 5, column 'weight': .*is 3, more than max_weight=2"),
])  # fmt: skip
def test_bad_weights_stop_both_ways_alike(tmp_path, change, message):
    h, table, truth = make_data()
    scores = write_scores(tmp_path / "scores.csv", table, "wide")
    held = write_truth(tmp_path / "truth.csv", table.samples, h.labels, truth, "long")
    text = "\n".join(["sample,weight", *(f"{name},1" for name in table.samples)]) + "\n"
    (tmp_path / "w.csv").write_text(text.replace(*change))
    goal = {"fdr": 0.5, "confidence": 0.8, "max_weight": 2.0} if "max_weight" in message else None
    said = []
    for fit in (workflows.fit_file, fit_file):
        with pytest.raises(HierlprError, match=message) as caught:
            fit(h, scores, held, tmp_path / "m.hlpr", weights=tmp_path / "w.csv", goal=goal, **FAST)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert not (tmp_path / "m.hlpr").exists()


def test_unknown_ancestors_that_follow_are_given(tmp_path):
    h, table, truth = make_data()
    scores = write_scores(tmp_path / "scores.csv", table, "wide")
    held, values = with_unknown(tmp_path, table, h, truth, "long", ".csv")
    _, done = assert_same_model(tmp_path, h, scores, held, close_truth=True, **FAST)
    closed = h.close_upward(values == 1.0)
    counts = done.reports[1].counts
    assert counts["ancestors added"] == (closed & np.isnan(values)).sum() > 0
    assert counts["unknown pairs"] == (np.isnan(values) & ~closed).sum()


def test_a_long_table_of_every_pair_is_dense(tmp_path):
    h, table, truth = make_data()
    values = np.where(table.values == 0.0, 0.1, table.values)
    full = Table(values - 1.05, table.labels, table.samples)  # negative scores are allowed
    scores = write_scores(tmp_path / "scores.parquet", full, "long")
    held = write_truth(tmp_path / "truth.csv", table.samples, h.labels, truth, "wide")
    _, done = assert_same_model(tmp_path, h, scores, held, goal={"maximize": "f1"}, **FAST)
    assert done.n_calibration == N // 3


@pytest.mark.parametrize("dag", [False, True])
def test_implied_labels_and_scores_of_any_sign_give_the_same_model(tmp_path, dag, monkeypatch):
    h, table, truth = make_data(is_sparse=True, dag=dag)
    leaf = np.array([not h.children(label) for label in h.labels])
    values = sparse.csr_array(table.values * leaf)  # only leaves are listed
    values.eliminate_zeros()
    values.data = np.round(values.data - 1.0, 1)  # some are negative, some 0
    assert (values.data < 0.0).any()
    assert (values.data == 0.0).any()
    kept = np.flatnonzero(np.diff(values.indptr))
    table = Table(values[kept], h.labels, tuple(table.samples[i] for i in kept))
    closed = close_listed(table.values, h)
    sizes = np.bincount(closed.label[closed.is_implied], minlength=K)
    # Two thirds of the samples are fitted on; some labels are to share a curve, others not.
    monkeypatch.setattr("hierlpr.lpr.implied.LEAST_IMPLIED", np.sort(sizes)[-2] * 2 / 3)
    scores = write_scores(tmp_path / "scores.parquet", table, "long")
    held = write_truth(tmp_path / "truth.csv", table.samples, h.labels, truth[kept], "wide")
    pair, done = assert_same_model(tmp_path, h, scores, held, goal={"maximize": "f1"}, **FAST)
    implied = done.model.implied_
    assert implied.shared >= 0
    assert (implied.curve_of[~leaf] < implied.shared).any()
    lpr = done.model.transform(pair.scores)
    assert lpr[:, ~leaf].nnz > 0
    assert lpr[:, ~leaf].data.min() > 0.0


@pytest.mark.parametrize("absent", [None, "negative", "skip"])
@pytest.mark.parametrize("truth_layout", ["long", "cafa"])
def test_absent_samples_are_taken_alike(tmp_path, absent, truth_layout):
    h, table, truth = make_data(is_sparse=True)
    scores = write_scores(tmp_path / "scores.parquet", table, "long")
    names = [*table.samples[20:], "stranger", "another"]
    more = np.vstack([truth[20:], truth[:2] | True])
    held = write_truth(tmp_path / f"truth.{'csv' if truth_layout == 'long' else 'tsv'}", names,
                       h.labels, more, truth_layout)  # fmt: skip
    if truth_layout == "long":
        held.write_text(held.read_text() + f"{table.samples[3]},\n")  # known to have no label
    pair, done = assert_same_model(tmp_path, h, scores, held, absent=absent, **FAST)
    assert done.notes == pair.notes
    assert any("truth but no scores are left out: 'stranger'" in note or "2 samples" in note
               for note in done.notes)  # fmt: skip


@pytest.mark.filterwarnings("ignore::hierlpr.exceptions.HierlprWarning")  # out of reach
@pytest.mark.parametrize("goal", [{"fdr": 0.3}, {"maximize": "f1"},
                                  {"precision": 0.5, "confidence": 0.6}])  # fmt: skip
@pytest.mark.parametrize("is_sparse", [False, True])
def test_cutoffs_agree_with_a_third_and_with_other_files(tmp_path, goal, is_sparse, monkeypatch):
    # So small a limit that the third, the profile and the other file are all cut down.
    monkeypatch.setattr("hierlpr.data.tables.MOST_INSTANCES", 50 * K if not is_sparse else 400)
    h, table, truth = make_data(is_sparse=is_sparse)
    layout = "long" if is_sparse else "wide"
    scores = write_scores(tmp_path / "scores.parquet", table, layout)
    held = write_truth(tmp_path / "truth.parquet", table.samples, h.labels, truth, "wide")
    _, done = assert_same_model(tmp_path, h, scores, held, goal=goal, seed=3, **FAST)
    assert done.n_calibration < N // 3
    assert done.n_fitted + done.n_calibration == N
    _, other, other_truth = make_data(is_sparse=is_sparse, seed=9, n=100)
    files = (
        write_scores(tmp_path / "other.csv", other, layout),
        write_truth(tmp_path / "other-truth.csv", other.samples, h.labels, other_truth, "wide"),
    )
    _, done = assert_same_model(tmp_path, h, scores, held, goal=goal, calibration=files, **FAST)
    assert done.n_calibration < done.n_calibration_given == 100
    assert done.n_fitted == N


@pytest.mark.parametrize("joint", [True, "auto"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_joint_posterior_agrees(tmp_path, joint, is_sparse, monkeypatch):
    monkeypatch.setattr("hierlpr.data.tables.MOST_INSTANCES", 150 * K)
    h, table, truth = make_data(is_sparse=is_sparse)
    scores = write_scores(tmp_path / "scores.parquet", table, "long" if is_sparse else "wide")
    held = write_truth(tmp_path / "truth.csv", table.samples, h.labels, truth, "wide")
    _, done = assert_same_model(tmp_path, h, scores, held, joint=joint, lpr="isotonic",
                                goal={"maximize": "f1"})  # fmt: skip
    assert done.model.joint_ is not None


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_default_estimator_and_any_threads_agree(tmp_path, is_sparse, monkeypatch):
    h, table, truth = make_data(is_sparse=is_sparse, dag=True)
    truth[:, h.index("L7")] &= np.arange(N) < 60  # a label that borrows strength
    scores = write_scores(tmp_path / "scores.parquet", table, "long" if is_sparse else "wide")
    held = write_truth(tmp_path / "truth.csv", table.samples, h.labels, truth, "wide")
    for n_threads in ("1", "2"):
        monkeypatch.setenv("HIERLPR_NUM_THREADS", n_threads)
        assert_same_model(tmp_path, h, scores, held, joint=False)


def test_lenient_and_closing_readings_agree(tmp_path):
    h, table, truth = make_data(is_sparse=True)
    scores = write_scores(tmp_path / "scores.csv", table, "long")
    child = h.index(h.edges[0][1])
    open_truth = truth.copy()
    open_truth[:, h.index(h.edges[0][0])] &= ~truth[:, child]
    held = write_truth(tmp_path / "truth.csv", table.samples, h.labels, open_truth, "wide")
    _, done = assert_same_model(tmp_path, h, scores, held, close_truth=True, **FAST)
    assert done.reports[1].counts["ancestors added"] > 0
    scores.write_text(scores.read_text() + "new,LX,0.5\ns0-0003,LY,0.5\nbad,L0,nan\n")
    long = write_truth(tmp_path / "long.csv", table.samples, h.labels, open_truth, "long")
    long.write_text(long.read_text() + "s0-0001,LZ\nnobody,LZ\n")
    pair, done = assert_same_model(tmp_path, h, scores, long, lenient=True, **FAST)
    assert done.n_fitted == N + 1  # the sample whose only label is unknown is there
    assert done.notes == pair.notes
    wanted = read_truth(long, h, lenient=True).report
    assert done.reports[1].unknown_labels == wanted.unknown_labels
    assert done.reports[1].counts == wanted.counts


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_repeated_rows_of_wide_tables_are_left_out_alike(tmp_path, ending):
    h, table, truth = make_data()
    scores = write_scores(tmp_path / f"scores.{ending}", table, "wide")
    held = write_truth(tmp_path / f"truth.{ending}", table.samples, h.labels, truth, "wide")
    for path, place in ((scores, 5), (held, 11)):
        rows = pq.read_table(path) if ending == "parquet" else pa.csv.read_csv(path)
        again = rows.slice(place, 3).set_column(1, h.labels[0], rows.column(1).slice(20, 3))
        rows = pa.concat_tables([rows.slice(0, 40), again, rows.slice(40)])
        if ending == "parquet":
            pq.write_table(rows, path, row_group_size=37)
        else:
            sc.write_text(path, rows)
    _, done = assert_same_model(tmp_path, h, scores, held, lenient=True, **FAST)
    assert [report.n_problems for report in done.reports] == [3, 3]
    assert done.reports[0].counts["samples"] == table.n_samples


def test_flags_and_repeated_cafa_pairs_agree(tmp_path):
    h, table, truth = make_data(is_sparse=True)
    scores = write_scores(tmp_path / "scores.tsv", table, "cafa")
    lines = scores.read_text().splitlines()
    scores.write_text("\n".join([*lines, *lines[:7]]) + "\n")
    rows = [f"{name},{','.join(map(str, row))}"
            for name, row in zip(table.samples, truth.tolist(), strict=True)]  # fmt: skip
    held = tmp_path / "truth.csv"
    held.write_text("\n".join([f"sample,{','.join(h.labels)}", *rows]) + "\n")
    _, done = assert_same_model(tmp_path, h, scores, held, **FAST)
    assert done.reports[0].counts["repeated pairs merged"] == 7
