"""Ids of clusters, and clusters that nobody mentioned."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from hierlpr import simulate
from hierlpr.data.clusters import cluster_ids, cluster_note, cluster_numbers, identifies_clusters
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, HierlprWarning

NAMES = ("s1", "s2", "s3", "s4")
TABLE = Table(np.zeros((4, 1)), ("A",), NAMES, "pandas")
IDS = ["p2", "p1", "p2", "p3"]


@pytest.mark.parametrize(
    "ids",
    [
        IDS, tuple(IDS), np.array(IDS), np.array(IDS, dtype=object), [2, 1, 2, 3], pl.Series(IDS),
        pd.Series(IDS, NAMES), pd.Series(IDS, NAMES, dtype="category"),
        pd.Series([2, 1, 2, 3], NAMES, dtype="Int64"), [2.0, 1.0, 2.0, 3.0],
        [" p2", "p1", "p2 ", "p3"],
        pd.DataFrame({"patient": IDS}, NAMES), pl.DataFrame({"patient": IDS}),
        pd.Series(["p3", "p2", "p1", "p2"], index=["s4", "s3", "s2", "s1"]),
        {"s4": "p3", "s3": "p2", "s2": "p1", "s1": "p2"},
        {"s9": "p2", "s4": "p3", "s3": "p2", "s2": "p1", "s1": "p2"},
        pd.Series(["", "p3", "p2", "p1", "p2"], index=["s9", "s4", "s3", "s2", "s1"]),
        pl.DataFrame({"patient": ["p3", "p2", "p1", "p2"], "sample": ["s4", "s3", "s2", "s1"]}),
    ],
)  # fmt: skip
def test_ids_of_any_kind_give_the_same_numbers(ids):
    hashed = cluster_ids(ids, TABLE)
    assert hashed[0] == hashed[2]
    assert np.unique(hashed).size == 3


def test_whole_numbers_are_the_same_ids_as_floats():
    assert np.array_equal(cluster_ids([2, 1, 2, 3], TABLE), cluster_ids([2.0, 1, 2, 3.0], TABLE))


def test_rows_of_a_frame_with_a_default_index_have_their_numbers_as_names():
    table = Table(np.zeros((4, 1)), ("A",), None, "pandas")
    expected = cluster_ids(IDS, table)
    assert np.array_equal(cluster_ids(pd.Series(IDS)[::-1], table), expected)
    with pytest.warns(HierlprWarning, match="indexes of scores and clusters differ"):
        assert np.array_equal(cluster_ids(pd.Series(IDS), TABLE), expected)


def test_clusters_of_one_sample_are_none():
    assert cluster_ids(None, TABLE) is None
    assert cluster_numbers(["a", "b", "c", "d"], TABLE) is None
    assert cluster_numbers(IDS, TABLE).tolist().count(1) in (1, 2)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["p1", None, "p2", None], r"2 of 4 ids are missing, the first of row 1.*\n.*of its own"),
        (pd.Series(["p", "", "p", "p"], ["s1", "s2", "s3", "s4"]), "missing, the first of sample"),
        ([1.0, np.nan, 2.0, 2.0], "1 of 4 ids are missing"),
        (["p1", "p2"], "2 ids for 4 samples"),
        (["p1"] * 4, "all 4 samples are of one cluster"),
        (pd.Series([1, pd.NA, 2, 2], NAMES), "1 of 4 ids are missing"),
        (["nan", "p1", "p1", "None"], "2 of 4 ids are missing"),
        ({"s1": "p1", "s2": "p1"}, "2 of 4 ids are missing, the first of sample 's3'"),
        (pd.DataFrame({"a": IDS, "b": IDS}), "one column, .* got 'a', 'b'"),
        (np.array([IDS, IDS]), r"got \(2, 4\)"),
        ("patient", r"one id per sample \(an array, series or mapping\); got the name 'patient'"),
        (pd.Series(IDS, ["s1", "s2", "s3", "s9"]), "do not name the same samples"),
    ],
)
def test_bad_ids_are_named(ids, message):
    with pytest.raises(DataError, match=message):
        cluster_ids(ids, TABLE)


def visits(truth, size, form):
    """Return truth with `size` rows per patient, and names of these."""
    names = [form.format(i // size, i % size) for i in range(len(truth) * size)]
    return names, np.repeat(truth, size, axis=0)


FORMS = ["pt{:03d}_visit{}", "donor{} cell{}", "CAM{:02d}_{:04d}.JPG", "site/{}/clip{}.wav"]


@pytest.mark.parametrize("form", FORMS)
def test_patients_in_the_names_of_samples_are_noticed(form):
    names, truth = visits(simulate.disease(n_samples=100, rng=0).truth, 5, form)
    assert "agree in their truth far more than by chance" in cluster_note(names, truth)
    assert cluster_note(names, sparse.csr_array(truth)) == cluster_note(names, truth)
    suffix = [f"{i:05x}-{i // 5}" for i in range(len(names))]  # as in barcodes of cells
    assert cluster_note(suffix, truth)
    assert not cluster_note([f"s{i}" for i in range(len(names))], truth)
    assert cluster_note([f"pt{i // 5}" for i in range(len(names))], truth)  # names repeat


@pytest.mark.parametrize("label", ["{}", "g__{}", "f__Felidae;g__{}"])
def test_names_that_say_what_a_sample_is_are_no_clusters(label):
    kinds = ["Felis", "Lynx", "Puma", "Panthera"]
    kind = np.arange(80) % 4
    truth = np.eye(4, dtype=bool)[kind]
    names = [f"{kinds[i]}_{n:03d}.jpg" for n, i in enumerate(kind)]
    assert not cluster_note(names, truth, [label.format(x) for x in kinds])
    assert cluster_note(names, truth, ["A", "B", "C", "D"])


def test_independent_samples_raise_no_alarm_whatever_their_names():
    alarms = 0
    for seed in range(100):
        data = simulate.disease(n_samples=300, rng=seed)
        form = FORMS[seed % len(FORMS)]
        names = [form.format(i // 6, i % 6) for i in range(300)]
        alarms += bool(cluster_note(names, data.truth))
    assert alarms <= 1


def test_names_that_say_the_class_are_no_clusters():
    kinds = np.repeat(np.arange(10), 30)
    truth = kinds[:, None] == np.arange(10)
    names = [f"Bird{k}_{i:04d}.png" for i, k in enumerate(kinds)]
    assert not cluster_note(names, truth, [f"bird{k}" for k in range(10)])
    assert not cluster_note(None, truth)


def test_columns_that_identify_clusters():
    """A feature patient_age raised the warning, and so did counts of the words site and subject."""
    ids, counts = [i % 7 for i in range(70)], [int(i % 7 == 0) for i in range(70)]
    for name in ("patient_id", "PatientID", "recording", "camera 2", "Subject"):
        assert identifies_clusters(name, ids)
        assert not identifies_clusters(name, counts)
        assert not identifies_clusters(name, range(70))
    for name in ("age", "website", 7, "patient_age", "site_temperature", "family history"):
        assert not identifies_clusters(name, ids)
