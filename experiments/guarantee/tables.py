"""Write the tables of docs/cutoffs.md from the committed figures of this study.

    python experiments/guarantee/tables.py

Each table stands between two comments that name it, and nothing else of the page is touched.
"""

import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "cutoffs.md"
sys.path.insert(0, str(HERE))


def read(name: str) -> list[dict]:
    """Return the rows of a table of figures."""
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


def attack_table() -> list[str]:
    """One line a population: how it attacks, and the worst cell of the former test and of this."""
    import end_to_end  # noqa: F401  (its populations enter the table)
    import populations  # noqa: F401
    from attack import attack_of

    rows = read("violations.csv")
    lines = [
        "| population | how it attacks | former test: worst share, cells broken | this test: worst share, cells broken | certified |",  # noqa: E501
        "| --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(row["population"] for row in rows):
        own = {
            method: [r for r in rows if r["population"] == name and r["method"] == method]
            for method in ("former", "certified")
        }
        certified = [float(row["certified"]) for row in own["certified"]]
        lines.append(
            f"| {name.replace('_', ' ')} | {attack_of(name)} | {_worst(own['former'])} | "
            f"{_worst(own['certified'])} | {min(certified):.2f}-{max(certified):.2f} |"
        )
    return lines


def _worst(cells: list[dict]) -> str:
    broken = sum(float(cell["rate"]) > float(cell["limit"]) for cell in cells)
    worst = max(float(cell["rate"]) for cell in cells)
    return f"{worst:.3f}, {broken} of {len(cells)}"


def cost_table() -> list[str]:
    """One line a case: runs short of the target, and positives found, of every kind of cutoff."""
    rows = read("recall.csv")
    lines = [
        "| case | samples | target | runs short: certified / former / cautious / plain | positives found: certified / former / cautious / plain | certified |",  # noqa: E501
        "| --- | --- | --- | --- | --- | --- |",
    ]
    cells: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        key = (row["case"], int(row["samples"]), row["target"])
        cells.setdefault(key, {})[row["method"]] = row
    methods = ("certified", "former", "cautious", "plain")
    for (case, samples, target), cell in cells.items():
        short = " / ".join(f"{float(cell[m]['rate']):.3f}" for m in methods if m in cell)
        found = " / ".join(f"{float(cell[m]['recall']):.3f}" for m in methods if m in cell)
        certified = float(cell["certified"]["certified"])
        lines.append(f"| {case} | {samples:,} | {target} | {short} | {found} | {certified:.2f} |")
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
