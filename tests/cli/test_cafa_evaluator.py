"""A CAFA evaluator reads our ranking unchanged, and finds the same F-max."""

import json

import numpy as np
import pytest
from shellrun import run

from cases import write_obo
from hierlpr import rank, simulate
from hierlpr.data.tables import Table
from hierlpr.io import write_ranking, write_truth
from realdata import DATA, needs_data


def their_f_max(obo, ranking, truth):
    evaluation = pytest.importorskip("cafaeval.evaluation")
    folder = ranking.parent / "predictions"
    folder.mkdir()
    (folder / ranking.name).write_bytes(ranking.read_bytes())
    _, best = evaluation.cafa_eval(str(obo), str(folder), str(truth))
    return float(best["f"]["f"].iloc[0])


def our_f_max(obo, ranking, truth):
    code, out, err = run(
        "evaluate", "--hierarchy", obo, "--ranking", ranking, "--truth", truth, "--json", "-"
    )
    assert code == 0, err
    return json.loads(out)["ranking"]["F-max, CAFA"]


@pytest.mark.filterwarnings("ignore")  # the evaluator uses what pandas deprecates
@pytest.mark.parametrize("seed", [0, 1])
def test_f_max_of_a_ranking_file(tmp_path, seed):
    rng = np.random.default_rng(seed)
    h = simulate.random_forest(40, n_trees=1, rng=rng)
    drawn = simulate.random_model(h, conditional=0.7, root=0.999, rng=rng).draw(80, rng)
    names = tuple(f"T{i}" for i in range(80))
    ranking, obo, truth = (tmp_path / x for x in ("r.tsv", "h.obo", "truth.tsv"))
    write_obo(obo, h)
    write_truth(truth, Table(drawn.truth.astype(float), h.labels, names))
    ranked = rank(drawn.lpr_true, h)
    assert write_ranking(ranking, ranked, samples=names) == 80 * 40
    assert our_f_max(obo, ranking, truth) == pytest.approx(
        their_f_max(obo, ranking, truth), abs=1e-12
    )


@needs_data
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(1, 6))
def test_f_max_of_real_predictions(tmp_path, number):
    obo, truth = DATA / "cafa/IDPO_disorder_function.obo", DATA / "cafa/ground_truth.tsv"
    ranking = tmp_path / "p.tsv"
    ranking.write_bytes((DATA / f"cafa/predictions/pred_{number}.tsv").read_bytes())
    assert our_f_max(obo, ranking, truth) == pytest.approx(
        their_f_max(obo, ranking, truth), abs=1e-12
    )
