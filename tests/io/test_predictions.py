"""Predictions of other tools: files written by hand from their documentation."""

import gzip
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cases import deepest_labels
from hierlpr import Hierarchy
from hierlpr.exceptions import DataError, FileError
from hierlpr.io.lineages import lineage, written_paths
from hierlpr.io.predictions import (
    match_columns,
    read_predictions,
    take_columns,
    write_like_input,
)
from hierlpr.io.true_names import read_true_names

FILES = Path(__file__).parent / "predictions"
BOOT = FILES / "dada2_boot.csv"
READABLE = {
    "asv.sintax": ("sintax", 4, 12),
    "seqs.taxonomy": ("mothur", 3, 10),
    "otus.cons.taxonomy": ("mothur", 2, 3),
    "fixrank.txt": ("rdp", 2, 5),
    "allrank.txt": ("rdp", 2, 5),
    "qiime2.tsv": ("qiime2", 3, 4),
    "dada2.csv": ("dada2", 2, 3),
    "dada2_tax.csv": ("dada2", 2, 3),
    "speciesnet.json": ("speciesnet", 3, 7),
    "megadetector.json": ("megadetector", 3, 10),
    "mapmycells.csv": ("mapmycells", 3, 5),
    "mapmycells.json": ("mapmycells_json", 2, 5),
}


def read(name, **options):
    if name == "dada2_tax.csv":
        options.setdefault("confidences", BOOT)
    return read_predictions(FILES / name, **options)


def listed(found, row):
    """Return the listed scores of a sample by label."""
    part = found.scores[[row]]
    labels = found.hierarchy.labels
    return {labels[i]: score for i, score in zip(part.indices, part.data, strict=True)}


def parents_of(found):
    """Return the parent of each sample's deepest label, -1 for none."""
    h = found.hierarchy
    above = [h.parents(h.labels[i]) if i >= 0 else () for i in deepest_labels(found)]
    return np.array([h.index(x[0]) if x else -1 for x in above])


@pytest.mark.parametrize("name", READABLE)
def test_formats_are_recognised_by_content(name, tmp_path):
    found = read(name)
    assert (found.format, len(found.samples), found.hierarchy.n_labels) == READABLE[name]
    assert found.scores.shape == (len(found.samples), found.hierarchy.n_labels)
    assert found.scores.data.min() >= 0.0
    assert found.scores.data.max() <= 1.0
    json.dumps(dict(found.style))  # a model file keeps it
    packed = tmp_path / "any_name.gz"
    packed.write_bytes(gzip.compress((FILES / name).read_bytes()))
    again = read_predictions(packed, confidences=BOOT)
    assert again.hierarchy.labels == found.hierarchy.labels
    assert (again.scores != found.scores).nnz == 0


def test_taxonomy_strings_give_scores_ranks_and_paths():
    found = read("asv.sintax")
    assert listed(found, 3) == {"Archaea": 0.74, "Archaea;Euryarchaeota": 0.55}
    assert listed(found, 2) == {}  # nothing was predicted
    ranks = dict(zip(found.hierarchy.labels, found.ranks, strict=True))
    assert ranks["Bacteria;Proteobacteria;Gammaproteobacteria"] == "class"
    paths = written_paths(found.hierarchy, found.ranks, found.style)
    assert "d:Bacteria,p:Firmicutes,c:Bacilli" in paths
    assert [row[1] for row in found.cells()] == ["+", "-", "", "+"]
    mothur = read("seqs.taxonomy")
    assert list(listed(mothur, 0).values()) == [1.0, 1.0, 0.95, 0.95, 0.88]
    assert mothur.ranks[:3] == ("depth 1", "depth 2", "depth 3")
    rdp = read("allrank.txt")
    # One name at two ranks is two labels.
    assert rdp.ranks == ("domain", "phylum", "class", "subclass", "domain")
    qiime = read("qiime2.tsv")
    bacilli = "Bacteria;Firmicutes;Bacilli"
    assert listed(qiime, 0) == dict.fromkeys(lineage(qiime.hierarchy, bacilli), 0.97)
    assert (
        written_paths(qiime.hierarchy, qiime.ranks, qiime.style)[1] == "d__Bacteria; p__Firmicutes"
    )


def test_a_confidence_per_rank_and_other_prefixes(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text(
        "Feature ID\tTaxon\tConsensus\na\tD_0__Bacteria;D_1__X;D_5__Y\t1;0.5;.25\n"
        "b\tk__Fungi;p__\t1e-3\n"
    )
    found = read_predictions(path)
    assert listed(found, 0) == {"Bacteria": 1.0, "Bacteria;X": 0.5, "Bacteria;X;Y": 0.25}
    assert dict(zip(found.hierarchy.labels, found.ranks, strict=True))["Bacteria;X;Y"] == "genus"
    assert listed(found, 1) == {"Fungi": 0.001}
    assert (
        written_paths(found.hierarchy, found.ranks, found.style)[2] == "D_0__Bacteria;D_1__X;D_5__Y"
    )


def test_dada2_as_one_table_or_two(tmp_path):
    one, two = read("dada2.csv"), read("dada2_tax.csv")
    assert one.hierarchy.labels == two.hierarchy.labels
    assert one.ranks == ("kingdom", "phylum", "genus")
    np.testing.assert_allclose(one.scores.toarray(), [[1, 0.84, 0], [1, 0.97, 0.8]])
    twice = tmp_path / "boot.csv"
    twice.write_text(BOOT.read_text() + '"ACGT",1,1,1\n')
    with pytest.raises(FileError, match="line 4: the sequence 'ACGT' occurs more than once"):
        read_predictions(FILES / "dada2_tax.csv", confidences=twice)


def test_classes_of_camera_traps_are_summed_up_to_their_ancestors():
    found = read("speciesnet.json")
    assert listed(found, 0) == {
        "animal": 0.875,
        "blank": 0.0625,
        "animal;mammalia": 0.875,
        "animal;mammalia;carnivora": 0.75,
        "animal;mammalia;carnivora;felidae": 0.75,
        "animal;mammalia;carnivora;felidae;panthera": 0.75,
        "animal;mammalia;carnivora;felidae;panthera;leo": 0.5,
    }
    assert listed(found, 1) == {"animal": 0.125, "blank": 0.75}
    assert found.hierarchy.name("animal;mammalia;carnivora;felidae;panthera;leo") == "panthera leo"
    assert [row[2] for row in found.cells()] == ["classifier", "classifier", ""]
    boxes = read("megadetector.json")
    assert listed(boxes, 0)["animalia;chordata;mammalia;carnivora;canidae"] == 0.875
    assert boxes.notes == ("1 further classified detections of images with several were not used",)
    assert boxes.aliases["wolf"] == "animalia;chordata;mammalia;carnivora;canidae;canislupus"


def test_cell_types_without_readable_names(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("cell_id,class_label,class_bootstrapping_probability\nc,L,0.5\n")
    assert read_predictions(path).hierarchy.labels == ("L",)


def test_cell_types_have_names_levels_and_runners_up():
    found = read("mapmycells.csv")
    assert found.hierarchy.name("CLAS_25;SUBC_269") == "269 Pineal"
    assert set(found.ranks) == {"class", "subclass"}
    extended = read("mapmycells.json")
    assert listed(extended, 0) == {
        "CLAS_25": 0.75,
        "CLAS_31": 0.25,
        "CLAS_25;SUBC_269": 0.5,
        "CLAS_25;SUBC_270": 0.25,
    }
    assert extended.aliases["1376"] == "CLAS_25;SUBC_269"


def test_names_are_data(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text('a\tA\x1b[31m(1.0);=cmd|x(0.5);B%3BC(0.4);\nb\tA\x1b[31m(1.0);"q"(0.5);\n')
    found = read_predictions(path)
    assert found.hierarchy.roots == ("A\x1b[31m",)
    path.write_text(f"a\t{'x' * 2000}(1.0);\n")
    with pytest.raises(FileError, match="longer than 1,000"):
        read_predictions(path)
    path.write_text("a\t" + "".join(f"n{i}(1.0);" for i in range(100)) + "\n")
    with pytest.raises(FileError, match="more than 64 names"):
        read_predictions(path)


def test_scores_come_to_the_labels_of_another_hierarchy():
    found = read("asv.sintax")
    known = found.hierarchy.subset([x for x in found.hierarchy.labels if "Archaea" not in x])
    column = match_columns(found, known)
    scores, is_unknown = take_columns(found, column, known)
    assert is_unknown.tolist() == [False, False, False, True]
    assert scores[[3]].nnz == 0
    rows = found.scores[:3].toarray()[:, column >= 0]
    np.testing.assert_array_equal(scores[:3].toarray()[:, column[column >= 0]], rows)
    by_name = Hierarchy([("life", "Bacteria"), ("Bacteria", "Firmicutes"), ("life", "Archaea")])
    other = read("asv.sintax", hierarchy=by_name)
    assert listed(other, 0) == {"Bacteria": 1.0, "Firmicutes": 0.99}
    # Names that are not predicted have the rank of their depth.
    assert other.ranks == ("depth 1", "domain", "phylum", "domain")
    assert "3 samples have a predicted name that the hierarchy lacks" in other.notes
    with pytest.raises(FileError, match="none of the predicted names"):
        read("asv.sintax", hierarchy=Hierarchy([("x", "y")]))


LEVELS = {"levels": ["class", "subclass"], "confidences": ["class_conf", "subclass_conf"]}


# -- AnnData ----------------------------------------------------------------------------------


@pytest.fixture
def cells():
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame(
        {
            "subclass": pd.Categorical(["T4", "T8", "B1"]),
            "class": ["T", "T", "B"],
            "class_conf": [0.9, 0.8, 0.7],
            "subclass_conf": [0.5, 0.25, 0.75],
            "truth": ["T4", "T", None],
        },
        index=["c1", "c2", "c3"],
    )
    data = anndata.AnnData(np.zeros((3, 2), dtype=np.float32), obs=obs)
    return data


def test_anndata_levels_scores_and_truth(cells, tmp_path):
    found = read_predictions(cells, **LEVELS)
    assert found.ranks == ("class", "subclass", "subclass", "class", "subclass")
    assert listed(found, 0) == {"T": 0.9, "T;T4": 0.5}
    path = tmp_path / "cells.h5ad"
    cells.write_h5ad(path)
    named = read_predictions(path, levels=["class"], confidences="class_conf")
    assert listed(named, 2) == {"B": 0.7}
    rows, truth, notes = read_true_names(path, found, column="truth")
    assert rows.tolist() == [0, 1]
    assert truth.sum() == 3
    assert len(notes) == 1
    out = tmp_path / "out.h5ad"
    write_like_input(found, np.array([-1, 1, 0]), [0, 0.5, 0.25], out)
    import anndata

    obs = anndata.read_h5ad(out).obs
    assert obs["hierlpr_label"].tolist() == ["", "T4", "T"]
    assert obs["hierlpr_chance"].tolist() == [0, 0.5, 0.25]
    assert obs["hierlpr_rank"].tolist() == ["", "subclass", "class"]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"levels": ["nowhere"], "confidences": ["class_conf"]}, "no column 'nowhere'.\nHint: obs"),
        ({"levels": ["class"], "confidences": []}, "obs"),
        ({}, "obs"),
        ({"levels": ["class"], "confidences": ["truth"]}, "cell 0"),
    ],
)
def test_anndata_without_what_is_asked_for(cells, options, place):
    with pytest.raises(FileError, match=place):
        read_predictions(cells, **options)
    with pytest.raises(FileError, match="obs"):
        read_true_names(cells, read_predictions(cells, **LEVELS))


@pytest.mark.parametrize("kind", ["external link", "external data", "virtual data"])
def test_anndata_that_points_into_another_file_is_refused(cells, tmp_path, kind):
    h5py = pytest.importorskip("h5py")
    path, other = tmp_path / "cells.h5ad", tmp_path / "other.h5"
    cells.write_h5ad(path)
    with h5py.File(other, "w") as secret:
        secret["x"] = np.arange(3.0)
    with h5py.File(path, "a") as opened:
        opened["uns/cycle"] = opened["uns"]
        if kind == "external link":
            opened["obs/secret"] = h5py.ExternalLink(other, "/x")
        elif kind == "external data":
            opened.create_dataset("uns/secret", (3,), "f8", external=[(str(other), 0, 24)])
        else:
            layout = h5py.VirtualLayout((3,), "f8")
            layout[:] = h5py.VirtualSource(str(other), "x", shape=(3,))
            opened.create_virtual_dataset("uns/secret", layout)
    with pytest.raises(FileError, match="secret' is a link to another file"):
        read_predictions(path, levels=["class_name"], confidences=["class_p"])


def test_anndata_with_missing_numbers(cells):
    cells.obs["class_conf"] = pd.array([None, 1, 1], dtype="Int64")
    found = read_predictions(
        cells, levels=LEVELS["levels"], confidences="class_conf, subclass_conf"
    )
    assert listed(found, 0) == {"T": 0.0, "T;T4": 0.5}


def test_damaged_h5ad(tmp_path):
    pytest.importorskip("anndata")
    path = tmp_path / "x.h5ad"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 100)
    with pytest.raises(FileError, match="not a readable"):
        read_predictions(path)


# -- the same format out ----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(READABLE) - {"megadetector.json"}))
def test_like_input_reads_back_as_the_cut_paths(name, tmp_path):
    found = read(name)
    out = tmp_path / name
    label = parents_of(found)
    write_like_input(found, label, np.full(label.size, 0.5), out)
    again = read_predictions(out, confidences=BOOT)
    assert again.format == found.format
    assert again.samples == found.samples
    for row, i in enumerate(label):
        cut = lineage(found.hierarchy, found.hierarchy.labels[i]) if i >= 0 else []
        if found.place is not None:
            assert list(listed(again, row)) == cut
            expected = [listed(found, row)[x] for x in cut]
            assert list(listed(again, row).values()) == pytest.approx(expected)
    whole = tmp_path / f"whole_{name}"
    write_like_input(found, deepest_labels(found), np.ones(label.size), whole)
    if found.place is not None:
        assert (read_predictions(whole, confidences=BOOT).scores != found.scores).nnz == 0


def test_like_input_of_single_formats(tmp_path):
    found = read("speciesnet.json")
    out = tmp_path / "out.json"
    names = {label: i for i, label in enumerate(found.hierarchy.labels)}
    label = [names["animal;mammalia;carnivora"], names["blank"], -1]
    write_like_input(found, label, [0.9, 0.8, 0.0], out)
    images = json.loads(out.read_text())["predictions"]
    assert images[0]["prediction"] == ";mammalia;carnivora;;;;carnivora"
    assert images[1]["prediction"] == "f1856211-cfb7-4a5b-9158-c0f72fd09ee6;;;;;;blank"
    assert [image["prediction_score"] for image in images] == [0.9, 0.8, 0.0]
    assert [image["prediction_source"] for image in images] == ["hierlpr"] * 3
    mothur = read("seqs.taxonomy")
    write_like_input(mothur, [0, -1, -1], [1, 0, 0], out)
    first, second = out.read_text().splitlines()[:2]
    assert first.startswith("M1\tBacteria(100);Bacteria_unclassified(100);")
    assert second.startswith("M2\tunknown(100);unknown_unclassified(100);")
    cells = read("mapmycells.json")  # a runner-up may be the name
    up = cells.hierarchy.labels.index("CLAS_31")
    write_like_input(cells, np.full(len(cells.samples), up), np.ones(len(cells.samples)), out)
    assert listed(read_predictions(out), 0)["CLAS_31"] == listed(cells, 0)["CLAS_31"] == 0.25
    boxes = read("megadetector.json")
    with pytest.raises(DataError, match="megadetector files are not written"):
        write_like_input(boxes, [0, -1, -1], [1, 0, 0], out)


# -- truth ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "asv1\td:Bacteria,p:Firmicutes\nasv4\td:Archaea\n",
        "other\tBacteria;NA\nasv1\tBacteria;Firmicutes\nasv4\tArchaea\n",
        "sample,name\nasv1,Firmicutes\nasv4,archaea\n",
        "Feature ID\tTaxon\nasv1\td__Bacteria; p__Firmicutes; c__\nasv4\td__Archaea; p__Unheard\n",
        "id\tsite\ttruth\nasv1\tx\tBacteria;Firmicutes\nasv3\tx\tNA\nasv4\ty\tArchaea\n",
    ],
)
def test_truth_as_names_or_paths(text, tmp_path):
    found = read("asv.sintax")
    path = tmp_path / "truth.txt"
    path.write_text(text)
    rows, truth, notes = read_true_names(path, found)
    assert rows.tolist() == [0, 3]
    labels = [{found.hierarchy.labels[i] for i in truth[[k]].indices} for k in (0, 1)]
    assert labels == [{"Bacteria", "Bacteria;Firmicutes"}, {"Archaea"}]
    assert len(notes) == ("Unheard" in text) + ("NA" in text)


def test_truth_as_a_path_of_readable_names(tmp_path):
    path = tmp_path / "truth.csv"
    path.write_text('cell_id,cell_type\nc1,"Pineal Glut, all;269 Pineal"\nc2,CLAS_25;SUBC_270\n')
    _, truth, notes = read_true_names(path, read("mapmycells.csv"))
    assert truth.sum(axis=1).tolist() == [2, 2]
    assert notes == ()


def test_truth_of_camera_traps():
    found = read("speciesnet.json")
    rows, truth, notes = read_true_names(FILES / "coco.json", found)
    assert rows.tolist() == [0, 1]
    assert truth.sum(axis=1).tolist() == [6, 1]
    assert notes == ("1 true names are empty or belong to samples without a prediction",)
    few = replace(found, samples=("i1", "i2", "x"))
    assert read_true_names(FILES / "coco.json", few)[0].tolist() == [0, 1]


def test_truth_without_the_top_rank(tmp_path):
    path = tmp_path / "truth.csv"
    path.write_text(
        "file,label\ncam/0001.jpg,mammalia;carnivora;felidae;panthera;leo\ncam/0002.jpg,oryx\n"
    )
    rows, truth, notes = read_true_names(path, read("speciesnet.json"))
    assert rows.tolist() == [0]
    assert truth.sum() == 6
    assert notes[0].startswith("1 true names are never predicted and were left out, such as 'oryx'")


def test_a_true_path_beside_all_predictions_makes_them_wrong(tmp_path):
    path = tmp_path / "truth.tsv"
    path.write_text("asv1\tBacteria;Firmicutes\nasv4\tPlants;Algae\n")
    rows, truth, notes = read_true_names(path, read("asv.sintax"))
    assert rows.tolist() == [0, 3]
    assert truth.sum(axis=1).tolist() == [2, 0]
    assert notes[0].startswith("1 true paths share no name")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("asv1\tFirmicutes\nasv1\tBacteria\n", "no sample has a single true name"),
        ("a\tb\tc\n1\t2\t3\n", "line 1: which column"),
        ("asv1\tFirmicutes\nasv2\n", "line 2: the row has 1 columns, expected 2"),
        ("zz\tFirmicutes\nyy\tBacteria\n", "none of its samples"),
        ("asv1\tNothing\nasv4\tSuch\n", "none of its names"),
        ("asv1\tTwice\n", "'Twice' are names of several labels: give whole paths"),
        ('{"images": [], "annotations": []}', "categories: 'categories' must be a list"),
        (
            '{"images": [], "categories": [{"id": 1}], "annotations": []}',
            "categories: 'name' must be text",
        ),
        (
            '{"images": [], "categories": [], "annotations": [{"category_id": 1, "image_id": 2}]}',
            r"annotations\[0\]: '1' is not defined",
        ),
    ],
)
def test_malformed_truth_names_the_place(text, match, tmp_path):
    found = read("asv.sintax")
    found = replace(found, aliases={**found.aliases, "twice": None})
    path = tmp_path / "truth.txt"
    path.write_text(text)
    with pytest.raises(FileError, match=match):
        read_true_names(path, found)


# -- malformed predictions --------------------------------------------------------------------

Q = "Feature ID\tTaxon\tConfidence\n"
M = "cell_id,class_label,class_name,class_bootstrapping_probability\n"
MALFORMED = [
    ("", "empty"),
    ("\ufeff", "empty"),
    ("\u2028\n", "line 1: the format is not recognised"),
    ("hello\n", "line 1: the format is not recognised"),
    ("a\td:B(1.0)\t+\na\td:B(1.0)\t+\n", "line 2: the sample 'a' already occurs in line 1"),
    ("a\td:B(1.0)\t+\nb\td:B(1.0),p:C\t+\n", "line 2: 'p:C' has no confidence"),
    ("a\td:B(1.0)\t+\nb\td:B(high)\t+\n", "line 2: the confidence 'high'"),
    ("a\td:B(1.0)\t+\nb\td:B(NaN)\t+\n", "line 2: the confidence nan"),
    ("a\td:B(1.0)\t+\nb\n", "line 2: cannot read 'b'"),
    ("a\td:B(1.0)\t+\n\nb\td:B\n", "line 3: 'd:B' has no confidence"),
    ("a\td:B(1.0)\t+\nb\td:B(1.9)\t+\n", "line 2: the confidence 1.9 is not from 0 to 1.\nHint"),
    ('Feature ID\tTaxon\tConfidence\ns\tB;C\t"0.5;0.4"\n', "\nHint: write the file without quotes"),
    ("a\0\t\0B\0\n\0", "save UTF-16 as UTF-8"),
    (f"a\td:B(1.0)\t+\nb\td:{'B' * 2000}(1.0)\t+\n", "line 2: the name 'B+…' is longer than 1,000"),
    ("a\t" + ",".join(f"d:{i}(1.0)" for i in range(99)), "line 1: the path .* more than 64"),
    ("a\tB(100);C(120);\n", "line 1: the confidence 120 is not from 0 to 100"),
    ("a\tunknown(100);unknown_unclassified(100);\n", "no sample has a predicted name"),
    ("OTU\tSize\tTaxonomy\nOtu1\tmany\tB(100);\n", "line 2: cannot read"),
    (
        "s\t\tB\tdomain\t1.0\tC\tphylum\n",
        "line 1: the parts of the path do not come in groups of 3",
    ),
    (Q + "a\tk__F;p__A\n", "line 2: the row has 2 columns, expected 3"),
    (Q + "a\tk__F;p__A\t1;0.5;0.2\n", "line 2: 3 confidences for 2 ranks"),
    (Q, "there are no predictions"),
    (Q.replace("\n", "\r") + "a\tk__F\t1\r", "line 1: lines end with carriage returns only"),
    ("Feature ID\tTaxon\na\tk__F\n", "line 1: there is no column of confidences"),
    ("Feature ID\tTaxon\tTaxon\na\tk__F\tx\n", "line 1, column 'Taxon': the column occurs twice"),
    (",Kingdom,Phylum\nACGT,B,F\n", "line 1: there are no bootstraps for 'Kingdom'"),
    ("cell_id,class_name\nc,x\n", "line 1: there is no column LEVEL_label"),
    ("# metadata = x\ncell_id,class_label\nc,x\n", "line 2: the level 'class' has no column"),
    ("# metadata = x\n# more\n", "line 2"),
    (M + "c,L,N,0.5\nd,L,N\n", "line 3: the row has 3 columns, expected 4"),
    ('{"predictions": [', "line 1, column 18: not valid JSON"),
    ("[1, 2]", "record 1: '1' has no label with a confidence"),
    ('{"predictions": {}}', "the top level: 'predictions' must be a list"),
    ('{"predictions": [{}]}', r"predictions\[0\]: 'filepath' must be text, got nothing"),
    (
        '{"predictions": [{"filepath": "a", "classifications": {"classes": ["x"], "scores": []}}]}',
        r"predictions\[0\]: 0 scores for 1 classes",
    ),
    (
        '{"predictions": [{"filepath": "", "classifications": {"classes": ["x"], "scores": [7]}}]}',
        r"predictions\[0\]: the score '7'",
    ),
    (
        '{"predictions": [{"filepath": "a", '
        '"classifications": {"classes": [";;;;;;"], "scores": [1]}}]}',
        r"predictions\[0\]: the class ';;;;;;' has no name",
    ),
    (
        '{"predictions": [{"filepath": "a", '
        '"classifications": {"classes": [["x"]], "scores": [1]}}]}',
        r"predictions\[0\]: the class .* is not text",
    ),
    (
        '{"predictions": [{"filepath": "a"}, {"filepath": "a"}]}',
        r"predictions\[1\]: the sample 'a'",
    ),
    (
        '{"images": [{"file": "a", "detections": [{"conf": 1, "classifications": [["9", 0.5]]}]}]}',
        r"images\[0\]: '9' must be text, got nothing",
    ),
    (
        '{"images": [{"file": "a", "detections": [{"conf": 1, "classifications": [["9"]]}]}]}',
        r"images\[0\]: a classification is not \[category",
    ),
    (
        '{"images": [{"file": "a", "detections": [{"conf": 1, "classifications": [["9", 0.5]]}]}], '
        '"classification_categories": {"9": ["x"]}}',
        r"images\[0\]: '9' must be text, got",
    ),
    ('{"images": [{"file": "a", "detections": [3]}]}', r"images\[0\]: .* got nothing"),
    ('{"results": [], "taxonomy_tree": {"hierarchy": [["A"]]}}', "must be an object, got nothing"),
    (
        '{"results": [], '
        '"taxonomy_tree": {"hierarchy": ["A"], "A": {"a": []}, "name_mapper": {"A": {"a": "b"}}}}',
        "the top level: 'a' must be an object",
    ),
    (
        '{"results": [{"cell_id": "c", "A": {"assignment": []}}], '
        '"taxonomy_tree": {"hierarchy": ["A"], "A": {"a": []}}}',
        r"results\[0\]: '\[\]' is not in taxonomy_tree, 'A'",
    ),
    (
        '{"results": [], "taxonomy_tree": {"hierarchy": ["A"]}}',
        "the top level: 'A' must be an object",
    ),
    (
        '{"results": [], '
        '"taxonomy_tree": {"hierarchy": ["A", "B"], "A": {"a": []}, "B": {"b": []}}}',
        "taxonomy_tree, B: no node lists 'b'",
    ),
    (
        '{"results": [{"cell_id": "c", "A": {"assignment": "z", "bootstrapping_probability": 1}}],'
        ' "taxonomy_tree": {"hierarchy": ["A"], "A": {"a": []}}}',
        r"results\[0\]: 'z' is not in taxonomy_tree, 'A'",
    ),
    (
        '{"results": [{"cell_id": "c", "A": {"assignment": "a", "bootstrapping_probability": 1, '
        '"runner_up_assignment": ["a"]}}], "taxonomy_tree": {"hierarchy": ["A"], "A": {"a": []}}}',
        r"results\[0\]: 1 probabilities for 2 nodes of A",
    ),
    ("[" * 100_000, "the JSON cannot be read"),
    (
        r'{"predictions": [{"filepath": "a\ud800b"}]}',
        r"the JSON cannot be read .*surrogates not allowed",
    ),
]


@pytest.mark.parametrize(("text", "match"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_predictions_name_the_place(text, match, tmp_path):
    path = tmp_path / "predictions.txt"
    path.write_text(text)
    with pytest.raises(FileError, match=match) as error:
        read_predictions(path)
    assert str(error.value).startswith(str(path))
    assert "\x1b" not in str(error.value)


def test_other_bytes_name_the_line(tmp_path):
    path = tmp_path / "predictions.txt"
    for bad in (b"\xff", b"\0"):
        path.write_bytes(b"a\td:B(1.0)\t+\nb\td:" + bad + b"(1.0)\t+\n")
        with pytest.raises(FileError, match=r"line 2: (byte 0x|this is binary)"):
            read_predictions(path)
    with pytest.raises(FileError, match="no such file"):
        read_predictions(tmp_path / "none")
    other = tmp_path / "boot.csv"
    other.write_text('"","Kingdom","Phylum","Genus"\n"A",100,84,31\n"ACGT",100,97,80\n')
    with pytest.raises(FileError, match="line 3: there are no bootstraps for the sequence 'ACCC'"):
        read("dada2_tax.csv", confidences=other)


# -- files of other tools -----------------------------------------------------------------------

BIRDS = (
    "Start (s),End (s),Scientific name,Common name,Confidence,File\n"
    "0.0,3.0,Strix varia,Barred Owl,0.57,C:/x\\a.WAV\n"
    "0.0,3.0,Turdus merula,Blackbird,0.38,C:/x\\a.WAV\n"
    "3.0,6.0,Strix varia,Barred Owl,0.9,C:/x\\a.WAV\n"
)


def made(tmp_path, text, name="file.txt", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_predictions(path, **options)


def test_qiime_1_and_blca(tmp_path):
    found = made(tmp_path, "s1\tk__B;p__F;c__X\t0.44\ns2\tk__B;p__F\t1.0\ns3\tUnassigned\t0.9\n")
    assert (found.format, found.samples) == ("qiime1", ("s1", "s2", "s3"))
    assert listed(found, 0) == {"B": 0.44, "B;F": 0.44, "B;F;X": 0.44}
    write_like_input(found, np.array([1, 0, -1]), np.ones(3), tmp_path / "out")
    assert (tmp_path / "out").read_text() == (
        "s1\tk__B;p__F\t0.44\ns2\tk__B\t1.0\ns3\tUnassigned\t0.9\n"
    )
    found = made(tmp_path, "q\tsuperkingdom:Bacteria;100.0;phylum:P;99.5;species:P. x;40.0;\n")
    assert (found.format, found.ranks) == ("blca", ("superkingdom", "phylum", "species"))
    assert list(listed(found, 0).values()) == [1.0, 0.995, 0.4]
    write_like_input(found, np.array([1]), np.ones(1), tmp_path / "out")
    assert (tmp_path / "out").read_text() == "q\tsuperkingdom:Bacteria;100.0;phylum:P;99.5;\n"


def test_windows_of_recordings_and_detections_in_pictures(tmp_path):
    found = made(tmp_path, BIRDS, "birds.csv")
    assert found.format == "windows"
    assert found.samples == ("C:/x\\a.WAV 0.0", "C:/x\\a.WAV 3.0")
    assert listed(found, 0) == {"Strix varia": 0.57, "Turdus merula": 0.38}
    assert found.aliases["barred owl"] == "Strix varia"
    order = Hierarchy([("Aves", "Strix varia"), ("Aves", "Turdus merula")])
    assert listed(made(tmp_path, BIRDS, "b.csv", hierarchy=order), 1) == {
        "Aves": 0.9,
        "Strix varia": 0.9,
    }
    animl = "FilePath,FileName,conf,prediction,confidence\n/d/1.jpg,1.jpg,.9,cougar,0.9\n"
    found = made(tmp_path, animl + "/d/1.jpg,1.jpg,.8,deer,0.2\n/d/1.jpg,1.jpg,.8,deer,0.4\n")
    assert listed(found, 0) == {"cougar": 0.9, "deer": 0.4}


def test_artifacts_of_qiime_2(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as artifact:
        artifact.writestr("id/data/taxonomy.tsv", (FILES / "qiime2.tsv").read_text())
    found = made(tmp_path, packed.getvalue(), "t.qza")
    assert found.samples == read("qiime2.tsv").samples
    with pytest.raises(DataError, match="files are not written"):
        write_like_input(found, np.zeros(3, dtype=int), np.ones(3), tmp_path / "o")
    with pytest.raises(FileError, match="not a readable zip"):
        made(tmp_path, packed.getvalue()[:100])
    with zipfile.ZipFile(packed, "w") as artifact:
        artifact.writestr("id/data/table.biom", "")
    with pytest.raises(FileError, match=r"no data/taxonomy\.tsv"):
        made(tmp_path, packed.getvalue())


def test_the_product_along_the_path_is_preferred_for_cell_types(tmp_path):
    head = "cell_id,class_label,class_bootstrapping_probability,class_aggregate_probability\n"
    assert listed(made(tmp_path, head + "c,L,0.9,0.5\n", "c.csv"), 0) == {"L": 0.5}
    content = json.loads((FILES / "mapmycells.json").read_text())
    cell = content["results"][0]
    level = content["taxonomy_tree"]["hierarchy"][1]
    cell[level]["aggregate_probability"] = 0.25  # half of the step alone
    found = made(tmp_path, json.dumps(content))
    assert listed(found, 0)["CLAS_25;SUBC_269"] == 0.25
    assert listed(found, 0)["CLAS_25;SUBC_270"] == 0.125


ANSWERS = {
    '{"id": "a", "predictions": [{"label": "x", "confidence": 90}]}\n'
    '{"id": "b", "predictions": [{"label": "y", "confidence": 5}]}\n': ("a", {"x": 0.9}),
    '{"id": "a", "labels": {"A;x": "85%", "B": 0.1}}\n': ("a", {"A": 0.85, "A;x": 0.85, "B": 0.1}),
    '{"id": 7, "label": "x", "confidence": 0.5}\n': ("7", {"x": 0.5}),
    '{"text": "t", "labels": {"x": 7}}\n': ("t", {"x": 0.07}),
    '[[{"label": "x", "score": 0.5}, {"label": "y", "score": 0.25}]]': ("1", {"x": 0.5, "y": 0.25}),
    '[{"label": "x", "score": 0.5}]': ("1", {"x": 0.5}),
    '[{"sequence": "t", "labels": ["x", "y"], "scores": [0.5, 0.25]}]': (
        "t",
        {"x": 0.5, "y": 0.25},
    ),
}


@pytest.mark.parametrize("text", ANSWERS, ids=range(len(ANSWERS)))
def test_answers_of_language_models(text, tmp_path):
    found = made(tmp_path, text)
    assert (found.samples[0], listed(found, 0)) == ANSWERS[text]
    assert bool(found.notes) == text.startswith(("[[", '[{"label'))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            '{"id": "a", "labels": {"x": "high"}}\n',
            "record 1: .* 'high' is not a number",
        ),
        ('{"id": "a", "labels": {"x": 101}}\n', "'101' is not from 0 to 100"),
        ('{"id": "a"}\n', "record 1: .* has no label with a confidence"),
        ('{"id": "a", "label": "x", "score": 1}\n{"id": \n', "line 2.*not valid JSON"),
        ("Feature ID\tTaxon\tConfidence\na\tk__F\t-1\n", "stands for a name without a confidence"),
        ("Feature ID\tTaxon\na\tk__F\n", "no column of confidences. These are names alone"),
        (" 50.1\t100\t50\tS\t9606\t  Homo sapiens\n", "abundance table .Kraken"),
        ("#mpa_v30\n#clade_name\trelative_abundance\n", "abundance table .MetaPhlAn"),
        ("name\ttaxonomy_id\ttaxonomy_lvl\tx\n", "abundance table .Bracken"),
        ("file\tpercent\treads\ttaxon_id\ttaxon_name\n", "abundance table .Kaiju"),
        ("mediaID,observationType,scientificName\n", "give this file as the truth"),
    ],
)
def test_files_that_cannot_be_used_say_why(text, match, tmp_path):
    with pytest.raises(FileError, match=match):
        made(tmp_path, text)


def truth_of(found, tmp_path, text, name="truth.csv", **options):
    """Return the deepest true label of each sample that has one, and the notes."""
    path = tmp_path / name
    path.write_text(text)
    rows, closed, notes = read_true_names(path, found, **options)
    labels = found.hierarchy.labels
    deepest = [max((labels[i] for i in closed[[k]].indices), key=len) for k in range(rows.size)]
    names = (found.samples[row] for row in rows)
    return dict(zip(names, deepest, strict=True)), notes


def test_truth_of_windows_and_of_people_who_name_pictures(tmp_path):
    found = made(tmp_path, BIRDS, "birds.csv")
    text = "File,Start (s),truth\na.WAV,0.0,Barred Owl\na.WAV,3.0,turdus merula\n"
    first, second = found.samples
    expected = {first: "Strix varia", second: "Turdus merula"}
    assert truth_of(found, tmp_path, text)[0] == expected
    task = {
        "id": 1,
        "data": {"audio": "/data/upload/1/0a1b2c3d-1.jpg"},
        "annotations": [
            {"result": [{"type": "choices", "value": {"choices": ["deer"]}}]},
            {"was_cancelled": True, "result": [{"value": {"choices": ["cougar"]}}]},
        ],
    }
    other = task | {"data": {"image": "2.jpg"}, "annotations": [
        {"result": [{"type": "taxonomy", "value": {"taxonomy": [["deer"]]}}]},
        {"result": [{"type": "choices", "value": {"choices": ["cougar"]}}]},
    ]}  # fmt: skip
    found = made(tmp_path, "file,prediction,score\n1.jpg,deer,.5\n2.jpg,cougar,.5\n")
    names, notes = truth_of(found, tmp_path, json.dumps([task, other]), "ls.json")
    assert names == {"1.jpg": "deer"}
    assert notes == ("1 samples with several true names are left out",)


def test_truth_of_camera_traps_in_tables(tmp_path):
    found = read("speciesnet.json")
    first, second, third = found.samples
    text = (
        "deploymentID,sequenceID,mediaID,observationType,scientificName\n"
        f"d,q1,{first},animal,Panthera leo\nd,q2,{second},blank,\nd,q3,{third},unknown,\n"
    )
    names, notes = truth_of(found, tmp_path, text)
    assert names == {first: "animal;mammalia;carnivora;felidae;panthera;leo", second: "blank"}
    assert notes == ("1 true names are empty or belong to samples without a prediction",)
    text = (
        "image_id,filename,is_blank,wi_taxon_id,class,order,family,genus,species\n"
        f"1,{first},0,x,Mammalia,Carnivora,Felidae,Panthera,leo\n2,{second},1,x,,,,,\n"
    )
    assert truth_of(found, tmp_path, text)[0] == names
    text = text.replace(first, "x").replace(second, "y")
    with pytest.raises(FileError, match=r"its samples are '1', '2'.*those of the predictions"):
        truth_of(found, tmp_path, text)
    with pytest.raises(FileError, match="no column 'place'"):
        truth_of(found, tmp_path, text, sample_column="place")


def test_names_that_are_spelled_otherwise_are_matched_and_reported(tmp_path):
    """The model learned in silence that no species can be trusted."""
    rows = "".join(f"q{i};size={i};\td:B(1.0),g:Prev(1.0),s:Prev_c{i}(0.9)\n" for i in range(30))
    found = made(tmp_path, rows)
    truth = "".join(f"q{i}\tk__B; g__Prev; s__C{i}\n" for i in range(30))
    names, notes = truth_of(found, tmp_path, truth, "t.tsv")
    assert names["q7;size=7;"] == "B;Prev;Prev_c7"
    example = "such as 'C0' for 'Prev_c0'"
    assert notes == (
        f"30 of 30 true names (species) were matched without the name above them, {example}",
    )
    assert not notes[0].is_warning
    with pytest.raises(FileError, match=r"none of the 30 true names \(species\) is predicted"):
        truth_of(found, tmp_path, truth.replace("s__C", "s__other "), "t.tsv")
    few = truth.replace("s__C", "s__other ").replace("s__other 7", "s__c7", 1)
    notes = truth_of(found, tmp_path, few, "t.tsv")[1]
    assert any("only 1 of 30 true names (species) are predicted" in x for x in notes)


def test_single_names_and_other_separators_are_matched(tmp_path):
    """Truth such as ``Prevotella copri`` or ``k__B|g__Prev`` matched nothing."""
    rows = "".join(f"q{i}\td:B(1.0),g:Prev(1.0),s:Prev_c{i}(0.9)\n" for i in range(30))
    found = made(tmp_path, rows)
    labels = {f"q{i}": f"B;Prev;Prev_c{i}" for i in range(30)}
    for form in ("Prev c{}", "k__B|g__Prev|s__c{}", "k__B, g__Prev, s__c{}"):
        text = "".join(f"q{i}\t{form.format(i)}\n" for i in range(30))
        assert truth_of(found, tmp_path, text, "t.tsv")[0] == labels
    rare = "".join(f"q{i}\t{'Prev c7' if i == 7 else f'other {i}'}\n" for i in range(30))
    with pytest.raises(
        FileError, match=r"only 1 of 30 of its names is predicted(.|\n)*predicted are 'B'"
    ):
        truth_of(found, tmp_path, rare, "t.tsv")
    twice = made(tmp_path, rows + "q30\td:B(1.0),g:Other(1.0),s:Prev_c7(0.9)\n")
    text = "".join(f"q{i}\tPrev c{i}\n" for i in range(30))
    names, notes = truth_of(twice, tmp_path, text, "t.tsv")
    assert len(names) == 29
    assert notes[0].startswith(
        "1 true names that several labels have were left out, such as 'Prev c7'"
    )
