"""The paper's tables and figures, made again from a seed.

`reproduce` runs the studies and writes CSV files, figures (SVG and PNG) and one page that sets
the results beside the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hierlpr._base.checks import check_choice
from hierlpr._base.files import making
from hierlpr._base.lazy import require
from hierlpr.exceptions import DataError
from hierlpr.research.reproduce.studies import Options

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
    from hierlpr.research.reproduce import figures, run, studies, study_page

    results: dict[str, Any] = {}
    sections: list[study_page.Section] = []
    verdicts: list[run.Verdict] = []

    n_disease = max(2, replications // 5)
    todo = {"curves": 4 * replications, "disease": n_disease, "table2": 4 * replications}
    total = sum(todo[study] for study in asked)

    def ran(study: str, settings: Sequence[str], n: int) -> list[run.Row]:
        before = sum(todo[earlier] for earlier in asked[: asked.index(study)])
        say = on_progress and (lambda done, _: on_progress(before + done, total))
        replicate = getattr(studies, f"{study}_replication")
        return run.run_study(replicate, settings, n, chosen, n_jobs=n_jobs, on_progress=say)

    if "curves" in asked:
        curves = run.Curves.of(ran("curves", SETTINGS, replications))
        results["curves"] = curves
        verdicts += run.check_claims(curves)
        run.write_csv(folder / "curves.csv", curves.rows)
        figures.draw_curves(curves, max_recall=0.5, stem=folder / "curves_half")
        figures.draw_curves(curves, max_recall=1.0, stem=folder / "curves_full")
        figures.draw_areas(curves, stem=folder / "areas")
        sections.append(study_page.areas_section(curves))
    if "disease" in asked:
        disease = run.Curves.of(ran("disease", ["disease"], n_disease))
        results["disease"], results["n_disease"] = disease, n_disease
        verdicts += run.check_claims(disease)
        run.write_csv(folder / "disease.csv", disease.rows)
        figures.draw_disease(disease, stem=folder / "disease")
        sections.append(study_page.disease_section(disease))
    if "table2" in asked:
        rows = ran("table2", SETTINGS, replications)
        results["table2"] = run.summarize_table2(rows)
        run.write_csv(folder / "table2_runs.csv", rows)
        run.write_csv(folder / "table2.csv", results["table2"])
        figures.draw_table2(results["table2"], stem=folder / "table2")
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
