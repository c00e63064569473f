"""HierLPR: the model of scores as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import TargetTags
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from hierlpr._base import constructor_only
from hierlpr._base.checks import is_sparse
from hierlpr._base.showing import plain
from hierlpr.io.hierarchies import HierarchyLike
from hierlpr.model.core import ScoreModel


class ShownEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that tells in notebooks, below its parameters, what it has learned."""

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._learned_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {k: v + self._learned_html() * (k == "text/html") for k, v in bundle.items()}

    def _learned_html(self) -> str:
        try:
            lines = self.summary().splitlines()
        except NotFittedError:
            return ""
        return f"<p>{'<br>'.join(escape(plain(line)) for line in lines)}</p>"


@constructor_only
@dataclass(eq=False, repr=False, match_args=False)
class HierLPR(TransformerMixin, ShownEstimator, ScoreModel):  # type: ignore[misc]
    """Turn classifier scores into comparable scores, one ranking, and calls that fit a hierarchy.

    Parameters
    ----------
    hierarchy : Hierarchy, path, dict, edges or networkx graph, optional
        The labels and what implies what; what is no `Hierarchy` becomes one, see
        :func:`hierlpr.io.as_hierarchy`. None: the labels stand alone.
    lpr : str or estimator
        How local precision rates are estimated; see :func:`hierlpr.lpr.fit_lpr`.
    joint : bool or "auto"
        Whether a label's probability uses the scores of all labels of its sample. True: the joint
        posterior as it is, right if scores are independent given the labels. ``"auto"``: as far as
        held-out samples support it; see ``joint_.describe()`` and ``docs/joint.md``.
    close_truth : bool
        Add missing ancestors to the truth, counted in a warning, instead of refusing it.
    missing : {"error", "allow"}
        Whether scores may be NaN. A missing score says nothing: its LPR is the prevalence, or with
        `joint` what the sample's other scores make of it.
    n_threads : int, optional
        Threads for fitting and ranking; no result depends on it.
    verbose : bool, optional
        Whether to tell on stderr how far fitting is; by default on a terminal only.

    Attributes
    ----------
    hierarchy_ : Hierarchy
    lpr_ : LPRModel
        One curve from score to LPR a label, with diagnostics.
    joint_ : JointModel or None
        How the scores of a sample are used together; None with ``joint=False``.
    path_weight_ : ndarray or None
        How much the scores of each depth tell of where the one path of a sample ends, for
        ``calibrate_sets(one_path=True)``; None where samples have no or more than one path.
    kind_ : {"complete", "listed"} or None
        The kind of scores it is for; None if its file is too old to tell.
    implied_ : ImpliedLPR or None
        LPRs of labels that are not listed but a label below them is; None for complete scores.
    cutoff_ : Cutoff
        Where `predict` cuts; 0.5 until `calibrate` has been called.

    Notes
    -----
    Matrices are (samples x labels). Arrays and CSR go by position in ``hierarchy.labels``, data
    frames (pandas, Polars, Arrow) by column name in any order. Dense scores are complete; CSR
    scores are listed: a pair that is absent is never called, unless a label below it is listed. A
    model takes the kind it was fitted on and refuses the other (``docs/model.md``).

    Examples
    --------
    >>> from hierlpr import simulate
    >>> fit, rest = simulate.train_test(1, rng=0)
    >>> model = HierLPR(fit.hierarchy).fit(fit.scores, fit.truth)
    >>> model.calibrate(rest.scores, rest.truth, precision=0.9).cutoff_.reachable
    True
    >>> calls = model.predict(rest.scores)
    >>> len(fit.hierarchy.violations(calls))
    0
    """

    hierarchy: HierarchyLike | None = None
    _: KW_ONLY
    lpr: Any = "auto"
    joint: bool | str = "auto"
    close_truth: bool = False
    missing: str = "error"
    n_threads: int | None = None
    verbose: bool | None = None

    # Scores and truth stand where scikit-learn has X and y: they are no metadata to route.
    __metadata_request__fit = {"scores": UNUSED, "truth": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"scores": UNUSED, "truth": UNUSED}  # noqa: RUF012
    __metadata_request__transform = {"scores": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"scores": UNUSED}  # noqa: RUF012
    __metadata_request__predict_proba = {"scores": UNUSED}  # noqa: RUF012

    def transform(self, scores: Any) -> Any:
        """Return the local precision rate of every score.

        Of listed scores, those of the labels listed and of their ancestors, as CSR. With `joint`,
        it is P(label | all scores of the sample). A data frame gives one of its own library, or
        what ``set_output`` asks for.
        """
        # Defined here because scikit-learn wraps, for `set_output`, what the class itself defines.
        out = ScoreModel.transform(self, scores)
        if _get_output_config("transform", self)["dense"] == "default" or is_sparse(out):
            return out
        return self.lprs(self._input(scores)).values if not isinstance(out, np.ndarray) else out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the labels, one for each column of `transform`."""
        check_is_fitted(self, "n_features_in_")
        given = _check_feature_names_in(self, input_features)
        if input_features is not None and not hasattr(self, "feature_names_in_"):
            return np.asarray(given, dtype=object)
        return np.array(self.hierarchy_.labels, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags = TargetTags(required=True, multi_output=True, single_output=False)
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "allow"
        return tags
