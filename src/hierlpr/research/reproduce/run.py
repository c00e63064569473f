"""All replications of a study, in parallel, summarized into small tables."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.files import writing
from hierlpr.research.reproduce import studies
from hierlpr.research.reproduce.studies import CLAIMS, TABLE2, TARGETS

Row = dict[str, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Curves:
    """Rows of a ranking study, one per replication and method, and their mean curves.

    `curves` maps (setting, method) to the mean precision on `studies.RECALL_GRID` and its
    standard error.
    """

    rows: list[Row]
    curves: dict[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.float64]]]

    @classmethod
    def of(cls, rows: list[Row]) -> Curves:
        """Take the means of the curves of all replications."""
        stacked: dict[tuple[str, str], list[NDArray[np.float64]]] = {}
        for row in rows:
            if "curve" in row:
                stacked.setdefault((row["setting"], row["method"]), []).append(row["curve"])
        curves = {}
        for key, each in stacked.items():
            matrix = np.stack(each)
            error = (
                matrix.std(axis=0, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else matrix[0] * 0
            )
            curves[key] = (matrix.mean(axis=0), error)
        return cls(rows, curves)

    def mean(self, setting: str, method: str, measure: str) -> tuple[float, float]:
        """Return mean and standard error over replications; NaN if not measured."""
        values = [
            row[measure]
            for row in self.rows
            if row["setting"] == setting and row["method"] == method and measure in row
        ]
        return _mean_and_error(values)

    def difference(
        self, setting: str, measure: str, better: str, other: str
    ) -> tuple[float, float]:
        """Return mean and standard error of the difference, replication by replication."""
        by_method: dict[str, dict[int, float]] = {better: {}, other: {}}
        for row in self.rows:
            if row["setting"] == setting and row["method"] in by_method:
                by_method[row["method"]][row["replication"]] = row[measure]
        pairs = [x - by_method[other][r] for r, x in by_method[better].items()]
        return _mean_and_error(pairs)

    @property
    def methods(self) -> list[str]:
        """Methods in order of appearance."""
        return list(dict.fromkeys(row["method"] for row in self.rows))

    @property
    def settings(self) -> list[str]:
        """Settings in order of appearance."""
        return list(dict.fromkeys(row["setting"] for row in self.rows))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim of the paper holds here, and by how much."""

    words: str
    setting: str
    difference: float
    error: float
    holds: str


def run_study(
    replicate: Callable[[str, int, studies.Options], list[Row]],
    settings: Sequence[str],
    n_replications: int,
    options: studies.Options,
    *,
    n_jobs: int = 1,
    on_progress: Progress | None = None,
) -> list[Row]:
    """Run all replications of a study of `hierlpr.research.reproduce.studies`."""
    from joblib import Parallel, delayed

    tasks = [(setting, r) for setting in settings for r in range(n_replications)]
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    rows: list[Row] = []
    for done, found in enumerate(parallel(delayed(replicate)(*task, options) for task in tasks)):
        rows.extend(found)
        if on_progress is not None:
            on_progress(done + 1, len(tasks))
    return rows


def summarize_table2(rows: Sequence[Row]) -> list[Row]:
    """One row per setting and target: mean, deviation, reachable share, and the paper's numbers."""
    out = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        for target in TARGETS:
            cell = [r for r in rows if r["setting"] == setting and r["target"] == target]
            reached = [r for r in cell if r["reachable"]]
            everything = np.array([r["difference"] for r in cell])
            within = np.array([r["difference"] for r in reached])
            paper_mean, paper_sd = TABLE2.get(setting, {}).get(target, (np.nan, np.nan))
            out.append(
                {"setting": setting, "target": target, "replications": len(cell),
                 "reachable": len(reached) / len(cell),
                 "mean_if_reachable": float(within.mean()) if within.size else np.nan,
                 "sd_if_reachable": float(within.std(ddof=1)) if within.size > 1 else np.nan,
                 "mean_all": float(everything.mean()),
                 "sd_all": float(everything.std(ddof=1)) if len(cell) > 1 else np.nan,
                 "known_optimum": _mean_and_error(
                     [r["known_optimum"] for r in cell if "known_optimum" in r])[0],
                 "paper_mean": paper_mean, "paper_sd": paper_sd}
            )  # fmt: skip
    return out


def check_claims(curves: Curves) -> list[Verdict]:
    """Compare every claim of the paper with the sign found here, at three standard errors."""
    verdicts = []
    for claim in CLAIMS:
        if claim.setting not in curves.settings:
            continue
        gap, error = curves.difference(claim.setting, claim.measure, claim.better, claim.other)
        if claim.sign == 0:
            holds = "yes" if abs(gap) <= max(3.0 * error, 1e-9) else "no"
        elif abs(gap) <= 3.0 * error:
            holds = "undecided"
        else:
            holds = "yes" if gap > 0 else "no"
        verdicts.append(Verdict(claim.words, claim.setting, gap, error, holds))
    return verdicts


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """Write rows whole or not at all; columns by first appearance, arrays left out."""
    kept = [{k: v for k, v in row.items() if not isinstance(v, np.ndarray)} for row in rows]
    columns = list(dict.fromkeys(name for row in kept for name in row))
    with writing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for row in kept:
            writer.writerow({k: _rounded(v) for k, v in row.items()})


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return np.nan, np.nan
    spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
    return float(np.mean(values)), spread


def _rounded(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
