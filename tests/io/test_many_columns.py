"""Wide Parquet of very many columns is read some columns at a time, and reads the same."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hierlpr import Hierarchy
from hierlpr.exceptions import FileError
from hierlpr.io import cell_values, read_scores

H = Hierarchy(labels=[f"L{i}" for i in range(11)])


def written(path, **columns):
    rng = np.random.default_rng(0)
    values = {label: rng.normal(size=7) for label in H.labels} | columns
    table = pa.table({"sample": [f"p{i}" for i in range(7)], **values})
    pq.write_table(table.select(["sample", *reversed(H.labels)]), path, row_group_size=4)
    return path


@pytest.mark.parametrize("run", [1, 3, 5])
def test_the_same_is_read(tmp_path, monkeypatch, run):
    path = written(tmp_path / "s.parquet", L3=[1, 2, 3, 4, 5, 6, 7], L5=[0.5, None] + [0.25] * 5)
    whole = read_scores(path, H, allow_missing=True)
    monkeypatch.setattr(cell_values, "MANY_COLUMNS", run)
    some = read_scores(path, H, allow_missing=True)
    np.testing.assert_array_equal(some.table.values, whole.table.values)
    assert some.table.samples == whole.table.samples
    assert some.table.values.flags.c_contiguous


def test_a_bad_value_is_named_with_its_place(tmp_path, monkeypatch):
    path = written(tmp_path / "s.parquet", L5=[0.5] * 5 + [float("inf"), 0.5])
    told = []
    for run in (1 << 10, 2):
        monkeypatch.setattr(cell_values, "MANY_COLUMNS", run)
        with pytest.raises(FileError) as error:
            read_scores(path, H)
        told.append(str(error.value))
    assert told[0] == told[1]
    assert "row 6" in told[0]
    assert "L5" in told[0]
