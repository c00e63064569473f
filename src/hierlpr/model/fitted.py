"""A fitted model of scores: its steps on aligned tables, and the parts of its fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import Matrix
from hierlpr.cutoff import set_values, sets
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.instances import holds_at, list_instances
from hierlpr.cutoff.outcome import DEFAULT_CUTOFF, Cutoff
from hierlpr.cutoff.sets import CallSets, SetRule
from hierlpr.data.duplicates import SampleKeys
from hierlpr.data.folds import draw_samples, sample_limit
from hierlpr.data.listed import Kind
from hierlpr.data.tables import Table
from hierlpr.data.truth import implied_share
from hierlpr.exceptions import HierlprError, UnreachableWarning, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.roll_up import RollUp
from hierlpr.joint import JointModel, end_posterior, learn_depth_weights
from hierlpr.lpr import ImpliedLPR, LPRModel, fit_known, fit_listed, own_lpr
from hierlpr.lpr.comparison import SampleSummary, find_difference
from hierlpr.lpr.drift import Drift, compare_scores
from hierlpr.lpr.label_shift import CHANCE_TILT
from hierlpr.model.inputs import LabelledSamples, new_scores
from hierlpr.ranking.blocks import block_scores

Index = NDArray[np.intp]
Float = NDArray[np.float64]
# From this mean weight of other labels' evidence on, prevalences are estimated jointly.
JOINT_SHIFT_WEIGHT = 0.8
# Weights of depths are learned from this many instances, but at least this many samples.
PATH_INSTANCES, PATH_SAMPLES = 2**19, 500


class FittedModel:
    """What `HierLPR.fit` learned, and what can be done with tables in the order of its labels."""

    hierarchy_: Hierarchy
    lpr_: LPRModel
    joint_: JointModel | None
    path_weight_: Float | None
    implied_: ImpliedLPR | None
    profile_: LevelProfile | None
    cutoff_: Cutoff
    sets_: SetRule | None
    keys_: dict[str, SampleKeys]  # of the samples used for "fit", "cutoff" and "sets"
    sample_summary_: SampleSummary | None
    leaves_: RollUp | None = None  # how scores of leaves were rolled up, if that was needed
    path_style_: dict[str, Any] | None = None  # ranks of labels, and how a tool writes paths

    # Parameters of `HierLPR`.
    hierarchy: Any
    lpr: Any
    missing_scores: str
    n_jobs: int | None

    @property
    def kind_(self) -> Kind:
        """The kind of scores that was fitted on."""
        return "complete" if self.implied_ is None else "listed"

    # -- from scores to LPRs and block scores ------------------------------------------------------

    def aligned_scores(self, scores: Any) -> Table:
        """Return checked scores of the kind of the fit, in the order of the labels."""
        check_is_fitted(self)
        options: dict[str, Any] = {"missing_scores": self.missing_scores, "leaves": self.leaves_}
        return new_scores(scores, self.hierarchy_, self.kind_, **options)

    def lprs(self, table: Table) -> Table:
        """Return the LPRs of an aligned table; the only place where the joint posterior enters."""
        implied, options = self.implied_, {"n_jobs": self.n_jobs}
        if self.joint_ is None or (implied is not None and not self.joint_.is_used):
            lpr = own_lpr(self.lpr_, table.values, **options)
            if implied is not None:
                lpr = implied.close(lpr, self.hierarchy_, **options)
        else:
            lpr = self.lpr_.curves.evaluate(table.values, **options)
            absent = None if implied is None else implied.absent
            lpr = self.joint_.transform(lpr, absent=absent, **options)
        if not isinstance(lpr, np.ndarray):
            lpr.sort_indices()
        return Table(lpr, table.labels, table.samples, table.backend)

    def block_scores(self, table: Table, lpr: Table | None = None) -> Matrix:
        """Return the block scores of an aligned table, or of its LPRs, as a plain matrix."""
        lpr = self.lprs(table) if lpr is None else lpr
        return cast(Matrix, block_scores(lpr, self.hierarchy_, n_jobs=self.n_jobs))

    def calls(self, table: Table, cutoff: Cutoff) -> tuple[Any, Matrix]:
        """Return the calls of an aligned table at a cutoff, and its block scores."""
        lpr = self.lprs(table)
        score = self.block_scores(table, lpr)
        return decide(score, cutoff, self.hierarchy_, lpr.values), score

    def cutoff_in_use(self, target: float | None = None) -> Cutoff:
        """Return the cutoff in use; warn if it was not calibrated or does not reach its target."""
        cutoff = self.cutoff_ if target is None else self.cutoff_.for_target(target)
        if cutoff.goal.kind == "default":
            hint = "Hint: set a target with calibrate, or with HierarchicalClassifier(fdr=0.1)."
            warn(f"{cutoff}\n{hint}")
        elif not cutoff.reachable:
            warn(cutoff.reason, UnreachableWarning)
        return cutoff

    # -- comparison with the fit -------------------------------------------------------------------

    def difference_note(self, table: Table) -> str:
        """Say how scores differ from those of the fit, and what follows; empty if they do not."""
        h, summary = self.hierarchy_, self.sample_summary_
        difference = find_difference(self.lpr_, table.values, h, summary)
        note = "What the model promises holds for scores like those of the fit."
        return f"{difference} {note}" if difference else ""

    def warn_of_difference(self, table: Table) -> None:
        """Warn if the scores differ from those of the fit; for single samples, once per model."""
        if table.n_samples == 1 and self in _compared_one:
            return
        if table.n_samples == 1:
            _compared_one.add(self)
        if note := self.difference_note(table):
            warn(note)

    def compare_with_fit(self, table: Table, chance: float = CHANCE_TILT) -> Drift:
        """Compare scores with those of the fit; expected prevalences respect the hierarchy."""
        hierarchy, joint = self.hierarchy_, self.joint_
        limit = sample_limit(table.n_samples, hierarchy) // 4
        drawn = draw_samples(table.n_samples, limit, rng=0)
        is_joint = joint is not None and joint.tempering.others.mean() >= JOINT_SHIFT_WEIGHT
        values = table.rows(drawn).values
        return compare_scores(self.lpr_, values, hierarchy, joint=is_joint, chance=chance)

    # -- sets, and one name per sample -------------------------------------------------------------

    def set_rule(self) -> SetRule:
        """Return what `calibrate_sets` learned; raise if it was not called."""
        check_is_fitted(self)
        if self.sets_ is None:
            raise HierlprError(
                "The model has no sets of sure and possible labels.\n"
                "Hint: call calibrate_sets(X, y, error=0.1) with samples not used to fit, or fit "
                "the files with sets={'error': 0.1} (hierlpr fit with an error)."
            )
        return self.sets_

    def choose_set_rule(
        self, samples: LabelledSamples, error: float, confidence: float | None, *, one_path: bool
    ) -> SetRule:
        """Choose the thresholds of the sets on calibration samples."""
        table, truth = samples.table, samples.truth
        floor = set_values.least_chance(error)
        options: dict[str, Any] = {"error": error, "confidence": confidence, "floor": floor}
        if one_path and table.n_stored is not None:
            paths = set_values.likely_paths(self.block_scores(table), self.hierarchy_)
            return sets.choose_path_rule(paths, truth, **options)
        values = self._set_values(table, one_path=one_path, floor=floor)
        return sets.choose_sets(values, truth, one_path=one_path, **options)

    def sets_on(self, table: Table, score: Matrix | None = None) -> CallSets:
        """Return the sets of an aligned table; `score` are its block scores, if available."""
        h, rule, is_sparse = self.hierarchy_, self.set_rule(), table.n_stored is not None
        if is_sparse and rule.one_path:
            paths = set_values.likely_paths(self.block_scores(table) if score is None else score, h)
            return sets.path_sets(paths, table.n_samples, h, rule, samples=table.samples)
        values = self._set_values(table, one_path=rule.one_path, floor=rule.floor, score=score)
        return sets.call_sets(values(), h, rule, samples=table.samples, as_sparse=is_sparse)

    def _set_values(
        self, table: Table, *, one_path: bool, floor: float, score: Matrix | None = None
    ) -> Callable[[], Iterator[set_values.SetValues]]:
        """Return a function that computes, in parts, the values compared with the thresholds."""
        h = self.hierarchy_
        if not one_path:
            score = self.block_scores(table) if score is None else score
            return partial(set_values.many_label_values, score, h, floor)
        lpr = np.asarray(own_lpr(self.lpr_, table.values, n_jobs=self.n_jobs))
        ends = end_posterior(lpr, self.lpr_.report.base_rate, h, self.path_weight_)
        return partial(set_values.one_path_values, ends, h, floor)

    def name_samples(self, table: Table, score: Any = None) -> tuple[Index, Float]:
        """Return the deepest trusted label of each sample (-1 for none) and its block score.

        Trusted are sure labels if the model has sets, else calls. If samples have one path of
        labels, only the most likely one of those listed counts. `score` has the block scores, if
        available.
        """
        score = self.block_scores(table) if score is None else score
        h, rule = self.hierarchy_, self.sets_
        if rule is None and self.cutoff_.goal.kind == "default":
            raise HierlprError(
                "The model does not know which labels can be trusted.\n"
                "Hint: first call calibrate_sets(scores, truth, error=0.1, one_path=True), or "
                "calibrate, with samples not used to fit."
            )
        if rule is not None and not (rule.one_path and table.n_stored is not None):
            label = sets.deepest_sure(self.sets_on(table, score), h)
            row = np.arange(label.size)
            return label, np.where(label >= 0, np.asarray(score[row, label]).ravel(), 0.0)
        paths, n = set_values.likely_paths(score, h), table.n_samples
        if rule is not None:
            entry = sets.trusted_entries(paths, n, rule)
        else:
            calls, _ = self.calls(table, self.cutoff_)
            entry = paths.last(holds_at(calls, paths.sample, paths.label), n)
        label, chance = np.append(paths.label, -1), np.append(paths.chance, 0.0)
        return label[entry], chance[entry]

    def warn_of_no_names(self) -> None:
        """Warn if no label can be trusted, so that every sample stays without a name."""
        rule, cutoff = self.sets_, self.cutoff_
        if rule is None and not cutoff.reachable:
            hint = (
                "calibrate_sets(X, y, error=0.1, one_path=True) learns which names can be trusted."
            )
            warn(f"No sample gets a name: {cutoff.reason}\nHint: {hint}", UnreachableWarning)
        elif rule is not None and rule.sure_level is None:
            least = sets.least_samples(rule.error, rule.confidence)
            had = f"calibrate_sets had {rule.n_samples:,} samples"
            why = f"{had}, and an error of {rule.error:g} needs at least {least:,}."
            if rule.n_samples >= least:
                why = f"their best calls are too often incorrect for an error of {rule.error:g}."
            warn(f"No sample gets a name: {why}", UnreachableWarning)

    def rank_names(self) -> tuple[str, ...]:
        """Return the rank of each label, such as "genus"; "depth 2" if it has no name."""
        ranks = (self.path_style_ or {}).get("ranks", {})
        named = zip(self.hierarchy_.labels, self.hierarchy_.levels.tolist(), strict=True)
        return tuple(ranks.get(label) or f"depth {depth}" for label, depth in named)

    def forget_cutoff(self) -> None:
        """Reset the cutoff to the default, and drop the sets, the profile and their samples."""
        self.cutoff_, self.sets_, self.profile_ = DEFAULT_CUTOFF, None, None
        self.keys_ = {name: keys for name, keys in self.keys_.items() if name == "fit"}

    # -- parts of a fit ----------------------------------------------------------------------------

    def fit_curves(
        self, samples: LabelledSamples, hierarchy: Hierarchy, **options: Any
    ) -> tuple[LPRModel, ImpliedLPR | None]:
        """Return the curves of the labels and, for listed scores, those of implied labels."""
        options |= {"method": self.lpr, "n_jobs": self.n_jobs}
        options["sample_weight"] = samples.relative_weight
        values, truth = samples.table.values, samples.truth
        if isinstance(values, np.ndarray):
            return fit_known(values, truth, hierarchy, **options), None
        return fit_listed(values, truth, hierarchy, **options)

    def fit_depth_weights(self, samples: LabelledSamples) -> Float | None:
        """Return the weight of each depth where samples have one path of labels."""
        h = self.hierarchy_
        table, truth, weight, _ = samples.drawn(max(PATH_SAMPLES, PATH_INSTANCES // h.n_labels))
        rates = own_lpr(self.lpr_, table.values)
        return learn_depth_weights(rates, truth, self.lpr_.report.base_rate, h, weight)

    def fit_profile(self, samples: LabelledSamples) -> LevelProfile:
        """Return the profile of block scores; drawn samples may cost power, never validity."""
        h, share = self.hierarchy_, None
        table, truth, weight, _ = samples.drawn(
            sample_limit(samples.table.n_samples, h, samples.table.n_stored)
        )
        if not truth.is_complete:
            share = implied_share(truth, h, weight)
            truth = truth.evaluated(h, share=share)
        instances = list_instances(self.block_scores(table), truth, weight)
        return replace(LevelProfile.of(instances), implied_share=share)


_compared_one: WeakSet[FittedModel] = WeakSet()  # models that have compared a single sample
