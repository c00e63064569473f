"""Messy tables are read alike in memory and in parts: the same values, or the same message."""

from itertools import count

import numpy as np
import pytest
from click.testing import CliRunner
from messytables import LABELS, H, messy_file

from hierlpr import HierLPR, HierlprError
from hierlpr.cli import main
from hierlpr.io import delimited, read_scores, read_truth, write_hierarchy
from hierlpr.io.row_rules import none_left
from hierlpr.scale.budget import Budget, open_names
from hierlpr.scale.source import Reading
from hierlpr.scale.spool import open_source
from hierlpr.scale.truth import stream_truth

SEEDS = range(110)
_numbers = count()


class SmallBudget(Budget):
    batch_instances = property(lambda self: 25)


def filled(values, shape):
    """Dense values, NaN where nothing is stored."""
    if isinstance(values, np.ndarray):
        return values
    found = np.full(shape, np.nan)
    rows = np.repeat(np.arange(shape[0]), np.diff(values.indptr))
    found[rows, values.indices] = values.data
    return found


def said(report):
    return report.format, report.n_problems, dict(report.unknown_labels), dict(report.counts)


def whole(path, content, lenient):
    if content == "scores":
        read = read_scores(path, H, lenient=lenient)
    else:
        read = read_truth(path, H, lenient=lenient)
    values = filled(read.table.values, (read.table.n_samples, H.n_labels))
    if content == "truth":
        values = np.nan_to_num(values)
    return read.table.samples, values.tobytes(), said(read.report)


def in_parts(path, content, lenient, folder):
    budget, reading = SmallBudget(1 << 26), Reading(H, lenient=lenient)
    if content == "truth":
        known = stream_truth(str(path), reading, folder, budget)
        values = np.zeros(known.sets.shape)
        for row in range(len(values)):
            values[row, known.sets.run(row, row + 1)[0]] = 1.0
        return tuple(known.samples.to_pylist()), values.tobytes(), said(known.report)
    folder.mkdir()
    source, watch = open_source(str(path), reading, folder, budget)
    values = np.full((source.n_samples, H.n_labels), np.nan)
    kept = np.zeros(source.n_samples, dtype=bool) if source.kind == "wide" else slice(None)
    for batch in source.batches(watch):
        values[batch.numbers] = filled(batch.values, batch.values.shape)
        if source.kind == "wide":
            kept[batch.numbers] = True
    if source.kind == "wide" and not kept.any():
        raise none_left(watch)
    names = np.array(open_names(folder, source.n_samples).to_pylist(), dtype=object)
    report = watch.report(samples=len(names[kept]), labels=H.n_labels)
    return tuple(names[kept]), values[kept].tobytes(), said(report)


def outcome(function, *args):
    try:
        return function(*args)
    except HierlprError as error:
        return str(error)


@pytest.mark.parametrize("content", ["scores", "truth"])
def test_values_or_messages_are_the_same(tmp_path, monkeypatch, content):
    """Also where every few rows are a block of their own: no row is read by its neighbours."""
    problems = 0
    for seed in SEEDS:
        end, raw, lenient = messy_file(seed, content)
        path = tmp_path / f"{seed}.{end}"
        path.write_bytes(raw)
        expected = outcome(whole, path, content, lenient)
        with monkeypatch.context() as patch:
            if seed % 3:
                patch.setattr(delimited, "BLOCK", 64)
            found = outcome(in_parts, path, content, lenient, tmp_path / f"work-{next(_numbers)}")
        assert found == expected, (seed, lenient, raw)
        problems += isinstance(expected, str)
    assert len(SEEDS) // 10 < problems < len(SEEDS) * 3 // 4  # both are tried


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    truth = H.close_upward(rng.random((60, H.n_labels)) < 0.2)
    scores = np.round(rng.random(truth.shape) + truth, 1)
    HierLPR(H, lpr="isotonic", joint=False).fit(scores, truth).save(folder / "wide.hlpr")
    from scipy import sparse

    listed = sparse.csr_array(scores * (rng.random(scores.shape) < 0.7))
    HierLPR(H, lpr="isotonic", joint=False).fit(listed, truth).save(folder / "long.hlpr")
    write_hierarchy(folder / "h.csv", H)
    lines = [f"s{i}\t{label}" for i in range(3) for label in LABELS[:1]]
    (folder / "truth.tsv").write_text(
        "\n".join([*lines, "001\tA", "1\tA", "NA\tA", "🙂\té🙂"]) + "\n"
    )
    return folder


def run(*args):
    done = CliRunner().invoke(main, [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    message = [line for line in done.stderr.splitlines() if not line.startswith("Warning")]
    return done.exit_code, done.stdout, message if done.exit_code else ""


def compared(tmp_path, seeds, content, commands):
    """Run commands whole and in parts on messy files; return how many were done and refused."""
    done = [0, 0]
    for seed in seeds:
        end, raw, lenient = messy_file(seed, content)
        path = tmp_path / f"{seed}.{end}"
        path.write_bytes(raw)
        for command in commands(path):
            args = [*command, *(["--lenient"] if lenient else [])]
            memory = run(*args, "--out", tmp_path / "memory.csv") if content == "scores" else (
                run(*args))  # fmt: skip
            args += ["--partitions", 3]
            parts = run(*args, "--out", tmp_path / "parts.csv") if content == "scores" else (
                run(*args))  # fmt: skip
            assert memory == parts, (seed, raw)
            done[memory[0] != 0] += 1
            if content == "scores" and memory[0] == 0:
                whole, merged = (tmp_path / f"{x}.csv" for x in ("memory", "parts"))
                assert whole.read_bytes() == merged.read_bytes(), (seed, raw)
    return done


def test_rankings_are_the_same_bytes(tmp_path, models):
    def commands(path):
        for name in ("wide", "long"):
            yield ["rank", "-q", "--model", models / f"{name}.hlpr", "--scores", path]

    done, refused = compared(tmp_path, range(500, 530), "scores", commands)
    assert done >= 15
    assert refused >= 15


def test_evaluations_are_the_same(tmp_path, models):
    def commands(path):
        yield ["evaluate", "-q", "--hierarchy", models / "h.csv", "--ranking", path, "--truth",
               models / "truth.tsv", "--absent", "negative", "--json", "-"]  # fmt: skip

    done, refused = compared(tmp_path, range(600, 640), "ranking", commands)
    assert done >= 15
    assert refused >= 8
