"""What the pages of the documentation take for granted: names and files a reader would have."""

import copy
import functools
import shutil
import warnings
from pathlib import Path

import numpy as np

from hierlpr import Hierarchy, HierLPR, simulate, workflows
from hierlpr.exceptions import HierlprWarning

EXAMPLES = Path(__file__).parents[1] / "examples"

EDGES = [
    ("disease", "cancer"), ("cancer", "leukemia"), ("disease", "infection"), ("leukemia", "AML"),
    ("cancer", "carcinoma"),
]  # fmt: skip


@functools.cache
def common() -> dict:
    """A small tree with samples to fit on, others for the cutoff, and new ones."""
    h = Hierarchy(EDGES)
    drawn = simulate.random_model(h, quality="high", root=0.8, conditional=0.6, rng=1).draw(
        900, rng=2
    )
    part = {"": slice(300), "other_": slice(300, 600), "new_": slice(600, 900)}
    names: dict = {"h": h, "labels": h.labels}
    for lead, rows in part.items():
        names[f"{lead}scores"], names[f"{lead}truth"] = drawn.scores[rows], drawn.truth[rows]
    names["lpr"] = drawn.lpr_true[600:]
    names["p_values"] = np.array([0.001, 0.002, 0.3, 0.7, 0.004, 0.02])
    names["model"] = HierLPR(h).fit(names["scores"], names["truth"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        names["model"].calibrate(names["other_scores"], names["other_truth"], fdr=0.1)
    names["X"], names["X_new"] = drawn.scores[:300], drawn.scores[600:]
    return names


def names_for(page: str) -> dict:
    """Names that the code of a page may use; models are its own."""
    names = {**common(), "np": np, "HierLPR": HierLPR, "Hierarchy": Hierarchy}
    names["model"] = copy.deepcopy(names["model"])
    names |= EXTRA.get(page, lambda: {})()
    return names


def files_for(page: str) -> None:
    """Write the files that the commands of a page name, into the current folder."""
    FILES.get(page, lambda: None)()


def tables(*, tree: str = "hierarchy.csv", **files: str) -> None:
    """Write the common tables under the names given: scores=, truth=, new_scores=, ..."""
    names = common()
    h = names["h"]
    rows = [f"{parent},{child}" for parent, child in EDGES]
    Path(tree).write_text("\n".join(["parent,child", *rows, ""]))
    for what, name in files.items():
        values = names[what]
        lines = [",".join(["sample", *h.labels])]
        first = {"other": 300, "new": 600}.get(what.partition("_")[0], 0)
        for i, row in enumerate(values.tolist(), start=first + 1):
            lines.append(",".join([f"s{i:03}", *(f"{v:.6g}" for v in map(float, row))]))
        Path(name).write_text("\n".join([*lines, ""]))
    names["model"].save("model.hlpr")


def p_table() -> None:
    names = common()
    rows = [f"{k},{p}" for k, p in zip(names["labels"], names["p_values"], strict=True)]
    Path("p.csv").write_text("\n".join(["label,p", *rows, ""]))


def obo() -> None:
    """The common tree as an OBO file."""
    h = common()["h"]
    text = ["format-version: 1.2"]
    for name in h.labels:
        text += ["", "[Term]", f"id: {name}", f"name: {name}"]
        text += [f"is_a: {parent}" for parent in h.parents(name)]
    text += ["relationship: part_of infection"]
    Path("go.obo").write_text("\n".join([*text, ""]))


def _cli() -> None:
    tables(tree="tree.csv", scores="scores.csv", truth="truth.csv")
    tables(tree="tree.csv", scores="new.csv")
    tables(tree="tree.csv", new_scores="test.csv", new_truth="test_truth.csv")
    names = common()
    model = copy.deepcopy(names["model"])
    model.calibrate_sets(names["other_scores"], names["other_truth"]).save("sets.hlpr")
    p_table()
    obo()


def _discover() -> None:
    tables(tree="icd.csv")
    p_table()
    obo()


def _parquet() -> None:
    import pandas as pd

    tables(tree="h.csv", new_scores="s.csv", new_truth="t.csv")
    pd.read_csv("s.csv").to_parquet("scores.parquet")
    pd.read_csv("t.csv").to_parquet("truth.parquet")
    shutil.copy("scores.parquet", "all.parquet")


def _tour() -> None:
    """The files that the first tutorial simulates."""
    from click.testing import CliRunner

    from hierlpr.cli import main

    words = "simulate --setting disease --samples 900 --test-samples 200 --out tour --quiet"
    assert CliRunner().invoke(main, words.split()).exit_code == 0


def _tour_model() -> None:
    """The files of the first tutorial, with its model."""
    _tour()
    tables = [Path("tour") / f"{name}.csv" for name in ("hierarchy", "scores", "truth")]
    workflows.fit_file(*tables, "tour/model.hlpr", goal={"precision": 0.9, "confidence": 0.9})


def copy_data(*names: str) -> None:
    """Copy tables of the examples."""
    for name in names:
        shutil.copy(EXAMPLES / "data" / name, ".")


def _promises() -> None:
    tables(tree="tree.csv", scores="scores.csv", truth="truth.csv", new_scores="new_scores.csv")
    p_table()


def _truth() -> dict:
    """Frames with names, in which something may be unknown."""
    import pandas as pd

    names = common()
    edges = [("disease", "asthma"), *EDGES[2:3], EDGES[0], EDGES[1], EDGES[4]]
    found: dict = {"hierarchy": Hierarchy(edges)}
    for lead in ("", "other_"):
        for what in ("scores", "truth"):
            values = np.asarray(names[lead + what], dtype=float)
            index = [f"{lead}patient {i}" for i in range(len(values))]
            frame = pd.DataFrame(values, columns=list(names["labels"]), index=index)
            found[lead + what] = frame.drop(columns="AML").assign(asthma=frame["infection"])
        found[f"{lead}weight"] = 1.0 + np.arange(len(found[f"{lead}truth"])) % 3
    return found


def audit_answers() -> dict:
    """An expert's answers, one per row of what an audit of the new scores lists."""
    names = common()
    audit = names["model"].audit(names["new_scores"], checks=100)
    h, frame = names["h"], audit.to_check()
    rows = zip(frame["sample"], frame["label"], strict=True)
    frame["correct"] = [bool(names["new_truth"][i, h.index(label)]) for i, label in rows]
    return {"my_scores": names["new_scores"], "answers": frame}


def _how_to_audit() -> None:
    """New scores, and what `hierlpr audit` lists for them, filled in."""
    import pandas as pd

    from hierlpr import audit_files

    names = common()
    tables(new_scores="mine.csv")
    audit_files.audit_file("model.hlpr", "mine.csv", "draft", checks=100)
    table = pd.read_csv("draft/check.csv")
    column = {label: j for j, label in enumerate(names["labels"])}
    row = table["sample"].str[1:].astype(int) - 601
    is_right = names["new_truth"][row, table["label"].map(column)]
    table.assign(correct=np.where(is_right, "yes", "no")).to_csv("check.csv", index=False)
    shutil.rmtree("draft")


FILES = {
    "how-to-audit.md": _how_to_audit,
    "cli.md": _cli, "discover.md": _discover, "how-to-large-files.md": _parquet,
    "promises.md": _promises, "tutorial-python.md": _tour, "how-to-service.md": _tour_model,
    "how-to-camera-traps.md": lambda: copy_data(
        *(f"images_{name}.json.gz" for name in ("known", "truth", "new"))
    ),
    "how-to-cells.md": lambda: copy_data(
        *(f"cells_{name}.csv.gz" for name in ("known", "truth", "new"))
    ),
    "how-to-amplicons.md": lambda: copy_data("its_known.tsv.gz", "its_new.tsv.gz"),
    "index.md": lambda: tables(
        tree="h.csv", scores="scores.csv", truth="truth.csv", new_scores="new_scores.csv"
    ),
    "report.md": lambda: tables(new_scores="scores.csv", new_truth="truth.csv"),
    "shift.md": lambda: tables(new_scores="new.csv"),
    "sets.md": lambda: tables(
        tree="tree.csv", scores="scores.csv", truth="truth.csv", new_scores="new.csv"
    ),
    "README.md": lambda: shutil.copytree(EXAMPLES / "data", "examples/data"),
    "how-to-go.md": lambda: shutil.copytree(EXAMPLES, "examples"),
}  # fmt: skip

EXTRA = {
    "how-to-audit.md": audit_answers,
    "promises.md": audit_answers,
    "truth.md": _truth,
    "baselines.md": lambda: {
        "train_features": common()["scores"], "train_truth": common()["truth"],
        "test_features": common()["new_scores"], "scores": common()["new_scores"],
    },
    "metrics.md": lambda: {"truth": common()["new_truth"], "scores": common()["new_scores"]},
    "report.md": lambda: {"scores": common()["new_scores"], "truth": common()["new_truth"]},
}  # fmt: skip
