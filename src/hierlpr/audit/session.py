"""`Audit`: what to check, the answers so far, and the calls that they certify."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.archives import Arrays, checksum
from hierlpr._utils.checks import check_count, check_level, check_unit_interval, make_rng
from hierlpr._utils.display import html_card
from hierlpr.audit.answers import COLUMNS, complete, read_answers
from hierlpr.audit.bets import count_passed, expect_passed
from hierlpr.audit.plan import Bool, Index, Listed, Plan, Tests, list_by_unit, plan_audit
from hierlpr.audit.state import HEAD, HINT, Entry, read_state, write_state
from hierlpr.cutoff.decisions import Groups, group_parents, label_groups
from hierlpr.cutoff.description import percent
from hierlpr.cutoff.goal import Goal, Promise
from hierlpr.cutoff.instances import listed_entries
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.set_values import likely_paths
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import align
from hierlpr.exceptions import DataError, FileError, HierlprError
from hierlpr.hierarchy import Hierarchy

Backend = Literal["pandas", "polars", "pyarrow"] | None
NOT_CHECKED = -1
SHOWN = 8  # calls to check in a notebook
# Instances with a lower block score are never called.
LEAST_SCORE = 0.05


@dataclass(slots=True, eq=False)
class Audit:
    """Certify calls on a population without truth, by checking a few samples of it.

    :meth:`hierlpr.HierLPR.audit` starts an audit. The calls with the highest block scores are
    certified, down to a cutoff that depends on the answers: among all calls of *this* population at
    ``cutoff_``, at least the target share is correct, with the stated confidence. This holds
    whatever the model, whenever you look and stop. It needs answers that are right, on the samples
    that were drawn, in the order in which :meth:`to_check` lists them.
    """

    hierarchy: Hierarchy
    samples: Sequence[str | int]
    plan: Plan  # the draw and the tests, fixed before any answer
    groups: tuple[str, ...]  # of each label
    correct: NDArray[np.int8]  # 1 or 0 where an instance of `plan.listed` was checked, else -1
    log: list[Entry]  # numbers of checks planned, and answers, in the order in which they came

    # -- checking ------------------------------------------------------------------------------

    def to_check(self, n: int | None = None, *, backend: Backend = None) -> Any:
        """Return the labels to check next, of whole samples in the order to check them.

        Parameters
        ----------
        n : int, optional
            Samples (or clusters); by default those that are left of the plan. If there are more
            than these, the audit is extended: the promise stays, the bets then aim at the new end.

        Returns
        -------
        data frame
            Columns sample, label, chance (the block score). Parents come before their children.
        """
        first, end = self.n_checked, self.horizons[-1]
        if n is not None:
            end = min(first + check_count(n, name="n"), self.plan.time.size)
            if end > self.horizons[-1]:
                self.log.append({"checks": end})
        rows = np.arange(self._size(first), self._size(end))
        rows = rows[self.correct[rows] == NOT_CHECKED]
        return new_frame({**self._names(rows), "chance": self.plan.listed.score[rows]}, backend)

    def shown(self) -> dict[str, tuple[str, ...]]:
        """Return the labels of each sample that is to be checked or was, parents first."""
        labels = self._names(np.arange(self._size(self.horizons[-1])))["label"].tolist()
        return {name: tuple(labels[rows]) for name, rows in self._rows_by_name().items()}

    def record(self, answers: Any) -> Audit:
        """Add answers; return the audit.

        Parameters
        ----------
        answers : data frame or mapping
            Columns sample, label, correct (yes/no, 1/0, true/false, x, unsure, or empty where not
            checked yet), or a mapping from each checked sample to its labels that are wrong.

        Notes
        -----
        A true label makes its ancestors true, a false one its descendants false; "unsure" counts as
        wrong. A second answer is refused unless it equals the first. Answers count from the first
        sample drawn up to the first one without an answer: nobody can choose what to leave out.
        """
        shown, rows_of = self.shown(), self._rows_by_name()
        correct, entries = self.correct.copy(), []
        for name, answer in read_answers(answers, shown, self.hierarchy).items():
            truth = complete(name, answer, shown[name], self.hierarchy)
            values, rows = np.array(list(truth.values()), dtype=np.int8), rows_of[name]
            if correct[rows][0] == NOT_CHECKED:
                entries.append({"sample": name, "correct": truth})
            elif np.any(correct[rows] != values):
                raise DataError(
                    f"answers: sample {name!r} was answered before, and differently.\n"
                    "Hint: the certificate does not allow answers to be changed."
                )
            correct[rows] = values
        self.correct = correct
        self.log += entries
        return self

    @property
    def horizons(self) -> list[int]:
        """The number of checks planned, and those to which the audit was extended."""
        return [entry["checks"] for entry in self.log if "checks" in entry]

    @property
    def n_checked(self) -> int:
        """Samples (or clusters) checked, up to the first one in the order that is not."""
        waiting = np.flatnonzero(self.correct == NOT_CHECKED)
        end = self.plan.listed.unit[waiting[0]] if waiting.size else self.plan.time.size
        return min(int(end), self.horizons[-1])

    @property
    def n_waiting(self) -> int:
        """Checked samples that do not count yet, because one before them in the order has none."""
        later = slice(self._size(self.n_checked), None)
        is_checked = self.correct[later] != NOT_CHECKED
        return int(np.unique(self.plan.listed.sample[later][is_checked]).size)

    def checked(self, *, backend: Backend = None) -> Any:
        """Return the answers that count, with weights: sample, label, correct, weight.

        The weight is one over the chance that the sample is among those checked; so weighted sums
        over the checked samples are those of the population on average.
        """
        n, plan = self.n_checked, self.plan
        rows, chance = np.arange(self._size(n)), np.ones(plan.time.size)
        if n < plan.time.size:  # given the time of the next draw, earlier ones are independent
            chance = -np.expm1(-plan.probability * plan.time[n])
        columns = {
            "correct": self.correct[rows] == 1,
            "weight": 1.0 / chance[plan.listed.unit[rows]],
        }
        return new_frame(self._names(rows) | columns, backend)

    # -- results -------------------------------------------------------------------------------

    @property
    def cutoff_(self) -> Cutoff:
        """The cutoff that is certified so far; it calls nothing if there is none yet.

        For names, it is the block score down to which a name goes; see the text of the audit.
        """
        (alpha, delta), listed = self.plan.promise, self.plan.listed
        goal = Goal("precision", 1.0 - alpha, confidence=1.0 - delta)
        goal = goal if listed.allowed is None else Goal("by hand")
        reason = f"After {self.n_checked:,} checks nothing is certified yet."
        none, most = Cutoff(math.inf, goal, reachable=False, reason=reason), listed.needed.max()
        named = {
            name: Cutoff(level, goal, max_calls=limit if limit < most else None) if limit else none
            for name, (level, limit) in zip(
                dict.fromkeys(self.groups), self._pairs(self._passed()), strict=True
            )
        }
        first, *others = named.values()
        if not others:
            return first
        whole = none if all(x is none for x in named.values()) else Cutoff(math.inf, goal)
        return replace(whole, groups=named, label_groups=self.groups)

    @property
    def n_calls(self) -> int:
        """Number of certified calls; of names, with those above them."""
        return int(np.count_nonzero(self._called(self._passed())))

    def calls(self, *, backend: Backend = None) -> Any:
        """Return the certified calls, best first; of names, the deepest label of each sample.

        Columns: sample, label, score (the block score), checked ("right", "wrong" or empty).
        Checked calls that are wrong are listed too; without them the precision is only higher.
        """
        listed, rows = self.plan.listed, np.flatnonzero(self._called(self._passed()))
        if listed.allowed is not None:  # the deepest of each sample comes last
            rows = rows[np.append(np.diff(listed.sample[rows]) != 0, True)[: rows.size]]
        score = listed.score
        rows = rows[np.lexsort((listed.label[rows], listed.sample[rows], -score[rows]))]
        checked = np.array(["wrong", "right", ""], dtype=object)[self.correct[rows]]
        return new_frame({**self._names(rows), "score": score[rows], "checked": checked}, backend)

    def expected(self, n: int) -> int:
        """Return how many calls would be certified after `n` more checks, on average.

        Answers are simulated from the chances, corrected by what the answers so far show.
        """
        end = min(self.n_checked + check_count(n, name="n"), self.plan.time.size)
        horizons = [*(x for x in self.horizons if x < end), end]
        correct, rng = self.correct[: self._size(end)], np.random.default_rng(0)
        passed = expect_passed(self.plan, correct == 1, correct != NOT_CHECKED, horizons, rng)
        return round(float(np.mean([np.count_nonzero(self._called(x)) for x in passed])))

    def history(self, most: int = 40) -> list[tuple[int, int]]:
        """Return how many calls were certified after some of the numbers of checks so far."""
        n = self.n_checked
        looks = np.unique(np.linspace(0, n, min(n, most) + 1).astype(int)).tolist()
        return [(k, int(np.count_nonzero(self._called(self._passed(k))))) for k in looks]

    def __str__(self) -> str:
        (alpha, delta), listed = self.plan.promise, self.plan.listed
        target, sure = percent(1.0 - alpha), f"{percent(1.0 - delta)} confidence"
        what = "cluster" if listed.n_units < len(self.samples) else "sample"
        what += "s" if self.n_checked != 1 else ""
        done, called = f"After {self.n_checked:,} checked {what}", self._called(self._passed())
        n_calls, names = np.count_nonzero(called), list(dict.fromkeys(self.groups))
        if not n_calls:
            kind = "calls" if listed.allowed is None else "names"
            return f"{done} no {kind} are certified yet ({target} correct, {sure})."
        if listed.allowed is not None:
            named = np.unique(listed.unit[called]).size
            return (
                f"{done}: at most {percent(alpha)} of {len(self.samples):,} samples have a wrong "
                f"name ({sure}); {named:,} have a name, of {n_calls / named:.1f} ranks on average."
            )
        if len(names) == 1:
            calls = f"{n_calls:,} call{'' if n_calls == 1 else 's'}"
            return f"{done}: at least {target} of {calls} are correct ({sure})."
        counts = np.bincount(listed.group[called], minlength=len(names)).tolist()
        parts = ", ".join(f"{name} ({n:,})" for name, n in zip(names, counts, strict=True))
        text = f"{done}: at least {target} of the calls of each group are correct ({sure} for all "
        return f"{text}groups together): {parts}."

    def __repr__(self) -> str:
        return f"<Audit: {self}>"

    def _repr_html_(self) -> str:
        rows = self.to_check(backend="pyarrow").slice(0, SHOWN).to_pylist()
        text = f"{self}\nTo check next:" if rows else str(self)
        return html_card("Audit", text, tuple(*rows[:1]), (list(row.values()) for row in rows))

    # -- storage -------------------------------------------------------------------------------

    def save(self, path: AnyPath) -> None:
        """Write the audit to a folder, which :func:`hierlpr.load_audit` reads.

        The plan is written once; answers are appended.
        """
        write_state(path, *self._state(), self.log)

    @property
    def fingerprint(self) -> str:
        """A hash of the plan."""
        return checksum(*self._state())

    def _state(self) -> tuple[Arrays, dict[str, Any]]:
        h, plan = self.hierarchy, self.plan
        parts = plan._asdict() | plan.listed._asdict()
        parts |= {f"test_{name}": x for name, x in plan.tests._asdict().items()}
        meta = {
            **HEAD, "promise": list(plan.promise), "samples": list(self.samples),
            "groups": list(self.groups), "labels": list(h.labels), "names": dict(h.names),
            "edges": [list(edge) for edge in h.edges],
        }  # fmt: skip
        meta |= {name: parts[name] for name in ("rho", "n_units", "allowed")}
        return {name: x for name, x in parts.items() if isinstance(x, np.ndarray)}, meta

    # -- parts of the results ------------------------------------------------------------------

    def _passed(self, n: int | None = None) -> Index:
        n = self.n_checked if n is None else n
        return count_passed(self.plan, self.correct[: self._size(n)] == 1, n, self.horizons)

    def _pairs(self, passed: Index) -> list[tuple[float, int]]:
        """Return the certified level and limit of each group; of none, infinity.

        All tests of a group that passed are certified together. As in
        :func:`~hierlpr.cutoff.choose.cutoff_by_group`, levels never fall along an edge.
        """
        tests, chosen = self.plan.tests, dict[int, tuple[float, int]]()
        for g, above in group_parents(self.hierarchy, _group_numbers(self.groups)).items():
            at = np.flatnonzero(tests.group == g)[: passed[g] if g < passed.size else 0]
            at = at[tests.level[at] >= max((chosen[p][0] for p in above), default=0.0)]
            # The last one has the most calls.
            chosen[g] = math.inf, 0
            if at.size:
                chosen[g] = float(tests.level[at[-1]]), int(tests.limit[at[-1]])
        return [chosen[g] for g in range(len(chosen))]

    def _called(self, passed: Index) -> Bool:
        """Mark the certified calls."""
        listed, called = self.plan.listed, np.zeros(self.correct.size, dtype=bool)
        for group, pair in enumerate(self._pairs(passed)):
            called |= listed.called(*pair, group)
        return called

    def _size(self, n_units: int) -> int:
        """Return the number of instances of the first units."""
        return int(np.searchsorted(self.plan.listed.unit, n_units))

    def _names(self, rows: Index) -> dict[str, NDArray[Any]]:
        listed, h = self.plan.listed, self.hierarchy
        names = np.array([self.samples[i] for i in listed.sample[rows].tolist()], dtype=object)
        labels = np.array(h.labels, dtype=object)[h.order[listed.label[rows]]]
        return {"sample": names, "label": labels}

    def _rows_by_name(self) -> dict[str, slice]:
        """Return the instances of each drawn sample."""
        sample = self.plan.listed.sample[: self._size(self.horizons[-1])]
        starts = np.flatnonzero(np.diff(sample, prepend=-1)).tolist()
        parts = map(slice, starts, [*starts[1:], sample.size])
        return {str(self.samples[sample[rows.start]]): rows for rows in parts}


def start_audit(
    score: Any,
    hierarchy: Hierarchy,
    *,
    samples: Sequence[str] | None = None,
    precision: float | None = None,
    error: float | None = None,
    confidence: float = 0.9,
    checks: int = 100,
    groups: Groups | None = None,
    clusters: Index | None = None,
    random_state: Any = 0,
) -> Audit:
    """Plan an audit of block scores (samples x labels), as a matrix or data frame.

    The scores, from 0 to 1, should respect the hierarchy, as :func:`hierlpr.consistent_scores` do;
    no model is needed then. `clusters` is the number of the cluster of each sample, which are then
    drawn and checked as a whole. Other parameters as in :meth:`hierlpr.HierLPR.audit`.
    """
    if error is not None and any(x is not None for x in (precision, groups, clusters)):
        text = "error= is about one name per sample; leave out precision=, groups= and clusters=."
        raise DataError(text, options=("precision", "groups", "clusters"))
    table = align(score, hierarchy, name="score")
    check_unit_interval(table.values, hierarchy.labels, name="score")
    score, n_samples, allowed = table.values, table.n_samples, None
    names = table.samples or range(n_samples) if samples is None else samples
    n_names = len({*map(str, names)})
    if n_names < len(names) or len(names) != n_samples:
        text = f"samples: {n_names:,} different names for {n_samples:,} samples."
        raise DataError(f"{text}\nHint: answers are matched by the names; number the samples.")
    if clusters is not None and len(clusters) != n_samples:
        raise DataError(f"clusters has {len(clusters):,} ids for {n_samples:,} samples.")
    if error is None:
        alpha = 1.0 - check_level(0.9 if precision is None else precision, name="precision")
        sample, label, value = listed_entries(score)
    else:
        alpha = check_level(error, name="error")
        allowed, (sample, label, value) = alpha * n_samples, likely_paths(score, hierarchy)
    promise = Promise(alpha, 1.0 - check_level(confidence, name="confidence"))
    checks, rng = check_count(checks, name="checks"), make_rng(random_state)
    is_listed = value >= LEAST_SCORE
    sample, label, value = sample[is_listed], label[is_listed], value[is_listed]
    if not value.size:
        raise DataError(f"There is nothing to audit: no block score is {LEAST_SCORE} or more.")
    named = ("all",) * hierarchy.n_labels if groups is None else label_groups(hierarchy, groups)
    number = _group_numbers(named)
    group_parents(hierarchy, number)  # refuses cycles
    instances = sample, hierarchy.position[label], value
    listed = [list_by_unit(*instances, n_samples, clusters, number[label], allowed)]
    del sample, label, value, is_listed, instances  # of 10^7 instances, each has 80 MB
    plan = plan_audit(listed.pop(), promise, checks, rng)
    unchecked = np.full(plan.listed.score.size, NOT_CHECKED, dtype=np.int8)
    log: list[Entry] = [{"checks": min(checks, plan.time.size)}]
    return Audit(hierarchy, names, plan, named, unchecked, log)


def _group_numbers(groups: tuple[str, ...]) -> Index:
    """Return the number of the group of each label."""
    number = {name: g for g, name in enumerate(dict.fromkeys(groups))}
    return np.array([number[name] for name in groups], dtype=np.intp)


def load_audit(path: AnyPath) -> Audit:
    """Read an audit that :meth:`Audit.save` or ``hierlpr audit`` wrote, with its answers."""
    parts, log = read_state(path)
    try:
        edges = [(a, b) for a, b in parts["edges"]]
        hierarchy = Hierarchy(edges, labels=parts["labels"], names=parts["names"])
        parts["promise"] = Promise(*parts["promise"])
        parts["tests"] = Tests(*(parts[f"test_{name}"] for name in Tests._fields))
        parts["listed"] = Listed(*(parts[name] for name in Listed._fields))
        plan = Plan(*(parts[name] for name in Plan._fields))
        correct = np.full(plan.listed.unit.size, NOT_CHECKED, dtype=np.int8)
        sizes = {x.size for x in plan.listed if isinstance(x, np.ndarray)}
        if len(sizes) > 1 or len(parts["groups"]) != hierarchy.n_labels:
            raise ValueError("parts of the plan differ in length")
        audit = Audit(hierarchy, parts["samples"], plan, tuple(parts["groups"]), correct, [])
        audit.log = [{"checks": int(x["checks"])} for x in log if "checks" in x]
        answers = [
            (x["sample"], *pair) for x in log if "sample" in x for pair in x["correct"].items()
        ]
        columns = map(list, zip(*answers, strict=True)) if answers else ([], [], [])
        audit.record(dict(zip(COLUMNS, columns, strict=True)))
    except HierlprError:
        raise
    except Exception as error:  # forged content can raise anything
        text = f"{path}: this is not the folder of an audit ({type(error).__name__}: {error})."
        raise FileError(f"{text}\n{HINT}") from None
    audit.log = log
    return audit
