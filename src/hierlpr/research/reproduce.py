"""The paper's studies run again from a seed: tables beside the paper's numbers, and figures."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from hierlpr import metrics, simulate
from hierlpr._utils.checks import check_choice, check_count
from hierlpr._utils.files import atomic_output, output_directory
from hierlpr.baselines import BayesianCorrection, ClusHMC, lpr_alone
from hierlpr.exceptions import HierlprWarning
from hierlpr.lpr import fit_lpr
from hierlpr.model import HierLPR
from hierlpr.ranking.order import rank

Row = dict[str, Any]

STUDIES = {"curves": ("1", "2", "3", "4", "disease"), "table2": ("1", "2", "3", "4")}
RECALL_GRID = np.linspace(0.005, 1.0, 200)
TARGETS = ("max F", "0.80", "0.90", "0.95", "0.99")

# The paper's Table 2: mean and standard deviation, in percent, of the best minus the achieved
# value, for each of TARGETS.
TABLE2: dict[str, tuple[tuple[float, float], ...]] = {
    "1": ((0.57, 0.64), (1.25, 7.7), (0.56, 3.59), (0.22, 1.77), (0.13, 0.68)),
    "2": ((0.49, 0.64), (0.71, 5.96), (0.39, 2.94), (0.22, 1.61), (0.12, 0.64)),
    "3": ((7.51, 11.64), (11.31, 20.48), (17.53, 18.39), (20.07, 17.2), (21.69, 16.35)),
    "4": ((0.24, 0.45), (3.13, 14.28), (8.18, 9.57), (1.29, 4.56), (0.16, 0.75)),
}


class Claim(NamedTuple):
    """The paper says that in `setting` `measure` is larger for `better` than for `other`."""

    text: str
    setting: str
    measure: str
    better: str
    other: str
    equal: bool = False  # the paper says that both are the same


_AREA = "HierLPR has a larger hit area than LPR"
_PRECISE = "HierLPR is more precise than ClusHMC to recall 0.5"
_OVERALL, _INITIAL = "performs better overall", "is better in the initial portion"
_OTHERS = ("ClusHMC", "LPR", "corrected calls")
CLAIMS = (
    *(Claim(_AREA, setting, "hit_area", "HierLPR", "LPR") for setting in "123"),
    Claim("without hierarchy HierLPR is LPR", "4", "hit_area", "HierLPR", "LPR", equal=True),
    Claim("LPR alone looks better in the beginning", "3", "start", "LPR", "HierLPR"),
    Claim("after a sharp drop HierLPR dominates LPR", "3", "middle", "HierLPR", "LPR"),
    *(Claim(_PRECISE, setting, "early", "HierLPR", "ClusHMC") for setting in "124"),
    Claim("ClusHMC is more precise than HierLPR to recall 0.5", "3", "early", "ClusHMC", "HierLPR"),
    *(Claim(f"HierLPR {_OVERALL} than {x}", "disease", "au_prc", "HierLPR", x) for x in _OTHERS),
    *(Claim(f"HierLPR {_INITIAL} than {x}", "disease", "early", "HierLPR", x) for x in _OTHERS),
    Claim("ClusHMC calls standalone positives later than HierLPR", "disease",
          "others_before_alone", "ClusHMC", "HierLPR"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes and seed of all replications."""

    n_train: int = 5000
    n_test: int = 1000
    n_trees: int = 100  # of ClusHMC
    stopping: Literal["cv"] | float | None = "cv"  # of ClusHMC
    lpr: str = "auto"  # estimator of the LPRs
    seed: int = 0
    n_folds: int = 5


def reproduce(
    what: str = "all",
    *,
    out: str | Path,
    replications: int = 100,
    options: Options | None = None,
    n_jobs: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[Row]]:
    """Run "table2", "curves" or "all" studies, write tables and a figure, and return the tables.

    The disease-like data, which are slower and vary less, get a fifth of the `replications`. The
    table "claims" says whether the paper's claims hold.
    """
    check_choice(what, ("table2", "curves", "all"), name="what")
    check_count(replications, name="replications", least=2)
    options = Options() if options is None else options
    results: dict[str, list[Row]] = {study: [] for study in STUDIES if what in (study, "all")}
    tasks = [
        (study, setting, r)
        for study in results
        for setting in STUDIES[study]
        for r in range(max(2, replications // 5) if setting == "disease" else replications)
    ]
    names = [f"{name}.csv" for name in results]
    with output_directory(out, [*names, "claims.csv", "curves.png"]) as folder:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")
        jobs = (delayed(replicate)(*task, options) for task in tasks)
        for done, rows in enumerate(parallel(jobs), start=1):
            results[tasks[done - 1][0]] += rows
            if on_progress is not None:
                on_progress(done, len(tasks))
        if "table2" in results:
            results["table2"] = summarize_table2(results["table2"])
        if "curves" in results:
            results["claims"] = check_claims(results["curves"])
            with atomic_output(folder / "curves.png") as part:
                _draw(results["curves"]).savefig(part, format="png", dpi=150)
        for name, rows in results.items():
            _write_csv(folder / f"{name}.csv", rows)
    return results


def replicate(study: str, setting: str, replication: int, options: Options) -> list[Row]:
    """Return the rows of one replication of a study, from its own random generator."""
    rng = np.random.default_rng([options.seed, replication, *setting.encode()])
    run = _table2 if study == "table2" else _disease if setting == "disease" else _curves
    place = {"setting": setting, "replication": replication}
    return [place | row for row in run(setting, options, rng)]


# -- studies --------------------------------------------------------------------------------------


def _curves(setting: str, options: Options, rng: np.random.Generator) -> list[Row]:
    """Rank one test set by every method and measure each ranking."""
    n_train, n_test = options.n_train, options.n_test
    train, test = simulate.train_test(setting, n_train=n_train, n_test=n_test, rng=rng)
    h = test.hierarchy
    lpr = _lpr(train.scores, train.truth, test.scores, options)
    clus = ClusHMC(n_trees=options.n_trees, stopping=options.stopping, random_state=rng)
    clus.fit(train.scores, train.truth, h)
    rankings = {
        "LPR": lpr_alone(lpr, h),
        "HierLPR": rank(lpr, h, n_jobs=1),
        "ClusHMC": clus.rank(test.scores, h),
        "oracle": rank(test.posterior_true, h, n_jobs=1),  # the best that any method can do
    }
    return [_measures(method, test.truth[r.sample, r.label]) for method, r in rankings.items()]


def _disease(_setting: str, options: Options, rng: np.random.Generator) -> list[Row]:
    """Cross-validate every method on a disease-like data set of 196 samples."""
    data = simulate.disease(rng=rng)
    h = data.hierarchy
    fold = rng.permutation(data.n_samples) % options.n_folds
    methods = ("HierLPR", "ClusHMC", "corrected calls")
    chance = {method: np.zeros(data.truth.shape) for method in methods}
    for held_out in range(options.n_folds):
        inside, outside = fold != held_out, fold == held_out
        train, new = (data.scores[inside], data.truth[inside]), data.scores[outside]
        chance["HierLPR"][outside] = _lpr(*train, new, options)
        clus = ClusHMC(n_trees=options.n_trees, stopping=None, random_state=rng)
        chance["ClusHMC"][outside] = clus.fit(*train, h).predict_proba(new)
        corrected = BayesianCorrection().fit(*train, h)
        chance["corrected calls"][outside] = corrected.predict_proba(new)
    rankings = {"LPR": lpr_alone(chance["HierLPR"], h)}
    rankings |= {method: rank(x, h, n_jobs=1) for method, x in chance.items()}
    alone = np.array([not h.parents(x) and not h.children(x) for x in h.labels])
    rows = []
    for method, r in rankings.items():
        called, is_alone = data.truth[r.sample, r.label], alone[r.label]
        # Share of the other positives called before the median standalone positive.
        middle = np.median(np.flatnonzero(called & is_alone))
        before = float(np.mean(np.flatnonzero(called & ~is_alone) < middle))
        rows.append(_measures(method, called) | {"others_before_alone": before})
    return rows


def _table2(setting: str, options: Options, rng: np.random.Generator) -> list[Row]:
    """Choose cutoffs on half of the training part and apply them to the test part."""
    n_train, n_test, half = options.n_train, options.n_test, options.n_train // 2
    train, test = simulate.train_test(setting, n_train=n_train, n_test=n_test, rng=rng)
    model = HierLPR(train.hierarchy, lpr=options.lpr, joint=False, n_jobs=1)
    model.fit(train.scores[:half], train.truth[:half])
    best_f = metrics.f_max_score(test.truth, model.predict_proba(test.scores))
    rows: list[Row] = []
    for target in TARGETS:
        is_f = target == "max F"
        goal: Row = {"maximize": "f1"} if is_f else {"precision": float(target)}
        with warnings.catch_warnings():  # an unreachable target is a result here
            warnings.simplefilter("ignore", HierlprWarning)
            model.calibrate(train.scores[half:], train.truth[half:], **goal)
            calls = model.predict(test.scores)
        achieved = (metrics.f_score if is_f else metrics.precision_score)(test.truth, calls)
        below = 100.0 * ((best_f if is_f else float(target)) - achieved)
        reachable = model.cutoff_.reachable
        rows.append({"target": target, "difference": below, "reachable": reachable})
    return rows


def _lpr(scores: Any, truth: Any, new: NDArray[np.float64], options: Options) -> Any:
    return fit_lpr(scores, truth, method=options.lpr, n_jobs=1).predict(new, n_jobs=1)


def _measures(method: str, called: NDArray[np.bool_]) -> Row:
    """Measure the ranking of a method by the truth of its calls, in calling order."""
    to_02, to_05 = (metrics.early_precision_score(called, max_recall=r) for r in (0.2, 0.5))
    return {
        "method": method,
        "hit_area": metrics.normalized_hit_area_score(called),
        "early": to_05,
        "start": metrics.early_precision_score(called, max_recall=0.05),
        "middle": (0.5 * to_05 - 0.2 * to_02) / 0.3,
        "au_prc": metrics.au_prc_score(called),
        "curve": precision_on_grid(called),
    }


def precision_on_grid(called: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the precision at the first call that reaches each recall of the grid."""
    precision, recall, _ = metrics.precision_recall_curve(called)
    place = np.searchsorted(recall, RECALL_GRID - 1e-12)
    return precision[np.minimum(place, precision.size - 1)]


# -- summaries and files --------------------------------------------------------------------------


def difference(
    rows: Sequence[Row], setting: str, measure: str, better: str, other: str
) -> tuple[float, float]:
    """Return mean and standard error of the paired differences between two methods."""
    of_setting = _select(rows, setting=setting)
    first, second = (
        [row[measure] for row in _select(of_setting, method=x)] for x in (better, other)
    )
    gap = np.subtract(first, second)
    return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(gap.size))


def check_claims(rows: Sequence[Row]) -> list[Row]:
    """Compare the paper's claims with the signs found here, at three standard errors."""
    checked = []
    for claim in CLAIMS:
        if not _select(rows, setting=claim.setting):
            continue
        gap, error = difference(rows, claim.setting, claim.measure, claim.better, claim.other)
        if abs(gap) <= max(3.0 * error, 1e-9):
            holds = "yes" if claim.equal else "undecided"
        else:
            holds = "yes" if gap > 0 and not claim.equal else "no"
        checked.append({**claim._asdict(), "difference": gap, "error": error, "holds": holds})
    return checked


def summarize_table2(rows: Sequence[Row]) -> list[Row]:
    """Return one row per setting and target, with the paper's numbers."""
    summary = []
    for setting in _values(rows, "setting"):
        for target, (paper_mean, paper_sd) in zip(TARGETS, TABLE2[setting], strict=True):
            cell = _select(rows, setting=setting, target=target)
            within = np.array([row["difference"] for row in cell if row["reachable"]])
            mean = float(within.mean()) if within.size else np.nan
            sd = float(within.std(ddof=1)) if within.size > 1 else np.nan
            summary.append({
                "setting": setting, "target": target, "replications": len(cell),
                "reachable": within.size / len(cell), "mean_if_reachable": mean,
                "sd_if_reachable": sd, "paper_mean": paper_mean, "paper_sd": paper_sd,
            })  # fmt: skip
    return summary


def _select(rows: Iterable[Row], **where: str) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def _values(rows: Iterable[Row], name: str) -> list[str]:
    return list(dict.fromkeys(row[name] for row in rows))


def _draw(rows: list[Row]) -> Any:
    """Draw mean precision against recall, one panel per setting."""
    from matplotlib.figure import Figure

    settings = _values(rows, "setting")
    n_rows = -(-len(settings) // 3)
    figure = Figure(figsize=(10.0, 3.2 * n_rows), layout="constrained")
    for place, setting in enumerate(settings, start=1):
        axis = figure.add_subplot(n_rows, 3, place)
        of_setting = _select(rows, setting=setting)
        for method in _values(of_setting, "method"):
            curves = [row["curve"] for row in _select(of_setting, method=method)]
            axis.plot(RECALL_GRID, np.mean(curves, axis=0), label=method)
        axis.set(xlabel="recall", ylabel="precision", title=f"Setting {setting}")
        axis.legend(frameon=False)
    return figure


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write rows without their curves; columns in order of first appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row if name != "curve"))
    with atomic_output(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            cells = [row.get(name, "") for name in columns]
            writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in cells])
