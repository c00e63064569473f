"""From files to files: fit, rank, evaluate and report, held at once or worked on in parts.

Each function looks at the sizes of its files and at `memory`, and chooses; results are the same
either way, bit by bit. The commands of the command line are these functions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hierlpr._base.files import refuse_overlap
from hierlpr._base.own_folders import claimed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hierlpr.data.label_sets import LabelSets
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.io import HierarchyFile, Pair, RankingFile, ReadReport, TruthSets
    from hierlpr.io.pairing import Absent
    from hierlpr.model import ScoreModel
    from hierlpr.report.report_page import Report
    from hierlpr.scale import Evaluated, Executor, FitOutcome, Outcome

__all__ = ["Reported", "evaluate_file", "fit_file", "rank_file", "report_file"]

AnyPath = str | os.PathLike[str]
OnProgress = Callable[[str, int, int], None]
DEFAULT_MEMORY = "1GB"


# -- fit --------------------------------------------------------------------------------------


def fit_file(
    hierarchy: Any,
    scores: AnyPath,
    truth: AnyPath,
    out: AnyPath,
    *,
    goal: Mapping[str, Any] | None = None,
    calibration: tuple[AnyPath, AnyPath] | None = None,
    lpr: Any = "auto",
    joint: bool | str = "auto",
    absent: Absent | None = None,
    close_truth: bool = False,
    seed: int = 0,
    lenient: bool = False,
    memory: str | int = DEFAULT_MEMORY,
    partitions: int | None = None,
    work: AnyPath | None = None,
    resume: bool = False,
    scheduler: str | None = None,
    on_progress: OnProgress | None = None,
) -> FitOutcome:
    """Fit a model on files, and write it.

    Parameters
    ----------
    hierarchy : path, HierarchyFile or Hierarchy
        A file in any format of `hierlpr.io.load_hierarchy`, or what it gave.
    scores, truth : path
        Tables in any layout that `hierlpr.io` reads.
    out : path
        The model file. It appears whole at the end, or stays as it was.
    goal : mapping, optional
        Options of ``HierLPR.calibrate``, such as ``{"fdr": 0.1}``. A third of the samples is then
        kept for the cutoff, at most 2**23 instances, and not fitted on.
    calibration : pair of paths, optional
        Scores and truth of other samples for the cutoff, instead of the third.
    lpr, joint
        See :class:`hierlpr.HierLPR`.
    absent : {"negative", "skip"}, optional
        Scored samples that the truth lacks; see :func:`hierlpr.io.pair_samples`.
    close_truth : bool
        Add the missing ancestors of true labels.
    seed : int
        Chooses the samples for the cutoff.
    lenient : bool
        Pass over rows with problems and count them.
    memory : str or int
        Working memory. What needs more is worked on in parts.
    partitions : int, optional
        Number of parts of each file of scores, by default as the memory needs; asks for parts.
    work : path, optional
        Where a folder for work files is made, beside the output by default; asks for parts.
    resume : bool
        Continue an interrupted run, and keep what is finished if this one fails; asks for parts.
    scheduler : str, optional
        Address of a Dask scheduler whose workers do the parts; ``"local"`` starts one here.
    on_progress : callable, optional
        Called with stage, done and total.

    Returns
    -------
    FitOutcome

    Examples
    --------
    >>> import tempfile
    >>> from hierlpr.io import write_hierarchy, write_scores, write_truth
    >>> from hierlpr import simulate
    >>> from hierlpr.data.tables import Table
    >>> folder = Path(tempfile.mkdtemp())
    >>> data, _ = simulate.train_test(1, rng=0)
    >>> names = tuple(f"s{i}" for i in range(data.n_samples))
    >>> write_hierarchy(folder / "tree.csv", data.hierarchy)
    >>> for write, values in ((write_scores, data.scores), (write_truth, data.truth)):
    ...     file = folder / f"{write.__name__[6:]}.csv"
    ...     write(file, Table(values.astype(float), data.hierarchy.labels, names))
    >>> done = fit_file(folder / "tree.csv", folder / "scores.csv", folder / "truth.csv",
    ...                 folder / "model.hlpr", goal={"fdr": 0.1})
    >>> done.n_fitted + done.n_calibration
    5000
    >>> ranked = rank_file(folder / "model.hlpr", folder / "scores.csv", folder / "calls.csv")
    >>> ranked.n_rows, ranked.n_samples
    (15000, 5000)
    """
    from hierlpr import scale

    loaded = _loaded(hierarchy)
    files = [os.fspath(path) for path in (scores, truth, *(calibration or ()))]
    names = ("the scores", "the truth", "the calibration scores", "the calibration truth")
    given = {"the hierarchy": _path_of(loaded), **dict(zip(names, files, strict=False))}
    refuse_overlap({"the output": out}, given, work)
    options: dict[str, Any] = {
        "goal": goal, "lpr": lpr, "joint": joint, "absent": absent, "close_truth": close_truth,
        "seed": seed, "lenient": lenient,
    }  # fmt: skip
    if _is_whole(files, work, resume, scheduler, partitions) and _holds_fit(files, memory):
        with claimed(out):
            return _fit_whole(loaded, files, out, on_progress or _quiet, **options)
    with _executor(scheduler) as executor:
        return scale.fit_file(
            loaded.hierarchy, scores, truth, out, calibration=calibration, aliases=loaded.aliases,
            memory=memory, partitions=partitions, work=work, resume=resume, executor=executor,
            on_progress=on_progress, **options,
        )  # fmt: skip


def _holds_fit(files: list[str], memory: str | int) -> bool:
    from hierlpr.scale import Budget, estimate_instances, parse_memory

    # Truth may be larger than the scores it belongs to, or the other way round.
    pairs = [files[i : i + 2] for i in range(0, len(files), 2)]
    n_instances = sum(max(map(estimate_instances, pair)) for pair in pairs)
    return Budget(parse_memory(memory)).holds_fit(n_instances)


def _fit_whole(
    loaded: HierarchyFile,
    files: list[str],
    out: AnyPath,
    say: OnProgress,
    *,
    goal: Mapping[str, Any] | None,
    lpr: Any,
    joint: Any,
    seed: int,
    **options: Any,
) -> FitOutcome:
    """Fit with everything in memory."""
    import numpy as np

    from hierlpr.data.tables import draw_samples, sample_limit, split_samples
    from hierlpr.scale import FitOutcome

    def limit(pair: Pair) -> int:
        return sample_limit(pair.scores.n_samples, loaded.hierarchy, pair.scores.n_stored)

    say("reading scores and truth", 0, 1)
    pair, reports = _read_pair(files[0], files[1], loaded, **options)
    notes, held_out, n_given = list(pair.notes), None, 0
    if len(files) > 2:
        other, more = _read_pair(files[2], files[3], loaded, **options)
        reports, notes, n_given = reports + more, notes + list(other.notes), other.scores.n_samples
        held_out = other.rows(draw_samples(n_given, limit(other), seed))
    elif goal is not None:
        n_given = pair.scores.n_samples
        fitted, kept = split_samples(n_given, limit(pair), seed, name=files[0])
        pair, held_out = pair.rows(fitted), pair.rows(kept)
    say("fitting labels", 0, 1)
    model = _fitted(pair, held_out, loaded.hierarchy, goal, lpr=lpr, joint=joint)
    model.save(out)
    return FitOutcome(
        model, pair.scores.n_samples, held_out.scores.n_samples if held_out is not None else 0,
        reports, tuple(notes), np.zeros(loaded.hierarchy.n_labels), n_given,
    )  # fmt: skip


def _fitted(
    pair: Pair,
    held_out: Pair | None,
    hierarchy: Hierarchy,
    goal: Mapping[str, Any] | None,
    *,
    lpr: Any,
    joint: Any,
) -> ScoreModel:
    import warnings

    from hierlpr.exceptions import UnreachableWarning
    from hierlpr.model import ScoreModel

    model = ScoreModel(hierarchy=hierarchy, lpr=lpr, joint=joint)
    model.fit(pair.scores, pair.truth)
    if goal is not None and held_out is not None:
        with warnings.catch_warnings():
            # The cutoff says in its own words what could not be reached.
            warnings.simplefilter("ignore", UnreachableWarning)
            model.calibrate(held_out.scores, held_out.truth, **goal)
    return model


# -- rank -------------------------------------------------------------------------------------


def rank_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    top: int | None = None,
    calls_only: bool = False,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    memory: str | int = DEFAULT_MEMORY,
    partitions: int | None = None,
    work: AnyPath | None = None,
    resume: bool = False,
    scheduler: str | None = None,
    on_progress: OnProgress | None = None,
) -> Outcome:
    """Rank the samples of a file by a model, and write the ranking.

    Parameters
    ----------
    model : path
        A model file.
    scores : path
        A table in any layout that `hierlpr.io` reads; also a folder of Parquet files, or an
        address such as ``s3://bucket/scores.parquet``.
    out : path
        ``.parquet``, ``.csv`` or ``.tsv``; without an ending, or on a cluster, a folder of Parquet
        files. It appears whole at the end, or stays as it was.
    top : int, optional
        List only the first instances.
    calls_only : bool
        List only what is called.
    aliases : mapping, optional
        Other names of labels, as `hierlpr.io.load_hierarchy` gives them.
    lenient : bool
        Pass over rows with problems and count them.
    memory, partitions, work, resume, scheduler, on_progress
        As in `fit_file`.

    Returns
    -------
    Outcome
    """
    from hierlpr import scale

    path, target = os.fspath(scores), os.fspath(out)
    inputs = {"the model": model, "the scores": path}
    refuse_overlap({"the output": out}, inputs, work)
    options: dict[str, Any] = {
        "top": top, "calls_only": calls_only, "aliases": aliases, "lenient": lenient,
    }  # fmt: skip
    budget = scale.Budget(scale.parse_memory(memory))
    if (
        _is_whole([path, target], work, resume, scheduler, partitions)
        and Path(target).suffix
        and budget.holds(scale.estimate_instances(path))
    ):
        with claimed(out):
            return _rank_whole(model, path, target, on_progress or _quiet, **options)
    with _executor(scheduler) as executor:
        return scale.rank_file(
            model, scores, out, memory=memory, partitions=partitions, work=work, resume=resume,
            executor=executor, on_progress=on_progress, **options,
        )  # fmt: skip


def _rank_whole(
    model: AnyPath,
    scores: str,
    out: str,
    say: OnProgress,
    *,
    top: int | None,
    calls_only: bool,
    aliases: Mapping[str, str] | None,
    lenient: bool,
) -> Outcome:
    from hierlpr.io import read_scores, write_ranking
    from hierlpr.model import load_score_model
    from hierlpr.scale import Outcome, calls_along

    fitted = load_score_model(model)
    say("reading scores", 0, 1)
    read = read_scores(scores, fitted.hierarchy_, aliases=aliases, lenient=lenient)
    say("ranking", 0, 1)
    order = fitted.rank(read.table, top=top)
    call = calls_along(order, fitted, read.table)
    n_rows = write_ranking(out, order, call=call, keep=call if calls_only else None)
    return Outcome(
        n_rows, int(call.sum()), read.table.n_samples, order.n_instances, read.report,
        fitted.cutoff_,
    )  # fmt: skip


# -- evaluate ---------------------------------------------------------------------------------


def evaluate_file(
    ranking: AnyPath,
    truth: AnyPath,
    hierarchy: Any,
    *,
    absent: Absent | None = None,
    close_truth: bool = False,
    lenient: bool = False,
    memory: str | int = DEFAULT_MEMORY,
    partitions: int | None = None,
    work: AnyPath | None = None,
    resume: bool = False,
    scheduler: str | None = None,
    on_progress: OnProgress | None = None,
) -> Evaluated:
    """Measure a ranking against the truth.

    Parameters
    ----------
    ranking : path
        What `rank_file` wrote, or CAFA predictions.
    truth : path
        A table in any layout that `hierlpr.io` reads.
    hierarchy : path, HierarchyFile or Hierarchy
    absent : {"negative", "skip"}, optional
        Ranked samples that the truth lacks.
    close_truth, lenient, memory, partitions, work, resume, scheduler, on_progress
        As in `fit_file`.

    Returns
    -------
    Evaluated
    """
    from hierlpr import scale

    loaded = _loaded(hierarchy)
    files = [os.fspath(ranking), os.fspath(truth)]
    given = {"the ranking": files[0], "the truth": files[1], "the hierarchy": _path_of(loaded)}
    refuse_overlap({}, given, work)
    options: dict[str, Any] = {"absent": absent, "close": close_truth, "lenient": lenient}
    budget = scale.Budget(scale.parse_memory(memory))
    if _is_whole(files, work, resume, scheduler, partitions) and budget.holds_evaluation(
        scale.estimate_rows(files[0]), scale.estimate_instances(files[1])
    ):
        return _evaluate_whole(files[0], files[1], loaded, on_progress or _quiet, **options)
    with _executor(scheduler) as executor:
        return scale.evaluate_file(
            ranking, truth, loaded.hierarchy, aliases=loaded.aliases, memory=memory, work=work,
            partitions=partitions, resume=resume, executor=executor, on_progress=on_progress,
            **options,
        )  # fmt: skip


def _evaluate_whole(
    ranking: str,
    truth: str,
    loaded: HierarchyFile,
    say: OnProgress,
    *,
    absent: Any,
    close: bool,
    lenient: bool,
) -> Evaluated:
    from hierlpr.io import read_ranking, read_truth_sets
    from hierlpr.metrics.evaluation import evaluate_ranking
    from hierlpr.scale import Evaluated

    h, aliases = loaded.hierarchy, loaded.aliases
    say("reading", 0, 1)
    ranked = read_ranking(ranking, h, aliases=aliases, lenient=lenient)
    known = read_truth_sets(truth, h, aliases=aliases, close=close, lenient=lenient)
    keep, sample, sets, notes = _match(ranked, known, absent)
    say("measuring", 0, len(ranked))
    found = evaluate_ranking(
        sample, ranked.label[keep], ranked.score[keep], sets, h,
        ordered=ranked.lpr is not None,
        call=None if ranked.call is None else ranked.call[keep],
    )  # fmt: skip
    return Evaluated(found, ranked.report, known.report, tuple(notes))


def _match(
    ranked: RankingFile, known: TruthSets, absent: Any
) -> tuple[NDArray[np.bool_], NDArray[np.int64], LabelSets, list[str]]:
    """Rows of the ranking to keep, their rows in the truth, the truth, and what to say."""
    import numpy as np

    from hierlpr.io.pairing import match_samples, unlisted_note

    found = match_samples(
        ranked.samples, known, absent=absent, source=ranked.report.path, word="ranked"
    )
    notes, at, sets, names = list(found.notes), found.at.copy(), known.sets, known.samples
    n_lost = int((at < 0).sum())
    if n_lost and found.negative:
        at[at < 0] = len(names) + np.arange(n_lost)
        sets = sets.with_empty(n_lost)
    unlisted = len(set(names) - set(ranked.samples))
    if unlisted:
        notes.append(unlisted_note(unlisted))
    row = at[ranked.sample]
    keep = row >= 0
    return keep, row[keep], sets, notes


# -- report -----------------------------------------------------------------------------------


class Reported(NamedTuple):
    """A report, and what was seen on the way."""

    report: Report
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]


def report_file(
    model: AnyPath,
    scores: AnyPath,
    truth: AnyPath,
    out: AnyPath,
    *,
    title: str | None = None,
    max_samples: int = 200,
    absent: Absent | None = None,
    close_truth: bool = False,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    memory: str | int = DEFAULT_MEMORY,
    work: AnyPath | None = None,
    on_progress: OnProgress | None = None,
) -> Reported:
    """Write one self-contained HTML page about a model on samples with truth.

    Parameters
    ----------
    model, scores, truth : path
    out : path
        The page. It appears whole at the end, or stays as it was.
    title, max_samples
        See :func:`hierlpr.report.write_report`.
    aliases : mapping, optional
        Other names of labels, as `hierlpr.io.load_hierarchy` gives them.
    absent, close_truth, lenient
        As in `fit_file`.
    memory : str or int
        Working memory. If the files need more, the page is about samples drawn from them, at most
        2**23 instances, and a note says so.
    work : path, optional
        Where a folder for work files is made, beside the page by default; asks for parts.
    on_progress : callable, optional
        Called with stage, done and total.

    Returns
    -------
    Reported
    """
    from hierlpr.io import HierarchyFile, ReadReport
    from hierlpr.model import load_score_model
    from hierlpr.report import write_report

    files = [os.fspath(scores), os.fspath(truth)]
    given = {"the model": model, "the scores": files[0], "the truth": files[1]}
    refuse_overlap({"the output": out}, given, work)
    say = on_progress or _quiet
    with claimed(out):
        fitted = load_score_model(model)
        options: dict[str, Any] = {"absent": absent, "close_truth": close_truth, "lenient": lenient}
        if _is_whole(files, work, False, None) and _holds_fit(files, memory):
            source = ReadReport(os.fspath(model), "model")
            loaded = HierarchyFile(fitted.hierarchy_, source, dict(aliases or {}), {})
            say("reading scores and truth", 0, 1)
            pair, reports = _read_pair(files[0], files[1], loaded, **options)
        else:
            from hierlpr.scale.paired_samples import drawn_pair

            pair, reports = drawn_pair(
                fitted.hierarchy_, files[0], files[1], memory=memory, aliases=aliases,
                work=work if work is not None else Path(os.path.realpath(out)).parent,
                on_progress=say, **options,
            )  # fmt: skip
        report = write_report(
            out, fitted, pair.scores, pair.truth, title=title, max_samples=max_samples,
            on_progress=lambda done, total: say("report", done, total),
        )  # fmt: skip
    return Reported(report, reports, pair.notes)


# -- shared -----------------------------------------------------------------------------------


def _quiet(stage: str, done: int, total: int) -> None:
    pass


def _loaded(hierarchy: Any) -> HierarchyFile:
    """Return a hierarchy with its other names, from whatever says which one."""
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.io import HierarchyFile, ReadReport, load_hierarchy

    if isinstance(hierarchy, HierarchyFile):
        return hierarchy
    if isinstance(hierarchy, Hierarchy):
        return HierarchyFile(hierarchy, ReadReport("", "hierarchy"), {}, {})
    return load_hierarchy(hierarchy)


def _path_of(loaded: HierarchyFile) -> str | None:
    return loaded.report.path or None


def _is_whole(
    files: list[str],
    work: AnyPath | None,
    resume: bool,
    scheduler: str | None,
    partitions: int | None = None,
) -> bool:
    """Whether nothing asks for parts."""
    asked = work is not None or resume or scheduler is not None or partitions is not None
    return not asked and not any("://" in file for file in files)


@contextmanager
def _executor(scheduler: str | None) -> Iterator[Executor | None]:
    """Give the workers of a scheduler, None if there is none."""
    with ExitStack() as stack:
        if scheduler is None:
            yield None
        else:
            from hierlpr.scale.cluster import cluster

            yield stack.enter_context(cluster(scheduler))


def _read_pair(
    scores: str, truth: str, loaded: HierarchyFile, *, absent: Any, close_truth: bool, lenient: bool
) -> tuple[Pair, tuple[ReadReport, ...]]:
    """Read scores and truth and bring them to the same samples; also what was seen."""
    from hierlpr.io import pair_samples, read_scores, read_truth

    h, aliases = loaded.hierarchy, loaded.aliases
    scored = read_scores(scores, h, aliases=aliases, lenient=lenient)
    known = read_truth(truth, h, aliases=aliases, close=close_truth, lenient=lenient)
    return pair_samples(scored, known, absent=absent), (scored.report, known.report)
