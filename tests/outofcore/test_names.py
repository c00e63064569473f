"""Names are numbered as by a dictionary, also where hashes are shared."""

import numpy as np
import pyarrow as pa
import pytest

from hierlpr.outofcore import names
from hierlpr.outofcore.names import NameList, NameNumbers, joined_names


@pytest.mark.parametrize("longest", [2**31, 1000])
@pytest.mark.parametrize("n_hashes", [2**40, 50, 1])
def test_names_are_numbered_in_order_of_appearance(monkeypatch, n_hashes, longest):
    def few(column):
        return np.array([hash(x) % n_hashes for x in column.to_pylist()], dtype=np.int64)

    monkeypatch.setattr(names, "name_hashes", few)
    monkeypatch.setattr(names, "_LONGEST_TEXT", longest)
    rng = np.random.default_rng(0)
    numbers, expected = NameNumbers(), {}
    for size in [1, 30, 3, 200, 0, 80, 300, 5]:
        drawn = [f"näme{i}" for i in rng.integers(0, 200, size)]
        found = numbers.numbers(pa.array(drawn, pa.string()))
        assert found.tolist() == [expected.setdefault(x, len(expected)) for x in drawn]
    assert len(numbers) == len(expected)
    assert numbers.release().to_pylist() == list(expected)


@pytest.mark.parametrize("longest", [2**31 - 1, 6])
def test_names_are_appended(monkeypatch, longest):
    monkeypatch.setattr(names, "_LONGEST_TEXT", longest)
    collected, parts = NameList(), [pa.array(["a", "bcd", "é"]), pa.array(["", "xyz"])]
    for part in (parts[0].slice(1), parts[1], parts[1].slice(0, 1), parts[0].slice(0, 0)):
        collected.append(part)
    whole = collected.array()
    whole.validate(full=True)
    assert whole.to_pylist() == ["bcd", "é", "", "xyz", ""]
    assert pa.types.is_large_string(whole.type) == (longest == 6)


def test_long_text_gets_long_offsets(monkeypatch):
    monkeypatch.setattr(names, "_LONGEST_TEXT", 10)
    parts = [pa.array(["alpha", "b"]), pa.array(["gamma"])]
    whole = joined_names(parts)
    assert whole.type == pa.large_string()
    assert (whole.to_pylist(), parts) == (["alpha", "b", "gamma"], [])
