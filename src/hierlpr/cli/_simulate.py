"""``hierlpr simulate``: example files from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hierlpr.cli._shell import Shell, quiet_option

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.research.simulate import Simulation

__all__ = ["simulate", "simulation_names", "write_simulation"]

RANDOM = ("tree", "forest", "dag")
NAMES = (
    "1", "2", "3", "4", "tree25", "1-fixed", "2-fixed", "3-fixed", "tree25-fixed", "disease",
    *RANDOM,
)  # fmt: skip


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
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Same seed, same files.",
)
@click.option(
    "--format", "ending", type=click.Choice(["csv", "parquet"]), default="csv", show_default=True,
    help="Format of scores and truth.",
)  # fmt: skip
@quiet_option
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
