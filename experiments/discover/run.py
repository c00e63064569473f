"""Measure the false discovery rate and the power of `hierlpr.discover` and other procedures.

Every replication draws signals and p-values on a forest or a DAG, runs every procedure at every
level, and counts false and true rejections. A cell is one distribution of p-values and their
dependence; `holds` says whether it meets the assumption of the procedure.

    python experiments/discover/run.py [--replications N] [--out DIR]
"""

import argparse
import csv
import tomllib
from pathlib import Path

import numpy as np
from scipy.stats import binom, norm

from hierlpr import Hierarchy, baselines
from hierlpr.discovery import discover
from hierlpr.discovery.procedures import branch_p_values, dagger_levels, star_levels

HERE = Path(__file__).parent
# Dependence under which each procedure promises the FDR. Simes-then-max-BH has no proof.
HOLDS = {
    "positive": {"independent", "discrete", "positive", "branches"},
    "arbitrary": {"independent", "discrete", "positive", "branches", "adversarial"},
    "independent": {"independent"},
    "bayes": set(),
    "benjamini_hochberg": {"independent", "discrete", "positive", "branches"},
    "dagger": {"independent", "discrete", "positive", "branches"},
    "yekutieli": {"independent", "discrete"},
    "meinshausen": {"independent", "discrete", "positive", "branches", "adversarial"},
    "simes_max_bh": set(),
}
# Procedures whose null reads "no signal here nor anywhere below".
BRANCH = {"positive", "arbitrary", "simes_max_bh"}
COLUMNS = (
    "cell", "hierarchy", "dependence", "procedure", "level", "replications", "holds", "fdr",
    "fdr_se", "power", "rejected", "violations",
)  # fmt: skip
POWER_COLUMNS = ("shift", "root", "child", "procedure", "replications", "power", "power_se", "fdr")
POWER_CASES = ((2.5, 0.4, 0.4), (2.0, 0.3, 0.5), (1.5, 0.5, 0.6), (2.5, 0.2, 0.3))


def read_config() -> dict:
    """Return the settings of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def forest(n_roots: int, n_children: int, n_levels: int) -> Hierarchy:
    """Return a forest in which every node except the deepest has the same number of children."""
    edges, level = [], [f"r{i}" for i in range(n_roots)]
    labels = list(level)
    for _ in range(n_levels - 1):
        level = [(u, f"{u}.{j}") for u in level for j in range(n_children)]
        edges += level
        level = [child for _, child in level]
        labels += level
    return Hierarchy(edges, labels=labels)


def ontology(n: int, rng: np.random.Generator) -> Hierarchy:
    """Return a DAG like an ontology: three roots, most nodes with one to three parents."""
    edges = []
    for child in range(3, n):
        n_parents = 1 + int(rng.choice(3, p=[0.6, 0.3, 0.1]))
        # Half of the parents are young, so that it grows deep; the others make it broad.
        pool = range(max(0, child - 60), child) if rng.random() < 0.5 else range(child)
        for parent in rng.choice(list(pool), size=min(n_parents, len(pool)), replace=False):
            edges.append((f"n{parent}", f"n{child}"))
    return Hierarchy(edges, labels=[f"n{i}" for i in range(n)])


def draw_signals(h: Hierarchy, cell: dict, rng: np.random.Generator) -> np.ndarray:
    """Draw where signals are, in the order of the numbers of the hierarchy."""
    n, child = h.n_labels, cell["child"]
    depth = h.levels[h.order]
    if child == -1.0:  # anywhere, whatever the parents
        return rng.random(n) < cell["root"] / 2
    if child == -2.0:  # dense, but never at even levels
        return (rng.random(n) < cell["root"]) & (depth % 2 == 1)
    signal = np.zeros(n, dtype=bool)
    for v in range(n):
        parents = h.parent_idx[h.parent_ptr[v] : h.parent_ptr[v + 1]]
        chance = cell["root"] if parents.size == 0 else child * signal[parents].all()
        signal[v] = rng.random() < chance
    return signal


def draw_scores(h: Hierarchy, cell: dict, rng: np.random.Generator) -> np.ndarray:
    """Draw standard normal scores, the distribution of null nodes."""
    n, dependence = h.n_labels, cell["dependence"]
    if dependence == "positive":
        return np.sqrt(0.5) * (rng.normal(size=n) + rng.normal())
    if dependence == "branches":  # a node shares half its variance with its first parent's branch
        factor = rng.normal(size=n)
        for v in range(n):
            if h.parent_ptr[v] < h.parent_ptr[v + 1]:
                factor[v] = factor[h.parent_idx[h.parent_ptr[v]]]
        return np.sqrt(0.5) * (rng.normal(size=n) + factor)
    if dependence == "adversarial":
        return norm.isf(least_favourable(n, cell["adversary"], rng))
    return rng.normal(size=n)


def least_favourable(n: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """Draw uniform p-values that Simes' test at `alpha` rejects as often as possible.

    With probability alpha / k, any k of them lie between (k - 1) alpha / n and k alpha / n; the
    others are above alpha. So the test passes with probability alpha (1 + 1/2 + ... + 1/n)
    although each p-value is uniform (Benjamini and Yekutieli, 2001).
    """
    p = alpha + (1.0 - alpha) * rng.random(n)
    chance = alpha / np.arange(1, n + 1)
    k = int(np.searchsorted(np.cumsum(chance), rng.random(), side="right")) + 1
    if k <= n:
        chosen = rng.choice(n, size=k, replace=False)
        p[chosen] = (k - 1 + rng.random(k)) * alpha / n
    return p


def draw(h: Hierarchy, cell: dict, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw p-values and signals, in the order of the labels."""
    signal = draw_signals(h, cell, rng)
    z = draw_scores(h, cell, rng)
    kind, shift = cell["p"], cell["shift"]
    if kind == "binomial":  # 12 trials, chance 1/2 of success at nulls; p-values of few values
        chance = np.where(signal, 0.9, 0.5)
        p = binom.sf(rng.binomial(12, chance) - 1, 12, 0.5)
        return p[h.position], signal[h.position]
    if kind == "bimodal":
        z = z + np.where(signal & (rng.random(signal.size) < 0.5), 2 * shift, 0.0)
    else:
        z = z + shift * signal
    if kind == "conservative":
        z = z - 1.0 * ~signal
    p = norm.sf(z)
    if kind == "grid":
        p = np.ceil(p * 20) / 20
    elif kind == "edges":
        p = np.where(signal & (p < 1e-3), 0.0, p)
        p = np.where(~signal & (rng.random(p.size) < 0.2), 1.0, p)
    return p[h.position], signal[h.position]


def reject(p: np.ndarray, h: Hierarchy, levels: list[float]) -> dict[tuple[str, float], np.ndarray]:
    """Run every procedure at every level; those of `discover` by their levels."""
    out = {}
    star = star_levels(p, h, None)
    simes = {a: dagger_levels(branch_p_values(p, h, arbitrary=a), h, arbitrary=a) for a in (0, 1)}
    bayes = discover(p, h, 0.1, bayes=True).level
    for level in levels:
        out["positive", level] = simes[0] <= level
        out["arbitrary", level] = simes[1] <= level
        out["independent", level] = star <= level
        out["bayes", level] = bayes <= level
        out["benjamini_hochberg", level] = baselines.benjamini_hochberg(p, h, level)
        out["dagger", level] = baselines.dagger(p, h, level)
        if h.is_forest:
            out["yekutieli", level] = baselines.yekutieli(p, h, level)
        out["meinshausen", level] = baselines.meinshausen(p, h, level)
        out["simes_max_bh", level] = baselines.simes_max_bh(p, h, level)
    return out


def run_cell(index: int, cell: dict, config: dict) -> list[dict]:
    """Average the replications of one cell."""
    rng = np.random.default_rng([config["seed"], index])
    h = forest(3, 4, 4) if cell["hierarchy"] == "forest" else ontology(240, rng)
    parent, child = np.repeat(h.order, np.diff(h.child_ptr)), h.order[h.child_idx]
    seen: dict[tuple[str, float], list] = {}
    for _ in range(config["replications"]):
        p, signal = draw(h, cell, rng)
        branch = h.close_upward(signal[None])[0]
        for key, rejected in reject(p, h, config["levels"]).items():
            true = branch if key[0] in BRANCH else signal
            n = int(rejected.sum())
            fdp = (rejected & ~true).sum() / max(n, 1)
            power = rejected[true].mean() if true.any() else np.nan
            broken = int((rejected[child] & ~rejected[parent]).sum())
            seen.setdefault(key, []).append((fdp, power, n, broken))
    rows = []
    for (name, level), values in seen.items():
        fdp, power, n, broken = np.array(values).T
        rows.append({
            "cell": cell["name"],
            "hierarchy": cell["hierarchy"],
            "dependence": cell["dependence"],
            "procedure": name,
            "level": level,
            "replications": fdp.size,
            "holds": int(cell["dependence"] in HOLDS[name]),
            "fdr": round(float(fdp.mean()), 4),
            "fdr_se": round(float(fdp.std(ddof=1) / np.sqrt(fdp.size)), 4),
            "power": round(float(np.nanmean(power)), 4) if np.isfinite(power).any() else "",
            "rejected": round(float(n.mean()), 2),
            "violations": round(float(broken.mean()), 2),
        })  # fmt: skip
    return rows


def run_power(config: dict) -> list[dict]:
    """Power on the forest of 5 roots x 4 children x 5 levels, independent p-values."""
    h = forest(5, 4, 5)
    rows = []
    for index, (shift, root, child) in enumerate(POWER_CASES):
        rng = np.random.default_rng([config["seed"], 1000 + index])
        cell = {"shift": shift, "root": root, "child": child, "p": "z", "dependence": "independent"}
        seen: dict[str, list] = {}
        for _ in range(config["power_replications"]):
            p, signal = draw(h, cell, rng)
            level = config["power_level"]
            simes = dagger_levels(branch_p_values(p, h, arbitrary=False), h, arbitrary=False)
            for name, rejected in {
                "independent": star_levels(p, h, None) <= level,
                "positive": simes <= level,
                "dagger": baselines.dagger(p, h, level),
            }.items():
                fdp = (rejected & ~signal).sum() / max(int(rejected.sum()), 1)
                # A replication without signals finds no share of them.
                power = rejected[signal].mean() if signal.any() else 0.0
                seen.setdefault(name, []).append((power, fdp))
        for name, values in seen.items():
            power, fdp = np.array(values).T
            rows.append({
                "shift": shift, "root": root, "child": child, "procedure": name,
                "replications": power.size, "power": round(float(power.mean()), 4),
                "power_se": round(float(power.std(ddof=1) / np.sqrt(power.size)), 4),
                "fdr": round(float(fdp.mean()), 4),
            })  # fmt: skip
    return rows


def study(config: dict) -> list[dict]:
    """Run all cells."""
    rows = []
    for index, cell in enumerate(config["cell"]):
        rows += run_cell(index, cell, config)
    return rows


def write(path: Path, columns: tuple[str, ...], rows: list[dict]) -> None:
    """Write rows as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run the study and print the cells in which a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    config = read_config()
    if options.replications:
        config |= {name: options.replications for name in ("replications", "power_replications")}
    rows = study(config)
    write(options.out / "fdr.csv", COLUMNS, rows)
    write(options.out / "power.csv", POWER_COLUMNS, run_power(config))
    for row in rows:
        if row["holds"] and row["fdr"] > row["level"] + 3 * row["fdr_se"]:
            print("above the level:", row)


if __name__ == "__main__":
    main()
