"""`Audit`: what to check, the answers so far, and the calls that they certify."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_count, check_level, is_sparse, quote_names
from hierlpr._utils.display import html_table
from hierlpr.audit.answers import complete, read_answers
from hierlpr.audit.bets import count_passed, expect_passed
from hierlpr.audit.plan import Listed, Plan, Tests, list_by_unit, plan_audit
from hierlpr.audit.state import append_to_log, read_log, read_plan, write_plan
from hierlpr.cutoff.description import percent
from hierlpr.cutoff.goal import Goal, Promise
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.data.frames import new_frame
from hierlpr.exceptions import DataError, FileError
from hierlpr.hierarchy import Hierarchy

Backend = Literal["pandas", "polars", "pyarrow"] | None
NOT_CHECKED = -1
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

    Attributes
    ----------
    plan : Plan
        The draw and the tests, fixed before any answer.
    horizons : list of int
        The number of checks planned, and more as the audit was extended.
    listed : Listed
        The instances that a test may call, by sample (or cluster) and decreasing block score.
    sample, label : ndarray of int
        Row and label of each of them.
    correct : ndarray of int8
        1 or 0 where checked, else -1.
    """

    hierarchy: Hierarchy
    samples: Sequence[str] | None
    plan: Plan
    horizons: list[int]
    listed: Listed
    sample: NDArray[np.intp]
    label: NDArray[np.intp]
    correct: NDArray[np.int8]

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
        n_checked = self.n_checked
        if n is not None:
            end = min(n_checked + check_count(n, name="n"), self.plan.order.size)
            if end > self.horizons[-1]:
                self.horizons.append(end)
        else:
            end = self.horizons[-1]
        rows = self._rows_of_units(self.plan.order[n_checked:end])
        rows = rows[self.correct[rows] == NOT_CHECKED]
        columns = {
            "sample": self._names(self.sample[rows]),
            "label": np.array(self.hierarchy.labels, dtype=object)[self.label[rows]],
            "chance": self.listed.score[rows],
        }
        return new_frame(columns, backend)

    def samples_to_check(self) -> Iterator[tuple[str, tuple[str, ...], NDArray[np.float64]]]:
        """Yield each sample of the plan not checked yet, its labels and their chances."""
        for name, rows in self._rows_by_name().items():
            if self.correct[rows[0]] == NOT_CHECKED:
                labels = tuple(self.hierarchy.labels[j] for j in self.label[rows])
                yield name, labels, self.listed.score[rows]

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
        rows_of = self._rows_by_name()

        def shown(name: str) -> tuple[str, ...]:
            if name not in rows_of:
                drawn = self._names(self.sample[self._rows_of_units(self.plan.order[:3])])
                raise DataError(
                    f"answers: sample {name!r} is not among those to check; the first of these "
                    f"are {quote_names(list(dict.fromkeys(drawn)))}.\nHint: answers belong to the "
                    "audit whose to_check() listed the samples."
                )
            return tuple(self.hierarchy.labels[j] for j in self.label[rows_of[name]])

        correct = self.correct.copy()
        for name, answer in read_answers(answers, shown, self.hierarchy).items():
            labels, rows = shown(name), rows_of[name]
            truth = complete(name, answer, labels, self.hierarchy)
            values = np.array([truth[label] for label in labels], dtype=np.int8)
            if np.any((correct[rows] != NOT_CHECKED) & (correct[rows] != values)):
                raise DataError(
                    f"answers: sample {name!r} was answered before, and differently.\n"
                    "Hint: the certificate does not allow answers to be changed."
                )
            correct[rows] = values
        self.correct = correct
        return self

    @property
    def n_checked(self) -> int:
        """Samples (or clusters) checked, up to the first one in the order that is not."""
        order = self.plan.order[: self.horizons[-1]]
        open_units = np.unique(self.listed.unit[self.correct == NOT_CHECKED])
        waiting = np.flatnonzero(np.isin(order, open_units))
        return int(waiting[0]) if waiting.size else order.size

    # -- results -------------------------------------------------------------------------------

    @property
    def cutoff_(self) -> Cutoff:
        """The cutoff that is certified so far; it calls nothing if there is none yet."""
        tests, (alpha, delta), passed = self.plan.tests, self.plan.promise, self._passed()
        goal = Goal("precision", 1.0 - alpha, confidence=1.0 - delta)
        if not passed:
            reason = f"After {self.n_checked:,} checks nothing is certified yet."
            return Cutoff(math.inf, goal, reachable=False, reason=reason)
        limit, level = int(tests.limit[passed - 1]), float(tests.level[passed - 1])
        is_limited = limit < int(self.listed.needed.max())
        return Cutoff(level, goal, max_calls=limit if is_limited else None)

    @property
    def n_calls(self) -> int:
        """Number of certified calls."""
        return int(np.count_nonzero(self._called(self._passed())))

    def calls(self, *, backend: Backend = None) -> Any:
        """Return the certified calls, best first.

        Columns: sample, label, score (the block score), checked ("right", "wrong" or empty).
        Checked calls that are wrong are listed too; without them the precision is only higher.
        """
        rows = np.flatnonzero(self._called(self._passed()))
        position = self.hierarchy.position[self.label[rows]]
        rows = rows[np.lexsort((position, self.sample[rows], -self.listed.score[rows]))]
        columns = {
            "sample": self._names(self.sample[rows]),
            "label": np.array(self.hierarchy.labels, dtype=object)[self.label[rows]],
            "score": self.listed.score[rows],
            "checked": np.array(["wrong", "right", ""], dtype=object)[self.correct[rows]],
        }
        return new_frame(columns, backend)

    def expected(self, n: int) -> int:
        """Return how many calls would be certified after `n` more checks, on average.

        Answers are simulated from the chances, corrected by what the answers so far show.
        """
        n_checked = self.n_checked
        end = min(n_checked + check_count(n, name="n"), self.plan.order.size)
        horizons = [*(x for x in self.horizons if x < end), end]
        rows = self._rows_of_units(self.plan.order[:end])
        correct = self.correct[rows] == 1
        answered = self.correct[rows] != NOT_CHECKED
        rng = np.random.default_rng(0)
        passed = expect_passed(self.plan, self.listed.take(rows), correct, answered, horizons, rng)
        calls = [np.count_nonzero(self._called(k)) for k in range(passed.max(initial=0) + 1)]
        return round(float(np.mean(np.array(calls)[passed])))

    def __str__(self) -> str:
        target, sure = (percent(1.0 - x) for x in self.plan.promise)
        what = "clusters" if self.has_clusters else "samples"
        n_calls, done = self.n_calls, f"After {self.n_checked:,} checked {what}"
        if not n_calls:
            return f"{done} no calls are certified yet ({target} correct, {sure} confidence)."
        calls = f"{n_calls:,} call{'' if n_calls == 1 else 's'}"
        return f"{done}: at least {target} of {calls} are correct ({sure} confidence)."

    def __repr__(self) -> str:
        return f"<Audit: {self}>"

    def _repr_html_(self) -> str:
        tests, right = self.plan.tests, np.count_nonzero(self.correct == 1)
        checked = np.count_nonzero(self.correct != NOT_CHECKED)
        rows = [
            ("checked", f"{self.n_checked:,} of {self.horizons[-1]:,} samples planned"),
            ("labels checked", f"{checked:,}, {right:,} of them right"),
            ("certified", f"{self.n_calls:,} of at most {self.listed.unit.size:,} calls"),
            ("cutoff", f"{self.cutoff_.level:.4g}; lowest tested {tests.level.min():.4g}"),
        ]
        return html_table(("audit", str(self)), rows)

    def save(self, path: AnyPath) -> None:
        """Write the audit to a folder, which :func:`hierlpr.load_audit` reads.

        The plan is written once; answers are appended.
        """
        tests = {f"test_{name}": x for name, x in self.plan.tests._asdict().items()}
        names = json.dumps(None if self.samples is None else list(self.samples)).encode()
        arrays = {
            "probability": self.plan.probability,
            "order": self.plan.order,
            "sample": self.sample,
            "label": self.label,
            "samples": np.frombuffer(names, dtype=np.uint8),
            **{name: getattr(self.listed, name) for name in ("unit", "score", "needed")},
        }
        meta = {
            "fingerprint": self.fingerprint,
            "promise": list(self.plan.promise),
            "rho": self.plan.rho,
            "units": self.listed.n_units,
            "labels": list(self.hierarchy.labels),
            "edges": [list(edge) for edge in self.hierarchy.edges],
        }
        write_plan(path, meta, arrays | tests)
        entries = self._entries()
        if any(entry not in entries for entry in read_log(path)):
            raise FileError(
                f"{path}: this folder has answers that are not in this audit.\n"
                "Hint: read it with load_audit, and record there."
            )
        append_to_log(path, entries)

    def _entries(self) -> list[dict[str, Any]]:
        """Return the log: numbers of checks, and the answers on each sample."""
        entries: list[dict[str, Any]] = [{"checks": n} for n in self.horizons]
        for name, rows in self._rows_by_name().items():
            if self.correct[rows[0]] != NOT_CHECKED:
                labels = [self.hierarchy.labels[j] for j in self.label[rows]]
                answer = dict(zip(labels, self.correct[rows].tolist(), strict=True))
                entries.append({"sample": name, "correct": answer})
        return entries

    @property
    def has_clusters(self) -> bool:
        """Whether whole clusters are drawn."""
        return not np.array_equal(self.listed.unit, self.sample)

    @property
    def fingerprint(self) -> str:
        """A hash of the scores, labels and samples that can be called, the target and the draw."""
        digest = hashlib.blake2b(repr(self.plan.promise).encode(), digest_size=16)
        digest.update("\n".join(self.hierarchy.labels).encode())
        names = self._names(np.unique(self.sample))
        digest.update("\n".join(map(str, names.tolist())).encode())
        for array in (self.sample, self.label, self.listed.score, self.plan.order):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _called(self, passed: int) -> NDArray[np.bool_]:
        if not passed:
            return np.zeros(self.sample.size, dtype=bool)
        tests = self.plan.tests
        return self.listed.called(float(tests.level[passed - 1]), int(tests.limit[passed - 1]))

    def _passed(self) -> int:
        n = self.n_checked
        rows = self._rows_of_units(self.plan.order[:n])
        listed, correct = self.listed.take(rows), self.correct[rows] == 1
        return count_passed(self.plan, listed, correct, n, self.horizons)

    def _rows_of_units(self, units: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the instances of some units, unit by unit, parents before children."""
        place = np.full(self.listed.n_units, -1)
        place[units] = np.arange(units.size)
        rows = np.flatnonzero(place[self.listed.unit] >= 0)
        keys = self.hierarchy.position[self.label[rows]], -self.listed.score[rows]
        order = np.lexsort((*keys, self.sample[rows], place[self.listed.unit[rows]]))
        return np.asarray(rows[order])

    def _rows_by_name(self) -> dict[str, NDArray[np.intp]]:
        """Return the instances of each drawn sample."""
        rows = self._rows_of_units(self.plan.order[: self.horizons[-1]])
        starts = np.flatnonzero(np.diff(self.sample[rows], prepend=-1))
        names = self._names(self.sample[rows[starts]])
        return dict(zip(map(str, names), np.split(rows, starts[1:]), strict=True))

    def _names(self, sample: NDArray[np.intp]) -> NDArray[Any]:
        if self.samples is None:
            return sample
        used, inverse = np.unique(sample, return_inverse=True)
        return np.array([self.samples[i] for i in used.tolist()], dtype=object)[inverse]


def start_audit(
    score: Any,
    hierarchy: Hierarchy,
    *,
    samples: Sequence[str] | None = None,
    precision: float = 0.9,
    confidence: float = 0.9,
    checks: int = 100,
    clusters: NDArray[np.intp] | None = None,
    random_state: Any = 0,
) -> Audit:
    """Plan an audit of block scores (samples x labels), dense or CSR.

    The scores must respect the hierarchy, as :func:`hierlpr.consistent_scores` do. `clusters` is
    the number of the cluster of each sample, which are then drawn and checked as a whole.
    """
    alpha = 1.0 - check_level(precision, name="precision")
    promise = Promise(alpha, 1.0 - check_level(confidence, name="confidence"))
    checks, rng = check_count(checks, name="checks"), np.random.default_rng(random_state)
    if is_sparse(score):
        entries = sparse.coo_array(score)
        is_listed = entries.data >= LEAST_SCORE
        sample, label, value = (x[is_listed] for x in (*entries.coords, entries.data))
        sample, label = sample.astype(np.intp), label.astype(np.intp)
    else:
        values = np.asarray(score)
        sample, label = np.nonzero(values >= LEAST_SCORE)
        value = values[sample, label]
    if not value.size:
        raise DataError(f"There is nothing to audit: no block score is {LEAST_SCORE} or more.")
    order, listed = list_by_unit(value, sample, int(score.shape[0]), clusters)
    plan = plan_audit(listed, promise, checks, rng)
    rows = listed.called(float(plan.tests.level.min()), int(plan.tests.limit.max()))
    order, listed = order[rows], listed.take(rows)
    return Audit(
        hierarchy, samples, plan, [min(checks, plan.order.size)], listed, sample[order],
        label[order], np.full(order.size, NOT_CHECKED, dtype=np.int8),
    )  # fmt: skip


def load_audit(path: AnyPath) -> Audit:
    """Read an audit that :meth:`Audit.save` or ``hierlpr audit`` wrote, with its answers."""
    meta, arrays = read_plan(path)
    try:
        promise, n_units = Promise(*meta["promise"]), int(meta["units"])
        hierarchy = Hierarchy([(a, b) for a, b in meta["edges"]], labels=meta["labels"])
        tests = Tests(*(arrays[f"test_{name}"] for name in Tests._fields))
        plan = Plan(promise, arrays["probability"], arrays["order"], float(meta["rho"]), tests)
        listed = Listed(arrays["unit"], arrays["score"], arrays["needed"], n_units)
        samples = json.loads(arrays["samples"].tobytes())
        correct = np.full(listed.unit.size, NOT_CHECKED, dtype=np.int8)
        audit = Audit(
            hierarchy, samples, plan, [], listed, arrays["sample"], arrays["label"], correct
        )
        is_same = audit.fingerprint == meta["fingerprint"]
    except (KeyError, TypeError, ValueError, IndexError):
        is_same = False
    if not is_same:
        raise FileError(f"{path}: the plan of this audit is damaged or was changed.")
    log = read_log(path)
    audit.horizons = [entry["checks"] for entry in log if "checks" in entry]
    answers = [(e["sample"], *item) for e in log if "sample" in e for item in e["correct"].items()]
    columns = zip(*answers, strict=True) if answers else ((), (), ())
    return audit.record(dict(zip(("sample", "label", "correct"), map(list, columns), strict=True)))
