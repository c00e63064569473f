"""`rank` through pipes and with names of labels."""

import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from shellrun import run, succeeded

from hierlpr import Hierarchy, HierLPR, load_model
from hierlpr.cli import main

H = Hierarchy([("A", "B"), ("A", "C")], names={"B": 'a "bird", <b>', "C": "cat"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    rng = np.random.default_rng(0)
    truth = rng.random((60, 3)) < 0.5
    truth[:, 0] |= truth[:, 1:].any(axis=1)
    scores = np.round(rng.normal(truth, 0.7), 3)
    HierLPR(H, joint=False).fit(scores, truth).save(folder / "m.hlpr")
    bare = Hierarchy(H.edges, labels=H.labels)
    HierLPR(bare, joint=False).fit(scores, truth).save(folder / "bare.hlpr")
    rows = [f"p{i}," + ",".join(map(str, row)) for i, row in enumerate(scores)]
    (folder / "s.csv").write_text("sample,A,B,C\n" + "\n".join(rows) + "\n")
    return folder


def piped(*args, stdin=b""):
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_scores_come_from_stdin_and_calls_go_to_stdout(folder, tmp_path):
    assert run("rank", "--model", folder / "m.hlpr", "--scores", folder / "s.csv", "--out",
               tmp_path / "c.csv")[0] == 0  # fmt: skip
    given = (folder / "s.csv").read_bytes()
    args = ("rank", "--model", folder / "m.hlpr", "--scores", "-", "--out", "-")
    code, out, err = piped(*args, stdin=given)
    assert code == 0, err
    assert out == (tmp_path / "c.csv").read_text()
    assert err.startswith("/dev/stdin: ")
    assert "wrote stdout" in err
    assert "hierlpr-" not in err
    assert piped(*args, "--format", "tsv", stdin=given)[1].splitlines()[0].count("\t") == 2
    code, out, err = piped(*args, stdin=b"sample,A,B,C\nx,1,2,z\n")
    assert (code, out) == (2, "")
    assert "Error: /dev/stdin, line 2, column 'C': 'z' is not a number" in err
    assert "/dev/stdin: the file is empty" in piped(*args)[2]
    assert "cannot both go to stdout" in piped(*args, "--json", "-", stdin=given)[2]


@pytest.mark.skipif(os.name != "posix", reason="needs a shell with process substitution")
def test_pipes_and_closed_streams_leave_no_traceback(folder, tmp_path):
    base = f"{sys.executable} -m hierlpr rank --model {folder}/m.hlpr"
    scores = f"--scores {folder}/s.csv"
    out = tmp_path / "c.csv"
    lines = {
        f"{base} --scores <(cat {folder}/s.csv) --out {out} >&- 2>&-": 0,
        f"{base} --scores - --out {out} <&-": 2,
        f"{base} {scores} --out - >/dev/full": 1,
    }
    for line, code in lines.items():
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == code, (line, done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs /dev/stdout")
def test_outputs_are_appended_to_streams(folder, tmp_path):
    """A log that stdout is appended to was replaced by the JSON."""
    log, m, s = tmp_path / "log", folder / "m.hlpr", folder / "s.csv"
    base = f"{sys.executable} -m hierlpr rank --model {m} --scores {s}"
    check = f"{sys.executable} -m hierlpr check --model {m} --scores {s}"
    (tmp_path / "link").symlink_to("/dev/stdout")
    lines = {
        f"{base} --out {tmp_path}/c.csv --json /dev/stdout >>{log}": '"rows": 180',
        f"{base} --out {tmp_path}/link >>{log}": "rank,sample,label",
        f"{base} --out /dev/fd/3 --format tsv 3>>{log}": "\tA\t",
        f"{base} --out {tmp_path}/c.csv --json /dev/stderr 2>>{log}": '"rows": 180',
        f"{check} --json /dev/fd/1 >>{log}": '"words"',
        f"{base} --out >(cat >>{log}); sleep 0.2": "rank,sample,label",
    }
    for line, expected in lines.items():
        log.write_text("first line\n")
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        text = log.read_text()
        assert done.returncode == 0, (line, done.stderr)
        assert text.startswith("first line\n"), line
        assert expected in text, line
    done = run("rank", "--model", m, "--scores", s, "--out", "-", "--json", "/dev/stdout")
    assert "--out and --json cannot both go to stdout" in done[2]


def test_every_output_can_be_stdout(folder, tmp_path):
    m, s = folder / "m.hlpr", folder / "s.csv"
    base = [sys.executable, "-m", "hierlpr"]
    page = ["report", "--model", m, "--scores", s, "--out", "-"]
    done = subprocess.run([*base, *page], capture_output=True, check=True)
    assert done.stdout.startswith(b"<!doctype html>")
    (tmp_path / "t.csv").write_text("parent,child\nA,B\nA,C\n")
    (tmp_path / "p.csv").write_text("label,p\nA,0.001\nB,0.001\nC,0.5\n")
    given = ("--hierarchy", tmp_path / "t.csv", "--p-values", tmp_path / "p.csv")
    done = subprocess.run(
        [*base, "discover", *given, "--out", "-"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"rank,label,p,")
    assert b"rejected" in done.stderr
    rows = [f"p{i},{int(i % 3 == 0)},0,0" for i in range(60)]
    (tmp_path / "truth.csv").write_text("sample,A,B,C\n" + "\n".join(rows) + "\n")
    fit = ["fit", *given[:2], "--scores", s, "--truth", tmp_path / "truth.csv", "--out", "-"]
    done = subprocess.run([*base, *fit], capture_output=True, check=True)
    (tmp_path / "piped.hlpr").write_bytes(done.stdout)
    assert load_model(tmp_path / "piped.hlpr").hierarchy_.labels == ("A", "B", "C")


def test_a_report_is_not_written_as_pdf(folder, tmp_path):
    given = ("--model", folder / "m.hlpr", "--scores", folder / "s.csv")
    code, _, err = run("report", *given, "--out", tmp_path / "r.pdf")
    assert code == 2
    assert "name it r.html" in err
    assert not (tmp_path / "r.pdf").exists()


def test_one_file_comes_from_stdin(folder, tmp_path):
    code, _, err = piped("report", "--model", folder / "m.hlpr", "--scores", "-", "--truth", "-",
                         "--out", tmp_path / "r.html", stdin=b"x")  # fmt: skip
    assert code == 2
    assert "only one file can come from stdin" in err


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_names_are_a_last_column_on_request(folder, tmp_path, end):
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    out = tmp_path / f"c.{end}"
    succeeded(
        "rank",
        *("--model", folder / "m.hlpr", "--scores", folder / "s.csv", "--out", out),
        "--with-names",
    )
    table = pq.read_table(out) if end == "parquet" else pacsv.read_csv(out)
    assert table.column_names == ["rank", "sample", "label", "lpr", "score", "call", "name"]
    pairs = set(zip(table["label"].to_pylist(), table["name"].to_pylist(), strict=True))
    assert pairs == {("A", ""), ("B", 'a "bird", <b>'), ("C", "cat")}


def test_names_that_cannot_be_written(folder, tmp_path):
    args = ("rank", "--scores", folder / "s.csv", "--with-names", "--model")
    code, _, err = run(*args, folder / "bare.hlpr", "--out", tmp_path / "c.csv")
    assert (code, "has no names" in err) == (2, True)
    code, _, err = run(*args, folder / "m.hlpr", "--out", tmp_path / "c.tsv")
    assert (code, "no column for names" in err) == (2, True)
