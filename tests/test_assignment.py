"""From the files of other tools to one trusted name per sample."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from cases import deepest_labels
from hierlpr import Hierarchy, HierLPR, load_model
from hierlpr.assignment import assign_names, learn_names
from hierlpr.cli import main
from hierlpr.exceptions import DataError, FileError, HierlprError, UnreachableWarning
from hierlpr.io.predictions import read_predictions

N = 600


def draw(seed, n=N):
    """Draw predicted and true paths of three ranks, and calibrated confidences."""
    rng = np.random.default_rng(seed)
    genus = rng.integers(0, 4, n)
    species = rng.integers(0, 3, n)
    chance = np.cumprod(rng.choice([0.5, 0.8, 0.95, 1.0], (n, 3)), axis=1)
    n_right = (rng.random((n, 1)) < chance).sum(axis=1)
    predicted = [["Life", f"G{g}", f"G{g}_s{s}"] for g, s in zip(genus, species, strict=True)]
    other = [["Other", "Ox", "Oy"], ["Life", "Gx", "Gy"], ["Life", "", ""]]
    true = []
    for path, right in zip(predicted, n_right, strict=True):
        rest = other[min(right, 1)][right:]
        true.append([*path[:right], *rest])
    return predicted, chance, true


def sintax(folder, seed, n=N, name="a"):
    predicted, chance, true = draw(seed, n)
    lines = [
        f"{name}{i}\t"
        + ",".join(f"{r}:{x}({c:.4f})" for r, x, c in zip("dgs", path, conf, strict=True))
        + "\t+\n"
        for i, (path, conf) in enumerate(zip(predicted, chance, strict=True))
    ]
    file = Path(folder) / f"{name}.sintax"
    file.write_text("".join(lines))
    known = Path(folder) / f"{name}.truth.tsv"
    rows = [f"{name}{i}\t{';'.join(path)}\n" for i, path in enumerate(true)]
    known.write_text("sample\ttaxon\n" + "".join(rows))
    return file, known, true


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    file, known, _ = sintax(folder, 0)
    done = learn_names(file, known, folder / "model.hlpr", error=0.1)
    return folder, done


def test_learning_checks_itself(learned):
    folder, done = learned
    assert done.n_fitted + done.n_held_out == done.n_labelled == N
    assert done.promise == "At most 10 % of new samples get a wrong name."
    assert [row.rank for row in done.ranks] == ["domain", "genus", "species"]
    assert done.wrong <= 0.1 + 3 * np.sqrt(0.09 / done.n_held_out)
    assert done.usual == 0.8
    assert done.usual_wrong > 0
    assert any("go deeper than any prediction" in note for note in done.notes)
    again = load_model(folder / "model.hlpr")
    assert again.path_style_ == done.model.path_style_


def test_new_samples_get_names_paths_ranks_and_chances(learned, tmp_path):
    folder, _ = learned
    file, _, true = sintax(tmp_path, 1, 1000, "n")
    out = tmp_path / "new.tsv"
    done = assign_names(folder / "model.hlpr", file, out)
    table = pd.read_csv(out, sep="\t", keep_default_na=False)
    assert list(table.columns) == ["sample", "name", "path", "rank", "chance", "taxonomy", "strand"]
    assert done.n_named == (table["name"] != "").sum() == sum(done.by_rank.values())
    wrong = [
        name != "" and name not in path for name, path in zip(table["name"], true, strict=True)
    ]
    assert np.mean(wrong) <= 0.1 + 3 * np.sqrt(0.09 / 1000) + 0.03  # calibrated on 200 samples
    named = table[table["rank"] == "genus"]
    assert all(path.startswith("d:Life,g:G") for path in named["path"])
    pq_out = tmp_path / "new.parquet"
    assign_names(folder / "model.hlpr", file, pq_out)
    frame = pq.read_table(pq_out).to_pandas()
    assert frame["name"].tolist() == table["name"].tolist()
    like = tmp_path / "like.sintax"
    assign_names(folder / "model.hlpr", file, like, like_input=True)
    cut = read_predictions(like)
    labels = [cut.hierarchy.labels[i] if i >= 0 else "" for i in deepest_labels(cut)]
    paths = [x.replace("d:", "").replace("g:", "").replace("s:", "") for x in table["path"]]
    assert [x.replace(",", ";") for x in paths] == labels
    # Python gives the same.
    found = read_predictions(file)
    model = load_model(folder / "model.hlpr")
    order = [found.hierarchy.labels.index(x) for x in model.hierarchy_.labels]
    frame = model.assign(found.scores[:, order])
    assert [x or "" for x in frame["label"]] == labels
    assert [x or "" for x in frame["rank"]] == table["rank"].tolist()


def test_new_names_are_named_by_the_curve_of_their_rank(learned, tmp_path):
    folder, _ = learned
    file = tmp_path / "x.sintax"
    paths = ["d:Life(1.0),g:Unheard(1.0),s:Of(1.0)", "d:Life(1.0),g:Unheard(0.99),s:Of(0.3)"]
    paths += ["d:Life(1.0),g:G1(1.0),s:Also(1.0)", "d:Life(1.0),g:G1(1.0),s:G1_s1(1.0)", ""]
    file.write_text("".join(f"u{i}\t{path}\t+\n" for i, path in enumerate(paths)))
    out = tmp_path / "x.csv"
    done = assign_names(folder / "model.hlpr", file, out)
    table = pd.read_csv(out, keep_default_na=False)
    assert table["path"].tolist()[:3] == [
        "d:Life,g:Unheard,s:Of",
        "d:Life,g:Unheard",
        "d:Life,g:G1,s:Also",
    ]
    assert table["rank"].tolist() == ["species", "genus", "species", "species", ""]
    assert done.notes[-1].startswith("3 of 5 samples have a predicted name that the model has not")
    # The names of other samples change nothing.
    file.write_text(f"u0\t{paths[0]}\t+\n")
    assign_names(folder / "model.hlpr", file, tmp_path / "y.csv")
    alone = pd.read_csv(tmp_path / "y.csv", keep_default_na=False)
    assert alone["path"][0] == table["path"][0]
    assert float(alone["chance"][0]) == float(table["chance"][0])
    like = tmp_path / "like.sintax"
    assign_names(folder / "model.hlpr", file, like, like_input=True)
    assert "s:Of" in like.read_text()


def many_names(folder, seed, n, name="a"):
    """Write predictions of which most species, and some genera, occur once."""
    rng = np.random.default_rng(seed)
    genus = (rng.pareto(0.7, n) * 8).astype(int) % 5_000
    species = rng.integers(0, 10**6, n)
    chance = np.cumprod(rng.choice([0.5, 0.8, 0.95, 1.0], (n, 3)), axis=1)
    n_right = (rng.random((n, 1)) < chance**1.5).sum(axis=1)
    lines, rows = [], ["sample\ttaxon\n"]
    for i, (g, s, c, right) in enumerate(zip(genus, species, chance, n_right, strict=True)):
        path = ["Life", f"G{g}", f"G{g}_{s}"]
        scored = ",".join(f"{r}:{x}({y:.3f})" for r, x, y in zip("dgs", path, c, strict=True))
        lines.append(f"{name}{i}\t{scored}\t+\n")
        rows.append(f"{name}{i}\t{';'.join(path[:right]) or 'No;Nor'}\n")
    files = Path(folder, f"{name}.sintax"), Path(folder, f"{name}.tsv")
    for file, texts in zip(files, (lines, rows), strict=True):
        file.write_text("".join(texts))
    return *files, n_right


def test_the_printed_table_is_that_of_new_samples_with_new_names(tmp_path):
    shares = []
    for seed in range(4):
        file, known, _ = many_names(tmp_path, seed, 600)
        done = learn_names(file, known, tmp_path / "m", seed=seed, error=0.2)
        file, _, n_right = many_names(tmp_path, seed + 100, 2000, "n")
        assign_names(tmp_path / "m", file, tmp_path / "n.csv")
        table = pd.read_csv(tmp_path / "n.csv", keep_default_na=False)
        depth = table["path"].str.count(",") + (table["path"] != "")
        wrong = (depth > n_right).mean()
        rank = {row.rank: row for row in done.ranks}
        shares.append([rank["species"].named, (depth == 3).mean(), done.wrong, wrong])
    printed, named, printed_wrong, wrong = np.mean(shares, axis=0)
    assert named > 0.2
    assert printed == pytest.approx(named, abs=0.06)
    assert printed_wrong == pytest.approx(wrong, abs=0.04)
    assert 0.15 < wrong < 0.2 + 3 * np.sqrt(0.16 / 800)


def test_ranks_and_prefixes_of_a_given_hierarchy_follow_from_the_depth(tmp_path):
    file, known, _ = sintax(tmp_path, 3, 900)
    found = read_predictions(file).hierarchy
    more = Hierarchy([*found.edges, ("Life", "Life;Gn"), ("Life;Gn", "Life;Gn;Gn_s")])
    goal = {"precision": 0.6, "confidence": 0.9, "hierarchy": more}
    done = learn_names(file, known, tmp_path / "m", **goal)
    assert [row.rank for row in done.ranks] == ["domain", "genus", "species"]
    assert set(done.model.cutoff_.groups) == {"domain", "genus", "species"}
    new = tmp_path / "new.sintax"
    new.write_text("x\td:Life(1.0),g:Gn(1.0),s:Gn_s(1.0)\ny\td:Life(1.0),g:Gm(1.0)\n")
    assign_names(tmp_path / "m", new, tmp_path / "o.csv")
    table = pd.read_csv(tmp_path / "o.csv")
    assert table["rank"].tolist() == ["species", "domain"]  # the hierarchy is complete
    assert table["path"].tolist() == ["d:Life,g:Gn,s:Gn_s", "d:Life"]


def test_few_samples_are_not_used_to_show_anything(tmp_path):
    for n, labelled in [(45, 60), (24, 27)]:
        file, known, _ = sintax(tmp_path, 4, n)
        done = learn_names(file, known, error=0.1)
        assert (done.ranks, done.wrong, done.usual_wrong) == ((), None, None)
        assert f"About {labelled} labelled samples are needed" in done.more
    out = run("--predictions", file, "--truth", known, "--out", tmp_path / "m")
    assert "%" not in out.stdout.replace("10 %", "")
    for seed in range(6):  # names of 20 to 40 samples are often alike, however few were fitted on
        file, known, _ = sintax(tmp_path, seed, 75 + 8 * seed)
        done = learn_names(file, known, error=0.1)
        assert done.ranks
        assert "do not show whether more" in done.more or "may give" in done.more
    file, known, _ = sintax(tmp_path, 4, 1500)
    assert "hardly" in learn_names(file, known, error=0.1).more


def test_names_that_cannot_be_trusted_are_said_in_python():
    rng = np.random.default_rng(0)
    truth = rng.random((200, 1)) < 0.5
    truth = np.hstack([truth, truth & (rng.random((200, 1)) < 0.5)])
    scores = truth + rng.normal(size=truth.shape)
    model = HierLPR({"a": None, "b": "a"}).fit(scores[:100], truth[:100])
    model.calibrate_sets(scores[100:105], truth[100:105], error=0.1, one_path=True)
    with pytest.warns(UnreachableWarning, match=r"had 5 samples.* needs at least 9"):
        model.assign(scores[:3])
    model.sets_ = None
    with pytest.warns(UnreachableWarning):
        model.calibrate(scores[100:], truth[100:], precision=0.9999, confidence=0.9)
    with pytest.warns(UnreachableWarning, match="No sample gets a name"):
        assert model.assign(scores[:3])["label"].isna().all()


def test_a_model_without_calibration_names_nothing():
    model = HierLPR({"a": None, "b": "a"}).fit([[0.9, 0.8], [0.2, 0.1]] * 10, [["a", "b"], []] * 10)
    with pytest.raises(HierlprError, match="calibrate_sets"):
        model.assign([[0.9, 0.8]])
    model.set_cutoff(0.5)
    frame = model.assign([[0.9, 0.8], [0.2, 0.1]])
    assert frame["label"].tolist() == ["b", None]
    assert frame["rank"].tolist() == ["depth 2", None]


def test_anndata_comes_back_with_the_answer(tmp_path):
    anndata = pytest.importorskip("anndata")
    predicted, chance, true = draw(3)
    obs = pd.DataFrame({"kind": [x[0] for x in predicted], "type": [x[1] for x in predicted]})
    obs["kind_conf"], obs["type_conf"] = chance[:, 0], chance[:, 1]
    obs["truth"] = [";".join(x for x in path[:2] if x) for path in true]
    obs.index = [f"c{i}" for i in range(N)]
    data = anndata.AnnData(np.zeros((N, 1), dtype=np.float32), obs=obs)
    columns = {"levels": ["kind", "type"], "confidences": ["kind_conf", "type_conf"]}
    done = learn_names(data, data, error=0.1, truth_column="truth", **columns)
    named = done.model.assign(data)
    assert "hierlpr_label" not in data.obs
    assert set(named.obs["hierlpr_rank"]) <= {"", "kind", "type"}
    assert named.obs["hierlpr_chance"].between(0, 1).all()
    columns = {"levels": ["kind"], "confidences": ["type_conf"]}
    done = learn_names(data, data, tmp_path / "m", error=0.2, truth_column="truth", **columns)
    data.write_h5ad(tmp_path / "cells.h5ad")
    assign_names(tmp_path / "m", tmp_path / "cells.h5ad", tmp_path / "named.h5ad")
    obs = anndata.read_h5ad(tmp_path / "named.h5ad").obs
    assert obs["hierlpr_label"].tolist() == done.model.assign(data).obs["hierlpr_label"].tolist()
    assert set(obs["hierlpr_rank"]) <= {"", "kind"}


LEVELS = ("class", "subclass", "type")
HEADS = {
    "qiime2": "Feature ID\tTaxon\tConfidence\n",
    "mapmycells": "# metadata = x.json\ncell_id,"
    + ",".join(f"{x}_label,{x}_name,{x}_bootstrapping_probability" for x in LEVELS)
    + "\n",
}
LINES = {  # of a sample with the scored names `path`
    "mothur": lambda i, path: f"{i}\t" + "".join(f"{x}({100 * c:.0f});" for x, c in path),
    "qiime2": lambda i, path: (
        f"{i}\tk__{path[0][0]}; g__{path[1][0]}; s__{path[2][0]}\t{path[2][1]:.4f}"
    ),
    "rdp": lambda i, path: "\t".join(
        [i, "", *(f"{x}\t{r}\t{c:.2f}" for r, (x, c) in zip(LEVELS, path, strict=True))]
    ),
    "mapmycells": lambda i, path: ",".join([i, *(f"{x},{x},{c:.3f}" for x, c in path)]),
}


def write_format(folder, kind, seed):
    """Write predictions of a tool, and the true names as a table; return both paths."""
    predicted, chance, true = draw(seed, 300)
    rows = [
        (f"s{i}", list(zip(names, scores.tolist(), strict=True)))
        for i, (names, scores) in enumerate(zip(predicted, chance, strict=True))
    ]
    if kind in LINES:
        text = HEADS.get(kind, "") + "".join(LINES[kind](*row) + "\n" for row in rows)
    elif kind == "speciesnet":
        images = []
        for i, ((top, _), (genus, p), (species, q)) in rows:
            classes = [f"u;{top};;;{genus};{species};x", f"u;{top};;;{genus};;y"]
            listed = {"classes": classes, "scores": [q, p - q]}
            images.append({"filepath": i, "classifications": listed})
        text = json.dumps({"predictions": images})
    else:
        tree = {"hierarchy": list(LEVELS), **{level: {} for level in LEVELS}}
        results = []
        for i, path in rows:
            cell = {"cell_id": i}
            for level, (name, score) in zip(LEVELS, path, strict=True):
                tree[level].setdefault(name, [])
                cell[level] = {"assignment": name, "bootstrapping_probability": score}
            for level, (above, _), (below, _) in zip(LEVELS, path, path[1:], strict=False):
                tree[level][above] = sorted({*tree[level][above], below})
            results.append(cell)
        text = json.dumps({"results": results, "taxonomy_tree": tree})
    file, known = folder / f"{kind}.{seed}", folder / f"{kind}.{seed}.truth"
    file.write_text(text)
    known.write_text("".join(f"s{i}\t{';'.join(x)}\n" for i, x in enumerate(true)))
    return file, known


@pytest.mark.parametrize(
    "kind", ["mothur", "qiime2", "rdp", "mapmycells", "mapmycells_json", "speciesnet"]
)
def test_two_commands_for_every_format_and_the_same_format_back(kind, tmp_path):
    file, known = write_format(tmp_path, kind, 10)
    new, _ = write_format(tmp_path, kind, 11)
    model, out, like = (tmp_path / x for x in ("m.hlpr", "out.csv", "like"))
    run("--predictions", file, "--truth", known, "--error", "0.2", "--out", model)
    run("--model", model, "--predictions", new, "--out", out)
    table = pd.read_csv(out, keep_default_na=False)
    assert len(table) == 300
    named = table[table["name"] != ""]
    assert len(named) > 150
    assert named["chance"].astype(float).between(0, 1).all()
    run("--model", model, "--predictions", new, "--out", like, "--like-input")
    again = read_predictions(like)
    assert again.format == read_predictions(new).format
    if kind == "speciesnet":
        content = json.loads(like.read_text())["predictions"]
        empty = [image["prediction"] == ";;;;;;unknown" for image in content]
        assert empty == (table["name"] == "").tolist()
    else:
        names = [
            again.hierarchy.name(again.hierarchy.labels[i]) if i >= 0 else ""
            for i in deepest_labels(again)
        ]
        assert names == table["name"].tolist()


def test_certified_precision_at_every_rank(tmp_path):
    file, known, _ = sintax(tmp_path, 8, 2000)
    done = learn_names(file, known, precision=0.8, confidence=0.9)
    assert "named at one of these ranks or deeper, at least 80 % are correct" in done.promise
    assert "Nothing is promised of the names that stop at a rank" in done.promise
    for row in done.ranks:
        assert row.correct is None or row.correct > 0.75
    named = np.array([row.named for row in done.ranks])
    assert [row.stop for row in done.ranks] == pytest.approx(-np.diff([*named, 0.0]))
    right = np.array([row.stop * (row.stop_correct or 0.0) for row in done.ranks])
    assert done.wrong == pytest.approx(named[0] - right.sum())
    strict = learn_names(file, known, precision=0.999, confidence=0.9)
    assert strict.promise.startswith("No rank can be certified")
    assert strict.ranks == ()
    assert strict.more.startswith("About 6,906 labelled samples are needed for this precision")
    strict = learn_names(file, known, precision=0.99, confidence=0.9)
    assert strict.wrong == 0
    assert strict.more.startswith("No rank is certified on most of the held-out")


def test_clusters_stay_whole_and_count_once(tmp_path):
    file, known, _ = sintax(tmp_path, 12)
    donor = {f"a{i}": f"d{i // 5}" for i in range(N)}
    table = tmp_path / "donors.csv"
    table.write_text("sample,cluster\n" + "".join(f"{x},{y}\n" for x, y in donor.items()))
    rows = zip(known.read_text().splitlines(), ["donor", *donor.values()], strict=True)
    known.write_text("".join(f"{row}\t{cluster}\n" for row, cluster in rows))
    goals = ({"error": 0.1, "confidence": 0.9}, {"precision": 0.5, "confidence": 0.9})
    for goal in goals:
        done = [learn_names(file, known, clusters=x, **goal) for x in (donor, table, "donor")]
        assert done[0].n_clusters == N // 5
        assert done[0].n_held_out % 5 == 0 < done[0].n_held_out
        assert len({str(x.ranks) for x in done}) == 1
        assert "of new clusters" in done[0].promise
    # A cluster for each sample is the same as none.
    alone = {x: x for x in donor}
    both = [learn_names(file, known, error=0.1, clusters=x) for x in (None, alone)]
    assert both[0].ranks == both[1].ranks
    assert both[1].n_clusters is None
    few = {x: f"d{i % 12}" for i, x in enumerate(donor)}
    assert "About 27 labelled clusters" in learn_names(file, known, error=0.1, clusters=few).more
    run("--predictions", file, "--truth", known, "--clusters", table, "--out", tmp_path / "m")


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (lambda i: "one", "all 30 samples are of one cluster"),
        (lambda i: i // 10, "3 labelled clusters are too few; about 27 are needed"),
        (lambda i: "" if i < 2 else i // 3, "2 of 30 samples have no cluster: 'a0', 'a1'"),
        ("donor", "no column 'donor'.*\n.*with clusters="),
    ],
)
def test_clusters_that_are_of_no_use_are_refused(clusters, message, tmp_path):
    file, known, _ = sintax(tmp_path, 6, 30)
    if callable(clusters):
        clusters = {f"a{i}": clusters(i) for i in range(30)}
    with pytest.raises(HierlprError, match=message):
        learn_names(file, known, clusters=clusters)


def test_samples_that_seem_to_belong_together_are_noticed(tmp_path):
    file, known, _ = sintax(tmp_path, 12)
    assert not [x for x in learn_names(file, known).notes if "belong together" in x]
    predicted = file.read_text().splitlines()
    order = np.argsort([x.split("g:")[1][:2] for x in predicted], kind="stable")
    name = {f"a{i}": f"cam{k // 10}_{k}" for k, i in enumerate(order)}
    for path in (file, known):
        rows = [row.split("\t", 1) for row in path.read_text().splitlines()]
        path.write_text("".join(f"{name.get(x, x)}\t{rest}\n" for x, rest in rows))
    notes = learn_names(file, known).notes
    assert [x for x in notes if "belong together" in x and x.is_warning]


def test_ranks_with_terminal_escapes_are_printed_as_text(tmp_path):
    file, known = write_format(tmp_path, "mapmycells", 10)
    file.write_text(file.read_text().replace("class_", "cl\x1b[31mass_"))
    learned = learn_names(file, known, tmp_path / "m", precision=0.8, confidence=0.9)
    assert r"cl\x1b[31mass" in learned.promise
    arguments = ["assign", "--model", tmp_path / "m", "--predictions", file, "--out"]
    done = CliRunner().invoke(main, [*map(str, arguments), str(tmp_path / "o.csv")], color=True)
    assert r"cl\x1b[31mass" in done.stderr


# -- the command ------------------------------------------------------------------------------


def run(*arguments, code=0):
    done = CliRunner().invoke(main, ["assign", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def test_new_predictions_are_compared_with_those_learned_from(tmp_path):
    file, known, _ = sintax(tmp_path, 5, 900)
    learn_names(file, known, tmp_path / "m.hlpr", error=0.2)
    new, _, _ = sintax(tmp_path, 6, 900, "new")

    def check(path):
        options = ["--model", tmp_path / "m.hlpr", "--scores", path, "--json", "-"]
        done = CliRunner().invoke(main, ["check", *map(str, options)])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    found = check(new)
    assert found["samples"] == 900
    assert not any(found["labels"]["is_different"])
    text = re.sub(r"\(([\d.]+)\)", lambda x: f"({float(x[1]) / 2:.4f})", new.read_text())
    new.write_text(text)
    assert any(check(new)["labels"]["is_different"])


def test_inspect_shows_how_a_prediction_file_is_read(tmp_path):
    (tmp_path / "a.sintax").write_text(
        "s1\td:Life(1.0),g:Gn(0.8),s:Gn_s(0.6)\t+\ns2\td:Life(1.0),g:Gm(0.4)\t+\n"
    )
    command = ["inspect", "--predictions", str(tmp_path / "a.sintax")]
    text = CliRunner().invoke(main, command).stdout
    assert "read as       sintax" in text
    assert "rank          species: 1 samples, 1 names" in text
    facts = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    assert facts["samples_by_rank"] == {"domain": 2, "genus": 2, "species": 1}
    assert facts["confidence_quartiles"] == [0.4, 0.6, 0.8, 1.0, 1.0]
    for wrong in (["inspect"], [*command, "tree.csv"]):
        assert "give a hierarchy, or --predictions" in CliRunner().invoke(main, wrong).output


def test_the_command_learns_and_names(tmp_path):
    file, known, _ = sintax(tmp_path, 5)
    model, out = tmp_path / "m.hlpr", tmp_path / "named.csv"
    page = tmp_path / "page.html"
    goal = ["--error", "0.2", "--report", page]
    done = run("--predictions", file, "--truth", known, *goal, "--out", model)
    shares = re.findall(r"[\d.]+(?= % with a wrong name)", page.read_text().replace("\xa0", " "))
    assert f"{shares[0]} % got a wrong name" in done.stdout  # one number in both places
    assert "At most 20 % of new samples get a wrong name." in done.stdout
    assert "at 0.8" in done.stdout
    done = run("--model", model, "--predictions", file, "--out", out, "--json", "-")
    assert json.loads(done.stdout)["n_samples"] == N
    assert len(out.read_text().splitlines()) == N + 1


def test_the_command_refuses_what_does_not_fit_together(tmp_path):
    file, known, _ = sintax(tmp_path, 6, 40)
    both = run("--predictions", file, "--out", tmp_path / "x", code=2)
    assert "--truth to learn, or --model" in both.output
    run("--predictions", file, "--model", known, "--error", "0.1", "--out", tmp_path / "x", code=2)
    run("--predictions", file, "--truth", known, "--out", file, code=2)
    none = run("--predictions", known, "--truth", known, "--out", tmp_path / "m", code=2)
    assert "Traceback" not in none.output
    few = run("--predictions", file, "--truth", known, "--error", "0.01", "--out", tmp_path / "m")
    assert "About 297 labelled samples are needed" in few.output
    # Whoever uses such a model reads again that nothing is promised.
    used = run("--predictions", file, "--model", tmp_path / "m", "--out", tmp_path / "x.csv")
    assert "No name can be trusted" in used.output


def test_models_and_truth_of_another_kind(tmp_path):
    file, known, _ = sintax(tmp_path, 7, 30)
    with pytest.raises(FileError):
        assign_names(known, file, tmp_path / "out.csv")
    one = np.random.default_rng(0).random((60, 1))
    HierLPR().fit(one, one > 0.6).save(tmp_path / "fit.hlpr")
    with pytest.raises(FileError, match="not a model that hierlpr assign wrote"):
        assign_names(tmp_path / "fit.hlpr", file, tmp_path / "out.csv")
    learn_names(file, known, tmp_path / "m.hlpr")
    other, row = tmp_path / "other.tsv", "s{}\tX;Y\t0.5\n".format
    other.write_text("Feature ID\tTaxon\tConfidence\n" + "".join(map(row, range(30))))
    with pytest.raises(FileError, match=r"none of the predicted names.*\n.*same taxonomy"):
        assign_names(tmp_path / "m.hlpr", other, tmp_path / "out.csv")
    assert "a copy" in learn_names(other, other).notes[-1]
    with pytest.raises(DataError, match="ending of the output"):
        assign_names(tmp_path / "m.hlpr", file, tmp_path / "out.xyz")


def test_recordings_and_pictures_from_two_files_to_names(tmp_path):
    """BirdNET's windows with a table of truth, and pictures annotated in Label Studio."""
    rng = np.random.default_rng(3)
    birds = {"Strix varia": "Barred Owl", "Turdus merula": "Blackbird", "Turdus iliacus": "Redwing"}
    names = list(birds)
    windows = ["Start (s),End (s),Scientific name,Common name,Confidence,File"]
    heard, seen, tasks = ["File,Start (s),Common name"], ["FilePath,prediction,confidence"], []
    for i in range(600):
        named, chance = names[rng.integers(3)], rng.beta(4, 1)
        true = named if rng.random() < chance else names[rng.integers(3)]
        file, start = f"rec{i // 20}.WAV", 3.0 * (i % 20)
        windows.append(f"{start},{start + 3},{named},{birds[named]},{chance:.4f},C:/x\\{file}")
        heard.append(f"{file},{start},{birds[true]}")
        seen.append(f"/cam/{i}.jpg,{named},{chance:.4f}")
        result = [{"type": "choices", "value": {"choices": [true]}}]
        image = {"image": f"/data/upload/1/{i:08x}-{i}.jpg"}
        tasks.append({"id": i, "data": image, "annotations": [{"result": result}]})
    tree = tmp_path / "tree.csv"
    tree.write_text("parent,child\n" + "".join(f"{x.split()[0]},{x}\n" for x in names))
    files = {"birds.csv": windows, "heard.csv": heard, "seen.csv": seen}
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "seen.json").write_text(json.dumps(tasks))
    for predictions, truth in (("birds.csv", "heard.csv"), ("seen.csv", "seen.json")):
        file, model, out = tmp_path / predictions, tmp_path / "m.hlpr", tmp_path / "named.csv"
        known = ("--truth", tmp_path / truth, "--hierarchy", tree)
        run("--predictions", file, *known, "--error", "0.2", "--out", model)
        run("--predictions", file, "--model", model, "--out", out)
        named = pd.read_csv(out)
        assert named["chance"].notna().mean() > 0.9
        assert set(named["name"].dropna()) <= {*names, "Strix", "Turdus"}
        assert (named["path"].dropna().str.contains(";")).mean() > 0.5
