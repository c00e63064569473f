"""DAGs through all that follows the ranking: model, cutoffs, decisions, weights, commands."""

import json

import click.testing
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow

from cases import random_dag
from hierlpr import HierLPR, consistent_scores, load_model, rank, simulate
from hierlpr.cli import main
from hierlpr.data.tables import align
from hierlpr.io import write_hierarchy, write_scores, write_truth
from hierlpr.metrics import order_violations_error


@pytest.fixture(scope="module")
def drawn():
    h = simulate.random_dag(25, n_roots=2, several_parents=0.5, rng=3)
    model = simulate.random_model(h, conditional=0.7, root=0.6, rng=4)
    return h, model.draw(900, rng=5), model.draw(300, rng=6)


def test_fit_calibrate_predict_and_save(drawn, tmp_path):
    h, fit, test = drawn
    model = HierLPR(h).fit(fit.scores[:600], fit.truth[:600])
    model.calibrate(fit.scores[600:], fit.truth[600:], fdr=0.2)
    calls = model.predict(test.scores)
    assert calls.any()
    assert len(h.violations(calls)) == 0
    assert len(h.violations(model.predict_proba(test.scores))) == 0
    precision = np.count_nonzero(calls & test.truth) / calls.sum()
    assert precision > 0.7
    r = model.rank(test.scores)
    assert order_violations_error(r.sample, r.label, h) == 0
    model.save(tmp_path / "dag.hlpr")
    np.testing.assert_array_equal(load_model(tmp_path / "dag.hlpr").predict(test.scores), calls)
    model.calibrate(fit.scores[600:], fit.truth[600:], fdr=0.3, confidence=0.9)
    assert len(h.violations(model.predict(test.scores))) == 0
    weighted = model.rank(test.scores, weight=np.arange(25) + 1.0)
    assert order_violations_error(weighted.sample, weighted.label, h) == 0


def test_the_commands_take_a_dag(drawn, tmp_path):
    h, fit, _ = drawn

    def run(*args):
        done = click.testing.CliRunner().invoke(main, [str(arg) for arg in args])
        assert done.exit_code == 0, (done.stderr, done.exception)
        return done.stdout

    files = [tmp_path / name for name in ("h.csv", "s.csv", "t.csv")]
    write_hierarchy(files[0], h)
    write_scores(files[1], align(fit.scores, h, name="scores"))
    write_truth(files[2], align(fit.truth.astype(float), h, name="truth"))
    hierarchy, scores, truth = zip(("--hierarchy", "--scores", "--truth"), files, strict=True)
    model = ("--model", tmp_path / "m.hlpr")
    assert "DAG" in run("inspect", files[0])
    run("fit", *hierarchy, *scores, *truth, "--fdr", "0.2", "--out", model[1])
    run("rank", *model, *scores, "--out", tmp_path / "r.csv")
    found = run("evaluate", *hierarchy, "--ranking", tmp_path / "r.csv", *truth, "--json", "-")
    assert json.loads(found)["ranking"]["parents after a child"] == 0
    run("report", *model, *scores, *truth, "--out", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000


def flow_balances(h, levels, group):
    """Whether the values above the group's mean can all pay for ancestors below it (scipy)."""
    size, total = group.size, int(levels[group].sum())
    spare = levels[group].astype(np.int64) * size - total
    place = {int(k): i for i, k in enumerate(group)}
    inside = [
        (place[h.index(c)], place[h.index(p)])
        for p, c in h.edges
        if h.index(c) in place and h.index(p) in place
    ]
    up = np.flatnonzero(spare > 0)
    down = np.flatnonzero(spare < 0)
    most = int(spare[up].sum())
    tail = [*(c for c, _ in inside), *([size] * up.size), *down]
    head = [*(p for _, p in inside), *up, *([size + 1] * down.size)]
    room = [*([most] * len(inside)), *spare[up], *-spare[down]]
    room, *ends = (np.array(column, dtype=np.int32) for column in (room, tail, head))
    graph = sparse.csr_array((room, tuple(ends)), shape=(size + 2, size + 2))
    return most == 0 or maximum_flow(graph, size, size + 1).flow_value == most


@pytest.mark.parametrize("seed", range(4))
def test_on_larger_dags_every_level_set_balances(seed):
    # Consistent scores whose level sets balance are the isotonic regression (its KKT conditions).
    rng = np.random.default_rng(seed)
    h = random_dag(rng, 300, density=0.012)
    levels = rng.integers(0, 17, size=300)
    score = consistent_scores([levels / 16], h)[0]
    assert len(h.violations([score])) == 0
    for value in np.unique(score):
        group = np.flatnonzero(score == value)
        assert levels[group].mean() / 16 == pytest.approx(value, abs=1e-12)
        assert flow_balances(h, levels, group)
    r = rank([levels / 16], h)
    assert order_violations_error(r.sample, r.label, h) == 0
