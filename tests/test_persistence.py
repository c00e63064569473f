import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from hierlpr import Hierarchy, HierlprWarning, simulate
from hierlpr.exceptions import FileError
from hierlpr.lpr import make_estimator
from hierlpr.model import HierLPR, container, load_model


@pytest.fixture(scope="module")
def case():
    drawn = simulate.setting_model("tree25", rng=1)
    fit, cal, test = drawn.draw(800, 2), drawn.draw(600, 3), drawn.draw(200, 4)
    model = HierLPR(fit.hierarchy).fit(fit.scores, fit.truth)
    model.calibrate(cal.scores, cal.truth, fdr=0.2, confidence=0.8)
    return model, test.scores, cal


@pytest.fixture
def path(case, tmp_path):
    case[0].save(tmp_path / "model.hlpr")
    return tmp_path / "model.hlpr"


def test_round_trip_is_identical(case, path):
    model, scores, cal = case
    again = load_model(path)
    assert again.cutoff_ == model.cutoff_
    assert again.hierarchy_ == model.hierarchy_
    np.testing.assert_array_equal(again.predict_proba(scores), model.predict_proba(scores))
    np.testing.assert_array_equal(again.predict(scores), model.predict(scores))
    assert again.rank(scores).eauc() == model.rank(scores).eauc()
    for name, column in model.lpr_.diagnostics().items():
        np.testing.assert_array_equal(again.lpr_.diagnostics()[name], column)
    # Calibrating the loaded model needs everything the fit part left behind.
    again.calibrate(cal.scores, cal.truth, fdr=0.2, confidence=0.8)
    assert again.cutoff_ == model.cutoff_


def test_another_process_predicts_the_same(case, path, tmp_path):
    model, scores, _ = case
    np.save(tmp_path / "scores.npy", scores)
    code = (
        "import sys, numpy as np; from hierlpr import load_model; "
        "m = load_model(sys.argv[1]); np.save(sys.argv[3], m.predict_proba(np.load(sys.argv[2])))"
    )
    files = [str(tmp_path / name) for name in ("model.hlpr", "scores.npy", "out.npy")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), model.predict_proba(scores))


def test_equal_models_give_equal_files(case, path, tmp_path):
    load_model(path).save(tmp_path / "again.hlpr")
    assert (tmp_path / "again.hlpr").read_bytes() == path.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.hlpr", "model.hlpr"]


def test_numpy_reads_the_file_without_pickling(path):
    with np.load(path, allow_pickle=False) as arrays:
        meta = json.loads(arrays["meta"].tobytes())
    assert meta["format"] == "hierlpr model"
    assert (meta["version"], meta["minor"], meta["needs"]) == (1, container.FORMAT_MINOR, [])


def test_models_of_every_kind_come_back(case, tmp_path):
    _, scores, cal = case
    target = tmp_path / "m.hlpr"
    alone = HierLPR(lpr=make_estimator("isotonic")).fit(cal.scores, cal.truth)
    alone.save(target)
    again = load_model(target)
    assert again.hierarchy is None
    assert again.lpr == alone.lpr
    np.testing.assert_array_equal(again.predict(scores), alone.predict(scores))
    grouped = HierLPR(cal.hierarchy).fit(cal.scores[:300], cal.truth[:300])
    grouped.calibrate(cal.scores[300:], cal.truth[300:], precision=0.7, groups="depth")
    grouped.save(target)
    assert load_model(target).cutoff_ == grouped.cutoff_
    with pytest.warns(HierlprWarning, match="Calibrate again"):
        grouped.remove_labels(["B"])
    grouped.save(target)
    assert load_model(target).profile_ is None


def test_label_names_may_be_anything(tmp_path):
    names = ["<script>", "ä/ö 漢字", 'quo"te', "new\nline", "'; DROP"]
    rng = np.random.default_rng(0)
    model = HierLPR(Hierarchy([("<script>", "ä/ö 漢字")], labels=names))
    truth = np.zeros((30, 5))
    truth[::2] = 1
    model.fit(rng.random((30, 5)), truth).save(tmp_path / "m.hlpr")
    assert load_model(tmp_path / "m.hlpr").hierarchy_.labels == tuple(names)


def test_four_thousand_labels(tmp_path):
    rng = np.random.default_rng(0)
    h = Hierarchy([(f"label {(i - 1) // 3}", f"label {i}") for i in range(1, 4000)])
    truth = h.close_upward(rng.random((60, 4000)) < 0.001)
    model = HierLPR(h).fit(rng.random((60, 4000)) + truth, truth)
    model.save(tmp_path / "m.hlpr")
    again = load_model(tmp_path / "m.hlpr")
    scores = rng.random((5, 4000))
    np.testing.assert_array_equal(again.predict_proba(scores), model.predict_proba(scores))


# -- files that must not be trusted ----------------------------------------------------------------


def rewritten(path, change, *, compression=zipfile.ZIP_STORED):
    """Rewrite the members of a model file after `change` has edited their bytes by name."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def npy(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), **options)
    return out.getvalue()


def edit_meta(path, change, *, sign=True):
    """Edit the metadata; with `sign`, as a forger would, with a matching checksum."""

    def change_members(members):
        arrays = {k.removesuffix(".npy"): np.load(io.BytesIO(v)) for k, v in members.items()}
        meta = json.loads(arrays.pop("meta").tobytes())
        change(meta, arrays)
        if sign:
            meta.pop("checksum", None)
            meta["checksum"] = container.checksum(arrays, meta)
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        members.clear()
        members.update({f"{k}.npy": npy(v) for k, v in arrays.items()})

    return rewritten(path, change_members)


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_a_truncated_file(path, keep):
    data = path.read_bytes()
    path.write_bytes(data[: keep if isinstance(keep, int) else int(keep * len(data))])
    with pytest.raises(FileError, match=r"model\.hlpr: not a hierlpr model, or cut short"):
        load_model(path)


def test_one_flipped_bit_anywhere_is_noticed(path):
    data = path.read_bytes()
    for place in np.linspace(0, len(data) - 1, 40).astype(int):
        damaged = bytearray(data)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        try:
            again = load_model(path)
        except FileError:
            continue
        again.save(path)  # a date or an unused flag of the container: the content is whole
        assert path.read_bytes() == data


def test_an_edited_number(path):
    def change(members):
        members["knot_lpr.npy"] = npy(np.load(io.BytesIO(members["knot_lpr.npy"])) * 0.5)

    with pytest.raises(FileError, match="does not match its checksum"):
        load_model(rewritten(path, change))


def test_edited_metadata(path):
    with pytest.raises(FileError, match="does not match its checksum"):
        load_model(edit_meta(path, lambda m, _: m["cutoff"].update(level=0.0), sign=False))


def test_another_version(path):
    edit_meta(path, lambda m, _: m.update(version=2))
    with pytest.raises(FileError, match="format version 2, but this hierlpr reads version 1"):
        load_model(path)


def test_fields_of_a_later_minor_version_are_ignored(case, path, tmp_path):
    model, scores, _ = case
    saved = path.read_bytes()

    def change(meta, arrays):
        meta.update(minor=99, novelty={"of": [1, 2]})
        meta["params"]["novelty"] = True
        meta["report"]["novelty"] = ["x"]
        meta["joint"]["novelty"] = 1.0
        meta["cutoff"]["novelty"] = 0.5
        arrays["novelty"] = np.arange(3)

    again = load_model(edit_meta(path, change))
    np.testing.assert_array_equal(again.predict(scores), model.predict(scores))
    again.save(path)  # what is not known is not kept
    assert path.read_bytes() == saved


def test_names_of_labels_are_kept_and_files_without_have_none(case, path):
    model, scores, cal = case
    first = model.hierarchy_.labels[0]
    named = HierLPR(model.hierarchy_.with_names({first: "disease <of any kind>"}))
    named.fit(cal.scores, cal.truth).save(path)
    again = load_model(path)
    assert dict(again.hierarchy_.names) == {first: "disease <of any kind>"}
    assert again.remove_labels([model.hierarchy_.labels[-1]]).hierarchy_.name(first).endswith(">")
    again = load_model(edit_meta(path, lambda m, _: m.pop("names")))
    assert dict(again.hierarchy_.names) == {}
    np.testing.assert_array_equal(again.predict(scores), named.predict(scores))


@pytest.mark.parametrize("forged", ["ab", [1], {"nobody": "x"}, 7])
def test_forged_names(path, forged):
    with pytest.raises(FileError, match="no valid model"):
        load_model(edit_meta(path, lambda m, _: m.update(names=forged)))


def test_a_later_file_that_needs_more_is_refused(path):
    edit_meta(path, lambda m, _: m.update(minor=99, needs=["second sight"]))
    with pytest.raises(FileError, match=r"format 1\.99; .* needs 'second sight'.*Update hierlpr"):
        load_model(path)


@pytest.mark.parametrize("forged", [{"needs": "x"}, {"needs": None}, {"minor": "1"}, {"minor": []}])
def test_forged_versions(path, forged):
    edit_meta(path, lambda m, _: m.update(forged))
    with pytest.raises(FileError, match="metadata are damaged"):
        load_model(path)


def test_a_profile_of_an_older_format_is_made_again(case, path):
    _, _, cal = case
    edit_meta(path, lambda m, a: a.pop("profile_level"))
    again = load_model(path)
    assert again.profile_ is None
    again.calibrate(cal.scores, cal.truth, fdr=0.2, confidence=0.8)


class Attack:
    def __reduce__(self):
        return (pytest.fail, ("code in the file was executed",))


def test_pickled_objects_are_refused_and_not_run(path):
    evil = npy(np.array([Attack()], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="no plain array of numbers"):
        load_model(rewritten(path, lambda m: m.update({"knot_lpr.npy": evil})))


def test_a_size_that_is_not_true_allocates_nothing(path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    )
    with pytest.raises(FileError, match="no plain array of numbers"):
        load_model(rewritten(path, lambda m: m.update({"knot_lpr.npy": header.getvalue()})))


def test_compressed_members_are_refused(path):
    bomb = npy(np.zeros(10**6))
    with pytest.raises(FileError, match="unexpected member"):
        load_model(
            rewritten(path, lambda m: m.update({"x.npy": bomb}), compression=zipfile.ZIP_DEFLATED)
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, a: m["labels"].append("more"), "25 curves for 26 labels"),
        (lambda m, a: m["labels"].__setitem__(1, "A"), "Duplicate label"),
        (lambda m, a: a.update(edge_parent=a["edge_parent"] + 99), "does not exist"),
        (lambda m, a: a.update(edge_parent=a["edge_child"]), "its own parent"),
        (lambda m, a: a.update(edge_parent=a["edge_parent"][1:]), "no valid model"),
        (lambda m, a: a.update(knot_lpr=a["knot_lpr"] * 3), "LPRs must lie in"),
        (lambda m, a: a.update(knot_score=a["knot_score"][::-1].copy()), "not monotone"),
        (lambda m, a: a.pop("knot_ptr"), "no valid model: 'knot_ptr'"),
        (lambda m, a: m.pop("cutoff"), "no valid model: 'cutoff'"),
        (lambda m, a: m["cutoff"].update(level="high"), "no valid model"),
        (lambda m, a: m["cutoff"].update(max_calls="many"), "max_calls"),
        (lambda m, a: m["params"].update(lpr={"name": "os.system", "options": {}}), "method"),
        (lambda m, a: m.update(report=[]), "no valid model"),
        (lambda m, a: m["report"].update(fallback=["x"]), "wrong length"),
        (lambda m, a: a.update(profile_level=a["profile_level"][1:]), "different lengths"),
        (lambda m, a: m.update(format="cake"), "something else"),
        (lambda m, a: a.update(fit_key=a["fit_key"][::-1].copy()), "no ascending list"),
        (lambda m, a: a.update(fit_key=a["fit_key"][1:]), "no ascending list"),
        (lambda m, a: a.update(cutoff_key_count=a["cutoff_key_count"] + 1), "make no sense"),
        (lambda m, a: m["seen"]["fit"].update(bits=64), "make no sense"),
        (lambda m, a: a.pop("cutoff_key"), "no valid model"),
    ],
)
def test_forged_content_is_checked_again(path, change, message):
    with pytest.raises(FileError, match=message):
        load_model(edit_meta(path, change))


def test_files_that_are_no_model(tmp_path):
    with pytest.raises(FileError, match="there is no such file"):
        load_model(tmp_path / "absent.hlpr")
    (tmp_path / "text.hlpr").write_text("sample,label,score\n")
    with pytest.raises(FileError, match="not a hierlpr model"):
        load_model(tmp_path / "text.hlpr")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(FileError, match="it has no metadata"):
        load_model(tmp_path / "other.npz")
    with pytest.raises(FileError, match="cannot be read"):
        load_model(tmp_path)


def test_a_failed_save_leaves_the_old_file(case, path, monkeypatch):
    before = path.read_bytes()

    def full(file, arrays):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container, "write_npz", full)
    with pytest.raises(FileError, match="cannot be written"):
        case[0].save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["model.hlpr"]
