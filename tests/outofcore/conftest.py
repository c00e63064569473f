"""Batches of a few samples, however small the files."""

import pytest

from hierlpr.outofcore import batches, evaluate, predict, resources


@pytest.fixture
def small_batches(monkeypatch):
    """Stream everything: no file fits into memory, and batches hold 700 instances."""
    monkeypatch.setattr(batches, "RANK_BYTES", 10**9)
    monkeypatch.setattr(evaluate, "EVALUATE_BYTES", 10**9)
    monkeypatch.setattr(resources, "CHUNK_ROWS", 100)
    monkeypatch.setattr(predict, "CHUNK_ROWS", 100)
    size = property(lambda self: 700)
    monkeypatch.setattr(resources.RunOptions, "batch_instances", size)
