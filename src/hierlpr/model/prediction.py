"""What models of scores and of features do with samples that they were not fitted on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hierlpr._utils.checks import check_fraction
from hierlpr._utils.display import html_card
from hierlpr.audit import Audit, start_audit
from hierlpr.cutoff.decisions import Groups, LabelCall, call_lists
from hierlpr.cutoff.goal import Goal
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.sets import CallSets
from hierlpr.data.clusters import cluster_numbers
from hierlpr.data.frames import in_container_of, new_frame
from hierlpr.data.tables import Table, dense
from hierlpr.exceptions import DataError
from hierlpr.lpr.drift import Drift
from hierlpr.metrics import au_prc_score
from hierlpr.model.explain import Explanation, explain_sample
from hierlpr.model.fitted import FittedModel
from hierlpr.model.inputs import LabelledSamples, check_leakage, refuse_unknown_samples
from hierlpr.ranking.order import Ranking, rank

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR


class Predictor:
    """The methods that `HierLPR` and `HierarchicalClassifier` share; `X` is what each takes."""

    propagate_truth: bool
    _returns_samples: ClassVar[bool] = True  # whether frames have the column "sample" of X

    @property
    def _fitted(self) -> HierLPR:
        """The fitted model of scores."""
        raise NotImplementedError

    def score_table(self, X: Any) -> Any:
        """Return scores in a form that the model of scores takes."""
        raise NotImplementedError

    def _scored(self, X: Any) -> tuple[HierLPR, Table]:
        """Return the fitted model of scores, and the checked scores of the samples."""
        model = self._fitted
        return model, model.aligned_scores(self.score_table(X))

    def _labelled(self, X: Any, y: Any, **options: Any) -> tuple[HierLPR, LabelledSamples]:
        """Return the fitted model of scores, and checked samples with their truth."""
        model, table = self._scored(X)
        options |= {"propagate_truth": self.propagate_truth, "is_first": False}
        return model, LabelledSamples.of(table, y, model.hierarchy_, **options)

    def _compared(self, X: Any) -> tuple[HierLPR, Table]:
        """Return model and scores, and warn if these differ from those of the fit."""
        model, table = self._scored(X)
        model.warn_of_difference(table)
        return model, table

    def _repr_html_(self) -> str:
        model: Any = getattr(self, "model_", self)
        if not hasattr(model, "cutoff_"):
            return str(super()._repr_html_())  # type: ignore[misc]
        joint, n = model.joint_, model.keys_["fit"].n_samples if "fit" in model.keys_ else 0
        rows = [
            ("labels", repr(model.hierarchy_)),
            ("fitted on", f"{n:,} samples with {model.kind_} scores"),
            ("joint", "LPRs of single scores" if joint is None else joint.describe()),
            ("cutoff", str(model.cutoff_)),
            ("sets", "none" if model.sets_ is None else str(model.sets_)),
        ]
        return html_card(repr(self), "", ("part", "what it is"), rows)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def use_target(self, target: float) -> Self:
        """Select one of several calibrated targets for all decisions; see ``cutoff_``."""
        model = self._fitted
        model.cutoff_ = model.cutoff_.for_target(target)
        return self

    def set_cutoff(self, level: float) -> Self:
        """Set the cutoff to a block score of your choice, from 0 to 1; nothing is promised."""
        model = self._fitted
        model.cutoff_ = Cutoff(check_fraction(level, name="level"), Goal("by hand"))
        model.keys_ = {name: keys for name, keys in model.keys_.items() if name != "cutoff"}
        return self

    def calibrate_sets(
        self,
        X: Any,
        y: Any,
        *,
        error: float = 0.1,
        confidence: float | None = None,
        one_path: bool = False,
        clusters: Any = None,
    ) -> Self:
        """Choose which labels of a sample are *sure* and which are *possible*.

        Parameters
        ----------
        X, y : matrices or data frames
            As in `fit`, of other samples.
        error : float
            At most this share of new samples has a sure label that is false. Separately, at most
            this share has a true label that is not possible.
        confidence : float, optional
            By default the shares are averages over calibration and new samples. With a confidence,
            they hold for new samples given this calibration, with that probability.
        one_path : bool
            Every sample has at most one path of labels, as in a taxonomy: siblings then exclude
            each other, and more labels are sure. The promises hold even if this is wrong, with
            smaller sets. Complete scores need a forest; for listed scores see `assign`.
        clusters : as in `fit`, optional
            The promise is then about a random sample of a new cluster.
        """
        model, samples = self._labelled(X, y, clusters=clusters)
        refuse_unknown_samples(samples.truth)
        keys, caveats = check_leakage(samples, model.keys_.get("fit"))
        rule = model.choose_set_rule(samples, error, confidence, one_path=one_path)
        model.sets_, model.keys_ = rule.with_caveats(caveats), {**model.keys_, "sets": keys}
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the block scores: comparable across labels, and no child above a parent.

        They are a matrix with one column per label, or a data frame if `X` is one.
        """
        model, table = self._compared(X)
        labels, score = model.hierarchy_.labels, model.block_scores(table)
        return in_container_of(X, score, labels, samples_column=self._returns_samples)

    def rank(self, X: Any, *, top: int | None = None, weight: Any = None) -> Ranking:
        """Rank all (sample, label) instances, the best calls first, parents before children."""
        model, table = self._compared(X)
        lpr = model.lprs(table)
        return rank(lpr, model.hierarchy_, top=top, weight=weight, n_jobs=model.n_jobs)

    def predict(self, X: Any, *, target: float | None = None) -> Any:
        """Return the calls at `cutoff_`: a bool matrix or data frame, closed upward.

        `target` selects one of several calibrated targets for this call.
        """
        model, table = self._compared(X)
        calls, _ = model.calls(table, model.cutoff_in_use(target))
        labels = model.hierarchy_.labels
        return in_container_of(X, calls, labels, samples_column=self._returns_samples)

    def call_lists(self, X: Any) -> list[tuple[LabelCall, ...]]:
        """Return the calls of each sample as a list, best first, with their block scores.

        After `calibrate_sets`, each call also says whether it is sure, possible or neither ("no").
        """
        model, table = self._compared(X)
        calls, score = model.calls(table, model.cutoff_in_use())
        sets = None if model.sets_ is None else model.sets_on(table, score).codes()
        return call_lists(calls, score, model.hierarchy_, sets=sets)

    def predict_sets(self, X: Any) -> CallSets:
        """Return the sure and the possible labels of every sample; see `calibrate_sets`."""
        model, table = self._compared(X)
        return model.sets_on(table)

    def assign(self, X: Any) -> Any:
        """Name every sample by the deepest label that can be trusted.

        Returns a data frame with the columns sample, label (None where none can be trusted), rank
        and chance, the block score. Trusted are the sure labels of `calibrate_sets` or, without it,
        the calls at the cutoff. Of `HierLPR`, an ``AnnData`` gives a copy with the answer in obs.
        """
        if isinstance(self, FittedModel) and hasattr(X, "obs_names"):
            from hierlpr.model.new_names import assign_anndata  # reads predictions

            return assign_anndata(self, X)
        model, table = self._compared(X)
        label, chance = model.name_samples(table)
        model.warn_of_no_names()
        columns = {
            "sample": np.array(table.samples or range(label.size)),
            "label": np.array([*model.hierarchy_.labels, None], dtype=object)[label],
            "rank": np.array([*model.rank_names(), None], dtype=object)[label],
            "chance": np.where(label >= 0, chance, np.nan),
        }
        return new_frame(columns, table.backend)

    def explain(self, X: Any, sample: int | str = 0) -> Explanation:
        """Explain why each label of one sample is called or not.

        `sample` is its row, or its name if the samples have names.
        """
        return explain_sample(*self._scored(X), sample)

    def score(self, X: Any, y: Any, sample_weight: Any = None, clusters: Any = None) -> float:
        """Return AU(PRC) of the block scores, pooled over all evaluated instances.

        `sample_weight` is as in `fit`. With `clusters` instead, all clusters count equally.
        """
        options = {"sample_weight": sample_weight, "clusters": clusters}
        model, (table, truth, weight, _) = self._labelled(X, y, **options)
        if weight is not None and truth.cluster is not None:
            raise DataError("score takes either sample_weight or clusters.")
        if (number := truth.cluster_number) is not None:
            weight = 1.0 / np.bincount(number)[number]
        cells = truth.evaluated(model.hierarchy_, weight).cells
        return float(au_prc_score(cells, dense(model.block_scores(table)), sample_weight=weight))

    def check(self, X: Any, *, clusters: Any = None) -> Drift:
        """Compare new scores with those of the fit, per label and as text.

        Of each of the `clusters`, one sample drawn at random is compared.
        """
        model, table = self._scored(X)
        number = cluster_numbers(clusters, table)
        if number is not None:
            drawn = np.random.default_rng(0).permutation(number.size)
            table = table.rows(np.sort(drawn[np.unique(number[drawn], return_index=True)[1]]))
        drift = model.compare_with_fit(table)
        return drift if number is None else replace(drift, one_per_cluster=True)

    def audit(
        self,
        X: Any,
        *,
        precision: float | None = None,
        error: float | None = None,
        confidence: float = 0.9,
        checks: int = 100,
        groups: Groups | None = None,
        clusters: Any = None,
        random_state: Any = 0,
    ) -> Audit:
        """Certify calls on a population without truth, by checking a few of its samples.

        Parameters
        ----------
        X : matrix or data frame
            The population: of any origin, because the promise does not depend on the model.
        precision : float
            Target share of correct calls among those that will be certified; 0.9 by default.
        error : float, optional
            Instead, for one name per sample (the deepest label of its most likely path): at most
            this share of the samples has a wrong one.
        confidence : float
            Probability, over the draw of the samples to check, with which it is reached.
        checks : int
            Number of samples that you plan to check; more can follow.
        groups : {"depth", "tree", "label"} or mapping of label to group, optional
            The target holds for the calls of each group; all groups share the checks.
        clusters : array-like or mapping, optional
            One id per sample: clusters are drawn and checked as a whole.
        random_state : int, Generator or None
            Of the draw.

        Returns
        -------
        Audit
            ``to_check()`` lists what to check, ``record(answers)`` takes the answers, ``calls()``
            are certified by them.
        """
        model, table = self._scored(X)
        return start_audit(
            model.block_scores(table),
            model.hierarchy_,
            samples=table.samples,
            precision=precision,
            error=error,
            confidence=confidence,
            checks=checks,
            groups=groups,
            clusters=cluster_numbers(clusters, table),
            random_state=random_state,
        )
