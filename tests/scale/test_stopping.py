"""Runs that are stopped or meet: outputs old or new, foreign files intact, nothing left over."""

import random
import re
import signal

import pyarrow.parquet as pq
import pytest
import scalecases as sc
from killing import launcher

from hierlpr.data.tables import Table
from hierlpr.io import write_hierarchy, write_scores, write_truth

WARM = """
warm = hierlpr.model.load_score_model({model!r})
warm.n_threads = 1
warm.rank([[0.0] * warm.n_features_in_] * 2).score
"""
SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)


@pytest.fixture
def place(tmp_path):
    """Inputs in one folder; another folder for outputs and work, full of files of the user's."""
    case = sc.make_case(600)
    inputs = tmp_path / "in"
    inputs.mkdir()
    h = case.model.hierarchy_
    truth = h.close_upward(case.table.values > 1.5)
    case.model.calibrate_sets(case.table.values[300:], truth[300:])
    sc.write_inputs(inputs, case)
    write_hierarchy(inputs / "tree.csv", h)
    write_truth(inputs / "truth.csv", Table(truth.astype(float), h.labels, case.table.samples))
    for seed in (0, 1):
        write_scores(inputs / f"scores{seed}.csv", sc.make_case(600, seed=seed).table)
    for folder in (tmp_path / "home", tmp_path / "home" / "work"):
        folder.mkdir()
        (folder / "thesis.tex").write_text("years of work")
        (folder / ".hierlpr-0123456789abcdef").mkdir()
        (folder / ".hierlpr-0123456789abcdef" / "mine.txt").write_text("mine")
        (folder / ".hierlpr-notes.part").write_text("mine")
    return tmp_path


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def commands(place):
    """Command, its output, and whether it works in parts."""
    home, data = place / "home", place / "in"
    model, scores, truth = data / "model.hlpr", data / "scores0.csv", data / "truth.csv"
    work = ["--work", home / "work"]
    fit = ["fit", "--hierarchy", data / "tree.csv", "--scores", scores, "--truth", truth,
           "--no-joint", "--lpr", "isotonic", "--max-f", "-q", "--out",
           home / "m.hlpr"]  # fmt: skip
    rank = ["rank", "--model", model, "--scores", scores, "-q", "--out"]
    evaluate = ["evaluate", "--hierarchy", data / "tree.csv", "--ranking", data / "ranked.parquet",
                "--truth", truth, "-q", "--json", home / "e.json"]  # fmt: skip
    report = ["report", "--model", model, "--scores", scores, "--truth", truth, "-q", "--out",
              home / "page.html", "--max-samples", "5"]  # fmt: skip
    sets = ["sets", "--model", model, "--scores", scores, "-q", "--out", home / "s.csv"]
    check = ["check", "--model", model, "--scores", scores, "-q", "--adapt", home / "a.hlpr"]
    return [
        (fit, "m.hlpr"),
        ([*fit, *work], "m.hlpr"),
        ([*rank, home / "r.csv"], "r.csv"),
        ([*rank, home / "r.csv", "--partitions", 4, *work], "r.csv"),
        ([*rank, home / "r", "--partitions", 4], "r/part-000000.parquet"),
        ([*evaluate, *work], "e.json"),
        (report, "page.html"),
        (sets, "s.csv"),
        ([*sets, "--partitions", 4, *work], "s.csv"),
        (check, "a.hlpr"),
    ]


@pytest.mark.parametrize("n", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_stopped_runs_leave_the_old_state_or_the_new(place, n):
    home = place / "home"
    foreign = contents(home)
    rng = random.Random(n)
    with launcher(warm=WARM.format(model=str(place / "in" / "model.hlpr"))) as run:
        ranked = place / "in" / "ranked.parquet"
        run({"args": ["rank", "--model", place / "in" / "model.hlpr", "--scores",
                      place / "in" / "scores0.csv", "--out", ranked]})  # fmt: skip
        assert pq.read_table(ranked).num_rows
        known = {}
        for turn in range(n):
            args, out = commands(place)[turn % 10]
            if turn < 10 or out not in known:
                ((code, took, err),) = run({"args": args})
                assert code == 0, err
                known[out] = (home / out).read_bytes(), took
            new, took = known[out]
            old = new
            if "/" not in out:
                old = b"old"
                (home / out).write_bytes(old)
            stop = SIGNALS[turn % 3]
            seconds = took * rng.uniform(0.02, 1.05)
            ((code, _, err),) = run({"args": args, "seconds": seconds, "stop": stop})
            assert "Traceback" not in IGNORED.sub("", err)
            assert (home / out).read_bytes() in (old, new)
            if stop == signal.SIGKILL:
                ((code, _, err),) = run({"args": args})
                assert code == 0, err
                assert (home / out).read_bytes() == new
            left = contents(home)
            assert {name: left[name] for name in foreign} == foreign
            outputs = {o for o in known if "/" not in o} | {x for x in left if x.startswith("r/")}
            assert set(left) <= set(foreign) | outputs, (args[0], stop, seconds, took)
            assert not any(p.name.startswith(".hierlpr-") and p.name not in KEPT
                           for p in home.rglob("*"))  # fmt: skip


@pytest.mark.parametrize("n", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_killed_fits_and_evaluations_are_resumed(place, n):
    """Killed again and again with --resume, the last run gives what one run gives."""
    rng = random.Random(n)
    data, home = place / "in", place / "home"
    with launcher(warm=WARM.format(model=str(data / "model.hlpr"))) as run:
        ranked = data / "ranked.parquet"
        run({"args": ["rank", "--model", data / "model.hlpr", "--scores", data / "scores0.csv",
                      "--out", ranked]})  # fmt: skip
        for args, out in (commands(place)[1], commands(place)[5]):
            args = [*args, "--partitions", 5]
            ((code, took, err),) = run({"args": args})
            assert code == 0, err
            new = (home / out).read_bytes()
            (home / out).unlink()
            for _ in range(n):
                run({"args": [*args, "--resume"], "seconds": took * rng.uniform(0.3, 0.95),
                     "stop": signal.SIGKILL})  # fmt: skip
            ((code, _, err),) = run({"args": [*args, "--resume"]})
            assert code == 0, err
            assert (home / out).read_bytes() == new
            assert not any(p.name.startswith(".hierlpr-") and p.name not in KEPT
                           for p in home.rglob("*"))  # fmt: skip


# CPython reports an interruption inside the callback of a weak reference, and goes on.
IGNORED = re.compile(r"Exception ignored in.*?^KeyboardInterrupt: *\n", re.M | re.S)
KEPT = (".hierlpr-0123456789abcdef", ".hierlpr-notes.part")


@pytest.mark.parametrize("n", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_runs_that_meet_on_one_output(place, n):
    """One wins whole; the other says so, or comes after it."""
    data = place / "in"
    with launcher(warm=WARM.format(model=str(data / "model.hlpr"))) as run:
        for out in ("r.csv", "r"):
            # The second waits a moment, then gives up: short runs all come after each other.
            assert {tuple(pair) for pair in _meet(run, place, out, n)} <= {(0, 0), (0, 2)}


def _meet(run, place, out, n):
    home, data = place / "home", place / "in"

    def rank(seed, target):
        return ["rank", "--model", data / "model.hlpr", "--scores", data / f"scores{seed}.csv",
                "--out", target, "--partitions", 3, "--work", home / f"work{seed}",
                "-q"]  # fmt: skip

    def result(target):
        return pq.read_table(target) if target.is_dir() else target.read_bytes()

    def others():
        return {x for x in contents(home) if not x.startswith(("r/", "r.csv"))}

    rng = random.Random(n)
    codes, wanted, before = [], [], others()
    for seed in (0, 1):
        ((code, took, err),) = run({"args": rank(seed, place / f"alone{seed}-{out}")})
        assert code == 0, err
        wanted.append(result(place / f"alone{seed}-{out}"))
    assert wanted[0] != wanted[1]
    for _ in range(n):
        first, apart = rng.randrange(2), took * rng.uniform(0.0, 1.1)
        done = run(
            {"args": rank(first, home / out)},
            {"args": rank(1 - first, home / out), "after": apart},
        )
        codes.append(sorted(code for code, _, _ in done))
        for code, _, err in done:
            assert code == 0 or (code == 2 and "another run is writing" in err), err
        assert codes[-1][0] == 0
        assert result(home / out) in wanted
        assert others() == before
        assert not (home / "work0").exists()
    return codes
