"""The paper's tables and figures, made again from a seed.

`reproduce` runs the studies, all replications in parallel, and writes CSV files, figures (SVG and
PNG) and one page that sets the results beside the paper's.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import require
from hierlpr._base.checks import check_choice
from hierlpr._base.files import making, writing
from hierlpr.exceptions import DataError
from hierlpr.research.reproduce import studies, study_page
from hierlpr.research.reproduce.studies import CLAIMS, TABLE2, TARGETS, Options

__all__ = ["STUDIES", "Options", "reproduce"]

STUDIES = ("table2", "curves", "disease", "all")
SETTINGS = ("1", "2", "3", "4")


def _drawn(*stems: str) -> list[str]:
    return [f"{stem}.{ending}" for stem in stems for ending in ("svg", "png")]


_FILES = {
    "curves": ["curves.csv", *_drawn("curves_half", "curves_full", "areas")],
    "disease": ["disease.csv", *_drawn("disease")],
    "table2": ["table2_runs.csv", "table2.csv", *_drawn("table2")],
}


def reproduce(
    what: str = "all",
    *,
    out: str | Path,
    replications: int = 100,
    options: Options | None = None,
    n_jobs: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Run studies of the paper and write what they found into a folder.

    Parameters
    ----------
    what : {"table2", "curves", "disease", "all"}
    out : path
        Made if needed. Gets CSV files, figures and ``index.html``.
    replications : int
        The paper has 100. The disease-like study, which is slower and varies less, runs a fifth.
    options : Options, optional
        Sizes, seed and the LPR estimator.
    n_jobs : int
        Processes.
    on_progress : callable, optional
        Called with the number of replications done and to do, over all studies asked for.

    Returns
    -------
    dict
        Results by study, and the verdicts on the paper's claims.
    """
    require("jinja2", "matplotlib", extra="report", what="Reproducing the paper's figures")
    check_choice(what, STUDIES, name="what")
    if replications < 2:
        raise DataError(f"replications must be at least 2, got {replications}.")
    chosen = Options() if options is None else options
    asked = [study for study in _FILES if what in (study, "all")]
    names = ["index.html", *(name for study in asked for name in _FILES[study])]
    with making(out, names, what="reproduction") as folder:
        return _write(folder, asked, replications, chosen, n_jobs, on_progress)


def _write(
    folder: Path,
    asked: list[str],
    replications: int,
    chosen: Options,
    n_jobs: int,
    on_progress: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    sections: list[study_page.Section] = []
    verdicts: list[Verdict] = []
    n_disease = max(2, replications // 5)
    todo = {"curves": 4 * replications, "disease": n_disease, "table2": 4 * replications}
    total = sum(todo[study] for study in asked)

    def ran(study: str, settings: Sequence[str], n: int) -> list[Row]:
        before = sum(todo[earlier] for earlier in asked[: asked.index(study)])
        say = on_progress and (lambda done, _: on_progress(before + done, total))
        replicate = getattr(studies, f"{study}_replication")
        return run_study(replicate, settings, n, chosen, n_jobs=n_jobs, on_progress=say)

    if "curves" in asked:
        curves = Curves.of(ran("curves", SETTINGS, replications))
        results["curves"] = curves
        verdicts += check_claims(curves)
        write_csv(folder / "curves.csv", curves.rows)
        study_page.draw_curves(curves, max_recall=0.5, stem=folder / "curves_half")
        study_page.draw_curves(curves, max_recall=1.0, stem=folder / "curves_full")
        study_page.draw_areas(curves, stem=folder / "areas")
        sections.append(study_page.areas_section(curves))
    if "disease" in asked:
        disease = Curves.of(ran("disease", ["disease"], n_disease))
        results["disease"], results["n_disease"] = disease, n_disease
        verdicts += check_claims(disease)
        write_csv(folder / "disease.csv", disease.rows)
        study_page.draw_disease(disease, stem=folder / "disease")
        sections.append(study_page.disease_section(disease))
    if "table2" in asked:
        rows = ran("table2", SETTINGS, replications)
        results["table2"] = summarize_table2(rows)
        write_csv(folder / "table2_runs.csv", rows)
        write_csv(folder / "table2.csv", results["table2"])
        study_page.draw_table2(results["table2"], stem=folder / "table2")
        sections.append(study_page.table2_section(results["table2"]))
    if verdicts:
        results["verdicts"] = verdicts
        sections.insert(0, study_page.claims_section(verdicts))
    intro = (
        f"{replications} replications ({n_disease} of the disease-like data) from seed "
        f"{chosen.seed}: {chosen.n_train:,} training and "
        f"{chosen.n_test:,} test samples, LPRs by the estimator '{chosen.lpr}', ClusHMC with "
        f"{chosen.n_trees} trees."
    )
    study_page.write_page(folder / "index.html", intro, sections)
    return results


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
    replicate: Callable[[str, int, Options], list[Row]],
    settings: Sequence[str],
    n_replications: int,
    options: Options,
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
