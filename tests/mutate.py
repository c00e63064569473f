"""Mutate the code behind promises, one small change at a time: some test must fail (make mutate).

Each mutation is applied to a temporary copy of the project. Exit 1 if one survives or no longer
applies. Arguments choose mutations by words of their names.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutation(NamedTuple):
    """What is broken, the file below src/hierlpr, its text, the broken text, and the tests."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTATIONS = [
    Mutation(
        "binomial certificate at twice the error",
        "cutoff/guarantee.py",
        "chance <= delta",
        "chance <= 2.0 * delta",
        "cutoff/test_guarantee.py",
    ),
    Mutation(
        "bets stop at half the wealth",
        "cutoff/guarantee.py",
        "    goal = math.log(1.0 / delta)\n",
        "    goal = math.log(0.5 / delta)\n",
        "cutoff/test_guarantee.py",
    ),
    Mutation(
        "tests go on after the first failure",
        "cutoff/guarantee.py",
        "list(takewhile(passes, sequence))",
        "list(filter(passes, sequence))",
        "cutoff/test_guarantee.py",
    ),
    Mutation(
        "few kinds of samples count as a random order",
        "cutoff/guarantee.py",
        "if not shuffle.is_fair:",
        "if False:",
        "cutoff/test_guarantee.py",
    ),
    Mutation(
        "certificate without the weights",
        "cutoff/guarantee.py",
        "(1.0 if share is None else share)",
        "1.0",
        "cutoff/test_guarantee.py cutoff/test_choose.py",
    ),
    Mutation(
        "both sequences of a group spend the whole error",
        "cutoff/guarantee.py",
        "share * promise.delta",
        "promise.delta",
        "cutoff/test_guarantee.py cutoff/test_choose.py",
    ),
    Mutation(
        "sets one place too low",
        "cutoff/sets.py",
        "* (n_samples + 1))",
        "* (n_samples + 2))",
        "cutoff/test_sets.py",
    ),
    Mutation(
        "sets with confidence one place too low",
        "cutoff/sets.py",
        "bdtr(counts - 1.0,",
        "bdtr(counts,",
        "cutoff/test_sets.py",
    ),
    Mutation(
        "a tie with a false label is sure",
        "cutoff/sets.py",
        "values.sure > sure_level",
        "values.sure >= sure_level",
        "cutoff/test_sets.py",
    ),
    Mutation(
        "decisions without the limit of calls",
        "cutoff/decisions.py",
        "limit is not None and limit < columns[g].size",
        "False",
        "cutoff/test_decisions.py cutoff/test_choose.py",
    ),
    Mutation(
        "decisions without the least chance",
        "cutoff/decisions.py",
        "if cutoff.min_chance is not None:",
        "if False:",
        "cutoff/test_decisions.py",
    ),
    Mutation(
        "limits of groups do not reach descendants",
        "cutoff/decisions.py",
        "np.maximum(above[:, g], above[:, parent], out=above[:, g])",
        "pass",
        "cutoff/test_decisions.py cutoff/test_choose.py",
    ),
    Mutation(
        "files without the limit of calls",
        "outofcore/predict.py",
        "calls_only and cutoff.is_level_alone",
        "calls_only and cutoff.groups is None",
        "outofcore/test_predict.py",
    ),
    Mutation(
        "share of implied negatives from the calibration truth",
        "cutoff/choose.py",
        "implied_share(planning[1], hierarchy, planning[2])",
        "implied_share(truth, hierarchy, weight)",
        "model/test_inputs.py",
    ),
    Mutation(
        "old base rates after adapt",
        "model/changes.py",
        "replace(self.lpr_.report, base_rate=drift.expected)",
        "self.lpr_.report",
        "model/test_inputs.py lpr/test_drift.py lpr/test_label_shift.py",
    ),
    Mutation(
        "samples of the fit go unnoticed in calibration",
        "data/duplicates.py",
        "if overlap := overlap_note(keys, fit_keys):",
        "if overlap := overlap_note(keys, None):",
        "data/test_duplicates.py model/test_inputs.py",
    ),
    Mutation(
        "joint weights without a margin",
        "joint/tempering.py",
        "return float(gain > least) if gain >= full else",
        "return 1.0 if gain >= least else",
        "joint/test_tempering.py",
    ),
    Mutation(
        "slopes of labels keep the scale of the fit",
        "lpr/shared.py",
        "line[1] /= slope[curve_of]",
        "pass",
        "lpr/test_shared.py",
    ),
    Mutation(
        "comparison of scores without skewness",
        "lpr/comparison.py",
        "-np.sign(fall) * summary.skewness",
        "0.0 * summary.skewness",
        "lpr/test_comparison.py",
    ),
    Mutation(
        "a child of equal mean joins its parent",
        "_kernels/forest_blocks.py",
        'node[top]["mean"] > block_mean',
        'node[top]["mean"] >= block_mean',
        "ranking/test_blocks.py ranking/test_order.py",
    ),
    Mutation(
        "a changed model file is read",
        "model/persistence.py",
        'if meta.pop("checksum") != _checksum(arrays, meta):',
        'if not meta.pop("checksum"):',
        "model/test_persistence.py",
    ),
    Mutation(
        "ties along a ranking count as hits first",
        "metrics/hits.py",
        "gained * (size + 1.0) / 2.0",
        "gained * size",
        "metrics/test_hits.py",
    ),
    Mutation(
        "a false label hides among unknown ones in measures",
        "metrics/hierarchical.py",
        "wrong = (called != is_true) & is_known",
        "wrong = called != is_true",
        "metrics/test_evaluation.py data/test_truth.py",
    ),
]


def outcome(mutation: Mutation, copy: Path) -> str:
    """Return "caught", or what is wrong with the mutation or the tests."""
    path = copy / "src" / "hierlpr" / mutation.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if mutation.old not in text:
        return f"NOT APPLICABLE: {mutation.file} has no {mutation.old!r}"
    tests = [f"tests/{name}" for name in mutation.tests.split()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    cache = {"PYTHONPATH": str(copy / "src"), "NUMBA_CACHE_DIR": str(copy / "cache")}
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    done = subprocess.run(command, cwd=copy, env=os.environ | cache, capture_output=True, text=True)
    path.write_text(text, encoding="utf-8")
    if done.returncode == 0:
        return "SURVIVED"
    return "caught" if done.returncode == 1 else f"THE TESTS DO NOT RUN: {done.stdout[-600:]}"


def main(words: list[str]) -> int:
    """Try the mutations; return the exit code."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for mutation in MUTATIONS:
            if all(word in mutation.name for word in words):
                results.append(outcome(mutation, copy))
                print(f"{results[-1]}: {mutation.name}", flush=True)  # noqa: T201
    return int(not results or set(results) != {"caught"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
