"""Write the tables of docs/evidence-cutoffs.md from the committed figures of this study.

    python experiments/guarantee/tables.py

Each table stands between two comments that name it, and nothing else of the page is touched.
"""

import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "evidence-cutoffs.md"
sys.path.insert(0, str(HERE))


def read(name: str) -> list[dict]:
    """Return the rows of a table of figures."""
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


def attack_table() -> list[str]:
    """One line per population: how it attacks, its worst cell, and how often it was certified."""
    import end_to_end  # noqa: F401  (its populations enter the table)
    import populations  # noqa: F401
    from attack import attack_of

    rows = [row for row in read("violations.csv") if row["method"] == "certified"]
    lines = ["| how it attacks | worst share of violations | certified |", "| --- | --- | --- |"]
    for name in dict.fromkeys(row["population"] for row in rows):
        own = [row for row in rows if row["population"] == name]
        worst = max(float(row["rate"]) for row in own)
        certified = [float(row["certified"]) for row in own]
        share = f"{min(certified):.2f}-{max(certified):.2f}"
        lines.append(f"| {attack_of(name)} | {worst:.3f} | {share} |")
    return lines


def cost_table() -> list[str]:
    """One line per case: runs below the target, and positives found, for every rule."""
    rows = read("recall.csv")
    lines = [
        "| case | samples | target | runs below target: certified / cautious / plain | "
        "positives found: certified / cautious / plain | certified |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    cells: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        key = (row["case"], int(row["samples"]), row["target"])
        cells.setdefault(key, {})[row["method"]] = row
    methods = ("certified", "cautious", "plain")
    for (case, samples, target), cell in cells.items():
        below = " / ".join(f"{float(cell[m]['rate']):.3f}" for m in methods if m in cell)
        found = " / ".join(f"{float(cell[m]['recall']):.3f}" for m in methods if m in cell)
        certified = float(cell["certified"]["certified"])
        lines.append(f"| {case} | {samples:,} | {target} | {below} | {found} | {certified:.2f} |")
    return lines


TABLES = {"attacks": attack_table, "cost": cost_table}


def page_with_tables(text: str) -> str:
    """Return the page with every table between its comments written anew."""
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
