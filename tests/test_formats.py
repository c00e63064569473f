"""Model files of every past format, as the code of their time wrote them, still load."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from hierlpr import load_model
from hierlpr.model.container import FORMAT_MINOR, FORMAT_VERSION

# They did not note the kind of scores they were fitted on.
pytestmark = pytest.mark.filterwarnings("ignore:The model file is of a version:UserWarning")
FILES = Path(__file__).with_name("formats")
FORMATS = sorted(path.stem.removeprefix("answers-") for path in FILES.glob("answers-*.json"))


def stored(format_, kind):
    answers = json.loads((FILES / f"answers-{format_}.json").read_text())
    return load_model(FILES / f"{kind}-{format_}.hlpr"), answers[kind], np.array(answers["scores"])


def test_every_format_is_kept():
    assert {f"{FORMAT_VERSION}.{minor}" for minor in range(FORMAT_MINOR)} <= set(FORMATS)
    of_scores = set(FILES.glob("*.hlpr")) - set(FILES.glob("classifier-*"))
    assert len(of_scores) == 3 * len(FORMATS)


@pytest.mark.filterwarnings("ignore:The classifier was saved with scikit-learn:UserWarning")
@pytest.mark.parametrize("file", sorted(FILES.glob("classifier-*.hlpr")), ids=lambda f: f.stem)
def test_a_classifier_of_the_past_answers_as_it_did(file):
    """Its file names classes by their modules, which have moved since."""
    then = json.loads(file.with_suffix(".json").read_text())
    proba = load_model(file).predict_proba(np.array(then["X"]))
    np.testing.assert_allclose(proba, then["proba"], rtol=1e-9)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("kind", ["complete", "groups"])
def test_a_file_of_a_past_format_answers_as_it_did(format_, kind):
    model, then, scores = stored(format_, kind)
    assert list(model.hierarchy_.labels) == then["labels"]
    now = model.cutoff_.to_dict()
    for name, value in then["cutoff"].items():
        if name not in ("groups", "label_groups"):
            assert now[name] == value, name
    np.testing.assert_allclose(model.predict_proba(scores), then["proba"], rtol=1e-9)
    np.testing.assert_array_equal(model.predict(scores), np.array(then["calls"], dtype=bool))
    assert model.missing == then["missing"]


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_of_a_past_format_can_be_used_and_saved(format_, tmp_path):
    for kind in ("complete", "groups", "listed"):
        model, then, scores = stored(format_, kind)
        np.testing.assert_allclose(model.lpr_.predict(scores), then["curves"], rtol=1e-12)
        table = sparse.csr_array(np.maximum(scores, 0.0)) if kind == "listed" else scores
        rng = np.random.default_rng(0)
        truth = model.hierarchy_.close_upward(rng.random(scores.shape) < 0.5)
        model.calibrate(table, truth, maximize="f1")
        model.save(tmp_path / "again.hlpr")
        again = load_model(tmp_path / "again.hlpr")
        assert again.cutoff_ == model.cutoff_
        calls = [one.predict(table) for one in (model, again)]
        assert (calls[0] != calls[1]).sum() == 0
