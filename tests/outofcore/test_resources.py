import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hierlpr import Hierarchy, HierlprError
from hierlpr.exceptions import ResourceError
from hierlpr.io import open_table
from hierlpr.outofcore.resources import (
    RunOptions,
    duckdb_connection,
    estimate_rows,
    needed_memory,
    parse_memory,
    sorted_rows,
    whole_samples,
)

TREE = Hierarchy([("A", "B")])


@pytest.mark.parametrize("text", ["much", "1 XB", "-1GB", "3MB", "1,5GB", "9" * 400])
def test_bad_amounts_of_memory(text):
    with pytest.raises(HierlprError, match="memory"):
        parse_memory(text)


def test_the_folder_for_temporary_files_must_exist(tmp_path):
    with pytest.raises(HierlprError, match="does not exist"):
        RunOptions(TREE, work=tmp_path / "none")


def test_sizes_are_estimated_without_reading(tmp_path):
    table = pa.table({"sample": ["a", "b", "c"], "A": [0.0] * 3, "B": [0.0] * 3})
    pq.write_table(table, tmp_path / "s.parquet")
    (tmp_path / "s.csv").write_text("sample,A,B\n" + "".join(f"s{i},1,0\n" for i in range(900)))
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress((tmp_path / "s.csv").read_bytes()))
    (tmp_path / "long.csv").write_text("sample,label,score\n" + "s1,A,0.5\n" * 70)
    (tmp_path / "empty.csv").write_text("sample,A,B\n")
    for name, n_rows, n_scores in (("s.parquet", 3, 6), ("s.csv", 900, 1800), ("empty.csv", 0, 0),
                                   ("s.csv.gz", 900, 1800), ("long.csv", 70, 70)):  # fmt: skip
        path = str(tmp_path / name)
        assert estimate_rows(path) == n_rows
        assert needed_memory(open_table(path, "scores", TREE), 1)[0] == n_scores


def test_names_that_do_not_fit_are_refused():
    options = RunOptions(TREE, memory="100MB")
    options.require_memory(60_000_000, "names")
    with pytest.raises(ResourceError, match=r"0\.1 GB .* too little for names: at least 0\.2 GB"):
        options.require_memory(61_000_000, "names")


def test_rows_are_sorted_on_disk_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("hierlpr.outofcore.resources.CHUNK_ROWS", 1000)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 50, 20_000)
    schema = pa.schema([("sample", pa.int64()), ("place", pa.int64())])
    given = (
        pa.RecordBatch.from_arrays([pa.array(part), pa.array(np.arange(part.size))], schema=schema)
        for part in np.array_split(values, 7)
    )
    options = RunOptions(TREE, memory="64MiB", work=tmp_path)
    rows = whole_samples(sorted_rows(given, schema, "sample, place", options), 3000)
    found = [next(rows)]
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o700]  # private
    found += rows
    sample = np.concatenate([batch["sample"] for batch in found])
    assert (sample == np.sort(values)).all()
    assert len(found) > 3
    ends = [batch["sample"][-1] for batch in found]
    starts = [batch["sample"][0] for batch in found]
    assert all(end < start for end, start in zip(ends, starts[1:], strict=False))
    assert list(tmp_path.iterdir()) == []


def test_the_database_has_no_access_to_files(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with duckdb_connection(tmp_path, 1 << 26) as connection, pytest.raises(duckdb.Error):
        connection.sql(f"SELECT * FROM '{tmp_path}/secret.csv'").fetchall()


def test_a_sort_without_memory_names_the_options(tmp_path):
    """DuckDB raises the error itself or, where Arrow reads its batches, through Arrow."""
    folder = tmp_path / "sort"
    folder.mkdir()
    with (
        pytest.raises(ResourceError, match="the sort needs more memory") as caught,
        duckdb_connection(folder, 2**26),
    ):
        raise pa.ArrowInvalid("Out of Memory Error: failed to allocate data")
    assert caught.value.options == ("work", "memory")
    with pytest.raises(pa.ArrowInvalid, match="other"), duckdb_connection(folder, 2**26):
        raise pa.ArrowInvalid("other")
