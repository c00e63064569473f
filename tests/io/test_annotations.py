"""Scores and truth that are no tables: JSON predictions, GAF and Label Studio exports."""

import json

import numpy as np
import pytest

from cases import write
from hierlpr import Hierarchy
from hierlpr.data.tables import dense
from hierlpr.exceptions import FileError
from hierlpr.io import pair_samples, read_scores, read_truth

H = Hierarchy([("A", "B"), ("A", "C")], names={"B": "blue bird"})
ANSWERS = (
    '{"id": "p1", "labels": {"Blue Bird": "85%", "C": 10}}\n'
    '{"id": "p2", "predictions": [{"label": "A;C", "confidence": 40}]}\n'
)


def gaf(*rows):
    """Return a GAF file of rows: id, symbol, qualifier, term and evidence."""
    cells = ["\t".join(["DB", *row[:3], row[3], "R", row[4], *"        "]) for row in rows]
    return "!gaf-version: 2.2\n" + "".join(f"{line}\n" for line in cells)


GAF = gaf(
    ("p1", "S1", "enables", "B", "IDA"),
    ("p1", "S1", "enables", "B", "IEA"),
    ("p1", "S1", "NOT|enables", "C", "IDA"),
    ("p2", "S2", "enables", "C", "IEA"),
)


def truth_of(path, **options):
    table = read_truth(path, H, **options).table
    return dict(zip(table.samples, dense(table.values).astype(int).tolist(), strict=True))


@pytest.mark.parametrize(
    "text",
    [
        '[{"label": "B", "score": 0.85}, {"label": "C", "score": 0.1}]\n[]\n',
        '[[{"label": "B", "score": 0.85}, {"label": "C", "score": 0.1}], []]',
        '{"id": 1, "ratings": {"B": 85, "A/C": 10}}\n{"id": 2, "labels": null}\n',
        '{"id": 1, "topics": [{"topic": "B", "confidence": 0.85}, {"topic": "C", "score": "10%"}]}',
        '{"1": {"B": 0.85, "C": 0.1}, "2": {}}',
        '{"results": [{"id": 1, "labels": {"b": 0.85, "A > C": 0.1}}, {"id": 2, "labels": {}}]}',
    ],
)
def test_shapes_of_answers(tmp_path, text):
    """Those that other tools and people write."""
    read = read_scores(write(tmp_path / "a.jsonl", text), H)
    scores = dict(zip(read.table.labels, dense(read.table.values)[0].tolist(), strict=True))
    assert {label: scores[label] for label in "BC"} == pytest.approx({"B": 0.85, "C": 0.1})


def test_answers_without_numbers_say_why(tmp_path):
    for text, why in (
        ('{"id": 1, "labels": {"B": "high"}}', "record 1: the confidence 'high' is not a number"),
        ('{"id": 1, "labels": ["B"]}', "record 1: 'B' has no label with a confidence"),
        ('{"id": 1, "response": {"body": {"B": 1}}}', "has no label with a confidence"),
        ('{"id": 1, "labels": {"B": 1}}\n{"id": 2, "labels": {B: 1}}', "line 2, column 22: not"),
    ):
        with pytest.raises(FileError, match=why):
            read_scores(write(tmp_path / "a.jsonl", text), H)


def test_answers_of_models_are_scores(tmp_path):
    read = read_scores(write(tmp_path / "a.jsonl", ANSWERS), H)
    assert read.samples == ("p1", "p2")
    np.testing.assert_allclose(read.table.values.toarray(), [[0, 0.85, 0.1], [0.4, 0, 0.4]])
    assert read_scores(tmp_path / "a.jsonl").table.n_samples == 2
    with pytest.raises(FileError, match="sample 'p1': label 'Blue Bird' is not in the hierarchy"):
        read_scores(tmp_path / "a.jsonl", Hierarchy([("A", "C")]))
    truth = read_truth(write(tmp_path / "t.gaf", GAF), H)
    assert pair_samples(read, truth).scores.samples == ("p1", "p2")


def test_gene_annotations_are_truth(tmp_path):
    path = write(tmp_path / "t.gaf", GAF)
    assert truth_of(path) == {"p1": [1, 1, 0], "p2": [1, 0, 1]}
    assert truth_of(path, sample_column="symbol") == {"S1": [1, 1, 0], "S2": [1, 0, 1]}
    for codes in ("iea, ND", ["IEA", "ND"]):
        with pytest.raises(FileError, match="no annotation has the evidence code 'ND'"):
            truth_of(path, without_evidence=codes)
    assert truth_of(path, without_evidence="IEA") == {"p1": [1, 1, 0]}
    report = read_truth(path, H, without_evidence="IEA").report
    assert report.counts["annotations with NOT left out"] == 1
    assert report.counts["annotations with IEA left out"] == 2
    assert "annotations by evidence: IDA 2, IEA 2" in report.notes[0]
    with pytest.raises(FileError, match="line 2: the row has 3 columns"):
        truth_of(write(tmp_path / "b.gaf", "!\na\tb\tc\n"))
    with pytest.raises(FileError, match=r"end its name in \.gaf"):
        truth_of(write(tmp_path / "t.tsv", "!gaf-version: 2.2\n"))


def test_label_studio_exports_are_truth(tmp_path):
    def task(data, *choices):
        return {"data": data, "annotations": [{"result": [{"value": {"choices": list(choices)}}]}]}

    tasks = [task({"image": "/u/1/0a1b2c3d-p1"}, "B", "C"), task({"image": "p2"})]
    path = write(tmp_path / "t.json", json.dumps(tasks))
    assert truth_of(path) == {"p1": [1, 1, 1], "p2": [0, 0, 0]}
    path = write(tmp_path / "t.json", json.dumps([task({"image": "p1", "text": "x"}, "B")]))
    with pytest.raises(FileError, match="task 0: which of its data is the sample"):
        truth_of(path)
    assert truth_of(path, sample_column="text") == {"x": [1, 1, 0]}
    with pytest.raises(FileError, match="this is no list of tasks"):
        truth_of(write(tmp_path / "t.json", '{"a": 1}'))
