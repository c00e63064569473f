"""``hierlpr demo``, ``simulate`` and ``reproduce``: simulated data, and the paper's studies."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np

from hierlpr import simulate as sim
from hierlpr._kernels._jit import n_jobs_or_default
from hierlpr._utils.display import text_table
from hierlpr._utils.files import output_directory
from hierlpr.cli import _options as opt
from hierlpr.cli._fit import fit
from hierlpr.cli._hierarchy import evaluate
from hierlpr.cli._predict import rank, report
from hierlpr.cli._shell import Shell
from hierlpr.data.tables import Table
from hierlpr.io import read_ranking, write_hierarchy, write_scores, write_truth
from hierlpr.simulate import Simulation

RANDOM = ("tree", "forest", "dag")
NAMES = (*"1234", "tree25", *(f"{x}-fixed" for x in ("1", "2", "3", "tree25")), "disease", *RANDOM)
N_FIT, N_RANKED, N_SHOWN = 980, 196, 12
FDR, CONFIDENCE = 0.1, 0.9
TABLES = ("hierarchy", "scores", "truth", "test_scores", "test_truth", "test_lpr_true")
FILES = [f"{table}.csv" for table in TABLES]
FOLDER: dict[str, Any] = {"file_okay": False, "path_type": Path}


@opt.command("hierlpr simulate --setting 3 --out example --seed 7")
@click.option(
    "--setting",
    required=True,
    type=click.Choice(NAMES),
    help="One of the paper's settings, the disease-like example, or a random hierarchy.",
)
@opt.path("--out", "DIR", "Folder to write to; created if missing.", **FOLDER)
@opt.count("--samples", "Training samples; default: 5,000 (disease: 196).", least=10)
@opt.count(
    "--test-samples",
    "Test samples; default: a fifth of the training samples (disease: the same number).",
)
@opt.count("--labels", "Number of labels of a random tree, forest or dag.", 100)
@opt.seed
@opt.quiet
def simulate(
    setting: str,
    out: Path,
    samples: int | None,
    test_samples: int | None,
    labels: int,
    seed: int,
    quiet: bool,
) -> None:
    """Write a simulated hierarchy, scores and truth.

    Writes hierarchy.csv; scores and truth to fit on; test_scores and test_truth from the same
    model; and test_lpr_true, the true local precision rates of the test samples.
    """
    shell = Shell(quiet=quiet)
    train, test = draw(setting, samples, test_samples, labels, seed)
    with output_directory(out, FILES):
        write_simulation(out, train, test)
    for name in FILES:
        click.echo(out / name)
    shell.close(
        f"wrote {train.n_samples:,} + {test.n_samples:,} samples x "
        f"{train.hierarchy.n_labels:,} labels to {out}"
    )


def draw(
    setting: str, samples: int | None, test_samples: int | None, labels: int, seed: int
) -> tuple[Simulation, Simulation]:
    """Draw a training and a test part from one model."""
    n_train = samples or (196 if setting == "disease" else 5000)
    n_test = test_samples or max(1, n_train // 5)
    rng = np.random.default_rng(seed)
    if setting == "disease":
        # Its counts are fixed, so that a small test part would lack most labels.
        n_test = test_samples or n_train
        return sim.disease(n_samples=n_train, rng=rng), sim.disease(n_samples=n_test, rng=rng)
    if setting in RANDOM:
        if setting == "dag":
            h = sim.random_dag(labels, n_roots=max(1, labels // 10), rng=rng)
        else:
            n_trees = 1 if setting == "tree" else max(1, labels // 10)
            h = sim.random_forest(labels, n_trees=n_trees, max_depth=6, rng=rng)
        model = sim.random_model(h, conditional=rng.uniform(0.3, 1.0, labels), rng=rng)
        return model.draw(n_train, rng), model.draw(n_test, rng)
    return sim.train_test(setting, n_train=n_train, n_test=n_test, rng=rng)


def write_simulation(out: Path, train: Simulation, test: Simulation) -> None:
    """Write the `FILES`."""
    labels = train.hierarchy.labels

    def table(values: Any, prefix: str) -> Table:
        width = len(str(values.shape[0]))
        samples = tuple(f"{prefix}{i + 1:0{width}}" for i in range(values.shape[0]))
        return Table(values.astype(float).round(6), labels, samples)

    write_hierarchy(out / "hierarchy.csv", train.hierarchy)
    write_scores(out / "scores.csv", table(train.scores, "s"))
    write_truth(out / "truth.csv", table(train.truth, "s"))
    write_scores(out / "test_scores.csv", table(test.scores, "t"))
    write_truth(out / "test_truth.csv", table(test.truth, "t"))
    write_scores(out / "test_lpr_true.csv", table(test.lpr_true, "t"))


@opt.command("hierlpr demo --out example")
@click.option(
    "--out",
    default="hierlpr-demo",
    show_default=True,
    metavar="DIR",
    type=click.Path(**FOLDER),
    help="Folder for the files and the report.",
)
@opt.seed
@click.pass_context
def demo(ctx: click.Context, out: Path, seed: int) -> None:
    """Run a disease-like example end to end: simulate, fit, rank, evaluate, report.

    110 labels in 24 trees, many of them rare. The model is learned from 980 samples, with a target
    FDR of 10 % at 90 % confidence, and used on 196 others.
    """
    names = [*FILES, "model.hlpr", "ranking.csv", "report.html"]
    tree, fit_scores, fit_truth, new_scores, new_truth, _, model, ranking, page = (
        str(out / name) for name in names
    )
    new = {"model": model, "scores": new_scores}
    goal = {"fdr": FDR, "confidence": CONFIDENCE, "out": model}
    with output_directory(out, names):
        train, test = draw("disease", N_FIT, N_RANKED, 0, seed)
        write_simulation(out, train, test)
        size = f"{test.n_samples} samples x {test.hierarchy.n_labels} labels"
        click.echo(f"{size}, {int(test.truth.sum()):,} true: {test.hierarchy!r}")
        _run(ctx, fit, hierarchy=tree, scores=fit_scores, truth=fit_truth, **goal)
        _run(ctx, rank, **new, out=ranking)
        _show(ranking, test)
        _run(ctx, evaluate, hierarchy=tree, ranking=ranking, truth=new_truth)
        _run(ctx, report, **new, truth=new_truth, title="Simulated disease data", out=page)
    click.echo(f"\nThe report: {out / 'report.html'} (open it in a browser)")


def _run(ctx: click.Context, command: click.Command, **options: Any) -> None:
    """Print the command as a user would type it, and run it."""
    words = " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in options.items())
    click.echo(f"\n$ hierlpr {command.name} {words}")
    ctx.invoke(command, quiet=True, **options)


def _show(path: str, test: Simulation) -> None:
    """Print the first calls, and whether the target was kept."""
    ranked = read_ranking(path, test.hierarchy)
    row = np.array([int(name.removeprefix("t")) - 1 for name in ranked.samples])[ranked.sample]
    truth = test.truth[row, ranked.label]
    rows = []
    for i in range(N_SHOWN):
        sample, label = ranked.samples[ranked.sample[i]], test.hierarchy.labels[ranked.label[i]]
        rows.append((i + 1, sample, float(ranked.score[i]), bool(truth[i]), label))
    click.echo(f"\nThe first {N_SHOWN} calls:")
    click.echo(text_table(("rank", "sample", "score", "true", "label"), rows))
    correct = truth[ranked.call]
    precision = correct.mean() if correct.size else 1.0
    click.echo(
        f"\n{correct.size:,} calls, {100 * precision:.1f} % of them correct. Target: at least "
        f"{100 * (1 - FDR):.0f} % with {100 * CONFIDENCE:.0f} % confidence: "
        f"{'kept' if precision >= 1.0 - FDR else 'missed'}."
    )


@opt.command("hierlpr reproduce all --out paper --replications 5")
@click.argument(
    "what", type=click.Choice(["table2", "curves", "all"]), default="all", required=False
)
@opt.path("--out", "DIR", "Folder for tables and the figure; created if missing.", **FOLDER)
@opt.count(
    "--replications", "Simulated data sets per setting. Five take about a minute.", 100, least=2
)
@opt.seed
@opt.count("--trees", "Trees of ClusHMC, which takes most of the time.", 100)
@opt.count("--jobs", "Number of processes; default: one per core.")
@opt.quiet
def reproduce(
    what: str, out: Path, replications: int, jobs: int | None, quiet: bool, **options: Any
) -> None:
    """Repeat the paper's studies and compare the results with its own.

    WHAT is table2 (cutoffs), curves (precision-recall curves and hit areas of settings 1 to 4 and,
    in a fifth of the replications, of the disease-like data) or all. The folder gets tables as CSV,
    with the paper's numbers beside those found, and a figure.
    """
    from hierlpr.research.reproduce import Options
    from hierlpr.research.reproduce import reproduce as run

    shell = Shell(quiet=quiet)
    with shell.progress("replications") as on_progress:
        results = run(
            what,
            out=out,
            replications=replications,
            options=Options(n_trees=options.pop("trees"), **options),
            n_jobs=n_jobs_or_default(jobs),
            on_progress=lambda done, total: on_progress(what, done, total),
        )
    for claim in results.get("claims", []):
        shell.say(
            f"setting {claim['setting']}: {claim['text']}: {claim['holds']} "
            f"({claim['difference']:+.4f}, s.e. {claim['error']:.4f})"
        )
    click.echo(out)
    shell.close(f"{replications:,} replications")
