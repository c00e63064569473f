"""Write the tables of docs/evidence-cutoffs.md from the committed figures of this study.

    python experiments/guarantee/tables.py

Each table is between two comments that name it; the rest of the page stays unchanged.
"""

import csv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "evidence-cutoffs.md"


def read(name: str) -> list[dict]:
    """Return the rows of a table of figures."""
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


FAMILIES = {
    "whole models, from raw scores or features": (
        "setting_1", "setting_2", "setting_3", "setting_4", "saturated_model", "isotonic_model",
        "missing_scores", "classifier",
    ),
    "few kinds of samples, some just below the target": (
        "unlucky_split", "two_kinds", "two_kinds_close", "three_kinds", "seven_kinds",
        "rare_good_kind", "mostly_silent",
    ),
    "ties: equal, rounded, saturated or copied scores": (
        "all_tied", "all_tied_labels", "unlucky_tie", "unlucky_tie_of_labels", "five_values",
        "rounded", "saturated", "flat_curves", "copied_labels", "ties_past_the_limit",
    ),
    "every level below the target, by as little as a billionth": (
        "at_the_boundary", "just_short", "falls_through", "dips_and_recovers",
        "truth_follows_the_hash",
    ),
    "rare samples with hundreds of incorrect calls": ("heavy_tail", "tail_below", "uneven_calls"),
    "labels of a sample that are correct or incorrect together": ("one_fate",),
    "a plan of levels from misleading samples": (
        "plan_too_bright", "plan_from_a_mixture", "plan_upside_down", "plan_with_an_outlier",
    ),
    "DAGs and listed scores": ("dag", "sparse_table"),
    "groups of labels": ("six_groups", "thirty_groups"),
}  # fmt: skip


def attack_table() -> list[str]:
    """One line per family of populations: its worst cell, and how often it was certified."""
    rows = [row for row in read("violations.csv") if row["method"] == "certified"]
    found = {row["population"] for row in rows}
    if found != (known := {name for names in FAMILIES.values() for name in names}):
        raise SystemExit(f"Populations without a family, or missing: {sorted(found ^ known)}.")
    lines = [
        "| attack | populations | worst share of violations | certified |",
        "| --- | --- | --- | --- |",
    ]
    for family, names in FAMILIES.items():
        own = [row for row in rows if row["population"] in names]
        worst = max(float(row["rate"]) for row in own)
        certified = [float(row["certified"]) for row in own]
        share = f"{min(certified):.2f}\N{NON-BREAKING HYPHEN}{max(certified):.2f}"
        lines.append(f"| {family} | {len(names)} | {worst:.3f} | {share} |")
    return lines


def cost_table() -> list[str]:
    """One line per setting and number of samples, at target 0.9, for every rule."""
    methods = ("certified", "cautious", "plain")
    lines = [
        "| case | samples | below target: certified / cautious / plain | found | certified |",
        "| --- | --- | --- | --- | --- |",
    ]
    cells: dict[tuple, dict[str, dict]] = {}
    for row in read("recall.csv"):
        if row["target"] == "0.9" and row["case"].startswith("setting"):
            cells.setdefault((row["case"], int(row["samples"])), {})[row["method"]] = row
    for (case, samples), cell in cells.items():
        below = " / ".join(f"{float(cell[m]['rate']):.2f}" for m in methods)
        found = " / ".join(f"{float(cell[m]['recall']):.2f}" for m in methods)
        certified = float(cell["certified"]["certified"])
        lines.append(f"| {case} | {samples:,} | {below} | {found} | {certified:.2f} |")
    return lines


TABLES = {"attacks": attack_table, "cost": cost_table}


def page_with_tables(text: str) -> str:
    """Return the page with the tables between their comments replaced."""
    for name, table in TABLES.items():
        start, end = f"<!-- {name}: from experiments/guarantee -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{PAGE}: no place for the table {name!r} ({start} ... {end}).")
        text = "\n".join([before + start, "", *table(), "", end + after])
    return text


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text()))
