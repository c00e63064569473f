"""Features as users have them: gaps, categories, frames, sparse and odd columns."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from hierlpr.exceptions import DataError
from hierlpr.first_stage.encoding import MAX_CATEGORIES, FeatureEncoder


def encode(fit, new=None):
    encoder = FeatureEncoder().fit(fit)
    return encoder, encoder.transform(fit if new is None else new)


def test_numbers_are_standardized_and_gaps_become_the_mean():
    x = np.array([[1.0, 10.0], [3.0, np.nan], [np.nan, 30.0], [5.0, 20.0]])
    _, z = encode(x)
    assert z.dtype == np.float32
    assert z[2, 0] == z[1, 1] == 0.0
    known = z[[0, 1, 3], 0]
    np.testing.assert_allclose([known.mean(), known.std()], [0.0, 1.0], atol=1e-6)


def test_columns_that_tell_nothing_are_left_out_and_that_is_said():
    x = np.column_stack([np.full(5, np.nan), np.full(5, 7.0), np.arange(5.0)])
    encoder, z = encode(x)
    assert z.shape == (5, 1)
    assert "2 constant columns" in encoder.notes[0]
    _, none = encode(x[:, :2])
    assert none.shape == (5, 1)
    assert not none.any()


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_frames_go_by_name_with_categories_and_gaps(library):
    table = {
        "size": [1.0, 2.0, None, 4.0], "colour": ["red", "blue", None, "red"],
        "old": [True, False, True, True],
    }  # fmt: skip
    encoder, z = encode(library(table))
    assert encoder.names == ("size", "colour", "old")
    assert z.shape == (4, 5)  # one indicator each for blue, red and missing
    turned = library({name: table[name] for name in ("old", "size", "colour")})
    np.testing.assert_array_equal(encoder.transform(turned), z)
    unknown = library({**table, "colour": ["green", "blue", None, "red"]})
    after = encoder.transform(unknown)
    assert (after[0, 2:] < 0).all()  # none of the known categories
    with pytest.raises(DataError, match="lacks column\\(s\\) it had in fit: 'old'"):
        encoder.transform(library({"size": table["size"], "colour": table["colour"]}))
    with pytest.raises(DataError, match="did not have in fit: 'new'"):
        encoder.transform(library({**table, "new": [1, 2, 3, 4]}))


def test_pandas_categoricals_and_object_numbers():
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(["a", "b", "a", None]),
            "n": pd.Series([1, 2.5, None, 3], dtype=object),
        }
    )
    _, z = encode(frame)
    assert z.shape == (4, 4)
    array = np.array([["x", 1.0], ["y", None], ["x", 2.0]], dtype=object)
    _, z = encode(array)
    assert z.shape == (3, 3)


def test_columns_without_names_or_with_names_that_are_no_texts():
    x = np.random.default_rng(0).normal(size=(5, 4))
    expected = encode(x)[1]
    levels = pd.MultiIndex.from_product([["a", "b"], ["c", "d"]])
    for columns in (None, ["a", 1, 2.0, None], levels):
        frame = pd.DataFrame(x, columns=columns)
        encoder, z = encode(frame)
        np.testing.assert_array_equal(z, expected)
        np.testing.assert_array_equal(encoder.transform(frame[frame.columns[::-1]]), expected)
        np.testing.assert_array_equal(encoder.transform(x), expected)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([5.0, pd.NA, 7], dtype=object),
        pd.Series([np.bool_(True), None, False], dtype=object),
        pd.Series([Decimal("1.5"), None, Fraction(1, 3)], dtype=object),
        pd.array([1, None, 2], dtype="Int64"),
        pd.array([True, None, False], dtype="boolean"),
    ],
)
def test_numbers_of_every_kind_with_a_gap(column):
    _, z = encode(pd.DataFrame({"c": column}))
    assert z.shape == (3, 1)
    assert z[1, 0] == 0.0


def test_numbers_that_name_categories():
    kinds = pd.Categorical([1, 2, 3, 2])
    encoder, z = encode(pd.DataFrame({"kind": kinds}))
    assert z.shape == (4, 3)
    # A gap makes pandas write 1 as 1.0: the same category.
    again = encoder.transform(pd.DataFrame({"kind": pd.Categorical([1.0, 2.0, None, 2.0])}))
    np.testing.assert_array_equal(again[[0, 1, 3]], z[[0, 1, 3]])
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"kind": [1.0, 2, 3, 2]})), z)


def test_rare_categories_beyond_the_limit_are_said():
    column = np.array([[f"id{i}"] for i in range(MAX_CATEGORIES + 50)], dtype=object)
    encoder, z = encode(column)
    assert z.shape[1] == MAX_CATEGORIES
    assert "51 rare categories as one" in encoder.notes[0]


def test_sparse_equals_dense_and_wide_ones_are_projected():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 8)) * (rng.random((30, 8)) < 0.3)
    np.testing.assert_array_equal(encode(sparse.csr_array(x))[1], encode(x)[1])
    wide = sparse.csr_array(rng.random((40, 5000)) * (rng.random((40, 5000)) < 0.01))
    encoder, z = encode(wide)
    assert z.shape == (40, 39)
    assert "5,000 sparse features by 39 singular vectors" in encoder.notes[0]
    np.testing.assert_array_equal(encoder.transform(wide[:3]), z[:3])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.array([[1.0], [np.inf]]), "infinite value \\(inf\\) in column number 0, row 1"),
        (np.zeros(3), "Expected 2D array"),
        (np.zeros((3, 0)), "0 feature"),
        (np.array([[1j]]), "Complex"),
        (np.array([[{"a": 1}], ["b"]], dtype=object), "holds a dict"),
        (pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}), "'when' of X holds a"),
        (sparse.csr_array(np.array([[np.nan, 1.0]])), "contains NaN"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "unique column names"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "more than one column named '1'"),
        ([[1, 2], [3]], "inhomogeneous"),
        (np.array([[1j], [1]], dtype=object), "holds a complex"),
        (pd.DataFrame({"a": [np.zeros(2), np.zeros(2)]}), "holds a ndarray"),
        (pd.DataFrame({"a": pd.period_range("2020", periods=2, freq="D")}), "holds a Period"),
    ],
)  # fmt: skip
def test_bad_features_are_refused(bad, message):
    with pytest.raises((DataError, ValueError), match=message):
        FeatureEncoder().fit(bad)


def test_what_changes_between_fit_and_use_is_refused():
    x = np.arange(6.0).reshape(3, 2)
    encoder = FeatureEncoder().fit(x)
    with pytest.raises(DataError, match="X has 3 features, but FirstStage is expecting 2"):
        encoder.transform(np.zeros((1, 3)))
    with pytest.raises(DataError, match="X was dense in fit, and now is sparse"):
        encoder.transform(sparse.csr_array(x))
    with pytest.raises(DataError, match="held numbers in fit, and now holds text"):
        encoder.transform(np.array([["a", "b"]], dtype=object))


@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series, np.array])
def test_texts_are_vectorized_and_wide_vocabularies_projected(kind):
    texts = [None, *(f"the cat sat by dog{i // 2}" for i in range(14))]
    encoder, z = encode(kind(texts))
    assert z.shape == (15, 11)
    np.testing.assert_array_equal(encoder.transform(kind(texts[:2])), z[:2])
    assert encode(pd.DataFrame({"name": texts}))[1].shape == (15, 8)  # categories: most occur twice
    texts = [f"{i} {text}" for i, text in enumerate(texts, 10)]
    _, z = encode(pd.DataFrame({"size": np.arange(15.0), "text": texts}))
    np.testing.assert_array_equal(z[:, 1:], encode(texts)[1])
    wide, z = encode([" ".join(f"w{300 * i + j}" for j in range(400)) for i in range(20)])
    assert "6,100 sparse features by 19 singular vectors" in wide.notes[0]
    assert z.shape == (20, 19)
    with pytest.raises(DataError, match="X was texts in fit, and now is dense"):
        encoder.transform(np.zeros((2, 1)))
