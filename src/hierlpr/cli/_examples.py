"""``hierlpr demo``, ``simulate`` and ``reproduce``: made-up data, and the paper's studies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hierlpr.cli import _options as opt
from hierlpr.cli._evaluate import evaluate, report
from hierlpr.cli._fit import fit
from hierlpr.cli._rank import rank
from hierlpr.cli._shell import Shell

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.io import RankingFile
    from hierlpr.research.simulate import Simulation

RANDOM = ("tree", "forest", "dag")
NAMES = (
    "1", "2", "3", "4", "tree25", "1-fixed", "2-fixed", "3-fixed", "tree25-fixed", "disease",
    *RANDOM,
)  # fmt: skip
N_FIT, N_RANKED = 980, 196
FDR = 0.1


@click.command(epilog="Example: hierlpr simulate --setting 3 --out example --seed 7")
@click.option(
    "--setting", required=True, type=click.Choice(NAMES),
    help="One of the paper's settings, the disease-like example, or a random hierarchy.",
)  # fmt: skip
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Folder to write to; it is made if missing.",
)  # fmt: skip
@click.option(
    "--samples", type=click.IntRange(min=10), help="Training samples; 5,000 (disease: 196)."
)
@click.option(
    "--test-samples", type=click.IntRange(min=1), help="Test samples; a fifth of the training."
)
@click.option(
    "--labels", type=click.IntRange(min=1), default=100, show_default=True,
    help="Number of labels of a random tree, forest or dag.",
)  # fmt: skip
@opt.seed
@click.option(
    "--format", "ending", type=click.Choice(["csv", "parquet"]), default="csv", show_default=True,
    help="Format of scores and truth.",
)  # fmt: skip
@opt.quiet
def simulate(
    setting: str,
    out: Path,
    samples: int | None,
    test_samples: int | None,
    labels: int,
    seed: int,
    ending: str,
    quiet: bool,
) -> None:
    """Write a hierarchy, scores and truth, drawn from a seed.

    The folder gets hierarchy.csv, scores and truth to fit on, test_scores and test_truth drawn
    from the same model, and test_lpr_true, the true local precision rates of the test samples.
    """
    shell = Shell(quiet=quiet)
    from hierlpr._base.files import making

    train, test = draw(setting, samples, test_samples, labels, seed)
    with making(out, simulation_names(ending), what="simulation"):
        write_simulation(out, train, test, ending=ending)
    for name in simulation_names(ending):
        click.echo(out / name)
    shell.close(
        f"wrote {train.n_samples:,} + {test.n_samples:,} samples x "
        f"{train.hierarchy.n_labels:,} labels to {out}"
    )


def draw(
    setting: str, samples: int | None, test_samples: int | None, labels: int, seed: int
) -> tuple[Simulation, Simulation]:
    """Draw a training and a test part from one model."""
    import numpy as np

    from hierlpr import simulate as sim

    n_train = samples or (196 if setting == "disease" else 5000)
    n_test = test_samples or max(1, n_train // 5)
    rng = np.random.default_rng(seed)
    if setting == "disease":
        # Its counts are fixed, so that a small test part would lack most labels.
        n_test = test_samples or n_train
        return sim.disease(n_samples=n_train, rng=rng), sim.disease(n_samples=n_test, rng=rng)
    if setting in RANDOM:
        model = sim.random_model(
            _random_hierarchy(setting, labels, rng),
            conditional=rng.uniform(0.3, 1.0, labels),
            rng=rng,
        )
        return model.draw(n_train, rng), model.draw(n_test, rng)
    return sim.train_test(setting, n_train=n_train, n_test=n_test, rng=rng)


def _random_hierarchy(kind: str, labels: int, rng: Any) -> Hierarchy:
    from hierlpr import simulate as sim

    if kind == "tree":
        return sim.random_tree(labels, max_depth=6, rng=rng)
    roots = max(1, labels // 10)
    if kind == "forest":
        return sim.random_forest(labels, n_trees=roots, max_depth=6, rng=rng)
    return sim.random_dag(labels, n_roots=roots, rng=rng)


def simulation_names(ending: str = "csv") -> list[str]:
    """Names of the files of a simulation."""
    tables = ("scores", "truth", "test_scores", "test_truth", "test_lpr_true")
    return ["hierarchy.csv", *(f"{table}.{ending}" for table in tables)]


def write_simulation(
    out: Path, train: Simulation, test: Simulation, *, ending: str = "csv"
) -> None:
    """Write the files that `simulation_names` lists."""
    from hierlpr.data.tables import Table
    from hierlpr.io import write_hierarchy, write_scores, write_truth

    labels = train.hierarchy.labels

    def table(values: Any, prefix: str) -> Table:
        width = len(str(values.shape[0]))
        samples = tuple(f"{prefix}{i + 1:0{width}}" for i in range(values.shape[0]))
        return Table(values.astype(float), labels, samples)

    write_hierarchy(out / "hierarchy.csv", train.hierarchy)
    write_scores(out / f"scores.{ending}", table(train.scores, "s"))
    write_truth(out / f"truth.{ending}", table(train.truth, "s"))
    write_scores(out / f"test_scores.{ending}", table(test.scores, "t"))
    write_truth(out / f"test_truth.{ending}", table(test.truth, "t"))
    write_scores(out / f"test_lpr_true.{ending}", table(test.lpr_true, "t"))


@click.command(epilog="Example: hierlpr demo --out example --calls 20")
@click.option(
    "--out", default="hierlpr-demo", show_default=True, metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path), help="Folder for the files and the report.",
)  # fmt: skip
@click.option(
    "--calls", type=click.IntRange(min=1), default=12, show_default=True,
    help="How many first calls to print.",
)  # fmt: skip
@opt.seed
@click.pass_context
def demo(ctx: click.Context, out: Path, calls: int, seed: int) -> None:
    """Run a disease-like example end to end: simulate, fit, rank, evaluate, report.

    110 labels in 24 trees, many of them rare. A model is fitted on 980 samples, with a cutoff for
    an FDR of 10 %, and 196 other samples are ranked, called, and shown in a report.
    """
    from hierlpr._base.files import making

    names = [*simulation_names(), "model.hlpr", "ranking.csv", "report.html"]
    with making(out, names, what="demo"):
        _demo(ctx, out, {name: str(out / name) for name in names}, calls, seed)


def _demo(ctx: click.Context, out: Path, files: dict[str, str], calls: int, seed: int) -> None:
    train, test = draw("disease", N_FIT, N_RANKED, 0, seed)
    write_simulation(out, train, test)
    h = test.hierarchy
    click.echo(
        f"{test.n_samples} samples x {h.n_labels} labels, {int(test.truth.sum()):,} true: {h!r}"
    )
    tree, model, ranking = files["hierarchy.csv"], files["model.hlpr"], files["ranking.csv"]
    _run(ctx, fit, hierarchy=tree, scores=files["scores.csv"], truth=files["truth.csv"],
         fdr=FDR, out=model)  # fmt: skip
    _run(ctx, rank, model=model, scores=files["test_scores.csv"], out=ranking)
    _show(ranking, test, calls)
    _run(ctx, evaluate, hierarchy=tree, ranking=ranking, truth=files["test_truth.csv"])
    _run(ctx, report, model=model, scores=files["test_scores.csv"],
         truth=files["test_truth.csv"], out=files["report.html"])  # fmt: skip
    click.echo(
        f"\nThe report: {out / 'report.html'} (open it in a browser)\n\n"
        "With your own files, type:\n"
        "  hierlpr fit --hierarchy TREE.csv --scores SCORES.csv --truth TRUTH.csv --fdr 0.1 "
        "--out model.hlpr\n"
        "  hierlpr rank --model model.hlpr --scores NEW.csv --out calls.csv\n"
        "  hierlpr report --model model.hlpr --scores TEST.csv --truth TEST_TRUTH.csv "
        "--out report.html"
    )


def _run(ctx: click.Context, command: click.Command, **options: Any) -> None:
    """Print the command as a user would type it, and run it."""
    words = " ".join(f"--{name} {value}" for name, value in options.items())
    click.echo(f"\n$ hierlpr {command.name} {words}")
    ctx.invoke(command, quiet=True, **options)


def _show(path: str, test: Simulation, calls: int) -> None:
    """Print the first calls, the hit curve, and what a flat order would have violated."""
    import numpy as np

    from hierlpr import metrics
    from hierlpr.io import read_ranking, read_scores
    from hierlpr.model import load_score_model

    h = test.hierarchy
    ranked = read_ranking(path, h)
    row = np.array([int(name.removeprefix("t")) - 1 for name in ranked.samples])[ranked.sample]
    truth = test.truth[row, ranked.label]
    click.echo(f"\nThe first {calls} calls:")
    _print_calls(ranked, truth, h.labels, calls)
    click.echo("\nTrue calls among the first ones (hit curve):")
    click.echo(_plot(metrics.hit_curve(truth)[1], n_true=int(truth.sum())))
    folder = Path(path).parent
    scores = read_scores(folder / "test_scores.csv", h).table.values
    lpr = load_score_model(folder / "model.hlpr").lpr_.predict(scores)
    flat = np.argsort(-lpr, axis=None, kind="stable")
    before = metrics.order_violations_error(flat // h.n_labels, flat % h.n_labels, h)
    after = metrics.order_violations_error(row, ranked.label, h)
    area = metrics.normalized_hit_area_score
    click.echo(
        f"\nSorted by LPR alone, a label comes before its parent {before:,} times "
        f"(hit area {area(test.truth.reshape(-1)[flat]):.4f}).\n"
        f"hierlpr: {after} times (hit area {area(truth):.4f}; 0 is random, 1 is perfect)."
    )


def _print_calls(ranked: RankingFile, truth: Any, labels: tuple[str, ...], n: int) -> None:
    click.echo("  rank  sample   lpr  score  true  label")
    for i in range(min(n, len(ranked))):
        mark = "yes" if truth[i] else "no"
        lpr = float("nan") if ranked.lpr is None else ranked.lpr[i]
        click.echo(
            f"  {i + 1:4d}  {ranked.samples[ranked.sample[i]]:>6}  {lpr:.2f}   "
            f"{ranked.score[i]:.2f}  {mark:>4}  {labels[ranked.label[i]]}"
        )


def _plot(hits: Any, *, n_true: int) -> str:
    """Hit curve of the first calls, drawn with block characters; the diagonal is perfect."""
    width, height = 60, 10
    n_shown = min(hits.size - 1, 2 * n_true)
    columns = [hits[round((x + 1) * n_shown / width)] / n_true for x in range(width)]
    lines = []
    for y in range(height, 0, -1):
        row = "".join("█" if c * height >= y - 0.5 else " " for c in columns)
        axis = f"{n_true if y == height else '':>6}"
        lines.append(f"{axis} │{row}")
    lines.append(f"{'0':>6} └{'─' * width}")
    lines.append(f"{'':8}{'0':<{width - 12}}{n_shown:>6,} calls")
    return "\n".join(lines)


@click.command(epilog="Example: hierlpr reproduce all --out paper --replications 5")
@click.argument(
    "what", type=click.Choice(["table2", "curves", "disease", "all"]), default="all", required=False
)
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Folder for tables, figures and the page; it is made if missing.",
)  # fmt: skip
@click.option(
    "--replications", type=click.IntRange(min=2), default=100, show_default=True,
    help="Data sets drawn in each setting. Five take about a minute.",
)  # fmt: skip
@opt.seed
@click.option(
    "--trees", type=click.IntRange(min=1), default=100, show_default=True,
    help="Trees of ClusHMC, which takes most of the time.",
)  # fmt: skip
@click.option("--lpr", default="auto", show_default=True, help="Estimator of the LPRs.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes; as many as cores if not given."
)
@opt.quiet
def reproduce(
    what: str,
    out: Path,
    replications: int,
    seed: int,
    trees: int,
    lpr: str,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Run the paper's studies again and set the results beside its own.

    WHAT is table2 (cutoffs), curves (precision-recall curves and hit areas of settings 1 to 4),
    disease (the disease-like data) or all. The folder gets CSV files, every figure as SVG and
    PNG, and index.html.
    """
    from hierlpr._kernels._threads import n_threads_or_default
    from hierlpr.research.reproduce import Options
    from hierlpr.research.reproduce import reproduce as run

    shell = Shell(quiet=quiet)
    with shell.rates("replications") as tell:
        results = run(
            what,
            out=out,
            replications=replications,
            options=Options(seed=seed, n_trees=trees, lpr=lpr),
            n_jobs=n_threads_or_default(jobs),
            on_progress=lambda done, total: tell(what, done, total),
        )
    for verdict in results.get("verdicts", ()):
        shell.say(
            f"setting {verdict.setting}: {verdict.words}: {verdict.holds} "
            f"({verdict.difference:+.4f}, s.e. {verdict.error:.4f})"
        )
    click.echo(out / "index.html")
    fewer = f", {results['n_disease']} of the disease-like data" if "disease" in results else ""
    shell.close(f"{replications:,} replications{fewer}")
